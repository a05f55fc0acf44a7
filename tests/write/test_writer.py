"""`Writer` makes row groups of the requested size from any batches, in bounded memory, or no file."""

import os
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

import intarsia as ia
from intarsia.indexes import Index
from tests.effort import examples

SCHEMA = pa.schema({"number": pa.int64(), "word": pa.string(), "x": pa.float64()})


def rows(start, stop):
    numbers = range(start, stop)
    return pa.table(
        {
            "number": numbers,
            "word": [f"word {number % 10}" for number in numbers],
            "x": [number / 2 if number % 3 else None for number in numbers],
        },
        SCHEMA,
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.parquet"


@settings(max_examples=examples(40))
@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 50))
def test_batches_of_any_size(tmp_path_factory, sizes, row_group_size):
    """The file has the same bytes as that of `write_table`, including indexes."""
    folder = tmp_path_factory.mktemp("sizes", numbered=True)
    batches, at_once = folder / "batches.parquet", folder / "at_once.parquet"
    options = {
        "indexes": [ia.Distinct("word"), ia.Distinct("number", granularity="row_group")],
        "row_group_size": row_group_size,
        "rows_per_page": 7,
        "dictionary": True,
    }
    start = 0
    with ia.Writer(batches, SCHEMA, **options) as writer:
        for size in sizes:
            for batch in rows(start, start + size).to_batches():
                writer.write_batch(batch)
            start += size
    report = ia.write_table(rows(0, start), at_once, **options)
    assert batches.read_bytes() == at_once.read_bytes()
    assert (writer.report.num_rows, writer.report.built) == (report.num_rows, report.built)
    assert ia.verify(batches).ok


def test_many_small_batches(path):
    with ia.Writer(path, SCHEMA, indexes=[ia.Distinct("word")], row_group_size=1000) as writer:
        for start in range(0, 5000, 5):
            writer.write_table(rows(start, start + 5))
    assert writer.report.num_row_groups == 5
    assert pq.read_table(path).equals(rows(0, 5000))


def test_dictionaries_of_batches_are_merged(path):
    """Otherwise pyarrow falls back to plain encoding at the second batch."""
    schema = pa.schema({"word": pa.dictionary(pa.int32(), pa.string())})
    with ia.Writer(path, schema) as writer:
        for word in "abc":
            writer.write_table(pa.table({"word": pa.array([word] * 100).dictionary_encode()}))
    assert pq.read_table(path)["word"].to_pylist() == ["a"] * 100 + ["b"] * 100 + ["c"] * 100
    assert pq.read_metadata(path).row_group(0).column(0).encodings.count("PLAIN") <= 1


def test_memory_is_bounded(path):
    """Writing thirty row groups takes the memory of a few."""
    size = 50_000
    batch = pa.record_batch({"number": np.random.default_rng(0).integers(0, 1 << 60, size)})
    before = pa.total_allocated_bytes()
    most = []
    with ia.Writer(path, batch.schema, row_group_size=size, dictionary=False) as writer:
        for _ in range(30):
            writer.write_batch(pa.RecordBatch.from_arrays([pa.concat_arrays([batch.column(0)])], ["number"]))
            most.append(pa.total_allocated_bytes() - before)
    assert max(most) < 6 * batch.nbytes
    assert most[-1] <= max(most[:10])


def test_row_groups_are_bounded_in_bytes(path):
    table = pa.table({"number": np.arange(100_000)})
    with ia.Writer(path, table.schema, row_group_bytes=1 << 16) as writer:
        writer.write_table(table)  # many row groups in one call
        for start in range(0, 100_000, 1000):
            writer.write_table(table.slice(start, 1000))
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert sum(sizes) == 200_000
    assert all(8_000 <= size <= 8_300 for size in sizes[:-1])


def test_batches_that_share_buffers_fill_row_groups(path):
    texts = [f"text {row:060}" for row in range(20_000)]
    table = pa.table({"view": pa.array(texts, pa.string_view()), "kind": pa.array(texts).dictionary_encode()})
    with ia.Writer(path, table.schema, row_group_bytes=1 << 20) as writer:
        for start in range(0, 20_000, 500):
            writer.write_table(table.slice(start, 500))
    assert pq.read_metadata(path).num_row_groups <= 4


def test_sorted_within_row_groups(path):
    with ia.Writer(path, SCHEMA, sort_by=[("number", "descending")], row_group_size=10) as writer:
        writer.write_table(rows(0, 25))
    found = pq.read_table(path)["number"].to_pylist()
    assert found == [*range(9, -1, -1), *range(19, 9, -1), *range(24, 19, -1)]
    metadata = pq.read_metadata(path)
    for group in range(3):
        assert metadata.row_group(group).sorting_columns == (pq.SortingColumn(0, True, False),)


