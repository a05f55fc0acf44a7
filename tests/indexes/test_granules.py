"""Granules: their number is checked before any allocation, and their metadata is text."""

import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

import intarsia as ia
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.indexes import Layout, serialize_granules
from intarsia.predicate import BoundCompare

CLAIMED = 1 << 31
KINDS = (ia.Distinct, ia.ZoneMap, ia.Ngram, ia.Histogram, ia.Hll, ia.BloomGranule)


class Columns:
    """A text column in two row groups."""

    def __init__(self, values):
        self.values = pa.array(values, pa.string())
        edges = np.array([0, len(values) // 2, len(values)])
        self.layout = Layout(len(values), edges, {"x": np.arange(len(values) + 1)})

    def type_of(self, column):
        return self.values.type

    def batches(self, column):
        yield 0, self.values

    encoded_batches = batches


#: The payload of `Ngram` has no entry for granules without text, so their number is not checked.
CLAIMS = [(kind, CLAIMED) for kind in KINDS] + [(kind, 1 << 23) for kind in KINDS if kind is not ia.Ngram]


@pytest.mark.parametrize(("kind", "num_rows"), CLAIMS)
def test_a_footer_that_claims_many_rows_allocates_no_memory(kind, num_rows):
    index = kind("x", granularity=1)
    payload = index.build(Columns(["one", "two", "three"]))
    layout = Layout(num_rows, np.array([0, 3, num_rows]), {})
    tracemalloc.start()
    try:
        with pytest.raises(IndexPayloadError) as caught:
            first_answer(index, payload, layout)
        assert caught.value.reason in ("other-rows", "damaged-payload")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def first_answer(index, payload, layout):
    """Open an index and evaluate a condition, because some kinds read nothing before."""
    return index.open(payload, layout).candidate_rows(
        BoundCompare(("x",), pa.string(), "=", pa.scalar("one"))
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_too_many_granules_are_not_built(kind):
    columns = Columns(["one", "two"])
    columns.layout = Layout(CLAIMED, np.array([0, CLAIMED]), {})
    with pytest.raises(IndexBuildError) as caught:
        kind("x", granularity=1).build(columns)
    assert caught.value.reason == "too-many-granules"


@pytest.mark.parametrize("granularity", ["file", "row_group", "page", 1, 2, 3, 100])
@pytest.mark.parametrize("num_rows", [0, 1, 2, 7, 50])
def test_the_number_of_granules_agrees_with_their_edges(granularity, num_rows):
    layout = Columns(["x"] * num_rows).layout
    assert layout.num_granules(granularity, "x") == len(layout.edges(granularity, "x")) - 1


@pytest.mark.parametrize(
    ("key", "edges"),
    [
        *((b"edges", raw) for raw in (b"", b"\0" * 7, b"\0" * 9, b"\0" * 8)),
        *((b"granule_edges", text) for text in (b"", b"[", b"{}", b"[0]", b"[0,1.0,2]", b"[[0,1,2]]")),
        *((b"granule_edges", text) for text in (b"[0,-1,2]", b"[0,true,2]", b"[0,1,9007199254740992]")),
        (b"granule_edges", b"[" * 100_000),
        (b"granule_edges", b"[0,1" + b"0" * 5_000 + b",2]"),
        (b"other", b"[0,2]"),
    ],
)
def test_damaged_edges_of_pages(key, edges):
    index = ia.ZoneMap("x", granularity="page")
    columns = Columns(["one", "two"])
    with pa.ipc.open_stream(index.build(columns)) as reader:
        batch = reader.read_next_batch()
    metadata = {key: edges}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.replace_schema_metadata(metadata).schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(IndexPayloadError):
        index.open(sink.getvalue().to_pybytes(), columns.layout)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind is not ia.BloomGranule], ids=lambda kind: kind.kind
)
def test_metadata_is_text(kind):
    """Arrow defines it as text, and other libraries replace or refuse other bytes."""
    with pa.ipc.open_stream(kind("x", granularity="page").build(Columns(["one", "two"] * 100))) as reader:
        metadata = reader.schema.metadata
    assert json.loads(metadata[b"granule_edges"])[-1] == 200
    assert all(value.decode().isprintable() for value in metadata.values())


def test_other_metadata_is_refused():
    with pytest.raises(IndexBuildError) as caught:
        serialize_granules(pa.record_batch({"x": [1]}), np.array([0, 1]), "file", {b"key": b"\xff"})
    assert caught.value.reason == "invalid-values"
