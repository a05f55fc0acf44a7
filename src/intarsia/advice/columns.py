"""The shapes of columns: advice without queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.embed.column_data import FileColumns
from intarsia.errors import IntarsiaError
from intarsia.file import ParquetInput

#: A column with at most this many distinct values in the sample has few of them, if each repeats.
FEW_VALUES = 1_000
REPEATED = 10

#: A column is sorted if this share of adjacent, different values is in order, and this share of a few values
#: that are far apart. A time that restarts each day is not sorted: its bounds contain the whole day.
SORTED_PART = 0.95
SORTED_FAR_PART = 0.75
FAR_VALUES = 64

#: Values are clustered if pieces of this many rows have at most this part of the distinct values on average.
PIECE_ROWS = 1_000
CLUSTERED_PART = 0.5

#: A column is unique if this part of its values are distinct.
UNIQUE_PART = 0.95

_SUGGESTIONS = {
    "no-rows": "there are no rows",
    "all-null": "all values are null: bounds exclude all rows, except for IS NULL",
    "constant": "one distinct value: bounds exclude all rows or none; indexes can skip only pages of nulls",
    "sorted": "sorted: PageIndex skips pages by their bounds",
    "clustered": "few distinct values, clustered: Distinct skips pages for any condition",
    "few-values": "few distinct values, not clustered: indexes skip pages only if the column is sorted",
    "unique": "nearly all values are distinct: RowMap or Bloom for lookups by = or IN",
    "scattered": "too many values for Distinct, not sorted: BloomGranule or Bloom for lookups by = or IN",
    "nested": "inside a list or a map: conditions cannot use it",
    "not-comparable": "its values cannot be compared",
}


@dataclass(frozen=True)
class ColumnShape:
    """The shape of a column in the sample.

    Attributes:
        column: The dotted path of the column.
        shape: A stable code: ``"sorted"``, ``"clustered"``, ``"few-values"``, ``"unique"``, ``"scattered"``,
            ``"constant"``, ``"all-null"``, ``"no-rows"``, ``"nested"`` or ``"not-comparable"``.
        rows: Number of rows in the sample.
        nulls: Number of nulls among them.
        distinct: Number of distinct values other than null among them.
    """

    column: str
    shape: str
    rows: int = 0
    nulls: int = 0
    distinct: int = 0

    @property
    def text(self) -> str:
        """The meaning of the shape, and the index that may help."""
        return _SUGGESTIONS[self.shape]

    def __str__(self) -> str:
        return f"{self.column}: {self.text}"

    def to_dict(self) -> dict[str, str | int]:
        """Return the shape as a JSON object."""
        return {**vars(self), "text": self.text}


def shapes_of(file: ParquetInput) -> list[ColumnShape]:
    """Return the shape of each leaf column of a file."""
    columns = FileColumns(file, lambda _: None)
    return [
        _shape(columns, leaf.name) if leaf.is_flat else ColumnShape(leaf.name, "nested")
        for leaf in file.footer.leaves
    ]


def _shape(columns: FileColumns, column: str) -> ColumnShape:
    if columns.layout.num_rows == 0:
        return ColumnShape(column, "no-rows")
    try:
        values = pa.chunked_array([piece for _, piece in columns.batches(column)])
        present = values.drop_null()
        distinct = pc.count_distinct(present).as_py() if len(present) else 0
        code = _code(present, distinct)
    except (IntarsiaError, pa.ArrowException):
        return ColumnShape(column, "not-comparable")
    return ColumnShape(column, code, len(values), values.null_count, distinct)


def _code(present: pa.ChunkedArray, distinct: int) -> str:
    if distinct == 0:
        return "all-null"
    if distinct == 1:
        return "constant"
    one = pa.concat_arrays(present.chunks)
    values = one.cast(one.type.value_type) if pa.types.is_dictionary(one.type) else one
    if _ordered_part(values) >= SORTED_PART and _ordered_part(_far_values(values), 1) >= SORTED_FAR_PART:
        return "sorted"
    if distinct <= FEW_VALUES and len(values) >= REPEATED * distinct:
        starts = range(0, len(values), max(PIECE_ROWS, len(values) // 64))
        pieces = [pc.count_distinct(values[start : start + PIECE_ROWS]).as_py() for start in starts]
        is_clustered = sum(pieces) / len(pieces) <= CLUSTERED_PART * distinct
        return "clustered" if is_clustered else "few-values"
    return "unique" if distinct >= UNIQUE_PART * len(values) else "scattered"


def _far_values(values: pa.Array) -> pa.Array:
    """Return a few values in order, from random positions, because values may repeat at any fixed step."""
    positions = np.random.default_rng(0).integers(0, len(values), FAR_VALUES)
    return values.take(pa.array(np.sort(positions)))


def _ordered_part(values: pa.Array, if_equal: float = 0) -> float:
    """Return the share of adjacent, different values that are in order; the better of both directions."""
    up = pc.sum(pc.less(values[:-1], values[1:])).as_py() or 0
    down = pc.sum(pc.greater(values[:-1], values[1:])).as_py() or 0
    return max(up, down) / (up + down) if up + down else if_equal