@pytest.mark.parametrize("write", [False, True])
def test_nothing_written(path, write):
    with ia.Writer(path, SCHEMA, indexes=[ia.Distinct("word")]) as writer:
        if write:
            writer.write_table(rows(0, 0))
    assert (writer.report.num_rows, writer.report.num_row_groups) == (0, 0)
    assert pq.read_table(path).equals(rows(0, 0))


def fail_after(writer, table, error):
    writer.write_table(table)
    raise error


@pytest.mark.parametrize("error", [ValueError, PermissionError, KeyboardInterrupt])
@pytest.mark.parametrize("num_rows", [0, 5, 500])
def test_exception_leaves_no_file(path, error, num_rows):
    path.write_bytes(b"old")
    writer = ia.Writer(path, SCHEMA, row_group_size=100)
    with pytest.raises(error, match="mine"), writer:
        fail_after(writer, rows(0, num_rows), error("mine"))
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["t.parquet"]
    assert writer.report is None
    with pytest.raises(ia.WriteError) as caught:
        writer.close()
    assert (caught.value.reason, caught.value.path) == ("writer-discarded", str(path))


def test_closing(path):
    writer = ia.Writer(path, SCHEMA)
    writer.write_table(rows(0, 5))
    assert not path.exists()
    report = writer.close()
    assert path.exists()
    assert writer.close() is report
    with pytest.raises(ia.WriteError) as caught:
        writer.write_table(rows(0, 5))
    assert (caught.value.reason, caught.value.path) == ("writer-closed", str(path))


@dataclass(frozen=True)
class OnlyOfNoRows(Index):
    """An index that can be built on the schema, but not on rows."""

    kind: ClassVar[str] = "only_of_no_rows"
    version: ClassVar[int] = 1

    column: str

    def build(self, chunk):
        if chunk.layout.num_rows:
            raise ia.IndexBuildError("these values are refused", reason="refused-values")
        return b""

    def open(self, payload, layout): ...


def test_index_that_fails_on_the_values(path):
    """A failure that the schema does not predict leaves no file."""
    with (
        pytest.raises(ia.IndexBuildError) as caught,
        ia.Writer(path, SCHEMA, indexes=[OnlyOfNoRows("word")]) as writer,
    ):
        writer.write_table(rows(0, 5))
    assert caught.value.reason == "refused-values"
    assert os.listdir(path.parent) == []


def test_batches_of_another_schema(path):
    with ia.Writer(path, SCHEMA) as writer:
        writer.write_table(rows(0, 5))
        for other, column in (
            (rows(0, 5).drop_columns("x"), None),
            (rows(0, 5).append_column("new", pa.array(range(5))), "new"),
            (pa.table({"number": ["1"], "word": ["a"], "x": [1.0]}), "number"),
            (rows(0, 5).select(["x", "word", "number"]), None),
        ):
            with pytest.raises(ia.WriteError) as caught:
                writer.write_table(other)
            assert (caught.value.reason, caught.value.column) == ("schema-mismatch", column)
    assert pq.read_table(path).equals(rows(0, 5))


def test_errors_before_anything_is_written(path):
    for options, error in (
        ({"indexes": [ia.Distinct("wrod")]}, ia.ColumnNotFoundError),
        ({"indexes": [ia.Distinct("word"), ia.Distinct("word")]}, ia.IndexBuildError),
        ({"sort_by": "wrod"}, ia.ColumnNotFoundError),
    ):
        with pytest.raises(error):
            ia.Writer(path, SCHEMA, **options)
    assert os.listdir(path.parent) == []


# --- objects ---------------------------------------------------------------------------------------


def test_objects(path, put_behind_urls):
    """One put: the object appears when it is complete."""
    store = MemoryStore()
    put_behind_urls(store)
    with ia.Writer("s3://bucket/t.parquet", SCHEMA, indexes=[ia.Distinct("word")]) as writer:
        writer.write_table(rows(0, 500))
        assert not list(store.list())
    with ia.Writer(path, SCHEMA, indexes=[ia.Distinct("word")]) as local:
        local.write_table(rows(0, 500))
    assert bytes(obstore.get(store, "t.parquet").bytes()) == path.read_bytes()
    assert local.report.num_bytes == writer.report.num_bytes == path.stat().st_size


def test_object_that_is_refused(put_behind_urls, monkeypatch):
    store = MemoryStore()
    put_behind_urls(store)

    def refuse(*rest, **options):
        raise PermissionError("no")

    monkeypatch.setattr(obstore, "put", refuse)
    with pytest.raises(ia.ReplaceError) as caught:
        ia.write_table(rows(0, 5), "s3://bucket/t.parquet")
    assert (caught.value.reason, caught.value.path) == ("store-failed", "s3://bucket/t.parquet")


@pytest.mark.parametrize("schema", [None, 7, "x", ["x"], {"x": "bad"}], ids=repr)
def test_the_schema_must_be_a_schema(tmp_path, schema):
    with pytest.raises(ia.NotTabularError) as caught:
        ia.Writer(tmp_path / "f.parquet", schema)
    assert caught.value.reason == "not-a-schema"
    assert not os.listdir(tmp_path)
