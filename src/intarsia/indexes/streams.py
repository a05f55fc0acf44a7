"""Record batches as bytes, in Arrow's IPC stream format."""

from __future__ import annotations

import pyarrow as pa

from intarsia.format.arrow_stream import expanded_bytes

#: Smaller streams are decompressed in the calling thread, because waking another one takes longer.
_CONCURRENT_BYTES = 1 << 20


def open_stream(data: bytes) -> pa.ipc.RecordBatchStreamReader:
    """Open a stream, which may be compressed.

    Raises:
        pa.ArrowInvalid: If the bytes do not begin with a schema.
    """
    options = pa.ipc.IpcReadOptions(use_threads=len(data) >= _CONCURRENT_BYTES)
    return pa.ipc.open_stream(data, options=options)


def batch_to_bytes(batch: pa.RecordBatch) -> bytes:
    """Serialize a record batch without compression."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def batch_from_bytes(data: bytes) -> pa.RecordBatch:
    """Parse and validate the result of `batch_to_bytes`; the batch refers to ``data``.

    Raises:
        ValueError: If the bytes are not such a batch. ``pa.ArrowInvalid`` is a ValueError, too.

    Example:
        >>> batch_from_bytes(batch_to_bytes(pa.record_batch({"x": [1, 2]}))).num_rows
        2
    """
    try:
        if expanded_bytes(data) > len(data):  # compressed, or with buffers outside of the stream
            raise ValueError(f"it expands to {expanded_bytes(data):,} bytes")
        with open_stream(data) as reader:
            batch = reader.read_next_batch()
        if batch.num_rows > 8 * len(data):  # columns without buffers can have any number of rows
            raise ValueError(f"{len(data):,} bytes cannot have {batch.num_rows:,} rows")
        batch.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ValueError(f"it is not an Arrow stream: {error}") from error
    return batch
