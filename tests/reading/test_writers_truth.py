"""Errors in the metadata of other writers are not trusted, and all metadata that is trusted is correct."""

from __future__ import annotations

import duckdb
import fastparquet
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.format import thrift
from tests.effort import examples
from tests.predicate import strategies as flat
from tests.reading import tables, writers
from tests.reading.surgery import Patient
from tests.reading.test_other_writers_habits import CHUNK_META, STATISTICS
from tests.reading.truth import assert_truth

#: Numbers of fields of FileMetaData and Statistics.
CREATED_BY, MAX_VALUE, MIN_VALUE = 6, 5, 6


def statistics_of(path, name):
    """The statistics of the chunks of a column in the footer."""
    with ParquetInput.open(path) as file:
        (leaf,) = [leaf for leaf in file.footer.leaves if leaf.name == name]
        return [group.columns[leaf.ordinal].meta_data.statistics for group in file.footer.metadata.row_groups]


# --- any table, by any writer ---


class PyArrow:
    """Files with or without page index and Bloom filters."""

    types = tuple(flat.TYPES)
    nested = tuple(tables.NESTED)
    max_rows = 60


@pytest.mark.parametrize("writer", [PyArrow, *writers.WRITERS.values(), writers.FastParquet])
@settings(max_examples=examples(20))
@given(data=st.data())
def test_what_is_trusted_is_true(tmp_path_factory, writer, data):
    made = data.draw(tables.tables(writer.types, writer.nested, writer.max_rows), label="table")
    path = tmp_path_factory.getbasetemp() / f"truth-{writer.__name__}.parquet"
    path.unlink(missing_ok=True)
    try:
        if writer is PyArrow:
            pq.write_table(made.table, path, **data.draw(tables.pyarrow_options(made), label="options"))
        else:
            writer.write(data.draw, made.table, path)
        pq.read_table(path)
    except (pa.ArrowException, OSError, *REFUSALS.get(writer, ())) as error:
        event(str(error)[:50])  # a table that the writer refuses, or a file that pyarrow cannot read
        reject()
    assert_truth(path)


#: The errors of writers for tables that they do not support.
REFUSALS = {writers.FastParquet: (ValueError, TypeError, UnboundLocalError)}


def test_what_is_trusted_of_the_corpus_is_true(corpus):
    """Files by parquet-mr, Impala, parquet-cpp, parquet-rs, Polars and DuckDB, of many versions."""
    checked = 0
    for path in sorted(corpus.rglob("*.parquet")):
        if path.parent.name == "shredded_variant":
            continue  # conditions cannot compare VARIANT columns
        try:
            pq.read_table(path)
        except (pa.ArrowException, OSError):
            continue
        try:
            assert_truth(path)
        except ia.FormatError:
            continue  # damaged: an error is not a wrong answer
        checked += 1
    assert checked > 20


# --- errors of writers, each with a file by the writer ---


@pytest.mark.parametrize(
    "values",
    [
        np.array([10, -5, 50, 20], np.int64),
        np.array([10, -5, 50, 20], np.int8),
        np.array([1.0, -5.5, 50.0, 20.0]),
        np.array([10, -5, 50, 20], "datetime64[us]"),
    ],
    ids=str,
)
def test_fastparquet_uses_the_first_and_last_category_as_bounds(tmp_path, values):
    path = str(tmp_path / "a.parquet")
    column = pd.Categorical(values, categories=values)
    fastparquet.write(path, pd.DataFrame({"c": column, "n": np.arange(4)}), stats=True)
    (there,) = statistics_of(path, "c")
    assert values[-1].tobytes() == there.max[: values.itemsize]  # wrong: 20 is not the greatest value
    assert values[0].tobytes() == there.min[: values.itemsize]
    for value in pq.read_table(path)["c"]:
        assert ia.open(path).count([("c", "=", value)]) == 1
    assert_truth(path)


def test_the_rewriter_of_parquet_mr_copies_wrong_bounds(tmp_path):
    """It names the writer of the original in the key/value metadata, and itself as the writer."""
    originals = "parquet-cpp-arrow version 26.0.0\nfastparquet-python version 2026.9.0 (build 0)"
    for name, written_by in (("a", {}), ("b", {"original.created.by": originals})):
        made = pa.table({"c": [10, -5, 50, 20]}).replace_schema_metadata(written_by)
        pq.write_table(made, tmp_path / f"{name}.parquet")
        patient = Patient.read(tmp_path / f"{name}.parquet")
        patient.footer.set(CREATED_BY, thrift.BINARY, b"parquet-mr version 1.18.1 (build 7c22cdb)")
        if written_by:
            statistics = patient.chunk(0, 0).get(CHUNK_META).get(STATISTICS)
            statistics.set(MIN_VALUE, thrift.BINARY, np.int64(10).tobytes())
            statistics.set(MAX_VALUE, thrift.BINARY, np.int64(20).tobytes())
        patient.write(tmp_path / f"{name}.parquet")
    assert ia.open(tmp_path / "a.parquet").scan("c = 60").explain().row_groups_read == 0
    assert ia.open(tmp_path / "b.parquet").count("c > 40") == 1
    assert ia.open(tmp_path).count("c > 40") == 2
    assert ia.open(tmp_path).aggregate({"c": ["min", "max"]})["c"] == {"min": -5, "max": 50}
    assert_truth(tmp_path / "b.parquet")


