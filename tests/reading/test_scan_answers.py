"""Aggregates of a scan can use all columns of its table, regardless of the selected columns."""

import itertools
import os
import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import amounts
from intarsia.indexes.embedded import EmbeddedIndexes
from tests.counting import arguments_of


@pytest.fixture
def lake(tmp_path):
    for month in (1, 2):
        folder = tmp_path / "lake" / f"month={month}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": range(100), "y": [1000] * 100}), folder / "a.parquet")
    return tmp_path / "lake"


def column_choices():
    names = ["x", "y", "month"]
    return [None, *(list(found) for size in range(4) for found in itertools.permutations(names, size))]


@pytest.mark.parametrize("columns", column_choices(), ids=str)
def test_aggregates_use_the_named_column(lake, columns):
    scan = ia.open(lake).scan("x < 50", columns)
    assert scan.aggregate({"y": ["sum"], "*": "count"}) == {"y": {"sum": 100_000}, "*": {"count": 100}}
    assert scan.aggregate({"x": ["max"], "month": "max"}) == {"x": {"max": 49}, "month": {"max": 2}}
    assert scan.count() == 100
    assert int(scan.approx_distinct("x")) == 50
    assert int(scan.approx_distinct("month")) == 2
    assert scan.sketches("x").num_rows == 2
    assert scan.to_arrow().num_rows == 100


@pytest.mark.parametrize(
    "functions",
    [
        "sum(x), max(x), count(*)",
        ["sum(x), max(x)", "count(*)"],
        ("sum(x)", "max(x)", "count(*)"),
        {"x": ["sum", "max"], "*": "count"},
    ],
    ids=str,
)
def test_every_form_of_aggregates(lake, functions):
    expected = {"x": {"sum": 90, "max": 9}, "*": {"count": 20}}
    assert ia.open(lake).aggregate(functions, "x < 10") == expected
    assert ia.open(lake).scan("x < 10").aggregate(functions) == expected


@pytest.mark.parametrize("text", ['sum("a"."b")', 'count("*")', 'count(*), max("*")'])
def test_aggregates_of_a_column_whose_name_is_that_of_another_result(tmp_path, text):
    """The results are keyed by name."""
    pq.write_table(pa.table({"a.b": [5], "a": [{"b": 1}], "*": [None]}), tmp_path / "a.parquet")
    table = ia.open(tmp_path)
    with pytest.raises(ia.PredicateError) as caught:
        table.aggregate(text)
    assert caught.value.reason == "ambiguous-column"
    assert table.aggregate('sum("a.b"), count(*)') == {"a.b": {"sum": 5}, "*": {"count": 1}}
    assert table.aggregate('sum("a.b")', '"a"."b" = 1') == {"a.b": {"sum": 5}}


@pytest.mark.parametrize(
    ("functions", "reason"),
    [
        (["x"], "unknown-function"),
        ("x", "unknown-function"),
        ("sum(x) AS far", "renamed-aggregate"),
        ("approx_distinct(x)", "not-an-exact-function"),
        ("", "invalid-aggregate"),
        ([], "no-functions"),
        (["sum(x)", 7], "invalid-aggregate"),
        (7, "invalid-aggregate"),
    ],
    ids=str,
)
def test_aggregates_that_cannot_be_parsed(lake, functions, reason):
    with pytest.raises(ia.PredicateError) as raised:
        ia.open(lake).aggregate(functions)
    assert raised.value.reason == reason


def test_report_belongs_to_the_last_answer(lake):
    scan = ia.open(lake).scan("x < 50 AND month = 1")
    assert scan.count() == 50
    assert scan.report.rows_matched == 50
    assert scan.aggregate({"y": "sum"}).report is scan.report


