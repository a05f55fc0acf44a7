"""Indexing and reading over Spark Connect, where the JVM is not accessible."""

import json

import pytest

import intarsia as ia
from tests.spark.test_indexing import contents, write_lake

PROGRAM = """
import json, sys
import intarsia as ia
from intarsia import spark as ias
from intarsia.embed import PageIndex

lake = sys.argv[1]
indexes = [PageIndex(), ia.Distinct("s"), ia.BloomGranule("y", fpp=0.0001)]
calls = []
report = ias.index(spark, lake, indexes, progress=lambda *args: calls.append(args))
again = ias.index(spark, lake, indexes, progress=False)
where = "x BETWEEN 1990 AND 2010 AND p = 0"
frame = ias.read(spark, lake, where, columns=["x", "s"])
plain = spark.read.parquet(lake).where(where).select("x", "s")
absent = "y IN (1.0625D, 126.0625D, 251.0625D, 376.0625D)"  # each within the bounds of a file
pruned_by = ias.explain(spark, lake, absent).to_dict()["pruned_by"]
stopped = None
try:
    ias.index(spark, lake, [ia.Distinct("y")], progress=lambda done, *_: done and 1 / 0)
except ZeroDivisionError:
    stopped = True
print(json.dumps({
    "connect": type(spark).__module__.startswith("pyspark.sql.connect"),
    "report": report.to_dict()["files"],
    "again": again.to_dict()["files"],
    "calls": calls,
    "files": len(frame.inputFiles()),
    "same": sorted(map(str, frame.collect())) == sorted(map(str, plain.collect())),
    "rows": frame.count(),
    "none": ias.read(spark, lake, "x = -1").count(),
    "absent": ias.read(spark, lake, absent).count(),
    "by_index": {step["index"]: step["files"] for step in pruned_by},
    "explain": ias.explain(spark, lake, where).to_dict()["files"],
    "stopped": stopped,
}))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_spark_connect(tmp_path, connect_host):
    lake = write_lake(tmp_path / "lake")
    before = contents(lake)
    printed = connect_host.run(PROGRAM, lake)
    answer = json.loads(printed)
    calls = answer.pop("calls")
    assert calls[0] == [0, 4, "indexing"]
    assert calls[-1] == [4, 4, "indexing"]
    assert answer == {
        "connect": True,
        "report": {"total": 4, "indexed": 4, "unchanged": 0, "failed": 0, "skipped": 0, "other": 0},
        "again": {"total": 4, "indexed": 0, "unchanged": 4, "failed": 0, "skipped": 0, "other": 0},
        "files": 1,
        "same": True,
        "rows": 11,
        "none": 0,
        "absent": 0,
        "by_index": {"column_index": 0, "bloom_granule(y):page": 4},
        "explain": {"total": 4, "read": 1, "opened": 2, "other": 0},
        "stopped": True,
    }
    assert all(data.startswith(before[path]) for path, data in contents(lake).items())
    assert ia.open(lake).scan(where="x = 1995").to_arrow().num_rows == 1


JOBS = """
import json, sys
import intarsia as ia
from intarsia import spark as ias

lake, out = sys.argv[1:]
try:
    refused_natively = ias.read(spark, lake, "x = 7", mode="native")
except ia.IntarsiaError as error:
    refused_natively = error.reason
rows = lambda path: sorted(map(str, spark.read.parquet(path).collect()))
report = ias.optimize(
    spark, lake, out, zorder_by=["x", "y"], indexes=[ia.Distinct("s")], rows_per_page=20, progress=False
)
by_pages = ias.read(spark, out, "x BETWEEN 7 AND 8 AND p = 0", ["x", "s", "p"], mode="pages")
by_pages_mode = ias.last_read(spark).mode
plain = spark.read.parquet(out).where("x BETWEEN 7 AND 8 AND p = 0").select("x", "s", "p")
ias.register(spark)
source = spark.read.format("intarsia").option("where", "x BETWEEN 5 AND 8")
keys = spark.createDataFrame([("s3",), ("none",)], ["s"])
try:
    refused = ias.enable_writes(spark, [ia.PageIndex()])
except ia.UnsupportedFeatureError as error:
    refused = error.reason
print(json.dumps({
    "rows": report.num_rows,
    "verified": ias.verify(spark, out, progress=False).ok,
    "indexes": ias.describe(spark, out, progress=False).first()["indexes"],
    "same": rows(out) == rows(lake),
    "located": ias.locate(spark, keys, lake, key="s").count(),
    "paged": [row.x for row in source.load(lake).orderBy("x").collect()],
    "distinct": int(ias.approx_distinct(spark, lake, "s", progress=False)),
    "refused": refused,
    "refused_natively": refused_natively,
    "pages": by_pages_mode,
    "same_by_pages": sorted(map(str, by_pages.collect())) == sorted(map(str, plain.collect())),
    "mode": (ias.read(spark, lake, "x = 7").count(), ias.last_read(spark).mode),
    "detached": ias.detach(spark, out, progress=False).files_detached,
}))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_jobs_over_spark_connect(tmp_path, connect_host):
    lake = write_lake(tmp_path / "lake", rows_of_each=100)
    answer = json.loads(connect_host.run(JOBS, lake, tmp_path / "out"))
    assert answer == {
        "rows": 400,
        "verified": True,
        "indexes": ["distinct(s):page"],
        "same": True,
        "located": 20,
        "paged": [5, 6, 7, 8],
        "distinct": 20,
        "refused": "connect",
        "refused_natively": "connect-session",
        "pages": "pages",
        "same_by_pages": True,
        "mode": [1, "files"],
        "detached": 2,
    }


DELETING = """
import json, sys
import intarsia as ia
from intarsia import spark as ias

lake = sys.argv[1]
spark.read.parquet(lake).createOrReplaceTempView("own_rows")
spark.createDataFrame([(7,), (8,)], "who LONG").write.parquet(lake + "-others")
others = f"parquet.`{lake}-others`"
spark.read.parquet(f"{lake}/p=0").where("x < 0").write.parquet(f"{lake}, more")
spark.read.parquet(f"{lake}, more", f"{lake}/p=1").createOrReplaceTempView("more_and_own_rows")

def reason(where):
    try:
        return ias.delete(spark, lake, where, progress=False).rows_deleted
    except ia.UnsupportedFeatureError as error:
        return error.reason

print(json.dumps([
    reason("x = (SELECT max(x) FROM own_rows)"),
    reason("p = 0 AND x IN (SELECT max(x) FROM own_rows GROUP BY s)"),
    reason(f"x > (SELECT max(who) FROM {others} WHERE who < (SELECT avg(x) FROM own_rows WHERE p = 1))"),
    reason(f"x > (SELECT count(*) FROM parquet.`{lake}/p=1`)"),
    reason("x IN (SELECT max(x) FROM more_and_own_rows)"),
    reason("rand() < 0.5"),
    spark.read.parquet(lake).count(),
    reason(f"x IN (SELECT who FROM {others})"),
]))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_what_a_deletion_refuses_over_spark_connect(tmp_path, connect_host):
    lake = write_lake(tmp_path / "a lake", rows_of_each=100)
    own = "own-rows-in-predicate"
    expected = [own, own, own, own, own, "nondeterministic-predicate", 400, 2]
    assert json.loads(connect_host.run(DELETING, lake)) == expected
