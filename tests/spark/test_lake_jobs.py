"""`ias.detach`, `ias.verify` and `ias.describe`; names of tables in place of paths."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.embed import PageIndex
from intarsia.errors import ColumnNotFoundError, FilesFailedError, UnsupportedFeatureError
from tests.spark.comparing import rows
from tests.spark.test_indexing import contents, write_lake

INDEXES = [PageIndex(), ia.Distinct("s"), ia.Bloom("x")]


@pytest.fixture
def lake(tmp_path):
    return write_lake(tmp_path / "lake", rows_of_each=100)


def test_a_lake_is_described_verified_and_restored(spark, lake):
    before = contents(lake)
    plain = ias.describe(spark, lake, progress=False).collect()
    assert [(row.rows, row.columns, row.chunks_with_page_index, row.index_bytes) for row in plain] == [
        (100, 3, 0, 0)
    ] * 4
    report = ias.index(spark, lake, INDEXES, progress=False)
    calls = []
    found = ias.describe(spark, lake, progress=lambda *call: calls.append(call)).collect()
    assert calls[0] == (0, 4, "describing")
    assert calls[-1] == (4, 4, "describing")
    assert [row.path for row in found] == [file.path for file in report.per_file]
    assert [row.size_bytes for row in found] == [file.bytes_after for file in report.per_file]
    for row in found:
        assert (row.chunks, row.chunks_with_page_index, row.chunks_with_bloom_filter) == (3, 3, 1)
        assert (row.indexes, row.ignored, row.error) == (["distinct(s):page"], [], None)
        assert row.index_bytes > 0
    frame = ias.report_frame(spark, report)
    assert frame.where("array_contains(built, 'bloom(x)')").count() == 4
    assert frame.selectExpr("sum(bytes_after)").first()[0] == report.bytes_after

    sampled = ias.verify(spark, lake, sample=2, seed=3, progress=False)
    assert {(file.scope, file.chunks_read, file.seed) for file in sampled.per_file} == {("sample", 2, 3)}
    assert ias.verify(spark, lake, quick=True, progress=False).ok
    with pytest.raises(ValueError, match="sample"):
        ias.verify(spark, lake, quick=True, sample=1)

    restored = ias.detach(spark, lake, progress=False)
    assert (restored.files_detached, restored.bytes_removed) == (4, report.bytes_added)
    assert set(restored.removed) == {"page_index", "bloom(x)", "distinct(s):page"}
    assert contents(lake) == before
    assert ias.detach(spark, lake, progress=False).detached is False


def test_bad_files_are_reported(spark, lake):
    ias.index(spark, lake, INDEXES, progress=False)
    first, second, *_ = sorted(contents(lake))
    Path(first).write_bytes(b"garbage")
    damaged = bytearray(Path(second).read_bytes())
    damaged[10] ^= 0xFF  # in a data page
    Path(second).write_bytes(damaged)
    (Path(lake) / "notes.txt").touch()
    found = ias.verify(spark, lake, progress=False)
    assert [(failure.path, failure.code) for failure in found.failed] == [(first, "file-too-short")]
    assert {finding.file for finding in found.findings if finding.severity == "error"} == {second}
    assert not found.ok
    assert (found.to_dict()["files"], found.to_dict()["other_files"], len(found.per_file)) == (4, 1, 3)
    assert found.checked["row_groups"] == 3
    described = {row.path: row for row in ias.describe(spark, lake, progress=False).collect()}
    assert [path for path, row in described.items() if row.error] == [first]
    restored = ias.detach(spark, lake, progress=False)
    assert [(failure.path, failure.code) for failure in restored.failed] == [(first, "file-too-short")]
    assert restored.files_detached == 3


def test_failures_can_raise(spark, lake):
    bad = sorted(contents(lake))[:2]
    for path in bad:
        Path(path).write_bytes(b"garbage")
    for options in ({"on_error": "raise"}, {"max_failures": 1}, {"max_failures": 0, "on_error": "raise"}):
        with pytest.raises(FilesFailedError) as caught:
            ias.index(spark, lake, INDEXES, progress=False, **options)
        assert sorted(caught.value.errors) == bad
        assert {error.reason for error in caught.value.errors.values()} == {"file-too-short"}
        assert (caught.value.report.files_failed, caught.value.report.files_total) == (2, 4)
    assert ias.index(spark, lake, INDEXES, max_failures=2, progress=False).files_failed == 2
    for options in ({"on_error": "ignore"}, {"max_failures": -1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            ias.index(spark, lake, INDEXES, **options)


def test_a_job_stops_after_too_many_failures(spark, tmp_path):
    """The tasks of later parts are not started."""
    for number in range(200):
        (tmp_path / f"{number:03}.parquet").write_bytes(b"garbage")
    with pytest.raises(FilesFailedError) as caught:
        ias.index(spark, tmp_path, PageIndex(), max_failures=10, progress=False)
    assert 10 < caught.value.report.files_failed < 200


def test_a_file_is_restored_by_an_attempt_that_is_not_reported(spark, tmp_path):
    """Such as that of a task that died; it is as if another process had restored the file."""
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": range(100)}), tmp_path / f"{name}.parquet")
    attached = ia.attach(tmp_path, ia.Distinct("x"))

    def restore(*_):
        ia.detach(tmp_path / "a.parquet")

    report = ias.detach(spark, tmp_path, progress=restore)
    assert (report.files_detached, report.bytes_removed) == (2, attached.bytes_added)


def test_tables(spark, lake, tmp_path):
    """A table is indexed and read by its name, with partitions elsewhere."""
    frame = spark.read.parquet(lake)
    frame.write.partitionBy("p").saveAsTable("jobs_table")
    try:
        report = ias.index(spark, "jobs_table", INDEXES, lake_index="beside", progress=False)
        assert report.files_indexed == report.files_total == len(spark.table("jobs_table").inputFiles())
        for where in ("x = 150", "p = 1 AND x < 110", "x = -1"):
            found = ias.read(spark, "jobs_table", where)
            assert rows(found) == rows(spark.table("jobs_table").where(where))
        assert len(ias.read(spark, "default.jobs_table", "x = 150").inputFiles()) == 1
        assert ias.explain(spark, "jobs_table", "x = 150").files_read == 1
        elsewhere = tmp_path / "elsewhere"
        frame.where("x < 10").drop("p").coalesce(1).write.parquet(str(elsewhere))
        spark.sql(f"ALTER TABLE jobs_table ADD PARTITION (p = 7) LOCATION '{elsewhere}'")
        assert ias.index(spark, "jobs_table", INDEXES, progress=False).files_indexed == 1
        assert rows(ias.read(spark, "jobs_table", "x < 5")) == rows(spark.table("jobs_table").where("x < 5"))
        assert ias.read(spark, "jobs_table", "x < 5 AND p = 7").count() == 5
        assert ias.detach(spark, "jobs_table", progress=False).files_detached == report.files_total + 1
    finally:
        spark.sql("DROP TABLE jobs_table")


def test_a_table_with_special_characters_in_its_location(spark, lake, tmp_path):
    place = tmp_path / "a%20b c"
    spark.read.parquet(lake).write.option("path", str(place)).saveAsTable("jobs_place")
    try:
        report = ias.index(spark, "jobs_place", INDEXES, progress=False)
        assert report.files_indexed == len(list(place.glob("*.parquet"))) > 0
        assert rows(ias.read(spark, "jobs_place", "x = 150")) == rows(
            spark.table("jobs_place").where("x = 150")
        )
        assert len(ias.read(spark, "jobs_place", "x = 150").inputFiles()) < report.files_total
    finally:
        spark.sql("DROP TABLE jobs_place")


def test_other_relations_are_refused(spark, lake):
    spark.sql("CREATE TABLE jobs_text (x INT) USING csv")
    spark.read.parquet(lake).createOrReplaceTempView("jobs_view")
    try:
        for name, reason in (("jobs_text", "not-a-parquet-table"), ("jobs_view", "not-a-table-of-files")):
            with pytest.raises(UnsupportedFeatureError) as caught:
                ias.index(spark, name, INDEXES)
            assert caught.value.reason == reason
            assert str(caught.value).count(name) == 1
    finally:
        spark.sql("DROP TABLE jobs_text")
    with pytest.raises(FileNotFoundError):
        ias.index(spark, "no_such_table", INDEXES)


def test_distinct_values_are_estimated(spark, lake):
    """From sketches of the files, or from their values; equal values in several files count once."""
    for column, expected in (("x", 400), ("s", 20)):
        assert (
            abs(int(ias.approx_distinct(spark, lake, column, progress=False)) - expected) <= expected * 0.05
        )
    ias.index(spark, lake, ia.Hll("x"), progress=False)
    found = ias.approx_distinct(spark, lake, "x", progress=False)
    assert found.lower <= 400 <= found.upper
    assert (found.files, round(found.estimate)) == (4, int(ia.open(lake).approx_distinct("x")))
    for where, files, expected in (("p = 1 AND x < 350", 2, 150), ("x < 30", 4, 30), ("p = 7", 0, 0)):
        some = ias.approx_distinct(spark, lake, "x", where, progress=False)
        assert (some.files, round(some.estimate)) == (files, expected)
    with pytest.raises(ColumnNotFoundError):
        ias.approx_distinct(spark, lake, "x", "nowhere = 1", progress=False)
    with pytest.raises(FilesFailedError) as caught:
        ias.approx_distinct(spark, lake, "nowhere", progress=False)
    assert {error.reason for error in caught.value.errors.values()} == {"no-such-column"}
    table = pa.table({"x": pa.array(["1"])})
    pq.write_table(table, Path(lake) / "p=0" / "text.parquet")
    with pytest.raises(UnsupportedFeatureError) as refused:
        ias.approx_distinct(spark, lake, "x", progress=False)
    assert (refused.value.reason, refused.value.column) == ("mixed-types", "x")


def test_the_folder_of_a_table_in_a_session_without_delta(spark, tmp_path):
    pq.write_table(pa.table({"k": [1]}), tmp_path / "a.parquet")
    (tmp_path / "_delta_log").mkdir()
    assert ias.index(spark, tmp_path, [ia.Bloom("k")], progress=False).files_indexed == 1
