"""Indexes on columns that are not in the file: empty names, partition columns."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia

INDEXES = [ia.Distinct, ia.Bloom, ia.ZoneMap, ia.Ngram, ia.RowMap]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "day=2024-01-01" / "part.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"city": ["Bern", "Basel"]}), path)
    return path


@pytest.mark.parametrize("index", INDEXES)
def test_an_empty_name(path, index):
    before = path.read_bytes()
    with pytest.raises(ia.ColumnNotFoundError) as caught:
        ia.attach(path, index(""))
    assert (caught.value.reason, caught.value.column) == ("no-such-column", "")
    assert path.read_bytes() == before


@pytest.mark.parametrize("index", INDEXES)
def test_a_partition_column(path, index):
    before = path.read_bytes()
    with pytest.raises(ia.IndexBuildError) as caught:
        ia.attach(path, index("day"))
    assert (caught.value.reason, caught.value.column) == ("partition-column", "day")
    assert caught.value.path == str(path)
    assert path.read_bytes() == before


def test_a_column_without_a_name(tmp_path):
    """Arrow and pandas can write one, and it can be indexed."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"": ["a", "b"]}), path)
    assert ia.attach(path, ia.Distinct("")).built


def test_a_column_of_the_file_with_the_name_of_a_folder(path):
    pq.write_table(pa.table({"day": ["2024-01-01"] * 2}), path)
    assert ia.attach(path, ia.Distinct("day")).built
