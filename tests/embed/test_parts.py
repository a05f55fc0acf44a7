"""Indexes of a file built in parts: the same bytes as by one process."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed.attach import attach_file, build_part, divide_work
from intarsia.errors import IndexBuildError
from intarsia.file import ParquetInput

ROWS, GROUPS = 900, 5


def columns(rows, seed):
    random = np.random.default_rng(seed)
    nulls = random.random(rows) < 0.1
    floats = random.choice([0.0, -0.0, np.nan, np.inf, 1.5, 2.5, *random.random(20)], rows)
    words = [f"wörd {number} 🦉" * int(number % 3 + 1) for number in random.integers(0, 60, rows)]
    return {
        "id": pa.array(random.integers(0, 1 << 40, rows)),
        "few": pa.array(random.integers(0, 9, rows), pa.int16(), mask=nulls),
        "float": pa.array(floats, mask=nulls),
        "text": pa.array(words, mask=nulls),
        "only null": pa.nulls(rows, pa.string()),
        "flag": pa.array(random.random(rows) < 0.5),
        "price": pa.array(random.integers(0, 99, rows)).cast(pa.decimal128(19, 0)),
        "place": pa.array([{"x": int(number), "list": [1, 2]} for number in random.integers(0, 5, rows)]),
    }


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A file whose row groups differ in size; one is empty."""
    path = tmp_path_factory.mktemp("parts") / "a.parquet"
    table = pa.table(columns(ROWS, 0))
    with pq.ParquetWriter(path, table.schema, data_page_size=512, write_batch_size=64) as writer:
        for start, stop in [(0, 10), (10, 400), (400, 400), (400, 401), (401, ROWS)]:
            writer.write_table(table.slice(start, stop - start))
    return path


OF_GRANULES = [
    (ia.Distinct, "text"),
    (ia.Distinct, "float"),
    (ia.Distinct, "only null"),
    (ia.Distinct, "price"),
    (ia.ZoneMap, "float"),
    (ia.ZoneMap, "text"),
    (ia.ZoneMap, "few"),
    (ia.ZoneMap, "only null"),
    (ia.ZoneMap, "place.x"),
    (ia.Hll, "text"),
    (ia.Ngram, "text"),
    (ia.Ngram, "only null"),
    (ia.BloomGranule, "text"),
]
KINDS = (ia.Distinct, ia.ZoneMap, ia.Hll, ia.Ngram)
STANDARD = [ia.PageIndex(), ia.Statistics(), ia.Bloom("id"), ia.Bloom("text")]
EVERYTHING = [
    *STANDARD,
    *(kind(column, granularity="page") for kind, column in OF_GRANULES),
    *(kind("text", granularity=size) for kind in KINDS for size in ("row_group", 50, "file")),
    ia.Histogram("few", granularity="row_group"),
    ia.Histogram("float", granularity=50),
    ia.RowMap("id"),
    ia.Sample(30),
]
#: Indexes on whole files, and of kinds that cannot be merged: each is a part.
NUM_WHOLE = len(KINDS) + 3


def parts_of(path, indexes, part_bytes=1):
    with ParquetInput.open(path) as file:
        works = divide_work(file, indexes, part_bytes)
    return [build_part(str(path), indexes, work) for work in works]


def attached(original, path, indexes, parts=()):
    shutil.copy2(original, path)
    report = attach_file(path, indexes, parts=parts)
    return path.read_bytes(), replace(report, seconds=0)


def test_the_bytes_are_those_of_one_process(original, tmp_path):
    path = tmp_path / "a.parquet"
    indexes = EVERYTHING
    expected, report = attached(original, path, indexes)
    shutil.copy2(original, path)
    parts = parts_of(path, indexes)
    assert len(parts) == GROUPS + NUM_WHOLE
    # in any order, and twice
    assert attached(original, path, indexes, [*parts[::-1], *parts]) == (expected, report)
    assert ia.verify(path).ok
    # several row groups in a part; missing parts are built
    parts = parts_of(original, indexes, 4_000)
    assert GROUPS > len(parts) - NUM_WHOLE > 1
    assert attached(original, path, indexes, parts[1:]) == (expected, report)


@pytest.mark.parametrize(
    "index",
    [
        ia.Distinct("id", max_values=20),
        ia.Distinct("text", max_values=0),
        ia.Ngram("text", n=2, max_grams=30),
        ia.Ngram("text", ignore_case=True),
        ia.Distinct("text", form="datafusion"),
    ],
    ids=repr,
)
def test_other_parameters(original, tmp_path, index):
    path = tmp_path / "a.parquet"
    expected = attached(original, path, [index])
    assert attached(original, path, [index], parts_of(original, [index])) == expected


def test_a_file_with_indexes(original, tmp_path):
    """Existing structures are kept; the parts have only the missing ones."""
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    attached(original, path, [ia.PageIndex(), ia.Distinct("text")])
    indexes = [ia.PageIndex(), ia.Bloom("text"), ia.Distinct("text"), ia.ZoneMap("few")]
    parts = parts_of(path, indexes)
    assert {name for part in parts for name in part.payloads} == {"zone_map(few):page"}
    expected, _ = attached(path, other, indexes)
    shutil.copy2(path, other)
    report = attach_file(path, indexes, parts=parts)
    assert path.read_bytes() == expected
    assert set(report.kept) == {"page_index", "distinct(text):page"}
    assert attach_file(path, indexes, parts=parts).bytes_added == 0


def test_parts_of_another_file_are_ignored(original, tmp_path):
    path = tmp_path / "a.parquet"
    indexes = [ia.PageIndex(), ia.Distinct("text"), ia.RowMap("id")]
    parts = parts_of(original, indexes)
    pq.write_table(pa.table(columns(ROWS, 1)), path, row_group_size=ROWS // GROUPS)
    shutil.copy2(path, tmp_path / "b.parquet")
    expected = attached(tmp_path / "b.parquet", path, indexes)
    assert attached(tmp_path / "b.parquet", path, indexes, parts) == expected
    assert ia.verify(path).ok


def test_an_index_that_cannot_be_built(original, tmp_path):
    path = tmp_path / "a.parquet"
    indexes = [ia.PageIndex(), ia.ZoneMap("place.list")]
    shutil.copy2(original, path)
    with pytest.raises(IndexBuildError):
        attach_file(path, indexes, parts=parts_of(path, indexes))
    assert path.read_bytes() == original.read_bytes()


def test_no_rows_and_no_row_groups(tmp_path):
    table = pa.table(columns(3, 0))
    indexes = [ia.PageIndex(), ia.Distinct("text"), ia.ZoneMap("few"), ia.Ngram("text"), ia.RowMap("id")]
    for number, rows in enumerate([[], [table[:0]], [table[:0], table, table[:0]]]):
        source = tmp_path / f"{number}.parquet"
        with pq.ParquetWriter(source, table.schema) as writer:
            for part in rows:
                writer.write_table(part)
        expected = attached(source, tmp_path / "a.parquet", indexes)
        assert attached(source, tmp_path / "a.parquet", indexes, parts_of(source, indexes)) == expected
