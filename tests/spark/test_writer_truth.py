"""Metadata by Spark is true or not trusted."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

import pytest

from intarsia.file import ParquetInput
from tests.reading.truth import assert_truth

pytestmark = pytest.mark.spark

#: Files of each run, with as many random rows each.
FILES = 3
ROWS = 150

#: Spark's types, and some values of each.
COLUMNS = {
    "tiny": ("tinyint", [-128, -1, 0, 127]),
    "small": ("smallint", [-(2**15), -1, 0, 2**15 - 1]),
    "whole": ("int", [-(2**31), -1, 0, 7, 2**31 - 1]),
    "big": ("bigint", [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1]),
    "single": ("float", [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan]),
    "double": ("double", [0.0, -0.0, 0.1, -1.5, math.inf, -math.inf, math.nan]),
    "cents": ("decimal(9,2)", [Decimal("-9999999.99"), Decimal("0.00"), Decimal("1.25")]),
    "long_cents": ("decimal(18,3)", [Decimal("-1.000"), Decimal("0.001"), Decimal("999999999999999.999")]),
    "huge": ("decimal(38,4)", [Decimal("-1.0000"), Decimal("0.0001"), Decimal(10) ** 33]),
    "text": ("string", ["", "a", "b", "é", "\U0001f600", "z" * 100]),
    "blob": ("binary", [b"", b"\0", b"\x7f", b"\x80", b"\xff\xff"]),
    "flag": ("boolean", [True, False]),
    "day": ("date", [dt.date(1960, 1, 1), dt.date(1970, 1, 1), dt.date(2020, 2, 29)]),
    "at": (
        "timestamp_ntz",
        [dt.datetime(1960, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(2020, 2, 29, 12, 0, 0, 1)],
    ),
}


def rows(chance):
    """Return the rows of a file: columns of some values with a share of nulls, also inside a struct."""
    pools = {
        name: (chance.sample(values, chance.randint(1, len(values))), chance.choice([0.0, 0.0, 0.3, 1.0]))
        for name, (_, values) in COLUMNS.items()
    }
    nullness = [chance.choice([0.0, 0.3, 1.0, None]) for _ in range(3)]  # of a third of the rows

    def pick(name, row):
        values, nulls = pools[name]
        share = nullness[row * 3 // ROWS]
        return None if chance.random() < (nulls if share is None else share) else chance.choice(values)

    for row in range(ROWS):
        inside = None if chance.random() < 0.2 else tuple(pick(name, row) for name in COLUMNS)
        yield (row, *(pick(name, row) for name in COLUMNS), inside)


@pytest.mark.parametrize(
    ("legacy", "options"),
    [
        ("false", {}),
        ("true", {"parquet.enable.dictionary": "false", "parquet.writer.version": "PARQUET_2_0"}),
    ],
    ids=["dictionary", "plain"],
)
def test_trusted_metadata_is_true(spark, tmp_path, legacy, options):
    kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    inner = ", ".join(f"{name}: {kind}" for name, (kind, _) in COLUMNS.items())
    chance = random.Random(legacy)
    files = [(file, *row) for file in range(FILES) for row in rows(chance)]
    frame = spark.createDataFrame(files, f"file int, id bigint, {kinds}, s struct<{inner}>")
    writer = frame.coalesce(1).sortWithinPartitions("file", "id").write.partitionBy("file")
    settings = {
        "parquet.bloom.filter.enabled": "true",
        "parquet.bloom.filter.expected.ndv": "50",
        "parquet.page.row.count.limit": "25",
        "parquet.page.size.row.check.min": "10",
        **options,
    }
    before = spark.conf.get("spark.sql.parquet.writeLegacyFormat")
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", legacy)  # decimals of any size in FIXED
    try:
        for name, value in settings.items():
            writer = writer.option(name, value)
        writer.parquet(str(tmp_path / "lake"))
    finally:
        spark.conf.set("spark.sql.parquet.writeLegacyFormat", before)
    paths = sorted((tmp_path / "lake").rglob("*.parquet"))
    assert len(paths) == FILES
    for path in paths:
        assert assert_truth(path).num_rows == ROWS
        with ParquetInput.open(path) as file:
            assert file.footer.created_by.startswith("parquet-mr")
            chunks = file.footer.metadata.row_groups[0].columns
        assert sum(bool(chunk.column_index_offset) for chunk in chunks) > len(COLUMNS)
        # parquet-java writes no filter if the dictionary page contains the same
        has_filter = [chunk.meta_data.bloom_filter_offset is not None for chunk in chunks]
        assert sum(has_filter) > len(COLUMNS) or not options
