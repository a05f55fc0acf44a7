"""Attached Bloom filters: no false negatives, the right size, and readable by other engines."""

import datetime as dt
import decimal
import io
import pickle
import re
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import assume, given, settings

import intarsia as ia
from intarsia.arrow.hashing import xxh64
from intarsia.embed import Bloom, PageIndex, Statistics, attach, detach
from intarsia.errors import ColumnNotFoundError, IndexBuildError
from intarsia.file import ParquetInput
from intarsia.format.bloom import (
    build,
    might_contain,
    optimal_bytes,
    parse_bloom_header,
)
from intarsia.format.footer import chunk_range
from intarsia.format.pages import walk_pages
from tests.effort import examples
from tests.embed.tables import FLAT, NESTED, content, drawn_tables, edit_footer, leaf_columns, shred

#: An absent value within the bounds of every row group of the file below.
ABSENT = 1 << 61

CONVERTED_TYPE, SCALE, PRECISION, DECIMAL = 6, 7, 8, 5


def filters_of(path):
    """Return ``{(row group, leaf name): bits}`` of a file's filters."""
    found = {}
    with ParquetInput.open(path) as file:
        for ordinal, group in enumerate(file.footer.metadata.row_groups):
            for leaf, chunk in zip(file.footer.leaves, group.columns, strict=True):
                start = chunk.meta_data.bloom_filter_offset
                if start:
                    data = file.source.read(start, start + chunk.meta_data.bloom_filter_length)
                    header_bytes, num_bytes = parse_bloom_header(data)
                    assert header_bytes + num_bytes == len(data)
                    found[ordinal, leaf.name] = data[header_bytes:]
    return found


def holds(bits, stored):
    return might_contain(bits, np.array([xxhash.xxh64_intdigest(stored)], dtype=np.uint64)).all()


def in_16_bytes(stored):
    return int.from_bytes(stored, "big", signed=True).to_bytes(max(16, len(stored)), "big", signed=True)


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "id": rng.integers(0, 2**62, 30_000),
            "country": [f"country {number % 40}" for number in range(30_000)],
            "flag": [True, False] * 15_000,
            "place": pa.array([{"lat": 1, "lon": number} for number in range(30_000)]),
        }
    )
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path, row_group_size=10_000, use_dictionary=["country"])
    return path


# --- no false negatives ------------------------------------------------------------------------------

HASHED = [kind for kind in FLAT if kind != pa.bool_()]
HASHED_NESTED = [kind for kind in NESTED if len(list(leaf_columns(pa.table({"x": pa.array([], kind)})))) == 1]


def loses_rows(path):
    """Return whether pyarrow stops at an empty page, which it writes before lists if pages are tiny."""
    with ParquetInput.open(path) as file:
        for group in file.footer.metadata.row_groups:
            for chunk in group.columns:
                meta = chunk.meta_data
                start, stop = chunk_range(meta)
                pages = walk_pages(file.source.read(start, stop), meta.num_values)
                if any(page.is_data and page.num_values == 0 for page in pages):
                    return True
    return False


