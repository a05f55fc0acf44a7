"""Processes that answer requests of the JVM: ``python -m intarsia.spark.serving KIND``.

The other side is ``PythonProcess.java``. The kinds ``planner`` and ``procedures`` serve sessions without a
Python driver; ``writes`` adds indexes to a file that a task has written, before the task commits it.
"""

from __future__ import annotations

import gc
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from intarsia.embed.attach import attach_file, attach_to
from intarsia.embed.report import IndexedFile, Note
from intarsia.embed.structures import STANDARD, Attachable
from intarsia.errors import ColumnNotFoundError, PredicateError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.predicate.columns import find_column
from intarsia.spark.listing import python_path
from intarsia.spark.shipping import indexes_from_text
from intarsia.spark.skipping import SkippingPlanner
from intarsia.spark.spark_stores import options_of_store
from intarsia.storage import local_path, offered_options
from intarsia.storage.source import ByteSource
from intarsia.storage.target import PrivateFile, find_target

_REQUEST = struct.Struct(">ii")
_REPLY = struct.Struct(">ici")

#: In the paths of the files of S3A's magic committer, which are uploads that the job completes.
_MAGIC = "/__magic"


def serve_standard_streams(answer: Callable[[str], str], *, at_once: bool = False) -> None:
    """Answer requests until their stream ends, in a process that does nothing else.

    Each request in the standard input is its number and its length, four bytes each, and UTF-8. Each reply is
    the number of its request, ``A`` for an answer or ``E`` for an error, and the length and the text in the
    same form.

    Args:
        answer: Answers a request. The message of an exception is the reply.
        at_once: Whether requests are answered at the same time, in any order.
    """
    # other output must not mix with the replies
    requests, replies, lock = sys.stdin.buffer, os.fdopen(os.dup(1), "wb"), threading.Lock()
    os.dup2(2, 1)
    gc.freeze()  # so that no collection during a request looks at all modules

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


def index_before_commit(request: str) -> str:
    """Answer a request: the indexes, the path of the file, its final path, and the settings of its store.

    Raises:
        Exception: If the file cannot be indexed. The JVM then restores it, as it does if this process dies.
    """
    started = time.perf_counter()
    text, uri, shown, store = request.split("\0")
    name, shown = (python_path(path, decode=False) for path in (uri, shown))
    with offered_options(options_of_store(name, store)):
        return _indexed(name, shown, indexes_from_text(text), started)


def _indexed(name: str, shown: str, requested: Sequence[Attachable], started: float) -> str:
    local = local_path(name)
    if local is not None:
        target = PrivateFile(local, shown)
        chosen, notes = _for_columns(target.open(), requested)
        report = attach_to(target, chosen) if chosen else None
        before = target.size
    else:
        try:
            if _MAGIC in name:  # an empty object is in its place
                raise FileNotFoundError(name)
            chosen, notes = _for_columns(find_target(name).open(), requested)
        except FileNotFoundError:
            raise UnsupportedFeatureError(
                "the committer hides the file until the job commits; index the folder afterwards, with "
                "intarsia.spark.index",
                reason="hidden-until-commit",
                path=shown,
            ) from None
        report = attach_file(name, chosen) if chosen else None
        before = report.bytes_before if report else 0
    outcome = IndexedFile(shown, before, before) if report is None else IndexedFile.of(report)
    missing = tuple(note.to_dict() for note in notes)
    seconds = time.perf_counter() - started
    return replace(outcome, path=shown, notes=outcome.notes + missing, seconds=seconds).to_json()


def _for_columns(source: ByteSource, requested: Sequence[Attachable]) -> tuple[list[Attachable], list[Note]]:
    """Return the indexes whose columns the file has, and notes on the others."""
    with ParquetInput(source) as file:
        schema = file.arrow_schema
    chosen: list[Attachable] = []
    notes: list[Note] = []
    for index in requested:
        try:
            with suppress(PredicateError):  # it exists; the index decides whether it can be built
                for column in index.columns:
                    find_column(schema, column)
        except ColumnNotFoundError as error:  # noqa: PERF203  each index has its own note
            name = index.name if isinstance(index, STANDARD) else index.kind
            notes.append(Note(error.column, None, name, "the file has no such column", str(error.reason)))
        else:
            chosen.append(index)
    return chosen, notes


def main() -> None:
    """Answer the requests of the standard input."""
    if sys.argv[1] == "planner":
        serve_standard_streams(SkippingPlanner().answer, at_once=True)
    elif sys.argv[1] == "procedures":
        from intarsia.spark.procedures import connected

        serve_standard_streams(connected(), at_once=True)
    else:
        serve_standard_streams(index_before_commit)


if __name__ == "__main__":
    main()
