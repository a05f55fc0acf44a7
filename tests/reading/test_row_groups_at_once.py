"""Row groups that are decoded at the same time: rows, counts and errors are those of sequential decoding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia

ROW_GROUPS, ROWS_PER_GROUP = 12, 20_000


@pytest.fixture(scope="module", params=[False, True], ids=["no page index", "page index"])
def path(request, tmp_path_factory):
    random = np.random.default_rng(3)
    count = ROW_GROUPS * ROWS_PER_GROUP
    table = pa.table(
        {
            "id": np.arange(count),
            "digit": random.integers(0, 10, count),
            "amount": random.random(count),
            "text": [f"text {number}" for number in random.integers(0, 50_000, count)],
        }
    )
    path = tmp_path_factory.mktemp("groups") / "f.parquet"
    options = {"write_page_index": request.param, "max_rows_per_page": 2_000}
    pq.write_table(table, path, row_group_size=ROWS_PER_GROUP, **options)
    return str(path)


WHERE = [
    "digit = 3",
    "id >= 30000 AND id < 200000",
    "text = 'text 77' OR digit = 4",
    "id >= 0",
    "id < 0",
]


def counts_of(report):
    """The report in JSON form, without the time and the requests."""
    found = report.to_dict()
    del found["seconds"], found["requests"]
    return found


@pytest.mark.parametrize("where", WHERE)
def test_rows_and_counts_are_those_of_an_iterator(path, where):
    together, one_by_one = ia.open(path).scan(where), ia.open(path).scan(where)
    rows = together.to_arrow()
    assert rows.equals(pa.Table.from_batches(list(one_by_one), schema=one_by_one.schema))
    assert rows["id"].to_pylist() == sorted(rows["id"].to_pylist())
    assert counts_of(together.report) == counts_of(one_by_one.report)
    assert together.report.requests <= one_by_one.report.requests


def test_whole_row_groups_need_no_page_index(tmp_path):
    """Polars writes an OffsetIndex, but not how many pages there are."""
    path = tmp_path / "f.parquet"
    pl.DataFrame({"x": range(4_000)}).write_parquet(path, row_group_size=1_000)
    scan = ia.open(path).scan()
    assert scan.to_arrow()["x"].to_pylist() == list(range(4_000))
    assert scan.report.to_dict()["bytes"]["index"] == 0


@pytest.mark.parametrize("where", WHERE)
def test_aggregates_are_those_of_the_rows(path, where):
    rows = ia.open(path).scan(where).to_arrow()
    found = ia.open(path).aggregate({"*": "count", "digit": ["sum", "min", "max"]}, where)
    assert found["*"]["count"] == rows.num_rows
    assert (found["digit"]["sum"] or 0) == (pc.sum(rows["digit"]).as_py() or 0)
    assert [found["digit"][name] for name in ("min", "max")] == list(
        pc.min_max(rows["digit"]).as_py().values()
    )


@pytest.mark.filterwarnings("ignore")  # a page index that contradicts the damaged pages is not used
def test_the_first_damaged_row_group_is_named(path, tmp_path):
    """Which row group is decoded first does not determine which error is raised."""
    damaged = tmp_path / "damaged.parquet"
    data = bytearray(Path(path).read_bytes())
    metadata = pq.read_metadata(path)
    starts = []
    for row_group in (5, 6, 9):
        chunk = metadata.row_group(row_group).column(1)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
        starts.append(start)
    damaged.write_bytes(data)
    for _ in range(5):
        with pytest.raises(ia.CorruptFileError) as caught:
            ia.open(str(damaged)).scan("digit <> 3").to_arrow()
        assert caught.value.column == "digit"
        assert caught.value.offset == starts[0]


@pytest.mark.filterwarnings("ignore")  # a page index that contradicts the damaged pages is not used
@pytest.mark.parametrize("options", [{"write_page_index": True, "max_rows_per_page": 5_000}, {}])
def test_large_pages_of_several_columns(tmp_path, options):
    """Columns of more than 1 MiB together are decoded from where they are, without a copy in one buffer."""
    random = np.random.default_rng(4)
    count = 120_000
    table = pa.table(
        {
            "key": random.integers(0, 1 << 60, count),
            "word": [f"word {number}" for number in random.integers(0, 3_000, count)],
            "number": random.random(count),
            "flag": random.random(count) < 0.5,
        }
    )
    path = tmp_path / "large.parquet"
    pq.write_table(table, path, **options)
    where = "key < 500000000000000000 OR flag"
    expected = table.filter(pc.or_(pc.less(table["key"], 500_000_000_000_000_000), table["flag"]))
    assert ia.open(path).scan(where).to_arrow().equals(expected.combine_chunks())
    assert ia.open(path).scan(where, ["word", "number"]).to_arrow().equals(expected.select([1, 2]))

    chunk = pq.read_metadata(path).row_group(0).column(2)
    damaged = bytearray(path.read_bytes())
    place = chunk.data_page_offset + 100
    damaged[place : place + 20_000] = bytes(20_000)
    path.write_bytes(damaged)
    with pytest.raises(ia.CorruptFileError) as caught:
        ia.open(path).scan(where, ["word", "number"]).to_arrow()
    assert (caught.value.path, caught.value.column) == (str(path), "number")
