"""INT96 timestamps: their parts, their chronological order, and bounds under ``INT96_TIMESTAMP_ORDER``.

An INT96 has 8 bytes of nanoseconds of the day and 4 bytes of the Julian day, both signed and
little-endian. Arrow converts it to 64-bit nanoseconds since 1970, which overflow before 1677 and after 2262:
such values become other times. Bounds exclude values only if they lie within that range, because only then
all values do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import CorruptFileError
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf
from intarsia.records import dataclass
from intarsia.rows.ordering import Keys, Ordering

INT96_BYTES = 12

#: The Julian day of 1970-01-01.
EPOCH_DAY = 2_440_588

NANOSECONDS_PER_DAY = 86_400 * 10**9

#: The days since 1970 that 64-bit nanoseconds contain as a whole.
_FIRST_DAY, _LAST_DAY = -106_751, 106_750

_LAYOUT = np.dtype([("nanoseconds", "<i8"), ("day", "<i4")])
_INT64 = np.iinfo(np.int64)


class Int96(NamedTuple):
    """An INT96 timestamp; tuples compare as ``INT96_TIMESTAMP_ORDER`` does."""

    day: int
    nanoseconds: int

    @classmethod
    def parse(cls, raw: bytes) -> Int96:
        """Return the parts of an encoded value.

        Raises:
            CorruptFileError: If it is not 12 bytes long.
        """
        parts = _parts([raw])
        return cls(int(parts["day"][0]), int(parts["nanoseconds"][0]))

    @property
    def instant(self) -> int:
        """Nanoseconds since 1970, as a Python number of any size."""
        return (self.day - EPOCH_DAY) * NANOSECONDS_PER_DAY + self.nanoseconds

    def serialize(self) -> bytes:
        """Return the 12 bytes of the value."""
        nanoseconds = self.nanoseconds.to_bytes(8, "little", signed=True)
        return nanoseconds + self.day.to_bytes(4, "little", signed=True)


class Int96Values:
    """The values of an INT96 column.

    Args:
        array: The stored bytes, as ``fixed_size_binary(12)`` without nulls.
    """

    def __init__(self, array: pa.ChunkedArray) -> None:
        values = array.combine_chunks()
        raw: Any = values.buffers()[1] or b""
        parts = np.frombuffer(raw, _LAYOUT)[values.offset : values.offset + len(values)]
        self.days: npt.NDArray[np.int32] = np.ascontiguousarray(parts["day"])
        self.nanoseconds: npt.NDArray[np.int64] = np.ascontiguousarray(parts["nanoseconds"])

    @property
    def are_normal(self) -> bool:
        """Whether all nanoseconds lie within a day, so that the order of the parts is chronological."""
        return bool(((self.nanoseconds >= 0) & (self.nanoseconds < NANOSECONDS_PER_DAY)).all())

    def extremes(self, start: int, stop: int) -> tuple[Int96, Int96]:
        """Return the least and the greatest of the values ``start`` to ``stop``; there is at least one."""
        days, nanoseconds = self.days[start:stop], self.nanoseconds[start:stop]
        first, last = days.min(), days.max()
        return (
            Int96(int(first), int(nanoseconds[days == first].min())),
            Int96(int(last), int(nanoseconds[days == last].max())),
        )


@dataclass(frozen=True)
class Int96Ordering(Ordering):
    """The order of an INT96 column as Arrow's nanoseconds; its bounds follow ``INT96_TIMESTAMP_ORDER``."""

    def decode_pairs(self, lows: Sequence[bytes], highs: Sequence[bytes]) -> tuple[Keys, Keys]:
        """Return the keys of bounds; bounds that exclude no value of Arrow's become the whole range."""
        (low, low_fits), (high, high_fits) = _instants(_parts(lows)), _instants(_parts(highs))
        fit = low_fits & high_fits
        return np.where(fit, low, _INT64.min), np.where(fit, high, _INT64.max)


def int96_ordering(leaf: Leaf, arrow_type: pa.DataType) -> Int96Ordering | None:
    """Return the order of an INT96 column; None if Arrow does not convert it to nanoseconds."""
    if leaf.type != Type.INT96 or not pa.types.is_timestamp(arrow_type) or arrow_type.unit != "ns":
        return None
    return Int96Ordering(arrow_type, np.dtype(np.int64), (1, 1), leaf, None, False)


def _parts(bounds: Sequence[bytes]) -> npt.NDArray[Any]:
    if any(len(bound) != INT96_BYTES for bound in bounds):
        message = f"a bound of an INT96 column is not {INT96_BYTES} bytes long"
        raise CorruptFileError(message, reason="wrong-bound-length", struct="Statistics")
    return np.frombuffer(b"".join(bounds), _LAYOUT)


def _instants(parts: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Nanoseconds since 1970, and whether they are normal and lie within the days that 64 bits contain."""
    days, nanoseconds = parts["day"].astype(np.int64) - EPOCH_DAY, parts["nanoseconds"]
    is_normal = (nanoseconds >= 0) & (nanoseconds < NANOSECONDS_PER_DAY)
    with np.errstate(over="ignore"):
        instants = days * NANOSECONDS_PER_DAY + nanoseconds
    return instants, is_normal & (days >= _FIRST_DAY) & (days <= _LAST_DAY)
