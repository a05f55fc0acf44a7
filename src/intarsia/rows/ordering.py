"""The order of a leaf's values, and the conversion of bounds between bytes, keys and truncated bounds.

Bounds are compared as *keys*. All keys of a leaf have one NumPy dtype, chosen so that the order of keys is
the order that Parquet defines for the type.

=====================================  ==========================================
leaf                                   dtype of its keys
=====================================  ==========================================
signed integers, date, time, timestamp ``int64`` (timestamps in the file's own unit)
unsigned integers                      ``uint64``
float16, float, double                 ``float64``; NaN has no key
decimal                                ``int64`` up to 18 digits, else Python ``int`` (unscaled)
boolean                                ``int64``, 0 or 1
strings, binary, fixed binary, UUID    ``bytes``, compared as unsigned bytes
=====================================  ==========================================

Types without a defined order (INT96, INTERVAL, VARIANT, GEOMETRY, GEOGRAPHY, unknown logical types) have no
`Ordering`. Source: ``ColumnOrder`` in ``parquet.thrift``, ``LogicalTypes.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.comparison import comparison_array, comparison_type
from intarsia.errors import CorruptFileError
from intarsia.format.enums import ConvertedType, Type
from intarsia.format.footer import Leaf
from intarsia.format.structs import ColumnIndex
from intarsia.once import cached_property
from intarsia.predicate.literals import NS_PER_UNIT
from intarsia.records import dataclass

Keys = npt.NDArray[Any]

#: Logical types that have no order, for any physical type.
UNORDERED_TYPES = frozenset(("LIST", "MAP", "VARIANT", "GEOMETRY", "GEOGRAPHY", "UNKNOWN"))

_INT64_DIGITS = 18

#: The dtypes of encoded numbers.
_WIRES = {Type.BOOLEAN: "<u1", Type.INT32: "<i4", Type.INT64: "<i8", Type.FLOAT: "<f4", Type.DOUBLE: "<f8"}

#: Scalars whose Python value is their key, and the NumPy kind of these keys.
_PLAIN_KINDS: dict[type[pa.Scalar], str] = {
    **dict.fromkeys((pa.Int8Scalar, pa.Int16Scalar, pa.Int32Scalar, pa.Int64Scalar), "i"),
    **dict.fromkeys((pa.UInt8Scalar, pa.UInt16Scalar, pa.UInt32Scalar, pa.UInt64Scalar), "u"),
    **dict.fromkeys((pa.FloatScalar, pa.DoubleScalar), "f"),
}


@dataclass(frozen=True)
class ArrowOrdering:
    """The order of Arrow values.

    Attributes:
        dtype: The NumPy dtype of the keys.
        units_per_arrow: Factors ``(multiply, divide)`` that convert Arrow's integer to the key.
    """

    arrow_type: pa.DataType
    dtype: np.dtype[Any]
    units_per_arrow: tuple[int, int]

    @cached_property
    def is_float(self) -> bool:
        """Whether values may be NaN or negative zero."""
        return self.dtype == np.float64

    @cached_property
    def is_bytes(self) -> bool:
        """Whether keys are bytes, so that bounds may be truncated."""
        return self.dtype == object and not pa.types.is_decimal(comparison_type(self.arrow_type))

    def keys(self, array: pa.Array) -> Keys:
        """Return the keys of the non-null values of an Arrow array, in the order of the array.

        Args:
            array: Values of `arrow_type` or of its comparison type (a dictionary's value type, a view's plain
                type, an extension's storage).
        """
        plain = comparison_array(array, comparison_type(array.type)).drop_null()
        data_type = plain.type
        if self.is_bytes:
            keys = np.empty(len(plain), dtype=object)
            keys[:] = plain.cast(pa.binary()).to_pylist()
            return keys
        if pa.types.is_decimal(data_type):
            return _unscaled(plain, self.dtype)
        if pa.types.is_temporal(data_type):
            plain = plain.view(pa.int32() if data_type.bit_width == 32 else pa.int64())
        keys = _widened(plain.to_numpy(zero_copy_only=False), self.dtype)
        multiply, divide = self.units_per_arrow
        if multiply != 1:
            keys = keys * multiply
        return np.asarray(keys // divide) if divide != 1 else keys

    def cell(self, key: Any) -> Keys:
        r"""Return a key as a zero-dimensional array, which can safely be compared with arrays of keys.

        NumPy converts bare bytes to a fixed-width string, which drops trailing zeros, and compares a bare
        number with ``uint64`` as floats.
        """
        cell = np.empty((), dtype=self.dtype)
        cell[()] = key
        return cell

    def key(self, scalar: pa.Scalar) -> Any:
        """Return the key of a non-null Arrow value, as a Python number or bytes."""
        if _PLAIN_KINDS.get(type(scalar)) == self.dtype.kind and self.units_per_arrow == (1, 1):
            return scalar.as_py()
        if self.is_bytes and isinstance(scalar, pa.BinaryScalar):
            return scalar.as_buffer().to_pybytes()
        key = self.keys(pa.array([scalar], type=scalar.type))[0]
        return key.item() if isinstance(key, np.generic) else key


@dataclass(frozen=True)
class Ordering(ArrowOrdering):
    """The order of the values of a leaf, and the encoding of its bounds in a file.

    Attributes:
        wire: The dtype of an encoded bound, if it is a plain little-endian number; else None.
        decimal: Whether bounds are big-endian two's complement (FIXED or BYTE_ARRAY decimals).
    """

    leaf: Leaf
    wire: np.dtype[Any] | None
    decimal: bool

    @property
    def is_text(self) -> bool:
        """Whether bounds are UTF-8."""
        return self.leaf.is_text

    def decode_pages(self, index: ColumnIndex, pages: Sequence[int] | None = None) -> tuple[Keys, Keys]:
        """Return the keys of the lower and of the upper bounds of pages.

        Args:
            pages: The ordinals of the pages. None means all pages but null pages.

        Raises:
            CorruptFileError: If a bound is not valid for the leaf's type.
        """
        if pages is None:
            pages = [page for page, is_null in enumerate(index.null_pages) if not is_null]
        lows, highs = (list(map(of.__getitem__, pages)) for of in (index.min_values, index.max_values))
        return self.decode_pairs(lows, highs)

    def decode_pairs(self, lows: Sequence[bytes], highs: Sequence[bytes]) -> tuple[Keys, Keys]:
        """Return the keys of encoded lower bounds and of the upper bounds that belong to them.

        Raises:
            CorruptFileError: If a bound is not valid for the leaf's type.
        """
        return self.decode(lows), self.decode(highs)

    def decode(self, bounds: Sequence[bytes]) -> Keys:
        """Return the keys of encoded bounds.

        Raises:
            CorruptFileError: If the length of a bound is wrong for its type.
        """
        if self.wire is not None:
            width = self.wire.itemsize
            if set(map(len, bounds)) - {width}:
                raise CorruptFileError(
                    f"a bound of {self.leaf.name!r} is not {width} bytes long",
                    reason="bound-length",
                    column=self.leaf.name,
                    struct="Statistics",
                )
            return _widened(np.frombuffer(b"".join(bounds), dtype=self.wire), self.dtype)
        keys = np.empty(len(bounds), dtype=self.dtype)
        if self.decimal:
            try:
                keys[:] = [int.from_bytes(bound, "big", signed=True) for bound in bounds]
            except OverflowError as error:
                raise CorruptFileError(
                    f"a bound of {self.leaf.name!r} has more digits than its type",
                    reason="bound-digits",
                    column=self.leaf.name,
                    struct="Statistics",
                ) from error
        else:
            keys[:] = bounds
        return keys

    def encode(self, key: Any) -> bytes:
        """Encode a key as in a file, the inverse of `decode`."""
        if self.wire is not None:
            return np.asarray(key).astype(self.wire).tobytes()
        if self.decimal:
            number = int(key)
            width = self.leaf.element.type_length or (number.bit_length() // 8 + 1)
            return number.to_bytes(width, "big", signed=True)
        return bytes(key)


def arrow_ordering(arrow_type: pa.DataType) -> ArrowOrdering | None:
    """Return the order of Arrow values of a type, independent of any file, or None if it has no order.

    Example:
        >>> arrow_ordering(pa.timestamp("ns")).dtype
        dtype('int64')
    """
    plain = comparison_type(arrow_type)
    dtype: Any
    if pa.types.is_decimal(plain):
        dtype = np.int64 if plain.precision <= _INT64_DIGITS else object
    elif pa.types.is_string(plain) or pa.types.is_binary(plain) or pa.types.is_fixed_size_binary(plain):
        dtype = object
    elif pa.types.is_unsigned_integer(plain):
        dtype = np.uint64
    elif pa.types.is_floating(plain):
        dtype = np.float64
    elif pa.types.is_boolean(plain) or pa.types.is_integer(plain) or pa.types.is_temporal(plain):
        dtype = np.int64
    else:
        return None
    return ArrowOrdering(arrow_type, np.dtype(dtype), (1, 1))


def ordering_for(leaf: Leaf, arrow_type: pa.DataType) -> Ordering | None:
    """Return the order of a leaf's values, or None if Parquet defines no order or the types do not agree."""
    logical_name = leaf.logical_name
    if (
        leaf.type == Type.INT96
        or logical_name in UNORDERED_TYPES
        or leaf.element.converted_type == ConvertedType.INTERVAL
    ):
        return None
    if leaf.logical is not None and logical_name is None:  # a logical type that is unknown to this version
        return None
    order = arrow_ordering(arrow_type)
    if order is None:
        return None
    plain, of = comparison_type(arrow_type), pa.types
    wire, units, is_decimal = _WIRES.get(leaf.type), (1, 1), False
    if logical_name == "DECIMAL":
        assert leaf.logical is not None
        declared = leaf.logical.DECIMAL
        assert declared is not None
        is_decimal = leaf.type in (Type.BYTE_ARRAY, Type.FIXED_LEN_BYTE_ARRAY)
        fits = of.is_decimal(plain) and plain.scale == declared.scale
        fits = fits and (is_decimal or leaf.type in (Type.INT32, Type.INT64))
    elif logical_name == "FLOAT16":
        wire, fits = "<f2", of.is_float16(plain)
    elif leaf.type in (Type.FLOAT, Type.DOUBLE):
        fits = of.is_floating(plain)
    elif leaf.type == Type.BOOLEAN:
        fits = of.is_boolean(plain)
    elif wire is not None:
        found = _units(leaf, plain)
        units = found or units
        integer = leaf.logical.INTEGER if leaf.logical else None
        is_unsigned = integer is not None and not integer.isSigned
        wire = wire.replace("i", "u") if is_unsigned else wire
        fits = found is not None and of.is_unsigned_integer(plain) is is_unsigned
    else:
        fits = of.is_string(plain) or of.is_binary(plain) or of.is_fixed_size_binary(plain)
    if not fits:
        return None
    return Ordering(arrow_type, order.dtype, units, leaf, np.dtype(wire) if wire else None, is_decimal)


def _units(leaf: Leaf, plain: pa.DataType) -> tuple[int, int] | None:
    """Return the factors from Arrow's integer to the integer in the file, or None if the types disagree."""
    logical = leaf.logical
    if logical is not None and (time := logical.TIME or logical.TIMESTAMP) is not None:
        unit = time.unit_name
        if unit is None or not (pa.types.is_time(plain) or pa.types.is_timestamp(plain)):
            return None
        # if Arrow's unit is finer, the conversion divides, and two values may have the same key
        factor = NS_PER_UNIT[plain.unit] // NS_PER_UNIT[unit]
        return (factor, 1) if factor else None
    if logical is not None and logical.DATE is not None:
        if pa.types.is_date64(plain):
            return (1, 86_400_000)
        return (1, 1) if pa.types.is_date32(plain) else None
    if pa.types.is_integer(plain) or pa.types.is_duration(plain):
        return (1, 1)
    return None


def _widened(numbers: Keys, dtype: np.dtype[Any]) -> Keys:
    """Convert numbers to the dtype of keys. A signaling NaN becomes a quiet one without a warning."""
    if numbers.dtype.kind != "f":
        return numbers.astype(dtype)
    with np.errstate(invalid="ignore"):
        return numbers.astype(dtype)


def _unscaled(array: pa.Array, dtype: np.dtype[Any]) -> Keys:
    """Return the unscaled integers of a decimal array without nulls."""
    width = array.type.byte_width
    buffer = array.buffers()[1]
    if buffer is None:
        return np.empty(0, dtype=dtype)
    raw = memoryview(buffer)[array.offset * width : (array.offset + len(array)) * width]
    if width <= 8:
        return np.frombuffer(raw, dtype=f"<i{width}").astype(dtype)
    if dtype == np.int64:  # up to 18 digits fit in the low word
        return np.frombuffer(raw, dtype="<i8").reshape(-1, width // 8)[:, 0].copy()
    keys = np.empty(len(array), dtype=object)
    keys[:] = [int.from_bytes(raw[i : i + width], "little", signed=True) for i in range(0, len(raw), width)]
    return keys


# --- truncation --------------------------------------------------------------------------------------

#: Longer bounds of text and binary columns are truncated to this many bytes when an index is built.
MAX_BOUND_BYTES = 64


def truncate_min(bound: bytes, limit_bytes: int, *, text: bool) -> bytes:
    """Return a lower bound of at most ``limit_bytes`` that is not above ``bound``.

    Args:
        bound: The exact minimum.
        limit_bytes: The maximum length of the result.
        text: Whether the bound is UTF-8 and the result must be, too.

    Example:
        >>> truncate_min(b"abcdef", 3, text=True)
        b'abc'
        >>> truncate_min("árvíztűrő".encode(), 9, text=True).decode()
        'árvízt'
    """
    if len(bound) <= limit_bytes:
        return bound
    return _cut_text(bound, limit_bytes) if text else bound[:limit_bytes]


def truncate_max(bound: bytes, limit_bytes: int, *, text: bool) -> bytes:
    r"""Return an upper bound of at most ``limit_bytes`` that is not below ``bound``, or ``bound`` itself.

    Example:
        >>> truncate_max(b"abcdef", 3, text=True)
        b'abd'
        >>> truncate_max(bytes([0xFF, 0xFE, 0xFD, 0xFF, 0xFF, 0xFF]), 5, text=False)
        b'\xff\xfe\xfe'
        >>> truncate_max(bytes([0xFF] * 6), 5, text=False) == bytes([0xFF] * 6)
        True
    """
    if len(bound) <= limit_bytes:
        return bound
    start = _cut_text(bound, limit_bytes) if text else bound[:limit_bytes]
    raised = _increment_text(start, limit_bytes) if text else successor(start)
    return bound if raised is None else raised


def successor(prefix: bytes) -> bytes | None:
    r"""Return the smallest bytes above all bytes that start with ``prefix``, or None.

    Example:
        >>> successor(b"ab"), successor(b"a\xff"), successor(b"\xff")
        (b'ac', b'b', None)
    """
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def _cut_text(text: bytes, limit_bytes: int) -> bytes:
    """Return the longest prefix within the limit that ends between UTF-8 characters."""
    end = limit_bytes
    while end > 0 and text[end] & 0xC0 == 0x80:
        end -= 1
    return text[:end]


def _increment_text(text: bytes, limit_bytes: int) -> bytes | None:
    """Return UTF-8 just above ``text`` and within the limit, by incrementing its last possible character."""
    try:
        characters = text.decode("utf-8")
    except UnicodeDecodeError:
        return None
    while characters:
        point = ord(characters[-1]) + 1
        if 0xD800 <= point <= 0xDFFF:  # surrogates are not characters
            point = 0xE000
        if point <= 0x10FFFF:
            raised = (characters[:-1] + chr(point)).encode("utf-8")
            if len(raised) <= limit_bytes:  # the next character may be one byte longer
                return raised
        characters = characters[:-1]
    return None
