r"""The blob of an embedded index in the body of a file, and that of DataFusion's example.

A blob of Intarsia frames a payload with the file's fingerprint, the length and the checksum.

In DataFusion's form of distinct values, a block in the file's body, after the data, consists of ``IDX1``, the
length of the payload as eight bytes, and the payload: the values in UTF-8, separated by newlines.
``distinct_index_offset`` in the footer's key/value metadata is the block's offset in decimal. The block does
not name its column, and it is not bound to its file: writers that copy footer keys copy this key, too. So as
much as possible is checked.

Source: https://datafusion.apache.org/blog/2025/07/14/user-defined-parquet-indexes
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import xxhash

from intarsia.errors import IndexPayloadError
from intarsia.format import footer as parquet
from intarsia.format.footer import Footer, chunk_range

BLOB_VERSION = 1
BLOB_MAGIC = b"INTARSIA"

#: Before a blob's payload: magic, version, 4 reserved bytes, fingerprint, length, checksum.
_HEADER = struct.Struct("<8sI4x16sQQ")
BLOB_HEADER_BYTES = _HEADER.size

#: Blobs start at multiples of this, so that payloads of fixed-width values can be memory-mapped.
BLOB_ALIGNMENT_BYTES = 8


def checksum(payload: bytes | memoryview) -> str:
    """Return the XXH3-64 hash of a payload, as 16 hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(payload)


def blob_header(fingerprint: str, payload_bytes: int, xxh3: str) -> bytes:
    """Return the header that precedes a payload.

    Args:
        fingerprint: `layout_fingerprint` of the file from which the payload was built.
        payload_bytes: Length of the payload.
        xxh3: `checksum` of the payload.
    """
    return _HEADER.pack(BLOB_MAGIC, BLOB_VERSION, bytes.fromhex(fingerprint), payload_bytes, int(xxh3, 16))


def frame(payload: bytes, fingerprint: str) -> bytes:
    """Return a blob: header and payload.

    Args:
        fingerprint: `layout_fingerprint` of the file from which the payload was built.
    """
    return blob_header(fingerprint, len(payload), checksum(payload)) + payload


def unframe(blob: bytes, fingerprint: str, xxh3: str | None = None) -> bytes:
    """Check a blob and return its payload.

    Args:
        xxh3: The `checksum` in the entry, which detects that this is another entry's blob.

    Raises:
        IndexPayloadError: If the blob is damaged or truncated, or belongs to another file.

    Example:
        >>> unframe(frame(b"payload", "0" * 32), "0" * 32)
        b'payload'
    """
    expected = check_blob_header(blob, fingerprint, len(blob), xxh3)
    payload = blob[BLOB_HEADER_BYTES:]
    check_payload(payload, expected)
    return payload


def check_blob_header(header: bytes, fingerprint: str, blob_bytes: int, xxh3: str | None = None) -> str:
    """Check the header of a blob, for indexes that are probed instead of loaded.

    Args:
        header: The first `BLOB_HEADER_BYTES` of the blob, or more.
        blob_bytes: Length of the blob, including its header.
        xxh3: The `checksum` in the entry.

    Returns:
        The `checksum` in the header.

    Raises:
        IndexPayloadError: If this is not a blob, or the blob of another file or entry.
    """
    if len(header) < BLOB_HEADER_BYTES or not header.startswith(BLOB_MAGIC):
        raise IndexPayloadError("there is no blob at the offset in the directory", reason="no-blob")
    _, version, owner, payload_bytes, hash64 = _HEADER.unpack_from(header)
    if version != BLOB_VERSION:
        raise IndexPayloadError(
            f"the blob has version {version}; this version of Intarsia reads version {BLOB_VERSION}",
            reason="unknown-blob-version",
        )
    if owner != bytes.fromhex(fingerprint):
        raise IndexPayloadError("the blob belongs to another file", reason="foreign-blob")
    if payload_bytes != blob_bytes - BLOB_HEADER_BYTES:
        raise IndexPayloadError(
            "the length of the blob differs from that in the directory", reason="wrong-blob-length"
        )
    found = f"{hash64:016x}"
    if xxh3 is not None and found != xxh3:
        raise IndexPayloadError(
            "the checksum in the blob's header differs from that in the directory", reason="wrong-blob"
        )
    return found


