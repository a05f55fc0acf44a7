"""Bloom filters of granules find every granule of a value, and detect damage in the bytes that are read."""

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
from intarsia.format import bloom
from intarsia.indexes import bloom_granule
from intarsia.indexes.bloom_granule import OpenBloomGranule
from intarsia.indexes.layout import Layout, parameters
from intarsia.predicate import bind, conditions
from intarsia.predicate.bound import is_lookup
from intarsia.rows.selection import RowSelection
from tests.indexes.probing import noticed_damage, pages_of
from tests.indexes.test_distinct import Values, columns, find, rows_where
from tests.indexes.test_rowmap import TYPES, Recorded
from tests.predicate import strategies

INDEX = ia.BloomGranule("x")


def opened(data, index=INDEX):
    return index.open(index.build(data), data.layout)


@st.composite
def cases(draw):
    values, granularity = draw(columns(TYPES))
    index = ia.BloomGranule("x", draw(st.sampled_from([0.5, 0.01, 1e-6])), granularity)
    return values, index, draw(strategies.predicates({"x": values.array.type}))


@given(cases())
def test_candidates_contain_every_matching_row(case):
    data, index, predicate = case
    opened_index = opened(data, index)
    for leaf in conditions(bind(predicate, pa.schema({"x": data.array.type}))):
        found = opened_index.candidate_rows(leaf)
        assert (found is not None) == is_lookup(leaf) == index.can_prune(leaf)
        if found is not None:
            assert (rows_where(leaf, data.array) - found).is_empty


@pytest.mark.parametrize(("fpp", "most"), [(0.5, 0.55), (0.1, 0.13), (0.01, 0.015), (0.001, 0.003)])
def test_the_false_positive_rate_is_about_fpp(fpp, most):
    array = pa.array(np.random.default_rng(5).integers(0, 1 << 60, 30_000))
    data = pages_of(array, 1000)
    index = opened(data, ia.BloomGranule("x", fpp))
    probes = 200
    hits = sum(
        index.candidate_rows(find(f"x = {-1 - probe}", pa.int64())).num_rows / 1000 for probe in range(probes)
    )
    assert hits / (probes * 30) < most
    for row in range(0, 30_000, 997):
        assert row in index.candidate_rows(find(f"x = {array[row]}", pa.int64())).rows()


def test_the_granules_of_each_queried_value_are_candidates():
    data = Values(pa.array(["a", "b", "c", None, "d", "a"]), [0, 2, 4, 6], [0, 6])
    index = opened(data, ia.BloomGranule("x", 1e-6))
    expected = {
        "x = 'a'": [(0, 2), (4, 6)],
        "x IN ('b', 'c')": [(0, 4)],
        "x = 'absent'": [],
    }
    for where, rows in expected.items():
        assert index.candidate_rows(find(where, pa.string())) == RowSelection.from_ranges(rows)
    for where in ("x IS NULL", "x <> 'a'", "x NOT IN ('a', 'b')", "x > 'a'", "x LIKE 'a%'"):
        assert index.candidate_rows(find(where, pa.string())) is None


def test_the_size_of_filters_follows_from_the_distinct_values():
    many = pa.array(range(64_000))
    few = pa.array([row % 500 for row in range(64_000)])
    file_filter = ia.BloomGranule("x", granularity="file")
    sizes = [len(file_filter.build(pages_of(array, 1000))) for array in (many, few)]
    assert sizes[0] < 64_000 * 9.7 / 8 * 1.35
    assert sizes[1] < 2100
    index = opened(pages_of(few, 1000), file_filter)
    found = [index.candidate_rows(find(f"x = {value}", pa.int64())) for value in range(1500)]
    assert all(rows.num_rows == 64_000 for rows in found[:500])
    absent = sum(not rows.is_empty for rows in found[500:])
    assert absent < 30


@given(st.integers(0, 1 << 22))
def test_a_number_of_blocks_is_rounded_up_by_little(num_blocks):
    found = bloom_granule.foldable_blocks(num_blocks)
    assert max(num_blocks, 1) <= found <= num_blocks + num_blocks // 32 + 1
    halved = found
    while halved % 2 == 0:
        halved //= 2
    assert halved < 64


