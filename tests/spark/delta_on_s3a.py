"""A Delta table in an object store, in an enabled session. The checks run in a process with Spark 4.2."""

import random

import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.spark.registering import DeltaLog
from tests.spark.comparing import settings
from tests.spark.delta import compare
from tests.spark.skipping import SWITCH, scans

FILES, ROWS = 6, 500

INDEXES = [ia.PageIndex(), ia.Bloom("tailnum"), ia.RowMap("u"), ia.Distinct("dest", granularity="page")]


def write(spark, folder, partition_by=(), **properties):
    """Write a Delta table with `FILES` files, whose log has no bounds."""
    frame = spark.range(0, FILES * ROWS, 1, FILES).selectExpr(
        "id",
        "if(id = 2345, 'N14228', concat('N', id * 7919 % 3000 div 30)) AS tailnum",
        "cast(id * 7919 % 3000 AS int) AS u",
        "concat('d', id % 7, '-', id div 1000) AS dest",
        f"concat('a b%20+ü=', id div {FILES * ROWS // 2}) AS part",
    )
    properties = {"dataSkippingNumIndexedCols": "0", **properties}
    writer = frame.write.format("delta").partitionBy(*partition_by)
    writer = writer.options(**{f"delta.{key}": text for key, text in properties.items()})
    writer.save(f"s3a://bucket/{folder}")


def predicate(rng):
    """Return a random condition."""
    one = (
        lambda: f"u = {rng.randrange(-100, 3_100)}",
        lambda: f"u BETWEEN {(at := rng.randrange(3_000))} AND {at + rng.choice([1, 50, 800])}",
        lambda: f"tailnum IN ('N{rng.randrange(130)}', 'N{rng.randrange(130)}')",
        lambda: f"dest = 'd{rng.randrange(8)}-{rng.randrange(4)}'",
        lambda: f"id < {rng.randrange(3_000)}",
        lambda: f"part = 'a b%20+ü={rng.randrange(3)}'",
    )
    found = [rng.choice(one)() for _ in range(rng.choice([1, 1, 2, 3]))]
    return rng.choice([" AND ", " OR "]).join(found)


def index(spark, folder, lake_index="beside"):
    """Index a table."""
    return ias.index(spark, f"s3a://bucket/{folder}", INDEXES, lake_index=lake_index, progress=False)


def check_rows(spark, count):
    """Files and rows are skipped, and the rows are those of plain Spark, before and after a DELETE."""
    rng = random.Random("delta on s3a")
    table = "delta.`s3a://bucket/lake`"
    write(spark, "lake", ["part"], enableDeletionVectors="true")
    report = index(spark, "lake")
    assert (report.files_indexed, report.lake_index.files_added) == (FILES, FILES)
    skips, saved = compare(spark, f"SELECT * FROM {table} WHERE u = 2321")
    assert saved == FILES - 1
    assert skips[0].report["rows"]["candidates"] < ROWS
    frame = spark.sql(f"SELECT * FROM {table} WHERE u = 2321")
    assert len(frame.collect()) == 1
    assert scans(frame)[0][1] == 1  # only this row comes out of the scan
    total = 0
    for part in (count // 2, count - count // 2):
        for _ in range(part):
            total += compare(spark, f"SELECT * FROM {table} WHERE {predicate(rng)}")[1]
        spark.sql(f"DELETE FROM {table} WHERE u % 10 = 1")
        assert not spark.sql(f"SELECT * FROM {table} WHERE u = 2321").collect()
    assert total > count  # files


def check_registered(spark, folder):
    """One commit has the lengths of objects, and changes no rows; a wrong one is undone."""
    table, url = f"delta.`s3a://bucket/{folder}`", f"s3a://bucket/{folder}"
    write(spark, folder, ["part"], enableDeletionVectors="true")
    spark.sql(f"DELETE FROM {table} WHERE u % 10 = 1")
    rows = sorted(map(str, spark.sql(f"SELECT * FROM {table}").collect()))
    clone = f"delta.`s3a://bucket/clone-of-{folder}`"
    spark.sql(f"CREATE TABLE {clone} SHALLOW CLONE {table}")
    for registered in (FILES, 0):
        report = ias.index(spark, url, INDEXES[:2], register=True, progress=False)
        assert (report.files_failed, report.files_registered) == (0, registered)
    assert ias.index(spark, clone, INDEXES[:2], register=True, progress=False).files_registered == FILES
    for one in (table, clone):
        assert sorted(map(str, spark.sql(f"SELECT * FROM {one}").collect())) == rows
    assert compare(spark, f"SELECT * FROM {table} WHERE tailnum = 'N14228'")[1] == FILES - 1
    assert {one.error.reason for one in ias.detach(spark, url, progress=False).failed} == {
        "registered-length"
    }
    assert spark.sql(f"DESCRIBE HISTORY {table}").first()["operation"] == "Manual Update"
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE u = 1234")
    with pytest.raises(ia.WriteError) as caught:
        DeltaLog(spark, url).check(3, {})
    assert caught.value.reason == "registration-undone"
    assert sorted(map(str, spark.sql(f"SELECT * FROM {table}").collect())) == rows


def check_changes(spark):
    """Indexes that are attached, detached or replaced after a frame was planned change no rows."""
    table = "s3a://bucket/changes"
    write(spark, "changes")
    query = "SELECT * FROM delta.`s3a://bucket/changes` WHERE u = 1234"
    with settings(spark, {SWITCH: "false"}):
        expected = spark.sql(query).collect()
    ias.index(spark, table, INDEXES[2:3], progress=False)
    frame = spark.sql(query)
    assert frame.collect() == expected
    assert ias.detach(spark, table, progress=False).files_detached == FILES
    assert frame.collect() == expected
    planned = spark.sql(query)
    planned._jdf.queryExecution().executedPlan()
    ias.index(spark, table, INDEXES[:3], progress=False)
    assert planned.collect() == expected
    assert compare(spark, query)[1] == FILES - 1


def check_connect(spark):
    """Reads refuse the folder of a table, and take one of plain files."""
    write(spark, "connected")
    folder = "s3a://bucket/connected"
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE u = 16")
    for job in (
        lambda: ias.read(spark, folder, "u = 16"),
        lambda: ias.explain(spark, folder, "u = 16"),
        lambda: ias.aggregate(spark, folder, "count(*)", progress=False),
        lambda: ias.approx_distinct(spark, folder, "u", progress=False),
    ):
        with pytest.raises(ia.UnsupportedFeatureError) as caught:
            job()
        assert caught.value.reason == "not-a-parquet-table"
    assert ias.delete(spark, folder, "u = 17", progress=False).format == "delta"
    assert spark.read.format("delta").load(folder).where("u IN (16, 17)").count() == 0
    spark.range(9).write.parquet("s3a://bucket/unconnected")
    assert ias.read(spark, "s3a://bucket/unconnected", "id = 3").count() == 1
