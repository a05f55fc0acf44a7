"""Reading selected rows in phases: the columns of each condition, then the other columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import comparison_array, comparison_type, true_positions
from intarsia.arrow.conforming import conform, rename_fields
from intarsia.arrow.nested import field_type, field_values
from intarsia.arrow.owned_rows import filter_values, own_rows
from intarsia.errors import CorruptFileError, PredicateError, UnsupportedFeatureError
from intarsia.file.chunk_plan import ChunkPlan
from intarsia.file.claims import check_row_count
from intarsia.file.decode import FetchedPages, PageDecoder, PageIndexMismatchError, RowTaker
from intarsia.file.fetch import PageCache
from intarsia.format.footer import Leaf
from intarsia.predicate import Bound, Path, evaluate
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan, add_planned, load_locations, plan_chunks
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.read.output_columns import rows_without_columns
from intarsia.read.retry import WrongPageIndexError
from intarsia.rows.selection import RowSelection

#: If at most one in this many rows matches, the rows are selected by their positions.
_FEW_OF = 64


class DecodedColumns(Protocol):
    """A decoder of rows of one row group, or of several that are read as one."""

    def decode(self, leaves: list[Leaf], rows: RowSelection) -> dict[int, pa.ChunkedArray]:
        """Decode rows of top-level fields, reduced to the given leaves, by ordinal of the field."""
        ...

    def counts(self) -> ReadCounts:
        """Return the counts of all reads so far."""
        ...


@dataclass(frozen=True)
class _Found:
    """Rows that match, and their values of those of the predicate's columns that the query returns."""

    rows: RowSelection
    values: Mapping[Path, pa.ChunkedArray]

    def followed_by(self, other: _Found) -> _Found:
        """Return these rows and the later rows of another part."""
        if self.rows.is_empty or other.rows.is_empty:
            return self if other.rows.is_empty else other
        values = {
            path: pa.chunked_array([*column.chunks, *other.values[path].chunks], type=column.type)
            for path, column in self.values.items()
        }
        return _Found(self.rows | other.rows, values)

    def head(self, num_rows: int) -> _Found:
        """Return the first rows."""
        values = {path: column.slice(0, num_rows) for path, column in self.values.items()}
        return _Found(self.rows.head(num_rows), values)


