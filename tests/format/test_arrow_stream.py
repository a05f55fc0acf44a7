"""The memory that an Arrow stream takes is known before anything is decompressed."""

import contextlib
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.format.arrow_stream import check_expanded, expanded_bytes
from intarsia.indexes.granules import parse_granules, serialize_granules
from intarsia.indexes.layout import Layout
from intarsia.indexes.sample import Sample

TABLE = pa.table(
    {
        "zeros": np.zeros(10_000, dtype=np.int64),
        "noise": np.random.default_rng(0).random(10_000),
        "text": [None if n % 7 == 0 else "x" * (n % 5) for n in range(10_000)],
        "lists": [[n] * (n % 3) for n in range(10_000)],
        "words": pa.array(["one", "two"] * 5000).dictionary_encode(),
        "nothing": pa.nulls(10_000),
    }
)


def stream(table, compression, rows=3000):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue().to_pybytes()


def test_size_equals_that_of_the_uncompressed_stream():
    plain = expanded_bytes(stream(TABLE, None))
    assert abs(expanded_bytes(stream(TABLE, "zstd")) - plain) < plain * 0.01  # except for padding
    assert abs(expanded_bytes(stream(TABLE, "lz4")) - plain) < plain * 0.01
    assert plain >= 0.99 * TABLE.nbytes


def bomb():
    """64 MiB of zeros, compressed to a few kilobytes."""
    return stream(pa.table({"ordinal": np.zeros(1 << 23, dtype=np.int64)}), "zstd", 1 << 23)


def test_payloads_that_are_too_large_are_not_opened():
    payload = bomb()
    assert len(payload) < 10_000
    layout = Layout(10, np.array([0, 10]), {})
    with pytest.raises(IndexPayloadError):
        parse_granules(payload, layout, "file", "it")
    with pytest.raises(IndexPayloadError):
        Sample(10).open(payload, layout)
    batch = pa.record_batch({"zeros": np.zeros(5 << 20)})
    with pytest.raises(IndexBuildError):
        serialize_granules(batch, np.array([0, 10]), "file")


@given(st.binary(max_size=200))
def test_any_bytes(data):
    with contextlib.suppress(ValueError):
        assert expanded_bytes(data) >= 0


def test_damaged_bytes():
    whole = stream(TABLE, "zstd")
    rng = random.Random(1)
    for _ in range(3000):
        data = bytearray(whole)
        # change metadata in the first kilobytes, or any byte
        for _ in range(rng.choice([1, 2, 8])):
            data[rng.randrange(rng.choice([2000, len(data)]))] = rng.choice([0, 255, rng.randrange(256)])
        with contextlib.suppress(ValueError):
            assert expanded_bytes(bytes(data[: rng.randrange(len(data))])) >= 0


def test_stream_within_the_limit_passes():
    check_expanded(stream(TABLE, "zstd"))
