"""The process that indexes the files of a task before Spark commits them.

``IndexingCommitProtocol`` starts it.

A request has three fields between NUL characters: the indexes, the URI of the file, and its final path. The
answer is an `IndexedFile` in JSON. An index on a column that the file lacks is noted and left out, because
the settings of a session apply to all of its tables.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from intarsia.embed.attach import attach_file, attach_to
from intarsia.embed.report import IndexedFile, Note
from intarsia.embed.structures import STANDARD, Attachable
from intarsia.errors import ColumnNotFoundError, PredicateError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.predicate.columns import find_column
from intarsia.spark.listing import python_path
from intarsia.spark.serving import serve_standard_streams
from intarsia.spark.shipping import indexes_from_text
from intarsia.storage import local_path
from intarsia.storage.source import ByteSource
from intarsia.storage.target import PrivateFile, find_target


def index_before_commit(request: str) -> str:
    """Answer a request.

    Raises:
        Exception: If the file cannot be indexed. The JVM then restores it, as it does if this process dies.
    """
    started = time.perf_counter()
    text, uri, shown = request.split("\0")
    requested = indexes_from_text(text)
    name = python_path(uri)
    shown = python_path(shown)
    local = local_path(name)
    if local is not None:
        target = PrivateFile(local, shown)
        chosen, notes = _for_columns(target.open(), requested)
        report = attach_to(target, chosen) if chosen else None
        before = target.size
    else:
        try:
            chosen, notes = _for_columns(find_target(name).open(), requested)
        except FileNotFoundError:
            raise UnsupportedFeatureError(
                f"{shown}: the committer hides the file until the job commits; index the folder afterwards, "
                "with intarsia.spark.index",
                reason="hidden-until-commit",
                path=shown,
            ) from None
        report = attach_file(name, chosen) if chosen else None
        before = report.bytes_before if report else 0
    outcome = IndexedFile(shown, before, before) if report is None else IndexedFile.of(report)
    missing = tuple(
        {key: value for key, value in asdict(note).items() if value is not None} for note in notes
    )
    seconds = time.perf_counter() - started
    return replace(outcome, path=shown, notes=outcome.notes + missing, seconds=seconds).to_json()


def _for_columns(source: ByteSource, requested: Sequence[Attachable]) -> tuple[list[Attachable], list[Note]]:
    """Return the indexes whose columns the file has, and notes on the others."""
    with ParquetInput(source) as file:
        schema = file.arrow_schema
    chosen: list[Attachable] = []
    notes: list[Note] = []
    for index in requested:
        columns = index.columns
        try:
            for column in columns:
                find_column(schema, column)
        except PredicateError:  # it exists; the index decides whether it can be built
            chosen.append(index)
        except ColumnNotFoundError as error:
            name = index.name if isinstance(index, STANDARD) else index.kind
            notes.append(Note(error.column, None, name, "the file has no such column", str(error.reason)))
        else:
            chosen.append(index)
    return chosen, notes


if __name__ == "__main__":
    serve_standard_streams(index_before_commit)