class RowReader:
    """A reader of selected rows, which can be used once.

    Args:
        query: The query.
        columns: The decoder of the columns.
    """

    def __init__(self, query: FileQuery, columns: DecodedColumns) -> None:
        self._query = query
        self._columns = columns

    def read(
        self, wanted: Iterable[RowSelection], stages: Sequence[Bound], limit: int | None = None
    ) -> tuple[pa.Table, ReadCounts, RowSelection]:
        """Read the rows that match.

        Args:
            wanted: The rows that might match, as `DecodedColumns` numbers them, in parts, in ascending order.
            stages: The parts of the predicate, in order; empty for rows that are proven to match.
            limit: Read the predicate's columns only until this many rows match; None to read all parts.

        Returns:
            The columns of the query, the counts, and the rows as `DecodedColumns` numbers them.

        Raises:
            WrongPageIndexError: If the pages contradict the page index.
        """
        num_candidates = 0
        found = _Found(RowSelection.none(), {})
        for part in wanted:
            num_candidates += part.num_rows
            found = found.followed_by(self._find(part, stages))
            if limit is not None and found.rows.num_rows >= limit:
                found = found.head(limit)
                break
        rows = own_rows(self._output(found))
        counts = replace(self._columns.counts(), rows_candidate=num_candidates, rows_matched=rows.num_rows)
        return rows, counts, found.rows

    def _find(self, wanted: RowSelection, stages: Sequence[Bound]) -> _Found:
        """Read the predicate's columns, and return the rows that match."""
        query = self._query
        rows = wanted
        values: dict[Path, pa.ChunkedArray] = {}
        outputs = {column.path for column in query.columns}
        for number, condition in enumerate(stages, start=1):
            needed = condition.paths()
            values |= self._predicate_columns(needed - values.keys(), rows)
            columns = {path: self._as_compared(path, values[path]) for path in needed & values.keys()}
            columns = {**self._constant_columns(rows.num_rows), **columns}
            try:
                mask = evaluate(condition, columns, rows.num_rows)
            except PredicateError as error:  # a function has no result for a value
                path = query.file.path
                raise PredicateError(
                    f"{path}: {error}", reason=error.reason, path=path, column=error.column
                ) from error
            kept = _keep(rows, mask)
            if kept.is_empty:
                return _Found(kept, {})
            later = outputs.union(*(stage.paths() for stage in stages[number:]))
            values = {path: column for path, column in values.items() if path in later}
            if kept.num_rows < rows.num_rows:
                values = {path: _narrowed(column, rows, kept, mask) for path, column in values.items()}
            rows = kept
        return _Found(rows, values)

    def _output(self, found: _Found) -> pa.Table:
        """Read the other columns of the rows that match."""
        query, rows = self._query, found.rows
        if rows.is_empty:
            return select_columns(query, {}, 0)
        reused = {
            column.path: found.values[column.path] for column in query.columns if column.path in found.values
        }
        missing = leaves_under(
            query.file, [column.path for column in query.columns if column.path not in reused]
        )
        decoded = self._columns.decode(missing, rows) if missing else {}
        return select_columns(query, decoded, rows.num_rows, reused)

    def _predicate_columns(self, paths: Set[Path], rows: RowSelection) -> dict[Path, pa.ChunkedArray]:
        """Read those of the given columns that are in this file."""
        needed = [path for path in self._query.predicate_paths if path in paths]
        if not needed:
            return {}
        found = self._columns.decode(leaves_under(self._query.file, needed), rows)
        schema = self._query.file.arrow_schema
        return {path: _field(self._query, schema, found, path, rows.num_rows) for path in needed}

    def _as_compared(self, path: Path, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Cast a column to the type in which the predicate compares it."""
        data_type = self._query.compared_types[path]
        plain = comparison_type(column.type)
        if plain == data_type:
            return column
        return _cast(self._query, comparison_array(column, plain), ".".join(path), data_type)

    def _constant_columns(self, num_rows: int) -> dict[Path, pa.Array]:
        predicate, constants = self._query.predicate, self._query.constants
        paths = predicate.paths() if predicate is not None else frozenset()
        return {path: pa.repeat(constants[path], num_rows) for path in paths if path in constants}


class RowGroupColumns:
    """The columns of one row group; only pages with requested rows are read.

    Args:
        query: The query.
        plan: The plan of the query.
        decoder: The decoder for pages of the file.
        group: Ordinal of the row group.
    """

    def __init__(self, query: FileQuery, plan: FilePlan, decoder: PageDecoder, group: int) -> None:
        self._query = query
        self._decoder = decoder
        self._group = group
        self._known_dictionaries = plan.dictionary_pages
        self._pages = PageCache(query.file, plan.dictionary_pages)
        self._dictionaries_read = 0
        edges = query.file.footer.row_group_starts
        edge = edges[group : group + 1], edges[group + 1 : group + 2]
        # otherwise rows were excluded or proven with the page index, so pages are compared with it
        self._reads_whole_chunks = bool(
            plan.candidates.covers(*edge)[0] and not (plan.certain - plan.proven).overlaps(*edge)[0]
        )
        self._index_bytes = 0

    def parts(self, rows: RowSelection, limit: int) -> Iterator[RowSelection]:
        """Divide rows into parts for a query that needs a limited number of matching rows.

        The parts end where pages of the predicate's largest column end, because the other columns' pages are
        small in comparison. The first part has as many rows as are needed; each further part doubles the
        number of rows that have been read, so that at most half of the rows are read unnecessarily.

        Args:
            rows: The rows that might match, relative to the row group.
            limit: The number of matching rows that are needed.
        """
        query, group = self._query, self._group
        self._reads_whole_chunks = False  # would read the pages of earlier parts again
        leaves = leaves_under(query.file, query.predicate_paths)
        found, index_bytes = load_locations(query, group, leaves)
        self._index_bytes += index_bytes
        sizes = [query.file.footer.chunk_metadata(group, leaf).total_compressed_size for leaf in leaves]
        largest = max(range(len(leaves)), key=sizes.__getitem__)
        locations = found[largest]
        if locations is None:
            yield rows
            return
        counts = rows.count_between(np.append(locations.rows.starts, locations.rows.num_rows))
        num_rows = counts.cumsum()
        num_bytes = np.where(counts > 0, locations.sizes_bytes, 0).cumsum()
        # a request to an object store takes about as long as reading `coalesce_bytes`
        least_bytes, start, needed = query.file.source.coalesce_bytes, 0, limit
        while True:
            pages = max(int(np.searchsorted(num_rows, needed)), int(np.searchsorted(num_bytes, least_bytes)))
            last = min(pages, len(locations) - 1)
            stop = int(locations.rows.stops[last])
            yield rows.clip(start, stop)
            if num_rows[last] == num_rows[-1]:
                return
            start, needed = stop, 2 * int(num_rows[last])

    def decode(self, leaves: list[Leaf], rows: RowSelection) -> dict[int, pa.ChunkedArray]:
        """See `DecodedColumns`; rows are relative to the row group.

        Raises:
            WrongPageIndexError: If the pages contradict the page index.
        """
        chunks = self.fetch(leaves, rows)
        with self._naming_wrong_index(), self._query.file.named_errors():
            return self._decoder.decode(chunks, rows)

    def fetch(self, leaves: list[Leaf], rows: RowSelection) -> list[FetchedPages]:
        """Fetch the pages of some leaves that contain some rows, and that were not fetched before.

        Raises:
            WrongPageIndexError: If the pages contradict the page index.
        """
        file = self._query.file
        plans, index_bytes = plan_chunks(
            self._query, self._group, leaves, rows, is_unpruned=self._reads_whole_chunks
        )
        self._index_bytes += index_bytes
        for plan in plans:
            if self._pages.is_new(plan):
                self._dictionaries_read += self._reads_dictionary_within(plan)
            add_planned(self._query, self._group, plan)
        with file.named_errors():
            for plan in plans:
                if plan.whole:
                    check_row_count(file.footer, self._group, plan.leaf)
        with self._naming_wrong_index():
            return self._pages.fetch(plans)

    @contextmanager
    def _naming_wrong_index(self) -> Iterator[None]:
        try:
            yield
        except PageIndexMismatchError as error:
            raise WrongPageIndexError(self._group, str(error)) from error
        except CorruptFileError as error:
            self._query.file.distrust_damaged(self._group, error)
            raise

    def _reads_dictionary_within(self, plan: ChunkPlan) -> bool:
        """Return whether to count a dictionary page in a whole chunk, as if the page index had been used."""
        if not plan.has_dictionary_within or plan.pages[0].start in self._known_dictionaries:
            return False
        chunk = self._query.file.footer.metadata.row_groups[self._group].columns[plan.leaf.ordinal]
        return bool(chunk.offset_index_offset)

    def counts(self) -> ReadCounts:
        """See `DecodedColumns`."""
        return ReadCounts(
            row_groups=1,
            dictionary_pages=self._pages.dictionary_count + self._dictionaries_read,
            index_bytes=self._index_bytes,
        )


def select_columns(
    query: FileQuery,
    fields: Mapping[int, pa.ChunkedArray],
    num_rows: int,
    reused: Mapping[Path, pa.ChunkedArray] | None = None,
) -> pa.Table:
    """Build the query's columns in the types of the table.

    Args:
        query: The query.
        fields: Top-level fields of the file by ordinal, each reduced to the leaves that were read.
        num_rows: Number of rows; if it is 0, fields are not used.
        reused: Columns that are built already, by path.

    Raises:
        UnsupportedFeatureError: If values of this file do not fit into the table's type.
    """
    arrays = []
    schema = query.file.arrow_schema
    for column in query.columns:
        if reused and column.path in reused:
            array = reused[column.path]
        elif num_rows == 0:
            array = pa.chunked_array([], type=column.type)
        else:
            array = _field(query, schema, fields, column.path, num_rows)
            if column.named_type is not None:
                array = rename_fields(array, column.named_type)
        arrays.append(array if array.type == column.type else _cast(query, array, column.name, column.type))
    if not arrays:
        return rows_without_columns(num_rows)
    return pa.Table.from_arrays(arrays, schema=pa.schema([(c.name, c.type) for c in query.columns]))


def _field(
    query: FileQuery, schema: pa.Schema, fields: Mapping[int, pa.ChunkedArray], path: Path, num_rows: int
) -> pa.ChunkedArray:
    """Return a field or a struct field in it, which is null where a surrounding struct is null.

    Groups without any leaf are null, as in pyarrow: the file does not contain which of them are null.
    """
    root = schema.get_field_index(path[0])
    if root not in fields and not leaves_under(query.file, [path]):
        nulls = pa.nulls(num_rows, field_type(schema.field(root).type, path[1:]))
        return pa.chunked_array([nulls])
    return field_values(fields[root], path[1:])


def _cast(query: FileQuery, column: pa.ChunkedArray, name: str, data_type: pa.DataType) -> pa.ChunkedArray:
    try:
        return conform(column, data_type)
    except pa.ArrowException as error:
        raise UnsupportedFeatureError(
            f"column {name!r} has the type {column.type} in this file and {data_type} in the table, and its "
            f"values cannot be converted: {error}; open the files of each type separately",
            reason="type-mismatch",
            path=query.file.path,
            column=name,
        ) from error


def _keep(rows: RowSelection, mask: pa.BooleanArray) -> RowSelection:
    """Select the rows that match; ``mask`` has one flag for each of them."""
    num_kept = mask.true_count
    if num_kept == len(mask):
        return rows
    if num_kept == 0:
        return RowSelection.none()
    if num_kept * _FEW_OF <= len(mask):  # without a byte for each row
        positions = true_positions(mask)
        is_one = len(rows) == 1
        return RowSelection.from_rows(positions + rows.starts[0] if is_one else rows.rows()[positions])
    flags = mask.to_numpy(zero_copy_only=False)
    if len(rows) == 1:
        return RowSelection.from_mask(flags, int(rows.starts[0]))
    return RowSelection.from_rows(rows.rows()[flags])


def _narrowed(
    column: pa.ChunkedArray, rows: RowSelection, kept: RowSelection, mask: pa.BooleanArray
) -> pa.ChunkedArray:
    """Select the values of some of the rows; ``mask`` has one flag for each of them."""
    if len(kept) == 1:
        return RowTaker(rows, kept).of(column)
    return filter_values(column, mask)
