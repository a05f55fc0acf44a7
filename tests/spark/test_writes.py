"""Files that Spark writes with indexes: `enable_writes`."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.errors import CorruptFileError, IndexBuildError, UnsupportedFeatureError
from intarsia.spark.serving import index_before_commit
from tests.spark import lakes
from tests.spark.comparing import rows, settings

INDEXES = [ia.PageIndex(), ia.Bloom("l"), ia.Distinct("s")]
BUILT = {"bloom(l)", "distinct(s):page"}


@pytest.fixture(scope="module")
def source(spark, tmp_path_factory):
    """A frame with every type of the Spark tests; the timestamps are written as INT96."""
    lake = lakes.write_with_pyarrow(tmp_path_factory.mktemp("source") / "lake")
    return spark.read.parquet(lake).drop("much").cache()


@pytest.fixture
def indexing(spark):
    ias.enable_writes(spark, INDEXES)
    yield
    ias.disable_writes(spark)


def parquet_files(folder):
    return sorted(path for path in Path(folder).rglob("*.parquet") if "_temporary" not in path.parts)


def check(spark, folder, expected, *, built=BUILT):
    """Compare the rows as Spark reads them, with its checksums, and verify every index."""
    assert rows(spark.read.parquet(str(folder))) == rows(expected)
    found = parquet_files(folder)
    report = ias.last_write(spark)
    assert [Path(file.path) for file in report.per_file if Path(file.path) in found] == [
        path for path in found if str(path) in {file.path for file in report.per_file}
    ]
    for path in found:
        indexed = ia.inspect(path)
        names = {entry.name for entry in indexed.directory.entries} if indexed.directory else set()
        names |= {"bloom(l)"} if indexed.sizes.bloom_filters else set()
        assert names == built
        checked = ia.verify(path)
        assert checked.ok, checked.findings
        sidecar = path.with_name(f".{path.name}.crc")
        assert sidecar.exists()  # so that the rows above were compared with it
        assert not any("intarsia" in name for name in os.listdir(path.parent))
    return found


def test_every_way_of_writing(spark, source, indexing, tmp_path):
    frame = source.coalesce(2)
    frame.write.parquet(str(tmp_path / "plain"))
    assert len(check(spark, tmp_path / "plain", frame)) == 2
    report = ias.last_write(spark)
    assert (report.files_indexed, report.files_failed) == (2, 0)
    assert [file.path for file in report.per_file] == list(map(str, parquet_files(tmp_path / "plain")))
    assert report.bytes_after == sum(path.stat().st_size for path in parquet_files(tmp_path / "plain"))
    frame.write.mode("append").partitionBy("cat", "dt").parquet(str(tmp_path / "parts"))
    found = check(
        spark, tmp_path / "parts", frame.select(*spark.read.parquet(str(tmp_path / "parts")).columns)
    )
    assert {path.parent.parent.name for path in found} >= {"cat=c0", "cat=c1"}
    frame.limit(7).write.mode("overwrite").parquet(str(tmp_path / "plain"))
    check(spark, tmp_path / "plain", frame.limit(7))
    frame.where("false").write.parquet(str(tmp_path / "empty"))
    assert spark.read.parquet(str(tmp_path / "empty")).count() == 0


def test_writes_of_other_threads(spark, tmp_path):
    """Those that used Spark before, and new ones."""
    with ThreadPoolExecutor(1) as early, ThreadPoolExecutor(1) as late:
        early.submit(spark.range(1).count).result()
        ias.enable_writes(spark, [ia.Bloom("id")])
        try:
            for name, pool in (("early", early), ("late", late)):
                pool.submit(spark.range(5).coalesce(1).write.parquet, str(tmp_path / name)).result()
                assert ias.last_write(spark).files_indexed == 1
        finally:
            ias.disable_writes(spark)


def test_tables(spark, source, indexing):
    """CTAS, INSERT, and dynamic overwrite, which replaces only the partitions that have rows."""
    source.createOrReplaceTempView("written_source")
    spark.sql(
        "CREATE TABLE written USING parquet PARTITIONED BY (p) AS SELECT s, l, INT(bo) p FROM written_source"
    )
    try:
        files = [Path(uri.removeprefix("file://")) for uri in spark.table("written").inputFiles()]
        place = files[0].parent.parent
        check(spark, place, spark.table("written"))
        spark.sql("INSERT INTO written SELECT 'new', 1, 1")
        check(spark, place, spark.table("written"))
        with settings(spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
            spark.sql("INSERT OVERWRITE written PARTITION (p) SELECT 'last', 2, 0")
        assert spark.table("written").where("p = 0").count() == 1
        assert spark.table("written").where("p = 1").count() > 1
        check(spark, place, spark.table("written"))
        assert ias.last_write(spark).per_file[0].path.startswith(str(place / "p=0"))
    finally:
        spark.sql("DROP TABLE written")


def test_options_replace_the_indexes_of_the_session(spark, source, indexing, tmp_path):
    options = ias.write_options([ia.Distinct("s"), ia.ZoneMap("i")])
    source.write.options(**options).parquet(str(tmp_path / "own"))
    check(spark, tmp_path / "own", source, built={"distinct(s):page", "zone_map(i):page"})
    source.write.options(**ias.write_options(())).parquet(str(tmp_path / "none"))
    check(spark, tmp_path / "none", source, built=set())
    ias.disable_writes(spark)
    source.write.options(**ias.write_options(ia.Distinct("s"))).parquet(str(tmp_path / "disabled"))
    assert not any(ia.inspect(path).directory for path in parquet_files(tmp_path / "disabled"))


def test_other_tables_and_formats(spark, indexing, tmp_path):
    """An index on a column that a table lacks is noted; other formats are written as usual."""
    spark.range(5).selectExpr("id AS l").coalesce(1).write.parquet(str(tmp_path / "out"))
    (file,) = ias.last_write(spark).per_file
    assert (set(file.built), [note["column"] for note in file.notes]) == ({"bloom(l)"}, ["s"])
    assert [note["code"] for note in file.notes] == ["no-such-column"]
    spark.range(5).write.json(str(tmp_path / "json"))
    assert spark.read.json(str(tmp_path / "json")).count() == 5


def test_an_index_that_fails(spark, source, tmp_path):
    """The file is left as Spark wrote it, or the job fails and leaves nothing."""
    wide = source.selectExpr("s", "explode(array(st)) AS st")
    bad = ia.Bloom("st")  # a struct
    ias.enable_writes(spark, [ia.Distinct("s"), bad])
    try:
        wide.coalesce(1).write.parquet(str(tmp_path / "noted"))
        check(spark, tmp_path / "noted", wide, built=set())
        (file,) = ias.last_write(spark).per_file
        assert (file.code, file.path) == ("not-indexed", str(parquet_files(tmp_path / "noted")[0]))
        assert "IndexBuildError" in file.error
        ias.enable_writes(spark, [bad], on_error="fail")
        with pytest.raises(Exception, match="cannot be indexed"):
            wide.coalesce(1).write.parquet(str(tmp_path / "failed"))
        assert parquet_files(tmp_path / "failed") == []
    finally:
        ias.disable_writes(spark)


@pytest.mark.parametrize("python", ["/no/such/python", "false", "echo"])
def test_without_a_server_files_are_written_as_always(spark, source, indexing, tmp_path, python):
    spark.conf.set("spark.intarsia.write.python", python)
    frame = source.select("s", "l").limit(20).coalesce(1)
    frame.write.parquet(str(tmp_path / "out"))
    assert ias.last_write(spark).files_failed == 1
    check(spark, tmp_path / "out", frame, built=set())


def test_arguments(spark):
    with pytest.raises(IndexBuildError):
        ias.enable_writes(spark, ["page_index"])
    with pytest.raises(ValueError, match="on_error"):
        ias.enable_writes(spark, INDEXES, on_error="ignore")
    key = "spark.sql.sources.commitProtocolClass"
    with (
        settings(spark, {key: "org.apache.spark.internal.io.HadoopMapReduceCommitProtocol"}),
        pytest.raises(UnsupportedFeatureError) as caught,
    ):
        ias.enable_writes(spark, INDEXES)
    assert caught.value.reason == "other-commit-protocol"
    ias.disable_writes(spark)
    assert spark.conf.get(key).endswith(".SQLHadoopMapReduceCommitProtocol")


def test_the_server_leaves_a_bad_file_alone(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"garbage, but long enough")
    options = ias.write_options([ia.PageIndex()])["intarsia.indexes"]
    with pytest.raises(CorruptFileError):
        index_before_commit("\0".join([options, f"file:{path}", "/final/a.parquet", ""]))
    assert path.read_bytes() == b"garbage, but long enough"
    pq.write_table(pq.read_table(lakes.write_with_pyarrow(tmp_path / "lake")), path)
    before = path.read_bytes()
    answer = json.loads(index_before_commit("\0".join([options, str(path), "file:/final/a.parquet", ""])))
    assert (answer["path"], answer["built"]) == ("/final/a.parquet", ["page_index"])
    assert path.read_bytes().startswith(before)
    with pytest.raises(IndexBuildError) as caught:
        index_before_commit("\0".join(["nonsense", str(path), "x", ""]))
    assert caught.value.reason == "unknown-kind"
