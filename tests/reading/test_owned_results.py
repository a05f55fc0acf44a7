"""Results own only the memory of their rows, not of the decoded pages."""

from __future__ import annotations

import gc

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """10,000 rows of 3.5 kB, 1,000 per page, and a struct column."""
    path = tmp_path_factory.mktemp("wide") / "wide.parquet"
    ids = range(10_000)
    table = pa.table(
        {
            "id": ids,
            "text": [f"{row:07}" * 500 for row in ids],
            "s": [{"a": row, "b": {"c": str(row)}} for row in ids],
        }
    )
    options = {"use_dictionary": False, "write_page_index": True, "max_rows_per_page": 1000}
    pq.write_table(table, path, row_group_size=5000, **options)
    return path


@pytest.mark.parametrize("limit", [None, 20])
def test_few_rows_own_few_bytes(wide, limit):
    scan = ia.open(wide).scan("id BETWEEN 3490 AND 3539 OR id BETWEEN 8000 AND 8009", limit=limit)
    rows = scan.to_arrow()
    assert rows.num_rows == (limit or 60)
    assert rows.get_total_buffer_size() < 2.5 * rows.num_rows * 3600


def test_limit_without_a_predicate_owns_few_bytes(wide):
    rows = ia.open(wide).scan(limit=7).to_arrow()
    assert rows["id"].to_pylist() == list(range(7))
    assert rows.get_total_buffer_size() < 3 * 7 * 3600


def test_datafusion_reads_a_stream_of_structs(wide):
    scan = ia.open(wide).scan("id BETWEEN 3490 AND 3495 OR id = 9999", columns=["id", "s"])
    frame = datafusion.SessionContext().from_arrow(scan)
    rows = pa.Table.from_batches(frame.collect())
    assert [row["b"]["c"] for row in rows["s"].to_pylist()] == [*map(str, range(3490, 3496)), "9999"]


#: The ways to take the rows of a scan, and the result as a table.
WAYS = {
    "batches": lambda scan: pa.Table.from_batches(list(scan)),
    "reader": lambda scan: scan.to_reader().read_all(),
    "stream": pa.table,
    "polars": lambda scan: scan.to_polars().to_arrow(),
}


@pytest.mark.parametrize("way", WAYS)
def test_few_rows_own_few_bytes_however_they_are_taken(wide, way):
    held = pa.total_allocated_bytes()
    rows = WAYS[way](ia.open(wide).scan("id BETWEEN 3490 AND 3539 OR id BETWEEN 8000 AND 8009"))
    assert rows.num_rows == 60
    assert rows.get_total_buffer_size() < 2.5 * 60 * 3600
    gc.collect()
    assert pa.total_allocated_bytes() - held < 2.5 * 60 * 3600


def test_rows_of_splits_and_samples_own_few_bytes(wide):
    table = ia.open(wide)
    for split in table.plan("id BETWEEN 3490 AND 3539 OR id BETWEEN 8000 AND 8009"):
        rows = split.to_arrow()
        assert rows.get_total_buffer_size() < 2.5 * rows.num_rows * 3600
    rows = table.sample(20, seed=1)
    assert rows.num_rows == 20
    assert rows.get_total_buffer_size() < 2.5 * 20 * 3600
