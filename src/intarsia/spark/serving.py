"""The loop of a process that answers requests of the JVM; the other side is ``PythonProcess.java``."""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

_REQUEST = struct.Struct(">ii")
_REPLY = struct.Struct(">ici")


def serve(
    answer: Callable[[str], str], requests: BinaryIO, replies: BinaryIO, *, at_once: bool = False
) -> None:
    """Answer requests until their stream ends.

    Args:
        answer: Answers a request. The message of an exception is the reply.
        requests: Each request is its number and its length, four bytes each, and UTF-8.
        replies: Each reply is the number of its request, ``A`` for an answer or ``E`` for an error, and the
            length and the text in the same form.
        at_once: Whether requests are answered at the same time, in any order.
    """
    lock = threading.Lock()

    def reply(number: int, request: str) -> None:
        try:
            kind, text = b"A", answer(request)
        except Exception as error:  # noqa: BLE001  reported to the JVM, which decides what to do
            kind, text = b"E", f"{type(error).__name__}: {error}"
        data = text.encode()
        with lock:
            replies.write(_REPLY.pack(number, kind, len(data)) + data)
            replies.flush()

    while len(head := requests.read(_REQUEST.size)) == _REQUEST.size:
        number, length = _REQUEST.unpack(head)
        request = requests.read(length).decode()
        if at_once:
            # a thread that hangs must not keep the process alive
            threading.Thread(target=reply, args=(number, request), daemon=True).start()
        else:
            reply(number, request)


def serve_standard_streams(answer: Callable[[str], str], *, at_once: bool = False) -> None:
    """Answer the requests in the standard input, in a process that does nothing else."""
    # other output must not mix with the replies
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(answer, sys.stdin.buffer, replies, at_once=at_once)
