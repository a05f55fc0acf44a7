"""A page index is judged by who wrote it, which for an added one is not who wrote the file."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed import PageIndex, attach
from intarsia.format import thrift

CREATED_BY = 6


def written_by(path, writer: bytes, **options) -> str:
    """A sorted file of many pages that claims to be of some writer."""
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


def test_one_that_was_added_to_such_a_file_is_used(tmp_path):
    path = written_by(tmp_path / "t.parquet", b"parquet-go version latest")
    attach(path, [PageIndex()])
    scan = ia.open(path).scan("x = 4321")
    assert scan.to_arrow().num_rows == 1
    assert scan.report.pages["x"].read == 1
