"""The advice at the end of a plan."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.cli import main
from tests.lake.index.lakes import age

ROWS = 160_000


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Eight row groups of many pages, without a page index."""
    values = np.random.default_rng(3).permutation(ROWS)
    rows = pa.table(
        {"ts": np.arange(ROWS), "user": values, "x": values / 7, "note": [f"{v * 7919:x}" for v in values]}
    )
    path = tmp_path_factory.mktemp("hint") / "t.parquet"
    pq.write_table(rows, path, row_group_size=20_000, max_rows_per_page=1_000, use_dictionary=False)
    age(path)  # the metadata of a new file is not kept, because the file may still change
    return path


@pytest.mark.parametrize(
    ("where", "code", "column", "kinds"),
    [
        ("user = 77777", "add-lookup-index", "user", ("page_index", "bloom_granule")),
        ("x > 3 AND user IN (4000, 50000)", "add-lookup-index", "user", ("page_index", "bloom_granule")),
        ("note LIKE '%abc%'", "add-ngram", "note", ("page_index", "ngram")),
        ("ts BETWEEN 3 AND 70000", "add-page-index", None, ("page_index",)),
    ],
)
def test_the_best_advice(file, where, code, column, kinds):
    report = ia.open(file).explain(where)
    assert (report.advice.code, report.advice.column, report.advice.kinds) == (code, column, kinds)
    assert report.to_dict()["advice"]["code"] == code
    assert str(report).splitlines()[-1].startswith("advice ")


@pytest.mark.parametrize("where", [None, "x > 3", "ts = 3", "note LIKE '%a%'", "ts < 0"])
def test_there_is_none_if_nothing_is_useful(file, where):
    report = ia.open(file).explain(where, ["ts"] if where == "ts = 3" else None)
    assert report.advice is None
    assert report.to_dict()["advice"] is None


def test_advice_that_was_followed_is_not_repeated(file, tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(file.read_bytes())
    ia.attach(path, [ia.PageIndex(), ia.BloomGranule("user")])
    assert ia.open(path).explain("user = 77777").advice is None
    assert ia.open(path).explain("ts BETWEEN 3 AND 70000").advice is None


def test_one_page_per_row_group(tmp_path):
    path = tmp_path / "t.parquet"
    rows = pa.table({"x": np.random.default_rng(1).random(400_000)})
    options = {"max_rows_per_page": 1 << 20, "data_page_size": 1 << 30}
    pq.write_table(rows, path, row_group_size=50_000, use_dictionary=False, write_page_index=True, **options)
    assert ia.open(path).explain("x > 0.5").advice.code == "one-page-per-row-group"


def test_a_lake_index(tmp_path):
    for place in range(20):
        pq.write_table(pa.table({"x": [place]}), tmp_path / f"{place}.parquet")
    report = ia.open(tmp_path).explain("x = 3")
    assert report.advice.code == "add-lake-index"
    ia.open(tmp_path).build_lake_index()
    assert ia.open(tmp_path).explain("x = 3").advice is None


def test_it_costs_no_reads(file):
    table = ia.open(file)
    table.explain("user = 77777")
    again = table.explain("user = 77777")
    assert (again.bytes_read, again.requests) == (0, 0)
    assert again.advice is not None


def test_the_command_prints_it(file, capsys):
    assert main(["explain", str(file), "--where", "user = 77777"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("advice: user ")
    assert lines[-1] == f"  intarsia index {file} --page-index --add 'bloom_granule(user)'"
