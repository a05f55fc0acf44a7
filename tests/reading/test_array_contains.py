"""Conditions on the elements of lists read only the pages that can have a match."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.lake.index.lakes import age

ROWS = 4_000


@pytest.fixture(scope="module", params=["1.0", "2.0"])
def path(tmp_path_factory, request):
    path = tmp_path_factory.mktemp("lists") / "f.parquet"
    rows = range(ROWS)
    table = pa.table(
        {
            "id": rows,
            "sorted": [[row // 10, None, row // 10 + 1][: row % 4] for row in rows],
            "spread": [None if row % 5 == 0 else [f"u{row * 7919 % 100_003}"] * (row % 3) for row in rows],
            "few": pa.array([[f"t{row // 1_000}", f"t{row // 1_000 + 3}"] for row in rows]),
            "text": ["x" * 50] * ROWS,
        }
    )
    options = {"row_group_size": 1_000, "max_rows_per_page": 100, "data_page_version": request.param}
    pq.write_table(table, path, use_dictionary=["few.list.element"], **options)
    ia.attach(path, [ia.PageIndex(), ia.Bloom("spread")])
    age(path)
    return path


@pytest.mark.parametrize(
    ("column", "value", "most_rows", "proofs"),
    [
        ("sorted", 150, 200, {"column_index"}),
        ("sorted", 2.5, 0, set()),
        ("spread", "u7919", 1_000, {"bloom_filter"}),
        ("spread", "u7918", 0, {"bloom_filter"}),
        ("few", "t1", 1_000, {"statistics", "dictionary"}),
        ("few", "t30", 0, {"dictionary"}),
    ],
)
def test_pages_are_skipped(path, column, value, most_rows, proofs):
    has = ia.Call("array_contains", column, (value,))
    scan = ia.open(path).scan(ia.Comparison(has, "=", True), ["id"])
    lists = pq.read_table(path)[column].to_pylist()
    assert scan.to_arrow()["id"].to_pylist() == [row for row in range(ROWS) if value in (lists[row] or ())]
    assert scan.report.rows_candidate <= most_rows
    assert {(name, column) for name in proofs} <= scan.report.pruned_by.keys()
