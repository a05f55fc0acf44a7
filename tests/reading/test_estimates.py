"""Estimates for whole predicates, compared with the number of matching rows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia

ROWS = 100_000


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Unsorted columns: uniform numbers, the same with a third of nulls, and few words."""
    rng = np.random.default_rng(7)
    path = tmp_path_factory.mktemp("estimates") / "a.parquet"
    even = rng.permutation(ROWS)
    columns = {
        "even": even,
        "holes": pa.array(even, mask=even % 3 == 0),
        "word": [f"w{number}" for number in rng.integers(0, 10, ROWS)],
    }
    pq.write_table(pa.table(columns), path, row_group_size=30_000)
    ia.attach(path, [ia.Histogram(name) for name in columns])
    return ia.open(path)


@pytest.mark.parametrize(
    "where",
    [
        "even >= 50000 AND even < 50010",
        "even BETWEEN 20000 AND 29999",
        "even > 90000 AND even < 10000",
        "even < 50000 OR even >= 50000",
        "even < 10000 OR even > 95000",
        "even > 10 AND even > 60000 AND even < 70000 AND even <= 99999",
        "NOT (even >= 20000 AND even < 90000)",
        "holes BETWEEN 20000 AND 49999",
        "holes < 50000 OR holes >= 40000",
        "holes < 10000 OR holes >= 90000",
        "even BETWEEN 0 AND 49999 AND word = 'w3'",
        "(even < 10000 OR even >= 90000) AND word IN ('w3', 'w4')",
        "holes IS NULL AND word <> 'w1'",
    ],
)
def test_estimates_are_close(table, where):
    report = table.explain(where, analyze=True)
    assert report.rows_matched == table.count(where)
    assert abs(report.rows_estimated - report.rows_matched) < 0.03 * ROWS
