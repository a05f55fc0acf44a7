"""Peculiarities of other writers, reproduced by changing files, are read correctly and used where valid."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format import thrift, thrift_tree
from intarsia.format.enums import ConvertedType
from intarsia.format.structs import ColumnIndex, OffsetIndex
from tests.reading.exact import assert_same_rows
from tests.reading.surgery import Patient

ROWS = 400
PAGE = 20

STRING, DECIMAL, UNKNOWN = 1, 5, 11  # members of LogicalType
CHUNK_META, STATISTICS, ENCODING_STATS, DICTIONARY_OFFSET, DATA_OFFSET = 3, 12, 13, 11, 9


def write(path, table, **options):
    settings = {"write_page_index": True, "max_rows_per_page": PAGE, "write_batch_size": 10, **options}
    pq.write_table(table, path, **settings)
    return path


def sorted_table():
    return pa.table({"key": np.arange(ROWS), "word": [f"word {row // 3:04}" for row in range(ROWS)]})


def pages_read(path, where, column):
    scan = ia.open(path).scan(where)
    scan.to_arrow()
    return scan.report.to_dict()["pages"]["by_column"][column]["read"]


# --- decimals as byte arrays of varying length ---


def decimal_bytes(unscaled, padding=0):
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1 + padding, "big", signed=True)


def declare_decimals(path, precision):
    """Declare the binary column "d" DECIMAL, without the statistics that pyarrow compared as text."""
    patient = Patient.read(path)
    element = patient.element("d")
    for field_id, number in ((6, ConvertedType.DECIMAL), (7, 2), (8, precision)):
        element.set(field_id, thrift.I32, int(number))
    declared = thrift_tree.Struct({1: (thrift.I32, 2), 2: (thrift.I32, precision)})
    element.set(10, thrift.STRUCT, thrift_tree.Struct({DECIMAL: (thrift.STRUCT, declared)}))
    patient.chunk(0, 0).get(CHUNK_META).remove(STATISTICS)
    return patient


@pytest.fixture(scope="module", params=[9, 18, 30])
def byte_array_decimals(request, tmp_path_factory):
    """A binary column declared DECIMAL, with the column index that its writer would have made."""
    precision = request.param
    limit = 10 ** min(precision, 25) - 1
    random = np.random.default_rng(7)
    numbers = sorted(int(n) * limit // 2**31 for n in random.integers(-(2**31), 2**31, ROWS))
    numbers = [None if row % 17 == 0 else n for row, n in enumerate(numbers)]
    encoded = [None if n is None else decimal_bytes(n, row % 2) for row, n in enumerate(numbers)]
    table = pa.table({"d": pa.array(encoded, pa.binary()), "row": np.arange(ROWS)})
    path = tmp_path_factory.mktemp("decimals") / "decimals.parquet"
    write(path, table, use_dictionary=False, store_schema=False)
    patient = declare_decimals(path, precision)

    def decimal_bounds(index):
        pages = [[n for n in numbers[at : at + PAGE] if n is not None] for at in range(0, ROWS, PAGE)]
        return index._replace(
            min_values=[decimal_bytes(min(page)) for page in pages],
            max_values=[decimal_bytes(max(page), 2) for page in pages],
        )

    patient.change_index(ColumnIndex, 0, 0, decimal_bounds)
    patient.write(path)
    return numbers, path


def test_decimals_as_byte_arrays(byte_array_decimals):
    numbers, path = byte_array_decimals
    full = pq.read_table(path)
    assert pa.types.is_decimal(full.schema.field("d").type)
    assert full["d"].to_pylist() == [None if n is None else Decimal(n).scaleb(-2) for n in numbers]
    for place in (1, ROWS // 2, ROWS - 2):
        value = Decimal(numbers[place]).scaleb(-2)
        for op, judge in (("=", int.__eq__), ("<", int.__lt__), (">=", int.__ge__), ("!=", int.__ne__)):
            keep = [n is not None and judge(n, numbers[place]) for n in numbers]
            assert_same_rows(ia.open(path).scan([("d", op, value)]).to_arrow(), full, keep)
    assert pages_read(path, [("d", "=", Decimal(numbers[1]).scaleb(-2))], "row") == 1


@pytest.mark.parametrize("padding", [0, 1])
def test_decimals_as_byte_arrays_in_a_dictionary(tmp_path, padding):
    """Java writes -128 in one byte, and other programs write more bytes than needed."""
    numbers = [-(2**15), -129, -128, -1, 0, 127, 128]
    lengths = [2, 2, 1, 1, 1, 1, 2]
    encoded = [n.to_bytes(k + padding, "big", signed=True) for n, k in zip(numbers, lengths, strict=True)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"d": pa.array(encoded * 100, pa.binary())}), path, store_schema=False)
    declare_decimals(path, 9).write(path)
    for n in numbers:
        assert ia.open(path).count([("d", "=", Decimal(n).scaleb(-2))]) == 100


# --- intervals with the logical type of nulls ---


@pytest.mark.parametrize("indexed", [False, True])
def test_intervals_with_the_logical_type_of_nulls(tmp_path, indexed):
    """parquet-mr adds UNKNOWN to the converted type INTERVAL, and pyarrow fails to read the nulls."""
    values = [None if row % 7 == 0 else bytes([row % 5] * 12) for row in range(ROWS)]
    table = pa.table({"key": np.arange(ROWS), "i": pa.array(values, pa.binary(12))})
    path = write(tmp_path / "a.parquet", table, store_schema=False)
    patient = Patient.read(path)
    element = patient.element("i")
    element.set(6, thrift.I32, int(ConvertedType.INTERVAL))
    nulls = thrift_tree.Struct({UNKNOWN: (thrift.STRUCT, thrift_tree.Struct())})
    element.set(10, thrift.STRUCT, nulls)
    patient.write(path)
    if indexed:
        ia.attach(path, [ia.PageIndex(), ia.Bloom("i"), ia.Distinct("i")])
    opened = ia.open(path)
    assert opened.scan().to_arrow().equals(table)
    for where, judge in (
        ("i IS NULL", lambda value: value is None),
        ("i IS NOT NULL", lambda value: value is not None),
        ([("i", "=", bytes([3] * 12))], lambda value: value == bytes([3] * 12)),
    ):
        keep = [judge(value) for value in values]
        assert_same_rows(opened.scan(where).to_arrow(), table, keep)
        assert opened.count(where) == sum(keep)
    assert opened.count_distinct("i") == 5
    assert [one.logical_type for one in ia.inspect(path).schema] == [None, "INTERVAL"]


# --- missing fields ---


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("limit", [None, 300])
def test_encoding_stats_and_dictionary_offset_are_absent(tmp_path, version, limit):
    """Page headers then show whether pages use the dictionary, which is at the start of the chunk."""
    path = write(
        tmp_path / "a.parquet", sorted_table(), data_page_version=version, dictionary_pagesize_limit=limit
    )
    full = pq.read_table(path)
    patient = Patient.read(path)
    for leaf in range(2):
        meta = patient.chunk(0, leaf).get(CHUNK_META)
        meta.remove(ENCODING_STATS)
        if (start := meta.get(DICTIONARY_OFFSET)) is not None:
            meta.set(DATA_OFFSET, thrift.I64, start)
            meta.remove(DICTIONARY_OFFSET)
    patient.write(path)
    assert_same_rows(pq.read_table(path), full)
    for first, last in [(0, 5), (100, 101), (15, 390), (395, 399)]:
        keep = [first <= row <= last for row in range(ROWS)]
        scan = ia.open(path).scan(f"key BETWEEN {first} AND {last}")
        assert_same_rows(scan.to_arrow(), full, keep)
        assert scan.report.to_dict()["pages"]["by_column"]["word"]["total"] is None
    assert_same_rows(ia.open(path).scan().to_arrow(), full)
    assert pages_read(path, "key = 7", "word") == 1


@pytest.mark.parametrize("offset", [0, -1])
def test_dictionary_offsets_for_absent_dictionaries(tmp_path, offset):
    path = write(tmp_path / "a.parquet", sorted_table(), use_dictionary=False)
    full = pq.read_table(path)
    patient = Patient.read(path)
    patient.chunk(0, 1).get(CHUNK_META).set(DICTIONARY_OFFSET, thrift.I64, offset)
    patient.write(path)
    assert_same_rows(ia.open(path).scan("key > 390").to_arrow(), full, [row > 390 for row in range(ROWS)])
    assert_same_rows(ia.open(path).scan("word IS NOT NULL").to_arrow(), full)


def test_bounds_without_column_orders_are_not_used(tmp_path):
    """Their order is undefined then; deprecated bounds are defined for signed numbers."""
    path = write(tmp_path / "a.parquet", sorted_table())
    full = pq.read_table(path)
    patient = Patient.read(path)
    patient.footer.remove(7)
    patient.write(path)
    for leaf, where in ((0, "key = 7"), (1, "word = 'word 0002'")):
        keep = [row == 7 if leaf == 0 else row // 3 == 2 for row in range(ROWS)]
        scan = ia.open(path).scan(where)
        assert_same_rows(scan.to_arrow(), full, keep)
        assert "column_index" not in [entry["index"] for entry in scan.report.to_dict()["pruned_by"]]


def test_bounds_by_trino_are_used(tmp_path):
    """It declares no column orders, but its bounds are in the order of the type."""
    path = write(tmp_path / "a.parquet", sorted_table(), write_page_index=False, row_group_size=100)
    full = pq.read_table(path)
    patient = Patient.read(path)
    patient.footer.remove(7)
    patient.footer.set(6, thrift.BINARY, b"parquet-mr-trino version 483 (build n/a)")
    patient.write(path)
    for leaf, where in ((0, "key = 7"), (1, "word = 'word 0002'")):
        keep = [row == 7 if leaf == 0 else row // 3 == 2 for row in range(ROWS)]
        scan = ia.open(path).scan(where)
        assert_same_rows(scan.to_arrow(), full, keep)
        assert scan.report.row_groups_read == 1


def test_offset_index_without_column_index_is_used(tmp_path):
    path = write(tmp_path / "a.parquet", sorted_table())
    full = pq.read_table(path)
    patient = Patient.read(path)
    for leaf in range(2):
        chunk = patient.chunk(0, leaf)
        for field_id in (6, 7):
            chunk.remove(field_id)
    patient.write(path)
    assert_same_rows(ia.open(path).scan("key = 7").to_arrow(), full, [row == 7 for row in range(ROWS)])
    assert pages_read(path, "key = 7", "word") == 1
    assert pages_read(path, "key = 7", "key") == ROWS // PAGE


def test_column_index_without_offset_index_is_not_used(tmp_path):
    path = write(tmp_path / "a.parquet", sorted_table())
    full = pq.read_table(path)
    patient = Patient.read(path)
    for leaf in range(2):
        chunk = patient.chunk(0, leaf)
        for field_id in (4, 5):
            chunk.remove(field_id)
    patient.write(path)
    assert_same_rows(ia.open(path).scan("key = 7").to_arrow(), full, [row == 7 for row in range(ROWS)])


# --- statistics ---


def with_statistics(path, leaf, change):
    patient = Patient.read(path)
    change(patient.chunk(0, leaf).get(CHUNK_META).get(STATISTICS))
    for row_group in range(len(patient.footer.get(4).items)):
        for field_id in (4, 5, 6, 7):
            patient.chunk(row_group, leaf).remove(field_id)
    patient.write(path)


def make_deprecated(statistics):
    """The bounds of writers before 2.4: max first, then min."""
    statistics.set(1, thrift.BINARY, statistics.get(5))
    statistics.set(2, thrift.BINARY, statistics.get(6))
    statistics.remove(5)
    statistics.remove(6)


@pytest.mark.parametrize(
    ("type_", "used"),
    [
        (pa.int32(), True),
        (pa.int64(), True),
        (pa.float64(), True),
        (pa.uint32(), False),
        (pa.string(), False),
    ],
)
def test_deprecated_statistics_are_used_for_signed_numbers(tmp_path, type_, used):
    values = pa.array([str(row) for row in range(10, 50)] if type_ == pa.string() else range(10, 50)).cast(
        type_
    )
    path = write(tmp_path / "a.parquet", pa.table({"x": values}), use_dictionary=False)
    with_statistics(path, 0, make_deprecated)
    beyond, within = ("'7'", "'25'") if type_ == pa.string() else ("7", "25")
    scan = ia.open(path).scan(f"x = {beyond}")
    assert scan.to_arrow().num_rows == 0
    assert scan.report.row_groups_read == (0 if used else 1)
    assert ia.open(path).scan(f"x = {within}").to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (b"\x05\0\0\0\0\0\0\0", b"\x01\0\0\0\0\0\0\0"),
        (b"\x05\0\0\0", b"\x09\0\0\0"),
        (b"", b""),
        (b"\x05\0\0\0\0\0\0\0", None),
    ],
)
def test_statistics_that_contradict_themselves_are_not_used(tmp_path, low, high):
    path = write(tmp_path / "a.parquet", pa.table({"x": np.arange(100)}))

    def damage(statistics):
        statistics.set(6, thrift.BINARY, low)
        statistics.set(5, thrift.BINARY, high) if high is not None else statistics.remove(5)

    with_statistics(path, 0, damage)
    for value in (0, 5, 99):
        assert ia.open(path).scan(f"x = {value}").to_arrow()["x"].to_pylist() == [value]


@pytest.mark.parametrize("count", [0, -1, 101, 2**62])
def test_impossible_null_counts_are_not_used(tmp_path, count):
    path = write(tmp_path / "a.parquet", pa.table({"x": pa.array([None] * 50 + [1] * 50, pa.int32())}))

    def damage(statistics):
        statistics.set(3, thrift.I64, count)
        if count == 0:  # without bounds, 0 may mean that nulls were not counted
            for field_id in (1, 2, 5, 6):
                statistics.remove(field_id)

    with_statistics(path, 0, damage)
    assert ia.open(path).scan("x IS NULL").to_arrow().num_rows == 50
    assert ia.open(path).scan("x IS NOT NULL").to_arrow().num_rows == 50


@pytest.mark.parametrize(
    ("writer", "counts"),
    [
        ("DuckDB", [50, 100, 100, 150]),  # the nulls of all row groups so far
        ("Polars", [100, 100, 0, 100]),  # multiplied by the number of pages
        ("parquet-go version latest", [49, 49, 0, 49]),  # without the first one of each page
    ],
)
def test_wrong_null_counts(tmp_path, writer, counts):
    nulls, values = pa.nulls(50, pa.int32()), pa.array([7] * 50, pa.int32())
    parts = [nulls, values, nulls, values, values, values, nulls, values]
    table = pa.table({"x": pa.chunked_array(parts)})
    path = write(tmp_path / "a.parquet", table, row_group_size=100, write_page_index=False)
    patient = Patient.read(path)
    patient.footer.set(6, thrift.BINARY, writer.encode())
    for row_group, count in enumerate(counts):
        statistics = patient.chunk(row_group, 0).get(CHUNK_META).get(STATISTICS)
        statistics.set(3, thrift.I64, count)
    patient.write(path)
    for _ in range(2):
        opened = ia.open(path)
        assert opened.count("x IS NULL") == 150
        assert opened.count("x IS NOT NULL") == 250
        assert opened.scan("x = 7").to_arrow().num_rows == 250
        assert dict(opened.aggregate({"x": ["count", "sum"]})) == {"x": {"count": 250, "sum": 1750}}
        assert opened.scan(order_by="x", limit=400).to_arrow()["x"].null_count == 150
        ia.attach(path, [ia.PageIndex(), ia.Statistics()])


def test_questdb_counts_no_nulls_in_rows_that_are_older_than_a_symbol(tmp_path):
    column = pa.array([None] * 50 + ["b", None], pa.string())
    path = write(tmp_path / "a.parquet", pa.table({"x": column}), write_page_index=False)
    patient = Patient.read(path)
    patient.footer.set(6, thrift.BINARY, b"QuestDB version 9.0")
    patient.write(path)
    with_statistics(path, 0, lambda statistics: statistics.set(3, thrift.I64, 0))
    for _ in range(2):
        assert ia.open(path).count("x IS NULL") == 51
        assert ia.open(path).count("x IS NOT NULL") == 1
        assert dict(ia.open(path).aggregate({"x": ["count"]})) == {"x": {"count": 1}}
        ia.attach(path, [ia.Statistics()])


@pytest.mark.filterwarnings("ignore:.*page index of x:intarsia.IntarsiaWarning")
def test_rugo_writes_empty_upper_bounds_of_pages(tmp_path):
    """Those of the chunk are right, and are used."""
    column = pa.array([b"", b"\xff" * 17] * PAGE, pa.binary())
    path = write(tmp_path / "a.parquet", pa.table({"x": column}), use_dictionary=False)
    patient = Patient.read(path)
    patient.footer.set(6, thrift.BINARY, b"rugo version 0.5.6")
    patient.change_index(
        ColumnIndex, 0, 0, lambda index: index._replace(max_values=[b""] * len(index.max_values))
    )
    patient.write(path)
    assert ia.open(path).count([("x", "=", b"\xff" * 17)]) == PAGE
    scan = ia.open(path).scan([("x", ">", b"\xff" * 17)])
    assert scan.to_arrow().num_rows == scan.report.row_groups_read == 0


def test_hyparquet_counts_nulls_that_it_writes_as_text(tmp_path):
    """In JSON columns, null is the text ``null``."""
    path = write(tmp_path / "a.parquet", pa.table({"j": pa.array(["1", "null", "null"], pa.json_())}))
    patient = Patient.read(path)
    patient.footer.set(6, thrift.BINARY, b"hyparquet")
    patient.write(path)
    with_statistics(path, 0, lambda statistics: statistics.set(3, thrift.I64, 2))
    for _ in range(2):
        assert ia.open(path).count("j IS NULL") == 0
        assert dict(ia.open(path).aggregate({"j": ["count"]})) == {"j": {"count": 3}}
        ia.attach(path, [ia.Statistics()])


# --- floats ---


def nan_table():
    values = [float(row // PAGE) for row in range(ROWS)]
    for row in (3 * PAGE + 1, 5 * PAGE + 2):
        values[row] = float("nan")
    return pa.table({"x": values})


@pytest.mark.parametrize("counted", [True, False])
def test_nan_counts(tmp_path, counted):
    path = write(tmp_path / "a.parquet", nan_table(), use_dictionary=False)
    full = pq.read_table(path)
    patient = Patient.read(path)
    counts = [0] * (ROWS // PAGE)
    counts[3] = counts[5] = 1
    patient.change_index(
        ColumnIndex, 0, 0, lambda index: index._replace(nan_counts=counts if counted else None)
    )
    patient.chunk(0, 0).get(CHUNK_META).remove(STATISTICS)
    patient.write(path)
    keep = [row in (61, 102) or row >= 19 * PAGE for row in range(ROWS)]
    assert_same_rows(ia.open(path).scan("NOT (x < 19)").to_arrow(), full, keep)
    assert pages_read(path, "NOT (x < 19)", "x") == (3 if counted else ROWS // PAGE)
    assert pages_read(path, "x >= 19", "x") == 1


def test_duckdb_takes_the_values_of_an_enum_type_as_bounds(tmp_path):
    """Before 1.5.3, unused values are bounds that are declared exact."""
    path = write(tmp_path / "a.parquet", pa.table({"mood": ["glad", "sad"] * 50}), write_page_index=False)
    patient = Patient.read(path)
    statistics = patient.chunk(0, 0).get(CHUNK_META).get(STATISTICS)
    statistics.set(5, thrift.BINARY, b"tired")
    patient.write(path)
    for writer, is_read in [(b"DuckDB version v1.5.3", False), (b"DuckDB version v1.5.2", True)]:
        patient.footer.set(6, thrift.BINARY, writer)
        patient.write(path)
        found = ia.open(path).aggregate({"mood": ["max"]})
        assert found["mood"]["max"] == ("sad" if is_read else "tired")


@pytest.mark.filterwarnings("ignore:.*page index of x:intarsia.IntarsiaWarning")
def test_polars_excludes_numbers_beside_nan(tmp_path):
    """Before 2.1, it leaves pages with NaN out of bounds, and marks them as null pages."""
    path = write(tmp_path / "a.parquet", nan_table(), use_dictionary=False)
    full = pq.read_table(path)
    patient = Patient.read(path)
    patient.footer.set(6, thrift.BINARY, b"Polars")
    low, high = (np.array([bound]).tobytes() for bound in (6.0, 19.0))
    patient.chunk(0, 0).get(CHUNK_META).get(STATISTICS).set(6, thrift.BINARY, low)
    pages = ROWS // PAGE
    patient.change_index(
        ColumnIndex,
        0,
        0,
        lambda index: index._replace(
            null_pages=[page < 6 for page in range(pages)],
            min_values=[b""] * 6 + [low] * (pages - 6),
            max_values=[b""] * 6 + [high] * (pages - 6),
            boundary_order=0,
        ),
    )
    patient.write(path)
    original = path.read_bytes()
    ia.attach(path, [ia.Statistics()])  # beside its own, other readers would use the wrong ColumnIndex
    assert not pq.read_metadata(path).row_group(0).column(0).has_column_index
    ia.detach(path)
    assert path.read_bytes() == original
    keep = [row < 2 * PAGE for row in range(ROWS)]
    for _ in range(2):
        assert_same_rows(ia.open(path).scan("x < 2").to_arrow(), full, keep)
        assert ia.open(path).count("x IS NULL") == 0
        assert ia.open(path).count("x > 3") == 319
        ia.attach(path, [ia.PageIndex(), ia.Statistics()])


@pytest.mark.parametrize("longest", ["zz~", "zz\u00ff", "zz" + "\U0010ffff" * 9])
def test_polars_takes_texts_as_equal_if_one_begins_with_the_other(tmp_path, longest):
    """Before 1.37, the bounds of the first page are those of the chunk."""
    table = pa.table({"x": ["mm", "zz", "m", longest]})
    path = write(tmp_path / "a.parquet", table, use_dictionary=False, write_page_index=False, version="1.0")
    patient = Patient.read(path)
    patient.footer.set(6, thrift.BINARY, b"Polars")
    statistics = patient.chunk(0, 0).get(CHUNK_META).get(STATISTICS)
    statistics.set(5, thrift.BINARY, b"zz")
    statistics.set(6, thrift.BINARY, b"mm")
    patient.write(path)
    for _ in range(2):
        opened = ia.open(path)
        assert opened.count(pc.field("x") == longest) == 1
        assert opened.count("x = 'm'") == 1
        assert opened.count("x > 'zz'") == 1
        assert opened.count("x <= 'zz'") == 3
        assert dict(opened.aggregate({"x": ["min", "max"]})) == {"x": {"min": "m", "max": longest}}
        scan = opened.scan("x > 'z{'")
        assert scan.to_arrow().num_rows == scan.report.row_groups_read == 0
        ia.attach(path, [ia.Statistics()])


@pytest.mark.filterwarnings("ignore:.*page index of x:intarsia.IntarsiaWarning")
@pytest.mark.filterwarnings("ignore:.*page index of x:intarsia.IntarsiaWarning")
@pytest.mark.parametrize("bits", [32, 64])
def test_polars_compares_unsigned_numbers_as_signed(tmp_path, bits):
    """Before 1.0, in chunks and pages."""
    above = 2 ** (bits - 1)
    column = np.array([0, 5, above] * PAGE, dtype=f"uint{bits}")
    path = write(tmp_path / "a.parquet", pa.table({"x": column}), use_dictionary=False)
    patient = Patient.read(path)
    patient.footer.set(6, thrift.BINARY, b"Polars")
    high = column[1:2].tobytes()
    patient.chunk(0, 0).get(CHUNK_META).get(STATISTICS).set(5, thrift.BINARY, high)
    patient.change_index(
        ColumnIndex, 0, 0, lambda index: index._replace(max_values=[high] * len(index.max_values))
    )
    patient.write(path)
    for _ in range(2):
        opened = ia.open(path)
        assert opened.count(f"x = {above}") == PAGE
        assert opened.count("x > 5") == PAGE
        assert opened.count("x <= 5") == 2 * PAGE
        ia.attach(path, [ia.PageIndex(), ia.Statistics()])


@pytest.mark.parametrize("is_deprecated", [True, False])
@pytest.mark.parametrize(
    "writer",
    [
        b"parquet-mr version 1.9.0 (build 38262e2c80015d0935dad20f8e18f2d6f9fbd03c)",
        b"github.com/parquet-go/parquet-go version 0.32.0(build )",
        b"parquet-go version latest",
        b"parquet-cpp version 1.5.1-SNAPSHOT",
        None,
    ],
)
def test_bounds_leave_out_numbers_beside_nan(tmp_path, writer, is_deprecated):
    """parquet-mr before 1.10 leaves out pages that begin with NaN, and others leave out other numbers."""
    path = tmp_path / "a.parquet"
    write(path, nan_table(), use_dictionary=False, write_page_index=False, store_schema=False)
    full = pq.read_table(path)
    patient = Patient.read(path)
    patient.footer.remove(6) if writer is None else patient.footer.set(6, thrift.BINARY, writer)
    patient.write(path)
    high = np.array([15.0]).tobytes()
    with_statistics(path, 0, lambda statistics: statistics.set(5, thrift.BINARY, high))
    if is_deprecated:
        with_statistics(path, 0, make_deprecated)
    keep = [row >= 17 * PAGE for row in range(ROWS)]
    for _ in range(2):
        assert_same_rows(ia.open(path).scan([("x", ">=", 17), ("x", "<", 99)]).to_arrow(), full, keep)
        assert ia.open(path).count("x = 18") == PAGE
        ia.attach(path, [ia.PageIndex(), ia.Statistics()])


def test_a_column_index_that_replaces_the_writers_stays(tmp_path):
    path = write(tmp_path / "a.parquet", pa.table({"x": np.arange(ROWS, dtype=float)}), use_dictionary=False)
    patient = Patient.read(path)
    patient.footer.set(6, thrift.BINARY, b"Polars")
    patient.write(path)
    for index, has_index in ((ia.Statistics(), False), (ia.PageIndex(), True), (ia.Statistics(), True)):
        ia.attach(path, [index])
        assert pq.read_metadata(path).row_group(0).column(0).has_column_index is has_index


def test_zeros_of_either_sign(tmp_path):
    """A bound of +0.0 may represent -0.0, and vice versa."""
    for low, high in [(0.0, 0.0), (-0.0, -0.0), (0.0, -0.0)]:
        path = write(tmp_path / "a.parquet", pa.table({"x": [0.0, -0.0] * 10}), use_dictionary=False)
        patient = Patient.read(path)
        bounds = [[np.array([bound]).tobytes()] for bound in (low, high)]
        patient.change_index(
            ColumnIndex,
            0,
            0,
            lambda index, bounds=bounds: index._replace(min_values=bounds[0], max_values=bounds[1]),
        )
        patient.chunk(0, 0).get(CHUNK_META).remove(STATISTICS)
        patient.write(path)
        for where in ("x = 0", "x = -0.0", "x >= 0", "x <= -0.0", "x IN (0.0, 5.0)", "NOT (x <> 0)"):
            assert ia.open(path).scan(where).to_arrow().num_rows == 20, where


# --- summaries ---


def test_columns_in_other_files_are_refused(tmp_path):
    path = write(tmp_path / "_metadata.parquet", sorted_table())
    patient = Patient.read(path)
    patient.chunk(0, 1).set(1, thrift.BINARY, b"part-0.parquet")
    patient.write(path)
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        ia.open(path).scan().to_arrow()
    assert (caught.value.reason, caught.value.path) == ("column-in-another-file", str(path))
    assert "part-0.parquet" in str(caught.value)
    assert ia.open(path).scan("key = 5", ["key"]).to_arrow()["key"].to_pylist() == [5]


def test_untrusted_writers_page_index_is_named(tmp_path):
    path = write(tmp_path / "a.parquet", sorted_table())
    full = pq.read_table(path)
    patient = Patient.read(path)
    patient.footer.set(6, thrift.BINARY, b"github.com/segmentio/parquet-go version 0.0.0(build )")
    patient.write(path)
    with pytest.warns(ia.IntarsiaWarning, match="parquet-go"):
        found = ia.open(path).scan("key = 7").to_arrow()
    assert_same_rows(found, full, [row == 7 for row in range(ROWS)])


def test_offset_index_of_a_later_version(tmp_path):
    """An index with fields of a later version is used."""
    path = write(tmp_path / "a.parquet", sorted_table())
    patient = Patient.read(path)
    for cls in (OffsetIndex, ColumnIndex):
        tree, _ = thrift_tree.parse_tree(patient.index_bytes(cls, 0, 0))
        tree.set(99, thrift.STRUCT, thrift_tree.Struct({1: (thrift.BINARY, b"new")}))
        patient.put_index(cls, 0, 0, thrift_tree.serialize_tree(tree))
    patient.write(path)
    assert pages_read(path, "key = 7", "word") == 1


@pytest.mark.parametrize("where", ["s.x IS NULL", "s.x IS NOT NULL", "s.x = 'a'", "s.x <> 'a'"])
def test_pyarrow_counts_too_few_nulls_of_a_dictionary_in_a_struct(tmp_path, where):
    """It counts dictionary entries below a null struct as values."""
    path = tmp_path / "t.parquet"
    texts = pa.array(["a", "a", "b"]).dictionary_encode()
    structs = pa.StructArray.from_arrays([texts], ["x"], mask=pa.array([False, True, True]))
    pq.write_table(pa.table({"s": structs}), path, row_group_size=1, write_page_index=True)
    assert pq.read_metadata(path).row_group(1).column(0).statistics.null_count == 0  # wrong
    expected = {"s.x IS NULL": [1, 2], "s.x <> 'a'": []}.get(where, [0])
    assert_same_rows(
        ia.open(path).scan(where).to_arrow(), pq.read_table(path).take(pa.array(expected, pa.int64()))
    )


@pytest.mark.parametrize("excess", [1, 14, 40, 400])
@pytest.mark.parametrize("limit", [1, 1 << 20], ids=["fallback", "dictionary"])
@pytest.mark.parametrize("paged", [False, True])
def test_sizes_of_chunks_that_overlap_the_next_one(tmp_path, excess, limit, paged):
    """The size of a chunk that begins with an index page includes that page, and its offset does not."""
    path = write(
        tmp_path / "a.parquet",
        sorted_table(),
        row_group_size=ROWS // 2,
        write_page_index=paged,
        dictionary_pagesize_limit=limit,
        use_dictionary=["word"],
    )
    full, patient = pq.read_table(path), Patient.read(path)
    for row_group in range(2):
        meta = patient.chunk(row_group, 0).get(CHUNK_META)
        meta.set(7, thrift.I64, meta.get(7) + excess)
    patient.write(path)
    assert pq.read_table(path).equals(full)
    table = ia.open(path)
    for where, kept in (
        ("key <> 7", pc.not_equal(full["key"], 7)),
        ("key >= 150 and key < 250", pc.and_(pc.greater_equal(full["key"], 150), pc.less(full["key"], 250))),
        ("word = 'word 0070'", pc.equal(full["word"], "word 0070")),
        ("key <> 7 and word <> 'word 0070'", pc.and_(*_not_equal(full, 7, "word 0070"))),
    ):
        assert table.scan(where).to_arrow().equals(full.filter(kept)), where
    assert table.scan().to_arrow().equals(full)
    assert table.value_counts("word", "key <> 7").num_rows == 134


def _not_equal(full, key, word):
    return pc.not_equal(full["key"], key), pc.not_equal(full["word"], word)
