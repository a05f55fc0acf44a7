"""The task of a rewrite: it writes the sorted rows of one partition to one or more indexed files."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.embed.report import Note
from intarsia.errors import IntarsiaError, WriteError
from intarsia.lake.discovery import HIVE_NULL
from intarsia.spark.checksums import Checksums
from intarsia.spark.shipping import Shipped, unpack_index
from intarsia.write import Writer, WriteReport
from intarsia.write.sorting import SortBy

#: The result of a task: a row for each file, in JSON.
OUTCOME = "outcome string"

#: Characters that Spark escapes in the names of folders.
_ESCAPED = {chr(code) for code in range(1, 0x20)} | set("\"#%'*/:=?\\\x7f{[]^")


@dataclass(frozen=True)
class PartOptions:
    """How a task writes its rows.

    Attributes:
        folder: The folder below which each attempt writes to its own folder.
        schema: The schema of the files.
        partition_by: Names of the partition columns, whose texts follow the columns of the files.
        rows_per_file: A file with this many rows is closed, and another one is begun.
        rows_per_page: As for `intarsia.Writer`; so are the following attributes.
        compression: The codec.
        sort_by: The order of the rows.
        indexes: The indexes to embed.
    """

    folder: str
    schema: pa.Schema
    partition_by: tuple[str, ...]
    rows_per_file: int
    rows_per_page: int
    compression: str
    sort_by: SortBy | None
    indexes: tuple[Shipped, ...]


def write_parts(
    batches: Iterable[pa.RecordBatch], options: PartOptions, task: int
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one partition, which are sorted by partition columns.

    Args:
        batches: The rows: the columns of the files, the texts of the partition columns, and the hash that
            each row had when Spark read it.
        options: How to write.
        task: The ordinal of the partition, for the names of files.

    Yields:
        A row for each file and a row for the checksums of all rows, or a row for an error that another
        attempt would also raise. `outcome_of` reads it.
    """
    try:
        texts = _write_all(batches, options, task)
    except IntarsiaError as error:
        texts = [json.dumps({"error": str(error), "reason": error.reason, "column": error.column})]
    yield pa.record_batch([pa.array(texts, pa.string())], names=["outcome"])


def _write_all(batches: Iterable[pa.RecordBatch], options: PartOptions, task: int) -> list[str]:
    attempt = os.path.join(options.folder, f"{task:05}-{uuid.uuid4().hex}")
    parts = _Parts(options, attempt, task)
    width = len(options.schema)
    read = Checksums()
    with parts:
        for batch in batches:
            read += Checksums.of_hashes(batch.column(batch.num_columns - 1))
            for start, stop, folder in _runs(batch, width, options.partition_by):
                rows = pa.Table.from_batches([batch.slice(start, stop - start)]).select(list(range(width)))
                parts.write(rows.rename_columns(options.schema.names).cast(options.schema), folder)
    return [*(json.dumps(asdict(report)) for report in parts.reports), json.dumps({"read": asdict(read)})]


class _Parts:
    """The files of one attempt of a task; one of them is open at a time."""

    def __init__(self, options: PartOptions, attempt: str, task: int) -> None:
        self._options, self._attempt, self._task = options, attempt, task
        self._indexes = [unpack_index(shipped) for shipped in options.indexes]
        self._writer: Writer | None = None
        self._folder = ""
        self._num_rows = 0
        self.reports: list[WriteReport] = []

    def __enter__(self) -> _Parts:
        try:
            os.mkdir(self._attempt)
        except FileNotFoundError:
            raise WriteError(
                f"{self._options.folder}: the folder is gone, because the job has ended; run it again",
                reason="no-such-folder",
                path=self._options.folder,
            ) from None
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is None:
            self._close()
        elif self._writer is not None:
            self._writer.discard()

    def write(self, rows: pa.Table, folder: str) -> None:
        """Write rows of one partition folder."""
        while rows.num_rows:
            if (
                self._writer is None
                or folder != self._folder
                or self._num_rows >= self._options.rows_per_file
            ):
                self._close()
                self._open(folder)
            assert self._writer is not None
            piece = rows.slice(0, self._options.rows_per_file - self._num_rows)
            self._writer.write_table(piece)
            self._num_rows += piece.num_rows
            rows = rows.slice(piece.num_rows)

    def _open(self, folder: str) -> None:
        options = self._options
        name = f"part-{self._task:05}-{len(self.reports):03}-{uuid.uuid4().hex[:8]}.parquet"
        path = os.path.join(self._attempt, folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._writer = Writer(
            path,
            options.schema,
            indexes=self._indexes,
            rows_per_page=options.rows_per_page,
            sort_by=options.sort_by,
            compression=options.compression,
        )
        self._folder, self._num_rows = folder, 0

    def _close(self) -> None:
        if self._writer is not None:
            self.reports.append(self._writer.close())
            self._writer = None


def _runs(batch: pa.RecordBatch, width: int, names: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield each run of rows with the same partition values: its first row, its end, and its folder."""
    if not batch.num_rows:
        return
    columns = [batch.column(width + ordinal).fill_null(HIVE_NULL) for ordinal in range(len(names))]
    starts = np.zeros(batch.num_rows, dtype=bool)
    starts[0] = True
    for column in columns:
        changed = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
        starts[1:] |= changed.to_numpy(zero_copy_only=False)
    edges = [*np.flatnonzero(starts).tolist(), batch.num_rows]
    for start, stop in pairwise(edges):
        values = [column[start].as_py() for column in columns]
        yield start, stop, os.path.join("", *map(partition_folder, names, values))


def partition_folder(name: str, value: str) -> str:
    """Return the name of the folder of a partition value, as Spark writes it.

    Example:
        >>> partition_folder("day", "2020-01-31"), partition_folder("at", "10:30 a/b")
        ('day=2020-01-31', 'at=10%3A30 a%2Fb')

    Raises:
        WriteError: If the value is empty, which Spark would read as null.
    """
    if not value:
        raise WriteError(
            f"partition column {name!r} has an empty string, which would be read as null; replace these "
            "values, or do not partition by this column",
            reason="empty-partition-value",
            column=name,
        )
    return f"{_escape(name)}={_escape(value)}"


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def outcome_of(text: str) -> WriteReport | Checksums:
    """Return the report of a file, or the checksums of the rows that a task was passed, on the driver.

    Raises:
        WriteError: If the rows could not be written.
    """
    values: dict[str, Any] = json.loads(text)
    if "error" in values:
        raise WriteError(values["error"], reason=values["reason"], column=values["column"])
    if "read" in values:
        return Checksums(**values["read"])
    values["notes"] = [Note(**note) for note in values["notes"]]
    for name in ("dictionary", "built", "notes"):
        values[name] = tuple(values[name])
    return WriteReport(**values)
