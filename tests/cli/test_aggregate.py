"""`intarsia query --aggregate` and `--sample`: compared with other engines, in all formats, from indexes."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
import uuid
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.cli.answers import aggregated, parse_calls
from intarsia.cli.terminal import UsageError
from tests.cli.trips import trips

EVERYTHING = "count(*), count(km), sum(km), min(km), max(km), avg(km), sum(id), avg(id), min(city), max(city)"


def row(run, path, text, *options):
    outcome = run("query", path, "--aggregate", text, "--format", "jsonl", *options)
    assert (outcome.code, outcome.err) == (0, "")
    (line,) = outcome.out.splitlines()
    return json.loads(line)


def arrow_row(run, path, text, *options):
    raw = run("query", path, "--aggregate", text, "--format", "arrow", *options).raw
    return pa.ipc.open_stream(raw).read_all()


# --- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [None, "id < 1234", "city = 'Bremen' AND id > 900", "id < 0"])
@pytest.mark.parametrize("indexed", [False, True])
def test_the_values_of_duckdb(run, lake, where, indexed):
    if indexed:
        run("index", lake, "--page-index", "--add", "zone_map(km)", "--add", "zone_map(id)")
    found = arrow_row(run, lake, EVERYTHING, *(["--where", where] if where else []))
    query = f"SELECT {EVERYTHING} FROM '{lake}/**/*.parquet' WHERE {where or 'true'}"
    expected = duckdb.sql(query).fetchall()[0]
    assert found.num_rows == 1
    assert list(found.to_pylist()[0].values()) == [
        pytest.approx(value) if isinstance(value, float) else value for value in expected
    ]
    assert found.column_names == EVERYTHING.split(", ")


def test_indexes_answer_and_no_data_is_read(run, lake, tmp_path):
    run("index", lake, "--page-index", "--add", "zone_map(km)", "--add", "hll(city)")
    target = tmp_path / "report.json"
    text = "count(*), sum(km), count(km), approx_distinct(city), max(id)"
    found = row(run, lake, text, "--where", "year >= 2022", "--report", target)
    kept = trips(2000, 4000)
    assert found == {
        "count(*)": 4000,
        "sum(km)": pc.sum(kept["km"]).as_py(),
        "count(km)": pc.count(kept["km"]).as_py(),
        "approx_distinct(city)": 5,
        "max(id)": 5999,
    }
    exact, estimate = json.loads(target.read_text())
    expected = [(exact, {("zone_map(km):page", "km")}), (estimate, {("hll(city):file", "city")})]
    for report, answered in expected:
        assert report["pages"]["read"] == report["row_groups"]["read"] == 0
        assert report["files"]["opened"] == 2
        assert report["rows"]["matched"] in (4000, 0)  # a sketch counts no rows
        names = {(entry["index"], entry["column"]): entry["rows"] for entry in report["answered_by"]}
        assert answered <= set(names)
        assert all(names[key] == 4000 for key in answered)


def test_one_pass_has_one_report(run, file, tmp_path):
    target = tmp_path / "report.json"
    row(run, file, "count(*), max(id)", "--where", "id < 1000", "--report", target)
    assert json.loads(target.read_text())["rows"]["matched"] == 1000
    row(run, file, "approx_distinct(city)", "--report", target)
    assert json.loads(target.read_text())["row_groups"] == {"total": 2, "read": 2}


def test_aliases_and_repeated_questions(run, file):
    assert row(run, file, 'max(id) AS last, MAX(id), max(id) "the last", count(*) n') == {
        "last": 1999,
        "max(id)": 1999,
        "the last": 1999,
        "n": 2000,
    }
    outcome = run("query", file, "-a", "min(id)", "-a", "max(id)", "-f", "csv")
    assert outcome.out.splitlines() == ['"min(id)","max(id)"', "0,1999"]


def test_partition_columns(run, lake):
    assert row(run, lake, "min(year), approx_distinct(year), sum(year)", "-w", "year > 2021") == {
        "min(year)": 2022,
        "approx_distinct(year)": 2,
        "sum(year)": 2000 * (2022 + 2023),
    }


# --- names -----------------------------------------------------------------------------------------------


@pytest.fixture
def odd(tmp_path):
    """Names that need quotes, and names that look alike."""
    path = tmp_path / "odd.parquet"
    table = pa.table(
        {
            "a b": [1, 2],
            "s": pa.array([{"x": 5, "y z": 6}, {"x": 7, "y z": None}]),
            "p.q": [10, 20],
            "*": pa.array([None, 1]),
            "date": [3, 4],
        }
    )
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ('sum("a b")', 'sum("a b")', 3),
        ("sum(`a b`)", 'sum("a b")', 3),
        ("sum(s.x)", "sum(s.x)", 12),
        ('max("s"."y z")', 'max("s"."y z")', 6),
        ("sum(p.q)", "sum(p.q)", 30),
        ('sum("p.q")', 'sum("p.q")', 30),
        ("count(s)", "count(s)", 2),
        ("sum(date)", "sum(date)", 7),
    ],
)
def test_names(run, odd, text, name, value):
    assert row(run, odd, text) == {name: value}


def test_ambiguous_names_are_refused(run, tmp_path, odd):
    """The result must never be that of another column."""
    path = tmp_path / "alike.parquet"
    pq.write_table(pa.table({"a.b": [1], "a": [{"b": 5}]}), path)
    assert row(run, path, "max(a.b)") == {"max(a.b)": 1}
    assert row(run, path, 'max("a.b")') == {'max("a.b")': 1}
    for wrong in ('max("a"."b")', 'count("*")'):
        table = ia.open(odd if "*" in wrong else path)
        with pytest.raises(UsageError) as caught:
            aggregated(table, None, parse_calls([wrong]))
        assert caught.value.reason == "ambiguous-column"


# --- types -----------------------------------------------------------------------------------------------

MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15, 250_000)
BERLIN = pa.array([1698539400000, 1698543000000], pa.timestamp("ms", "Europe/Berlin"))  # both 02:30 there
NS = pa.array([1_000_000_000, 1_000_000_001], pa.timestamp("ns"))
TYPES = {
    "small": pa.array([1, -(2**31)], pa.int32()),
    "unsigned": pa.array([2**64 - 1, 0], pa.uint64()),
    "real": pa.array([1.5, None]),
    "single": pa.array([0.1, 0.2], pa.float32()),
    "half": pa.array([1.5, 2.5], pa.float16()),
    "exact": pa.array([Decimal("1.20"), Decimal("-7.05")], pa.decimal128(9, 2)),
    "wide": pa.array([Decimal("1.20"), Decimal("9" * 36 + ".99")], pa.decimal128(38, 2)),
    "flag": pa.array([True, False]),
    "day": pa.array([dt.date(2024, 2, 29), dt.date(1, 1, 1)]),
    "time": pa.array([dt.time(12, 30), None], pa.time32("ms")),
    "naive": pa.array([MOMENT, None], pa.timestamp("us")),
    "berlin": BERLIN,
    "nanos": NS,
    "far": pa.array([2**62, -(2**62)], pa.timestamp("us")),
    "bytes": pa.array([b"\xff\x00", b""]),
    "fixed": pa.array([b"ab", b"aa"], pa.binary(2)),
    "word": pa.array(["b", "a"]).dictionary_encode(),
    "large": pa.array(["b", "a"], pa.large_string()),
    "uuid": pa.array([uuid.UUID(int=2).bytes, uuid.UUID(int=1).bytes], pa.uuid()),
    "nothing": pa.array([None, None], pa.int64()),
}


#: Of these, the first value is the least, of the others the second.
FIRST_IS_LEAST = {"real", "single", "half", "wide", "time", "naive", "berlin", "nanos", "nothing"}
ONE_VALUE = {"real", "time", "naive", "nothing"}


@pytest.mark.parametrize("name", list(TYPES))
def test_extremes_are_what_the_column_holds(run, tmp_path, name):
    """The value to the last bit, as the column's own rows are written, in each format."""
    column = TYPES[name]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": column, "n": [0, 1]}), path)
    low = 0 if name in FIRST_IS_LEAST else 1
    high = low if name in ONE_VALUE else 1 - low
    text = "min(x) AS lo, max(x) AS hi"
    found = arrow_row(run, path, text)
    plain = column.dictionary_decode() if name == "word" else column
    plain = plain.cast(pa.string()) if name == "large" else plain
    assert found["lo"].combine_chunks().equals(plain[low : low + 1])
    assert found["hi"].combine_chunks().equals(plain[high : high + 1])
    rows = json.loads(run("query", path, "--format", "json").out)
    assert row(run, path, text) == {"lo": rows[low]["x"], "hi": rows[high]["x"]}
    if name != "far":  # which CSV files cannot have
        lines = list(csv.reader(io.StringIO(run("query", path, "--format", "csv").out)))
        (_, cells) = csv.reader(io.StringIO(run("query", path, "-a", text, "-f", "csv").out))
        assert cells == [lines[1 + low][0], lines[1 + high][0]]
    target = tmp_path / "row.parquet"
    assert run("query", path, "-a", text, "-o", target).code == 0
    assert pq.read_table(target).equals(found)
    assert run("query", path, "-a", text).out.split()[:2] == ["lo", "hi"]


