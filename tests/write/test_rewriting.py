"""Files without some of their rows: the other rows, the schema and the form of the file stay."""

import os
import shutil
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.arrow.owned_rows import take_rows
from intarsia.errors import ChangedMeanwhileError, IndexBuildError, ReplaceError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.schema import INDEX_KEYS
from intarsia.format import thrift
from intarsia.indexes import Index, OpenIndex
from intarsia.storage import LocalFile
from intarsia.storage.hadoop_files import sidecar_path
from intarsia.storage.replace import FileIdentity
from intarsia.write.rewriting import rewrite_without
from tests.child import KILLED_AT_A_CALL, run
from tests.effort import examples
from tests.reading.exact import assert_same_rows
from tests.reading.surgery import Patient
from tests.reading.tables import pyarrow_options, tables

CORPUS = Path(__file__).parents[1] / "corpus"
GOLDEN = Path(__file__).parents[1] / "golden"
FILES = [path for folder in (CORPUS, GOLDEN) for path in sorted(folder.rglob("*.parquet"))]

#: In the header of a filter, the union of algorithms.
SPLIT_BLOCK = b"\x1c\x1c\x00\x00"

INDEXES = [
    ia.Bloom("id", fpp=0.001),
    ia.Distinct("word"),
    ia.ZoneMap("id"),
    ia.BloomGranule("word"),
    ia.RowMap("id"),
    ia.Ngram("word"),
    ia.Hll("id"),
    ia.Histogram("id"),
    ia.Sample(50),
]


def footer(path):
    with ParquetInput(LocalFile(path)) as file:
        return file.footer


def without(path, deleted):
    return rewrite_without(str(path), np.array(deleted, dtype=np.int64), FileIdentity.of(str(path)))


def names(path):
    directory = ia.inspect(path).directory
    return sorted(entry.name for entry in directory.entries) if directory is not None else []


def read(path):
    """The rows; `check` compares the metadata."""
    return pq.read_table(path, partitioning=None).replace_schema_metadata()


def rows_left(path, deleted):
    table = read(path)
    return take_rows(table, np.setdiff1d(np.arange(table.num_rows), deleted))


def check(path, before, deleted):
    """Compare a rewritten file with a copy of the old one."""
    old, new = footer(before), footer(path)
    assert new.metadata.schema == old.metadata.schema
    kept = {key: value for key, value in old.key_values.items() if key not in INDEX_KEYS}
    assert {key: value for key, value in new.key_values.items() if key not in INDEX_KEYS} == kept
    assert names(path) == names(before)
    found = ia.verify(path)
    assert found.ok, str(found)
    for leaf in old.leaves:
        groups = [group.columns[leaf.ordinal].meta_data for group in old.metadata.row_groups]
        assert {group.columns[leaf.ordinal].meta_data.codec for group in new.metadata.row_groups} <= {
            group.codec if group.codec != 5 else 7 for group in groups
        }


@pytest.mark.parametrize("source", FILES, ids=lambda path: path.stem)
def test_files_of_other_writers(tmp_path, source):
    """Each schema is kept, also those that pyarrow cannot write; it reads the same values as before."""
    path = tmp_path / "a.parquet"
    shutil.copy(source, path)
    try:
        num_rows = read(path).num_rows
    except (OSError, NotImplementedError):
        pytest.skip("pyarrow cannot read it")
    deleted = np.arange(0, num_rows, 3)
    expected = rows_left(path, deleted)
    if source.stem.startswith("retrofitted"):  # it has an index of an unknown kind
        before = path.read_bytes()
        with pytest.raises(IndexBuildError) as caught:
            without(path, deleted)
        assert (caught.value.reason, path.read_bytes()) == ("kind-unknown", before)
        return
    report = without(path, deleted)
    assert report.num_rows == expected.num_rows
    assert_same_rows(read(path), expected)
    check(path, source, deleted)


def test_numbers_with_a_length(tmp_path):
    """fastparquet writes one in the schema, which only FIXED_LEN_BYTE_ARRAY has."""
    path, before = tmp_path / "a.parquet", tmp_path / "b.parquet"
    numbers = pa.array([None, *range(1, 9)], pa.int64())
    pq.write_table(pa.table({"a": numbers, "b": numbers.cast(pa.float64())}), path)
    patient = Patient.read(path)
    for name in "ab":
        patient.element(name).set(2, thrift.I32, 64)
    patient.write(path)
    shutil.copy(path, before)
    expected = rows_left(path, [0, 3])
    without(path, [0, 3])
    assert_same_rows(read(path), expected)
    check(path, before, [0, 3])


@settings(max_examples=examples(60))
@given(st.data())
def test_any_table(tmp_path_factory, data):
    made = data.draw(tables())
    folder = tmp_path_factory.mktemp("any")
    path, before = folder / "a.parquet", folder / "before.parquet"
    try:
        pq.write_table(made.table, path, **data.draw(pyarrow_options(made)))
        pq.read_table(path)
    except pa.ArrowException:
        reject()  # a table that pyarrow refuses, or a file that it cannot read
    shutil.copy(path, before)
    num_rows = made.table.num_rows
    deleted = sorted(data.draw(st.sets(st.integers(0, max(num_rows - 1, 0)), max_size=num_rows)))
    expected = rows_left(before, deleted)
    without(path, deleted)
    assert_same_rows(read(path), expected)
    check(path, before, deleted)


