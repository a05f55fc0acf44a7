"""Trust in a page index depends on its own writer: Intarsia for attached ones, else the file's writer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed import Bloom, PageIndex, Statistics, attach
from intarsia.format import thrift, thrift_tree
from intarsia.format.bloom import serialize_bloom_filter
from tests.reading.surgery import Patient

CREATED_BY = 6


SORTED = pa.table({"x": pa.array(range(10_000))})


def written_by(path, writer: bytes, table=SORTED, **options) -> str:
    """Write a file of many pages without dictionaries, by default sorted, that names the given writer."""
    pq.write_table(table, path, **{"max_rows_per_page": 1_000, "use_dictionary": False} | options)
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    tree, _ = thrift_tree.parse_tree(data, start)
    tree.set(CREATED_BY, thrift.BINARY, writer)
    footer = thrift_tree.serialize_tree(tree)
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


def add_empty_filters(path) -> None:
    """Give each chunk a Bloom filter without values."""
    patient, data = Patient.read(path), serialize_bloom_filter(bytes(32))
    for group in patient.footer.get(4).items:
        meta = group.get(1).items[0].get(3)
        meta.set(14, thrift.I64, len(patient.body))
        meta.set(15, thrift.I32, len(data))
        patient.body += data
    patient.write(path)


@pytest.mark.parametrize("lake_index", [False, True])
def test_bloom_filters_of_arrow_go_before_18_8(tmp_path, lake_index):
    """They lack the values of Arrow dictionaries. Filters that are attached to such files are used."""
    table = pa.table({"x": range(0, 20_000, 2)})
    options = {"table": table, "row_group_size": 5_000}
    paths = [tmp_path / f"{name}.parquet" for name in "abcd"]
    for path, version in zip(paths, (b"18.7.0", b"18.7.0", b"18.7.0", b"18.8.0"), strict=True):
        written_by(path, b"parquet-go version " + version, use_dictionary=True, **options)
        add_empty_filters(path)
    assert not attach(str(paths[3]), [Bloom("x")]).changed  # the filters of a trusted writer are kept
    paths[3].unlink()
    attach(str(paths[2]), [Bloom("x")])
    if lake_index:
        ia.open(str(tmp_path)).build_lake_index("beside")
    lake = ia.open(str(tmp_path))
    assert lake.count("x = 4002") == 3
    assert lake.count("x = 4001") == 0
    assert ia.open(str(paths[2])).explain("x = 4001").row_groups_read == 0
    assert ia.verify(str(paths[2])).ok
    (chunk,) = ia.inspect(str(paths[0])).row_groups[0].columns
    assert any("18.8" in reason for reason in chunk.ignored_metadata)


@pytest.mark.parametrize("column", ["same", "cut"])
def test_computed_statistics_of_such_a_file_are_used(tmp_path, column):
    """Also if they equal those of the writer."""
    table = pa.table({"same": ["a", "b"] * 50, "cut": ["x" * 80, "y" * 80] * 50})
    path = written_by(tmp_path / "t.parquet", b"parquet-go version latest", table=table)
    plain = Path(path).read_bytes()
    beyond = f"{column} > 'z'"
    assert ia.open(path).explain(beyond).row_groups_read == 1
    assert {finding.rule for finding in ia.verify(path).findings} == {"writer-not-trusted"}
    assert attach(path, [Statistics()]).built == ("statistics",)
    assert ia.open(path).explain(beyond).row_groups_read == 0
    chunks = {chunk.column: chunk for chunk in ia.inspect(path).row_groups[0].columns}
    assert chunks[column].bounds_trusted
    assert ia.verify(path).findings == ()
    for index in (Statistics(), ia.Distinct(column)):  # kept by later runs
        assert "statistics" in attach(path, [index, Statistics()] if index != Statistics() else [index]).kept
        assert ia.open(path).explain(beyond).row_groups_read == 0
        assert ia.verify(path).findings == ()
    assert ia.detach(path).removed[0] == "statistics"
    assert Path(path).read_bytes() == plain


def test_only_a_column_with_all_statistics_computed_is_trusted(tmp_path):
    """Here a chunk cannot be decoded, so it keeps the statistics of the writer."""
    table = pa.table({"s": ["a", "b"] * 50, "t": ["c", "d"] * 50})
    options = {"row_group_size": 50, "use_dictionary": True}
    path = written_by(tmp_path / "t.parquet", b"parquet-go version latest", table=table, **options)
    chunk = pq.read_metadata(path).row_group(1).column(0)
    data = bytearray(Path(path).read_bytes())
    start = chunk.dictionary_page_offset
    data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    Path(path).write_bytes(data)
    report = attach(path, [Statistics()])
    assert [(note.column, note.row_group) for note in report.notes] == [("s", 1)]
    chunks = [chunk for group in ia.inspect(path).row_groups for chunk in group.columns]
    assert [chunk.bounds_trusted for chunk in chunks] == [False, True, False, True]
    assert [finding.column for finding in ia.verify(path, quick=True).findings] == []
