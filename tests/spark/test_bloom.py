"""Spark's own reader skips row groups with attached Bloom filters."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from tests.spark.test_indexing import bytes_read

pytestmark = pytest.mark.spark

#: An absent value within the bounds of every row group.
ABSENT = 1 << 61


def test_spark_reads_no_data_for_an_absent_value(spark, tmp_path):
    lake = tmp_path / "lake"
    lake.mkdir()
    numbers = np.random.default_rng(1).integers(0, 2**62, 200_000)
    table = pa.table({"id": numbers, "name": [f"user {number}" for number in numbers]})
    pq.write_table(table, lake / "a.parquet", row_group_size=50_000, use_dictionary=False)

    def found(where):
        # Hadoop's statistics do not include vectored reads
        reader = spark.read.option("parquet.hadoop.vectored.io.enabled", "false")
        return [row.id for row in reader.parquet(str(lake)).where(where).collect()]

    def absent():
        assert found(f"id = {ABSENT}") == []

    def absent_text():
        assert found("name = 'user 3a'") == []

    absent()
    plain, plain_text = bytes_read(spark, absent), bytes_read(spark, absent_text)
    report = ias.index(spark, str(lake), [ia.Bloom("id"), ia.Bloom("name"), ia.Statistics()], progress=False)
    assert report.files_indexed == 1
    indexed, indexed_text = bytes_read(spark, absent), bytes_read(spark, absent_text)

    assert indexed < plain / 4, (plain, indexed)
    assert indexed_text < plain_text / 4, (plain_text, indexed_text)
    present = int(numbers[123_456])
    assert found(f"id = {present}") == [present]
    assert found(f"name = 'user {present}'") == [present]
