"""The cheapest proof is used first, and a proof is not used if it costs more than it could save."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.predicate import bind, parse_filters, parse_sql
from intarsia.read.file_plan import Estimates, prune
from intarsia.read.pruner import combine, conditions_of
from intarsia.rows.selection import RowSelection
from tests.counting import arguments_of, profiling, python_calls
from tests.leaves import CostlyQuery
from tests.reading.pages import footer_bytes, layout_of, open_recorded, run, touched

GROUPS, ROWS_PER_GROUP, PAGE_ROWS = 12, 20_000, 4000


def part_keys() -> pa.Table:
    """Like ``l_partkey`` of TPC-H: each row group has most of its values once or twice, in random order."""
    random = np.random.default_rng(11)
    keys = random.integers(0, 100_000, GROUPS * ROWS_PER_GROUP) * 2
    keys[3 * ROWS_PER_GROUP + 17] = 77_777  # the only odd key
    comments = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(40), len(keys), [None, pa.py_buffer(random.bytes(40 * len(keys)))]
    )
    return pa.table(
        {"partkey": keys, "tax": random.integers(0, 9, len(keys)).astype(np.int8), "comment": comments}
    )


@pytest.fixture(scope="module")
def lineitem(tmp_path_factory):
    path = tmp_path_factory.mktemp("lineitem") / "lineitem.parquet"
    options = {"use_dictionary": ["partkey"], "dictionary_pagesize_limit": 1 << 24}
    options |= {"write_page_index": True, "max_rows_per_page": PAGE_ROWS, "compression": "none"}
    pq.write_table(part_keys(), path, row_group_size=ROWS_PER_GROUP, **options)
    ia.attach(path, [ia.RowMap("partkey")])
    return path


def of_the_original(path, ranges):
    """The ranges without those in blobs of embedded indexes."""
    with ParquetInput.open(path) as file:
        blobs = [(entry.offset, entry.offset + entry.length) for entry in file.directory.entries]
    return [place for place in ranges if not any(start <= place.start < stop for start, stop in blobs)]


def dictionary_bytes(layout, column="partkey"):
    return sum(place.length for place in layout.dictionaries[column])


@pytest.mark.parametrize(("key", "groups"), [(77_777, [3]), (77_779, [])])
def test_row_map_is_probed_before_dictionaries_are_read(lineitem, key, groups):
    layout = layout_of(lineitem)
    assert dictionary_bytes(layout) > 3 << 19
    rows, ranges, report = run(lineitem, f"partkey = {key}")
    assert rows.num_rows == len(groups)
    read = touched(layout, of_the_original(lineitem, ranges))
    assert len(read.dictionaries.get("partkey", [])) == len(groups)  # to decode the page of the row
    assert {name for name in read.pages if read.pages[name]} == (
        {"partkey", "tax", "comment"} if groups else set()
    )
    assert report["bytes"]["read"] - footer_bytes(lineitem) < 1 << 19
    assert report["pruned_by"][0]["index"].startswith("row_map")


def test_plan_reads_only_the_probe(lineitem):
    recorded, ranges = open_recorded(lineitem)
    report = recorded.explain("partkey = 77779")
    assert report.row_groups_read == 0
    assert sum(place.length for place in ranges) - footer_bytes(lineitem) < 4096
    assert report.requests == 5  # two for the footer; the map's header, slot and bucket


def test_useless_lookup_under_or_is_not_made(tmp_path):
    """No index can exclude values of ``tax``, so the map would exclude no row."""
    path = tmp_path / "t.parquet"
    pq.write_table(part_keys().slice(0, 100_000), path, row_group_size=50_000, use_dictionary=False)
    ia.attach(path, [ia.RowMap("partkey")])
    recorded, ranges = open_recorded(path)
    assert recorded.explain("partkey = 77779 OR tax = 5").row_groups_read == 2
    assert sum(place.length for place in ranges) == footer_bytes(path)
    assert recorded.explain("partkey = 77779 OR tax = 99").row_groups_read == 0


def test_inline_distinct_excludes_a_file_by_its_footer(tmp_path):
    path = tmp_path / "t.parquet"
    words = [f"word {2 * (row % 7)}" for row in range(40_000)]
    options = {"write_page_index": True, "bloom_filter_options": {"word": {"ndv": 10}}}
    pq.write_table(pa.table({"word": words}), path, row_group_size=10_000, **options)
    ia.attach(path, [ia.Distinct("word", granularity="file")])
    recorded, ranges = open_recorded(path)
    report = recorded.scan("word = 'word 3'")
    assert report.to_arrow().num_rows == 0
    assert sum(place.length for place in ranges) == footer_bytes(path)
    assert report.report.requests == 2  # for a local file: the footer's length, and the footer
    assert report.report.bytes_index == 0
    assert list(report.report.pruned_by) == [("distinct(word):file", "word")]


def test_rows_that_are_cheaper_than_a_proof_are_read(tmp_path):
    """The few rows that statistics leave are smaller than a probe of the map."""
    path = tmp_path / "t.parquet"
    numbers = np.random.default_rng(0).permutation(200_000)
    table = pa.table({"number": np.concatenate([numbers + 1000, [1, 3, 5]])})
    pq.write_table(table, path, row_group_size=200_000, use_dictionary=False)
    ia.attach(path, [ia.RowMap("number")])
    _, _, report = run(path, "number = 4")
    assert report["bytes"]["index"] == 0
    assert report["row_groups"]["read"] == 1
    _, _, report = run(path, "number = 4000")
    assert 0 < report["bytes"]["index"] < 4096
    assert report["rows"]["candidates"] == 1


# --- many conditions ---


def or_of_equalities(count):
    # every second pair with <, because equalities of one column become one list
    terms = [f"{'xy'[place % 2]} {'=<'[place // 2 % 2]} {3 * place}" for place in range(count)]
    return bind(parse_sql(" OR ".join(terms)), SCHEMA)


def or_of_ranges(count):
    terms = [f"{'xy'[place % 2]} BETWEEN {7 * place} AND {7 * place + 3}" for place in range(count)]
    return bind(parse_sql(" OR ".join(terms)), SCHEMA)


def normal_form(count):
    return bind(parse_filters([[("x", "=", 5 * n), ("y", ">", n)] for n in range(count)]), SCHEMA)


def and_of_alternatives(count):
    terms = [f"(x <> {place} OR y <> {place})" for place in range(count)]
    return bind(parse_sql(" AND ".join(terms)), SCHEMA)


SCHEMA = pa.schema({"x": pa.int64(), "y": pa.int64(), "z": pa.int64()})


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A file in which every kind of proof applies to ``x`` or ``y``."""
    path = tmp_path_factory.mktemp("numbers") / "numbers.parquet"
    random = np.random.default_rng(1)
    columns = {name: random.integers(0, 1000, 4000) for name in "xyz"}
    options = {"write_page_index": True, "max_rows_per_page": 250, "use_dictionary": ["y"]}
    options |= {"bloom_filter_options": {"x": {"ndv": 1000}}}
    pq.write_table(pa.table(columns, schema=SCHEMA), path, row_group_size=1000, **options)
    ia.attach(path, [ia.Distinct("x", granularity=500), ia.RowMap("y"), ia.ZoneMap("y")])
    return path


