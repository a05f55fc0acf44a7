"""`intarsia query`: the same rows in every format, the report, and files that appear whole or not at all."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import gc
import io
import json
import os
import uuid
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from intarsia.cli.formats import BLOCK_ROWS, Format
from tests.cli.trips import trips

WHERE = "city = 'Bremen' OR id < 3"
KEYS = [
    "files",
    "row_groups",
    "pages",
    "rows",
    "bytes",
    "requests",
    "pruned_by",
    "answered_by",
    "files_failed",
    "ignored",
    "seconds",
    "advice",
]


def expected():
    table = trips()
    return table.filter((pc.field("city") == "Bremen") | (pc.field("id") < 3))


class TestFormats:
    def test_arrow_on_stdout_is_a_stream(self, run, file):
        raw = run("query", file, "--where", WHERE, "--format", "arrow").raw
        assert pa.ipc.open_stream(raw).read_all().equals(expected())

    def test_arrow_in_a_file_has_the_form_of_files(self, run, file, tmp_path):
        target = tmp_path / "rows.arrow"
        assert run("query", file, "--where", WHERE, "--output", target).raw == b""
        assert pa.ipc.open_file(target).read_all().equals(expected())

    @pytest.mark.parametrize("to_file", [True, False])
    def test_parquet(self, run, file, tmp_path, to_file):
        target = tmp_path / "rows.parquet"
        options = ["--output", target] if to_file else ["--format", "parquet"]
        raw = run("query", file, "--where", WHERE, *options).raw
        assert pq.read_table(target if to_file else pa.BufferReader(raw)).equals(expected())

    def test_csv(self, run, file):
        lines = run("query", file, "--where", WHERE, "--format", "csv").out.splitlines()
        assert lines == [
            '"id","city","km"',
            '0,"Aachen",',
            '1,"Berlin",0.25',
            '2,"Bonn",0.5',
            '777,"Bremen",194.25',
            '1777,"Bremen",444.25',
        ]

    def test_json(self, run, file):
        out = run("query", file, "--where", WHERE, "--format", "json").out
        assert json.loads(out) == expected().to_pylist()

    def test_jsonl(self, run, file):
        lines = run("query", file, "--where", WHERE, "--format", "jsonl").out.splitlines()
        assert [json.loads(line) for line in lines] == expected().to_pylist()

    def test_table(self, run, file):
        lines = run("query", file, "--where", WHERE).out.splitlines()
        assert [line.split() for line in lines] == [
            ["id", "city", "km"],
            ["0", "Aachen", "null"],
            ["1", "Berlin", "0.25"],
            ["2", "Bonn", "0.5"],
            ["777", "Bremen", "194.25"],
            ["1777", "Bremen", "444.25"],
        ]

    @pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv"])
    def test_text_that_is_not_utf8(self, run, tmp_path, form):
        text = pa.array([b"ok", b"\xff" * 50]).view(pa.string())
        # in a struct, because CSV has other text as it is
        rows = pa.table({"id": [1, 2], "s": pa.StructArray.from_arrays([text], ["t"])})
        pq.write_table(rows, tmp_path / "a.parquet")
        outcome = run("query", tmp_path / "a.parquet", "--format", form)
        assert outcome.code == 1
        assert outcome.err.startswith("intarsia: column 's' ")
        assert outcome.err.count("\\xff") == 20
        assert run("query", tmp_path / "a.parquet", "--format", form, "--columns", "id").code == 0

    @pytest.mark.parametrize(
        ("form", "nothing"),
        [("json", b"[]\n"), ("jsonl", b""), ("csv", b'"id","city","km"\n'), ("table", b"id  city  km\n")],
    )
    def test_no_rows(self, run, file, form, nothing):
        assert run("query", file, "--where", "id = -1", "--format", form).raw == nothing

    def test_columns(self, run, file):
        out = run("query", file, "--where", "id = 5", "--columns", "km,id", "-c", "city", "-f", "jsonl").out
        assert list(json.loads(out).items()) == [("km", 1.25), ("id", 5), ("city", "Berlin")]

    def test_limit(self, run, file):
        out = run("query", file, "--where", "city = 'Bonn'", "--limit", 2, "--format", "jsonl").out
        assert [json.loads(line)["id"] for line in out.splitlines()] == [2, 6]

    def test_several_predicates_must_all_match(self, run, file):
        """Each is parsed on its own, so neither OR nor a comment reaches into the next."""
        where = ("-w", "id = 2 OR id = 6 -- two rows", "-w", "id > 3 OR id = 9")
        assert [row["id"] for row in json.loads(run("query", file, *where, "-f", "json").out)] == [6]
        assert run("query", file, *where, "-a", "count(*)").out.split()[-1] == "1"
        planned = json.loads(run("explain", file, *where, "--analyze", "--json").out)
        assert planned["rows"]["matched"] == 1
        assert run("query", file, "-w", "id = 2", "-w", "id >").code == 2

    def test_order_by(self, run, file):
        out = run("query", file, "--where", "id < 99", "--order-by", "id DESC", "-n", 2, "-f", "jsonl").out
        assert [json.loads(line)["id"] for line in out.splitlines()] == [98, 97]

    def test_partition_columns(self, run, lake):
        rows = json.loads(run("query", lake, "--where", "year = 2022 AND id = 2001", "--format", "json").out)
        assert rows == [{"id": 2001, "city": "Berlin", "km": 500.25, "year": 2022}]

    def test_several_paths(self, run, lake):
        parts = sorted(lake.rglob("*.parquet"))
        rows = json.loads(run("query", *parts[:2], "--where", "city = 'Bremen'", "-f", "json").out)
        assert [row["id"] for row in rows] == [777, 1777, 2777, 3777]


class TestTable:
    @pytest.mark.parametrize("arguments", [(), ("--where", "id >= 0"), ("--value-counts", "id")])
    def test_output_that_is_not_a_terminal_is_complete(self, run, file, arguments):
        assert len(run("query", file, *arguments).out.splitlines()) == 1 + trips().num_rows

    def test_a_file_is_complete(self, run, file, tmp_path):
        target = tmp_path / "rows.txt"
        run("query", file, "--format", "table", "--output", target)
        assert len(target.read_text().splitlines()) == 1 + trips().num_rows

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
    @pytest.mark.parametrize("option", ["--output", "--report"])
    @pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
    def test_the_output_is_named_when_the_disk_is_full(self, run, file, option, form):
        outcome = run("query", file, "--format", form, option, "/dev/full")
        assert outcome.code == 1
        assert outcome.err.startswith("intarsia: /dev/full: ")

    def test_later_blocks_are_wider_if_they_must_be(self, run, tmp_path):
        """A table of any length is written in blocks, so it needs little memory."""
        num_rows = 4 * BLOCK_ROWS
        texts = ["b" * (5 + row // BLOCK_ROWS) for row in range(num_rows)]
        path = tmp_path / "long.parquet"
        rows = pa.table({"text": texts, "n": pa.array(range(num_rows))})
        pq.write_table(rows, path, row_group_size=BLOCK_ROWS)
        lines = run("query", path, "--where", "n >= 0").out.splitlines()
        assert lines[0].split() == ["text", "n"]
        found = [line.split() for line in lines[1:]]
        assert found == [[text, str(row)] for row, text in enumerate(texts)]
        widths = [len(line) for line in lines]
        assert widths == sorted(widths)
        assert widths[0] < widths[-1]

    def test_as_many_as_the_limit(self, run, file):
        assert len(run("query", file, "--where", "id < 1500", "--limit", 100).out.splitlines()) == 101


class TestReport:
    def test_over_an_input_or_the_rows(self, run, file, tmp_path):
        before, target = file.read_bytes(), tmp_path / "both.json"
        assert run("query", file, "--report", file).code == 2
        (tmp_path / "link.json").symlink_to("both.json")
        for other in (target, f"{tmp_path}/./both.json", tmp_path / "link.json"):
            assert run("query", file, "--output", target, "--report", other).code == 2
        assert (file.read_bytes(), target.exists()) == (before, False)

    def test_an_old_report_remains_until_the_new_one_is_complete(self, run, file, tmp_path):
        target = tmp_path / "report.json"
        target.write_text("old")
        (tmp_path / "linked").hardlink_to(target)
        assert run("query", file, "--report", target).code == 0
        assert json.loads(target.read_text())["files"]["read"] == 1
        assert (tmp_path / "linked").read_text() == "old"

    def test_to_a_file(self, run, file, tmp_path):
        target = tmp_path / "report.json"
        outcome = run("query", file, "--where", "id = 3", "--format", "csv", "--report", target)
        report = json.loads(target.read_text())
        assert list(report) == KEYS
        assert report["rows"] == {"total": 2000, "candidates": 1000, "estimated": None, "matched": 1}
        assert report["row_groups"] == {"total": 2, "read": 1}
        assert set(report["pages"]["by_column"]) == {"id", "city", "km"}
        assert report["pruned_by"] == [
            {"index": "statistics", "column": "id", "files": 0, "row_groups": 1, "pages": 30, "rows": 1000}
        ]
        assert outcome.err == ""

    def test_dash_keeps_stdout_clean(self, run, file):
        outcome = run("query", file, "--where", "id = 3", "--format", "json", "--report", "-")
        assert len(json.loads(outcome.out)) == 1
        assert json.loads(outcome.err)["rows"]["matched"] == 1

    def test_dash_is_stdout_if_the_rows_go_elsewhere(self, run, file, tmp_path):
        outcome = run("query", file, "--where", "id = 3", "--output", tmp_path / "r.csv", "--report", "-")
        assert json.loads(outcome.out)["rows"]["matched"] == 1


class TestOutput:
    def test_replaces_a_file_and_keeps_to_the_umask(self, run, file, tmp_path):
        target = tmp_path / "rows.csv"
        target.write_text("old")
        old = os.umask(0o027)
        try:
            run("query", file, "--where", "id = 3", "--output", target)
        finally:
            os.umask(old)
        assert target.read_text() == '"id","city","km"\n3,"Cologne",0.75\n'
        assert target.stat().st_mode & 0o777 == 0o640

    @pytest.mark.parametrize("option", ["--output", "--report"])
    def test_an_empty_name(self, run, file, tmp_path, option):
        outcome = run("query", file, "--format", "csv", option, "")
        assert (outcome.code, outcome.err) == (1, "intarsia: .: is a directory\n")

    def test_a_private_file_stays_private(self, run, file, tmp_path):
        target = tmp_path / "rows.csv"
        target.touch(0o600)
        assert run("query", file, "--output", target).code == 0
        assert target.stat().st_mode & 0o777 == 0o600

    def test_dash_is_stdout(self, run, file, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        arguments = ("query", file, "--where", "id = 3", "--format", "csv", "--report", "-")
        outcome = run(*arguments, "--output", "-")
        assert outcome.raw == run(*arguments).raw != b""
        assert json.loads(outcome.err)["rows"]["matched"] == 1
        assert not os.path.exists("-")

    def test_a_failure_leaves_the_old_file(self, run, broken, file, tmp_path):
        target = tmp_path / "rows.csv"
        target.write_text("old")
        assert run("query", file, broken, "--output", target).code == 1
        assert target.read_text() == "old"
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []

    @pytest.mark.parametrize("form", get_args(Format))
    @pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
    def test_a_failure_after_some_rows_is_one_error(self, run, tmp_path, form):
        path = tmp_path / "long.parquet"
        numbers = pa.table({"n": np.random.default_rng(0).integers(0, 2**60, 2_000_000)})
        pq.write_table(
            numbers, path, row_group_size=1_000_000, use_dictionary=False, write_page_checksum=True
        )
        data = bytearray(path.read_bytes())
        data[-3_000_000] ^= 255
        path.write_bytes(data)
        outcome = run("query", path, "--where", "n >= 0", "--format", form, "--output", tmp_path / "rows")
        assert (outcome.code, outcome.err.count("\n")) == (1, 1)
        gc.collect()
        assert os.listdir(tmp_path) == ["long.parquet"]

    def test_to_a_device(self, run, file):
        assert run("query", file, "--format", "csv", "--output", os.devnull).code == 0


MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15, 250_000)
ZOO = {
    "flag": (pa.array([True, None]), [True, None], "true"),
    "big": (pa.array([2**63 - 1, None]), [2**63 - 1, None], str(2**63 - 1)),
    "real": (pa.array([1.5, float("nan")]), [1.5, None], "1.5"),
    "exact": (pa.array([decimal.Decimal("1.20"), None]), ["1.20", None], "1.20"),
    "day": (pa.array([dt.date(2024, 2, 29), None]), ["2024-02-29", None], "2024-02-29"),
    "time": (pa.array([dt.time(12, 30), None], pa.time64("us")), ["12:30:00", None], "12:30:00.000000"),
    "naive": (
        pa.array([MOMENT, None], pa.timestamp("us")),
        ["2024-02-29T12:30:15.25", None],
        "2024-02-29 12:30:15.250000",
    ),
    "utc": (
        pa.array([MOMENT, None], pa.timestamp("ms", "UTC")),
        ["2024-02-29T12:30:15.25Z", None],
        "2024-02-29 12:30:15.250Z",
    ),
    "local": (
        pa.array([MOMENT, None], pa.timestamp("ms", "Europe/Berlin")),
        ["2024-02-29T13:30:15.25+01:00", None],
        "2024-02-29 13:30:15.250+0100",
    ),
    "round": (pa.array([dt.datetime(2024, 2, 10), None]), ["2024-02-10T00:00:00", None], None),
    "nanos": (pa.array([1, None], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001", None], None),
    "span": (pa.array([7, None], pa.duration("us")), [7, None], "7"),
    "bytes": (pa.array([b"\xff\x00", None]), ["ff00", None], "ff00"),
    "fixed": (pa.array([b"ab", None], pa.binary(2)), ["6162", None], "6162"),
    "word": (pa.array(["a", None]).dictionary_encode(), ["a", None], "a"),
    "view": (pa.array(["a", None], pa.string_view()), ["a", None], "a"),
    "list": (pa.array([[1, None], None]), [[1, None], None], "[1, null]"),
    "struct": (pa.array([{"a": 1, "b": None}, None]), [{"a": 1, "b": None}, None], '{"a": 1, "b": null}'),
    "deep": (
        pa.array([[{"at": MOMENT}], []], pa.list_(pa.struct([("at", pa.timestamp("us"))]))),
        [[{"at": "2024-02-29T12:30:15.25"}], []],
        '[{"at": "2024-02-29T12:30:15.25"}]',
    ),
    "map": (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())), [{"a": 1}, None], '{"a": 1}'),
    "pairs": (pa.array([[(1, 2)], None], pa.map_(pa.int32(), pa.int32())), [[[1, 2]], None], "[[1, 2]]"),
    "uuid": (
        pa.array([uuid.UUID(int=1).bytes, None], pa.uuid()),
        ["00000000-0000-0000-0000-000000000001", None],
        "00000000-0000-0000-0000-000000000001",
    ),
}


@pytest.mark.parametrize("name", list(ZOO))
def test_every_type_as_json_and_csv(run, tmp_path, name):
    column, as_json, as_csv = ZOO[name]
    path = tmp_path / "zoo.parquet"
    pq.write_table(pa.table({name: column, "n": [0, 1]}), path)
    rows = json.loads(run("query", path, "--format", "json").out)
    assert [row[name] for row in rows] == as_json
    found = list(csv.reader(io.StringIO(run("query", path, "--format", "csv").out)))
    if as_csv is not None:
        assert found[1] == [as_csv, "0"]
    assert run("query", path).code == 0


FAR = {
    "day": (pa.array([2**31 - 1, None, 2_932_897], pa.date32()), ["+5881580-07-11", None, "+10000-01-01"]),
    "day64": (pa.array([-86_400_000 * 719_529], pa.int64()).view(pa.date64()), ["-0001-12-31"]),
    "naive": (
        pa.array([2**63 - 1, 0], pa.timestamp("us")),
        ["+294247-01-10T04:00:54.775807", "1970-01-01T00:00:00"],
    ),
    "local": (pa.array([-(2**62)], pa.timestamp("us", "Europe/Berlin")), ["-144169-06-28T09:59:32.612096Z"]),
    "deep": (pa.array([[2**62]], pa.list_(pa.timestamp("ms"))), [["+146140482-04-24T15:36:27.904"]]),
}


@pytest.mark.parametrize("name", FAR)
def test_years_with_a_sign(run, tmp_path, name):
    """Arrow prints some of them as another year, and others as an error."""
    column, expected = FAR[name]
    path = tmp_path / "far.parquet"
    pq.write_table(pa.table({"at": column}), path)
    assert [row["at"] for row in json.loads(run("query", path, "--format", "json").out)] == expected
    assert run("query", path).code == 0


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("s", "Europe/Berlin")])
def test_dates_that_arrow_cannot_write_as_csv(run, tmp_path, kind):
    path = tmp_path / "far.parquet"
    pq.write_table(
        pa.table({"at": pa.array([0, 12_687_428 * (1 if kind == pa.date32() else 86_400)], kind)}), path
    )
    assert run("query", path, "--format", "csv").code == 1


def test_a_table_distinguishes_nan_from_null(run, tmp_path):
    column = pa.array([float("nan"), float("-inf"), None, 1.0])
    table = pa.table({"x": column, "word": column.dictionary_encode()})
    pq.write_table(table, tmp_path / "t.parquet")
    lines = run("query", tmp_path / "t.parquet").out.splitlines()[1:]
    assert [line.split() for line in lines] == [[word] * 2 for word in ("nan", "-inf", "null", "1.0")]


def test_csv_of_nested_uuids(run, tmp_path):
    value = uuid.UUID(int=7)
    structs = pa.StructArray.from_arrays([pa.array([value.bytes], pa.uuid())], ["u"])
    pq.write_table(pa.table({"s": structs}), tmp_path / "t.parquet")
    found = run("query", tmp_path / "t.parquet", "--format", "csv")
    assert list(csv.reader(io.StringIO(found.out))) == [["s"], [json.dumps({"u": str(value)})]]


def test_dictionaries_of_several_files_in_one_arrow_file(run, tmp_path):
    for part, text in (("a", "x"), ("b", "y")):
        path = tmp_path / "lake" / f"part={part}" / "t.parquet"
        path.parent.mkdir(parents=True)
        texts = pa.array([text, None]).dictionary_encode()
        nested = {
            "struct": pa.StructArray.from_arrays([texts], ["a"]),
            "list": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts),
        }
        pq.write_table(pa.table({"text": texts, **nested}), path)
    for form in ([], ["--sample", 9]):
        target = tmp_path / "rows.arrow"
        run("query", tmp_path / "lake", "--output", target, *form)
        rows = pa.ipc.open_file(target).read_all()
        assert rows.schema.field("text").type == rows.schema.field("part").type == pa.string()
        assert rows["struct"].to_pylist() == [{"a": text} for text in rows["text"].to_pylist()]
        assert rows["list"].to_pylist() == [[text] for text in rows["text"].to_pylist()]
        found = sorted(rows.select(["text", "part"]).to_pylist(), key=str)
        assert found == sorted(
            ({"text": t, "part": p} for t, p in (("x", "a"), (None, "a"), ("y", "b"), (None, "b"))), key=str
        )


def test_nested_values_of_slices(run, tmp_path):
    """Rows that were filtered keep their own lists and maps."""
    path = tmp_path / "nested.parquet"
    lists = [[row] * (row % 3) for row in range(20)]
    maps = [[("k", row)] * (row % 2) for row in range(20)]
    table = pa.table({"n": range(20), "l": lists, "m": pa.array(maps, pa.map_(pa.string(), pa.int64()))})
    pq.write_table(table, path, row_group_size=7)
    rows = json.loads(run("query", path, "--where", "n IN (5, 8, 16)", "--format", "json").out)
    assert [(row["l"], row["m"]) for row in rows] == [([5, 5], {"k": 5}), ([8, 8], {}), ([16], {})]


def test_fields_of_structs_of_one_name_go_by_their_paths(run, tmp_path):
    path = tmp_path / "structs.parquet"
    pq.write_table(pa.table({"a": [{"x": 1}], "b": [{"x": 2}]}), path)
    assert json.loads(run("query", path, "-c", "a.x,b.x", "-f", "jsonl").out) == {"a.x": 1, "b.x": 2}
    assert json.loads(run("query", path, "-c", "a.x", "-f", "jsonl").out) == {"x": 1}


def test_characters_that_a_terminal_would_obey_are_escaped(run, tmp_path):
    path = tmp_path / "evil.parquet"
    pq.write_table(pa.table({"a\x1b[2J": ["red \x1b[31m", "two\nlines", "fine ü"]}), path)
    lines = run("query", path).out.splitlines()
    assert lines == ["a\\x1b[2J", "red \\x1b[31m", "two\\nlines", "fine ü"]


class TestBadFiles:
    """``--skip-bad-files``: the rows of the other files, and a separate exit code."""

    @pytest.fixture
    def damaged(self, lake):
        path = lake / "year=2022" / "part.parquet"
        path.write_bytes(path.read_bytes()[:-30])
        return lake

    def test_without_the_option_a_bad_file_is_an_error(self, run, damaged):
        assert run("query", damaged, "--where", "id >= 0", "--format", "jsonl").code == 1

    def test_rows(self, run, damaged, lake, tmp_path):
        good = run("query", lake / "year=2021", lake / "year=2023", "--columns", "id", "--format", "csv")
        report = tmp_path / "report.json"
        found = run(
            *("query", damaged, "--columns", "id", "--format", "csv", "--skip-bad-files", "--report", report)
        )
        assert (found.code, found.out) == (3, good.out)
        assert found.err.count("warning") == 1
        (failed,) = json.loads(report.read_text())["files_failed"]
        assert failed["file"] == str(damaged / "year=2022" / "part.parquet")

    def test_aggregates(self, run, damaged, lake):
        calls = ("--aggregate", "count(*), max(id), approx_distinct(city)", "--format", "json")
        good = run("query", lake / "year=2021", lake / "year=2023", *calls)
        found = run("query", damaged, *calls, "--skip-bad-files")
        assert (found.code, found.out) == (3, good.out)

    def test_to_a_file(self, run, damaged, tmp_path):
        output = tmp_path / "rows.parquet"
        assert run("query", damaged, "--output", output, "--skip-bad-files").code == 3
        assert pq.read_metadata(output).num_rows > 0

    def test_damaged_pages(self, run, tmp_path):
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"id": range(100)}), path, write_page_checksum=True, compression="none")
        data = path.read_bytes()
        assert data.count((77).to_bytes(8, "little")) == 1
        path.write_bytes(data.replace((77).to_bytes(8, "little"), (79).to_bytes(8, "little")))
        asked = ("query", path, "--where", "id > 75 AND id < 79", "--format", "csv")
        assert (run(*asked).code, run(*asked, "--skip-bad-files").code) == (1, 3)
        assert run(*asked, "--no-page-checksums").out.split() == ['"id"', "76", "78"]

    def test_without_bad_files_the_exit_code_is_that_of_success(self, run, lake):
        assert run("query", lake, "--skip-bad-files", "--format", "csv").code == 0

    def test_samples_and_first_rows_need_all_files(self, run, damaged):
        assert run("query", damaged, "--sample", 3, "--skip-bad-files").code == 2
        assert run("query", damaged, "--order-by", "id", "--limit", 3, "--skip-bad-files").code == 2


class TestValueCounts:
    def test_the_most_frequent_values_are_first(self, run, file):
        options = ("--value-counts", "city", "--limit", "2", "--format", "json")
        answer = run("query", file, "--where", "city <> 'Aachen'", *options)
        assert json.loads(answer.out) == [{"value": "Bonn", "count": 500}, {"value": "Cologne", "count": 500}]

    def test_functions_of_columns_are_conditions(self, run, file):
        options = ("--value-counts", "id", "--format", "csv")
        answer = run(
            "query", file, "--where", "lower(city) = 'bremen' AND id % 2 = 1 AND id - 1 < 1000", *options
        )
        assert answer.out.splitlines() == ['"value","count"', "777,1"]
