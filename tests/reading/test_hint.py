"""The advice at the end of a plan."""

import shlex

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
    "where",
    ["user = 77777", "x > 3 AND user IN (4000, 50000)", "note LIKE '%abc%'", "ts BETWEEN 30000 AND 70000"],
)
def test_advise_may_find_what_helps(file, where):
    report = ia.open(file).explain(where)
    assert report.advice.code == "run-advise"
    assert report.to_dict()["advice"]["code"] == "run-advise"
    assert str(report).splitlines()[-1].startswith("advice ")
    assert ia.advise(file, where).options


@pytest.mark.parametrize("where", [None, "ts = 3", "ts < 0", "ts >= 0"])
def test_there_is_none_if_nothing_is_useful(file, where):
    """Few bytes are read, no rows might match, or all rows match."""
    report = ia.open(file).explain(where, ["ts"] if where == "ts = 3" else None)
    assert report.advice is None
    assert report.to_dict()["advice"] is None
    assert ia.advise(file, where or "ts >= 0").indexes == () or where == "ts = 3"


def test_advice_that_was_followed_is_not_repeated(file, tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(file.read_bytes())
    ia.attach(path, ia.advise(path, ["user = 77777", "ts BETWEEN 3 AND 70000"]).indexes)
    assert ia.open(path).explain("user = 77777").advice is None
    assert ia.open(path).explain("ts BETWEEN 3 AND 70000").advice is None


@pytest.mark.parametrize("ages", [age, lambda _: None], ids=["old", "new"])
def test_a_lake_index(tmp_path, ages):
    """Old files are planned together, and new ones, which may still change, by themselves."""
    for place in range(20):
        pq.write_table(pa.table({"x": [place]}), tmp_path / f"{place}.parquet")
        ages(tmp_path / f"{place}.parquet")
    report = ia.open(tmp_path).explain("x = 3")
    assert report.advice.code == "add-lake-index"
    assert ia.advise(tmp_path, "x = 3").lake_index
    ia.open(tmp_path).build_lake_index()
    assert ia.open(tmp_path).explain("x = 3").advice is None


def test_it_costs_no_reads(file):
    table = ia.open(file)
    table.explain("user = 77777")
    again = table.explain("user = 77777")
    assert (again.bytes_read, again.requests) == (0, 0)
    assert again.advice is not None


def test_the_command_prints_how_to_run_advise(file, capsys):
    arguments = [str(file), "--where", "user = 77777", "--columns", "ts,x"]
    assert main(["explain", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("advice: ") for line in lines)  # it may be longer than a line
    command = shlex.split(lines[-1])
    assert command == ["intarsia", "advise", *arguments]
    assert main(command[1:]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("intarsia index ")
