"""The frame of an embedded index's payload: the file's fingerprint, the length and the checksum."""

from __future__ import annotations

import xxhash

from intarsia.errors import IndexPayloadError

BLOB_VERSION = 1
BLOB_MAGIC = b"INTARSIA"

#: Bytes before a blob's payload: magic, version, reserved, fingerprint, length, checksum.
BLOB_HEADER_BYTES = 48

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
    return b"".join(
        (
            BLOB_MAGIC,
            BLOB_VERSION.to_bytes(4, "little"),
            bytes(4),
            bytes.fromhex(fingerprint),
            payload_bytes.to_bytes(8, "little"),
            int(xxh3, 16).to_bytes(8, "little"),
        )
    )


def frame(payload: bytes, fingerprint: str) -> bytes:
    """Return a blob: header and payload.

    Args:
        payload: The payload of an index.
        fingerprint: `layout_fingerprint` of the file from which the payload was built.
    """
    return blob_header(fingerprint, len(payload), checksum(payload)) + payload


def unframe(blob: bytes, fingerprint: str, xxh3: str | None = None) -> bytes:
    """Check a blob and return its payload.

    Args:
        blob: Header and payload.
        fingerprint: The fingerprint in the directory.
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
        fingerprint: The fingerprint in the directory.
        blob_bytes: Length of the blob, including its header.
        xxh3: The `checksum` in the entry.

    Returns:
        The `checksum` in the header.

    Raises:
        IndexPayloadError: If this is not a blob, or the blob of another file or entry.
    """
    header = header[:BLOB_HEADER_BYTES]
    if len(header) < BLOB_HEADER_BYTES or header[:8] != BLOB_MAGIC:
        raise IndexPayloadError("there is no blob at the offset in the directory", reason="no-blob")
    version = int.from_bytes(header[8:12], "little")
    if version != BLOB_VERSION:
        raise IndexPayloadError(
            f"the blob has version {version}; this version of Intarsia reads version {BLOB_VERSION}",
            reason="unknown-blob-version",
        )
    if header[16:32] != bytes.fromhex(fingerprint):
        raise IndexPayloadError("the blob belongs to another file", reason="foreign-blob")
    if int.from_bytes(header[32:40], "little") != blob_bytes - BLOB_HEADER_BYTES:
        raise IndexPayloadError(
            "the length of the blob differs from that in the directory", reason="wrong-blob-length"
        )
    found = f"{int.from_bytes(header[40:48], 'little'):016x}"
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
