"""Payloads that are probed with small reads instead of being read completely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from intarsia.errors import IndexPayloadError
from intarsia.indexes.base import OpenIndex
from intarsia.indexes.layout import Layout
from intarsia.storage import ByteRange


class PayloadSource(Protocol):
    """A payload that is read in parts."""

    @property
    def num_bytes(self) -> int:
        """The length of the payload in bytes."""
        ...

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Read ranges of bytes in one request.

        The bytes are not verified by a checksum. The format of the payload must detect damage.

        Args:
            ranges: Ranges of bytes, relative to the payload's first byte.

        Returns:
            One bytes object per range, in the same order.

        Raises:
            IndexPayloadError: If a range is outside the payload, or the payload has been replaced.
        """
        ...


@runtime_checkable
class ProbedIndex(Protocol):
    """An index with a large payload that is probed with small reads and not loaded whole."""

    def open_source(self, source: PayloadSource, layout: Layout) -> OpenIndex:
        """Open a payload without reading all of it. `Index.open` opens the same payload as bytes.

        Args:
            source: The payload, not read yet.
            layout: As for `Index.open`.

        Returns:
            An open index that reads the payload on demand.

        Raises:
            IndexPayloadError: If the payload is not valid, as far as that is evident without reading it.
        """
        ...


@dataclass(frozen=True)
class PayloadBytes:
    """A payload in memory as a `PayloadSource`, with which a `ProbedIndex` opens bytes.

    Example:
        >>> PayloadBytes(b"payload").read_ranges([ByteRange(0, 3)])
        [b'pay']
    """

    payload: bytes

    @property
    def num_bytes(self) -> int:
        """The length of the payload in bytes."""
        return len(self.payload)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return the bytes of each range."""
        if any(not 0 <= start <= stop <= len(self.payload) for start, stop in ranges):
            raise IndexPayloadError("a range is outside the payload", reason="range-outside-payload")
        return [self.payload[start:stop] for start, stop in ranges]
