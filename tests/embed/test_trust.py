"""Trust in a page index depends on its own writer: Intarsia for attached ones, else the file's writer."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed import PageIndex, attach
from intarsia.format import thrift

CREATED_BY = 6


def written_by(path, writer: bytes, **options) -> str:
    """Write a sorted file of many pages that names the given writer."""
    table = pa.table({"x": pa.array(range(10_000))})
    pq.write_table(table, path, max_rows_per_page=1_000, use_dictionary=False, **options)
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    tree, _ = thrift.parse_tree(data, start)
    tree.set(CREATED_BY, thrift.BINARY, writer)
    footer = thrift.serialize_tree(tree)
    path.write_bytes(data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return str(path)


def test_the_page_index_of_an_untrusted_writer_is_not_used(tmp_path):
    path = written_by(tmp_path / "t.parquet", b"parquet-go version latest", write_page_index=True)
    scan = ia.open(path).scan("x = 4321")
    with pytest.warns(ia.IntarsiaWarning, match="parquet-go"):
        assert scan.to_arrow().num_rows == 1
    assert scan.report.pages["x"].read == 10


def test_a_page_index_attached_to_such_a_file_is_used(tmp_path):
    path = written_by(tmp_path / "t.parquet", b"parquet-go version latest")
    attach(path, [PageIndex()])
    scan = ia.open(path).scan("x = 4321")
    assert scan.to_arrow().num_rows == 1
    assert scan.report.pages["x"].read == 1