OFFSET, LENGTH = 14, 15


@pytest.mark.parametrize("kind", ["booleans", "algorithm"])
def test_bloom_filters_that_cannot_be_built(tmp_path, kind):
    """parquet-mr and ClickHouse write some of booleans, whose hashes Parquet does not define."""
    path = tmp_path / "a.parquet"
    table = pa.table(
        {"id": range(1_000), "flag": [row % 3 == 0 for row in range(1_000)], "word": ["a"] * 1_000}
    )
    pq.write_table(table, path, bloom_filter_options={name: {"ndv": 1_000} for name in ("id", "word")})
    patient = Patient.read(path)
    meta = patient.chunk(0, 0).get(3)
    if kind == "booleans":
        for field, code in ((OFFSET, thrift.I64), (LENGTH, thrift.I32)):
            patient.chunk(0, 1).get(3).set(field, code, meta.get(field))
    else:
        start = patient.body.index(SPLIT_BLOCK, meta.get(OFFSET))
        patient.body[start : start + 2] = b"\x1c\x2c"
    patient.write(path)
    without(path, [7])
    assert read(path).equals(table.filter(pc.not_equal(table["id"], 7)))
    columns = ia.inspect(path).row_groups[0].columns
    assert [one.bloom_filter is not None for one in columns] == [kind == "booleans", False, True]


def write(path, **options):
    table = pa.table(
        {
            "id": pa.array(range(9_000), pa.int64()),
            "word": [f"word-{number % 2000}" for number in range(9_000)],
            "kind": pa.array([f"kind-{number % 7}" for number in range(9_000)]).dictionary_encode(),
        }
    ).replace_schema_metadata({"owner": "me"})
    pq.write_table(table, path, row_group_size=4_000, max_rows_per_page=500, compression="gzip", **options)
    return table


def test_every_index_is_rebuilt(tmp_path):
    path = tmp_path / "a.parquet"
    write(path, sorting_columns=[pq.SortingColumn(0)], data_page_version="2.0", write_page_checksum=True)
    ia.attach(path, [ia.PageIndex(), *INDEXES])
    before = shutil.copy(path, tmp_path / "before.parquet")
    without(path, [0, 17, 5_000, 8_999])
    check(path, before, [0, 17, 5_000, 8_999])
    old, new = pq.ParquetFile(before).metadata, pq.ParquetFile(path).metadata
    assert [new.row_group(group).num_rows for group in range(3)] == [3_998, 3_999, 999]
    assert new.row_group(0).sorting_columns == old.row_group(0).sorting_columns
    with ParquetInput(LocalFile(path)) as file, ParquetInput(LocalFile(before)) as original:
        for opened in (file, original):
            opened.load_page_index([ChunkKey(0, 0)])
            assert opened.locations(ChunkKey(0, 0)).rows.starts[:3].tolist() == [0, 500, 1_000]
        sizes = [one.footer.metadata.row_groups[0].columns[0].meta_data for one in (file, original)]
        assert sizes[0].bloom_filter_length == sizes[1].bloom_filter_length
        assert {page.page_type for page in sizes[0].encoding_stats} == {
            page.page_type for page in sizes[1].encoding_stats
        }
    assert ia.open(path).scan("word = 'word-17'").to_arrow()["id"].to_pylist() == [2017, 4017, 6017, 8017]


def test_no_byte_of_a_deleted_value_remains(tmp_path):
    """Not in pages, dictionaries, bounds, embedded indexes or the footer."""
    path = tmp_path / "a.parquet"
    words = [f"word-{number % 50}" for number in range(5_000)]
    words[1234] = "zz-the-name-of-a-person"  # the maximum
    table = pa.table({"word": words, "coded": pa.array(words).dictionary_encode()})
    pq.write_table(table, path, compression="none", write_page_index=True)
    ia.attach(
        path, [ia.PageIndex(), ia.Distinct("word"), ia.ZoneMap("word"), ia.Sample(5_000), ia.Bloom("word")]
    )
    assert b"zz-the-name" in path.read_bytes()
    without(path, [1234])
    assert b"zz-the-name" not in path.read_bytes()
    assert ia.open(path).scan("word = 'zz-the-name-of-a-person'").count() == 0


