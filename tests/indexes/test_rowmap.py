"""A RowMap finds every row of a value, reads little, and detects damage in the bytes that it reads."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

import intarsia as ia
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.indexes import rowmap
from intarsia.indexes.base import PayloadBytes
from intarsia.indexes.layout import Layout, parameters
from intarsia.predicate import Comparison, bind, conditions
from intarsia.predicate.bound import is_lookup
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange
from tests.indexes.probing import noticed_damage
from tests.indexes.test_distinct import Values, find, rows_where
from tests.predicate import strategies
from tests.reading.pages import layout_of, open_recorded, touched

TYPES = [kind for kind in strategies.TYPES if not pa.types.is_boolean(kind)]
INDEX = ia.RowMap("x")


class Recorded(PayloadBytes):
    """A payload that records its reads, in one list per call."""

    def __init__(self, payload):
        super().__init__(payload)
        object.__setattr__(self, "calls", [])

    def read_ranges(self, ranges):
        self.calls.append(list(ranges))
        return super().read_ranges(ranges)


def one_group(array):
    return Values(array, [0, len(array)], [0, len(array)])


def opened(data):
    return INDEX.open(INDEX.build(data), data.layout)


@st.composite
def cases(draw):
    kind = draw(st.sampled_from(TYPES))
    array = draw(strategies.arrays(kind, draw(st.integers(0, 30))))
    cuts = draw(st.lists(st.integers(0, len(array)), max_size=4, unique=True))
    groups = sorted({0, len(array), *cuts})
    return Values(array, groups, groups), draw(strategies.predicates({"x": kind}))


@given(cases())
def test_candidates_contain_every_matching_row(case):
    data, predicate = case
    row_map = opened(data)
    for leaf in conditions(bind(predicate, pa.schema({"x": data.array.type}))):
        found = row_map.candidate_rows(leaf)
        assert (found is not None) == is_lookup(leaf) == INDEX.can_prune(leaf)
        if found is not None:
            # with few rows no two hashes collide
            assert found == rows_where(leaf, data.array)


@pytest.mark.parametrize("num_rows", [1, 2, 255, 256, 257, 1000, 20_000, 70_000])
def test_every_row_is_found_for_any_number_of_rows(num_rows):
    values = np.random.default_rng(num_rows).permutation(num_rows)
    row_map = opened(one_group(pa.array(values)))
    for row in {0, num_rows // 2, num_rows - 1}:
        found = row_map.candidate_rows(find(f"x = {values[row]}", pa.int64()))
        assert row in found.rows()
        assert found.num_rows < 5
    absent = row_map.candidate_rows(find(f"x = {num_rows + 7}", pa.int64()))
    assert absent.num_rows < 5


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        (pa.array([1, -1, None, 5], pa.int8()), pa.int64()),
        (pa.array([1, 5, None], pa.uint16()), pa.uint64()),
        (pa.array([1.5, 0.0, -0.0, 5.0, float("nan")], pa.float32()), pa.float64()),
        (pa.array([1.0, 0.0, -0.0, 5.0], pa.float16()), pa.float32()),
    ],
)
def test_a_narrower_column_is_found_by_the_literals_of_a_wider_one(stored, asked):
    row_map = opened(one_group(stored))
    for literal in (0, 1, -1, 5):
        for leaf in conditions(bind(Comparison("x", "=", literal), pa.schema({"x": asked}))):
            assert row_map.candidate_rows(leaf) == rows_where(leaf, stored)


def test_long_strings_and_unicode():
    array = pa.array(["", "é", "x" * 100_000, "\U0001f600" * 40, "x" * 99_999 + "y", None])
    row_map = opened(one_group(array))
    for row, text in enumerate(array.to_pylist()[:-1]):
        assert row_map.candidate_rows(find(f"x = '{text}'", pa.string())) == RowSelection.from_rows([row])


@pytest.mark.parametrize("num_rows", [0, 1, 500])
def test_a_column_without_values(num_rows):
    row_map = opened(one_group(pa.array([None] * num_rows, pa.int64())))
    assert row_map.candidate_rows(find("x = 1", pa.int64())).is_empty
    assert row_map.candidate_rows(find("x IS NULL", pa.int64())) is None


@pytest.mark.parametrize("num_rows", [5, 3000])
def test_a_reader_that_knows_only_the_format_page_finds_the_rows(num_rows):
    values = [row * row % 1009 for row in range(num_rows)]
    payload = INDEX.build(one_group(pa.array([None if value == 4 else value for value in values])))
    row_bits = (num_rows - 1).bit_length()
    bucket_bits = max(row_bits - 8, 0)
    entry_bytes = -(-(row_bits + 16) // 8)
    hash_bits = min(bucket_bits + 8 * entry_bytes, 64) - row_bits
    slots = struct.unpack_from(f"<{2 * 2**bucket_bits + 1}Q", payload)
    entries = payload[8 * len(slots) :]
    assert slots[-1] * entry_bytes == len(entries) == entry_bytes * sum(value != 4 for value in values)
    for value in (0, 1, 4, 9, 1000):
        hash64 = xxhash.xxh64_intdigest(struct.pack("<q", value))
        bucket = hash64 >> 64 - bucket_bits
        check = (hash64 >> 64 - hash_bits) & ((1 << hash_bits - bucket_bits) - 1)
        start, checksum, stop = slots[2 * bucket : 2 * bucket + 3]
        data = entries[start * entry_bytes : stop * entry_bytes]
        assert checksum == xxhash.xxh3_64_intdigest(struct.pack("<QQQ", num_rows, bucket, 1) + data)
        numbers = [
            int.from_bytes(data[at : at + entry_bytes], "little") for at in range(0, len(data), entry_bytes)
        ]
        assert numbers == sorted(numbers)
        rows = [number & ((1 << row_bits) - 1) for number in numbers if number >> row_bits == check]
        assert rows == [row for row, other in enumerate(values) if other == value != 4]


def test_a_lookup_takes_two_reads_for_any_number_of_values():
    array = pa.array(np.random.default_rng(3).permutation(100_000))
    payload = INDEX.build(one_group(array))
    source = Recorded(payload)
    row_map = INDEX.open_source(source, one_group(array).layout)
    assert source.calls == []
    leaf = find("x IN (5, 17, 40000, 99999, 1000000)", pa.int64())
    assert (rows_where(leaf, array) - row_map.candidate_rows(leaf)).is_empty
    assert len(source.calls) == 2
    read = sum(place.length for ranges in source.calls for place in ranges)
    assert read < 5 * 2500 < len(payload) / 20


def test_a_value_that_fills_a_bucket_is_not_evaluated_and_takes_no_space():
    rare = np.arange(1, 60_001)
    often = np.zeros(rowmap.MAX_BUCKET_ENTRIES + 1, dtype=np.int64)
    array = pa.array(np.random.default_rng(4).permutation(np.concatenate([rare, often])))
    data = one_group(array)
    row_map = opened(data)
    assert row_map.candidate_rows(find("x = 0", pa.int64())) is None
    assert row_map.candidate_rows(find("x IN (0, 5)", pa.int64())) is None
    evaluated = 0
    for value in range(1, 60_000, 997):
        leaf = find(f"x = {value}", pa.int64())
        found = row_map.candidate_rows(leaf)
        if found is not None:
            evaluated += 1
            assert (rows_where(leaf, array) - found).is_empty
    assert evaluated > 55
    assert len(INDEX.build(data)) < 6 * len(rare)


def test_a_list_of_too_many_values_is_not_looked_up():
    leaf = find(f"x IN ({', '.join(map(str, range(2000)))})", pa.int64())
    assert not INDEX.can_prune(leaf)
    assert opened(one_group(pa.array([1, 2]))).candidate_rows(leaf) is None


@pytest.mark.parametrize("num_rows", [3, 600])
def test_damage_is_detected_or_harmless(num_rows):
    array = pa.array([f"value {row}" for row in range(num_rows)])
    data = one_group(array)
    questions = [find(f"x = 'value {row}'", pa.string()) for row in (0, num_rows // 2, num_rows - 1)]
    noticed = noticed_damage(INDEX, data, questions, step=1 if num_rows < 10 else 3)
    assert noticed > len(INDEX.build(data)) / 10


def test_every_flipped_bit_that_is_read_is_detected():
    array = pa.array(range(100, 140))
    data = one_group(array)
    payload = INDEX.build(data)
    for bit in range(len(payload) * 8):
        damaged = bytearray(payload)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IndexPayloadError):
            INDEX.open(bytes(damaged), data.layout).candidate_rows(find("x = 117", pa.int64()))


def test_a_truncated_payload_is_rejected():
    data = one_group(pa.array(range(300)))
    payload = INDEX.build(data)
    for length in range(len(payload)):
        with pytest.raises(IndexPayloadError):
            INDEX.open(payload[:length], data.layout).candidate_rows(find("x IN (1, 2, 3, 4)", pa.int64()))


@pytest.mark.parametrize("num_rows", [0, 299, 301, 512, 513, 100_000, 1 << 32])
def test_a_payload_of_other_rows_is_rejected(num_rows):
    payload = INDEX.build(one_group(pa.array(range(300))))
    layout = Layout(num_rows, np.array([0, num_rows], dtype=np.int64), {})
    with pytest.raises(IndexPayloadError):
        INDEX.open(payload, layout).candidate_rows(find("x = 7", pa.int64()))


def test_widths_fit_any_number_of_rows():
    for bits in range(33):
        for num_rows in {1 << bits, (1 << bits) - 1}:
            widths = rowmap.Widths.of(num_rows)
            key = widths.keys(np.array([2**64 - 1], np.uint64), max(num_rows - 1, 0))[0]
            assert int(key) >> widths.entry_bits == widths.num_buckets - 1
            assert int(key) & ((1 << widths.row_bits) - 1) == max(num_rows - 1, 0)
            assert widths.entry_bits <= 8 * widths.entry_bytes <= 48
            if num_rows <= 1 << 28:
                assert widths.entry_bits - widths.row_bits >= 16


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (pa.array([[1]]), "nested-column"),
        (pa.array([True]), "type-not-hashable"),
        (pa.nulls(1), "type-not-hashable"),
    ],
)
def test_a_column_of_an_unsupported_type_is_rejected(array, reason):
    with pytest.raises(IndexBuildError) as caught:
        INDEX.build(one_group(array))
    assert (caught.value.reason, caught.value.column) == (reason, "x")


def test_too_many_rows_are_rejected():
    data = one_group(pa.array([1]))
    data.layout = Layout((1 << 32) + 1, np.array([0, (1 << 32) + 1]), {})
    with pytest.raises(IndexBuildError) as caught:
        INDEX.build(data)
    assert caught.value.reason == "too-many-rows"


def test_an_index_equals_one_with_its_parameters():
    assert ia.RowMap(**parameters(ia.RowMap("a.b"))) == ia.RowMap("a.b")


# --- in a file ---


@pytest.fixture(scope="module")
def unsorted_file(tmp_path_factory):
    rows = 6000
    random = np.random.default_rng(8)
    table = pa.table(
        {
            "id": random.permutation(rows),
            "name": [f"name {row}" for row in range(rows)],
            "nested": [{"key": f"k{row * 7919 % rows}"} for row in range(rows)],
        }
    )
    path = tmp_path_factory.mktemp("rowmap") / "t.parquet"
    pq.write_table(
        table, path, row_group_size=2500, data_page_size=1000, compression="none", use_dictionary=False
    )
    ia.attach(path, [ia.PageIndex(), ia.RowMap("id"), ia.RowMap("nested.key")])
    return table, path


@pytest.mark.parametrize("row", [0, 2499, 2500, 4321, 5999])
def test_a_lookup_in_an_unsorted_column_reads_one_page_per_column(unsorted_file, row):
    table, path = unsorted_file
    scanned, ranges = open_recorded(path)
    scan = scanned.scan(f"id = {table['id'][row]}", columns=["id", "name"])
    assert scan.to_arrow().equals(table.select(["id", "name"]).slice(row, 1))
    layout = layout_of(path)
    embedded, rest = split_at_blobs(path, ranges)
    group = int(np.searchsorted([2500, 5000], row, side="right"))
    read = touched(layout, rest)
    assert read.pages == {name: layout.pages_with(name, [row]) for name in ("id", "name")}
    assert all(len(pages) == 1 for pages in read.pages.values())
    # a chunk of one page needs no OffsetIndex
    rows_of_group = range([0, 2500, 5000][group], [2500, 5000, 6000][group])
    many = [name for name in ("id", "name") if len(layout.pages_with(name, rows_of_group)) > 1]
    assert (group < 2) == bool(many)
    assert read.indexes >= {f"offset_index {name} {group}" for name in many}
    # the header of the blob, a slot of the table, and the bucket
    assert [place.length for place in embedded][:2] == [48, 24]
    assert len(embedded) == 3
    assert embedded[2].length < 2500


def split_at_blobs(path, ranges):
    with ParquetInput.open(path) as file:
        blobs = [ByteRange(e.offset, e.offset + e.length) for e in file.directory.entries]
    inside = [place for place in ranges if any(b.start <= place.start < b.stop for b in blobs)]
    return inside, [place for place in ranges if place not in inside]


def test_a_nested_leaf(unsorted_file):
    table, path = unsorted_file
    row = 1234
    key = table["nested"][row]["key"].as_py()
    scan = ia.open(path).scan(f"nested.key = '{key}'")
    assert scan.to_arrow().equals(table.slice(row, 1))
    assert any(index.startswith("row_map") for index, _ in scan.report.pruned_by)


def test_damage_in_a_file_is_reported_once_and_loses_no_rows(unsorted_file, tmp_path):
    table, path = unsorted_file
    with ParquetInput.open(path) as file:
        entry = next(e for e in file.directory.entries if e.columns == (("id",),))
    data = bytearray(path.read_bytes())
    for place in range(entry.offset + 48, entry.offset + entry.length, 64):
        data[place] ^= 1
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(data)
    with pytest.warns(ia.IntarsiaWarning, match="row_map"):
        found = ia.open(damaged).scan(f"id = {table['id'][777]}").to_arrow()
    assert found.equals(table.slice(777, 1))