def test_folded_filters_contain_the_same_values():
    hashes = np.random.default_rng(6).integers(0, 2**64, 100, dtype=np.uint64)
    wide = np.frombuffer(bloom.build(hashes, 48 * 32), "<u4").reshape(1, 48, 8)
    for num_blocks in (24, 12, 6, 3):
        narrow = np.frombuffer(bloom.build(hashes, num_blocks * 32), "<u4").reshape(1, num_blocks, 8)
        assert np.array_equal(bloom_granule.fold_filters(wide, num_blocks), narrow)


def test_a_reader_written_from_the_format_specification_finds_the_granules():
    array = pa.array([f"value {row}" for row in range(500)])
    payload = INDEX.build(pages_of(array, 100))
    num_granules, num_blocks, checksum = struct.unpack_from("<IIQ", payload)
    edges = payload[16 : 16 + 8 * (num_granules + 1)]
    assert struct.unpack(f"<{num_granules + 1}q", edges) == (0, 100, 200, 300, 400, 500)
    assert checksum == xxhash.xxh3_64_intdigest(payload[:8] + edges)
    assert num_blocks > 1
    for row in (0, 99, 100, 499):
        hash64 = xxhash.xxh64_intdigest(b"value %d" % row)
        block = (hash64 >> 32) * num_blocks >> 32
        start = 16 + len(edges) + block * (num_granules * 32 + 8)
        blocks = payload[start : start + num_granules * 32]
        (stored,) = struct.unpack_from("<Q", payload, start + len(blocks))
        assert stored == xxhash.xxh3_64_intdigest(struct.pack("<QQ", checksum, block) + blocks)
        granule = row // 100
        assert bloom.blocks_may_contain(bloom.blocks_of(blocks), hash64)[granule]


@pytest.mark.parametrize(("num_pages", "calls"), [(10, 2), (2000, 2)])
def test_a_lookup_takes_two_reads_for_any_number_of_pages(num_pages, calls):
    array = pa.array(range(num_pages * 30))
    data = pages_of(array, 30)
    payload = INDEX.build(data)
    source = Recorded(payload)
    index = INDEX.open_source(source, data.layout)
    assert source.calls == []
    leaf = find("x IN (5, 17, 200)", pa.int64())
    assert (rows_where(leaf, array) - index.candidate_rows(leaf)).is_empty
    assert len(source.calls) == calls
    read = sum(place.length for ranges in source.calls for place in ranges)
    assert read <= max(4096, num_pages * 8 + 24) + 3 * (num_pages * 32 + 8)
    assert (rows_where(leaf, array) - index.candidate_rows(leaf)).is_empty
    assert len(source.calls) == calls + 1  # the edges are known by now


def test_a_lookup_that_would_read_too_much_is_not_evaluated():
    data = pages_of(pa.array(range(1000)), 10)
    source = Recorded(INDEX.build(data))
    index = OpenBloomGranule(source, data.layout.num_rows, "x", max_probe_bytes=1000)
    assert index.candidate_rows(find("x = 1", pa.int64())) is None
    assert len(source.calls) == 1


@pytest.mark.parametrize("num_rows", [0, 1, 500])
def test_a_column_without_values(num_rows):
    data = pages_of(pa.array([None] * num_rows, pa.int64()), 100)
    assert opened(data).candidate_rows(find("x = 1", pa.int64())).is_empty


def test_a_file_without_row_groups():
    data = Values(pa.array([], pa.int64()), [0], [0])
    assert opened(data).candidate_rows(find("x = 1", pa.int64())).is_empty


def test_every_flipped_bit_that_is_read_is_detected():
    array = pa.array([3, 4, 3, None, 9])
    data = pages_of(array, 2)
    payload = INDEX.build(data)
    assert len(payload) == 16 + 4 * 8 + 3 * 32 + 8  # one block, which every lookup reads
    for bit in range(len(payload) * 8):
        damaged = bytearray(payload)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IndexPayloadError):
            INDEX.open(bytes(damaged), data.layout).candidate_rows(find("x = 4", pa.int64()))


