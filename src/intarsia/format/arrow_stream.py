"""The memory that an Arrow IPC stream takes when its buffers are decompressed.

A few kilobytes of Zstandard can expand to gigabytes, so the size is checked before anything is decompressed.
It is computed from the lengths in the messages: Arrow itself refuses a buffer that expands to another length.

Source: "Serialization and Interprocess Communication (IPC)" of the Arrow columnar format, and the
FlatBuffers schema of its messages (``Message.fbs``).
"""

from __future__ import annotations

import struct
import threading
from functools import lru_cache

#: Payloads that expand to more than this are neither written nor opened.
MAX_EXPANDED_BYTES = 1 << 29

#: Nor are payloads that expand by more than this factor, unless they stay below `ALWAYS_EXPANDED_BYTES`.
#: A payload of zeros expands by a factor of about 30,000.
MAX_EXPANSION = 256
ALWAYS_EXPANDED_BYTES = 1 << 25

#: The limit on all open indexes of one file together.
MAX_FILE_EXPANDED_BYTES = 1 << 30

#: The sizes of the last streams are remembered if these are at most this long.
_REMEMBERED_BYTES = 1 << 16

_CONTINUATION = 0xFFFFFFFF
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_BUFFER = struct.Struct("<qq")
_LENGTH = struct.Struct("<q")


def expanded_bytes(stream: bytes) -> int:
    """Return the number of decompressed bytes in all buffers of a stream.

    Args:
        stream: An encapsulated stream of messages; bytes after its end are ignored.

    Raises:
        ValueError: If the bytes are not a stream.

    Example:
        >>> import pyarrow as pa
        >>> sink = pa.BufferOutputStream()
        >>> batch = pa.record_batch({"zeros": pa.array([0] * 1000)})
        >>> options = pa.ipc.IpcWriteOptions(compression="zstd")
        >>> with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        ...     writer.write_batch(batch)
        >>> expanded_bytes(sink.getvalue().to_pybytes())
        8000
    """
    return (_remembered if len(stream) <= _REMEMBERED_BYTES else _checked)(stream)


def check_expanded(stream: bytes) -> None:
    """Refuse a stream that expands to more bytes than its length allows.

    Raises:
        ValueError: If it does, or if the bytes are not a stream.
    """
    num_bytes = expanded_bytes(stream)
    limit = min(max(ALWAYS_EXPANDED_BYTES, len(stream) * MAX_EXPANSION), MAX_EXPANDED_BYTES)
    if num_bytes > limit:
        raise ValueError(
            f"it expands to {num_bytes:,} bytes; the limit for {len(stream):,} bytes of payload is {limit:,}"
        )


class ExpansionBudget:
    """A memory limit for all payloads that are open at the same time; it is thread-safe.

    Args:
        shared: A larger budget that the same payloads count against.

    Example:
        >>> budget = ExpansionBudget(1000)
        >>> budget.take(bytes(600))
        600
        >>> budget.take(bytes(600))
        Traceback (most recent call last):
            ...
        ValueError: it needs 600 bytes, but only 400 of the 1,000 bytes for indexes are left
    """

    def __init__(
        self, max_bytes: int = MAX_FILE_EXPANDED_BYTES, shared: ExpansionBudget | None = None
    ) -> None:
        self.max_bytes = max_bytes
        self.left_bytes = max_bytes
        self._shared = shared
        self._lock = threading.Lock()

    def take(self, payload: bytes) -> int:
        """Reserve memory for a payload that is about to be opened.

        Args:
            payload: An Arrow IPC stream, which takes its expanded size, or other bytes, which take their
                length.

        Returns:
            The reserved bytes.

        Raises:
            ValueError: If it takes more than is left; nothing is reserved then.
        """
        try:
            num_bytes = max(expanded_bytes(payload), len(payload))
        except ValueError:  # not an Arrow stream
            num_bytes = len(payload)
        self._take(num_bytes)
        return num_bytes

    def _take(self, num_bytes: int) -> None:
        with self._lock:
            if num_bytes > self.left_bytes:
                raise ValueError(
                    f"it needs {num_bytes:,} bytes, but only {self.left_bytes:,} of the {self.max_bytes:,} "
                    "for indexes are left"
                )
            if self._shared is not None:
                self._shared._take(num_bytes)
            self.left_bytes -= num_bytes

    def sibling(self) -> ExpansionBudget:
        """Return an empty budget that counts against the same larger one."""
        return ExpansionBudget(self.max_bytes, self._shared)

    def release(self) -> None:
        """Release the memory of all payloads."""
        with self._lock:
            taken = self.max_bytes - self.left_bytes
            self.left_bytes = self.max_bytes
        if taken and self._shared is not None:
            self._shared._take(-taken)


