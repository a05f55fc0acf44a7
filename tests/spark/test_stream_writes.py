"""Files that streams write with indexes: `enable_writes` and file sinks."""

import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyspark.errors import StreamingQueryException

import intarsia as ia
from intarsia import spark as ias
from tests.spark.comparing import settings

INDEXES = [ia.Bloom("id"), ia.Distinct("s")]
SCHEMA = "id long, s string, p long"
KEY = "spark.sql.streaming.commitProtocolClass"


@pytest.fixture
def indexing(spark):
    ias.enable_writes(spark, INDEXES)
    yield
    ias.disable_writes(spark)


class Stream:
    """A query that copies the files of a folder to another one, with one checkpoint."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.out, self.checkpoint = folder / "out", folder / "checkpoint"
        self.rows = 0

    def add(self, rows):
        """Add rows to the source. Their files are written without indexes."""
        new = self.spark.range(self.rows, self.rows + rows, 1, 1).selectExpr(
            "id", "string(id % 7) s", "id % 2 p"
        )
        new.write.mode("append").options(**ias.write_options(())).parquet(str(self.folder / "source"))
        self.rows += rows

    def run(self, **options):
        """Process all new files in one micro-batch, in a query that starts at the checkpoint."""
        rows = self.spark.readStream.schema(SCHEMA).parquet(str(self.folder / "source"))
        writer = rows.writeStream.format("parquet").partitionBy("p").options(**options)
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        query = writer.start(str(self.out))
        query.awaitTermination(60)

    def batch(self, number):
        """Return the files of a micro-batch and their lengths, as the manifest lists them."""
        lines = (self.out / "_spark_metadata" / str(number)).read_text().splitlines()[1:]
        return {
            Path(unquote(entry["path"].removeprefix("file://"))): entry["size"]
            for entry in map(json.loads, lines)
        }

    def check(self):
        found = self.spark.read.parquet(str(self.out)).select("id").collect()
        assert sorted(row["id"] for row in found) == list(range(self.rows))


def built(path):
    found = ia.inspect(path)
    names = {entry.name for entry in found.directory.entries} if found.directory else set()
    return names | ({"bloom(id)"} if found.sizes.bloom_filters else set())


def test_a_stream_writes_indexed_files_exactly_once(spark, indexing, tmp_path):
    stream = Stream(spark, tmp_path)
    stream.add(50)
    stream.run()
    stream.check()
    first = stream.batch(0)
    assert sorted(path.parent.name for path in first) == ["p=0", "p=1"]
    for path, size in first.items():
        assert path.stat().st_size == size
        assert built(path) == {"bloom(id)", "distinct(s):page"}
        assert ia.verify(path).ok
    assert {Path(file.path) for file in ias.last_write(spark).per_file} == set(first)

    # a query that restarts from the checkpoint, with its own indexes
    stream.add(50)
    stream.run(**ias.write_options(ia.ZoneMap("id")))
    stream.check()
    second = stream.batch(1)
    assert [built(path) for path in second] == [{"zone_map(id):page"}] * 2
    assert {path: path.stat().st_size for path in second} == second

    # a driver that is killed after the files, before the manifest: the micro-batch runs again
    for log in (stream.out / "_spark_metadata", stream.checkpoint / "commits"):
        for file in (log / "1", log / ".1.crc"):
            file.unlink()
    ias.disable_writes(spark)
    stream.run()
    stream.check()
    assert not set(stream.batch(1)) & set(second)
    assert [built(path) for path in stream.batch(1)] == [set()] * 2

    # and one that is killed after the manifest: the micro-batch is known
    files = stream.batch(1)
    for name in ("1", ".1.crc"):
        (stream.checkpoint / "commits" / name).unlink()
    ias.enable_writes(spark, INDEXES)
    stream.run()
    stream.check()
    assert stream.batch(1) == files

    # the manifest stays right: indexes that Spark wrote stay, and others can come and go
    report = ias.index(spark, str(stream.out), ia.ZoneMap("id"), progress=False)
    assert {Path(failure["path"]) for failure in report.failed} == set(first)
    assert [built(path) for path in files] == [{"zone_map(id):page"}] * 2
    stream.check()
    report = ias.detach(spark, str(stream.out), progress=False)
    assert {Path(failure.path) for failure in report.failed} == set(first)
    assert {path: path.stat().st_size for path in first | files} == first | files
    stream.check()


def test_an_index_that_fails(spark, tmp_path):
    """The file is committed as Spark wrote it, or the query fails and commits nothing."""
    stream = Stream(spark, tmp_path)
    stream.add(10)
    ias.enable_writes(spark, INDEXES, on_error="fail")
    try:
        spark.conf.set("spark.intarsia.write.python", "/no/such/python")
        with pytest.raises(StreamingQueryException):
            stream.run()
        assert not list(stream.out.glob("p=*/*.parquet"))
        stream.run(**ias.write_options(INDEXES))
        stream.check()
        assert ias.last_write(spark).files_failed == 2
        assert [built(path) for path in stream.batch(0)] == [set()] * 2
    finally:
        ias.disable_writes(spark)


def test_another_protocol_of_streams_is_left_as_it_is(spark):
    other = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    with settings(spark, {KEY: other}):
        ias.enable_writes(spark, INDEXES)
        ias.disable_writes(spark)
        assert spark.conf.get(KEY) == other
    ias.enable_writes(spark, INDEXES)
    ias.disable_writes(spark)
    assert spark.conf.get(KEY).endswith(".ManifestFileCommitProtocol")
