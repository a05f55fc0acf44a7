"""The lake in other places: objects of S3A on a server that delays each response, Delta, and Iceberg."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import intarsia as ia
import intarsia.spark as ias
from benchmarks.data import VERSION
from benchmarks.lake import INDEXES, ROWS_PER_FILE, make_plain_lake
from benchmarks.object_store import LATENCY_SECONDS, start_server
from benchmarks.spark.cases import COLUMNS, Data, Query, lake_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The performance targets of the project for needles.
_AIM, _ICEBERG_AIM = 0.15, 0.3

#: Plain Spark takes a minute for each query of 1,000 objects.
_MAX_OBJECTS = 200

#: The Delta table has so many times as many files as the lake. In a smaller one, most of the time of a query
#: that skips is the minimum time of any query of Delta.
_DELTA_TIMES = 4

#: Files of the lake in a file of the Iceberg table; smaller ones cannot be indexed.
_PARTS_OF_FILE = 80
_ROW_GROUP_BYTES = 2 << 20

_CATALOG = "ice"

#: The profiles of ``tools/jars/pom.xml``, and the versions of Spark; the default version if it is empty.
_PROFILES = {"s3a": ("s3a-3.5", ""), "delta": ("delta-4.2", "4.2"), "iceberg": ("iceberg-4.1", "4.1")}


class MissingJarsError(RuntimeError):
    """The jars of a format, or the Spark that they need, are missing."""


def session_settings(section: str, folder: Path) -> dict[str, str]:
    """Return the settings of a session that reads the tables of a section.

    Args:
        section: The name of the section.
        folder: Folder for the files.

    Raises:
        MissingJarsError: If the jars or the version of Spark are missing.
    """
    if section not in _PROFILES:
        return {}
    from pyspark import __version__

    profile, version = _PROFILES[section]
    jars = Path(sys.prefix) / "jars" / profile
    if not (jars / ".done").exists():
        raise MissingJarsError(f"{section} needs the jars of {profile}; run: make jars")
    if not __version__.startswith(version):
        path = Path(sys.prefix) / f"spark-{version}"
        raise MissingJarsError(
            f"{section} needs Spark {version}, not {__version__}; set PYTHONPATH={os.path.relpath(path)}"
        )
    if section == "s3a":
        return {"spark.driver.extraClassPath": f"{jars}/*"}
    settings = {"spark.jars": ",".join(map(str, sorted(jars.glob("*.jar"))))}
    if section == "delta":
        return {
            **settings,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    return {
        **settings,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{_CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{_CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{_CATALOG}.warehouse": str(folder / f"iceberg-v{VERSION}"),
    }


def make_objects(spark: SparkSession, folder: Path, files: int) -> list[Data]:
    """Put the lake into a store twice, and index one of the copies through Spark."""
    files = min(files, _MAX_OBJECTS)
    server = start_server(make_plain_lake(folder, files), "bare", "indexed")
    settings = {
        "fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.endpoint": server["AWS_ENDPOINT_URL"],
        "fs.s3a.endpoint.region": server["AWS_REGION"],
        "fs.s3a.path.style.access": "true",
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.access.key": server["AWS_ACCESS_KEY_ID"],
        "fs.s3a.secret.key": server["AWS_SECRET_ACCESS_KEY"],
        "fs.s3a.audit.enabled": "false",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    places = [f"s3a://bucket/{name}" for name in ("bare", "indexed", "row")]
    _index(spark, places[1], INDEXES, "beside")
    about = (
        f"{files:,} objects of {ROWS_PER_FILE:,} rows on an S3 server (moto) on this machine, which delays "
        f"each response by {LATENCY_SECONDS * 1000:.0f} ms; five indexes and a lake index beside the objects"
        ". An object that is read takes two requests in all modes, a HEAD and a GET of all its bytes"
    )
    return [Data("S3A", about, *places[:2], COLUMNS, lake_queries(files, _AIM), one_row=places[2])]


def make_delta(spark: SparkSession, folder: Path, files: int) -> list[Data]:
    """Make two Delta tables of the files of the lake, whose log has their bounds, and index one of them."""
    files *= _DELTA_TIMES
    lake = make_plain_lake(folder, files)

    def create(path: Path) -> None:
        part = path.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(lake, part)
        spark.sql(f"CONVERT TO DELTA parquet.`{part}`")
        part.rename(path)

    bare, indexed = (folder / f"delta-{name}-{files}-v{VERSION}" for name in ("bare", "indexed"))
    for path in (bare, indexed):
        _unless(path.exists(), lambda path=path: create(path))
    _index(spark, f"delta.`{indexed}`", INDEXES, "cache")
    about = (
        f"a Delta table of {files:,} files of {ROWS_PER_FILE:,} rows; five indexes and a lake index. The log "
        "has the bounds of each file, so Delta itself finds the file of an hour"
    )
    return [
        Data(
            "Delta",
            about,
            str(bare),
            str(indexed),
            COLUMNS,
            _table_queries(files, _AIM),
            format="delta",
            one_row=str(folder / f"delta-row-v{VERSION}"),
        )
    ]


def make_iceberg(spark: SparkSession, folder: Path, files: int) -> list[Data]:
    """Write two Iceberg tables with the rows of the lake, and index one of them."""
    lake = str(make_plain_lake(folder, files))
    count = max(2, files // _PARTS_OF_FILE)

    def create(name: str) -> None:
        frame = spark.read.parquet(lake).repartitionByRange(count, "ts").sortWithinPartitions("ts")
        writer = frame.writeTo(name).using("iceberg")
        writer = writer.tableProperty("write.parquet.row-group-size-bytes", str(_ROW_GROUP_BYTES))
        writer.tableProperty("write.distribution-mode", "none").create()

    bare, indexed = (f"{_CATALOG}.bench.{name}_{files}" for name in ("bare", "indexed"))
    for name in (bare, indexed):
        _unless(spark.catalog.tableExists(name), lambda name=name: create(name))
    indexes = [
        replace(index, granularity="page") if isinstance(index, ia.Distinct) else index for index in INDEXES
    ]
    _index(spark, indexed, indexes, "cache")
    about = (
        f"an Iceberg table of {count} files with row groups of {_ROW_GROUP_BYTES >> 20} MiB and the rows of "
        "the lake, sorted by time; five indexes and a lake index. The manifests have the bounds of each "
        "file, so Iceberg itself finds the file of an hour. By their dictionaries, it also finds the row "
        "groups of the rare country. Hadoop does not count most of the bytes that Iceberg reads"
    )
    return [
        Data(
            "Iceberg",
            about,
            bare,
            indexed,
            COLUMNS,
            _table_queries(files, _ICEBERG_AIM),
            format="iceberg",
            one_row=f"{_CATALOG}.bench.row",
        )
    ]


def _table_queries(files: int, aim: float) -> tuple[Query, ...]:
    """Return the queries of the lake; there is no aim for the one that bounds of files answer."""
    return tuple(
        replace(query, aim=None) if query.name == "one hour" else query for query in lake_queries(files, aim)
    )


def _unless(exists: bool, create: Callable[[], None]) -> None:
    if not exists:
        create()


def _index(
    spark: SparkSession, table: str, indexes: list[ia.Index] | tuple[ia.Index, ...], place: str
) -> None:
    report = ias.index(spark, table, indexes, lake_index=place, on_error="raise", progress=False)
    print(report, file=sys.stderr)
