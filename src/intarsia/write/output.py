"""One file on its way: row groups by pyarrow, then the page index mended, then indexes, then its place."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.embed.attach import Attachables, ColumnsOf, attach_to, checked_indexes
from intarsia.embed.column_data import FileColumns
from intarsia.embed.page_index import PageIndex
from intarsia.embed.progress import Progress
from intarsia.embed.report import summarize
from intarsia.errors import ColumnNotFoundError, WriteError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.storage import ByteSource, LocalFile
from intarsia.storage.target import NewTarget, new_target
from intarsia.write.bounds import mend_page_index, write_tail
from intarsia.write.leaves import holds_nan, leaf_arrays, repeats, writable_schema
from intarsia.write.rehearsal import rehearse
from intarsia.write.report import WriteReport
from intarsia.write.sorting import SortBy, sort_keys, sorting_columns

#: Rows of a data page at most: the unit of what a lookup reads.  On 2,000,000 rows of six columns, against
#: 20,000 rows a lookup reads half as much, and the file grows by 0.7%; at 2,000 rows it grows by 4.4%.
ROWS_PER_PAGE = 10_000


@dataclass(frozen=True)
class Form:
    """How a file is written; see `intarsia.write.writer.Writer`."""

    rows_per_page: int = ROWS_PER_PAGE
    row_group_size: int | None = None
    sort_by: SortBy | None = None
    compression: str = "zstd"
    compression_level: int | None = None
    dictionary: bool | Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in ("rows_per_page", "row_group_size"):
            number = getattr(self, name)
            if number is not None and (type(number) is not int or number < 1):
                raise WriteError(f"{name} is {number!r}; it must be a whole number of rows, 1 or more")


class Output:
    """A file that is being written.

    Args:
        path: Where it will be.
        schema: Its schema.
        form: How it is written.
        indexes: What is to be inlaid.

    Raises:
        WriteError, IndexBuildError, ColumnNotFoundError: If it cannot be as asked.
        ReplaceError: If there can be no such file.
    """

    def __init__(
        self, path: str | os.PathLike[str], schema: pa.Schema, form: Form, indexes: Attachables
    ) -> None:
        self._started = time.perf_counter()
        self.path = os.fspath(path)
        self.schema = writable_schema(schema)
        self.keys = sort_keys(form.sort_by, schema)
        self._indexes = checked_indexes(indexes)
        self._form = form
        self._rehearsed = rehearse(schema, self.path, self._indexes, form.compression, form.compression_level)
        self._leaves = self._rehearsed.footer.leaves
        self._floats = {leaf.ordinal for leaf in self._leaves if leaf.is_float}
        self._check_dictionary_names()
        self._nan_chunks: set[ChunkKey] = set()
        self._row_group_rows: list[int] = []
        self._dictionary: tuple[str, ...] = ()
        self._arrow: pq.ParquetWriter | None = None
        self._new = new_target(self.path)
        self._sink = pa.OSFile(self._new.temporary, "wb")

    def as_written(self, table: pa.Table) -> pa.Table:
        """Rows of the schema that was given, in the one that is written."""
        if table.schema.equals(self.schema):
            return table
        try:
            return table.cast(self.schema)
        except (pa.ArrowException, ValueError) as error:
            raise WriteError(f"{self.path}: Parquet cannot hold these rows: {error}") from error

    def write_row_group(self, table: pa.Table) -> None:
        """Write rows as one row group; there are some.

        Raises:
            WriteError: If Parquet cannot hold them.
            ReplaceError: If the system refuses.
        """
        self._note_nan(table)
        with self._named_errors():
            if self._arrow is None:
                self._arrow = self._open(self._with_dictionary(table))
            self._arrow.write_table(table, row_group_size=table.num_rows)
        self._row_group_rows.append(table.num_rows)

    def finish(self, progress: Progress | None, columns_of: ColumnsOf = FileColumns) -> WriteReport:
        """Build the indexes and let the path mean the file."""
        with self._named_errors():
            (self._arrow or self._open(())).close()
            self._sink.close()
            with ParquetInput(_Unseen(self.path, self._new).open()) as file:
                notes = mend_page_index(file, self._new.fd, self._nan_chunks)
        unseen = _Unseen(self.path, self._new)
        num_bytes = plain_bytes = unseen.size
        built: tuple[str, ...] = ()
        embedded = [index for index in self._indexes if not isinstance(index, PageIndex)]
        if embedded:
            with self._new.named_errors():
                report = attach_to(unseen, embedded, progress=progress, columns_of=columns_of)
            num_bytes, built = report.bytes_after, report.built
            notes = [*notes, *report.notes]
        self._new.put_in_place()
        return WriteReport(
            path=self.path,
            num_rows=sum(self._row_group_rows),
            num_row_groups=len(self._row_group_rows),
            num_bytes=num_bytes,
            bytes_indexes=num_bytes - plain_bytes,
            dictionary=self._dictionary,
            built=built,
            notes=summarize(notes, self._row_group_rows),
            seconds=time.perf_counter() - self._started,
        )

    def discard(self) -> None:
        """Leave no trace; harmless once it is finished."""
        if self._arrow is not None:
            self._arrow.is_open = False  # else it closes itself some time, and fails
        self._arrow = None
        self._sink.close()
        self._new.discard()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            with self._new.named_errors():
                yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise WriteError(f"{self.path}: Parquet cannot hold these rows: {error}") from error

    def _open(self, dictionary: Sequence[str]) -> pq.ParquetWriter:
        form = self._form
        self._dictionary = tuple(dictionary)
        return pq.ParquetWriter(
            self._sink,
            self.schema,
            compression=form.compression,
            compression_level=form.compression_level,
            use_dictionary=list(dictionary) or False,
            write_page_index=True,
            max_rows_per_page=form.rows_per_page,
            sorting_columns=sorting_columns(self.keys, self._rehearsed),
        )

    def _with_dictionary(self, table: pa.Table) -> list[str]:
        """Leaves that get a dictionary: as asked, or judged by the first row group."""
        asked, names = self._form.dictionary, [leaf.name for leaf in self._leaves]
        if isinstance(asked, bool):
            return names if asked else []
        if asked is not None:
            return list(asked)
        leaves = [leaf for column in table.columns for leaf in leaf_arrays(column)]
        return [name for name, leaf in zip(names, leaves, strict=True) if repeats(leaf)]

    def _check_dictionary_names(self) -> None:
        """Refuse names of no leaf: pyarrow would take them, and make no dictionary."""
        asked, names = self._form.dictionary, [leaf.name for leaf in self._leaves]
        for name in asked if asked is not None and not isinstance(asked, bool) else ():
            if name not in names:
                raise ColumnNotFoundError(name, names)

    def _note_nan(self, table: pa.Table) -> None:
        if not self._floats:
            return
        leaves = [leaf for column in table.columns for leaf in leaf_arrays(column)]
        row_group = len(self._row_group_rows)
        self._nan_chunks |= {
            ChunkKey(row_group, ordinal) for ordinal in self._floats if holds_nan(leaves[ordinal])
        }


class _Unseen:
    """The file before it has its place; implements `intarsia.storage.target.Target`."""

    def __init__(self, path: str, new: NewTarget) -> None:
        self.path = path
        self.size = os.fstat(new.fd).st_size
        self._new = new

    def open(self) -> ByteSource:
        return LocalFile(self._new.temporary, shown_as=self.path)

    def replace_tail(self, keep_bytes: int, tail: Sequence[bytes]) -> None:
        """Nobody has seen it, so it is changed where it is."""
        write_tail(self._new.fd, keep_bytes, tail)
