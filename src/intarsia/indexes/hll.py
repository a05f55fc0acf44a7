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

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_type, sortable_type
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.indexes.column_data import ColumnData
from intarsia.indexes.granules import compared_batches, cut_at_edges, parse_granules, serialize_granules
from intarsia.indexes.layout import Granularity, Layout
from intarsia.indexes.merging import PayloadPart, merge_rows_of_granules
from intarsia.indexes.parameters import check_granularity, check_integer
from intarsia.predicate.bound import Condition
from intarsia.rows.selection import Rows, RowSelection

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MIN_LG_CONFIG_K, MAX_LG_CONFIG_K = 4, 21

_SCHEMA = pa.schema(
    [pa.field("sketch", pa.binary(), nullable=False), pa.field("has_empty", pa.bool_(), nullable=False)]
)


@dataclass(frozen=True)
class Hll:
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
    version: ClassVar[int] = 1
    purpose: ClassVar[str] = "estimate numbers of distinct values"

    column: str
    granularity: Granularity = "file"
    lg_config_k: int = 12

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_granularity(self)
        check_integer(self, "lg_config_k", MIN_LG_CONFIG_K, MAX_LG_CONFIG_K)

    @property
    def columns(self) -> tuple[str, ...]:
        """The indexed column."""
        return (self.column,)

    def can_prune(self, predicate: Condition) -> bool:  # noqa: ARG002
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
        finished: list[tuple[bytes, bool]] = []
        counter = DistinctCounter(self.lg_config_k)
        for granule, piece in cut_at_edges(edges, compared_batches(chunk, self.column)):
            while len(finished) < granule:
                finished.append(counter.to_sketch())
                counter = DistinctCounter(self.lg_config_k)
            counter.add(piece)
        while len(finished) < len(edges) - 1:
            finished.append(counter.to_sketch())
            counter = DistinctCounter(self.lg_config_k)
        columns = zip(*finished, strict=True) if finished else ((), ())
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        return serialize_granules(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA), edges, self.granularity)

    def can_merge(self) -> bool:
        """Return whether granules are within row groups."""
        return self.granularity != "file"

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
class OpenHll:
    """The sketches of all granules.

    Attributes:
        edges: The first row of each granule, then the number of rows.
        sketches: One serialized Apache DataSketches sketch per granule.
        has_empty: One boolean per granule, whether its values include an empty text.
    """

    edges: Rows
    sketches: pa.BinaryArray
    has_empty: pa.BooleanArray

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:  # noqa: ARG002
        """Return None: sketches do not locate rows."""
        return None

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


class DistinctCounter:
    """An approximate counter of distinct values, a HyperLogLog sketch to which values and sketches are added.

    Args:
        lg_config_k: The binary logarithm of the maximum number of registers. The coarsest sketch that is
            added determines the result.

    Attributes:
        has_empty: Whether the counted values include an empty text.

    Example:
        >>> counter = DistinctCounter(12)
        >>> counter.add(pa.array(["a", "b", "", None, "a"]))
        >>> round(counter.estimate)
        3
    """

    def __init__(self, lg_config_k: int) -> None:
        from datasketches import hll_union

        self.has_empty = False
        self._union = hll_union(lg_config_k)

    def add(self, values: pa.Array) -> None:
        """Count values of a comparison type, except nulls."""
        for hashed in _pieces(_hashed(values)):
            distinct = pc.unique(hashed).drop_null()
            if pa.types.is_binary(distinct.type):
                lengths = pc.binary_length(distinct)
                self.has_empty |= bool(pc.any(pc.equal(lengths, 0)).as_py())
                distinct = distinct.filter(pc.greater(lengths, 0))
                try:
                    distinct = distinct.cast(pa.string())  # the library hashes the bytes of a string
                except pa.ArrowInvalid:
                    self._add_bytes(distinct.to_pylist())
                    continue
            deque(map(self._union.update, distinct.to_pylist()), maxlen=0)

    def add_empty(self) -> None:
        """Count the empty text, which sketches ignore."""
        self.has_empty = True

    def _add_bytes(self, values: list[bytes]) -> None:
        """Count byte arrays that are not text, which the library does not accept in Python.

        A sketch keeps a 32-bit coupon of each value. A serialized sketch of a few values is a list of their
        coupons, in the order of the values, which the library's estimator requires.
        """
        from datasketches import hll_sketch

        coupons = _coupons(values)
        for start in range(0, len(coupons), _LIST_COUPONS):
            part = coupons[start : start + _LIST_COUPONS]
            self._union.update(hll_sketch.deserialize(_LIST_HEADER % len(part) + part.tobytes()))

    def add_sketch(self, sketch: object) -> None:
        """Add the values of a `datasketches.hll_sketch`."""
        self._union.update(sketch)
        # a union that took the registers of a finer sketch counts as empty until its estimate is computed,
        # and would forget these values with the next update
        self._union.get_estimate()

    def merge(self, other: DistinctCounter) -> None:
        """Add the values of another counter."""
        self.add_sketch(other._to_sketch())
        self.has_empty |= other.has_empty

    @property
    def estimate(self) -> float:
        """The estimated number of distinct values."""
        return float(self._union.get_estimate()) + self.has_empty

    def bounds(self, num_std_devs: int) -> tuple[float, float]:
        """Return the confidence interval of the estimate, at 1, 2 or 3 standard deviations."""
        union = self._union
        bounds = union.get_lower_bound(num_std_devs), union.get_upper_bound(num_std_devs)
        return bounds[0] + self.has_empty, bounds[1] + self.has_empty

    def to_sketch(self) -> tuple[bytes, bool]:
        """Return the serialized sketch, and whether an empty text was counted, which it ignores."""
        return self._to_sketch().serialize_compact(), self.has_empty

    def _to_sketch(self) -> Any:
        from datasketches import tgt_hll_type

        return self._union.get_result(tgt_hll_type.HLL_8)


