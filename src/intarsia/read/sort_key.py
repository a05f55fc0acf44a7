"""The order of the rows of a result, and the rows that come first in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import (
    comparison_array,
    comparison_type,
    first_in_order,
    flags_of,
    sortable_type,
)
from intarsia.arrow.owned_rows import take_rows
from intarsia.predicate import And, Comparison, Constant, IsNull, Not, Or, Predicate
from intarsia.read.output_columns import OutputColumn
from intarsia.records import dataclass
from intarsia.rows.bounds import Bounds
from intarsia.rows.selection import Rows

#: Only the first columns of an order exclude rows: few rows have equal values of so many.
_MAX_COMPARED = 16

#: Granules without bounds, or with values that precede all numbers, are read before granules with bounds, and
#: granules of nulls after them, unless nulls come first.
_UNBOUNDED, _BOUNDED, _NULLS = 0, 1, 2


class Ranks(NamedTuple):
    """The ranks of granules by the best value that each may contain. Only the order of reading depends on it.

    Attributes:
        tiers: The tier of each granule; smaller ones are better.
        keys: The best key of each granule; arbitrary outside the tier of granules with bounds.
        worst: The worst key of each granule, likewise.
        key_type: Keys of the same type can be compared.
    """

    tiers: np.ndarray
    keys: np.ndarray
    worst: np.ndarray
    key_type: str

    @property
    def are_one_value(self) -> bool:
        """Whether all granules have the same value, as far as their bounds show."""
        first = self.keys[:1]
        is_same = (self.keys == first) & (self.worst == first) & (self.tiers == _BOUNDED)
        return bool(np.all(is_same))

    def take(self, ordinals: np.ndarray) -> Ranks:
        """Return the ranks of some of the granules, in the given order."""
        return Ranks(self.tiers[ordinals], self.keys[ordinals], self.worst[ordinals], self.key_type)


@dataclass(frozen=True)
class SortKey:
    """The column by which rows are ordered, and those that order rows with equal values.

    As in SQL, NaN is greater than every number.

    Attributes:
        descending: Whether the greatest values come first.
        nulls_first: Whether nulls come first.
        then: The orders of the other columns.
    """

    column: OutputColumn
    descending: bool
    nulls_first: bool
    then: tuple[SortKey, ...] = ()

    @property
    def columns(self) -> list[OutputColumn]:
        """All columns of the order."""
        return [self.column, *(key.column for key in self.then)]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the order under the names ``key0``, ``key1``, …, in the types of comparisons."""
        return pa.schema([(f"key{ordinal}", key.type) for ordinal, key in enumerate((self, *self.then))])

    @property
    def type(self) -> pa.DataType:
        """The type in which values are compared."""
        return comparison_type(self.column.type)

    def values(self, rows: pa.Table) -> pa.Table:
        """Convert the columns of the order to the types in which they are compared; see `schema`."""
        keys = (self, *self.then)
        values = [comparison_array(column, key.type) for column, key in zip(rows.columns, keys, strict=True)]
        return pa.Table.from_arrays(values, schema=self.schema)

    def can_precede(self, values: Sequence[pa.Scalar]) -> Predicate:
        """Return the condition that a row can come before a row with values of the columns of the order.

        In a descending order, each row with NaN in the first column matches unless there is none to read: the
        rows that are read show which row groups have no NaN. Rows with the same values of many columns match.
        """
        keys = (self, *self.then)[:_MAX_COMPARED]
        better: Predicate = Constant(len(keys) < len(values))
        for key, value in reversed(list(zip(keys, values, strict=False))):
            before, same = (key._precedes(value, is_strict=strict) for strict in (True, False))
            if better == Constant(False):
                better = before
            elif key.descending and pa.types.is_floating(value.type) and math.isnan(value.as_py() or 0):
                better = same
            else:
                better = Or((before, And((same, better))))
        return better

    def _precedes(self, value: pa.Scalar, *, is_strict: bool) -> Predicate:
        """Return the condition that a value of the first column precedes another, or is equal to it."""
        path = self.column.path
        if not value.is_valid:
            if self.nulls_first:
                return Constant(False) if is_strict else IsNull(path)
            return IsNull(path, negated=True) if is_strict else Constant(True)
        try:
            literal = value if pa.types.is_temporal(value.type) else value.as_py()
        except UnicodeDecodeError:  # a condition cannot have text that is not UTF-8
            return Constant(True)
        is_float = pa.types.is_floating(value.type)
        better: Predicate
        if is_float and math.isnan(literal):
            is_number = Comparison(path, "<=", math.inf)
            if self.descending:
                better = Constant(False) if is_strict else Not(is_number)
            else:
                better = is_number if is_strict else IsNull(path, negated=True)
        elif self.descending and is_float:  # matches NaN
            better = Not(Comparison(path, "<=" if is_strict else "<", literal))
        elif self.descending:
            better = Comparison(path, ">" if is_strict else ">=", literal)
        else:
            better = Comparison(path, "<" if is_strict else "<=", literal)
        return Or((better, IsNull(path))) if self.nulls_first else better

    def tiers(self, values: pa.ChunkedArray) -> np.ndarray:
        """Return the place of each value among numbers, NaN and nulls, as ``int8``; lower ones come first."""
        tiers = np.full(len(values), 1, dtype=np.int8)
        if pa.types.is_floating(values.type):
            is_nan = np.isnan(values.to_numpy())  # nulls are NaN here, too
            tiers[is_nan] = 0 if self.descending else 2
        is_null = np.asarray(values.is_null().to_numpy(), dtype=bool)
        tiers[is_null] = -1 if self.nulls_first else 3
        return tiers

    def varying(self, ranks: Callable[[SortKey], Ranks | None]) -> SortKey:
        """Return the order of rows without the leading columns that have one value in all granules.

        Args:
            ranks: Returns the ranks of the granules by a column; None if they are not known.
        """
        key = self
        while key.then:
            found = ranks(key)
            if found is None or not found.are_one_value:
                break
            key = replace(key.then[0], then=key.then[1:])
        return key

    def ranks(self, bounds: Bounds) -> Ranks:
        """Return the rank of each granule."""
        tiers = np.where(bounds.known, _BOUNDED, np.where(bounds.all_null, _NULLS, _UNBOUNDED))
        if self.nulls_first:
            tiers = np.where(bounds.null_counts != 0, _UNBOUNDED, tiers)
        if self.descending:
            tiers = np.where(bounds.nan_counts > 0, _UNBOUNDED, tiers)
        ends = (bounds.maxima, bounds.minima) if self.descending else (bounds.minima, bounds.maxima)
        key_type = "number"
        if ends[0].dtype == object:
            assert bounds.ordering is not None
            key_type = "bytes" if bounds.ordering.is_bytes else "decimal"
        return Ranks(tiers, *ends, key_type)

    @staticmethod
    def unknown_ranks(num_granules: int) -> Ranks:
        """Return the ranks of granules without bounds."""
        nothing = np.zeros(num_granules, dtype=np.int64)
        return Ranks(np.full(num_granules, _UNBOUNDED), nothing, nothing, "number")

    def ranks_of_values(self, values: pa.Array) -> Ranks:
        """Return the ranks of granules in which the column has one value each."""
        is_null = flags_of(values.is_null())
        keys = np.empty(len(values), dtype=object)
        keys[:] = values.to_pylist()
        tiers = np.where(is_null, _UNBOUNDED if self.nulls_first else _NULLS, _BOUNDED)
        return Ranks(tiers, keys, keys, str(values.type))

    def next_granules(self, parts: Sequence[Ranks], num_rows: Rows, limit: int, least: int) -> Rows:
        """Choose the granules to read next: the best ones, as many as probably contain the first rows.

        If all rows match and bounds are values, the best of ``n`` granules contain at least ``n`` rows that
        are no worse than the best value of the next granule. So no further granule is needed for ``n`` rows.

        Args:
            parts: The ranks of some of the granules each; positions are those in their concatenation.
            num_rows: The number of relevant rows of each granule; those without any are not chosen.
            limit: The number of rows that are searched.
            least: The minimum number of rows to read, if there are as many.

        Returns:
            The positions of the granules.
        """
        order = self.best_first(parts)
        order = order[num_rows[order] > 0]
        if not len(order):
            return order
        rows = num_rows[order]
        enough = int(np.searchsorted(np.cumsum(rows), least)) + 1
        tiers = np.concatenate([part.tiers for part in parts])[order]
        if tiers[0] != _BOUNDED or len({part.key_type for part in parts}) > 1:
            return order[:enough]
        bounded = int(np.searchsorted(tiers, _BOUNDED, side="right"))
        keys, worst = (
            np.concatenate([getattr(part, name) for part in parts])[order[:bounded]]
            for name in ("keys", "worst")
        )
        # all rows of a granule count as soon as the next granule begins no better than its worst value
        if self.descending:
            counts_from = bounded - np.searchsorted(keys[::-1], worst, side="right")
        else:
            counts_from = np.searchsorted(keys, worst, side="left")
        counts_from = np.maximum(counts_from, np.arange(1, bounded + 1))
        others = np.bincount(counts_from, weights=rows[:bounded] - 1, minlength=bounded + 1)
        proven = np.arange(bounded + 1) + np.cumsum(others)
        likely = min(int(np.searchsorted(proven[1:], limit)) + 1, bounded)
        return order[: max(likely, enough)]

    def best_first(self, parts: Sequence[Ranks]) -> Rows:
        """Return the positions of granules, the best first, and equal ones in their order.

        Args:
            parts: The ranks of some of the granules each; positions are those in their concatenation.
        """
        tiers = np.concatenate([np.empty(0, dtype=np.int64), *(part.tiers for part in parts)])
        kinds = sorted({part.key_type for part in parts})
        kinds_of_parts = np.array([kinds.index(part.key_type) for part in parts], dtype=np.int64)
        kind_of = np.repeat(kinds_of_parts, [len(part.tiers) for part in parts])
        order = [np.flatnonzero(tiers == _UNBOUNDED)]
        for kind, key_type in enumerate(kinds):
            positions = np.flatnonzero((tiers == _BOUNDED) & (kind_of == kind))
            keys = np.concatenate([part.keys for part in parts if part.key_type == key_type])
            keys = keys[tiers[kind_of == kind] == _BOUNDED]
            if self.descending:
                order.append(positions[::-1][np.argsort(keys[::-1], kind="stable")][::-1])
            else:
                order.append(positions[np.argsort(keys, kind="stable")])
        return np.concatenate([*order, np.flatnonzero(tiers == _NULLS)])