@settings(max_examples=examples(40), deadline=None)
@given(drawn=drawn_tables((*HASHED, *HASHED_NESTED)))
def test_filters_contain_every_present_value(drawn, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("bloom") / "t.parquet")
    drawn.write(path)
    assume(not loses_rows(path))  # refused; see the next test
    before = content(path)

    report = attach(path, [Bloom(name) for name in drawn.table.column_names])

    filters = filters_of(path)
    columns = list(leaf_columns(drawn.table))
    with ParquetInput.open(path) as file:
        edges, leaves = file.footer.row_group_starts, file.footer.leaves
    for (name, nullable, column_kind, inner, kind), leaf in zip(columns, leaves, strict=True):
        for ordinal in range(len(edges) - 1):
            rows = drawn.values[name][edges[ordinal] : edges[ordinal + 1]]
            entries = [entry for row in rows for entry in shred(row, column_kind, nullable, inner)]
            values = {
                FLAT[kind][1](value)
                for _, definition, value in entries
                if definition == leaf.max_definition_level
            }
            if pa.types.is_decimal(kind):
                values |= {in_16_bytes(value) for value in values}
            if pa.types.is_float16(kind):
                values |= {np.frombuffer(value, "<f2").astype("<f4").tobytes() for value in values}
            if not rows:
                continue
            bits = filters[ordinal, leaf.name]
            assert all(holds(bits, value) for value in values)
            assert len(bits) <= optimal_bytes(len(values) + 4, 0.01)
    assert report.notes == ()
    assert ia.verify(path).ok
    assert attach(path, [Bloom(name) for name in drawn.table.column_names]).changed is False
    detach(path)
    assert content(path) == before


def test_chunks_that_pyarrow_does_not_fully_decode_get_no_filter(tmp_path):
    """pyarrow stops at the empty page, but other readers do not; a filter would exclude their rows."""
    path = str(tmp_path / "t.parquet")
    table = pa.table({"l": [["a"]], "n": [1]})
    pq.write_table(table, path, data_page_size=1, compression="none", write_statistics=False)
    assert loses_rows(path)
    report = attach(path, [Bloom("l"), Statistics()])
    assert set(filters_of(path)) == set()
    assert {(note.column, note.index) for note in report.notes} == {
        ("l.list.element", "bloom(l)"),
        ("l.list.element", "statistics"),
    }
    assert {note.code for note in report.notes} == {"row-count-mismatch"}


def test_int96_is_hashed_in_its_stored_form(tmp_path):
    path = str(tmp_path / "t.parquet")
    when = [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 12, 30, 1, 5), dt.datetime(1600, 1, 1)]
    table = pa.table({"x": pa.array(when, pa.timestamp("us"))})
    pq.write_table(
        table, path, use_deprecated_int96_timestamps=True, use_dictionary=False, compression="none"
    )
    days = [2_440_588 + (moment.date() - dt.date(1970, 1, 1)).days for moment in when]
    nanos = [0, (12 * 3600 + 30 * 60 + 1) * 10**9 + 5_000, 0]
    stored = [struct.pack("<qI", nano, day) for nano, day in zip(nanos, days, strict=True)]

    attach(path, [Bloom("x")])

    (bits,) = filters_of(path).values()
    assert all(value in content(path) for value in stored)
    assert all(holds(bits, value) for value in stored)
    assert not holds(bits, struct.pack("<qI", 1, days[0]))


def test_decimals_in_bytes_are_hashed_in_their_stored_form(tmp_path):
    """Including numbers with more bytes than necessary."""
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": [b"\0\0\5", b"\xff", b"\7"]}), path, store_schema=False)

    def declare(tree):
        element = tree.get(2).items[1]
        for place, number in ((CONVERTED_TYPE, DECIMAL), (SCALE, 0), (PRECISION, 5)):
            element.set(place, 5, number)

    edit_footer(path, declare)
    assert pa.types.is_decimal(pq.read_schema(path).field("x").type)

    attach(path, [Bloom("x"), PageIndex()])

    (bits,) = filters_of(path).values()
    assert bits == build(xxh64(pa.array([b"\0\0\5", b"\xff", b"\7"])), 32)