def calls_of(path, predicate):
    """Calls of Python functions of this package, and of the algebra of row selections, to prune a file."""
    counts = {"all": 0, "algebra": 0}
    algebra = {RowSelection.__and__.__code__, RowSelection.__or__.__code__, RowSelection.__sub__.__code__}
    algebra |= {RowSelection.union_of.__func__.__code__}

    def count(frame, event, _):
        if event == "call":
            counts["all"] += 1
            counts["algebra"] += frame.f_code in algebra

    with ParquetInput.open(path) as file:
        assert file.leaf_types  # the schema has been read
        with profiling(count):
            prune(CostlyQuery.of(file, predicate, []))
    return counts


@pytest.mark.parametrize("make", [or_of_equalities, or_of_ranges, normal_form, and_of_alternatives])
def test_cost_is_linear_in_the_number_of_conditions(numbers, make):
    few, many = (calls_of(numbers, make(count)) for count in (100, 400))
    for what in few:
        assert few[what] < many[what] <= 4.4 * few[what], what


@pytest.mark.parametrize("make", [or_of_equalities, or_of_ranges, normal_form, and_of_alternatives])
def test_each_source_is_combined_once(numbers, make):
    """The predicate is traversed a few times per source, regardless of the number of conditions."""
    nodes = []
    for count in (50, 200):
        with ParquetInput.open(numbers) as file:
            query = CostlyQuery.of(file, make(count), [])
            walks = arguments_of(lambda: prune(query), of=combine)  # noqa: B023
        nodes.append(sum(len(list(conditions_of(call["term"]))) for call in walks))
    assert nodes[1] <= 4.4 * nodes[0]


def test_estimates_are_linear_in_the_number_of_conditions(numbers):
    ia.attach(numbers, [ia.Histogram("x", buckets=16, granularity="row_group"), ia.Sample(100)])

    def calls(count):
        with ParquetInput.open(numbers) as file:
            estimates = Estimates(file, EmbeddedIndexes(file), 1 << 40)
            predicate = or_of_equalities(count)
            share, total = python_calls(lambda: estimates.share(predicate))
        assert share is not None
        return total

    assert calls(400) <= 4.4 * calls(100)
