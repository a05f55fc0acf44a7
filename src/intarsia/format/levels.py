"""Repetition and definition levels of a data page, counted without being spread out.

A page of levels is a hybrid of runs: one level repeated, or levels packed bit by bit.  Whoever indexes a
page wants to know how often each level occurs and which comes first, so that is what is computed: a few
bytes that claim a billion levels cost neither memory nor time.

Source: ``Encodings.md`` (RLE/bit-packing hybrid) and ``README.md`` (data pages) of parquet-format.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.format.footer import Leaf
from intarsia.format.structs import Encoding, PageHeader, PageType

Counts = npt.NDArray[np.int64]

#: Version 1 pages put the length of their levels before them.
_LENGTH_BYTES = 4


class LevelCounts(NamedTuple):
    """How often each level occurs (``histogram[level]``), and the first level of the page."""

    histogram: Counts
    first: int


class PageLevels(NamedTuple):
    """The levels of one data page; a leaf whose highest level is 0 has all its values at level 0."""

    repetition: LevelCounts
    definition: LevelCounts

    @property
    def num_rows(self) -> int:
        """Rows that start in the page."""
        return int(self.repetition.histogram[0])

    @property
    def num_present(self) -> int:
        """Values that are there: neither null nor standing for an empty or null list."""
        return int(self.definition.histogram[-1])

    @property
    def starts_row(self) -> bool:
        """Whether the page's first value is the first of a row."""
        return self.repetition.first == 0


def levels_are_compressed(header: PageHeader) -> bool:
    """Whether the levels lie inside the compressed body (version 1), or before it (version 2)."""
    return header.type == PageType.DATA_PAGE


def page_levels(body: bytes | memoryview, header: PageHeader, leaf: Leaf) -> PageLevels:
    """Count the levels of one data page.

    Args:
        body: For a version 1 page the uncompressed body, for version 2 the body as it is in the file.
        header: The page's header.
        leaf: Whose levels these are.

    Raises:
        CorruptFileError: If the bytes are not as many levels as the header says.
        UnsupportedFeatureError: If a version 1 page uses the deprecated BIT_PACKED levels.
    """
    highest = leaf.max_repetition_level, leaf.max_definition_level
    if (two := header.data_page_header_v2) is not None:
        lengths = two.repetition_levels_byte_length, two.definition_levels_byte_length
        if min(lengths) < 0 or sum(lengths) > len(body):
            raise CorruptFileError(
                f"{sum(lengths)} bytes of levels in a page of {len(body)}", struct="PageHeader"
            )
        view = memoryview(body)
        pieces = view[: lengths[0]], view[lengths[0] : sum(lengths)]
        repetition, definition = (
            count_levels(piece, top, two.num_values) for piece, top in zip(pieces, highest, strict=True)
        )
        return PageLevels(repetition, definition)
    one = header.data_page_header
    if one is None:
        raise CorruptFileError("a data page has no header of its kind", struct="PageHeader")
    encodings = one.repetition_level_encoding, one.definition_level_encoding
    rest = memoryview(body)
    counts = []
    for top, encoding in zip(highest, encodings, strict=True):
        piece = rest[:0]
        if top:  # levels that can only be 0 are not stored, whatever the header calls their encoding
            if encoding != Encoding.RLE:
                raise UnsupportedFeatureError(
                    f"levels in the deprecated encoding {encoding}; rewrite the file with any current writer",
                    struct="DataPageHeader",
                )
            length = int.from_bytes(rest[:_LENGTH_BYTES], "little")
            if len(rest) < _LENGTH_BYTES + length:
                raise CorruptFileError(
                    f"{length} bytes of levels in a page of {len(rest)}", struct="PageHeader"
                )
            piece, rest = rest[_LENGTH_BYTES : _LENGTH_BYTES + length], rest[_LENGTH_BYTES + length :]
        counts.append(count_levels(piece, top, one.num_values))
    return PageLevels(*counts)


def count_levels(data: bytes | memoryview, max_level: int, num_values: int) -> LevelCounts:
    r"""Count levels in the RLE/bit-packing hybrid.

    Args:
        data: The runs, without a length before them.
        max_level: The highest level, which gives the bit width.
        num_values: How many levels there are; a last packed run is padded beyond it.

    Raises:
        CorruptFileError: If there are fewer levels, or one is above ``max_level``.

    Example:
        >>> count_levels(b"\x06\x02\x03\x1b\x00", max_level=2, num_values=11)  # 2 2 2, then 3 2 1 0 0 0 0 0
        Traceback (most recent call last):
        intarsia.errors.CorruptFileError: level 3 where the highest is 2
        >>> count_levels(b"\x06\x02\x03\x1a\x00", max_level=2, num_values=5)  # 2 2 2, then packed 2 2
        LevelCounts(histogram=array([0, 0, 5]), first=2)
    """
    histogram = np.zeros(max_level + 1, dtype=np.int64)
    if max_level == 0:
        histogram[0] = num_values
        return LevelCounts(histogram, 0)
    width = max_level.bit_length()
    value_bytes = (width + 7) // 8
    view = memoryview(data).cast("B")  # Arrow's buffers are views of signed bytes
    position, left, first = 0, num_values, -1
    while left > 0:
        header, position = _varint(view, position)
        count = header >> 1
        if count == 0:  # pointless, but not forbidden; a level to repeat is there all the same
            position += 0 if header & 1 else value_bytes
            continue
        if header & 1:
            stop = position + count * width  # count groups of 8 levels, width bits each
            packed = np.frombuffer(view[position:stop], dtype=np.uint8)
            take = min(left, count * 8)
            if len(packed) * 8 < take * width:
                raise CorruptFileError(f"the bytes end with {left} levels to come")
            found = np.bincount(unpack(packed, width, take), minlength=max_level + 1)
            if len(found) > max_level + 1:
                raise CorruptFileError(f"level {len(found) - 1} where the highest is {max_level}")
            histogram += found
            first = int(packed[0]) & ((1 << width) - 1) if first < 0 else first
        else:
            stop = position + value_bytes
            if stop > len(view):
                raise CorruptFileError(f"the bytes end with {left} levels to come")
            level = int.from_bytes(view[position:stop], "little")
            if level > max_level:
                raise CorruptFileError(f"level {level} where the highest is {max_level}")
            take = min(left, count)
            histogram[level] += take
            first = level if first < 0 else first
        position = stop
        left -= take
    return LevelCounts(histogram, max(first, 0))


def unpack(packed: npt.NDArray[np.uint8], width: int, count: int) -> npt.NDArray[np.intp]:
    """The first ``count`` numbers of ``width`` bits each, least significant bit first.

    Example:
        >>> unpack(np.array([0b11_10_01_00], dtype=np.uint8), width=2, count=4)
        array([0, 1, 2, 3])
    """
    bits = np.unpackbits(packed, count=count * width, bitorder="little")
    if width == 1:
        return bits.astype(np.intp)
    return bits.reshape(-1, width) @ (1 << np.arange(width, dtype=np.intp))


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(view) or shift > 63:
            raise CorruptFileError("the bytes end within the levels")
        byte = view[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
