"""Counts, sums and extremes equal those of a full read, and rows that indexes summarize are not read."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
import warnings
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format.enums import ConvertedType
from intarsia.format.structs import ColumnIndex, OffsetIndex
from intarsia.format.thrift import BOOL_TRUE, I32
from tests.answers.totals import ALL, exact, expect, functions_of
from tests.reading.exact import leaf_at
from tests.reading.pages import footer_bytes, layout_of, open_recorded, pages_read
from tests.reading.surgery import Patient
from tests.reading.test_damaged_index import LEAVES, OFFSET_DAMAGE, make_file

# --- reads ---

ROWS = 20_000
PER_GROUP = 5000


@pytest.fixture(scope="module")
def sorted_path(tmp_path_factory):
    """Ascending keys, pages of 200 and 250 rows, and zone maps over 500 rows of the shuffled amounts."""
    path = tmp_path_factory.mktemp("aggregate") / "sorted.parquet"
    rng = np.random.default_rng(3)
    amount = rng.permutation(ROWS)
    table = pa.table(
        {
            "key": np.arange(ROWS),
            "amount": pa.array(amount, mask=amount % 10 == 0),
            "price": rng.random(ROWS),
            "text": [f"text {row:08}" for row in range(ROWS)],
        }
    )
    pq.write_table(
        table,
        path,
        row_group_size=PER_GROUP,
        write_page_index=True,
        max_rows_per_page=250,
        write_batch_size=50,
        use_dictionary=False,
    )
    ia.attach(path, [ia.ZoneMap("amount", 500), ia.ZoneMap("price", 500), ia.ZoneMap("text", 500)])
    return path


def full_read(path, first=0, stop=ROWS):
    return pq.read_table(path).slice(first, stop - first)


@pytest.mark.parametrize(
    ("first", "stop"), [(0, ROWS), (1000, 9000), (1234, 15678), (4999, 5001), (700, 1500)]
)
def test_only_pages_at_the_edges_are_read(sorted_path, first, stop):
    layout = layout_of(sorted_path)
    rows = full_read(sorted_path, first, stop)
    answer = ia.open(sorted_path).aggregate({"amount": ALL}, f"key >= {first} AND key < {stop}")
    values = [value for value in rows["amount"].to_pylist() if value is not None]
    assert answer["amount"] == {
        "count": len(values),
        "sum": sum(values),
        "min": min(values),
        "max": max(values),
        "avg": sum(values) / len(values),
    }
    # whole granules within pages of keys that match completely
    # (except pages beside skipped pages, which are read to confirm the page index)
    sure = [
        p
        for p in layout.pages["key"]
        if (first < p.first_row or (first == p.first_row and first % PER_GROUP == 0))
        and (p.stop_row < stop or (p.stop_row == stop and stop % PER_GROUP == 0))
    ]
    low, high = (sure[0].first_row, sure[-1].stop_row) if sure else (0, 0)
    granules = [start for start in range(0, ROWS, 500) if low <= start and start + 500 <= high]
    left = [row for row in range(first, stop) if row // 500 * 500 not in granules]
    expected = {name: len(layout.pages_with(name, left)) for name in ("key", "amount")}
    assert pages_read(answer.report.to_dict()) == expected
    scan = ia.open(sorted_path).explain(f"key >= {first} AND key < {stop}", ["amount"]).to_dict()
    assert sum(expected.values()) <= pages_read(scan)["amount"] + pages_read(scan)["key"]
    answered = answer.report.to_dict()["answered_by"]
    assert [entry["rows"] for entry in answered] == ([500 * len(granules)] if granules else [])
    if granules:
        assert answered[0]["index"] == "zone_map(amount):500"
        assert answered[0]["pages"] > 0


def test_counting_rows_reads_footers_only(sorted_path):
    table, ranges = open_recorded(sorted_path)
    assert table.count() == ROWS
    assert sum(place.length for place in ranges) == footer_bytes(sorted_path)


def test_counting_certain_rows_reads_the_edges(sorted_path):
    layout = layout_of(sorted_path)
    answer = ia.open(sorted_path).aggregate({"*": "count"}, "key >= 1234 AND key < 15678")
    assert answer == {"*": {"count": 15678 - 1234}}
    edges = {*layout.pages_with("key", [1234]), *layout.pages_with("key", [15678])}
    assert pages_read(answer.report.to_dict()) == {"key": len(edges)}
    assert answer.report.row_groups_read == 2


def test_row_groups_are_answered_by_their_statistics(tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"x": [5, None, 3, 9], "d": [dt.date(2024, 1, day) for day in (4, 3, 2, 1)]})
    pq.write_table(table, path, row_group_size=2)
    opened, ranges = open_recorded(path)
    answer = opened.aggregate(
        {"x": ["count", "min", "max"], "d": ["min", "max"]}, "x IS NOT NULL OR d > '2020-01-01'"
    )
    assert answer == {
        "x": {"count": 3, "min": 3, "max": 9},
        "d": {"min": dt.date(2024, 1, 1), "max": dt.date(2024, 1, 4)},
    }
    assert sum(place.length for place in ranges) == footer_bytes(path)
    assert {entry["index"] for entry in answer.report.to_dict()["answered_by"]} == {"statistics"}


@pytest.mark.parametrize("exact", [True, False, None])
def test_text_bounds_are_extremes_only_if_they_are_marked_as_exact(tmp_path, exact):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": ["b", "a", "c"]}), path)
    patient = Patient.read(path)
    statistics = patient.chunk(0, 0).get(3).get(12)
    for field, bound in ((5, b"d"), (6, b"A")):  # bounds that are not values
        statistics.set(field, 8, bound)
    for field in (7, 8):
        statistics.remove(field)
        if exact is not None:
            statistics.set(field, BOOL_TRUE, exact)
    patient.write(path)
    answer = ia.open(path).aggregate({"x": ["min", "max"]})
    assert answer["x"] == ({"min": "A", "max": "d"} if exact else {"min": "a", "max": "c"})


@pytest.mark.parametrize("store_schema", [True, False])
def test_unused_entries_of_a_dictionary_are_not_extremes(tmp_path, store_schema):
    path = tmp_path / "t.parquet"
    codes = pa.array([1, 1, None], pa.int8())
    table = pa.table({"t": pa.DictionaryArray.from_arrays(codes, ["absent", "there"])})
    pq.write_table(table, path, store_schema=store_schema)
    assert pq.read_metadata(path).row_group(0).column(0).statistics.min == "absent", "pyarrow was fixed"
    assert ia.open(path).aggregate({"t": ["min", "max"]})["t"] == {"min": "there", "max": "there"}


def test_nan_is_found_though_statistics_omit_it(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1.0, math.nan, 3.0], "y": [math.nan, None, math.nan]}), path)
    for _ in range(2):
        answer = ia.open(path).aggregate({"x": ALL, "y": ["min", "max", "count", "sum"]})
        assert answer["x"]["min"] == 1.0
        assert answer["x"]["count"] == 3
        values = [answer["x"][name] for name in ("max", "sum", "avg")]
        values += [answer["y"][name] for name in ("min", "max", "sum")]
        assert all(map(math.isnan, values))
        assert answer["y"]["count"] == 2
        ia.attach(path, [ia.ZoneMap("x", "file"), ia.ZoneMap("y", "file")])


def test_nulls_of_pages_are_counted_by_the_column_index(tmp_path):
    path = tmp_path / "t.parquet"
    text = pa.array([None if row % 3 == 0 else "x" * 20 for row in range(ROWS)])
    pq.write_table(
        pa.table({"key": np.arange(ROWS), "text": text}),
        path,
        write_page_index=True,
        max_rows_per_page=500,
        write_batch_size=50,
        use_dictionary=False,
    )
    answer = ia.open(path).aggregate({"text": "count"}, "key >= 1100 AND key < 9000")
    assert answer == {"text": {"count": sum(row % 3 != 0 for row in range(1100, 9000))}}
    # the first page matches partly, and reading the last one confirms its rows
    assert pages_read(answer.report.to_dict()) == {"key": 2, "text": 2}
    assert [entry["index"] for entry in answer.report.to_dict()["answered_by"]] == ["column_index"]


def test_truncated_bounds_are_not_extremes(tmp_path):
    path = tmp_path / "t.parquet"
    long = ["x" * 100 + str(row) for row in range(2000)]
    pq.write_table(pa.table({"text": long}), path, write_statistics=False)
    ia.attach(path, [ia.ZoneMap("text", 100)])
    assert ia.open(path).aggregate({"text": ["min", "max"]})["text"] == {"min": min(long), "max": max(long)}
    counted = ia.open(path).aggregate({"text": ["count"]})
    assert counted == {"text": {"count": 2000}}
    assert counted.report.row_groups_read == 0


# --- types ---


@pytest.mark.parametrize(
    ("array", "options"),
    [
        (
            pa.array(
                [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=row) for row in range(5000)],
                pa.timestamp("us"),
            ),
            {"use_deprecated_int96_timestamps": True},
        ),
        (
            pa.array([Decimal(row) / 100 for row in range(5000)], pa.decimal128(30, 2)),
            {"write_statistics": False},
        ),
        (pa.array(np.random.default_rng(5).random(100_000) < 0.5), {"write_statistics": False}),
        (
            pa.array([None if row % 5 == 0 else {"b": row} for row in range(5000)]),
            {"write_statistics": False},
        ),
    ],
    ids=["int96", "decimal", "boolean", "struct"],
)
def test_zone_maps_answer_what_statistics_cannot(tmp_path, array, options):
    path = tmp_path / "t.parquet"
    name = "a.b" if pa.types.is_struct(array.type) else "a"
    pq.write_table(pa.table({"a": array}), path, row_group_size=len(array) // 5, **options)
    ia.attach(path, [ia.ZoneMap(name, 500)])
    column = leaf_at(pq.read_table(path), name)
    asked = functions_of(column.type)
    answer = ia.open(path).aggregate({name: asked}, f"{name} IS NOT NULL OR {name} IS NULL")
    for function in asked:
        expect(answer[name][function], function, column, [True] * len(array))
    answer = ia.open(path).aggregate({name: asked})
    assert answer.report.row_groups_read == 0
    for function in asked:
        expect(answer[name][function], function, column, [True] * len(array))


def test_decimals_as_byte_arrays(tmp_path):
    path = tmp_path / "t.parquet"
    units = [row - 2500 for row in range(5000)]
    packed = [unit.to_bytes(unit.bit_length() // 8 + 1, "big", signed=True) for unit in units]
    table = pa.table({"x": packed, "padding": [str(unit) * 5 for unit in units]})
    pq.write_table(table, path, row_group_size=1000, write_statistics=False, store_schema=False)
    patient = Patient.read(path)
    for field, value in ((6, ConvertedType.DECIMAL), (7, 2), (8, 9)):  # converted_type, scale, precision
        patient.element("x").set(field, I32, value)
    patient.write(path)
    assert pq.read_schema(path).field("x").type == pa.decimal128(9, 2)
    ia.attach(path, [ia.ZoneMap("x", 500)])
    table = ia.open(path)
    scan = table.scan("x >= 20.00 AND x < 20.01", ["x"])
    assert scan.to_arrow().to_pylist() == [{"x": Decimal("20.00")}]
    assert scan.report.rows_candidate == 500
    answer = table.aggregate({"x": ALL}, "x >= -20.00")
    kept = units[500:]
    assert answer["x"] == {
        "count": 4500,
        "sum": Decimal(sum(kept)) / 100,
        "min": Decimal("-20.00"),
        "max": Decimal("24.99"),
        "avg": Decimal("2.495000"),
    }
    assert answer.report.row_groups_read == 0


def test_nanoseconds_stay_scalars_where_python_has_none(tmp_path):
    path = tmp_path / "t.parquet"
    kinds = [pa.time64("ns"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns")]
    table = pa.table(
        {f"t{place}": pa.array([60_000_000_001, 1_000], kind) for place, kind in enumerate(kinds)}
    )
    pq.write_table(table, path)
    answer = ia.open(path).aggregate({name: ["min", "max"] for name in table.column_names})
    assert [value["max"] for value in answer.values()] == [pa.scalar(60_000_000_001, kind) for kind in kinds]
    micro = dt.timedelta(microseconds=1)
    epoch = dt.datetime(1970, 1, 1)
    least = [(epoch + micro).time(), epoch + micro, (epoch + micro).replace(tzinfo=dt.timezone.utc), micro]
    assert [value["min"] for value in answer.values()] == least


@pytest.mark.parametrize(("column", "function"), [("s", "sum"), ("x", "median"), ("*", "max"), ("l", "min")])
def test_functions_that_are_not_defined_are_refused(tmp_path, column, function):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"s": ["a"], "x": [1], "l": [[1]]}), path)
    with pytest.raises(ValueError, match=re.escape(repr(column))) as caught:
        ia.open(path).aggregate({column: [function]})
    assert function in str(caught.value)
    with pytest.raises(ia.ColumnNotFoundError):
        ia.open(path).aggregate({"y": "sum"})


def test_lists_and_structs_can_be_counted(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"l": [[1], None, []], "s": [None, {"b": None}, {"b": 1}]}), path)
    assert ia.open(path).aggregate({"l": "count", "s": "count"}) == {"l": {"count": 2}, "s": {"count": 2}}


# --- many files ---


@pytest.fixture
def lake(tmp_path):
    """Partitions: one file has another integer type, one lacks a column, one has INT96, one has text."""
    parts = {
        "p=1": {"x": pa.array([1, 2, None]), "t": pa.array([10, 20, 30], pa.timestamp("us"))},
        "p=2": {"x": pa.array([100, 120], pa.int8()), "t": pa.array([5, 500], pa.timestamp("us"))},
        "p=3": {"t": pa.array([7, 8, 9, 10], pa.timestamp("us"))},
        "p=4": {"x": pa.array([-(2**63), -(2**63)]), "t": pa.array([None, 1], pa.timestamp("us"))},
        "p=5": {"x": pa.array(["7", "11"]), "t": pa.array([3, 4], pa.timestamp("ms"))},
    }
    for folder, columns in parts.items():
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "f.parquet"
        pq.write_table(pa.table(columns), path, use_deprecated_int96_timestamps=folder == "p=4")
    return tmp_path


@pytest.mark.parametrize("indexed", [False, True])
def test_files_of_different_types_are_one_table(lake, indexed):
    if indexed:
        for path in lake.rglob("*.parquet"):
            columns = set(pq.read_schema(path).names)
            ia.attach(path, [ia.ZoneMap(name, "file") for name in sorted(columns & {"x", "t"})])
    table = ia.open(lake, schema="first")
    answer = table.aggregate({"x": ALL, "p": ALL, "t": ["count", "min", "max"], "*": "count"}, "p < 5")
    total = 1 + 2 + 100 + 120 - 2**64
    assert answer["x"] == {"count": 6, "sum": total, "min": -(2**63), "max": 120, "avg": total / 6}
    assert answer["p"] == {"count": 11, "sum": 27, "min": 1, "max": 4, "avg": 27 / 11}
    assert answer["t"]["count"] == 10
    assert exact(answer["t"]["min"], pa.timestamp("us")) == 1000
    assert exact(answer["t"]["max"], pa.timestamp("us")) == 500_000
    assert answer["*"] == {"count": 11}
    # text is compared as a number only after it is read
    assert table.aggregate({"x": ["min", "max"], "p": "sum"}, "p = 5") == {
        "x": {"min": 7, "max": 11},
        "p": {"sum": 10},
    }
    some = table.aggregate({"x": ["sum", "count"], "p": ["sum"]}, "x > 1 AND x < 120")
    assert some == {"x": {"sum": 120, "count": 4}, "p": {"sum": 13}}


def test_nothing_matches(lake):
    answer = ia.open(lake, schema="first").aggregate({"x": ALL, "p": "max", "*": "count"}, "p > 9")
    assert answer == {"x": dict.fromkeys(ALL) | {"count": 0}, "p": {"max": None}, "*": {"count": 0}}


def test_constants_that_are_null_or_text(tmp_path):
    for name in ("a", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"c={name}").mkdir()
        pq.write_table(pa.table({"x": range(3)}), tmp_path / f"c={name}" / "f.parquet")
    answer = ia.open(tmp_path).aggregate({"c": ["count", "min"], "*": "count"}, "x > 0")
    assert answer == {"c": {"count": 2, "min": "a"}, "*": {"count": 4}}


# --- indexes that are not trusted ---


def answers(path):
    table = ia.open(path)
    where = "key >= 1234 AND key < 15678"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = table.aggregate({"amount": ALL, "text": ["min", "max", "count"], "*": "count"}, where)
    assert len(caught) == bool(answer.report.ignored)
    return answer


def test_damaged_zone_map_is_ignored(sorted_path, tmp_path):
    expected = answers(sorted_path)
    assert expected.report.ignored == []
    path = tmp_path / "damaged.parquet"
    data = bytearray(sorted_path.read_bytes())
    blobs = [start for start in range(0, len(data), 8) if data[start : start + 8] == b"INTARSIA"]
    assert len(blobs) == 3
    for start in blobs:
        data[start + 300] ^= 1
    path.write_bytes(data)
    found = answers(path)
    assert found == expected
    assert {note.index.partition("(")[0] for note in found.report.ignored} == {"zone_map"}
    assert sum(pages_read(found.report.to_dict()).values()) > sum(
        pages_read(expected.report.to_dict()).values()
    )


def test_directory_of_another_file_is_ignored(sorted_path, tmp_path):
    path = tmp_path / "copy.parquet"
    table = pq.read_table(sorted_path)
    changed = table.set_column(1, "amount", pa.array(np.arange(ROWS)))
    metadata = {**(table.schema.metadata or {}), **pq.read_metadata(sorted_path).metadata}
    pq.write_table(changed.replace_schema_metadata(metadata), path)
    found = answers(path)
    assert found["amount"]["sum"] == sum(range(1234, 15678))
    assert found.report.ignored


@pytest.mark.parametrize("damage", OFFSET_DAMAGE)
def test_rows_that_no_page_confirms_are_not_counted(tmp_path, damage):
    path = tmp_path / "t.parquet"
    table = pq.read_table(make_file(path))
    for leaf, change in itertools.product([LEAVES["key"], LEAVES["value"]], [OFFSET_DAMAGE[damage]]):
        patient = Patient.read(path)
        patient.change_index(OffsetIndex, 0, leaf, change)
        damaged = tmp_path / "damaged.parquet"
        patient.write(damaged)
        for first, stop in [(100, 150), (50, 400), (100, 250), (0, 150), (110, 300)]:
            rows = table.slice(first, stop - first)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ia.IntarsiaWarning)
                found = ia.open(damaged).aggregate(
                    {"*": "count", "key": "sum", "value": "count"}, f"key >= {first} AND key < {stop}"
                )
                alone = ia.open(damaged).aggregate({"value": "count"}, f"key >= {first} AND key < {stop}")
            values = {"count": stop - first - rows["value"].null_count}
            assert found == {
                "*": {"count": stop - first},
                "key": {"sum": sum(range(first, stop))},
                "value": values,
            }
            assert alone == {"value": values}


@pytest.mark.parametrize("column", ["key", "amount"])
def test_answers_from_a_wrong_page_index_are_discarded(tmp_path, column):
    path = tmp_path / "t.parquet"
    keys = np.arange(2000)
    table = pa.table({"key": keys, "amount": keys * 3})
    pq.write_table(
        table,
        path,
        row_group_size=1000,
        write_page_index=True,
        max_rows_per_page=100,
        write_batch_size=10,
        use_dictionary=False,
    )
    patient = Patient.read(path)
    change = OFFSET_DAMAGE["interior page starts a row late"]  # the third; rows of it and before it are read
    patient.change_index(OffsetIndex, 0, table.column_names.index(column), change)
    patient.write(path)
    with pytest.warns(ia.IntarsiaWarning):
        answer = ia.open(path).aggregate(
            {"amount": ["sum", "count"], "*": "count"}, "key >= 150 AND key < 1777"
        )
    assert answer == {
        "amount": {"sum": 3 * sum(range(150, 1777)), "count": 1627},
        "*": {"count": 1627},
    }


def test_contradictory_null_counts_are_ignored(tmp_path):
    path = tmp_path / "t.parquet"
    array = pa.array([None if row % 2 else row for row in range(1000)])
    pq.write_table(
        pa.table({"x": array}), path, write_page_index=True, max_rows_per_page=100, write_batch_size=10
    )
    patient = Patient.read(path)
    patient.chunk(0, 0).get(3).remove(12)  # no statistics: the column index is used
    patient.change_index(ColumnIndex, 0, 0, lambda index: index._replace(null_counts=[500] * 10))
    patient.write(path)
    with pytest.warns(ia.IntarsiaWarning):
        assert ia.open(path).aggregate({"x": "count"}) == {"x": {"count": 500}}


def test_partition_value_counts_only_if_a_row_matches(tmp_path):
    """Extremes are those of matching rows, whether indexes or the rows show that a file has none."""
    for part, values in [(0, [5, 5, 9]), (3, [1, 5, 9]), (8, [1, 1, 9]), (9, [])]:
        folder = tmp_path / f"p={part}"
        folder.mkdir()
        # the statistics of the third file do not show that it lacks 5
        pq.write_table(pa.table({"x": pa.array(values, pa.int64())}), folder / "t.parquet")
    table = ia.open(tmp_path)
    assert table.aggregate({"p": ["min", "max", "sum"]}, "x = 5") == {"p": {"min": 0, "max": 3, "sum": 3}}
    assert table.aggregate({"p": ["min", "max"]}, "x = 1") == {"p": {"min": 3, "max": 8}}
    assert table.aggregate({"p": ["min", "max"]}) == {"p": {"min": 0, "max": 8}}
    assert table.aggregate({"p": ["min", "max"]}, "x = 7") == {"p": {"min": None, "max": None}}


def test_decimals_of_more_digits_than_their_type_has_are_corrupt(tmp_path):
    path = tmp_path / "t.parquet"
    numbers = pa.array([Decimal(1), Decimal(99_999), None], pa.decimal32(5, 0))
    pq.write_table(
        pa.table({"d": numbers}), path, use_dictionary=False, compression="none", write_statistics=False
    )
    data = path.read_bytes()
    assert data.count((99_999).to_bytes(3, "big")) == 1
    path.write_bytes(data.replace((99_999).to_bytes(3, "big"), (999_999).to_bytes(3, "big"), 1))
    table = ia.open(path)
    for query in (lambda: table.aggregate({"d": ["sum"]}), lambda: table.approx_distinct("d")):
        with pytest.raises(ia.CorruptFileError) as caught:
            query()
        error = caught.value
        assert (error.reason, error.path, error.column) == ("invalid-values", str(path), "d")