@pytest.mark.parametrize(
    "ask",
    [
        lambda scan: scan.count(),
        lambda scan: scan.aggregate({"x": "sum"}),
        lambda scan: scan.approx_distinct("x"),
        lambda scan: scan.sketches("x"),
        lambda scan: scan.sample(3),
    ],
    ids=["count", "aggregate", "approx_distinct", "sketches", "sample"],
)
def test_aggregates_refuse_a_limit(lake, ask):
    with pytest.raises(ValueError, match="limit"):
        ask(ia.open(lake).scan(limit=5))


def test_one_column_needs_one_name(lake):
    with pytest.raises(TypeError, match="column"):
        ia.open(lake).approx_distinct(["x"])
    with pytest.raises(ValueError, match="4 to 21"):
        ia.open(lake).sketches("x", 99)
    with pytest.raises(ia.ColumnNotFoundError):
        ia.open(lake).aggregate({"xx": "sum"})


@pytest.mark.parametrize(
    "ask",
    [
        lambda table, name: table.count(ia.Comparison(name, "=", 1)),
        lambda table, name: table.count(ia.Comparison((name, "y"), "=", 1)),
        lambda table, name: table.scan(columns=["x", name]),
        lambda table, name: table.scan(order_by=[(name, "ascending")], limit=1),
        lambda table, name: table.aggregate({name: "min"}),
        lambda table, name: table.value_counts(name),
    ],
)
def test_a_name_without_a_utf_8_form_is_unknown(lake, ask):
    """Arguments of a command in another encoding have such names."""
    with pytest.raises(ia.ColumnNotFoundError):
        ask(ia.open(lake), "x\udcc3")


@pytest.mark.parametrize("name", [5, None, b"x", ("x",), pc.field("x")], ids=repr)
def test_a_name_that_is_not_text_is_refused(lake, name):
    for ask in (lambda: ia.open(lake).scan(columns=["x", name]), lambda: ia.open(lake).aggregate({5: "sum"})):
        with pytest.raises(TypeError, match="not the name of a column"):
            ask()


@pytest.mark.parametrize("name", [5, None, b"x"], ids=repr)
@pytest.mark.parametrize(
    "condition", [lambda name: ia.Comparison(name, "=", 1), ia.IsNull], ids=["=", "null"]
)
def test_a_condition_on_a_name_that_is_not_text_is_refused(lake, name, condition):
    with pytest.raises(TypeError, match="not the name of a column"):
        ia.open(lake).count(condition(name))


@pytest.mark.parametrize("number", ["7", 1.5, True, np.array([1, 2]), pa.scalar(1)], ids=repr)
@pytest.mark.parametrize(
    "ask",
    [
        lambda table, number: table.head(number),
        lambda table, number: table.value_counts("x", limit=number),
        lambda table, number: table.scan().plan(number),
        lambda table, number: table.sample(number),
    ],
)
def test_a_number_that_is_not_an_integer_is_refused(lake, ask, number):
    with pytest.raises(TypeError, match="must be an integer"):
        ask(ia.open(lake), number)


def test_other_arguments_of_wrong_types(lake):
    table = ia.open(lake)
    with pytest.raises(TypeError, match="columns is 7"):
        table.scan(columns=7)
    for ask in (lambda: table.aggregate({"x": None}), lambda: table.sketches("x", None)):
        with pytest.raises(ValueError, match="None"):
            ask()
    for make in (ia.contains, ia.starts_with, ia.ends_with):
        with pytest.raises(ia.PredicateError) as caught:
            make("x", b"a")
        assert caught.value.reason == "not-a-pattern"


@pytest.mark.parametrize("columns", [["month"], [], ["month", "x"]], ids=str)
def test_sample_has_the_same_rows_for_any_columns(lake, columns):
    sample = ia.open(lake).scan(columns=columns).sample(10, seed=1)
    assert (sample.num_rows, sample.column_names) == (10, columns)


