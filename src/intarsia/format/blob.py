"""The frame around an embedded index's payload: whose it is, how long, and its checksum."""

from __future__ import annotations

import xxhash

from intarsia.errors import IndexPayloadError

BLOB_VERSION = 1
BLOB_MAGIC = b"INTARSIA"

#: Bytes before a blob's payload: magic, version, reserved, fingerprint, length, checksum.
BLOB_HEADER_BYTES = 48

#: Blobs start at multiples of this, so that fixed-width payloads can be mapped.
BLOB_ALIGNMENT_BYTES = 8


def checksum(payload: bytes | memoryview) -> str:
    """XXH3-64 of a payload, 16 hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(payload)


def blob_header(fingerprint: str, payload_bytes: int, xxh3: str) -> bytes:
    """What stands before a payload, and says whose it is.

    Args:
        fingerprint: `layout_fingerprint` of the file that it was built from.
        payload_bytes: Length of the payload.
        xxh3: Its `checksum`.
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
    """A payload behind its header.

    Args:
        payload: The index's own bytes.
        fingerprint: `layout_fingerprint` of the file that it was built from.
    """
    return blob_header(fingerprint, len(payload), checksum(payload)) + payload


def unframe(blob: bytes, fingerprint: str, xxh3: str | None = None) -> bytes:
    """The payload of a blob.

    Args:
        blob: Header and payload.
        fingerprint: The directory's fingerprint.
        xxh3: The payload's `checksum` as its entry has it, so that the blob is also the one that is meant.

    Raises:
        IndexPayloadError: If the blob is damaged, cut short or another file's.

    Example:
        >>> unframe(frame(b"payload", "0" * 32), "0" * 32)
        b'payload'
    """
    announced = check_blob_header(blob, fingerprint, len(blob), xxh3)
    payload = blob[BLOB_HEADER_BYTES:]
    check_payload(payload, announced)
    return payload


def check_blob_header(header: bytes, fingerprint: str, blob_bytes: int, xxh3: str | None = None) -> str:
    """Check what stands before a payload; for indexes that are probed, which are never read whole.

    Args:
        header: The blob's first `BLOB_HEADER_BYTES`, or more.
        fingerprint: The directory's fingerprint.
        blob_bytes: Length of the blob, header included.
        xxh3: The payload's `checksum` as its entry has it.

    Returns:
        The payload's `checksum`, as the header has it.

    Raises:
        IndexPayloadError: If this is no blob, another file's, or not the entry's.
    """
    header = header[:BLOB_HEADER_BYTES]
    if len(header) < BLOB_HEADER_BYTES or header[:8] != BLOB_MAGIC:
        raise IndexPayloadError("there is no blob where the directory says")
    version = int.from_bytes(header[8:12], "little")
    if version != BLOB_VERSION:
        raise IndexPayloadError(f"the blob has version {version}, this Intarsia knows {BLOB_VERSION}")
    if header[16:32] != bytes.fromhex(fingerprint):
        raise IndexPayloadError("the blob belongs to another file")
    if int.from_bytes(header[32:40], "little") != blob_bytes - BLOB_HEADER_BYTES:
        raise IndexPayloadError("the blob's length is not what the directory says")
    announced = f"{int.from_bytes(header[40:48], 'little'):016x}"
    if xxh3 is not None and announced != xxh3:
        raise IndexPayloadError("the blob is not the one that the directory means, or its header is damaged")
    return announced


def check_payload(payload: bytes, xxh3: str) -> None:
    """Compare a payload with its checksum.

    Raises:
        IndexPayloadError: If it is damaged.
    """
    if checksum(payload) != xxh3:
        raise IndexPayloadError("its bytes are damaged: the checksum does not match")