def test_bounds_of_decimals_and_of_int96(tmp_path):
    """pyarrow writes their bytes, whose order is another one."""
    path = tmp_path / "a.parquet"
    days = pa.array(range(-500, 500), pa.int64()).cast(pa.timestamp("s"))
    amounts = [Decimal(number) for number in range(-500, 500)]
    table = pa.table({"amount": pa.array(amounts, pa.decimal128(30)), "day": days})
    options = {"use_deprecated_int96_timestamps": True, "max_rows_per_page": 100}
    pq.write_table(table, path, write_page_index=True, **options)
    ia.attach(path, [ia.PageIndex(int96="order")])
    before = shutil.copy(path, tmp_path / "before.parquet")
    without(path, [0, 999])
    check(path, before, [0, 999])
    for column in footer(path).metadata.row_groups[0].columns:
        assert column.column_index_offset
    statistics = pq.ParquetFile(path).metadata.row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == (Decimal(-499), Decimal(498))
    assert ia.open(path).scan("amount = 498 AND day < TIMESTAMP '1970-01-01 00:08:20'").count() == 1
    found = ia.open(path).scan("amount < -480")
    assert (found.count(), found.report.to_dict()["pages"]["read"] <= 2) == (19, True)


def test_all_rows(tmp_path):
    path = tmp_path / "a.parquet"
    write(path)
    ia.attach(path, [ia.PageIndex(), ia.Distinct("word"), ia.Bloom("id")])
    schema = pq.read_schema(path)
    assert without(path, range(9_000)).num_rows == 0
    assert pq.read_table(path).num_rows == 0
    assert pq.read_schema(path).equals(schema)


def test_a_file_that_changed(tmp_path):
    path = tmp_path / "a.parquet"
    write(path)
    identity = FileIdentity.of(str(path))
    write(tmp_path / "b.parquet")
    os.replace(tmp_path / "b.parquet", path)
    before = path.read_bytes()
    with pytest.raises(ChangedMeanwhileError):
        rewrite_without(str(path), np.array([1]), identity)
    with pytest.raises(ChangedMeanwhileError):
        without(path, [9_000])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.parquet"]


@dataclass(frozen=True)
class Replacing(Index):
    """An index that replaces a file while it is built."""

    kind: ClassVar[str] = "replacing"
    version: ClassVar[int] = 1
    other: ClassVar[list] = []

    columns: ClassVar[tuple] = ()

    def can_prune(self, predicate):
        return False

    def build(self, chunk):
        while self.other:
            os.replace(*self.other.pop())
        return b"any"

    def open(self, payload, layout):
        return OpenIndex()


@pytest.mark.parametrize("shift", [1, 1_000_000])
def test_a_file_that_is_replaced_meanwhile(tmp_path, announce, shift):
    """The values are compared with those of the old file, whose footer does not fit the new one."""
    announce({"replacing": f"{__name__}:Replacing"})
    path, new = tmp_path / "a.parquet", tmp_path / "b.parquet"
    rows = write(path)
    ia.attach(path, Replacing())
    numbers = pa.array(range(shift, shift + 9_000), pa.int64())
    pq.write_table(rows.set_column(0, "id", numbers), new, row_group_size=4_000, compression="gzip")
    before = new.read_bytes()
    Replacing.other.append((new, path))
    with pytest.raises(ChangedMeanwhileError):
        without(path, [1])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.parquet"]


def test_a_file_of_a_sink(tmp_path):
    path = tmp_path / "a.parquet"
    write(path)
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    (log / "0").write_text(f'v1\n{{"path": "file://{path}", "size": {path.stat().st_size}}}\n')
    with pytest.raises(ReplaceError) as caught:
        without(path, [1])
    assert caught.value.reason == "listed-by-sink"


def test_a_damaged_page(tmp_path):
    path = tmp_path / "a.parquet"
    write(path, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[2_000] ^= 1
    path.write_bytes(data)
    with pytest.raises((OSError, ia.IntarsiaError)):
        without(path, [1])
    assert path.read_bytes() == data


#: Rewrites a file, and is killed at the call with a number of a function of the system.
PROGRAM = (
    KILLED_AT_A_CALL
    + """
import numpy as np
for name in ("open", "write", "ftruncate", "fsync", "replace", "unlink", "fchmod"):
    setattr(os, name, counted(getattr(os, name)))
from intarsia.write.rewriting import rewrite_without
from intarsia.storage.replace import FileIdentity
rewrite_without(sys.argv[1], np.arange(0, 9000, 2), FileIdentity.of(sys.argv[1]))
print(count)
"""
)


def test_killed_at_every_call(tmp_path):
    """The file is the old or the new one, and the next run removes what is left."""
    source, path = tmp_path / "source", tmp_path / "lake" / "a.parquet"
    path.parent.mkdir()
    write(source)
    ia.attach(source, [ia.PageIndex(), ia.Distinct("word")])
    shutil.copy(source, path)
    calls = int(run(PROGRAM, path, -1))
    new = path.read_bytes()
    assert calls > 10
    seen = set()
    for call in range(1, calls + 1):
        shutil.copy(source, path)
        Path(sidecar_path(str(path))).write_bytes(b"crc\0")
        run(PROGRAM, path, call)
        seen.add(path.read_bytes() == new)
        assert path.read_bytes() in (new, source.read_bytes())
    assert seen == {True, False}
    shutil.copy(source, path)
    run(PROGRAM, path, -1)
    assert os.listdir(path.parent) == ["a.parquet"]
