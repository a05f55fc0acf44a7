r"""The form of distinct values in DataFusion's example.

A block in the file's body, after the data, consists of ``IDX1``, the length of the payload as eight bytes,
and the payload: the values in UTF-8, separated by newlines. ``distinct_index_offset`` in the footer's
key/value metadata is the block's offset in decimal. The block does not name its column, and it is not bound
to its file: writers that copy footer keys copy this key, too. This module checks as much as possible.

Source: https://datafusion.apache.org/blog/2025/07/14/user-defined-parquet-indexes
"""

from __future__ import annotations

from collections.abc import Iterable

from intarsia.errors import IndexPayloadError
from intarsia.format import footer as parquet
from intarsia.format.footer import Footer, chunk_range

#: The footer key with the offset of the block.
KEY = b"distinct_index_offset"

MAGIC = b"IDX1"

#: Bytes before the payload: magic, length.
HEADER_BYTES = 12


def serialize_block(values: Iterable[str]) -> bytes:
    r"""Return the block with the given values in order; a value with a newline is read back as two values.

    Example:
        >>> serialize_block(["bar", "foo"])
        b'IDX1\x07\x00\x00\x00\x00\x00\x00\x00bar\nfoo'
    """
    payload = "\n".join(values).encode()
    return MAGIC + len(payload).to_bytes(HEADER_BYTES - len(MAGIC), "little") + payload


def parse_offset(value: bytes, footer: Footer) -> int:
    """Parse the offset of the block from the value of the footer's key.

    Raises:
        IndexPayloadError: If it is not a number, or not an offset between the data and the footer.
    """
    if not value.isdigit() or len(value) > 18:
        text = value[:40].decode("ascii", "replace")
        raise IndexPayloadError(f"{text!r} is not an offset", reason="invalid-block-offset")
    offset = int(value)
    if not len(parquet.MAGIC) <= offset <= footer.start - HEADER_BYTES:
        raise IndexPayloadError(f"offset {offset} is outside the file's body", reason="block-outside-body")
    data_stop = max(_chunk_stops(footer), default=0)
    if offset < data_stop:
        raise IndexPayloadError(
            f"offset {offset} is within the data, which ends at {data_stop}: another writer copied the key",
            reason="block-within-data",
        )
    return offset


def _chunk_stops(footer: Footer) -> Iterable[int]:
    for group in footer.metadata.row_groups:
        for chunk in group.columns:
            if chunk.meta_data is not None and not chunk.file_path:
                yield chunk_range(chunk.meta_data)[1]


def parse_header(head: bytes, offset: int, footer: Footer) -> int:
    """Parse the header of a block, and return the length of the whole block in bytes.

    Args:
        head: The first `HEADER_BYTES` of the block, or more.
        offset: The offset of the block in the file.
        footer: The file's footer.

    Raises:
        IndexPayloadError: If there is no block, or it extends beyond the footer.
    """
    if head[: len(MAGIC)] != MAGIC:
        raise IndexPayloadError(
            f"there is no {MAGIC.decode()} at its offset: another writer copied the key", reason="no-block"
        )
    payload_bytes = int.from_bytes(head[len(MAGIC) : HEADER_BYTES], "little")
    if len(head) < HEADER_BYTES or payload_bytes > footer.start - offset - HEADER_BYTES:
        raise IndexPayloadError(
            f"its {payload_bytes} bytes extend beyond the file's body", reason="block-outside-body"
        )
    return HEADER_BYTES + payload_bytes


def parse_lines(payload: bytes) -> list[str]:
    """Return the lines of a payload, which are the values, unless a value contained a newline.

    An empty payload could mean no values or one empty string; it is read as the latter.

    Raises:
        IndexPayloadError: If it is not UTF-8.
    """
    try:
        return payload.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise IndexPayloadError(f"its values are not UTF-8: {error}", reason="not-utf8") from error


def parse_block(block: bytes) -> list[str]:
    r"""Return the lines of a whole block.

    Raises:
        IndexPayloadError: If the bytes are not a block.

    Example:
        >>> parse_block(serialize_block(["", "foo"]))
        ['', 'foo']
    """
    length = int.from_bytes(block[len(MAGIC) : HEADER_BYTES], "little")
    if block[: len(MAGIC)] != MAGIC or len(block) != HEADER_BYTES + length:
        raise IndexPayloadError("the payload is not a block in DataFusion's form", reason="no-block")
    return parse_lines(block[HEADER_BYTES:])
