"""What an Arrow stream takes in memory is known before anything is decompressed."""

import contextlib
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.format.arrow_stream import check_expanded, expanded_bytes
from intarsia.indexes.base import Layout
from intarsia.indexes.granules import parse_granules, serialize_granules
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


def test_it_is_what_arrow_makes_of_it():
    plain = expanded_bytes(stream(TABLE, None))
    assert abs(expanded_bytes(stream(TABLE, "zstd")) - plain) < plain * 0.01  # but for padding
    assert abs(expanded_bytes(stream(TABLE, "lz4")) - plain) < plain * 0.01
    assert plain >= 0.99 * TABLE.nbytes


def bomb():
    """Zeros, so well compressed that 16 MB are less than a kilobyte."""
    return stream(pa.table({"ordinal": np.zeros(1 << 21, dtype=np.int64)}), "zstd", 1 << 21)


def test_what_is_too_large_is_not_opened(monkeypatch):
    payload = bomb()
    assert len(payload) < 10_000
    monkeypatch.setattr("intarsia.format.arrow_stream.MAX_EXPANDED_BYTES", 1 << 20)
    layout = Layout(10, np.array([0, 10]), {})
    with pytest.raises(IndexPayloadError, match="expands to"):
        parse_granules(payload, layout, "file", "it")
    with pytest.raises(IndexPayloadError, match="expands to"):
        Sample(10).open(payload, layout)
    batch = pa.record_batch({"zeros": np.zeros(1 << 20)})
    with pytest.raises(IndexBuildError, match="too large"):
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
        # metadata stands between the batches: aim at the first kilobytes, and anywhere
        for _ in range(rng.choice([1, 2, 8])):
            data[rng.randrange(rng.choice([2000, len(data)]))] = rng.choice([0, 255, rng.randrange(256)])
        with contextlib.suppress(ValueError):
            assert expanded_bytes(bytes(data[: rng.randrange(len(data))])) >= 0


def test_a_stream_within_the_limit_passes():
    check_expanded(stream(TABLE, "zstd"))
