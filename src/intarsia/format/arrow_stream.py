"""How much memory an Arrow IPC stream takes once its buffers are decompressed.

A few kilobytes of Zstandard may hold gigabytes, so this is looked at before anything is decompressed.
Only the lengths that the messages state are read: Arrow itself refuses a buffer that expands to another.

Source: "Serialization and Interprocess Communication (IPC)" of the Arrow columnar format, and the
FlatBuffers that it is made of (``Message.fbs``).
"""

from __future__ import annotations

import struct
import threading

#: Payloads that expand to more than this are neither written nor opened.
MAX_EXPANDED_BYTES = 1 << 29

#: Nor are those that expand to more than so many times their own bytes, and to more than this anyway.
#: A payload of nothing but zeros expands some 30,000 times.
MAX_EXPANSION = 256
ALWAYS_EXPANDED_BYTES = 1 << 25

#: The opened indexes of one file hold no more than this together.
MAX_FILE_EXPANDED_BYTES = 1 << 30

_CONTINUATION = 0xFFFFFFFF
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_BUFFER = struct.Struct("<qq")
_LENGTH = struct.Struct("<q")


def expanded_bytes(stream: bytes) -> int:
    """Bytes of all buffers of a stream, decompressed, as the stream states them.

    Args:
        stream: An encapsulated stream of messages; what follows its end is not looked at.

    Raises:
        ValueError: If it is no such stream.

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
    try:
        return _expanded_bytes(memoryview(stream))
    except struct.error as error:
        raise ValueError(f"it is no Arrow stream: {error}") from error


def check_expanded(stream: bytes) -> None:
    """Refuse a stream that takes more than a payload of its length may.

    Raises:
        ValueError: If it does, or is no such stream.
    """
    num_bytes = expanded_bytes(stream)
    most = min(max(ALWAYS_EXPANDED_BYTES, len(stream) * MAX_EXPANSION), MAX_EXPANDED_BYTES)
    if num_bytes > most:
        raise ValueError(
            f"it expands to {num_bytes:,} bytes; {most:,} is the most for a payload of {len(stream):,}"
        )


class ExpansionBudget:
    """How much memory several payloads may take together, for as long as they are open.

    Several threads may take from one budget.

    Args:
        most_bytes: The sum that is not exceeded.
        shared: A greater budget, from which everything is taken as well.

    Example:
        >>> budget = ExpansionBudget(1000)
        >>> budget.take(bytes(600))
        >>> budget.take(bytes(600))
        Traceback (most recent call last):
            ...
        ValueError: it takes 600 bytes; 400 of the 1,000 for indexes are left
    """

    def __init__(
        self, most_bytes: int = MAX_FILE_EXPANDED_BYTES, shared: ExpansionBudget | None = None
    ) -> None:
        self.most_bytes = most_bytes
        self.left_bytes = most_bytes
        self._shared = shared
        self._lock = threading.Lock()

    def take(self, payload: bytes) -> None:
        """Account for a payload that is about to be opened.

        Args:
            payload: An Arrow IPC stream, which takes what it expands to; other bytes take their length.

        Raises:
            ValueError: If it takes more than is left; then nothing is accounted for.
        """
        try:
            num_bytes = max(expanded_bytes(payload), len(payload))
        except ValueError:  # some other form
            num_bytes = len(payload)
        self._take(num_bytes)

    def _take(self, num_bytes: int) -> None:
        with self._lock:
            if num_bytes > self.left_bytes:
                raise ValueError(
                    f"it takes {num_bytes:,} bytes; {self.left_bytes:,} of the {self.most_bytes:,} "
                    "for indexes are left"
                )
            if self._shared is not None:
                self._shared._take(num_bytes)
            self.left_bytes -= num_bytes

    def give_back(self) -> None:
        """Account for the end of every payload that was taken."""
        with self._lock:
            taken = self.most_bytes - self.left_bytes
            self.left_bytes = self.most_bytes
        if self._shared is not None:
            self._shared._give(taken)

    def _give(self, num_bytes: int) -> None:
        with self._lock:
            self.left_bytes += num_bytes


def _expanded_bytes(stream: memoryview) -> int:
    total, position = 0, 0
    while position + 8 <= len(stream):
        marker, num_bytes = struct.unpack_from("<Ii", stream, position)
        if marker != _CONTINUATION:
            raise ValueError("it is no Arrow stream: a message does not start where it should")
        if num_bytes == 0:
            break
        if num_bytes < 0:
            raise ValueError("it is no Arrow stream: a message has a negative length")
        message = stream[position + 8 : position + 8 + num_bytes]
        body = position + 8 + num_bytes
        root = struct.unpack_from("<I", message)[0]
        kind_at, header_at, length_at = (_field(message, root, number) for number in (1, 2, 3))
        kind = struct.unpack_from("<B", message, kind_at)[0] if kind_at else 0
        if header_at and kind in (_DICTIONARY_BATCH, _RECORD_BATCH):
            batch = _follow(message, header_at)
            if kind == _DICTIONARY_BATCH:
                data_at = _field(message, batch, 1)
                batch = _follow(message, data_at) if data_at else batch
            total += _batch_bytes(message, batch, stream[body:])
        body_bytes = _LENGTH.unpack_from(message, length_at)[0] if length_at else 0
        if body_bytes < 0:
            raise ValueError("it is no Arrow stream: a body has a negative length")
        position = body + body_bytes
    return total


def _batch_bytes(message: memoryview, batch: int, body: memoryview) -> int:
    """The buffers of one record batch, whose table lies at ``batch``."""
    buffers_at = _field(message, batch, 2)
    if not buffers_at:
        return 0
    is_compressed = bool(_field(message, batch, 3))
    start = _follow(message, buffers_at)
    count = struct.unpack_from("<I", message, start)[0]
    if count * _BUFFER.size > len(message):
        raise ValueError("it is no Arrow stream: its buffers lie outside of it")
    total = 0
    for number in range(count):
        offset, length = _BUFFER.unpack_from(message, start + 4 + number * _BUFFER.size)
        if offset < 0 or length < 0:
            raise ValueError("it is no Arrow stream: a buffer has a negative place")
        stated = -1
        if is_compressed and length:  # the length before compression, or -1, stands in front
            stated = _LENGTH.unpack_from(body, offset)[0]
        total += length if stated < 0 else stated
    return total


def _field(message: memoryview, table: int, number: int) -> int:
    """Where a field of a FlatBuffers table stands; 0 if it is absent."""
    vtable = table - struct.unpack_from("<i", message, table)[0]
    if vtable < 0:
        raise ValueError("it is no Arrow stream: a table lies outside of it")
    slot = 4 + 2 * number
    if slot + 2 > struct.unpack_from("<H", message, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", message, vtable + slot)[0]
    return table + offset if offset else 0


def _follow(message: memoryview, place: int) -> int:
    """Where the offset at a place leads to."""
    target: int = place + struct.unpack_from("<I", message, place)[0]
    return target