def test_damage_is_detected_or_harmless():
    array = pa.array([f"value {row}" for row in range(600)])
    data = pages_of(array, 150)
    questions = [find(f"x = 'value {row}'", pa.string()) for row in (0, 300, 599)]
    assert noticed_damage(INDEX, data, questions) > len(INDEX.build(data)) / 10


def test_swapped_rows_of_blocks_are_detected():
    array = pa.array(range(600))
    data = pages_of(array, 150)
    payload = INDEX.build(data)
    row_bytes = 4 * 32 + 8
    head = payload[: 16 + 5 * 8]
    rows = [payload[start : start + row_bytes] for start in range(len(head), len(payload), row_bytes)]
    assert len(rows) > 3
    turned = INDEX.open(head + b"".join(rows[::-1]), data.layout)
    for value in (0, 300, 599):
        try:
            assert value in turned.candidate_rows(find(f"x = {value}", pa.int64())).rows()
        except IndexPayloadError:
            continue
        assert len(rows) % 2 == 1  # only the row in the middle was not moved


def test_a_truncated_payload_is_rejected():
    data = pages_of(pa.array(range(100)), 20)
    payload = INDEX.build(data)
    for length in range(len(payload)):
        with pytest.raises(IndexPayloadError):
            INDEX.open(payload[:length], data.layout).candidate_rows(find("x = 1", pa.int64()))


def test_a_payload_of_other_rows_is_rejected():
    payload = INDEX.build(pages_of(pa.array(range(100)), 20))
    layout = Layout(99, np.array([0, 99]), {})
    with pytest.raises(IndexPayloadError) as caught:
        INDEX.open(payload, layout).candidate_rows(find("x = 1", pa.int64()))
    assert caught.value.reason == "other-rows"


@pytest.mark.parametrize(
    ("array", "reason"),
    [(pa.array([[1]]), "nested-column"), (pa.array([True]), "type-not-hashable")],
)
def test_a_column_of_an_unsupported_type_is_rejected(array, reason):
    with pytest.raises(IndexBuildError) as caught:
        INDEX.build(pages_of(array, 1))
    assert (caught.value.reason, caught.value.column) == (reason, "x")


def test_granules_of_very_different_size_are_rejected_before_memory_is_allocated():
    data = pages_of(pa.array([1]), 1)
    data.layout = Layout(10**9 + 1000, np.array([0, *range(10**9, 10**9 + 1000)]), {})
    with pytest.raises(IndexBuildError) as caught:
        ia.BloomGranule("x", granularity="row_group").build(data)
    assert (caught.value.reason, caught.value.column) == ("index-too-large", "x")


def test_an_index_equals_one_with_its_parameters():
    index = ia.BloomGranule("a.b", 0.1, 500)
    assert ia.BloomGranule(**parameters(index)) == index


@pytest.mark.parametrize("granularity", ["page", "row_group", "file", 100])
def test_a_nested_leaf_in_a_file(tmp_path, granularity):
    path = tmp_path / "t.parquet"
    rows = 4000
    key = np.random.default_rng(7).permutation(rows)
    table = pa.table({"s": pa.array([{"key": f"k{k}"} for k in key]), "n": range(rows)})
    sizes = {"row_group_size": 1500, "data_page_size": 1000}
    pq.write_table(table, path, use_dictionary=False, compression="none", **sizes)
    ia.attach(path, [ia.PageIndex(), ia.BloomGranule("s.key", granularity=granularity)])
    opened_table = ia.open(path)
    for row in (0, 1499, 1500, 3999):
        scan = opened_table.scan(f"s.key = 'k{key[row]}'")
        assert scan.to_arrow().equals(table.slice(row, 1))
        if granularity != "file":
            assert any(index.startswith("bloom_granule") for index, _ in scan.report.pruned_by)
    absent = opened_table.scan("s.key = 'k1234567'")
    assert absent.to_arrow().num_rows == 0
    assert absent.report.to_dict()["rows"]["candidates"] <= 200
