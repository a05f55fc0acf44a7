"""`intarsia index`, `detach` and `verify` on many files, including bad ones."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.cli.options import parse_bloom, parse_distinct, parse_index
from intarsia.cli.terminal import UsageError
from intarsia.embed.index_text import index_kinds
from tests.cli.trips import trips, write


def files_of(lake):
    return sorted(lake.rglob("*.parquet"))


def names_of(path):
    directory = ia.inspect(path).directory
    return [entry.name for entry in directory.entries] if directory else []


def spoil(path):
    path.write_bytes(path.read_bytes()[:-50])


def damage_data(path):
    """Change values without changing the indexes."""
    raw = path.read_bytes()
    neighbours = b"Bremen\x04\0\0\0Bonn"
    assert raw.count(neighbours) == 2
    path.write_bytes(raw.replace(neighbours, b"Zzzzzz" + neighbours[6:], 1))


@pytest.mark.parametrize("command", [("index", "--page-index"), ("detach",), ("verify",)])
def test_other_files_of_a_folder_are_counted_and_ignored(run, lake, command):
    for name in ("notes.txt", "year=2021/events.avro", "_SUCCESS", ".part.parquet.crc"):
        (lake / name).write_bytes(b"of another kind")
    outcome = run(*command, lake)
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(run(*command, lake, "--json").out)
    assert (document["files"]["other"] if command[0] == "index" else document["other_files"]) == 2


class TestIndex:
    def test_a_lake(self, run, lake):
        before = {path: path.read_bytes() for path in files_of(lake)}
        outcome = run("index", lake, "--page-index", "--distinct", "city", "--distinct", "km:row_group")
        assert outcome.code == 0
        assert outcome.err == ""
        assert outcome.out.startswith("indexed 3 of 3 files in ")
        for path, old in before.items():
            assert path.read_bytes().startswith(old)
            assert names_of(path) == ["distinct(city):page", "distinct(km):row_group"]
            assert all(chunk.has_column_index for chunk in ia.inspect(path).row_groups[0].columns)

    def test_again_changes_nothing(self, run, lake):
        run("index", lake, "--page-index")
        before = [path.read_bytes() for path in files_of(lake)]
        outcome = run("index", lake, "--page-index")
        assert outcome.out.startswith("indexed 0 of 3 files in ")
        assert [path.read_bytes() for path in files_of(lake)] == before

    def test_json(self, run, lake):
        document = json.loads(run("index", lake, "--page-index", "--json").out)
        per_file = document.pop("per_file")
        assert [file["path"] for file in per_file] == list(map(str, files_of(lake)))
        assert document.pop("seconds") > 0
        after = sum(path.stat().st_size for path in files_of(lake))
        before = sum(file["bytes_before"] for file in per_file)
        assert document == {
            "files": {"total": 3, "indexed": 3, "unchanged": 0, "failed": 0, "skipped": 0, "other": 0},
            "bytes": {"before": before, "after": after, "added": after - before},
            "notes": [],
            "failed": [],
            "lake_index": None,
        }

    def test_bad_files_are_reported_and_the_rest_are_indexed(self, run, lake):
        bad = files_of(lake)[1]
        spoil(bad)
        raw = bad.read_bytes()
        outcome = run("index", lake, "--distinct", "city")
        assert outcome.code == 1
        (line,) = outcome.err.splitlines()
        assert line.startswith(f"intarsia: {bad}: ")
        assert line.count(str(bad)) == 1
        assert outcome.out.startswith("indexed 2 of 3 files in ")
        assert str(bad) not in outcome.out
        assert bad.read_bytes() == raw
        assert [bool(names_of(path)) for path in files_of(lake) if path != bad] == [True, True]

    def test_a_bad_file_in_json(self, run, lake):
        bad = files_of(lake)[0]
        spoil(bad)
        outcome = run("index", lake, "--page-index", "--json")
        assert outcome.code == 1
        assert outcome.err == ""
        document = json.loads(outcome.out)
        assert [failure["path"] for failure in document["failed"]] == [str(bad)]
        assert document["files"] == {
            "total": 3,
            "indexed": 2,
            "unchanged": 0,
            "failed": 1,
            "skipped": 0,
            "other": 0,
        }

    def test_a_mistyped_column_changes_no_file(self, run, lake):
        before = [path.read_bytes() for path in files_of(lake)]
        outcome = run("index", lake, "--page-index", "--distinct", "cty")
        assert outcome.code == 2
        assert [path.read_bytes() for path in files_of(lake)] == before

    @pytest.mark.parametrize(
        "option",
        [
            ("--distinct", ""),
            ("--distinct", ":page"),
            ("--bloom", ":0.1"),
            ("--add", "zone_map('')"),
            ("--distinct", "year"),
            ("--add", "distinct(city)", "--add", "distinct(city)"),
        ],
    )
    def test_what_no_file_can_have_touches_no_file(self, run, lake, option):
        before = [path.read_bytes() for path in files_of(lake)]
        outcome = run("index", lake, "--page-index", *option)
        assert outcome.code == 2
        assert len(outcome.err.splitlines()) == 1
        assert [path.read_bytes() for path in files_of(lake)] == before

    def test_a_column_of_some_files(self, run, lake):
        first, *others = files_of(lake)
        pq.write_table(pa.table({"other": [1]}), first)
        outcome = run("index", lake, "--distinct", "city")
        assert outcome.code == 1
        assert [bool(names_of(path)) for path in (first, *others)] == [False, True, True]

    def test_a_bad_first_file_does_not_hide_a_mistyped_column(self, run, lake):
        spoil(files_of(lake)[0])
        assert run("index", lake, "--distinct", "cty").code == 2

    def test_files_elsewhere_are_refused(self, run):
        outcome = run("index", "memory://bucket/file.parquet", "--page-index")
        assert outcome.code == 1
        assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("dest", ia.Distinct("dest")),
        ("dest:page", ia.Distinct("dest", "page")),
        ("dest:file", ia.Distinct("dest", "file")),
        ("dest:500", ia.Distinct("dest", 500)),
        ("a.b:row_group", ia.Distinct("a.b", "row_group")),
        ("a:b:page", ia.Distinct("a:b", "page")),
    ],
)
def test_distinct(text, index):
    assert parse_distinct(text) == index


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("distinct(dest)", ia.Distinct("dest")),
        ("distinct('a column')", ia.Distinct("a column")),
        ("distinct(a.b.c, granularity='row_group')", ia.Distinct("a.b.c", "row_group")),
        ("distinct(dest, row_group, max_values=5)", ia.Distinct("dest", "row_group", 5)),
        ("distinct(column=dest, granularity=500)", ia.Distinct("dest", 500)),
        ("bloom(user, fpp=0.001)", ia.Bloom("user", 0.001)),
        (" page_index ", ia.PageIndex()),
        ("page_index()", ia.PageIndex()),
        ("statistics", ia.Statistics()),
        ("zone_map(amount)", ia.ZoneMap("amount")),
        ("ngram(s, ignore_case=true)", ia.Ngram("s", ignore_case=True)),
        ("ngram(s, ignore_case=FALSE)", ia.Ngram("s", ignore_case=False)),
        ("ngram(true, ignore_case=True)", ia.Ngram("true", ignore_case=True)),
        ("ngram(null)", ia.Ngram("null")),
    ],
)
def test_parse_index(text, index):
    assert parse_index(text) == index


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("distnct(dest)", "unknown-kind"),
        ("pageindex", "unknown-kind"),
        ("qqqq(x)", "unknown-kind"),
        ("distinct(dest, granulrity=1)", "unknown-parameter"),
        ("distinct()", "invalid-parameters"),
        ("distinct(a, b, 3, 4, 5, 6, 7)", "invalid-parameters"),
        ("distinct(dest", "invalid-index"),
        ("distinct(column=a, column=b)", "invalid-index"),
        ("distinct(**{'column': 'a'})", "invalid-index"),
        ("distinct(*'ab')", "invalid-index"),
        ("distinct(print('executed'))", "invalid-index"),
        ("distinct(open('x').read)", "invalid-index"),
        ("__import__('os').getcwd()", "invalid-index"),
        ("(lambda: 1)()", "invalid-index"),
        ("distinct(" + "(" * 5000, "invalid-index"),
        ("", "invalid-index"),
    ],
)
def test_invalid_indexes(text, reason, capsys):
    with pytest.raises(UsageError) as caught:
        parse_index(text)
    assert caught.value.reason == reason
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("distnct(dest)", "distinct"),
        ("pageindex", "page_index"),
        ("qqqq(x)", "bloom, bloom_granule, distinct"),
        ("distinct(dest, granulrity=1)", "granularity"),
        ("distinct()", "distinct(column, granularity='page', max"),
    ],
)
def test_errors_suggest_a_correction(text, suggestion):
    with pytest.raises(UsageError, match=re.escape(suggestion)):
        parse_index(text)


def test_every_kind_has_a_description_and_parameters():
    """For ``--list``, and for the form of a kind in errors."""
    for kind, text in index_kinds():
        assert text
        with pytest.raises(UsageError, match=f"'nonesuch'.*{kind}\\(") as caught:
            parse_index(f"{kind}(nonesuch=1)")
        assert caught.value.reason == "unknown-parameter"


class TestAdd:
    def test_any_kind(self, run, lake):
        outcome = run(
            "index",
            lake,
            "--add",
            "distinct(city, granularity=file)",
            "--add",
            "zone_map(km)",
            "--bloom",
            "km",
        )
        assert outcome.code == 0, outcome.err
        for path in files_of(lake):
            assert names_of(path) == ["distinct(city):file", "zone_map(km):page"]
            assert [chunk.bloom_filter is not None for chunk in ia.inspect(path).row_groups[0].columns] == [
                False,
                False,
                True,
            ]

    def test_invalid_arguments_change_no_file(self, run, lake):
        before = [path.read_bytes() for path in files_of(lake)]
        for arguments in (["--add", "distinct(cty)"], ["--add", "distnct(city)"], ["--bloom", "city:high"]):
            outcome = run("index", lake, "--page-index", *arguments)
            assert outcome.code == 2
            assert len(outcome.err.splitlines()) == 1
        assert [path.read_bytes() for path in files_of(lake)] == before

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("histogram(km, buckets=0)", "0"),
            ("histogram(km, buckets=true)", "True"),
            ("hll(city, lg_config_k=null)", "None"),
            ("bloom(km, fpp=7)", "7"),
            ("zone_map(km, granularity=pages)", "'pages'"),
        ],
    )
    def test_invalid_values_are_reported_before_files_are_listed(self, run, tmp_path, text, value):
        outcome = run("index", tmp_path / "nowhere", "--page-index", "--add", text)
        assert (outcome.code, outcome.out, len(outcome.err.splitlines())) == (2, "", 1)
        assert outcome.err.startswith(f"intarsia: --add {text}: ")
        assert value in outcome.err.removeprefix(f"intarsia: --add {text}: ")

    def test_statistics(self, run, tmp_path):
        path = tmp_path / "plain.parquet"
        write(trips(), path, write_statistics=False)
        assert run("index", path, "--statistics").code == 0
        assert pq.ParquetFile(path).metadata.row_group(0).column(0).statistics.has_min_max

    def test_list(self, run):
        outcome = run("index", "--list")
        assert outcome.code == 0
        kinds = [line.split()[0] for line in outcome.out.splitlines()]
        assert kinds[:3] == ["page_index", "statistics", "bloom"]
        assert "distinct" in kinds
        listed = json.loads(run("index", "--list", "--json").out)
        assert [one["kind"] for one in listed] == kinds
        assert all(one["description"] for one in listed)


@pytest.mark.parametrize(
    ("text", "index"),
    [("user", ia.Bloom("user")), ("user:0.2", ia.Bloom("user", 0.2)), ("a:b:0.5", ia.Bloom("a:b", 0.5))],
)
def test_bloom(text, index):
    assert parse_bloom(text) == index


@pytest.mark.parametrize("text", ["user:", "user:high", "user:0", "user:1", "user:nan"])
def test_invalid_bloom(text):
    with pytest.raises(UsageError) as caught:
        parse_bloom(text)
    assert caught.value.reason == "invalid-fpp"


class TestDetach:
    def test_restores_each_byte(self, run, lake):
        before = [path.read_bytes() for path in files_of(lake)]
        run("index", lake, "--page-index", "--distinct", "city")
        outcome = run("detach", *files_of(lake))
        assert outcome.code == 0
        assert outcome.out.startswith("3 of 3 files restored, ")
        assert [path.read_bytes() for path in files_of(lake)] == before

    def test_nothing_attached(self, run, file):
        before = file.read_bytes()
        outcome = run("detach", file)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out.startswith("0 of 1 file restored, ")
        assert file.read_bytes() == before

    def test_json_and_a_bad_file(self, run, lake):
        run("index", lake, "--page-index")
        spoil(files_of(lake)[2])
        outcome = run("detach", lake, "--json")
        assert outcome.code == 1
        document = json.loads(outcome.out)
        assert sorted(document) == ["bytes_removed", "detached", "failed", "files", "other_files", "reports"]
        assert (document["files"], document["detached"], len(document["failed"])) == (3, 2, 1)


class TestVerify:
    def test_good_files(self, run, lake):
        run("index", lake, "--page-index", "--distinct", "city")
        outcome = run("verify", lake)
        assert outcome.code == 0
        assert (outcome.err, len(outcome.out.splitlines())) == ("", 1)
        assert json.loads(run("verify", lake, "--json").out)["ok"] is True

    def test_a_contradiction(self, run, tmp_path):
        path = tmp_path / "plain.parquet"
        write(trips(), path, compression="none")
        run("index", path, "--page-index", "--distinct", "city")
        damage_data(path)
        outcome = run("verify", path)
        assert outcome.code == 1
        assert "city" in outcome.out
        document = json.loads(run("verify", path, "--json").out)
        assert document["ok"] is False
        assert "city" in {finding["column"] for finding in document["reports"][0]["findings"]}

    def test_a_bad_file(self, run, file, broken):
        outcome = run("verify", file, broken, "--json")
        assert outcome.code == 1
        document = json.loads(outcome.out)
        assert sorted(document) == ["failed", "files", "ok", "other_files", "reports"]
        assert (document["files"], document["ok"], len(document["reports"])) == (2, False, 1)


def test_rows_stay_the_same(run, lake):
    before = pq.read_table(lake)
    run("index", lake, "--page-index", "--distinct", "city")
    assert pq.read_table(lake).equals(before)
    run("detach", lake)
    assert pq.read_table(lake).equals(before)
