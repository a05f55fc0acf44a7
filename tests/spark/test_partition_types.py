"""The types of partition columns are those that Spark infers."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types

import intarsia as ia
from tests.lake.test_partitions import TYPES, write

SPARK = {
    types.IntegerType(): pa.int32(),
    types.LongType(): pa.int64(),
    types.DoubleType(): pa.float64(),
    types.DateType(): pa.date32(),
    types.TimestampType(): pa.timestamp("us"),
    types.StringType(): pa.string(),
    types.NullType(): pa.string(),
}


#: Spark has decimals for integers beyond 64 bits and for exponents, and reads the digits of every script.
DIFFERENT = {"beyond int64", "exponent", "digits of another script"}


@pytest.mark.parametrize("case", sorted(TYPES.keys() - DIFFERENT))
def test_types_are_those_of_spark(spark, tmp_path, case):
    write(tmp_path, TYPES[case][0])
    expected = spark.read.parquet(str(tmp_path)).schema["p"].dataType
    assert ia.open(tmp_path).partition_types == {"p": SPARK[expected]}