class TopRows:
    """The first rows among those that were found so far.

    Args:
        limit: The maximum number of rows.

    Attributes:
        limit: The maximum number of rows.
        rows: The values (``key0``, …), the file (``file``) and the row number (``row``) of each row.
    """

    def __init__(self, key: SortKey, limit: int) -> None:
        self._key = key
        self.limit = limit
        place = [pa.field("file", pa.int64()), pa.field("row", pa.int64())]
        self.rows = pa.schema([*key.schema, *place]).empty_table()

    @property
    def num_missing(self) -> int:
        """The number of rows that are still missing."""
        return self.limit - int(self.rows.num_rows)

    @property
    def condition(self) -> Predicate | None:
        """The condition that other rows must match; None as long as nothing is known about them."""
        if self.rows.num_rows < self.limit or not self.limit:
            return None
        return self._key.can_precede([self.rows[name][self.limit - 1] for name in self._key.schema.names])

    def restore(self, rows: pa.Table) -> None:
        """Return to the rows that were found at an earlier time."""
        self.rows = rows

    def add(self, values: pa.Table, files: Rows, numbers: Rows) -> None:
        """Add rows.

        Args:
            values: The values of each row, as `SortKey.values` returns them.
            files: The ordinal of the file of each row.
        """
        place = [pa.chunked_array([files]), pa.chunked_array([numbers])]
        found = pa.Table.from_arrays([*values.columns, *place], schema=self.rows.schema)
        rows = pa.concat_tables([self.rows, found])
        self.rows = take_rows(rows, self._first(rows)).combine_chunks()

    def _first(self, rows: pa.Table) -> Rows:
        """Return the ordinals of the first rows in order; no two rows are at the same place."""
        columns, sort_keys = {name: rows[name] for name in ("file", "row")}, []
        for ordinal, key in enumerate((self._key, *self._key.then)):
            values = rows[ordinal]
            name, tier = f"key{ordinal}", f"tier{ordinal}"
            columns[tier] = pa.array(key.tiers(values))
            sort_keys.append((tier, "ascending"))
            if not pa.types.is_null(values.type):
                columns[name] = values.cast(sortable_type(values.type))
                sort_keys.append((name, "descending" if key.descending else "ascending"))
        sort_keys += [("file", "ascending"), ("row", "ascending")]
        return np.asarray(first_in_order(pa.table(columns), sort_keys, self.limit).to_numpy())