def _checked(stream: bytes) -> int:
    try:
        return _expanded_bytes(memoryview(stream))
    except struct.error as error:
        raise _not_a_stream(str(error)) from error


#: The budget and the parser of an index ask one after the other.
_remembered = lru_cache(maxsize=4)(_checked)


def _expanded_bytes(stream: memoryview) -> int:
    total, position = 0, 0
    while position + 8 <= len(stream):
        marker, num_bytes = struct.unpack_from("<Ii", stream, position)
        if marker != _CONTINUATION:
            raise _not_a_stream("a message does not start at the expected offset")
        if num_bytes == 0:
            break
        if num_bytes < 0:
            raise _not_a_stream("a message has a negative length")
        message = stream[position + 8 : position + 8 + num_bytes]
        body = position + 8 + num_bytes
        root = struct.unpack_from("<I", message)[0]
        type_at, header_at, length_at = (_field(message, root, number) for number in (1, 2, 3))
        header_type = struct.unpack_from("<B", message, type_at)[0] if type_at else 0
        if header_at and header_type in (_DICTIONARY_BATCH, _RECORD_BATCH):
            batch = _follow(message, header_at)
            if header_type == _DICTIONARY_BATCH:
                data_at = _field(message, batch, 1)
                batch = _follow(message, data_at) if data_at else batch
            total += _batch_bytes(message, batch, stream[body:])
        body_bytes = _LENGTH.unpack_from(message, length_at)[0] if length_at else 0
        if body_bytes < 0:
            raise _not_a_stream("a body has a negative length")
        position = body + body_bytes
    return total


def _batch_bytes(message: memoryview, batch: int, body: memoryview) -> int:
    """Return the decompressed size of the buffers of one record batch, whose table is at offset ``batch``."""
    buffers_at = _field(message, batch, 2)
    if not buffers_at:
        return 0
    is_compressed = bool(_field(message, batch, 3))
    start = _follow(message, buffers_at)
    count = struct.unpack_from("<I", message, start)[0]
    if count * _BUFFER.size > len(message):
        raise _not_a_stream("its buffers are outside the message")
    total = 0
    for number in range(count):
        offset, length = _BUFFER.unpack_from(message, start + 4 + number * _BUFFER.size)
        if offset < 0 or length < 0:
            raise _not_a_stream("a buffer has a negative offset or length")
        stated = -1
        if is_compressed and length:  # the uncompressed length, or -1, precedes the bytes
            stated = _LENGTH.unpack_from(body, offset)[0]
        total += length if stated < 0 else stated
    return total


def _field(message: memoryview, table: int, number: int) -> int:
    """Return the offset of a field of a FlatBuffers table; 0 if it is absent."""
    vtable = table - struct.unpack_from("<i", message, table)[0]
    if vtable < 0:
        raise _not_a_stream("a table is outside the message")
    slot = 4 + 2 * number
    if slot + 2 > struct.unpack_from("<H", message, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", message, vtable + slot)[0]
    return table + offset if offset else 0


def _follow(message: memoryview, position: int) -> int:
    """Follow the relative offset at a position."""
    target: int = position + struct.unpack_from("<I", message, position)[0]
    return target


def _not_a_stream(cause: str) -> ValueError:
    return ValueError(f"the bytes are not an Arrow stream: {cause}")