# --- hashing ---------------------------------------------------------------------------------------------


def is_counted(data_type: pa.DataType) -> bool:
    """Return whether values of a comparison type can be counted.

    Example:
        >>> is_counted(pa.date32()), is_counted(pa.list_(pa.int64()))
        (True, False)
    """
    of = pa.types
    return bool(
        of.is_boolean(data_type)
        or of.is_integer(data_type)
        or of.is_floating(data_type)
        or of.is_decimal(data_type)
        or of.is_date(data_type)
        or of.is_time(data_type)
        or of.is_timestamp(data_type)
        or of.is_duration(data_type)
        or of.is_string(data_type)
        or of.is_binary(data_type)
        or of.is_fixed_size_binary(data_type)
        or of.is_null(data_type)
    )


def _hashed(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Convert values to int64, float64 or binary, in which they are hashed."""
    data_type = values.type
    if pa.types.is_floating(data_type):
        return values.cast(sortable_type(data_type)).cast(pa.float64())
    if pa.types.is_decimal(data_type):
        return values.cast(sortable_type(data_type)).cast(pa.string()).cast(pa.binary())
    if (
        pa.types.is_string(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_fixed_size_binary(data_type)
    ):
        return values.cast(pa.binary())
    if pa.types.is_uint64(data_type):  # Java has no unsigned integers; the signed one has the same bytes
        return values.view(pa.int64())
    if pa.types.is_temporal(data_type):
        return values.view(pa.int32() if data_type.bit_width == 32 else pa.int64()).cast(pa.int64())
    return values.cast(pa.int64())


def _pieces(values: pa.Array | pa.ChunkedArray) -> Iterable[pa.Array]:
    return values.chunks if isinstance(values, pa.ChunkedArray) else [values]


# --- serialized sketches ---------------------------------------------------------------------------------
# Source: HllSketch of Apache DataSketches. The header of a list: preamble ints, version, family, lg_k, lg of
# the list's capacity, flags (8: compact), number of coupons, and mode (8: a list of type HLL_8), a byte each.

_SEED = 9001
_KEY_BITS = 26
_LIST_COUPONS = 7
_LIST_HEADER = b"\x02\x01\x07" + bytes([MAX_LG_CONFIG_K]) + b"\x03\x08%c\x08"

_LIST, _SET, _HLL_8 = 8, 9, 10
_COMPACT, _MAX_FLAGS = 8, 0x1F


def _coupons(values: list[bytes]) -> npt.NDArray[np.uint32]:
    """Return for each value 26 bits of its hash, and above them 1 + the leading zeros of 64 other bits."""
    from mmh3 import mmh3_x64_128_digest

    digests = b"".join([mmh3_x64_128_digest(value, _SEED) for value in values])
    first, second = np.frombuffer(digests, dtype="<u8").reshape(-1, 2).T
    high, low = (second >> np.uint64(32)).astype(np.float64), (second & np.uint64(0xFFFFFFFF))
    bits = np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low.astype(np.float64))[1])
    zeros = np.minimum(64 - bits, 62).astype(np.uint64)
    key = first & np.uint64((1 << _KEY_BITS) - 1)
    return np.asarray((zeros + np.uint64(1)) << np.uint64(_KEY_BITS) | key, dtype="<u4")


def _parse(data: bytes) -> object:
    """Parse a serialized sketch.

    Raises:
        IndexPayloadError: If the bytes are not a sketch.
    """
    from datasketches import hll_sketch

    try:
        if not _is_sound(data):
            raise ValueError("its preamble does not agree with its length")
        return hll_sketch.deserialize(data)
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
        return ints == 2 and lg_array == 3 and count <= _LIST_COUPONS and len(data) == 8 + 4 * count
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
