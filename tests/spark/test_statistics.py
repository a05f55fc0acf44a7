"""Spark's own reader skips row groups with attached statistics."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from tests.spark.test_indexing import bytes_read

pytestmark = pytest.mark.spark


def test_spark_reads_one_row_group_of_a_file_without_statistics(spark, tmp_path):
    lake = tmp_path / "lake"
    lake.mkdir()
    numbers = np.arange(40_000)
    table = pa.table({"id": numbers, "name": [f"user {number:06}" for number in numbers]})
    options = {"row_group_size": 4_000, "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, lake / "a.parquet", compression="none", **options)

    def found(where):
        # Hadoop's statistics do not include vectored reads
        reader = spark.read.option("parquet.hadoop.vectored.io.enabled", "false")
        return [row.id for row in reader.parquet(str(lake)).where(where).collect()]

    def by_number():
        assert found("id = 12345") == [12_345]

    def by_text():
        assert found("name = 'user 012345'") == [12_345]

    def by_nulls():
        assert found("name IS NULL") == []

    lookups = (by_number, by_text, by_nulls)
    by_number()
    plain = [bytes_read(spark, lookup) for lookup in lookups]
    report = ias.index(spark, str(lake), [ia.Statistics()], progress=False)
    assert [file.built for file in report.per_file] == [("statistics",)]
    indexed = [bytes_read(spark, lookup) for lookup in lookups]
    assert all(now < before / 4 for now, before in zip(indexed, plain, strict=True)), (plain, indexed)