@pytest.mark.parametrize("precision", [7, 18, 38])
@pytest.mark.parametrize("dictionary", [True, False])
def test_decimals_of_fixed_size_are_also_found_in_16_bytes(tmp_path, precision, dictionary):
    """DataFusion 36 to 54 looks these up in every file, so it lost rows of files with shorter decimals."""
    path = str(tmp_path / "t.parquet")
    values = [decimal.Decimal(text) for text in ("-1.27", "0.00", "99999.99", "-99999.99", "1.28")]
    table = pa.table({"x": pa.array([None, *values, None], pa.decimal128(precision, 2))})
    pq.write_table(table, path, use_dictionary=dictionary)
    attach(path, [Bloom("x")])
    (bits,) = filters_of(path).values()
    for value in values:
        assert holds(bits, int(value * 100).to_bytes(16, "big", signed=True))
        size = pq.ParquetFile(path).schema.column(0).length
        assert holds(bits, int(value * 100).to_bytes(size, "big", signed=True))
    assert attach(path, [Bloom("x")]).changed is False


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_both_zeros_and_every_nan_are_found(tmp_path, kind):
    path = str(tmp_path / "t.parquet")
    width = kind.bit_width // 8
    nan = np.array([-1], f"<i{width}").view(f"<f{width}")[0]  # all bits set, which readers never look up
    numbers = np.array([-0.0, nan, 1.5], dtype=f"<f{width}")
    pq.write_table(pa.table({"x": pa.array(numbers, kind)}), path, use_dictionary=False)

    attach(path, [Bloom("x")])

    (bits,) = filters_of(path).values()
    asked = np.array([0.0, -0.0, np.nan, -np.nan, 1.5], dtype=f"<f{width}")
    assert all(holds(bits, value.tobytes()) for value in [*asked, numbers[1]])
    assert not holds(bits, np.array([2.5], dtype=f"<f{width}").tobytes())


# --- sizes and existing filters ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "distinct", "num_bytes"),
    [(5_000, 1, 32), (5_000, 1_000, 2_048), (5_000, 5_000, 8_192), (50_000, 1_000, 2_048)],
)
@pytest.mark.parametrize("dictionary", [True, False])
def test_the_size_depends_on_the_number_of_distinct_values(tmp_path, count, distinct, num_bytes, dictionary):
    path = str(tmp_path / "t.parquet")
    numbers = [number % distinct * 7919 for number in range(count)]
    table = pa.table({"number": numbers, "text": [f"text {number}" for number in numbers]})
    pq.write_table(table, path, use_dictionary=dictionary)

    attach(path, [Bloom("number"), Bloom("text")])

    filters = filters_of(path)
    assert {name: len(bits) for (_, name), bits in filters.items()} == {
        "number": num_bytes,
        "text": num_bytes,
    }
    for name in table.column_names:
        assert filters[0, name] == build(xxh64(table[name].combine_chunks()), num_bytes)


def test_bits_equal_those_of_pyarrow(path, tmp_path):
    table = pq.read_table(path).select(["id", "country"])
    theirs, ours = str(tmp_path / "theirs.parquet"), str(tmp_path / "ours.parquet")
    options = {"id": {"ndv": 30_000, "fpp": 0.05}, "country": {"ndv": 40, "fpp": 0.05}}
    pq.write_table(table, theirs, bloom_filter_options=options)
    pq.write_table(table, ours)

    attach(ours, [Bloom("id", 0.05), Bloom("country", 0.05)])

    assert filters_of(ours) == filters_of(theirs)


def test_the_writers_own_filter_is_kept(path):
    pq.write_table(pq.read_table(path), path, bloom_filter_options={"id": {"ndv": 5, "fpp": 0.5}})
    before = content(path)

    report = attach(path, [Bloom("id")])

    assert (report.kept, report.changed) == (("bloom(id)",), False)
    assert content(path) == before
    assert attach(path, [Bloom("country"), Bloom("id")]).built == ("bloom(country)",)
    filters = filters_of(path)
    assert len(filters[0, "id"]) < len(filters[0, "country"]) * 1000
    assert ia.verify(path).ok


