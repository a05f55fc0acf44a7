"""Archive the classes that Spark loads, so that a JVM of a test starts in half of the CPU time.

``make test`` runs this once for an installation: ``python -m tools.archive_classes``. A JVM maps the archive
into memory instead of parsing and verifying thousands of classes from jars (class data sharing of the JDK).
It ignores an archive of another Java or of other jars.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path

#: The archive of this environment.
ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"

#: A JVM that lives for a minute spends most of its time in its optimizing compiler, and a quarter of its
#: start verifying the bytecode of Spark.
_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def java_options(*, archived: bool = True) -> str:
    """Return the options for a JVM that lives for a minute, which Spark's launcher parses like a shell.

    Args:
        archived: Use the archive if it exists. A Java of another version would not share any classes then.
    """
    if archived and ARCHIVE.exists():
        return f'{_OPTIONS} "-XX:SharedArchiveFile={ARCHIVE}" {_QUIET}'
    return _OPTIONS


def use_most_classes(folder):
    """Run queries of the kinds that tests run, in a session with a Connect server."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from intarsia import Distinct
    from intarsia import spark as ias
    from intarsia.spark import spark_conf
    from intarsia.spark.local import local_session

    settings = {
        **spark_conf(),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": "0",
    }
    words = [f"--conf {shlex.quote(f'{key}={value}')}" for key, value in settings.items()]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*words, "pyspark-shell"])
    lake = Path(folder) / "lake"
    lake.mkdir()
    pq.write_table(pa.table({"id": range(100), "k": ["a", "b"] * 50, "x": [1.5] * 100}), lake / "a.parquet")
    spark = local_session(folder)
    ias.index(spark, str(lake), [Distinct("k")], progress=False)
    ias.read(spark, str(lake), "k = 'a'").collect()
    frame = spark.read.parquet(str(lake))
    frame.createOrReplaceTempView("t")
    frame.write.partitionBy("k").parquet(str(Path(folder) / "partitions"))
    spark.read.parquet(str(Path(folder) / "partitions")).where("k = 'a' AND id BETWEEN 3 AND 9").collect()
    queries = [
        "SELECT k, count(DISTINCT x), sum(id) FROM t WHERE k LIKE 'a%' GROUP BY k ORDER BY k",
        "SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE b.k IN ('a', 'c')",
        "SELECT /*+ MERGE(b) */ a.id FROM t a LEFT JOIN t b ON a.id = b.id WHERE a.x > 1 OR b.x IS NULL",
        "SELECT id, rank() OVER (PARTITION BY k ORDER BY id) FROM t UNION ALL SELECT id, 1 FROM t LIMIT 5",
        "SELECT id FROM t WHERE id NOT IN (SELECT max(id) FROM t) AND CAST(x AS DECIMAL(9, 2)) > 1",
    ]
    for query in queries:
        spark.sql(query).collect()
    spark.sql(queries[0]).toArrow()
    frame.mapInArrow(lambda batches: batches, frame.schema).count()
    spark.createDataFrame([(1, "a")], ["n", "s"]).toPandas()
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    if gateway.proc.wait() != 0:  # a part of an archive would crash each JVM that uses it
        raise SystemExit(f"java ended with {gateway.proc.returncode}, so that there is no archive")


def main():
    """Write the archive."""
    ARCHIVE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        new = Path(folder) / ARCHIVE.name
        os.environ["SPARK_SUBMIT_OPTS"] = f'{java_options()} "-XX:ArchiveClassesAtExit={new}" {_QUIET}'
        use_most_classes(folder)
        new.replace(ARCHIVE)


if __name__ == "__main__":
    main()
