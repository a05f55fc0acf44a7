"""An error is one line on stderr, and an exit code: 1 for files, 2 for usage, 130 for Ctrl-C."""

from __future__ import annotations

import time

import obstore
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from tests.cli.trips import write


def assert_one_line(outcome, code, *words):
    assert outcome.code == code
    assert outcome.raw == b""
    (line,) = outcome.err.splitlines()
    assert line.startswith("intarsia: ")
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["query"], ["PATH", "intarsia query --help"]),
        (["qery"], ["qery", "intarsia --help"]),
        (["query", "FILE", "--wher", "id = 1"], ["--wher", "--where"]),
        (["query", "FILE", "--limit", "-1"], ["--limit"]),
        (["query", "FILE", "--limit", "many"], ["--limit", "integer"]),
        (["query", "FILE", "--order-by", "id"], ["--order-by", "--limit"]),
        (["query", "FILE", "--order-by", "id,, km", "--limit", "3"], ["id,, km", "amount DESC"]),
        (["query", "FILE", "--format", "xml"], ["xml", "csv", "jsonl"]),
        (["query", "FILE", "--where", "id ="], ["id ="]),
        (["query", "FILE", "--where", "id = 'x'"], ["id"]),
        (["query", "FILE", "--where", "abs(id, 3) = 3"], ["too many arguments"]),
        (["query", "FILE", "--where", "Citty = 'Bonn'"], ["Citty", "'city'"]),
        (["query", "FILE", "--columns", "kms"], ["kms", "'km'"]),
        (["query", "FILE", "--columns", "id\nkm"], ["--columns", "line break"]),
        (["query", "FILE", "--output", "rows.xml"], ["rows.xml", "--format", "parquet"]),
        (["query", "FILE", "--output", "FILE"], ["FILE"]),
        (["explain", "FILE", "--where", "city LIKE"], ["city LIKE"]),
        (["explain", "FILE", "--where", "cty = 'Bonn'"], ["'city'"]),
        (["index", "FILE"], ["--page-index", "--distinct"]),
        (["index", "FILE", "--distinct", "cit"], ["'city'"]),
        (["index", "FILE", "--distinct", "city:pages"], ["'pages'", "page?"]),
        (["index", "FILE", "--distinct", "city:0"], ["'0'", "row_group"]),
        (["inspect"], ["PATH", "intarsia inspect --help"]),
        (["optimize", "FILE"], ["DESTINATION", "intarsia optimize --help"]),
        (["inspect", "FILE", "--deep"], ["--deep"]),
    ],
    ids=lambda value: " ".join(value) if "FILE" in value else None,
)
def test_usage(run, file, arguments, words, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    outcome = run(*[str(file) if word == "FILE" else word for word in arguments])
    assert_one_line(outcome, 2, *[str(file) if word == "FILE" else word for word in words])


@pytest.mark.parametrize("command", ["inspect", "explain", "query", "detach", "verify"])
def test_missing_file(run, tmp_path, command):
    assert_one_line(run(command, tmp_path / "nowhere"), 1, "nowhere")


@pytest.mark.parametrize("command", ["inspect", "explain", "query"])
def test_bad_file(run, broken, command):
    assert_one_line(run(command, broken), 1, "broken.parquet")


def test_output_into_a_missing_folder(run, file, tmp_path):
    outcome = run("query", file, "--output", tmp_path / "no" / "rows.csv")
    assert_one_line(outcome, 1, str(tmp_path / "no"))


@pytest.mark.parametrize("where", ["--debug", "after"])
def test_debug_shows_the_traceback(run, tmp_path, where):
    arguments = ["query", tmp_path / "nowhere"]
    outcome = run(*(["--debug", *arguments] if where == "--debug" else [*arguments, "--debug"]))
    assert outcome.code == 1
    assert outcome.err.startswith("Traceback")
    assert "nowhere" in outcome.err.splitlines()[-1]


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False), ("", False)])
def test_debug_by_environment(run, tmp_path, monkeypatch, value, shown):
    monkeypatch.setenv("INTARSIA_DEBUG", value)
    assert ("Traceback" in run("query", tmp_path / "nowhere").err) is shown


@pytest.fixture
def listing_raises(put_behind_urls, monkeypatch):
    """Let the listing of an object store raise an error."""

    def listing_raises(error):
        def fail(*arguments, **options):
            raise error

        put_behind_urls(obstore.store.MemoryStore())
        monkeypatch.setattr(obstore, "list", fail)

    return listing_raises


def test_interrupted(run, listing_raises):
    listing_raises(KeyboardInterrupt())
    outcome = run("query", "s3://bucket/lake/")
    assert outcome.code == 130
    assert "Traceback" not in outcome.err


def test_a_defect_is_not_hidden(run, listing_raises):
    listing_raises(RuntimeError("a defect"))
    with pytest.raises(RuntimeError, match="a defect"):
        run("query", "s3://bucket/lake/")


def test_warnings_are_one_line(run, file):
    """An index of another file is ignored, and the rows are correct."""
    run("index", file, "--distinct", "city")
    keys = pq.read_metadata(file).metadata  # some writers copy the footer's keys
    write(pq.read_table(file).replace_schema_metadata(keys).slice(100), file)
    outcome = run("query", file, "--where", "city = 'Bremen'", "--format", "csv", "--columns", "id")
    assert outcome.code == 0
    assert outcome.out.split() == ['"id"', "777", "1777"]
    (line,) = outcome.err.splitlines()
    assert line.startswith("intarsia: warning: ")
    assert str(file) in line


@pytest.mark.parametrize("command", ["query", "explain"])
def test_a_query_that_takes_too_long(run, file, command, put_behind_urls, monkeypatch):
    store, url, real = MemoryStore(), "s3://bucket/x.parquet", obstore.get
    obstore.put(store, "x.parquet", file.read_bytes())
    put_behind_urls(store)
    assert run(command, url, "--where", "id = 7", "--timeout", 60).code == 0
    monkeypatch.setattr(obstore, "get", lambda *asked, **options: time.sleep(0.1) or real(*asked, **options))
    assert_one_line(run(command, url, "--where", "id = 7", "--timeout", 0.05), 1, url)
    for timeout in (0, "nan", "inf"):
        assert_one_line(run(command, url, "--timeout", timeout), 2, "--timeout")
