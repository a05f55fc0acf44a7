"""The loop of a process that answers requests of the JVM; the other side is ``PythonProcess.java``."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from typing import BinaryIO

_LENGTH = struct.Struct(">i")


def serve(answer: Callable[[str], str], requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until their stream ends.

    Args:
        answer: Answers a request. The message of an exception is the reply.
        requests: Each request is its length as four bytes, and UTF-8.
        replies: Each reply is ``A`` for an answer or ``E`` for an error, followed by the length and the text
            in the same form.
    """
    while len(head := requests.read(_LENGTH.size)) == _LENGTH.size:
        request = requests.read(_LENGTH.unpack(head)[0]).decode()
        try:
            status, text = b"A", answer(request)
        except Exception as error:  # noqa: BLE001  reported to the JVM, which decides what to do
            status, text = b"E", f"{type(error).__name__}: {error}"
        data = text.encode()
        replies.write(status + _LENGTH.pack(len(data)) + data)
        replies.flush()


def serve_standard_streams(answer: Callable[[str], str]) -> None:
    """Answer the requests in the standard input, in a process that does nothing else."""
    # other output must not mix with the replies
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(answer, sys.stdin.buffer, replies)
