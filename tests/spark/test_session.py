"""The session that the other Spark tests share."""

import os

import pyarrow as pa
import pyarrow.compute as pc
import pytest


def test_all_spark_tests_share_one_worker(request, spark):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("needs pytest-xdist's workers: -n 2 --dist loadgroup")
    assert request.node.nodeid.endswith("@spark")


def test_rows_are_converted_by_arrow_in_utc(spark, tmp_path):
    def later(batches):
        for batch in batches:
            yield pa.record_batch([pc.add(batch.column("n"), 1)], names=["n"])

    folder = str(tmp_path / "numbers")
    spark.range(10).toDF("n").write.parquet(folder)
    assert spark.read.parquet(folder).mapInArrow(later, "n long").toPandas()["n"].max() == 10
    assert (
        spark.sql("SELECT timestamp '1970-01-01 00:00:00'").toArrow().column(0).cast(pa.int64())[0].as_py()
        == 0
    )
