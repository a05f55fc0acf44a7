"""Iceberg tables on s3a://, in an enabled session of Spark 4.1; Iceberg reads them through Hadoop."""

import json
import os
from collections import Counter

import pytest

from tests.object_stores.s3_server import SECRET, S3Server, s3a_settings
from tests.spark.hosts import SparkHost
from tests.spark.jars import jars_of, only_everything, spark_of

pytestmark = [only_everything, pytest.mark.spark, pytest.mark.xdist_group("iceberg")]


@pytest.fixture(scope="module")
def server():
    for profile in ("iceberg-4.1", "s3a-3.4"):
        jars_of(profile)
    server = S3Server()
    server.reset()
    yield server
    server.close()


@pytest.fixture(scope="module")
def host(server, tmp_path_factory):
    spark = str(spark_of("4.1"))
    folder = tmp_path_factory.mktemp("iceberg-on-s3a")
    settings = {
        "spark.master": "local[2]",
        "spark.jars": ",".join(map(str, jars_of("iceberg-4.1").glob("*.jar"))),
        "spark.driver.extraClassPath": f"{jars_of('s3a-3.4')}/*",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": "s3a://bucket/ware house",
        "spark.sql.warehouse.dir": str(folder / "plain"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **{f"spark.hadoop.{key}": value for key, value in s3a_settings(server).items()},
    }
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    started = SparkHost(folder, settings, environment, spark)
    started.run("from tests.spark import iceberg\niceberg.enable(spark)")
    yield started
    started.stop()


WRITE = """
from tests.spark import iceberg
table = "ice.db.needles"
iceberg.create(spark, table, "id bigint, user int, text string", **{
    "write.parquet.row-group-check-min-record-count": 1000,
    "write.parquet.row-group-check-max-record-count": 1000,
    "write.distribution-mode": "none",
})
frame = spark.range(0, 20_000 * 4, 1, 4)
frame.selectExpr(
    "id",
    "cast(id * 7919 % 100003 AS int) AS user",
    "concat(sha2(cast(id AS string), 512), '#', id, '#') AS text",
).writeTo(table).append()
"""

ATTACH = """
import json, sys
import intarsia as ia
options = json.loads(sys.argv[1])
rows = spark.sql("SELECT file_path FROM ice.db.needles.data_files").collect()
for row in rows:
    ia.attach(row[0].replace("s3a://", "s3://"), [ia.RowMap("user")], storage_options=options)
"""


def options_of(server):
    """Return the options with which Python reads from the server, in JSON."""
    return json.dumps({name.lower(): value for name, value in server.environment.items()})


CHECK = """
import json
from tests.spark import iceberg
query = "SELECT * FROM ice.db.needles WHERE user = {}"
found = []
for one in (3, 25_000, 79_999):
    (skip,) = iceberg.compare(spark, query.format(iceberg.needle(one)) + " AND id >= 0")
    found.append((skip.reason, skip.report["files"]["read"], skip.report["row_groups"]["read"]))
spark.sql(f"DELETE FROM ice.db.needles WHERE id = 3")
iceberg.compare(spark, query.format(iceberg.needle(3)) + " AND id >= 0")
assert not spark.sql(query.format(iceberg.needle(3))).collect()
absent = iceberg.compare(spark, query.format(100002) + " AND id > 0")
print(json.dumps([found, repr(absent)]))
"""


def test_files_and_row_groups_are_skipped(server, host):
    host.run(WRITE)
    host.run(ATTACH, options_of(server))
    found, absent = json.loads(host.run(CHECK))
    assert found == [[None, 1, 1]] * 3
    assert SECRET not in absent


def test_requests_of_excluded_objects(server, host):
    host.run(WRITE.replace("needles", "counted"))
    host.run(ATTACH.replace("needles", "counted"), options_of(server))
    with server.recording() as recording:
        host.run("assert len(spark.sql('SELECT * FROM ice.db.counted WHERE user = 7919').collect()) == 1")
    data = Counter(one.key for one in recording.requests if "/data/" in one.key)
    assert len(data) == 4
    # all that was attached, of which the RowMap is not in the last 64 KiB; none by Iceberg
    assert sorted(data.values())[:3] == [1, 1, 1]


BUILD = """
(built,) = spark.sql("CALL intarsia.lake_index('ice.db.listed', 'beside')").collect()
assert built["files_added"] == 4, built
"""

#: Compares a query for one user with plain Spark; prints the files and row groups that are left.
LOOK = """
import sys
from tests.spark import iceberg
query = f"SELECT * FROM ice.db.listed WHERE user = {iceberg.needle(int(sys.argv[1]))} AND id >= 0"
(skip,) = iceberg.compare(spark, query)
print(skip.reason, skip.report["files"]["read"], skip.report["row_groups"]["read"])
"""

COLLECT = LOOK.partition("(skip,)")[0] + "assert len(spark.sql(query).collect()) == 1"

PARTITION = 'spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD truncate(10, text)")'


@pytest.mark.parametrize("partition", ["", PARTITION])
def test_objects_are_not_listed_with_a_lake_index(server, host, partition):
    """Manifests name the objects of a table; the lake index is in the folder of the only partition."""
    write = WRITE.replace("needles", "listed").replace("concat(sha2", "concat('0123456789', sha2")
    host.run(write.replace("frame = ", f"{partition}\nframe = ", 1))
    host.run(ATTACH.replace("needles", "listed"), options_of(server))
    host.run(BUILD)
    assert host.run(LOOK, "3").split() == ["None", "1", "1"]  # downloads the lake index
    with server.recording() as recording:
        host.run(COLLECT, "25000")
    listed = [one.query for one in recording.requests if one.is_listing]
    assert [one for one in listed if "_intarsia" not in one] == []
    assert len(listed) == 1
    assert len({one.key for one in recording.requests if "/data/" in one.key}) == 1


CHANGE = """
spark.sql("DELETE FROM ice.db.listed WHERE id = 25000")
spark.sql("INSERT INTO ice.db.listed SELECT -id, user, text FROM ice.db.listed WHERE id IN (3, 40000)")
spark.sql("INSERT INTO ice.db.listed SELECT id + 100000, user, text FROM ice.db.listed WHERE id = 3")
"""

#: Iceberg refuses the small files of `CHANGE` if they become longer.
AGAIN = """
for row in rows[:4]:
    path = row[0].replace("s3a://", "s3://")
    ia.attach(path, [ia.Bloom("user"), ia.Distinct("text")], storage_options=options)
"""


def test_changes_after_the_lake_index_was_built(server, host):
    host.run(WRITE.replace("needles", "listed"))
    host.run(ATTACH.replace("needles", "listed"), options_of(server))
    host.run(BUILD)
    host.run(CHANGE)
    assert host.run(LOOK, "3").split()[:2] == ["None", "2"]  # the new file with a positive id has no bounds
    assert host.run(LOOK, "25000").split()[0] == "None"
    large = ATTACH.replace("needles", "listed").replace(
        'data_files"', 'data_files ORDER BY file_size_in_bytes DESC"'
    )
    host.run(large.partition("for row")[0] + AGAIN, options_of(server))
    for user in ("3", "25000", "40000"):
        assert host.run(LOOK, user).split()[0] == "None"
    for key in server.list_keys():
        if "/_intarsia/" in key:
            server.backend.delete_object("bucket", key)
    assert host.run(LOOK, "40000").split()[0] == "None"


INDEX = """
import intarsia as ia
from intarsia import spark as ias
from tests.spark import iceberg
report = ias.index(spark, "ice.db.needles", [ia.RowMap("user")], progress=False)
assert {one.code for one in report.per_file} == {"small-iceberg-file"}, report
report = ias.index(spark, "ice.db.large", [ia.RowMap("user")], progress=False)
assert report.files_indexed == 1, report
(skip,) = iceberg.compare(spark, f"SELECT * FROM ice.db.large WHERE user = {iceberg.needle(3)} AND id >= 0")
assert (skip.reason, skip.report["row_groups"]["read"]) == (None, 1), skip
assert ias.verify(spark, "ice.db.large", quick=True, progress=False).ok
"""


def test_jobs(host):
    host.run(WRITE.replace("needles", "large").replace("1, 4)", "1, 1)"))
    host.run(INDEX)
