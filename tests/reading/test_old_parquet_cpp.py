"""Version 2 pages of parquet-cpp before 2.0.0, whose headers mark compressed bodies as uncompressed."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format import thrift
from tests.conftest import SHARED
from tests.reading.surgery import Patient
from tests.verify.damage import Damage

CREATED_BY = 6
ROWS = 2_000


def without_flags(path) -> None:
    """Write a file of several pages as old parquet-cpp does."""
    table = pa.table(
        {
            "n": pa.array(range(ROWS), pa.int64()),
            "s": [f"name {row // 40}" if row % 5 else None for row in range(ROWS)],
            "list": [[row, row + 1][: row % 3] for row in range(ROWS)],
        }
    )
    options = {"use_dictionary": False, "compression": "gzip", "max_rows_per_page": 500}
    pq.write_table(table, path, data_page_version="2.0", **options)
    damage = Damage(path)
    for column in ("n", "s", "list.list.element"):
        _, pages = damage.pages(column)
        for page in range(sum(page.is_data for page in pages)):
            damage.page_header(column, page, marked_as_uncompressed)
    damage.tree.set(CREATED_BY, thrift.BINARY, b"parquet-cpp version 1.5.1-SNAPSHOT")
    damage.write()


def marked_as_uncompressed(header):
    assert header.data_page_header_v2.is_compressed is True
    return header._replace(data_page_header_v2=header.data_page_header_v2._replace(is_compressed=False))


CORPUS_FILE = SHARED / "corpus/arrow-testing/data/parquet/ARROW-17100.parquet"
WHERES = {"made": ("n", "n < 3", "s = 'name 7'"), "found": ("col1", "col1 < 3", "col3 IS NULL")}


@pytest.fixture(params=["made", "found"])
def old_file(request, tmp_path):
    path = tmp_path / "old.parquet"
    if request.param == "made":
        without_flags(path)
    elif CORPUS_FILE.exists():
        shutil.copyfile(CORPUS_FILE, path)
    else:
        pytest.skip("needs ../shared/corpus")
    return path, *WHERES[request.param]


def test_predicates_and_indexes_have_the_values_that_pyarrow_reads(old_file):
    path, number, *wheres = old_file
    rows = pq.read_table(path)
    assert rows[number].null_count == 0
    for attached in (False, True):
        if attached:
            ia.attach(path, [ia.PageIndex(), ia.Statistics(), ia.Bloom(number), ia.Distinct(number)])
        for where in wheres:
            expected = pq.read_table(path, filters=ia_filter(where))
            assert ia.open(path).scan(where).to_arrow().equals(expected)
            columns = [number]
            assert ia.open(path).scan(where, columns=columns).to_arrow().equals(expected.select(columns))
        values = rows[number].to_pylist()
        assert ia.open(path).aggregate({number: ["min", "max"]}) == {
            number: {"min": min(values), "max": max(values)}
        }
        for value in sorted(set(values))[:5]:
            assert ia.open(path).count(f"{number} = {value}") == values.count(value)
        assert ia.verify(path).ok


def ia_filter(where):
    column, operator, *literal = where.split()
    if operator == "IS":
        return pa.compute.field(column).is_null()
    value = int(literal[0]) if operator == "<" else " ".join(literal).strip("'")
    return [(column, {"<": "<", "=": "=="}[operator], value)]


def test_the_flag_of_another_writer_is_trusted(tmp_path):
    """If a page of another writer is marked as uncompressed, its bytes are the values."""
    path = tmp_path / "t.parquet"
    without_flags(path)
    patient = Patient.read(path)
    patient.footer.set(CREATED_BY, thrift.BINARY, b"another writer version 1.5.1")
    patient.write(path)
    with pytest.raises(ia.CorruptFileError):
        ia.open(path).scan("n < 3", columns=["n"]).to_arrow()


@pytest.mark.parametrize("column", ["n", "s"])
@pytest.mark.parametrize("where", [None, "n >= 0 AND s <> 'x'", "n < 3", "s = 'name 3'"])
def test_chunks_of_old_parquet_mr_are_read_with_the_bytes_behind_them(tmp_path, column, where):
    """Before 1.2.9 it left the header of the dictionary page out of the size (PARQUET-816)."""
    path = tmp_path / "mr.parquet"
    rows = pa.table({"n": range(ROWS), "s": [f"name {row % 7}" for row in range(ROWS)]})
    pq.write_table(rows, path, compression="none", use_dictionary=["s"], write_statistics=False)
    expected = ia.open(path).scan(where, columns=[column]).to_arrow()
    damage = Damage(path)
    for name in ("n", "s"):
        meta = damage.meta(name)
        meta.set(7, thrift.I64, meta.get(7) - 14)  # total_compressed_size
    damage.tree.set(CREATED_BY, thrift.BINARY, b"parquet-mr version 1.2.8")
    damage.write()
    assert pq.read_table(path).equals(rows)
    assert ia.open(path).scan(where, columns=[column]).to_arrow().equals(expected)
    with pytest.raises(ia.CorruptFileError, match="the page claims"):
        ia.attach(path, [ia.Distinct("s")])