def test_repr_of_table_and_scan(lake):
    table = ia.open(lake)
    first = os.path.join(lake, "month=1", "a.parquet")
    size = re.escape(amounts.size(sum(file.size_bytes for file in table.files)))
    assert re.fullmatch(rf"Table\({str(lake)!r}, 2 files, {size}\)", repr(table))
    assert re.fullmatch(rf"Table\({first!r}, 1 file, [^,]+B\)", repr(ia.open(first)))
    assert table.columns == ["x", "y", "month"]
    assert repr(table).endswith(", 3 columns: x, y, month)")
    text = repr(table.scan("x < 50", ["y"], 3))
    assert text.startswith("Scan(where=")
    assert text.endswith(", columns=['y'], limit=3)")


def test_warning_points_at_the_caller(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(1000)}), path)
    ia.attach(path, [ia.Distinct("x", "file")])
    data = path.read_bytes()
    place = data.index(b"INTARSIA") + 60
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    table = ia.open(path)
    for ask in (
        lambda: table.scan("x = 5").to_arrow(),
        lambda: table.count("x = 5"),
        lambda: table.aggregate({"x": "sum"}, "x = 5"),
        lambda: list(table.scan("x = 5")),
        lambda: table.scan("x = 5").to_reader().read_all(),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ask()
        assert [(warning.category, warning.filename) for warning in caught] == [
            (ia.IntarsiaWarning, __file__)
        ]


def test_planning_reads_estimates_once(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(10_000), "y": range(10_000)}), path)
    ia.attach(path, [ia.Histogram("x"), ia.Histogram("y")])
    reports = []
    read = arguments_of(
        lambda: reports.append(ia.open(path).explain("x < 5000 AND y > 2500")), of=EmbeddedIndexes.read
    )
    assert reports[0].rows_estimated is not None
    assert sorted(call["entry"].name for call in read) == ["histogram(x):row_group", "histogram(y):row_group"]


def test_missing_file_leaves_nothing_behind(tmp_path, capfd):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    table = ia.open(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        table.count()
    assert "ignored" not in capfd.readouterr().err


def test_reports_are_printed_in_lines(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(1000), "l": [[1]] * 1000}), path)
    attached = str(ia.attach(path, [ia.PageIndex(), ia.ZoneMap("x", 100)]))
    assert attached.startswith(f"{path}: built page_index, zone_map(x):100; +")
    assert str(ia.attach(path, [ia.PageIndex()])).endswith(
        "built nothing; kept page_index, zone_map(x):100; +0 bytes"
    )
    scan = ia.open(path).scan("x < 150")
    assert scan.to_arrow().num_rows == 150
    lines = str(scan.report).splitlines()
    assert lines[0] == "files       1 of 1 read"
    assert lines[3] == "rows        200 of 1,000 might match, 150 match"
    assert lines[5] == "excluded    800 rows by zone_map(x):100 of x"
    assert "at most" in str(ia.open(path).explain("x < 150"))
    answer = ia.open(path).aggregate({"x": "sum"})
    assert any(line.startswith("answered    1,000 rows") for line in str(answer.report).splitlines())


@pytest.mark.parametrize("in_list", [False, True])
def test_maps_to_structs_whose_fields_have_other_pages(tmp_path, in_list):
    pairs = [("k", {"t": 1, "u": "a text that fills a page"}), ("l", None), ("m", {"t": None, "u": None})]
    maps, kind = (
        [pairs, None, [], pairs[:1], pairs[1:]] * 12,
        pa.struct([("t", pa.int8()), ("u", pa.string())]),
    )
    kind = pa.map_(pa.string(), kind)
    if in_list:
        maps, kind = [None if found is None else [found, None] for found in maps], pa.list_(kind)
    table = pa.table({"id": range(60), "m": pa.array(maps, kind)})
    path = tmp_path / "t.parquet"
    options = {"data_page_size": 100, "write_batch_size": 20, "use_dictionary": False}
    pq.write_table(table, path, write_page_index=True, **options)
    for rows in ([17], [3, 4, 40], range(51, 60)):
        found = ia.open(path).scan(ia.In("id", list(rows))).to_arrow()
        assert found.equals(table.take(list(rows)))
