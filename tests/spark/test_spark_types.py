"""Columns that Spark reads as the same values as Arrow; needs no session."""

from __future__ import annotations

import pyarrow as pa
import pytest

from intarsia.spark.spark_types import reads_as_is


@pytest.mark.parametrize(
    ("spark_type", "arrow_type", "as_is"),
    [
        ("bigint", pa.int64(), True),
        ("bigint", pa.int8(), True),
        ("bigint", pa.uint32(), True),
        ("smallint", pa.uint8(), True),
        # Spark truncates values that are too wide for the type in the lake's schema
        ("tinyint", pa.int32(), False),
        ("smallint", pa.int32(), False),
        ("int", pa.int64(), False),
        # Spark has no unsigned types of these widths
        ("int", pa.uint32(), False),
        ("bigint", pa.uint64(), False),
        ("bigint", pa.float64(), False),
    ],
)
def test_integers(spark_type, arrow_type, as_is):
    assert reads_as_is(spark_type, arrow_type) is as_is
