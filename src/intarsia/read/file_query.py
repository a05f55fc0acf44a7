"""A query of one file: the predicate in the file's types, the columns to read, and constant columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.owned_rows import take_values
from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.file.chunks import ChunkOutlines
from intarsia.file.claims import check_row_count
from intarsia.file.metadata import naming_errors
from intarsia.format.arrow_stream import ExpansionBudget
from intarsia.format.footer import Leaf
from intarsia.indexes.embedded import EmbeddedIndexes, KeptIndexes
from intarsia.once import cached_property
from intarsia.predicate import Bound, BoundConstant, Path
from intarsia.read.counts import PagesRead, PageStates
from intarsia.read.output_columns import FileNames, OutputColumn
from intarsia.read.pruner import Constants
from intarsia.records import dataclass
from intarsia.rows.selection import RowSelection

_NO_ROWS = RowSelection.none()
_ORDINAL, _PATH = attrgetter("ordinal"), attrgetter("path")
_SIZES = attrgetter("starts", "stops", "first_pages", "uncompressed_bytes", "data_pages", "is_sound")


@dataclass(frozen=True)
class FileQuery:
    """A query of one open file; create it with `FileQuery.of`.

    The paths of its predicate, columns and constants are those of the file. `own` converts other columns of
    the table.

    Attributes:
        predicate: The predicate, bound to the file's types; None for all rows.
        columns: The columns to read that are in the file.
        constants: Columns that are not in the file and have one value in all of its rows: partition columns,
            and columns that the file lacks (null). An array of that value; of several files that are joined,
            of one value each.
        names: The names of the columns in the file; None if they are those of the table.
        deleted: Rows that the table does not have although the file does, or that were not chosen.
        deleted_by: The name in reports of what excludes these rows.
        pages: The pages that were read, by this query or by one with other columns or conditions.
        keeps_dictionaries: Whether columns of texts with few distinct values may be returned as dictionary
            arrays, whose values may repeat.
    """

    file: ParquetInput
    embedded: EmbeddedIndexes
    predicate: Bound | None
    columns: tuple[OutputColumn, ...]
    constants: Mapping[Path, pa.Array]
    names: FileNames | None = None
    deleted: RowSelection = _NO_ROWS
    deleted_by: str = "deletes"
    pages: PagesRead = field(default_factory=PagesRead, repr=False, compare=False)
    keeps_dictionaries: bool = False

    @classmethod
    def of(
        cls,
        file: ParquetInput,
        predicate: Bound | None,
        columns: Sequence[OutputColumn],
        constants: Mapping[Path, pa.Array] | None = None,
        budget: ExpansionBudget | None = None,
        names: FileNames | None = None,
        deleted: RowSelection | None = None,
        kept: KeptIndexes | None = None,
        *,
        deleted_by: str = "deletes",
    ) -> FileQuery:
        """Create a query of a file.

        Args:
            predicate: The predicate, bound to the file's types and names; None for all rows.
            columns: The columns of the result in the table, which may include constant columns.
            constants: Columns that have one value in all rows, as arrays of it, by their paths in the file.
            budget: The memory budget for the indexes of all open files; None for only the limit of the file.
            names: The names of the columns in the file; None if they are those of the table.
            deleted: Rows of the file that the table does not have.
            kept: The opened indexes of earlier queries.
            deleted_by: The name in reports of what excludes these rows.
        """
        constants = constants or {}
        if isinstance(predicate, BoundConstant) and predicate.value:
            predicate = None
        embedded = EmbeddedIndexes(file, ExpansionBudget(shared=budget), kept)
        deleted = _NO_ROWS if deleted is None else deleted
        found = columns if names is None else [names.column(column) for column in columns]
        wanted = tuple([column for column in found if column.path not in constants])
        return cls(file, embedded, predicate, wanted, constants, names, deleted, deleted_by)

    def close(self) -> None:
        """Close the file and its indexes."""
        self.embedded.close()
        self.file.close()

    def for_columns(self, columns: Sequence[OutputColumn]) -> FileQuery:
        """Return the same query with other columns of the table."""
        found = map(self.own, columns)
        return replace(self, columns=tuple(one for one in found if one.path not in self.constants))

    def own(self, column: OutputColumn) -> OutputColumn:
        """Return a column of the table with its path in the file."""
        return column if self.names is None else self.names.column(column)

    def shown(self, name: str) -> str:
        """Return the name in the table of a leaf of the file, for reports."""
        return name if self.names is None else self.names.shown(name)

    @cached_property
    def present(self) -> RowSelection:
        """The rows of the file that the table has."""
        everything = RowSelection.all(self.file.footer.num_rows)
        return everything if self.deleted.is_empty else everything - self.deleted

    def constant_column(
        self, path: Path, rows: RowSelection, data_type: pa.DataType | None = None
    ) -> pa.Array:
        """Return the values of a constant column in some rows.

        Of joined files, the column has a constant for each file.

        Args:
            data_type: The type of the result; None for that of the constant, which is the type of the values
                if it is a dictionary.
        """
        values = self.constants[path]
        data_type = values.type if data_type is None else data_type
        is_dictionary = pa.types.is_dictionary(data_type)
        if len(values) == 1 and not (values[0].is_valid and is_dictionary):
            value, num_rows = values[0], rows.num_rows
            return pa.repeat(value, num_rows) if value.is_valid else pa.nulls(num_rows, data_type)
        files = np.repeat(np.arange(len(values)), rows.count_between(self.file.extent.row_edges))
        return take_values(values.dictionary_encode().cast(data_type) if is_dictionary else values, files)

    def constant_counts(self, path: Path, rows: RowSelection) -> tuple[pa.Array, pa.Array]:
        """Return the value of a constant column in each file with some of the rows, and their number."""
        counts = rows.count_between(self.file.extent.row_edges)
        files = np.flatnonzero(counts)
        return take_values(self.constants[path], files), pa.array(counts[files], pa.int64())

    def result(
        self, rows: pa.Table, numbers: RowSelection, columns: Sequence[OutputColumn], schema: pa.Schema
    ) -> pa.Table:
        """Return columns of the table: those that were read, and constants.

        Args:
            rows: The columns of the query in some rows.
            numbers: The numbers of these rows in the file.
        """
        if not columns:
            return rows
        known = dict(zip(map(_PATH, self.columns), rows.columns, strict=True))
        arrays, names = [], self.names
        for column, data_type in zip(columns, schema.types, strict=True):
            path = column.path if names is None else names.column(column).path
            is_known = path in known
            arrays.append(known[path] if is_known else self.constant_column(path, numbers, data_type))
        return pa.Table.from_arrays(arrays, schema=schema)

    @cached_property
    def constants_by_file(self) -> Constants:
        """The constant columns, for pruning."""
        return Constants(self.constants, self.file.extent.row_edges)

    @cached_property
    def predicate_paths(self) -> tuple[Path, ...]:
        """The predicate's columns that are in the file."""
        return () if self.predicate is None else tuple(self.predicate.paths().difference(self.constants))

    @cached_property
    def output_leaves(self) -> list[Leaf]:
        """The leaves of the columns to read."""
        return leaves_under(self.file, list(map(_PATH, self.columns)))

    @cached_property
    def leaves(self) -> list[Leaf]:
        """The leaves of the predicate and of the columns to read, in the order of the schema."""
        found = [*leaves_under(self.file, self.predicate_paths), *self.output_leaves]
        return sorted(dict(zip(map(_ORDINAL, found), found, strict=True)).values(), key=_ORDINAL)

    @property
    def num_row_groups(self) -> int:
        """Number of row groups of the file."""
        return len(self.file.footer.metadata.row_groups)

    def check_row_counts(self, rows: RowSelection, leaf: Leaf | None = None) -> None:
        """Refuse rows for which a column has no values, according to the footer; reads nothing.

        Args:
            leaf: The column; None for any that is not nested.

        Raises:
            CorruptFileError: If a row group has another number of values than rows.
        """
        footer = self.file.footer
        leaf = leaf or next((one for one in footer.leaves if one.is_flat), None)
        if leaf is None:
            return
        groups = self.groups_with(rows)
        (outlines,) = self.file.metadata.outlines([leaf], groups)
        equal = outlines.is_sound & (outlines.num_values == np.diff(footer.row_group_starts))
        for group in groups:
            if not equal[group]:
                with naming_errors(self.file.path_of(group)):
                    check_row_count(footer, group, leaf)

    def num_files_with(self, rows: RowSelection) -> int:
        """Return the number of files that have some of the rows."""
        edges = self.file.extent.row_edges
        return int(np.count_nonzero(rows.overlaps(edges[:-1], edges[1:])))

    def page_states(self) -> PageStates:
        """Return the states of the pages of each leaf by what has been read so far."""
        return PageStates(self.file.metadata, self.leaves, self.pages)

    # --- the cost of rows --------------------------------------------------------------------------

    def groups_with(self, rows: RowSelection) -> list[int]:
        """Return the row groups that contain some of the rows."""
        edges = self.file.footer.row_group_starts
        groups: list[int] = rows.overlaps(edges[:-1], edges[1:]).nonzero()[0].tolist()
        return groups

    def row_groups(self, rows: RowSelection) -> Iterator[tuple[int, RowSelection]]:
        """Yield the row groups that contain some of the rows, with these rows relative to the row group."""
        edges = self.file.footer.row_group_starts
        for group in self.groups_with(rows):
            start, stop = int(edges[group]), int(edges[group + 1])
            yield group, rows.clip(start, stop).shift(-start)

    @cached_property
    def _group_sizes(self) -> GroupSizes:
        """Sizes of `leaves` by row group."""
        key = ("sizes by row group", *map(_ORDINAL, self.leaves))
        num_groups = len(self.file.footer.metadata.row_groups)
        return self.file.metadata.derived(key, partial(GroupSizes, num_groups))

    def _sizes(self, groups: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        return self._group_sizes.of(groups, partial(self.file.metadata.outlines, self.leaves))

    def estimated_bytes(self, rows: RowSelection) -> int:
        """Estimate the bytes of reading some rows by their share of each chunk.

        Raises:
            UnsupportedFeatureError: If a column is encrypted or in another file.
            CorruptFileError: If a chunk is outside the file.
        """
        return 0 if rows.is_empty else int(self.estimated_bytes_by_group(rows).sum())

    def estimated_bytes_by_group(self, rows: RowSelection) -> npt.NDArray[np.int64]:
        """Estimate the bytes of reading some rows, for each row group.

        Raises:
            UnsupportedFeatureError: If a column is encrypted or in another file.
            CorruptFileError: If a chunk is outside the file.
        """
        shares = self._shares(rows)
        groups = shares.nonzero()[0]
        sizes, is_sound = self._sizes(groups)
        for group in groups[~is_sound[groups]].tolist():
            for leaf in self.leaves:
                self.file.footer.chunk_metadata(group, leaf)
        return np.asarray(sizes[0] * shares, dtype=np.int64)

    def _shares(self, rows: RowSelection) -> npt.NDArray[np.float64]:
        """Return the share of each row group that some rows are."""
        edges = self.file.footer.row_group_starts
        return np.asarray(rows.count_between(edges) / np.maximum(1, edges[1:] - edges[:-1]))

    def page_bytes(self, rows: RowSelection) -> int:
        """Estimate the bytes of the pages with some rows; see `page_bytes_by_group`."""
        return int(self.page_bytes_by_group(rows).sum())

    def page_bytes_by_group(self, rows: RowSelection) -> npt.NDArray[np.int64]:
        """Estimate the bytes of the pages with some rows, and of dictionary pages, for each row group.

        They are the larger of compressed and uncompressed bytes. Each range of rows counts as a page more.
        """
        edges = self.file.footer.row_group_starts
        num_ranges = rows.starts.searchsorted(edges[1:]) - rows.stops.searchsorted(edges[:-1], side="right")
        (_, chunks, pages, dictionaries), _ = self._sizes(num_ranges.nonzero()[0])
        found = np.minimum(dictionaries + chunks * self._shares(rows) + pages * num_ranges, chunks)
        return np.where(num_ranges > 0, found, 0).astype(np.int64)

    def column_bytes(self, path: Path) -> int:
        """Return the size of a column in the file in bytes; 0 for a constant column."""
        leaves = leaves_under(self.file, [path])
        return sum(int((one.stops - one.starts).sum()) for one in self.file.metadata.outlines(leaves))


class GroupSizes:
    """Sizes of leaves by row group, which are added up when they are first asked for."""

    def __init__(self, num_groups: int) -> None:
        self._bytes = np.zeros((4, num_groups))
        self._is_sound = np.ones(num_groups, dtype=bool)
        self._is_known = np.zeros(num_groups, dtype=bool)

    def of(
        self,
        groups: npt.NDArray[np.int64],
        outlines_in: Callable[[npt.NDArray[np.int64]], Sequence[ChunkOutlines]],
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Return sizes in bytes, and whether all chunks can be read, by row group.

        Args:
            groups: Ordinals of the row groups whose sizes are needed; those of others may be missing.
            outlines_in: Returns the outlines of the leaves in some row groups.

        Returns:
            Of each row group the size of its chunks; the larger of that and of the uncompressed size; that of
            a data page of each chunk; and that of the dictionary pages. And whether the chunks are sound.
        """
        missing = groups[~self._is_known[groups]]
        if len(missing):
            outlines = outlines_in(missing)
            found = np.array([[values[missing] for values in _SIZES(of_leaf)] for of_leaf in outlines])
            found = found.reshape(len(outlines), 6, len(missing))  # there may be no leaves
            starts, stops, first_pages, uncompressed, data_pages, are_sound = found.transpose(1, 0, 2)
            compressed = stops - starts
            chunks = np.maximum(uncompressed, compressed)
            pages = chunks / np.maximum(data_pages, 1)  # all of it, if their number is unknown
            sizes = np.maximum(0, [compressed, chunks, pages, first_pages - starts])
            self._bytes[:, missing], self._is_sound[missing] = sizes.sum(axis=1), are_sound.all(axis=0)
            self._is_known[missing] = True
        return self._bytes, self._is_sound


@contextmanager
def naming_invalid_values(path: str, column: str, action: str) -> Iterator[None]:
    """Translate errors of values that Arrow refuses, such as decimals of more digits than their type has.

    Args:
        path: The path of the file.
        column: The name of the column.
        action: What cannot be done with the values, as a participle.
    """
    try:
        yield
    except pa.ArrowException as error:
        raise CorruptFileError(
            f"values of {column!r} cannot be {action}: {error}",
            reason="invalid-values",
            path=path,
            column=column,
        ) from error


def leaves_under(file: ParquetInput, paths: Iterable[Path]) -> list[Leaf]:
    """Return the leaves of fields, given by path, in the order of the schema."""
    wanted = set(paths)
    depths = set(map(len, wanted))
    if depths == {1}:
        return [leaf for leaf in file.footer.leaves if leaf.path[:1] in wanted]
    return [leaf for leaf in file.footer.leaves if any(leaf.path[:depth] in wanted for depth in depths)]
