"""Lazy scans by Polars: the rows that Polars finds in the whole table, and only the pages that are needed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.polars import scan
from tests.effort import examples
from tests.lake.index.lakes import write

NAN = float("nan")
NUM_ROWS = 60
UTC = dt.timezone.utc


def rows_of(part):
    numbers = range(part * NUM_ROWS, (part + 1) * NUM_ROWS)

    def column(value, every, data_type=None):
        return pa.array([None if n % every == 0 else value(n) for n in numbers], data_type)

    return pa.table(
        {
            "i": column(lambda n: n, 7, pa.int32()),
            "j": column(lambda n: n * 2**55, 11, pa.int64()),
            "u": column(lambda n: n, 13, pa.uint64()),
            "f": column(lambda n: NAN if n % 5 == 0 else -0.0 if n % 8 == 0 else n / 4, 9),
            "g": column(lambda n: NAN if n % 5 == 0 else n / 10, 9, pa.float32()),
            "s": column(lambda n: f"a{n % 30}b", 6),
            "b": column(lambda n: n % 3 == 0, 4),
            "y": column(lambda n: b"%d" % (n % 20), 5, pa.binary()),
            "d": column(lambda n: dt.date(2024, 1, 1) + dt.timedelta(days=n), 8),
            "t": column(lambda n: dt.datetime(2024, 1, 1, n % 24), 10, pa.timestamp("ms")),
            "z": column(lambda n: dt.datetime(2024, 1, 1, n % 24, tzinfo=UTC), 10, pa.timestamp("us", "UTC")),
            "w": column(lambda n: dt.time(n % 24), 12, pa.time64("us")),
            "n": column(lambda n: Decimal(n) / 4, 7, pa.decimal128(9, 2)),
            "c": column(lambda n: f"c{n % 4}", 9).dictionary_encode(),
            "l": column(lambda n: [None, f"a{n % 30}b"][n % 3 :], 6),
            "k": column(lambda n: [n, n + 1][: n % 3], 7, pa.list_(pa.int16())),
            "r": column(lambda n: {"x": n % 10}, 10, pa.struct([("x", pa.int64())])),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    for part in range(3):
        path = folder / f"part={part}" / "rows.parquet"
        write(path, rows_of(part), [ia.PageIndex()], row_group_size=30, max_rows_per_page=10)
    return folder


@pytest.fixture(scope="module")
def everything(folder):
    """All rows, in Polars."""
    return pl.DataFrame(ia.open(folder).dataset().to_table())


@pytest.fixture(scope="module")
def opened(folder):
    return ia.open(folder)


@pytest.fixture
def dataset(folder):
    return ia.open(folder).dataset()


C = pl.col
CONDITIONS = [
    *(op(C("i"), 90) for op in (pl.Expr.eq, pl.Expr.ne, pl.Expr.lt, pl.Expr.le, pl.Expr.gt, pl.Expr.ge)),
    *(op(C("f"), 10.5) for op in (pl.Expr.eq, pl.Expr.ne, pl.Expr.lt, pl.Expr.le, pl.Expr.gt, pl.Expr.ge)),
    *(op(C("g"), 2.1) for op in (pl.Expr.eq, pl.Expr.ne, pl.Expr.lt, pl.Expr.gt)),
    C("f") == NAN,
    C("f") > NAN,
    C("f") <= float("inf"),
    C("f") == 0.0,
    C("f").is_nan(),
    C("f").is_finite(),
    C("f").is_in([0.0, 2.0, 10.5]),
    C("f").is_in([2.0, NAN]),
    C("i") > 90.5,
    C("j") > float(90 * 2**55),
    C("j") >= 2.5,
    C("i") > 10**12,
    C("i").is_in([3, None, 100, 171]),
    C("i").is_in([3, None], nulls_equal=True),
    *(~C("i").is_in(values) for values in ([], [None], [2**70])),
    C("i").is_between(50, 70, closed="left"),
    C("i").eq_missing(90),
    C("i").ne_missing(90),
    C("i").is_null(),
    C("i").is_not_null(),
    C("i") + 1 == 50,
    C("i") < C("u"),
    pl.lit(100) < C("u"),
    C("l").list.contains("a7b"),
    C("l").list.contains("nothing"),
    C("l").list.contains(None),
    C("k").list.contains(50),
    C("k").list.contains(C("i")),
    C("s") == "a7b",
    C("s") > "a7",
    C("s").is_in(["a1b", "nothing", None]),
    C("s").str.starts_with("a1"),
    C("s").str.ends_with("9b"),
    C("s").str.contains("1.b"),
    C("s").str.contains("1"),
    C("s").str.contains("a1", literal=True),
    C("s").str.to_uppercase() == "A3B",
    C("b"),
    ~C("b"),
    C("b") == True,  # noqa: E712
    C("y") == b"7",
    C("d") >= dt.date(2024, 3, 1),
    C("d").is_in([dt.date(2024, 3, 1), dt.date(2024, 5, 5)]),
    *(C("d").dt.month() == month for month in (1, 2)),
    C("d").dt.year().is_in([2024, 2026]),
    C("t").dt.hour() < 5,
    C("z").dt.day().is_in([1]),
    C("z").dt.date() == dt.date(2024, 1, 1),
    C("s").str.len_chars() > 3,
    C("t") < dt.datetime(2024, 1, 1, 5),
    C("z") > dt.datetime(2024, 1, 1, 20, tzinfo=UTC),
    C("w") > dt.time(20),
    C("n") > Decimal("10.25"),
    C("n") == 10,
    C("c") == "c2",
    C("c") > "c1",
    C("c").is_in(["c1", "c3"]),
    C("r").struct.field("x") == 4,
    C("part") == 1,
    (C("i") > 3) ^ C("b"),
    pl.when(C("b")).then(C("i") > 50).otherwise(C("f") < 2),
    pl.any_horizontal(C("i") == 90, C("b")),
    pl.lit(True),
    pl.lit(False),
]


def predicates():
    return st.recursive(
        st.sampled_from(CONDITIONS),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda t: t[0] & t[1]),
            st.tuples(inner, inner).map(lambda t: t[0] | t[1]),
            inner.map(lambda one: ~one),
        ),
        max_leaves=5,
    )


def same(found, expected):
    return found.equals(expected, null_equal=True) and found.schema == expected.schema


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_each_condition_has_the_same_rows_as_in_the_whole_table(opened, everything, condition):
    assert same(scan(opened).filter(condition).collect(), everything.filter(condition))
    columns = ["i", "r", "part"]
    expected = everything.filter(~condition).select(columns)
    assert same(scan(opened).filter(~condition).select(columns).collect(), expected)


@settings(max_examples=examples(300))
@given(
    where=predicates(),
    columns=st.sampled_from([["i"], ["s", "part"], ["r", "f", "c"]]),
    rows=st.sampled_from([None, 0, 5, 100]),
)
def test_predicates_have_the_same_rows_as_in_the_whole_table(folder, everything, where, columns, rows):
    lazy, eager = scan(folder), everything.lazy()
    if rows is not None:
        lazy, eager = lazy.head(rows), eager.head(rows)
    expected = eager.filter(where).select(columns).collect()
    assert same(lazy.filter(where).select(columns).collect(), expected)
    assert same(lazy.filter(where).select(columns).collect(engine="streaming"), expected)


def pages_read(dataset):
    return {name: counts.read for name, counts in dataset.last_report.pages.items() if counts.read}


def test_a_predicate_reads_one_page_of_each_column(dataset):
    assert scan(dataset).filter((C("i") == 45) & (C("part") == 0)).select("s").collect().rows() == [("a15b",)]
    assert dataset.last_report.files_opened == 1
    assert pages_read(dataset) == {"i": 1, "s": 1}


NOT_TRANSLATED = [
    C("i") + 1 == 50,
    C("j") > float(90 * 2**55),
    C("f").is_finite(),
    C("i") < C("u"),
    C("k").list.contains(C("i")),
    C("s").str.contains("1.b"),
    C("s").str.to_uppercase() == "A3B",
    C("c") > "c1",
    (C("i") > 3) ^ C("b"),
]


#: Polars 1 casts the column to 128 bits for the last, and 1.44 replaces the first with TRUE.
UNUSUAL_LISTS = [[], [None], [2**70]] if pl.__version__ >= "2" else [[None]]

TRANSLATED = [
    C("i") < 90,
    C("f") >= 10.5,
    C("i") > 90.5,
    C("j") >= 2.5,
    C("i") > 10**12,
    C("i").is_in([3, None, 100, 171]),
    *(~C("i").is_in(values) for values in UNUSUAL_LISTS),
    C("i").is_between(50, 70, closed="left"),
    C("s").str.starts_with("a1"),
    C("s").str.contains("a1", literal=True),
    ~C("b"),
    C("y") == b"7",
    C("d") >= dt.date(2024, 3, 1),
    C("z") > dt.datetime(2024, 1, 1, 20, tzinfo=UTC),
    C("w") > dt.time(20),
    C("d").dt.month() == 2,
    C("t").dt.hour().is_in([3, 4]),
    C("s").str.len_chars() > 3,
    C("n") > Decimal("10.25"),
    C("c") == "c2",
    C("r").struct.field("x") == 4,
    C("l").list.contains("a7b"),
    C("k").list.contains(50),
    C("part") == 1,
    (C("i") == 3) | ~(C("s").is_null() | (C("f") > 2)),
]


@pytest.mark.parametrize("condition", TRANSLATED, ids=str)
def test_conditions_that_are_translated_select_the_rows_before_polars(dataset, condition):
    found = scan(dataset).filter(condition).collect()
    assert dataset.last_report.rows_matched == len(found) < 3 * NUM_ROWS


@pytest.mark.parametrize("condition", NOT_TRANSLATED, ids=str)
def test_conditions_that_are_not_translated_are_evaluated_by_polars(dataset, condition):
    found = scan(dataset).filter(condition).collect()
    assert dataset.last_report.rows_matched == 3 * NUM_ROWS > len(found)


# --- expressions as the `where` of a table -----------------------------------------------------------------


def where_matches(opened, everything, condition):
    """Compare the rows of a scan of Intarsia; return False if the condition is refused."""
    try:
        found = opened.scan(condition, ["i", "part"]).to_arrow()
    except ia.PredicateError as error:
        return error.reason != "polars-expression"
    wanted = everything.filter(condition).select("i", "part")
    assert pl.DataFrame(found).cast({"part": wanted["part"].dtype}).equals(wanted, null_equal=True)
    return True


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_a_where_has_the_same_rows_or_is_refused(opened, everything, condition):
    where_matches(opened, everything, condition)
    where_matches(opened, everything, ~condition)


@pytest.mark.parametrize("condition", TRANSLATED, ids=str)
def test_each_translated_condition_is_a_where(opened, everything, condition):
    assert where_matches(opened, everything, condition)


@settings(max_examples=examples(100))
@given(where=predicates())
def test_combined_conditions_as_where(opened, everything, where):
    where_matches(opened, everything, where)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        *((condition, "polars-expression") for condition in NOT_TRANSLATED),
        ((C("i") == 1) & (C("i") > C("i").mean()), "polars-expression"),
        (C("i").shift(1) == 3, "polars-expression"),
        (pl.all() == 1, "polars-expression"),
        (pl.Series([True]), "polars-expression"),
        (C("s") == 1, "type-mismatch"),
    ],
    ids=str,
)
def test_a_refused_where(folder, condition, reason):
    with pytest.raises(ia.PredicateError) as caught:
        ia.open(folder).count(condition)
    assert caught.value.reason == reason


def test_a_where_with_an_unknown_column(folder):
    with pytest.raises(ia.ColumnNotFoundError) as caught:
        ia.open(folder).count(C("nothing") == 1)
    assert caught.value.column == "nothing"


def test_a_where_reads_only_what_it_needs(folder):
    table = ia.open(folder)
    where = (C("i") == 45) & (C("part") == 0)
    scan_of_one = table.scan(where, ["s"])
    assert scan_of_one.to_arrow().to_pylist() == [{"s": "a15b"}]
    assert {name: counts.read for name, counts in scan_of_one.report.pages.items() if counts.read} == {
        "i": 1,
        "s": 1,
    }
    assert table.count(where) == table.explain(where, analyze=True).rows_matched == 1
    assert len(table.plan(where)) == 1
    assert table.count_distinct("s", where) == 1


def test_a_range_of_floats_reads_pages_that_may_contain_nan(tmp_path):
    values = [float(n) for n in range(100)]
    values[17] = NAN
    write(tmp_path / "f.parquet", pa.table({"f": values}), row_group_size=10)
    dataset = ia.open(tmp_path).dataset()
    found = scan(dataset).filter(C("f") > 95).collect()["f"].to_list()
    assert repr(found) == repr([NAN, 96.0, 97.0, 98.0, 99.0])


def test_a_condition_that_cannot_be_translated_is_evaluated_by_polars(dataset):
    where = (C("i") < 10) & (C("s").str.to_uppercase() == "A3B")
    assert scan(dataset).filter(where).select("i").collect().rows() == [(3,)]
    assert dataset.last_report.rows_matched == 8
    assert pages_read(dataset) == {"i": 1, "s": 1}


def test_a_head_stops_early(dataset):
    assert scan(dataset).select("i").head(4).collect()["i"].to_list() == [None, 1, 2, 3]
    assert pages_read(dataset) == {"i": 1}


def test_sources_are_those_of_open(folder):
    table = ia.open(folder)
    for source in (folder, str(folder), table, table.dataset(), [folder / "part=0" / "rows.parquet"]):
        assert scan(source).filter(C("i") == 45).select("s").collect().rows() == [("a15b",)]
    with pytest.raises(FileNotFoundError):
        scan(folder / "nothing")


def test_a_predicate_of_thousands_of_conditions_is_answered(folder, everything):
    where = C("i") == 0
    for number in range(600):
        where = where & (C("i") != number + 1000)
    assert same(scan(folder).filter(where).collect(), everything.filter(where))


def test_columns_without_a_type_in_polars_are_named(tmp_path):
    """Polars panics at decimals of more than 38 digits, which ClickHouse writes."""
    path = tmp_path / "t.parquet"
    wide = pa.array([{"d": Decimal("1.5")}, None], pa.struct([("d", pa.decimal256(76, 2))]))
    pq.write_table(pa.table({"x": [1, 2], "wide": wide}), path)
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        ia.open(path).scan().to_polars()
    assert (caught.value.reason, caught.value.column) == ("no-polars-type", "wide")
    with pytest.raises(pl.exceptions.ComputeError, match="UnsupportedFeatureError: column 'wide'"):
        scan(path).select("x").collect()
    assert ia.open(path).scan(columns=["x"]).to_polars()["x"].to_list() == [1, 2]