@pytest.mark.parametrize("name", ["small", "unsigned", "real", "single", "half", "exact", "nothing"])
def test_sums_and_averages(run, tmp_path, name):
    path = tmp_path / "t.parquet"
    table = pa.table({"x": TYPES[name]})
    pq.write_table(table, path)
    found = arrow_row(run, path, "sum(x), avg(x)").to_pylist()[0]
    values = [value for value in table["x"].to_pylist() if value is not None]
    total = sum(values) if values else None
    assert found["sum(x)"] == total
    assert found["avg(x)"] == (None if total is None else total / len(values))


def test_sums_beyond_64_bits(run, tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [2**63 - 1] * 3, "y": pa.array([2**64 - 1] * 3, pa.uint64())}), path)
    text = "sum(x), sum(y)"
    most, more = 3 * (2**63 - 1), 3 * (2**64 - 1)
    found = arrow_row(run, path, text)
    assert found.to_pylist() == [{"sum(x)": Decimal(most), "sum(y)": Decimal(more)}]
    assert set(found.schema.types) == {pa.decimal128(38, 0)}
    assert row(run, path, text) == {"sum(x)": str(most), "sum(y)": str(more)}
    assert run("query", path, "-a", text, "-f", "csv").out.splitlines()[1] == f"{most},{more}"
    assert run("query", path, "-a", text).out.split()[-2:] == [str(most), str(more)]
    assert arrow_row(run, path, "sum(x)", "-w", "x = 0").schema.types == [pa.int64()]


