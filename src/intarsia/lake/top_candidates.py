"""The files that may contain the first rows of a table in an order, by the bounds of all of them.

The bounds of a lake index are used, and otherwise the footers of files with the same columns, which are
joined once. So the files are ordered, and excluded by the worst row that was found, with a few array
operations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import compares_alike, comparison_type, sortable_type
from intarsia.errors import FormatError, PredicateError
from intarsia.file.joined import JoinedInput, JoinedMetadata, JoinedPart
from intarsia.file.schema import FileSchema
from intarsia.indexes.statistics import column_statistics, exact_bounds
from intarsia.lake.binding import TableBinder
from intarsia.lake.families import families, read_footers
from intarsia.lake.index.known_files import FamilyFiles
from intarsia.lake.snapshot import Snapshot
from intarsia.lake.survivors import find_survivors
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Path, Predicate
from intarsia.read.aggregate.answers import values_of_keys
from intarsia.read.output_columns import OutputColumn
from intarsia.read.prune import prune_joined
from intarsia.read.report import ScanReport
from intarsia.read.sort_key import Ranks, SortKey
from intarsia.rows.bounds import Bools, Bounds
from intarsia.storage import reading_indexes

#: Approximate memory limit of the footers that are joined for the order of the files.
MAX_FOOTER_BYTES = 256 << 20

#: The minimum number of granules, those with the best bounds, from which `TopCandidates.floor` is computed.
_FLOOR_GRANULES = 64


class _Granules(NamedTuple):
    """Files or row groups, and the best values that they may contain.

    Attributes:
        files: The ordinal of the file of each granule in the table.
        ranks: The ranks of the granules.
        bounds: Bounds; None if the column has one value in each file.
        positions: The position of each granule in the bounds.
        data_type: The type of the column in the files.
        is_exact: Returns which granules of the bounds have bounds that are values, given the relevant ones.
    """

    files: np.ndarray
    ranks: Ranks
    bounds: Bounds | None = None
    positions: np.ndarray = np.empty(0, dtype=np.int64)
    data_type: pa.DataType = pa.null()
    is_exact: Callable[[np.ndarray], Bools] = lambda positions: np.zeros(len(positions), dtype=bool)


@dataclass(frozen=True, eq=False)
class _Family:
    """Files with the same columns that no lake index contains.

    Attributes:
        joined: Their metadata.
        files: Their ordinals in the table.
    """

    joined: JoinedMetadata
    files: np.ndarray


class TopCandidates:
    """The files that may contain the first rows in an order.

    Args:
        table: The table.
        key: The order.
        columns: The columns of the query, for the report.
        report: The report.
        files: The ordinals of the files.
        snapshot: The run of the query.

    Attributes:
        footers: The footers that were read for the order of the files.

    Raises:
        ObjectStoreError: If a store is unreachable or refuses access.
        QueryTimeoutError: If the time limit of the query has passed.
    """

    def __init__(
        self,
        table: TableFiles,
        key: SortKey,
        columns: Sequence[OutputColumn],
        report: ScanReport,
        files: Sequence[int],
        *,
        snapshot: Snapshot,
    ) -> None:
        self._table = table
        self._key = key
        self._columns = columns
        self._report = report
        self._pending = np.zeros(len(table.files), dtype=bool)
        self._pending[list(files)] = True
        self._snapshot = snapshot
        self._known = snapshot.known
        unknown = self._pending if self._known is None else self._pending & ~self._known.is_known
        self.footers: dict[int, JoinedPart] = {}
        self._families: list[_Family] = []
        self._granules: list[_Granules] = []
        self._granule_order = self._order = np.array(files, dtype=np.int64)
        if len(files) > 1:
            self._families += self._join(np.flatnonzero(unknown).tolist())
            self._granules += self._found_granules()
            self._granule_order = self._key.best_first([part.ranks for part in self._granules])
            self._order = self._best_first()

    def take(self, num_files: int) -> list[int]:
        """Remove the best files, and return their ordinals, the best first.

        Args:
            num_files: The maximum number of files.
        """
        self._order = self._order[self._pending[self._order]]
        taken: list[int] = self._order[:num_files].tolist()
        self._pending[taken] = False
        return taken

    # --- exclusion ---------------------------------------------------------------------------------

    def exclude(self, better: Predicate) -> None:
        """Exclude the files in which no row can precede the rows that were found.

        Args:
            better: The condition that a row precedes them.
        """
        binder = TableBinder(self._table, better, self._columns)
        known = np.zeros_like(self._pending) if self._known is None else self._pending & self._known.is_known
        if known.any():
            found = find_survivors(self._table, binder, self._report, snapshot=self._snapshot, among=known)
            self._pending &= ~known
            self._pending[list(found.files)] = True
        self._exclude_by_footers(binder)

    def exclude_by_footers(self, where: Predicate) -> None:
        """Exclude the files that no lake index contains, and in which no row matches a predicate.

        Args:
            where: The predicate.
        """
        if self._families:
            self._exclude_by_footers(TableBinder(self._table, where, self._columns))

    def _exclude_by_footers(self, binder: TableBinder) -> None:
        for family in self._families:
            mine = self._pending[family.files]
            if mine.any():
                with contextlib.suppress(FormatError, PredicateError):  # searching the file raises it
                    self._exclude_in(family, mine, binder)

    def _exclude_in(self, family: _Family, mine: Bools, binder: TableBinder) -> None:
        joined, first = family.joined, self._table.files[int(family.files[0])]
        predicate, constants = binder.bind_family(joined.schema, first.path, family.files)
        if predicate is None:
            return
        file = JoinedInput(joined)
        query = binder.query(replace(first, deletes=None), file)
        pruned, known, _ = prune_joined(
            file, predicate, constants, query.estimated_bytes_by_group, reads=False
        )
        edges = joined.row_edges
        gone = mine & ~pruned.candidates.overlaps(edges[:-1], edges[1:])
        if gone.any():
            self._report.add_excluded_together(query, joined, known, gone)
            self._pending[family.files[gone]] = False

    # --- the order of the files --------------------------------------------------------------------

    def _best_first(self) -> np.ndarray:
        files = np.concatenate([np.empty(0, dtype=np.int64), *(part.files for part in self._granules)])
        files = files[self._granule_order]
        files = files[np.sort(np.unique(files, return_index=True)[1])]
        unranked = self._pending.copy()
        unranked[files] = False
        empty = np.zeros_like(unranked)
        for family in self._families:
            empty[family.files] = unranked[family.files]
        return np.concatenate([np.flatnonzero(unranked & ~empty), files, np.flatnonzero(empty)])

    def _found_granules(self) -> Iterator[_Granules]:
        binder = TableBinder(self._table, None, [self._key.column])
        members = self._known.families() if self._known is not None else ()
        finders = [
            *(partial(self._granules_of_known, one, binder) for one in members),
            *(partial(self._granules_of_joined, one, binder) for one in self._families),
        ]
        for granules_of in finders:
            with contextlib.suppress(FormatError, PredicateError):  # searching the files raises it
                found = granules_of()
                if found is not None:
                    yield found

    def _granules_of_known(self, one: FamilyFiles, binder: TableBinder) -> _Granules | None:
        schema, first = one.family.schema, self._table.files[int(one.files[0])].path
        _, constants = binder.bind_family(schema, first, one.files)
        path = self._path_in(schema, first)
        if path in constants:
            return _Granules(one.files, self._key.ranks_of_values(constants[path]))
        with reading_indexes():
            found = one.family.bounds(path)
        if found is None:
            return None
        data_type = schema.leaf_types[schema.leaves_by_path[path].ordinal]
        ranks = self._key.ranks(found.bounds).take(one.within)
        return _Granules(one.files, ranks, found.bounds, one.within, data_type, lambda _: found.exact)

    def _granules_of_joined(self, one: _Family, binder: TableBinder) -> _Granules | None:
        schema, first = one.joined.schema, self._table.files[int(one.files[0])].path
        _, constants = binder.bind_family(schema, first, one.files)
        path = self._path_in(schema, first)
        if path in constants:
            return _Granules(one.files, self._key.ranks_of_values(constants[path]))
        file = JoinedInput(one.joined)
        bounds = column_statistics(file, path)
        leaf = file.leaves_by_path.get(path)
        ordering = None if leaf is None else schema.ordering(leaf)
        if bounds is None or leaf is None or ordering is None:
            return None
        files = np.repeat(one.files, np.diff(one.joined.group_edges))
        return _Granules(
            files,
            self._key.ranks(bounds),
            bounds,
            np.arange(len(files)),
            file.leaf_types[leaf.ordinal],
            lambda positions: exact_bounds(file, leaf, ordering, positions.tolist()),
        )

    # --- the floor ---------------------------------------------------------------------------------

    def floor(self, limit: int) -> pa.Scalar | None:
        """Return a value such that at least ``limit`` rows of the files have it or better ones.

        If the bounds of a granule are values of the column, one row has the better of them, and all rows have
        the worse of them or better values. So the files that can contain the first rows are known before any
        row is read. This does not hold if only some of the rows are queried.

        Args:
            limit: The number of rows.

        Returns:
            The value; None if no bounds prove one.
        """
        best = self._granule_order[: max(_FLOOR_GRANULES, 2 * limit)]
        values: list[pa.Array] = []
        counts: list[np.ndarray] = []
        start = 0
        for part in self._granules:
            mine = best[(best >= start) & (best < start + len(part.files))] - start
            start += len(part.files)
            mine = mine[self._pending[part.files[mine]] & ~self._table.has_deletes[part.files[mine]]]
            with contextlib.suppress(FormatError, pa.ArrowException, OverflowError, ValueError):
                found = self._rows_at_least(part, mine)
                if found is not None:
                    values.append(found[0])
                    counts.append(found[1])
        if not values:
            return None
        column, num_rows = pa.chunked_array(values), np.concatenate(counts)
        order = pc.sort_indices(
            column.cast(sortable_type(column.type)),
            sort_keys=[("", "descending" if self._key.descending else "ascending")],
        )
        order = np.asarray(order.to_numpy())
        enough = int(np.searchsorted(np.cumsum(num_rows[order]), limit))
        return None if enough == len(order) else column[int(order[enough])]

    def _rows_at_least(self, part: _Granules, mine: np.ndarray) -> tuple[pa.Array, np.ndarray] | None:
        """Return values, and for each of them a number of rows that have it or better ones.

        Args:
            part: Granules.
            mine: Those that are used, by position in it.
        """
        bounds, key = part.bounds, self._key
        if bounds is None or bounds.ordering is None or not len(mine):
            return None
        if not compares_alike(comparison_type(part.data_type), key.type):
            return None
        positions = part.positions[mine]
        valued = bounds.known[positions] & part.is_exact(positions)[positions]
        good, bad = (bounds.maxima, bounds.minima) if key.descending else (bounds.minima, bounds.maxima)
        others = np.where(
            bounds.null_counts[positions] >= 0,
            bounds.stops[positions] - bounds.starts[positions] - bounds.null_counts[positions] - 1,
            0,
        )
        if not key.descending:  # NaN is worse than any number
            others = np.where(bounds.nan_counts[positions] == 0, others, 0)
        keys = np.concatenate([good[positions][valued], bad[positions][valued]])
        values = values_of_keys(bounds.ordering, keys, np.ones(len(keys), dtype=bool))
        num_good = int(valued.sum())
        return values.cast(key.type), np.concatenate([np.ones(num_good, dtype=np.int64), others[valued]])

    def _path_in(self, schema: FileSchema, path: str) -> Path:
        """Return the path of the key in files with a schema; ``path`` is one of them."""
        names = self._table.names_in(schema, path)
        return self._key.column.path if names is None else names.path(self._key.column.path)

    # --- footers -----------------------------------------------------------------------------------

    def _join(self, files: Sequence[int]) -> Iterator[_Family]:
        """Read and join the footers of files, except those for which there is no memory."""
        num_bytes = 0
        read = read_footers(self._snapshot, files, self._table.files_at_once, only_settled=False)
        with contextlib.closing(read):
            for family in families(read):
                self.footers |= family
                yield _Family(self._table.cache.join(list(family.values())), np.array(list(family)))
                num_bytes += sum(part.metadata.memory_bytes for part in family.values())
                if num_bytes > MAX_FOOTER_BYTES:
                    break