def test_a_damaged_filter_of_the_writer_is_replaced(path):
    pq.write_table(pq.read_table(path), path, bloom_filter_options={"id": {"ndv": 5, "fpp": 0.5}})
    with ParquetInput.open(path) as file:
        start = file.footer.metadata.row_groups[0].columns[0].meta_data.bloom_filter_offset
    with open(path, "r+b") as out:
        out.seek(start)
        out.write(b"\xff" * 10)
    before = content(path)

    assert attach(path, [Bloom("id")]).built == ("bloom(id)",)
    assert len(filters_of(path)[0, "id"]) == optimal_bytes(30_000, 0.01)
    detach(path)
    assert content(path) == before


def test_another_false_positive_rate_replaces_the_filter(path, tmp_path):
    other = str(tmp_path / "other.parquet")
    with open(other, "wb") as out:
        out.write(content(path))

    attach(path, [Bloom("id", 0.1)])
    small = filters_of(path)[0, "id"]
    assert attach(path, [Bloom("id", 0.1)]).kept == ("bloom(id)",)
    assert attach(path, [Bloom("id", 0.001)]).built == ("bloom(id)",)

    attach(other, [Bloom("id", 0.001)])
    assert content(path) == content(other)
    assert len(filters_of(path)[0, "id"]) > len(small)


def test_attaching_one_by_one_equals_attaching_all_at_once(path, tmp_path):
    other = str(tmp_path / "other.parquet")
    with open(other, "wb") as out:
        out.write(content(path))
    steps = [Bloom("id"), ia.Distinct("country"), Statistics(), PageIndex(), Bloom("country")]
    for step in steps:
        attach(path, [step])
    attach(other, [*steps[::-1]])

    assert content(path) == content(other)
    assert attach(path, steps).changed is False
    report = detach(path)
    assert report.removed[:1] == ("page_index",)
    assert {"bloom(id)", "bloom(country)"} < set(report.removed)


def test_a_damaged_place_of_an_attached_filter(path):
    """The filter counts as missing; the file can still be completed and detached."""
    before = content(path)
    attach(path, [Bloom("id")])

    def move(tree):
        tree.get(4).items[0].get(1).items[0].get(3).set(14, 6, 1 << 40)

    edit_footer(path, move)
    # the directory contains the position of the original footer, which does not change
    assert attach(path, [Bloom("id")]).built == ("bloom(id)",)
    assert ia.verify(path).ok
    detach(path)
    assert content(path) == before


def test_only_nulls_produce_an_empty_filter(tmp_path):
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": pa.array([None] * 10, pa.int64())}), path)

    attach(path, [Bloom("x")])

    assert filters_of(path) == {(0, "x"): bytes(32)}
    assert ia.open(path).scan("x = 1").to_arrow().num_rows == 0


# --- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "error", "reason"),
    [
        ("flag", IndexBuildError, "unsupported-type"),
        ("place", IndexBuildError, "group-of-columns"),
        ("contry", ColumnNotFoundError, "no-such-column"),
    ],
)
def test_unsupported_columns_are_refused(path, column, error, reason):
    before = content(path)
    with pytest.raises(error) as caught:
        attach(path, [Bloom(column)])
    assert (caught.value.reason, caught.value.column) == (reason, column)
    assert content(path) == before


@pytest.mark.parametrize("fpp", [0.0, 1])
def test_impossible_false_positive_rates_are_refused(fpp):
    with pytest.raises(IndexBuildError):
        Bloom("id", fpp)


def test_two_filters_of_one_column_are_refused(path):
    with pytest.raises(IndexBuildError) as caught:
        attach(path, [Bloom("id"), Bloom("id", 0.1)])
    assert caught.value.reason == "duplicate-index"


def test_columns_in_structs_have_dotted_names_or_paths(path):
    attach(path, [Bloom("place.lat"), Bloom(("place", "lon"))])

    assert {name for _, name in filters_of(path)} == {"place.lat", "place.lon"}


# --- readers -----------------------------------------------------------------------------------------


