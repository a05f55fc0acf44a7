"""Local files whose names are not UTF-8: they are read, and a column of text with them is refused."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.lake.index.lakes import age

BYTES = os.fsdecode(b"\xff\xfe")


def write(path, ids):
    """Write a file as if some time ago; pyarrow refuses the name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("wb") as file:
            pq.write_table(pa.table({"id": ids}), file)
    except OSError:
        pytest.skip("the file system refuses names that are not UTF-8")
    age(path)
    return str(path)


def test_a_folder_is_a_table_with_a_lake_index(tmp_path):
    """Its name was hashed as UTF-8, so that each query raised UnicodeEncodeError."""
    folder = tmp_path / BYTES
    for ordinal in range(2):
        write(folder / f"{ordinal}.parquet", [ordinal])
    assert ia.open(folder).count("id = 1") == 1
    for location in ("cache", "beside"):
        assert ia.open(folder).build_lake_index(location).files_added == 2
        scan = ia.open(folder).scan("id = 1")
        assert (scan.to_arrow().num_rows, scan.report.files_opened) == (1, 1)
        assert len(ia.open(folder).remove_lake_index()) == 1


def test_a_lake_index_has_the_other_files(tmp_path):
    """One such file was a reason for UnicodeEncodeError, also of a query that adds it."""
    for ordinal in range(2):
        write(tmp_path / f"{ordinal}.parquet", [ordinal])
    assert ia.open(tmp_path).build_lake_index("beside").files_added == 2
    path = write(tmp_path / f"{BYTES}.parquet", [2])
    assert [ia.open(tmp_path).count(f"id = {number}") for number in range(4)] == [1, 1, 1, 0]
    report = ia.open(tmp_path).build_lake_index("beside")
    assert (report.files_known, report.files_added) == (2, 0)
    assert [(failure.path, failure.code) for failure in report.failed] == [(path, "path-not-utf-8")]


def test_locations_of_the_other_files_are_returned(tmp_path):
    write(tmp_path / "a.parquet", [1])
    path = write(tmp_path / f"{BYTES}.parquet", [2])
    table = ia.open(tmp_path)
    assert table.locate("id = 1").num_rows == 1
    for query in (lambda: table.locate("id = 2"), lambda: table.sketches("id")):
        with pytest.raises(ia.UnsupportedFeatureError) as caught:
            query()
        assert (caught.value.reason, caught.value.path) == ("path-not-utf-8", path)


def test_a_partition_value_is_refused(tmp_path):
    write(tmp_path / "day=1" / "a.parquet", [1])
    path = write(tmp_path / f"day={BYTES}" / "a.parquet", [1])
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        ia.open(tmp_path).count("id = 1")
    assert (caught.value.reason, caught.value.path) == ("path-not-utf-8", path)
