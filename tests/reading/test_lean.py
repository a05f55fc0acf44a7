"""The number of Python calls of a point lookup.

Each limit is 20% above the current number; lower it when the number becomes smaller.
"""

from __future__ import annotations

import os
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.counting import python_calls

ROWS = 100_000

#: Python functions called by one lookup with a new `ia.open`, and with a table that has been queried before.
COLD_CALLS = 3_020
WARM_CALLS = 1_800


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file like those of `benchmarks.data` with 1% of the rows: 10 row groups of 50 pages, 7 columns."""
    random = np.random.default_rng(0)
    ids = np.arange(ROWS)
    table = pa.table(
        {
            "id": ids,
            "ts": pa.array(1_700_000_000_000_000 + ids * 250_000, pa.timestamp("us")),
            "user": random.integers(0, 1_000, ROWS),
            "country": [f"country {number:03}" for number in random.integers(0, 200, ROWS)],
            "amount": random.integers(0, 1_000_000, ROWS) / 100,
            "quantity": random.integers(0, 100, ROWS).astype("int32"),
            "note": [f"note {number}" for number in ids],
        }
    )
    path = tmp_path_factory.mktemp("lean") / "f.parquet"
    pq.write_table(
        table,
        path,
        row_group_size=ROWS // 10,
        write_page_index=True,
        max_rows_per_page=200,
        use_dictionary=["country"],
    )
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))  # files that were just written are not cached
    return str(path)


def calls_of(run):
    """The number of Python calls in ``run``, without imports and cache misses of the first call."""
    run(1)
    rows, count = python_calls(lambda: run(54_321))
    assert rows.num_rows == 1
    assert rows["note"].to_pylist() == ["note 54321"]
    return count


def test_calls_of_a_lookup_with_a_new_table(path):
    assert calls_of(lambda key: ia.open(path).scan(f"id = {key}").to_arrow()) <= COLD_CALLS


def test_calls_of_a_lookup_with_the_same_table(path):
    table = ia.open(path)
    assert calls_of(lambda key: table.scan(f"id = {key}").to_arrow()) <= WARM_CALLS


def test_calls_do_not_grow_with_the_pages_of_a_row_group(path, tmp_path):
    """Page locations and bounds are arrays: ten times as many pages do not take ten times as many calls."""
    few, many = tmp_path / "few.parquet", tmp_path / "many.parquet"
    table = pq.read_table(path)
    for target, rows_per_page in [(few, 1000), (many, 50)]:
        pq.write_table(
            table,
            target,
            row_group_size=ROWS // 10,
            write_page_index=True,
            max_rows_per_page=rows_per_page,
            use_dictionary=["country"],
        )
    counts = [
        calls_of(lambda key, target=target: ia.open(str(target)).scan(f"id = {key}").to_arrow())
        for target in (few, many)
    ]
    assert counts[1] <= counts[0] * 1.1, counts
