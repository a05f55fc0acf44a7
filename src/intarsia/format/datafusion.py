r"""The form that DataFusion's example gives to the distinct values of a column.

A block lies in the file's body, behind the data: ``IDX1``, the payload's length as eight bytes, and the
payload, which is the values as UTF-8 with newlines between them (none at the end).  The footer's key/value
metadata says where: ``distinct_index_offset``, decimal.  Nothing says which column it is about, and nothing
ties it to its file: writers that copy footer keys copy this one, too.  So whatever can be checked is checked.

Source: https://datafusion.apache.org/blog/2025/07/14/user-defined-parquet-indexes
"""

from __future__ import annotations

from collections.abc import Iterable

from intarsia.errors import IndexPayloadError
from intarsia.format import footer as parquet
from intarsia.format.footer import Footer, chunk_range

#: The footer key that says where the block lies.
KEY = b"distinct_index_offset"

MAGIC = b"IDX1"

#: Bytes before the payload: magic, length.
HEADER_BYTES = 12


def serialize_block(values: Iterable[str]) -> bytes:
    r"""The block of some values, in their order; a value that holds a newline does not come back as one.

    Example:
        >>> serialize_block(["bar", "foo"])
        b'IDX1\x07\x00\x00\x00\x00\x00\x00\x00bar\nfoo'
    """
    payload = "\n".join(values).encode()
    return MAGIC + len(payload).to_bytes(HEADER_BYTES - len(MAGIC), "little") + payload


def parse_offset(value: bytes, footer: Footer) -> int:
    """Where the footer's key says that the block starts.

    Raises:
        IndexPayloadError: If it is no number, or no place behind the data and before the footer.
    """
    if not value.isdigit() or len(value) > 18:
        raise IndexPayloadError(f"{value[:40].decode('ascii', 'replace')!r} is no offset")
    offset = int(value)
    if not len(parquet.MAGIC) <= offset <= footer.start - HEADER_BYTES:
        raise IndexPayloadError(f"byte {offset} lies outside the file's body")
    data_stop = max(_chunk_stops(footer), default=0)
    if offset < data_stop:
        raise IndexPayloadError(
            f"byte {offset} lies among the data, which ends at {data_stop}: another writer copied the key"
        )
    return offset


def _chunk_stops(footer: Footer) -> Iterable[int]:
    for group in footer.metadata.row_groups:
        for chunk in group.columns:
            if chunk.meta_data is not None and not chunk.file_path:
                yield chunk_range(chunk.meta_data)[1]


def parse_header(head: bytes, offset: int, footer: Footer) -> int:
    """The length of the whole block, from its first bytes.

    Args:
        head: Its first `HEADER_BYTES`, or more.
        offset: Where it starts.
        footer: The file's footer.

    Raises:
        IndexPayloadError: If there is no such block, or it would not end before the footer.
    """
    if head[: len(MAGIC)] != MAGIC:
        raise IndexPayloadError(f"{MAGIC.decode()} does not stand there: another writer copied the key")
    payload_bytes = int.from_bytes(head[len(MAGIC) : HEADER_BYTES], "little")
    if len(head) < HEADER_BYTES or payload_bytes > footer.start - offset - HEADER_BYTES:
        raise IndexPayloadError(f"its {payload_bytes} bytes lead out of the file's body")
    return HEADER_BYTES + payload_bytes


def parse_lines(payload: bytes) -> list[str]:
    """The lines of a payload: the values, unless one of them held a newline.

    An empty payload stands for no value as well as for the empty text; it is taken for the latter.

    Raises:
        IndexPayloadError: If it is no UTF-8.
    """
    try:
        return payload.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise IndexPayloadError(f"its values are no UTF-8: {error}") from error


def parse_block(block: bytes) -> list[str]:
    r"""The lines of a block that stands alone.

    Raises:
        IndexPayloadError: If the bytes are anything else.

    Example:
        >>> parse_block(serialize_block(["", "foo"]))
        ['', 'foo']
    """
    length = int.from_bytes(block[len(MAGIC) : HEADER_BYTES], "little")
    if block[: len(MAGIC)] != MAGIC or len(block) != HEADER_BYTES + length:
        raise IndexPayloadError("the payload is no block of DataFusion's form")
    return parse_lines(block[HEADER_BYTES:])
