"""HyperLogLog sketches, which estimate the number of distinct values and can be merged.

The payload (see `intarsia.indexes.granules`) has one row per granule::

    sketch     binary   Apache DataSketches' HLL sketch of the values, compact, of type HLL_8
    has_empty  bool     whether the values include an empty text, which DataSketches ignores

Values are hashed as in Spark's ``hll_sketch_agg`` (MurmurHash3, seed 9001), so that sketches of both can be
merged: integers as 8 bytes, text and binary as their bytes. Spark's function does not support other types.
They are hashed as follows, with the equivalent Spark expression in parentheses: booleans as 0 and 1 (a cast
to ``int``); dates, times and timestamps as their number of units (``unix_date``, ``unix_micros``); floats as
8 bytes, where -0.0 is 0.0 and all NaNs are equal; decimals as text with all digits of their scale (a cast to
``string``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.comparison import comparison_type
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.indexes.base import Index, OpenIndex, PayloadPart
from intarsia.indexes.distinct_counter import (
    LIST_COUPONS,
    MAX_LG_CONFIG_K,
    MIN_LG_CONFIG_K,
    DistinctCounter,
    is_counted,
    parse_sketch,
)
from intarsia.indexes.granules import (
    merge_rows_of_granules,
    parse_granules,
    pieces_of_granules,
    serialize_granules,
)
from intarsia.indexes.layout import (
    ColumnData,
    Granularity,
    Layout,
    check_granularity,
    check_integer,
    compared_batches,
)
from intarsia.predicate.bound import Condition
from intarsia.rows.selection import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCHEMA = pa.schema(
    [pa.field("sketch", pa.binary(), nullable=False), pa.field("has_empty", pa.bool_(), nullable=False)]
)


@dataclass(frozen=True)
class Hll(Index):
    """HyperLogLog sketches of a column's distinct values (Apache DataSketches).

    `Table.approx_distinct` merges the sketches of files without reading data. Sketches do not skip rows. With
    the default ``lg_config_k`` the standard error is about 1.6% (3.2% at two standard deviations), and a
    sketch of many values takes 4 KiB.

    Spark reads the sketches with ``hll_sketch_estimate`` and ``hll_union_agg``, and can merge its own with
    them. See `Table.sketches`.

    Args:
        column: The column, dotted if it is nested. It must not be inside a list or a map.
        granularity: ``"file"``, ``"row_group"``, ``"page"``, or a number of rows. With smaller granules,
            sketches also answer counts with a condition, for granules in which all rows match.
        lg_config_k: The binary logarithm of the number of registers, 4 to 21. Spark's default is 12.

    Example:
        >>> import intarsia as ia
        >>> ia.Hll("user")
        Hll(column='user', granularity='file', lg_config_k=12)
    """

    kind: ClassVar[str] = "hll"
    version: ClassVar[int] = 2
    purpose: ClassVar[str] = "estimate numbers of distinct values"

    column: str
    granularity: Granularity = "file"
    lg_config_k: int = 12

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_granularity(self)
        check_integer(self, "lg_config_k", MIN_LG_CONFIG_K, MAX_LG_CONFIG_K)

    def can_prune(self, condition: Condition) -> bool:
        """Return False: sketches only count."""
        return False

    def can_sketch(self, column: str) -> bool:
        """Return whether ``column`` is the indexed column."""
        return column == self.column

    def build(self, chunk: ColumnData) -> bytes:
        """Sketch the values of each granule."""
        edges = chunk.layout.edges(self.granularity, self.column)
        value_type = comparison_type(chunk.type_of(self.column))
        if not is_counted(value_type):
            raise IndexBuildError(
                f"Hll: values of {self.column!r} ({value_type}) cannot be hashed; omit the index",
                reason="type-not-hashable",
                column=self.column,
            )
        rows = []
        for pieces in pieces_of_granules(edges, compared_batches(chunk, self.column)):
            counter = DistinctCounter(self.lg_config_k)
            for piece in pieces:
                counter.add(piece)
            rows.append(dict(zip(_SCHEMA.names, counter.to_sketch(), strict=True)))
        return serialize_granules(pa.RecordBatch.from_pylist(rows, schema=_SCHEMA), edges, self.granularity)

    def merge(self, parts: Sequence[PayloadPart]) -> bytes:
        """Concatenate the sketches of all granules."""
        return merge_rows_of_granules(parts, self.granularity, f"Hll({self.column!r})")

    def open(self, payload: bytes, layout: Layout) -> OpenHll:
        """Open the sketches of all granules."""
        name = f"Hll({self.column!r})"
        granules = parse_granules(payload, layout, self.granularity, name, _SCHEMA, has_row_each=True)
        if any(column.null_count for column in granules.batch.columns):
            raise granules.damaged("a sketch is null")
        sketches, has_empty = granules.batch.columns
        return OpenHll(granules.edges, sketches, has_empty)


@dataclass(frozen=True)
class OpenHll(OpenIndex):
    """The sketches of all granules.

    Attributes:
        edges: The first row of each granule, then the number of rows.
        sketches: One serialized Apache DataSketches sketch per granule.
        has_empty: One boolean per granule, whether its values include an empty text.
    """

    edges: Rows
    sketches: pa.BinaryArray
    has_empty: pa.BooleanArray

    def add_to(self, counter: DistinctCounter, granules: npt.NDArray[np.bool_]) -> None:
        """Add the sketches of granules to a counter.

        Raises:
            IndexPayloadError: If a sketch is damaged. The counter is then unchanged.
        """
        chosen = pa.array(granules)
        for sketch in [_parse(data.as_py()) for data in self.sketches.filter(chosen)]:
            counter.add_sketch(sketch)
        if any(self.has_empty.filter(chosen).to_pylist()):
            counter.add_empty()


# The header of a sketch; see `intarsia.indexes.distinct_counter`.
_LIST, _SET, _HLL_8 = 8, 9, 10
_COMPACT, _MAX_FLAGS = 8, 0x1F


def _parse(data: bytes) -> object:
    """Parse a serialized sketch.

    Raises:
        IndexPayloadError: If the bytes are not a sketch.
    """
    try:
        if not _is_sound(data):
            raise ValueError("its preamble does not agree with its length")
        return parse_sketch(data)
    except (ValueError, IndexError, RuntimeError, MemoryError) as error:
        raise IndexPayloadError(f"a sketch is damaged: {error}", reason="damaged-payload") from error


def _is_sound(data: bytes) -> bool:
    """Return whether the bytes may be a sketch. The library trusts the header and may read beyond the end."""
    if len(data) < 8 or not MIN_LG_CONFIG_K <= data[3] <= MAX_LG_CONFIG_K:
        return False
    ints, version, family, lg_config_k, lg_array, flags, count, mode = data[:8]
    if (version, family) != (1, 7) or not flags & _COMPACT or flags > _MAX_FLAGS:
        return False
    if mode == _LIST:
        return ints == 2 and lg_array == 3 and count <= LIST_COUPONS and len(data) == 8 + 4 * count
    number = int.from_bytes(data[8:12], "little")
    if mode == _SET:
        fits = len(data) == 12 + 4 * number and 4 * number <= 3 << lg_array
        return ints == 3 and 5 <= lg_array <= MAX_LG_CONFIG_K and fits
    exceptions = data[36:40]
    return (
        (mode, ints, lg_array, count) == (_HLL_8, 10, 0, 0)
        and len(data) == 40 + (1 << lg_config_k)
        and not any(exceptions)
    )
