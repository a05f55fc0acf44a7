"""`ias.index` of the files that are new, large enough and settled."""

import os
import time
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.file import ParquetInput
from intarsia.lake.index.build import serialize_segment
from intarsia.lake.index.facts import read_facts
from intarsia.spark.lake_files import Choice, LakeFiles
from intarsia.storage import LocalFile
from tests.counting import calls
from tests.lake.index.lakes import age

pytestmark = pytest.mark.spark

INDEXES = [ia.PageIndex(), ia.Bloom("x")]


def write(path, first, rows=100):
    pq.write_table(pa.table({"x": range(first, first + rows)}), path)
    written = 1_600_000_000 + first
    os.utime(path, (written, written))


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    for part in range(4):
        write(folder / f"{part}.parquet", part * 100)
    return folder


def index(spark, lake, **options):
    return ias.index(spark, str(lake), INDEXES, progress=False, **options)


def names(report):
    return [os.path.basename(file.path) for file in report.per_file]


def test_new_files(spark, lake):
    assert index(spark, lake, only="new", lake_index="beside").files_indexed == 4
    report = index(spark, lake, only="new")
    assert (report.files_total, report.files_skipped, names(report)) == (0, 4, [])
    write(lake / "4.parquet", 400)
    write(lake / "1.parquet", 1000)  # replaced, without indexes
    report = index(spark, lake, only="new")
    assert (report.files_indexed, report.files_skipped) == (2, 3)
    assert names(report) == ["1.parquet", "4.parquet"]
    assert "2 of 2 files" in str(report)
    assert "3 files left out" in str(report)
    assert report.to_dict()["files"]["skipped"] == 3
    assert report.lake_index.files_added == 2
    assert ia.open(lake).scan("x = 1050").to_arrow().num_rows == 1


def test_a_lake_with_one_file(spark, tmp_path):
    """Its file, for which no lake index is opened, is looked at itself."""
    write(tmp_path / "0.parquet", 0)
    assert index(spark, tmp_path, lake_index="beside").files_indexed == 1
    assert index(spark, tmp_path, only="new").files_unchanged == 1
    write(tmp_path / "1.parquet", 100)
    assert names(index(spark, tmp_path, only="new")) == ["1.parquet"]


def test_a_file_that_a_query_has_added_to_the_lake_index_is_new(spark, lake):
    index(spark, lake, lake_index="beside")
    write(lake / "4.parquet", 400)
    assert ia.open(lake).scan("x = 450").to_arrow().num_rows == 1  # updates the lake index
    assert names(index(spark, lake, only="new")) == ["4.parquet"]


def test_files_that_are_not_new_are_not_opened(spark, lake):
    index(spark, lake, lake_index="beside")
    before = [path.stat() for path in sorted(lake.glob("*.parquet"))]
    for path, found in zip(sorted(lake.glob("*.parquet")), before, strict=True):
        path.write_bytes(bytes(found.st_size))  # its content is gone
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    report = index(spark, lake, only="new")
    assert (report.files_failed, report.files_skipped) == (0, 4)


def test_many_files_that_are_not_new_cost_few_calls(tmp_path):
    """The lake index says which of 10,000 files have indexes; no footer is parsed."""
    counts = {}
    for number in (1_000, 10_000):
        lake = tmp_path / str(number)
        lake.mkdir()
        write(lake / "0.parquet", 0)
        ia.attach(lake / "0.parquet", [ia.Bloom("x")])
        age(lake / "0.parquet")
        names = [f"{ordinal}.parquet" for ordinal in range(number)]
        for name in names[1:]:
            os.link(lake / "0.parquet", lake / name)
        write(lake / "new.parquet", 0)
        (lake / "_intarsia").mkdir()
        found = {
            name: read_facts(ParquetInput(LocalFile(lake / name))) for name in ("0.parquet", "new.parquet")
        }
        facts = {**dict.fromkeys(names, found["0.parquet"]), "new.parquet": found["new.parquet"]}
        (lake / "_intarsia" / "one.lake").write_bytes(serialize_segment(facts))
        files = LakeFiles({file.path: file for file in ia.open(lake).files}, 0, str(lake))
        chosen = []

        def choose(files=files, chosen=chosen):
            chosen += Choice("new").of(files, needs_lake_index=True)

        counts[number] = calls(choose)
        assert chosen == [str(lake / "new.parquet")]
    assert (counts[10_000] - counts[1_000]) / 9_000 < 30


def test_without_a_lake_index(spark, lake):
    with pytest.raises(ia.IndexBuildError, match="build one with lake_index") as caught:
        index(spark, lake, only="new")
    assert caught.value.reason == "no-lake-index"


def test_small_files(spark, lake):
    write(lake / "large.parquet", 0, rows=5_000)
    report = index(spark, lake, min_file_size=5_000)
    assert (names(report), report.files_skipped) == (["large.parquet"], 4)


@pytest.mark.parametrize("age", [3_600, timedelta(hours=1)])
def test_young_files(spark, lake, age):
    young = lake / "3.parquet"
    before = young.read_bytes()
    os.utime(young, (time.time() - 600,) * 2)
    report = index(spark, lake, older_than=age)
    assert (report.files_indexed, report.files_skipped) == (3, 1)
    assert young.read_bytes() == before
    assert index(spark, lake, older_than=60).files_indexed == 1


@pytest.mark.parametrize("wrong", [{"only": "old"}, {"min_file_size": -1}, {"older_than": -1}])
def test_arguments(spark, lake, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        index(spark, lake, **wrong)
