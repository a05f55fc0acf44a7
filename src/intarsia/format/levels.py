"""Repetition and definition levels of a data page, counted without expanding them.

Levels are encoded as a hybrid of runs: one level repeated, or levels packed bit by bit. Indexing a page
requires only the number of occurrences of each level and the first level. Only these are computed, so a few
bytes that claim a billion levels take neither memory nor time.

Source: ``Encodings.md`` (RLE/bit-packing hybrid) and ``README.md`` (data pages) of parquet-format.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.format.enums import Encoding, PageType
from intarsia.format.footer import Leaf
from intarsia.format.structs import PageHeader

Counts = npt.NDArray[np.int64]

#: In version 1 pages, levels are preceded by their length.
_LENGTH_BYTES = 4


class LevelCounts(NamedTuple):
    """The number of occurrences of each level (``histogram[level]``), and the first level of the page."""

    histogram: Counts
    first: int


class PageLevels(NamedTuple):
    """The levels of one data page; for a leaf whose maximum level is 0, all values have level 0."""

    repetition: LevelCounts
    definition: LevelCounts

    @property
    def num_rows(self) -> int:
        """Number of rows that start in the page."""
        return int(self.repetition.histogram[0])

    @property
    def num_present(self) -> int:
        """Number of values that are neither null nor placeholders for empty or null lists."""
        return int(self.definition.histogram[-1])

    @property
    def starts_row(self) -> bool:
        """Whether the first value of the page is the first of a row."""
        return self.repetition.first == 0


def levels_are_compressed(header: PageHeader) -> bool:
    """Return whether the levels are inside the compressed body (version 1) or before it (version 2)."""
    return header.type == PageType.DATA_PAGE


def split_levels(
    body: bytes | memoryview, header: PageHeader, leaf: Leaf
) -> tuple[memoryview, memoryview, memoryview]:
    """Divide the body of a data page into repetition levels, definition levels and values.

    The arguments and errors are those of `page_levels`.
    """
    rest = memoryview(body)
    if (two := header.data_page_header_v2) is not None:
        lengths = two.repetition_levels_byte_length, two.definition_levels_byte_length
        if min(lengths) < 0 or sum(lengths) > len(body):
            raise _beyond_page(sum(lengths), len(body), leaf)
        return rest[: lengths[0]], rest[lengths[0] : sum(lengths)], rest[sum(lengths) :]
    one = header.data_page_header
    if one is None:
        raise CorruptFileError(
            "a data page has no data page header",
            reason="no-data-page-header",
            column=leaf.name,
            struct="PageHeader",
        )
    encodings = one.repetition_level_encoding, one.definition_level_encoding
    pieces = []
    for top, encoding in zip((leaf.max_repetition_level, leaf.max_definition_level), encodings, strict=True):
        piece = rest[:0]
        if top:  # levels that can only be 0 are not stored, regardless of the encoding in the header
            if encoding != Encoding.RLE:
                raise UnsupportedFeatureError(
                    f"levels have the deprecated encoding {encoding}; rewrite the file with a current writer",
                    reason="deprecated-levels",
                    column=leaf.name,
                    struct="DataPageHeader",
                )
            length = int.from_bytes(rest[:_LENGTH_BYTES], "little")
            if len(rest) < _LENGTH_BYTES + length:
                raise _beyond_page(length, len(rest), leaf)
            piece, rest = rest[_LENGTH_BYTES : _LENGTH_BYTES + length], rest[_LENGTH_BYTES + length :]
        pieces.append(piece)
    return pieces[0], pieces[1], rest


def page_levels(body: bytes | memoryview, header: PageHeader, leaf: Leaf) -> PageLevels:
    """Count the levels of one data page.

    Args:
        body: For a version 1 page, the uncompressed body; for version 2, the body as stored in the file.

    Raises:
        CorruptFileError: If the number of levels differs from that in the header.
        UnsupportedFeatureError: If a version 1 page uses the deprecated encoding BIT_PACKED for levels.
    """
    repetition, definition, _ = split_levels(body, header, leaf)
    of_type = header.data_page_header_v2 or header.data_page_header
    num_values = 0 if of_type is None else of_type.num_values
    return PageLevels(
        count_levels(repetition, leaf.max_repetition_level, num_values),
        count_levels(definition, leaf.max_definition_level, num_values),
    )


def _beyond_page(num_bytes: int, page_bytes: int, leaf: Leaf) -> CorruptFileError:
    return CorruptFileError(
        f"the levels claim {num_bytes} bytes of a page of {page_bytes}",
        reason="levels-beyond-page",
        column=leaf.name,
        struct="PageHeader",
    )


def count_levels(data: bytes | memoryview, max_level: int, num_values: int) -> LevelCounts:
    r"""Count levels in the RLE/bit-packing hybrid.

    Args:
        data: The runs, without their length.
        max_level: The maximum level, which determines the bit width.
        num_values: The number of levels; the last packed run may contain padding after them.

    Raises:
        CorruptFileError: If there are fewer levels, or a level exceeds ``max_level``.

    Example:
        >>> count_levels(b"\x06\x02\x03\x1b\x00", max_level=2, num_values=11)  # 2 2 2, then 3 2 1 0 0 0 0 0
        Traceback (most recent call last):
        intarsia.errors.CorruptFileError: level 3 exceeds the maximum of 2
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
        if count == 0:  # an empty run is useless but valid; it still stores its level
            position += 0 if header & 1 else value_bytes
            continue
        if header & 1:
            stop = position + count * width  # count groups of 8 levels, width bits each
            packed = np.frombuffer(view[position:stop], dtype=np.uint8)
            take = min(left, count * 8)
            if len(packed) * 8 < take * width:
                raise _truncated(left)
            found = np.bincount(unpack(packed, width, take), minlength=max_level + 1)
            if len(found) > max_level + 1:
                raise _too_high(len(found) - 1, max_level)
            histogram += found
            first = int(packed[0]) & ((1 << width) - 1) if first < 0 else first
        else:
            stop = position + value_bytes
            if stop > len(view):
                raise _truncated(left)
            level = int.from_bytes(view[position:stop], "little")
            if level > max_level:
                raise _too_high(level, max_level)
            take = min(left, count)
            histogram[level] += take
            first = level if first < 0 else first
        position = stop
        left -= take
    return LevelCounts(histogram, max(first, 0))


def count_run_values(data: bytes | memoryview, width: int) -> int:
    r"""Return the number of values in the RLE/bit-packing hybrid; the last run may contain padding.

    Example:
        >>> count_run_values(b"\x06\x02\x03\x1a\x00", width=2)  # three times 2, then 8 packed values
        11
    """
    view = memoryview(data).cast("B")
    position = found = 0
    while position < len(view):
        header, position = _varint(view, position)
        count = header >> 1
        if header & 1:
            position += count * width
            found += count * 8 - (max(0, position - len(view)) * 8 // width if width else 0)
        else:
            position += (width + 7) // 8
            found += count
    return found


def _truncated(left: int) -> CorruptFileError:
    return CorruptFileError(f"the levels end {left} values too early", reason="truncated-levels")


def _too_high(level: int, max_level: int) -> CorruptFileError:
    return CorruptFileError(f"level {level} exceeds the maximum of {max_level}", reason="level-too-high")


def unpack(packed: npt.NDArray[np.uint8], width: int, count: int) -> npt.NDArray[np.intp]:
    """Unpack the first ``count`` numbers of ``width`` bits each, least significant bit first.

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
            raise CorruptFileError("the bytes end within the levels", reason="truncated-levels")
        byte = view[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