def test_fastparquet_bounds_of_other_columns_still_exclude_row_groups(tmp_path):
    path = str(tmp_path / "a.parquet")
    frame = pd.DataFrame({"n": np.arange(40), "c": pd.Categorical(np.arange(40)[::-1] % 7)})
    fastparquet.write(path, frame, stats=True, row_group_offsets=10)
    scan = ia.open(path).scan("n = 5")
    assert scan.to_arrow().num_rows == 1
    assert scan.report.row_groups_read == 1
    assert_truth(path)


def test_fastparquet_omits_nat_from_bounds_in_columns_without_nulls(tmp_path):
    """NaT is stored as the smallest integer, which readers interpret as a time."""
    path = str(tmp_path / "a.parquet")
    moments = np.array(["NaT", "1970-01-02", "1970-01-03"], "datetime64[us]")
    fastparquet.write(path, pd.DataFrame({"at": moments}), stats=True, has_nulls=False)
    (there,) = statistics_of(path, "at")
    assert there.min == moments[1].tobytes()
    assert ia.open(path).count("at < '1970-01-01'") == 1
    assert_truth(path)


@pytest.mark.parametrize(("year", "zone"), [(10_000, "UTC"), (20_000, "Europe/Zurich"), (-1, "UTC")])
def test_fastparquet_writes_wrong_bounds_of_utc_timestamps_outside_the_range_of_python(tmp_path, year, zone):
    path = str(tmp_path / "a.parquet")
    times = pd.Series(np.array([(year - 1970) * 31_556_952_000_000], "datetime64[us]"))
    fastparquet.write(path, pd.DataFrame({"at": times.dt.tz_localize("UTC").dt.tz_convert(zone)}), stats=True)
    (there,) = statistics_of(path, "at")
    assert there.min != times.to_numpy().tobytes()  # wrong: there is only one value
    (value,) = pq.read_table(path)["at"]
    assert ia.open(path).count([("at", "=", value)]) == 1
    assert_truth(path)


def test_required_column_has_no_nulls_whatever_the_null_count(tmp_path):
    path = str(tmp_path / "a.parquet")
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"x": [1, 2, 3]}, schema=schema), path, row_group_size=2)
    patient = Patient.read(path)
    for row_group in range(2):
        patient.chunk(row_group, 0).get(CHUNK_META).get(STATISTICS).set(3, thrift.I64, 1)
    patient.write(path)
    assert ia.open(path).count("x IS NULL") == 0
    assert ia.open(path).count("x IS NOT NULL") == 3
    assert_truth(path)


@pytest.mark.parametrize("dictionary_size_limit", [None, 1])
def test_duckdb_includes_blobs_below_null_structs_in_bounds(tmp_path, dictionary_size_limit):
    """For Arrow's fixed-size binary, if a value is null, and the struct of another row."""
    path = str(tmp_path / "a.parquet")
    values = pa.array([b"ab", b"bb", b"bc", b"cc", None], pa.binary(2))
    structs = pa.StructArray.from_arrays([values], ["x"], mask=pa.array([True, False, False, True, False]))
    made = pa.table({"s": structs})
    limit = "" if dictionary_size_limit is None else f", DICTIONARY_SIZE_LIMIT {dictionary_size_limit}"
    with duckdb.connect() as connection:
        connection.register("made", made)
        connection.execute(f"COPY made TO '{path}' (FORMAT parquet{limit})")
    (there,) = statistics_of(path, "s.x")
    read = [row["s"] and row["s"]["x"] for row in pq.read_table(path).to_pylist()]
    assert there.max_value not in read  # wrong
    assert there.is_max_value_exact
    found = ia.open(path).aggregate({"s.x": ["min", "max"]})["s.x"]
    present = [value for value in read if value is not None]
    assert found == {"min": min(present), "max": max(present)}
    assert_truth(path)


def test_fastparquet_omits_the_repetition_of_required_columns(tmp_path):
    """Readers take a missing repetition as "required", so the column has no nulls."""
    path = str(tmp_path / "a.parquet")
    fastparquet.write(path, pd.DataFrame({"x": [1.5, np.nan, 2.5]}), stats=True, has_nulls=None)
    with ParquetInput.open(path) as file:
        (leaf,) = file.footer.leaves
    assert leaf.element.repetition_type is None
    assert leaf.max_definition_level == pq.read_metadata(path).schema.column(0).max_definition_level == 0
    assert ia.open(path).count("x IS NULL") == 0
    assert_truth(path)
