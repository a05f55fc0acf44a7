"""Listing the files of a lake: links that lead back, and nothing at all."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia


@pytest.fixture
def folder(tmp_path):
    """A lake with a link to itself in it, another in a folder of it, and one to a folder elsewhere."""
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    for place in (lake / "year=2020", elsewhere):
        place.mkdir(parents=True)
        pq.write_table(pa.table({"a": [1]}), place / "x.parquet")
    os.symlink(lake, lake / "again")
    os.symlink(lake, lake / "year=2020" / "again")
    os.symlink(elsewhere, lake / "year=2021")
    return lake


@pytest.mark.parametrize("source", ["", "**/*.parquet", "year=*"])
def test_a_link_that_leads_back_brings_no_file_twice(folder, source):
    """Followed, two such links would bring each file 2 ** 40 times."""
    if source == "**/*.parquet":
        os.unlink(folder / "year=2020" / "again")  # `glob` itself follows both
    table = ia.open(os.path.join(folder, source) if source else folder)
    found = [os.path.relpath(file.path, folder) for file in table.files]
    assert found == ["year=2020/x.parquet", "year=2021/x.parquet"]
    assert table.count("year >= 2020") == 2


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    os.mkfifo(tmp_path / "y.parquet")
    with pytest.raises(FileNotFoundError, match=r"y\.parquet: this is not a file"):
        ia.open(tmp_path)


def test_a_source_without_files():
    class Empty:
        def list_files(self):
            return []

    with pytest.raises(FileNotFoundError, match="no file was listed"):
        ia.open(Empty())