def test_decimals_keep_their_digits(run, tmp_path):
    path = tmp_path / "t.parquet"
    values = [Decimal("1.10"), Decimal("1.15"), Decimal("-0.01")]
    pq.write_table(pa.table({"x": pa.array(values, pa.decimal128(30, 2))}), path)
    found = arrow_row(run, path, "sum(x), avg(x)")
    assert found.to_pylist() == [{"sum(x)": Decimal("2.24"), "avg(x)": Decimal("0.746667")}]
    assert found.schema.types == [pa.decimal256(76, 2), pa.decimal128(34, 6)]
    assert row(run, path, "sum(x), avg(x)") == {"sum(x)": "2.24", "avg(x)": "0.746667"}
    assert run("query", path, "-a", "sum(x), avg(x)", "-f", "csv").out.splitlines()[1] == "2.24,0.746667"


def test_nan(run, tmp_path):
    """Greater than every number, as in the library; JSON has none."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1.0, math.nan, None]}), path)
    found = arrow_row(run, path, "min(x), max(x), sum(x), count(x)").to_pylist()[0]
    assert (found["min(x)"], found["count(x)"]) == (1.0, 2)
    assert math.isnan(found["max(x)"])
    assert math.isnan(found["sum(x)"])
    assert row(run, path, "max(x)") == {"max(x)": None}
    assert run("query", path, "-a", "max(x)", "-f", "csv").out.splitlines()[1] == "nan"


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("stddev(id)", "unknown-function"),
        ("id", "unknown-function"),
        ("sum(*)", "invalid-aggregate"),
        ("count()", "invalid-aggregate"),
        ("max(id, 3)", "invalid-aggregate"),
        ("sum(id + 1)", "invalid-aggregate"),
        ("sum('id')", "invalid-aggregate"),
        ("count(DISTINCT city)", "invalid-aggregate"),
        ("sum(id) OVER ()", "unknown-function"),
        ("sum(id) FILTER (WHERE id > 3)", "unknown-function"),
        ("sum(id) FROM trips", "invalid-aggregate"),
        ("sum(id); sum(km)", "invalid-aggregate"),
        ("sum(id", "invalid-aggregate"),
        ("sum('id)", "invalid-aggregate"),
        ("", "invalid-aggregate"),
        (" , ", "invalid-aggregate"),
        ("count(*), COUNT(*)", "duplicate-name"),
        ("sum(id) AS n, count(*) AS n", "duplicate-name"),
    ],
)
def test_invalid_aggregates(text, reason):
    with pytest.raises(UsageError) as caught:
        parse_calls([text])
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("summ(id)", "sum"),
        ("approx_distnct(city)", "approx_distinct"),
        ("count(DISTINCT city)", "approx_distinct"),
        ("sum(idd)", "'id'"),
        ("sum(city)", "string"),
        ("", "count(*)"),
    ],
)
def test_invalid_aggregates_are_one_line(run, file, tmp_path, text, suggestion):
    target = tmp_path / "row.csv"
    outcome = run("query", file, "--aggregate", text, "--output", target)
    assert (outcome.code, outcome.raw, len(outcome.err.splitlines())) == (2, b"", 1)
    assert suggestion in outcome.err
    assert not target.exists()


def test_lists_have_no_distinct_values(run, tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [[1], [2]]}), path)
    with pytest.raises(UsageError) as caught:
        aggregated(ia.open(path), None, parse_calls(["count(*), approx_distinct(x)"]))
    assert (caught.value.reason, caught.value.column) == ("unsupported-type", "x")
    assert run("query", path, "--aggregate", "count(*), approx_distinct(x)").code == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-a", "count(*)", "--limit", "3"], ["--aggregate", "--limit"]),
        (["-a", "count(*)", "--columns", "id"], ["--aggregate", "--columns"]),
        (["--value-counts", "city", "--columns", "id"], ["--value-counts", "--columns"]),
        (["--value-counts", "city", "-a", "count(*)"], ["--value-counts", "--aggregate"]),
        (["--value-counts", "city", "--sample", "3"], ["--value-counts", "--sample"]),
        (["--sample", "3", "--where", "id = 1"], ["--sample", "--where"]),
        (["--sample", "3", "--limit", "1"], ["--sample", "--limit"]),
        (["--sample", "3", "-a", "count(*)"], ["--sample", "--aggregate"]),
        (["--seed", "3"], ["--seed", "--sample"]),
        (["--seed", "3", "-a", "count(*)"], ["--seed", "--sample"]),
        (["--sample", "-1"], ["--sample"]),
        (["--sample", "1", "--seed", "-1"], ["--seed"]),
    ],
    ids=" ".join,
)
def test_conflicting_options(run, file, options, words):
    outcome = run("query", file, *options)
    assert (outcome.code, outcome.raw, len(outcome.err.splitlines())) == (2, b"", 1)
    for word in words:
        assert word in outcome.err


def test_a_deep_text_is_refused():
    with pytest.raises(UsageError) as caught:
        parse_calls(["sum(" * 5000 + "x" + ")" * 5000])
    assert caught.value.reason == "invalid-aggregate"


# --- samples ---------------------------------------------------------------------------------------------


def test_a_sample_is_that_of_the_library(run, lake, tmp_path):
    run("index", lake, "--page-index", "--add", "sample(100)")
    target = tmp_path / "report.json"
    options = ["--sample", "50", "--seed", "7", "--format", "arrow", "--report", target]
    found = pa.ipc.open_stream(run("query", lake, *options).raw).read_all()
    assert found.equals(ia.open(lake).sample(50, seed=7))
    assert found.num_rows == 50
    report = json.loads(target.read_text())
    assert report["pages"]["read"] == report["row_groups"]["read"] == 0
    assert report["rows"]["matched"] == 50
    other = pa.ipc.open_stream(run("query", lake, *options, "--seed", "8").raw).read_all()
    assert not other.equals(found)


def test_a_sample_of_columns(run, lake):
    lines = run("query", lake, "--sample", 60, "--columns", "year,id").out.splitlines()
    assert lines[0].split() == ["year", "id"]
    rows = [tuple(map(int, line.split())) for line in lines[1:]]
    assert len(set(rows)) == 60  # more than a table shows of what was not asked for by number
    assert all(year == 2021 + number // 2000 for year, number in rows)


def test_a_sample_of_all_and_of_nothing(run, file):
    lines = run("query", file, "--sample", 5000, "--format", "jsonl").out.splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == list(range(2000))
    assert run("query", file, "--sample", 0, "--format", "json").raw == b"[]\n"
