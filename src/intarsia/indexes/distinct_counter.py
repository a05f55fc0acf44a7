"""An approximate counter of distinct values, with the hashes that are described in `intarsia.indexes.hll`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import sortable_type
from intarsia.errors import UnsupportedFeatureError

MIN_LG_CONFIG_K, MAX_LG_CONFIG_K = 4, 21

#: The distinct values of this many values are found at a time.
_PART_ROWS = 1 << 18


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
        self.has_empty = False
        self._union = sketch_library().hll_union(lg_config_k)

    def add(self, values: pa.Array) -> None:
        """Count values of a comparison type, except nulls."""
        for part in _parts(values):
            distinct = pc.unique(_hashed(part)).drop_null()
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
        coupons = _coupons(values)
        for start in range(0, len(coupons), LIST_COUPONS):
            part = coupons[start : start + LIST_COUPONS]
            self._union.update(parse_sketch(_LIST_HEADER % len(part) + part.tobytes()))

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
        return self._union.get_result(sketch_library().tgt_hll_type.HLL_8)


# --- the library ------------------------------------------------------------------------------------------


def sketch_library() -> Any:
    """Return the module `datasketches`, which is imported on first use.

    Raises:
        UnsupportedFeatureError: If it is not installed: it has no wheels for the latest versions of Python.
    """
    try:
        return import_module("datasketches")
    except ModuleNotFoundError as error:
        raise UnsupportedFeatureError(
            "estimates of distinct values need datasketches, which is not installed; install it (pip install "
            "datasketches; for Python 3.14 and later this takes CMake and a C++ compiler)",
            reason="library-not-installed",
        ) from error


def parse_sketch(data: bytes) -> Any:
    """Parse a serialized sketch, whose header the library trusts.

    Raises:
        UnsupportedFeatureError: If the library is not installed.
    """
    return sketch_library().hll_sketch.deserialize(data)


# --- hashing ---------------------------------------------------------------------------------------------


def is_counted(data_type: pa.DataType) -> bool:
    """Return whether values of a comparison type can be counted.

    Example:
        >>> is_counted(pa.date32()), is_counted(pa.list_(pa.int64()))
        (True, False)
    """
    of = pa.types
    return bool(
        of.is_primitive(data_type)  # numbers, dates and times
        or of.is_decimal(data_type)
        or of.is_string(data_type)
        or of.is_binary(data_type)
        or of.is_fixed_size_binary(data_type)
        or of.is_null(data_type)
    )


def _hashed(values: pa.Array) -> pa.Array:
    """Convert values to int64, float64 or binary, in which they are hashed."""
    data_type = values.type
    if pa.types.is_floating(data_type):
        return values.cast(sortable_type(data_type)).cast(pa.float64())
    if pa.types.is_decimal(data_type):
        return values.cast(sortable_type(data_type)).cast(pa.string()).cast(pa.binary())
    are_bytes = (pa.types.is_string, pa.types.is_binary, pa.types.is_fixed_size_binary)
    if any(is_type(data_type) for is_type in are_bytes):
        return values.cast(pa.binary())
    if pa.types.is_uint64(data_type):  # Java has no unsigned integers; the signed one has the same bytes
        return values.view(pa.int64())
    if pa.types.is_temporal(data_type):
        return values.view(pa.int32() if data_type.bit_width == 32 else pa.int64()).cast(pa.int64())
    return values.cast(pa.int64())


def _parts(values: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield parts of which the distinct values fit into caches: they become objects of Python."""
    for piece in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        for start in range(0, len(piece), _PART_ROWS):
            yield piece.slice(start, _PART_ROWS)


# --- serialized sketches ---------------------------------------------------------------------------------
# Source: HllSketch of Apache DataSketches. The header of a list: preamble ints, version, family, lg_k, lg of
# the list's capacity, flags (8: compact), number of coupons, and mode (8: a list of type HLL_8), a byte each.

_SEED = 9001
_KEY_BITS = 26
LIST_COUPONS = 7
_LIST_HEADER = b"\x02\x01\x07" + bytes([MAX_LG_CONFIG_K]) + b"\x03\x08%c\x08"


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
