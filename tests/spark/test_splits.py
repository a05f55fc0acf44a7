"""The splits that Python reads in Spark's tasks; needs no session."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.lake.split import file_identity
from intarsia.rows.selection import RowSelection
from intarsia.spark.paged import plan_pages
from intarsia.spark.planning import RemainingFile

types = pytest.importorskip("pyspark.sql.types")


def test_a_split_does_not_have_the_metadata_of_its_file(tmp_path):
    """A file with 50 MB of key/value metadata was sent with each of its splits."""
    path = tmp_path / "x.parquet"
    rows = pa.table({"x": range(1000)}).replace_schema_metadata({"large": "v" * 100_000})
    pq.write_table(rows, path, row_group_size=100, write_page_index=True)
    table, schema = ia.open(path), types.StructType([types.StructField("x", types.LongType())])
    with ParquetInput.open(path) as file:
        identity = file_identity(file)
    wanted = RemainingFile(0, table.files[0], RowSelection.of_range(150, 160), 800, identity)
    (split,), others, _ = plan_pages(table, [wanted], schema, [], case_sensitive=False, keeps_dates=True)
    assert not others
    assert split.to_arrow()["x"].to_pylist() == list(range(150, 160))
    assert len(pickle.dumps(split)) < 10_000
