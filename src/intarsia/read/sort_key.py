"""The order of the rows of a result, and the rows that come first in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_array, comparison_type
from intarsia.predicate import Comparison, Constant, IsNull, Not, Or, Predicate
from intarsia.read.output_columns import OutputColumn
from intarsia.rows.bounds import Bounds
from intarsia.rows.selection import Rows

#: The rank of a granule by the best value that it may contain. Smaller tiers are better.
Rank: TypeAlias = "tuple[int, str, Any]"

_UNBOUNDED: Rank = (0, "", 0)
_NUMBERS, _NULLS = 1, 2


@dataclass(frozen=True)
class SortKey:
    """The column by which rows are ordered.

    As in SQL, NaN is greater than every number. The order of equal values is not defined.

    Attributes:
        column: The column.
        descending: Whether the greatest values come first.
        nulls_first: Whether nulls come first.
    """

    column: OutputColumn
    descending: bool
    nulls_first: bool

    @property
    def type(self) -> pa.DataType:
        """The type in which values are compared."""
        return comparison_type(self.column.type)

    def values(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert a column to the type in which it is compared."""
        return comparison_array(column, self.type)

    def better_than(self, value: pa.Scalar) -> Predicate:
        """Return the condition that a row comes before all rows with a value."""
        path = self.column.path
        if not value.is_valid:
            return Constant(False) if self.nulls_first else IsNull(path, negated=True)
        is_float = pa.types.is_floating(value.type)
        literal = value if pa.types.is_temporal(value.type) else value.as_py()
        if is_float and math.isnan(literal):
            better: Predicate = Constant(False) if self.descending else Comparison(path, "<=", math.inf)
        elif self.descending and is_float:
            better = Not(Comparison(path, "<=", literal))  # matches NaN
        else:
            better = Comparison(path, ">" if self.descending else "<", literal)
        return Or((better, IsNull(path))) if self.nulls_first else better

    def ranks(self, bounds: Bounds) -> list[Rank]:
        """Return the rank of each granule; only the order of reading depends on it."""
        tiers = np.where(bounds.known, _NUMBERS, np.where(bounds.all_null, _NULLS, _UNBOUNDED[0]))
        if self.nulls_first:
            tiers = np.where(bounds.null_counts != 0, _UNBOUNDED[0], tiers)
        if self.descending:
            tiers = np.where(bounds.nan_counts > 0, _UNBOUNDED[0], tiers)
        keys = (bounds.maxima if self.descending else bounds.minima).tolist()
        kind = "" if bounds.ordering is None else bounds.ordering.dtype.kind + str(bounds.ordering.is_bytes)
        return [
            (tier, kind, key) if tier == _NUMBERS else (tier, "", 0)
            for tier, key in zip(tiers.tolist(), keys, strict=True)
        ]

    def best_first(self, ranks: Sequence[Rank]) -> list[int]:
        """Return the positions of ranks, the best first."""

        def in_tier(wanted: int) -> list[int]:
            places = [place for place, rank in enumerate(ranks) if rank[0] == wanted]
            return sorted(places, key=lambda place: ranks[place][1:], reverse=self.descending)

        return [place for tier in (_UNBOUNDED[0], _NUMBERS, _NULLS) for place in in_tier(tier)]

    def best_of(self, ranks: Sequence[Rank]) -> Rank:
        """Return the best of some ranks."""
        return ranks[self.best_first(ranks)[0]] if ranks else (_NULLS, "", 0)


class TopRows:
    """The first rows among those that were found so far.

    Args:
        key: The order.
        limit: The maximum number of rows.

    Attributes:
        rows: The value (``key``), the file (``file``) and the row number (``row``) of each row, in order.
    """

    def __init__(self, key: SortKey, limit: int) -> None:
        self._key = key
        self._limit = limit
        self.rows = pa.schema([("key", key.type), ("file", pa.int64()), ("row", pa.int64())]).empty_table()

    @property
    def num_missing(self) -> int:
        """The number of rows that are still missing."""
        return self._limit - int(self.rows.num_rows)

    @property
    def threshold(self) -> pa.Scalar | None:
        """The value that other rows must precede; None as long as rows are missing."""
        if self.rows.num_rows < self._limit or not self._limit:
            return None
        return self.rows["key"][self._limit - 1]

    def add(self, values: pa.ChunkedArray, file: int, numbers: Rows) -> None:
        """Add rows.

        Args:
            values: The value of each row, as `SortKey.values` returns it.
            file: The ordinal of the file.
            numbers: The row numbers.
        """
        files = np.full(len(numbers), file, dtype=np.int64)
        found = pa.Table.from_arrays([values, pa.array(files), pa.array(numbers)], schema=self.rows.schema)
        rows = pa.concat_tables([self.rows, found])
        self.rows = rows.take(self._order(rows)[: self._limit]).combine_chunks()

    def _order(self, rows: pa.Table) -> Rows:
        values = rows["key"]
        tiers = np.full(rows.num_rows, 1, dtype=np.int8)
        if pa.types.is_floating(values.type):
            is_nan = np.isnan(values.to_numpy())  # nulls are NaN here, too
            tiers[is_nan] = 0 if self._key.descending else 2
        is_null = np.asarray(values.is_null().to_numpy(), dtype=bool)
        tiers[is_null] = -1 if self._key.nulls_first else 3
        order = "descending" if self._key.descending else "ascending"
        keys = [("tier", "ascending"), ("key", order), ("file", "ascending"), ("row", "ascending")]
        if pa.types.is_null(values.type):
            keys.pop(1)
        sorted_rows = rows.append_column("tier", pa.array(tiers))
        return np.asarray(pc.sort_indices(sorted_rows, sort_keys=keys).to_numpy())
