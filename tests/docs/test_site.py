"""The site: its pages link to each other, and its reference has every public name."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from tools.site.check import find_problems
from tools.site.pages import PageError, copy_pages
from tools.site.reference import MODULES, write_reference

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    (root / "docs").mkdir(parents=True)
    (tmp_path / "pages").mkdir()
    return root


def test_pages_link_to_each_other(repository, tmp_path):
    (repository / "README.md").write_text("[a](docs/a.md#b) [p](https://example.org) ![m](docs/m.svg)")
    (repository / "docs" / "a.md").write_text(
        "# A\n## B\n[r](../README.md), `[x](y.md)`\n```\n[x](y.md)\n```\n"
    )
    (repository / "docs" / "m.svg").write_text("<svg/>")
    copy_pages(repository, tmp_path / "pages")
    assert (tmp_path / "pages" / "index.md").read_text() == "[a](a.md#b) [p](https://example.org) ![m](m.svg)"
    page = (tmp_path / "pages" / "a.md").read_text()
    assert page == "# A\n## B\n[r](index.md), `[x](y.md)`\n```\n[x](y.md)\n```\n"
    assert (tmp_path / "pages" / "m.svg").read_text() == "<svg/>"


@pytest.mark.parametrize("link", ["missing.md", "../../outside.md"])
def test_a_link_that_leads_nowhere(repository, tmp_path, link):
    (tmp_path / "outside.md").write_text("")
    (repository / "docs" / "a.md").write_text(f"[x]({link})")
    with pytest.raises(PageError, match=rf"docs/a\.md links to {re.escape(link)}, which is no file"):
        copy_pages(repository, tmp_path / "pages")


def test_the_pages_of_this_repository(tmp_path):
    copy_pages(ROOT, tmp_path)
    assert {"index.md", "architecture.md", "format.md"} <= {path.name for path in tmp_path.iterdir()}


def test_the_reference_has_every_public_name(tmp_path):
    write_reference(tmp_path)
    for name in MODULES:
        text = (tmp_path / f"{name}.md").read_text()
        headings = set(re.findall(r"^### (\w+) ", text, re.MULTILINE))
        assert headings == set(import_module(name).__all__)
        assert not re.search("object at 0x|<function", text)
    assert "[`Table.scan`](intarsia.md#intarsia.Table.scan)" in (tmp_path / "intarsia.md").read_text()
    helps = (tmp_path / "command.md").read_text()
    assert helps.count("Usage: intarsia ") == helps.count("## intarsia ") + 1 > 10


def test_the_check_finds_broken_pages(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1> <a href="b.html#there">1</a> <a href="#top">2</a> <a href="https://example.org/">3</a>'
    )
    (tmp_path / "b.html").write_text('<p id="there">B</p> <img src="c.png">')
    (tmp_path / "c.png").write_bytes(b"")
    assert find_problems(tmp_path) == []
    (tmp_path / "c.png").unlink()
    (tmp_path / "a.html").write_text(
        '<a href="b.html#gone">1</a> <a href="d.html">2</a> <script src="https://example.org/x.js"></script>'
    )
    assert find_problems(tmp_path) == [
        "a.html loads https://example.org/x.js from another host",
        "a.html links to b.html#gone, which does not exist",
        "a.html links to d.html, which does not exist",
        "b.html links to c.png, which does not exist",
    ]
