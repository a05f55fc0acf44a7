"""Enabled sessions skip in Iceberg tables, and the rows are those of plain Spark.

`make test` runs one test, which shows the main promises; `make test-spark-versions` runs all others.
"""

import os

import pytest

from tests.effort import examples
from tests.spark.hosts import SparkHost
from tests.spark.jars import jars_of, only_briefly, only_everything, spark_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("iceberg")]


def start(folder, **more):
    """Return a process with a session of Spark 4.1 and a catalog ``ice``."""
    jars = jars_of("iceberg-4.1").glob("*.jar")
    spark = str(spark_of("4.1"))
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "warehouse"),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "plain"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **more,
    }
    # PySpark then takes a free port for a server of Spark Connect
    return SparkHost(folder, settings, {**os.environ, "SPARK_TESTING": "1"}, spark)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A process with an enabled session."""
    started = start(tmp_path_factory.mktemp("iceberg"), **{"spark.master": "local[2]"})
    started.run(f"{PROGRAM}iceberg.enable(spark)")
    yield started
    started.stop()


PROGRAM = "from tests.spark import iceberg\n"


def check(host, text):
    """Run a function of `tests.spark.iceberg` in an enabled session."""
    host.run(f"{PROGRAM}{text}")


@only_briefly
def test_promises(host):
    check(host, f"iceberg.check_promises(spark, {examples(165, deep=3_000)})")


@only_everything
def test_predicates_and_plans(host):
    numbers = f"{examples(300, deep=2_000)}, {examples(80, deep=400)}"
    check(host, f"iceberg.check_random(spark, iceberg.plain_table(spark), {numbers})")


@only_everything
@pytest.mark.parametrize("version", [2, 3])
def test_predicates_on_a_table_that_has_changed(host, version):
    table = f"iceberg.evolved_table(spark, {version})"
    check(host, f"iceberg.check_random(spark, {table}, {examples(150, deep=1_000)})")


@only_everything
def test_deleting_over_spark_connect(tmp_path):
    pytest.importorskip("grpc")
    started = start(tmp_path, **{"spark.remote": "local[2]"})
    try:
        check(started, "iceberg.check_connect(spark)")
    finally:
        started.stop()


@only_everything
@pytest.mark.parametrize(
    "name",
    [
        "needles",
        "maps",
        "scans_of_equal_filters",
        "partitions",
        "history",
        "writes",
        "other_formats",
        "changed_files",
        "faults",
        "streams",
        "jobs",
        "views",
        "staged_writes",
        "procedures",
        "equality_deletes",
        "deleting",
        "deleting_nan",
    ],
)
def test_feature(host, name):
    check(host, f"iceberg.check_{name}(spark)")