def check_payload(payload: bytes, xxh3: str) -> None:
    """Compare a payload with its checksum.

    Raises:
        IndexPayloadError: If they do not match.
    """
    if checksum(payload) != xxh3:
        raise IndexPayloadError(
            "its bytes are damaged: the checksum does not match", reason="damaged-payload"
        )


#: The footer key with the offset of the block.
DATAFUSION_KEY = b"distinct_index_offset"

DATAFUSION_MAGIC = b"IDX1"

#: Bytes before the payload: magic, length.
DATAFUSION_HEADER_BYTES = 12


def serialize_block(values: Iterable[str]) -> bytes:
    r"""Return the block with the given values in order; a value with a newline is read back as two values.

    Example:
        >>> serialize_block(["bar", "foo"])
        b'IDX1\x07\x00\x00\x00\x00\x00\x00\x00bar\nfoo'
    """
    payload = "\n".join(values).encode()
    return (
        DATAFUSION_MAGIC
        + len(payload).to_bytes(DATAFUSION_HEADER_BYTES - len(DATAFUSION_MAGIC), "little")
        + payload
    )


def parse_offset(value: bytes, footer: Footer) -> int:
    """Parse the offset of the block from the value of the footer's key.

    Raises:
        IndexPayloadError: If it is not a number, or not an offset between the data and the footer.
    """
    if not value.isdigit() or len(value) > 18:
        text = value[:40].decode("ascii", "replace")
        raise IndexPayloadError(f"{text!r} is not an offset", reason="invalid-block-offset")
    offset = int(value)
    if not len(parquet.MAGIC) <= offset <= footer.start - DATAFUSION_HEADER_BYTES:
        raise IndexPayloadError(f"offset {offset} is outside the file's body", reason="block-outside-body")
    chunks = (chunk for group in footer.metadata.row_groups for chunk in group.columns)
    own = (chunk.meta_data for chunk in chunks if chunk.meta_data is not None and not chunk.file_path)
    data_stop = max((chunk_range(meta)[1] for meta in own), default=0)
    if offset < data_stop:
        raise IndexPayloadError(
            f"offset {offset} is within the data, which ends at {data_stop}: another writer copied the key",
            reason="block-within-data",
        )
    return offset


def parse_header(head: bytes, offset: int, footer: Footer) -> int:
    """Parse the header of a block, and return the length of the whole block in bytes.

    Args:
        head: The first `DATAFUSION_HEADER_BYTES` of the block, or more.
        offset: The offset of the block in the file.

    Raises:
        IndexPayloadError: If there is no block, or it extends beyond the footer.
    """
    if head[: len(DATAFUSION_MAGIC)] != DATAFUSION_MAGIC:
        raise IndexPayloadError(
            f"there is no {DATAFUSION_MAGIC.decode()} at its offset: another writer copied the key",
            reason="no-block",
        )
    payload_bytes = int.from_bytes(head[len(DATAFUSION_MAGIC) : DATAFUSION_HEADER_BYTES], "little")
    if len(head) < DATAFUSION_HEADER_BYTES or payload_bytes > footer.start - offset - DATAFUSION_HEADER_BYTES:
        raise IndexPayloadError(
            f"its {payload_bytes} bytes extend beyond the file's body", reason="block-outside-body"
        )
    return DATAFUSION_HEADER_BYTES + payload_bytes


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
    length = int.from_bytes(block[len(DATAFUSION_MAGIC) : DATAFUSION_HEADER_BYTES], "little")
    if block[: len(DATAFUSION_MAGIC)] != DATAFUSION_MAGIC or len(block) != DATAFUSION_HEADER_BYTES + length:
        raise IndexPayloadError("the payload is not a block in DataFusion's form", reason="no-block")
    return parse_lines(block[DATAFUSION_HEADER_BYTES:])
