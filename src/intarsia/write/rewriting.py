"""Rewrite a local file without some of its rows, in the form that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.arrow.nested import with_leaves
from intarsia.arrow.owned_rows import filter_rows
from intarsia.errors import ChangedMeanwhileError, WriteError
from intarsia.file import ParquetInput
from intarsia.rows.selection import Rows
from intarsia.storage import LocalFile
from intarsia.storage.hadoop_files import check_sink_log
from intarsia.storage.replace import FileIdentity
from intarsia.write.form import FileForm, open_stored
from intarsia.write.output import Output, WriteReport


def rewrite_without(path: str, deleted: Rows, identity: FileIdentity) -> WriteReport:
    """Replace a file by one without some of its rows.

    Everything else stays: the order of rows, the schema and the key/value metadata, row groups (without those
    that would be empty), codecs, encodings, rows per page, Bloom filters and embedded indexes, which are
    rebuilt. The new file always has a page index. Each value that is kept is read back from the new file, and
    compared, before the new file replaces the old one. A file is replaced atomically.

    Memory grows with the size of a row group, not of the file.

    Args:
        path: The absolute path of a local file.
        deleted: The ordinals of the rows to leave out, ascending.
        identity: The identity of the file in which the rows have these ordinals.

    Returns:
        The report of the new file.

    Raises:
        ChangedMeanwhileError: If the file has changed since; it is untouched.
        UnsupportedFeatureError: If pyarrow would change the schema.
        IndexBuildError: If an index of the file is of a kind that no installed package has.
        WriteError: If values were not written correctly; the old file is untouched.
        ReplaceError: If the system refuses, or the log of a streaming sink lists the file.

    Example:
        >>> import tempfile, os, numpy as np, intarsia as ia
        >>> path = os.path.join(tempfile.mkdtemp(), "cities.parquet")
        >>> _ = ia.write_table(pa.table({"city": ["Bern", "Basel", "Chur"]}), path)
        >>> rewrite_without(path, np.array([1]), FileIdentity.of(path)).num_rows
        2
    """
    check_sink_log(path, 0)
    with ParquetInput(LocalFile(path)) as file, file.named_errors():
        form = FileForm.of(file)
        num_rows, footer = file.footer.num_rows, file.footer.raw
    if len(deleted) and deleted[-1] >= num_rows:
        raise ChangedMeanwhileError(
            f"the file has {num_rows:,} rows, and not the row {deleted[-1]:,}; run again",
            reason="changed-meanwhile",
            path=path,
        )
    output = Output(path, form.schema, form.options, form.indexes, replaces=identity, restored=form.restored)

    def kept() -> Iterator[pa.Table]:
        return _kept_row_groups(open_stored(path, footer, form.leaves), deleted)

    try:
        for table in kept():
            output.write_row_group(table)
        return output.finish(None, check=lambda new: _check(form, new, kept))
    finally:
        output.discard()


def _kept_row_groups(file: pq.ParquetFile, deleted: Rows) -> Iterator[pa.Table]:
    start = 0
    for group in range(file.num_row_groups):
        num_rows = file.metadata.row_group(group).num_rows
        first, last = np.searchsorted(deleted, [start, start + num_rows])
        if last - first < num_rows:
            table = file.read_row_group(group)
            if last > first:
                mask = np.ones(num_rows, dtype=bool)
                mask[deleted[first:last] - start] = False
                table = filter_rows(table, pa.array(mask))
            yield table
        start += num_rows


def _check(form: FileForm, new_path: str, kept: Callable[[], Iterator[pa.Table]]) -> None:
    """Compare the stored values of a new file with those that it should have.

    Raises:
        WriteError: If they differ.
    """
    with ParquetInput(LocalFile(new_path)) as file:
        new = open_stored(new_path, file.footer.raw, file.footer.leaves)
    groups = 0
    for groups, table in enumerate(kept(), 1):
        written = new.read_row_group(groups - 1) if groups <= new.num_row_groups else None
        if written is None or written.num_rows != table.num_rows:
            raise _differs(form.path, None)
        for ordinal, (before, after) in enumerate(zip(table.columns, written.columns, strict=True)):
            if not _bits(before).equals(_bits(after)):
                raise _differs(form.path, table.column_names[ordinal])
    if groups != new.num_row_groups:
        raise _differs(form.path, None)


def _differs(path: str, column: str | None) -> WriteError:
    what = f"the values of {column!r}" if column else "the rows"
    return WriteError(
        f"{what} in the new file differ from those in the old one, which is unchanged; report this as an "
        "error of Intarsia",
        reason="verification-failed",
        path=path,
        column=column,
    )


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that are equal if their bits are: NaN equals itself, and 0.0 does not equal -0.0."""
    data_type = with_leaves(column.type, lambda leaf: _INTEGERS.get(leaf, leaf))
    return pa.chunked_array([chunk.view(data_type) for chunk in column.chunks], data_type)


_INTEGERS: Final = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}
