"""`advise`: orders, page sizes and indexes, measured on a sample that Spark draws."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia import spark as ias
from intarsia.errors import ColumnNotFoundError, PredicateError

ROWS = 40_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Four files: each user has 4 rows, scattered over all files; `at` is the order of the rows."""
    folder = tmp_path_factory.mktemp("advise") / "lake"
    random = np.random.default_rng(0)
    users = random.permutation(np.arange(ROWS) // 4)
    for part in range(4):
        rows = slice(part * ROWS // 4, (part + 1) * ROWS // 4)
        columns = {
            "user": users[rows],
            "at": np.arange(ROWS)[rows],
            "note": [f"note {number}" for number in random.integers(0, 1 << 30, ROWS // 4)],
            "place": [{"x": number} for number in range(ROWS // 4)],
        }
        (folder / f"part={part}").mkdir(parents=True)
        pq.write_table(pa.table(columns), folder / f"part={part}" / "rows.parquet")
    return str(folder)


def test_lookups_advise_to_sort(spark, lake, tmp_path):
    queries = tmp_path / "queries.sql"
    queries.write_text(
        "user = 17;\nSELECT at FROM lake WHERE user IN (4, 5000) AND place.x >= 0 AND part >= 0;\nuser = 17;"
    )
    advice = ias.advise(spark, lake, queries=queries, sample_rows=20_000, progress=False)
    assert advice.num_rows == ROWS
    assert 18_000 < advice.sample_rows < 22_000
    best = advice.advised
    assert best.arrangement.sort_by == ("user",)
    before = next(found for found in advice.arrangements if found.arrangement.is_source)
    assert best.bytes < before.bytes_without / 4
    assert best.bytes_total > 0
    assert best.bytes <= min(found.bytes for found in advice.arrangements) / 0.9
    assert {name for found in advice.arrangements for name in found.arrangement.sort_by} == {"user"}
    assert {found.arrangement.rows_per_page for found in advice.arrangements} == {1024, 4096, 16_384}
    assert advice.command.startswith(f"intarsia optimize {lake} DESTINATION --sort-by user --rows-per-page ")
    assert advice.to_dict()["arrangements"][0]["is_advised"]


def test_queries_that_suit_the_order(spark, lake):
    advice = ias.advise(spark, lake, "at BETWEEN 100 AND 200", sample_rows=ROWS, progress=False)
    assert advice.advised.arrangement.is_source
    assert advice.command.startswith(f"intarsia index {lake} --page-index")
    assert advice.sample_rows == ROWS


def test_no_rows(spark, tmp_path):
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    advice = ias.advise(spark, tmp_path, "x = 1", progress=False)
    assert (advice.num_rows, advice.sample_rows, advice.advised.arrangement.is_source) == (0, 0, True)


def test_arguments(spark, lake):
    with pytest.raises(ValueError, match="queries"):
        ias.advise(spark, lake)
    with pytest.raises(ValueError, match="sample_rows"):
        ias.advise(spark, lake, "at = 1", sample_rows=0)
    with pytest.raises(PredicateError):
        ias.advise(spark, lake, "at =")
    for sample_rows in (1000, ROWS):  # a part of the rows, and all of them
        with pytest.raises(ColumnNotFoundError):
            ias.advise(spark, lake, "nowhere = 1", sample_rows=sample_rows)
    with pytest.raises(PredicateError, match="LIKE"):
        ias.advise(spark, lake, "at LIKE 'a%'", sample_rows=ROWS)
