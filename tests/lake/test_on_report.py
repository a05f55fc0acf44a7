"""A monitoring hook is called once for each query, with the report that the query has."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia


@pytest.fixture
def folder(tmp_path):
    for day in range(3):
        rows = pa.table({"x": range(1000 * day, 1000 * day + 1000), "s": ["a", "b"] * 500})
        pq.write_table(rows, tmp_path / f"{day}.parquet", row_group_size=250)
    return tmp_path


@pytest.mark.parametrize(
    "query",
    [
        lambda table: table.scan("x < 3", columns=["s"]).to_arrow(),
        lambda table: list(table.scan("x < 3", columns=["s"])),
        lambda table: table.scan("x < 3", limit=2).to_arrow(),
        lambda table: table.scan("x < 3", order_by="x DESC", limit=2).to_arrow(),
        lambda table: table.count("x < 3"),
        lambda table: table.aggregate({"x": "sum"}, "x < 3"),
        lambda table: table.count_distinct("s", "x < 3"),
        lambda table: table.value_counts("s", "x < 3"),
        lambda table: table.locate("x < 3"),
        lambda table: table.plan("x < 3"),
    ],
)
def test_each_query_is_passed_on_once(folder, query):
    queries = []
    query(ia.open(folder, on_report=queries.append))
    [found] = queries
    assert (found.table, found.where, found.error) == (str(folder), "x < 3", None)
    assert set(found.columns) >= {"x"}
    assert (found.report.files_total, found.report.files_read, found.report.rows_candidate) == (3, 1, 250)


def test_queries_without_a_predicate(folder):
    queries = []
    table = ia.open(folder, on_report=queries.append)
    table.sample(5)
    len(table)
    assert [query.where for query in queries] == [None, None]
    table.explain("x < 3")
    assert len(queries) == 2


def test_the_report_is_that_of_the_scan(folder):
    queries = []
    scan = ia.open(folder, on_report=queries.append).scan("x = 5 OR x = 2500")
    scan.to_arrow()
    assert queries[0].report.to_dict() == scan.report.to_dict()
    assert queries[0].report.rows_matched == 2


def test_a_caller_that_stops_early(folder):
    queries = []
    rows = iter(ia.open(folder, on_report=queries.append).scan("x >= 0"))
    next(rows)
    assert queries == []
    rows.close()
    [found] = queries
    assert found.error is None
    assert found.report.files_read == 1


def test_a_query_that_fails(folder):
    queries = []
    table = ia.open(folder, on_report=queries.append)
    (folder / "1.parquet").write_bytes(b"PAR1 not a file PAR1")
    with pytest.raises(ia.CorruptFileError) as error:
        table.scan("x >= 0").to_arrow()
    assert [query.error for query in queries] == [error.value]


@pytest.mark.parametrize(
    "query",
    [
        lambda table: table.scan().to_arrow(),
        lambda table: list(table.scan("x >= 0")),
        lambda table: table.scan("x >= 0", order_by="x", limit=1).to_arrow(),
        lambda table: table.aggregate("sum(x)", "x >= 0"),
        lambda table: table.count_distinct("x"),
        lambda table: table.approx_distinct("x"),
        lambda table: table.sample(20),
        lambda table: table.locate("x > 2"),
    ],
)
def test_a_query_whose_rows_cannot_be_read(tmp_path, query):
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"x": range(20)}), path, write_page_checksum=True, use_dictionary=False)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 0xFF
    path.write_bytes(data)
    queries = []
    table = ia.open(path, on_report=queries.append)
    with pytest.raises(ia.CorruptFileError) as error:
        query(table)
    assert [found.error for found in queries] == [error.value]


def test_errors_of_the_hook_do_not_end_the_query(folder):
    def hook(query):
        raise KeyError("no exporter")

    table = ia.open(folder, on_report=hook)
    with pytest.warns(ia.IntarsiaWarning, match=r"on_report raised KeyError: 'no exporter'"):
        assert table.count("x < 3") == 3


def test_copies_do_not_call_the_hook(folder):
    table = ia.open(folder, on_report=lambda query: pytest.fail("called"))
    assert pickle.loads(pickle.dumps(table)).count("x < 3") == 3
