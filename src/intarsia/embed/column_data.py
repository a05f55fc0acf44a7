"""The values of a file's columns, as input for building an index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from intarsia.arrow.nested import field_values
from intarsia.arrow.owned_rows import no_rows, take_rows
from intarsia.embed.chunk import locate_pages
from intarsia.embed.leaf_values import may_be_dictionary
from intarsia.errors import CorruptFileError, IndexBuildError, PredicateError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.chunks import recorded_pages
from intarsia.file.claims import check_claims, check_values
from intarsia.file.fetch import PageCache
from intarsia.file.synthetic import Segments, decode
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf, chunk_range
from intarsia.format.pages import walk_pages
from intarsia.indexes.layout import Layout, read_only
from intarsia.predicate.columns import resolve_column
from intarsia.predicate.nodes import ColumnName
from intarsia.rows.selection import Rows
from intarsia.storage import ByteRange

_NANOSECONDS_OF_MICROSECOND = 1_000
_NANOSECONDS_OF_SECOND = 1_000_000_000


class FileColumns:
    """A file's columns; implements `intarsia.indexes.ColumnData`.

    Args:
        file: The original file.
        first_rows: Returns the first row of each data page of a chunk, relative to the row group; None if
            it has no trusted OffsetIndex, so that its pages are walked.
        before_row_group: Called with the ordinal of a row group before its values are read.
        row_groups: The consecutive row groups to which it is limited; their first row has the ordinal 0.
            None for all.
        chunks: The chunks that are read; None for all.
    """

    def __init__(
        self,
        file: ParquetInput,
        first_rows: Callable[[ChunkKey], Rows | None] = lambda _: None,
        before_row_group: Callable[[int], None] = lambda _: None,
        row_groups: range | None = None,
        chunks: Collection[ChunkKey] | None = None,
    ) -> None:
        self._file = file
        self._known_first_rows = first_rows
        self._before_row_group = before_row_group
        self._chunks = chunks
        self._int96_units: dict[int, str | None] = {}
        self._checked: set[int] = set()
        starts = file.footer.row_group_starts
        self._row_groups = range(len(starts) - 1) if row_groups is None else row_groups
        edges = starts[self._row_groups.start : self._row_groups.stop + 1]
        edges = edges - edges[0]
        self.layout = Layout(int(edges[-1]), edges, _PageEdges(self))

    @property
    def schema(self) -> pa.Schema:
        """The file's schema, as in `pyarrow.parquet.read_table`."""
        return self._file.arrow_schema

    def rows(self, ordinals: Rows) -> pa.Table:
        """Return the rows with these ascending ordinals, with all columns."""
        for leaf in self._file.footer.leaves:
            self._check_rows(leaf)
        edges = self.layout.row_group_edges
        positions = np.searchsorted(edges, ordinals, side="right") - 1
        parts = []
        for row_group in np.unique(positions).tolist():
            table = self._read_columns(self._row_groups[row_group], self._file.footer.leaves)
            parts.append(take_rows(table, ordinals[positions == row_group] - edges[row_group]))
        return pa.concat_tables(parts) if parts else no_rows(self._file.arrow_schema)

    def type_of(self, column: ColumnName) -> pa.DataType:
        """Return the Arrow type of a column (a dotted name or a path).

        Raises:
            ColumnNotFoundError: If the file has no such column.
            IndexBuildError: If the column is inside a list or map, or is a group of columns.
            CorruptFileError: If the footer claims more or fewer rows than the column has values.
        """
        return self._file.leaf_types[self.leaf(column).ordinal]

    def batches(self, column: ColumnName) -> Iterator[tuple[int, pa.Array]]:
        """Yield first row and values of a column (a dotted name) in parts of at most one row group."""
        return self._batches(self.leaf(column), encoded=False)

    def encoded_batches(self, column: ColumnName) -> Iterator[tuple[int, pa.Array]]:
        """Yield the batches; fully dictionary-encoded strings are dictionary arrays, which is much faster."""
        leaf, data_type = self.leaf(column), self.type_of(column)
        types = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
        is_text = any(is_type(data_type) for is_type in types)
        return self._batches(leaf, encoded=is_text and may_be_dictionary(leaf))

    def _batches(self, leaf: Leaf, *, encoded: bool) -> Iterator[tuple[int, pa.Array]]:
        row = 0
        for row_group in self._row_groups:
            num_rows = self._file.footer.metadata.row_groups[row_group].num_rows
            is_left_out = self._chunks is not None and (row_group, leaf.ordinal) not in self._chunks
            if num_rows == 0 or is_left_out:
                row += num_rows
                continue
            meta = self._file.footer.chunk_metadata(row_group, leaf)  # raises if it cannot be parsed
            # pyarrow can also build a dictionary from plain pages, but that is slow
            as_dictionary = encoded and recorded_pages(meta.encoding_stats, meta.encodings).is_all_dictionary
            for chunk in self._read(row_group, leaf, as_dictionary=as_dictionary).chunks:
                yield row, chunk
                row += len(chunk)

    def int96_unit(self, columns: Iterable[ColumnName]) -> str | None:
        """Return the coarsest unit in which Arrow's nanoseconds represent all values of INT96 columns.

        Arrow keeps only the lowest 64 bits of the nanoseconds, so times after 2262 overflow.

        Returns:
            ``"us"`` if every value is a whole number of microseconds; ``"ns"`` if some are not; None if some
            values overflow, or if no column is INT96.
        """
        units = self._int96_units
        leaves = {leaf.ordinal: leaf for leaf in map(self.leaf, columns) if leaf.type == Type.INT96}
        for ordinal in leaves.keys() - units.keys():
            units[ordinal] = self._int96_unit(leaves[ordinal])
        found = {units[ordinal] for ordinal in leaves}
        return None if not found or None in found else "ns" if "ns" in found else "us"

    def _int96_unit(self, leaf: Leaf) -> str | None:
        unit = "us"
        for row_group in self._row_groups:
            if self._file.footer.metadata.row_groups[row_group].num_rows == 0:
                continue
            nanoseconds, seconds = (  # the seconds of every INT96 value fit into 64 bits
                self._read(row_group, leaf, int96_unit=unit).drop_null().cast(pa.int64()).to_numpy()
                for unit in (None, "s")
            )
            if (nanoseconds // _NANOSECONDS_OF_SECOND != seconds).any():
                return None
            if (nanoseconds % _NANOSECONDS_OF_MICROSECOND).any():
                unit = "ns"
        return unit

    def leaf(self, column: ColumnName) -> Leaf:
        """Return the leaf of a column (a dotted name or a path)."""
        try:
            path = resolve_column(self._file.arrow_schema, column).path
        except PredicateError as error:
            raise IndexBuildError(
                f"an index cannot be built on {column!r}: {error}", reason=error.reason, column=error.column
            ) from error
        leaf = self._file.schema.leaves_by_path.get(path)
        if leaf is None or leaf.ordinal not in self._file.leaf_types:
            raise IndexBuildError(
                f"column {column!r} does not have one value per row; name a leaf column that is not inside a "
                "list or a map",
                reason="not-a-flat-column",
                column=".".join(path),
            )
        self._check_rows(leaf)
        return leaf

    def _check_rows(self, leaf: Leaf) -> None:
        """Check the footer's row counts, because indexes allocate by them before they read a value."""
        if leaf.ordinal not in self._checked:
            with self._file.named_errors():
                for row_group in self._row_groups:
                    check_claims(self._file.source, self._file.footer, row_group, leaf)
            self._checked.add(leaf.ordinal)

    def _read(self, row_group: int, leaf: Leaf, **options: Any) -> pa.ChunkedArray:
        return field_values(self._read_columns(row_group, [leaf], **options).column(0), leaf.path[1:])

    def _read_columns(
        self,
        row_group: int,
        leaves: Sequence[Leaf],
        *,
        as_dictionary: bool = False,
        int96_unit: Literal["s"] | None = None,
    ) -> pa.Table:
        """Read leaves of a row group, and check that they have the number of rows in the footer."""
        self._before_row_group(row_group)
        footer = self._file.footer
        schema = self._file.schema.part(tuple(sorted({leaf.root_ordinal for leaf in leaves})))
        num_rows = footer.metadata.row_groups[row_group].num_rows
        what = f"{', '.join(repr(leaf.name) for leaf in leaves)} of row group {row_group}"
        metas = [footer.chunk_metadata(row_group, leaf) for leaf in leaves]
        ranges = [ByteRange(*chunk_range(meta)) for meta in metas]
        fetched = PageCache(self._file.source).fetch(ranges)
        (data,) = fetched.parts
        starts = [fetched.position(chunk.start) for chunk in ranges]
        chunks = [
            Segments.of_chunk(schema.positions[leaf.ordinal], meta, start, start + chunk.length)
            for leaf, meta, start, chunk in zip(leaves, metas, starts, ranges, strict=True)
        ]
        # request as many rows as the chunks could have, so that surplus rows are noticed
        claimed = max([num_rows, *(meta.num_values for meta in metas)])
        with self._file.named_errors():
            for leaf, meta, (_, (start,), (stop,), *_) in zip(leaves, metas, chunks, strict=True):
                check_values(data, meta.num_values, meta.codec, leaf, footer.metadata.created_by, start, stop)
            table = decode(
                schema,
                chunks,
                [claimed],
                [data],
                what,
                as_dictionary=[leaf.name for leaf in leaves] if as_dictionary else (),
                int96_unit=int96_unit,
                checksums=self._file.page_checksums,
                offset_of=fetched.offset,
            )
            # rows are numbered by the footer's counts; a wrong count would shift all later rows
            if table.num_rows != num_rows:
                raise CorruptFileError(
                    f"{what} decoded to {table.num_rows} rows, not {num_rows}",
                    reason="row-count-mismatch",
                    column=leaves[0].name if len(leaves) == 1 else None,
                )
        return table

    def page_edges(self, column: str) -> Rows:
        """Return the first row of each data page of a column, followed by the number of rows.

        Raises:
            IndexBuildError: If the rows of its pages cannot be determined.
        """
        leaf = self.leaf(column)
        starts = self.layout.row_group_edges
        edges = [starts[-1:]]
        for row_group, start in reversed(list(zip(self._row_groups, starts, strict=False))):
            if self._file.footer.metadata.row_groups[row_group].num_rows:
                edges.append(start + self._first_rows(ChunkKey(row_group, leaf.ordinal)))
        return np.concatenate(edges[::-1]).astype(np.int64)

    def _first_rows(self, key: ChunkKey) -> Rows:
        known = self._known_first_rows(key)
        if known is not None:
            return known
        footer, leaf = self._file.footer, self._file.footer.leaves[key.leaf]
        meta = footer.chunk_metadata(key.row_group, leaf)
        num_rows = footer.metadata.row_groups[key.row_group].num_rows
        data = self._file.source.read(*chunk_range(meta))
        try:
            return locate_pages(data, walk_pages(data, meta.num_values), meta, num_rows, leaf).first_rows
        except IndexBuildError as error:
            raise IndexBuildError(
                f"the rows of the pages of {leaf.name!r} cannot be determined: {error}; use "
                "granularity='row_group'",
                reason=error.reason,
                column=leaf.name,
            ) from error


class _PageEdges(dict[str, Rows]):
    """Page edges by column, computed on first access."""

    def __init__(self, columns: FileColumns) -> None:
        super().__init__()
        self._columns = columns

    def __missing__(self, column: str) -> Rows:
        self[column] = edges = read_only(self._columns.page_edges(column))
        return edges

    def __contains__(self, column: object) -> bool:
        return isinstance(column, str)  # `__missing__` raises for unknown columns