def test_an_absent_value_reads_no_page(path):
    plain = ia.open(path).scan(f"id = {ABSENT}")
    assert plain.to_arrow().num_rows == 0
    before = plain.report.to_dict()
    present = pq.read_table(path)["id"][12_345].as_py()

    attach(path, [Bloom("id")])

    scan = ia.open(path).scan(f"id = {ABSENT}")
    assert scan.to_arrow().num_rows == 0
    after = scan.report.to_dict()
    assert before["pages"]["read"] > 0
    assert after["pages"]["read"] == 0
    assert after["bytes"]["read"] < before["bytes"]["read"] / 20
    assert ia.open(path).scan(f"id = {present}").to_arrow().num_rows == 1


def test_duckdb_probes_them(path):
    duckdb = pytest.importorskip("duckdb")
    present = pq.read_table(path)["id"][12_345].as_py()
    attach(path, [Bloom("id"), Bloom("country")])

    def excluded(column, value):
        query = "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, ?, ?)"
        return [row[0] for row in duckdb.execute(query, [path, column, value]).fetchall()]

    assert excluded("id", present) == [True, False, True]
    assert excluded("id", ABSENT) == [True, True, True]
    assert excluded("country", "country 7") == [False, False, False]
    assert excluded("country", "Atlantis") == [True, True, True]


def test_duckdb_reads_less_for_an_absent_value(path):
    duckdb = pytest.importorskip("duckdb")
    local = pytest.importorskip("fsspec.implementations.local")

    class Counted(local.LocalFileSystem):
        """Local files under another protocol, with counted bytes."""

        protocol = "counted"
        cachable = False
        num_bytes = 0

        @classmethod
        def _strip_protocol(cls, path):
            return super()._strip_protocol(path.removeprefix("counted://"))

        def _open(self, path, mode="rb", **options):
            return CountedFile(self, content(path))

    class CountedFile(io.BytesIO):  # in memory, because DuckDB does not close files
        def __init__(self, files, data):
            super().__init__(data)
            self._files = files

        def read(self, size=-1):
            data = super().read(size)
            self._files.num_bytes += len(data)
            return data

        def readinto(self, buffer):
            size = super().readinto(buffer)
            self._files.num_bytes += size
            return size

    def bytes_read(value):
        files = Counted()
        with duckdb.connect() as connection:
            connection.register_filesystem(files)
            query = f"SELECT count(*) FROM 'counted://{path}' WHERE id = {value}"
            (found,) = connection.execute(query).fetchone()
        return found, files.num_bytes

    present = pq.read_table(path)["id"][12_345].as_py()
    assert bytes_read(present)[0] == 1
    nothing, before = bytes_read(ABSENT)
    attach(path, [Bloom("id")])
    after = bytes_read(ABSENT)
    assert nothing == after[0] == 0
    assert 0 < after[1] < before / 2
    assert bytes_read(present)[0] == 1


def test_datafusion_prunes_row_groups(path):
    datafusion = pytest.importorskip("datafusion")

    def pruned():
        session = datafusion.SessionContext()
        session.register_parquet("t", path)
        rows = session.sql(f"EXPLAIN ANALYZE SELECT * FROM t WHERE id = {ABSENT}").to_pylist()
        found = re.search(r"row_groups_pruned_bloom_filter=(\d+) total → (\d+) matched", str(rows))
        return tuple(map(int, found.groups()))

    before = pruned()
    attach(path, [Bloom("id")])

    assert before == (3, 3)
    assert pruned() == (3, 0)


def test_indexes_can_be_pickled(path):
    """Spark sends indexes to its executors."""
    indexing = pytest.importorskip("intarsia.spark.indexing")
    asked = [Bloom("id", 0.1), Bloom(("place", "lat")), Statistics(), PageIndex()]

    sent = pickle.loads(pickle.dumps(indexing.checked_indexes(asked)))
    outcome = attach(path, sent)

    assert sent == asked
    assert {"bloom(id)", "bloom(place.lat)", "page_index"} <= set(outcome.built)
    assert attach(path, asked).changed is False
