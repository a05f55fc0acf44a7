"""The page of a map in a browser: both themes, keys, pointer, a screen reader, and print."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.browser import browser, what_is_missing
from tests.lake.report_lakes import FORMS

if missing := what_is_missing():
    pytest.skip(missing, allow_module_level=True)


@pytest.fixture(scope="module")
def window():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """The addresses of the pages of a file and of a lake, and their maps."""
    folder = tmp_path_factory.mktemp("maps")
    path, rows = folder / "t.parquet", range(4000)
    table = pa.table({"id": rows, "word": [f"w{row % 7}" for row in rows], "other": rows})
    pq.write_table(table, path, row_group_size=1000, max_rows_per_page=50, write_page_index=True)
    lake = FORMS["indexes"].write(folder / "lake")
    found = {
        "file": ia.open(path).scan("id >= 2010 AND id < 2170", ["word"]).map(),
        "lake": ia.open(lake).scan("key = 333").map(),
    }
    for name, one in found.items():
        one.save(folder / f"{name}.html")
    return lambda name: (f"file://{folder}/{name}.html", found[name].facts)


DRAWN = """
return new Promise((done) => {
  const look = () => document.querySelector(".foot")
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))) : setTimeout(look, 5);
  look();
});
"""


def show(window, address, **medium):
    """Open a page, and return after how many milliseconds it was drawn."""
    window.emulate(**medium)
    window.open(address)
    return window.run(DRAWN)


def pixels(window, place=0):
    """The number of pixels of a chart in each colour."""
    script = """
    const canvas = document.querySelectorAll("canvas.plot")[arguments[0]];
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, found = {};
    for (let i = 0; i < data.length; i += 4) {
      const key = data[i + 3] ? `rgb(${data[i]}, ${data[i + 1]}, ${data[i + 2]})` : "none";
      found[key] = (found[key] || 0) + 1;
    }
    return found;
    """
    return window.run(script, place)


READ = {"light": "rgb(200, 66, 10)", "dark": "rgb(255, 135, 70)"}
PAPER = {"light": "rgb(252, 251, 249)", "dark": "rgb(20, 22, 25)"}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_themes(window, maps, theme):
    address, facts = maps("file")
    show(window, address, theme=theme)
    assert window.run("return getComputedStyle(document.body).backgroundColor") == PAPER[theme]
    found = pixels(window)
    assert found[READ[theme]] > 0
    assert READ["dark" if theme == "light" else "light"] not in found
    window.emulate(theme="dark" if theme == "light" else "light")  # while it is shown
    window.run(DRAWN)
    assert READ[theme] not in pixels(window)
    assert facts.files[0].num_matches == 160


def test_what_a_screen_reader_finds(window, maps):
    address, facts = maps("file")
    show(window, address)
    found = window.accessible()
    headings = [name for role, name in found if role == "heading"]
    assert headings[0] == facts.where
    assert [name.split()[0] for name in headings[1:]] == ["Pages", "Page", "Indexes", "Bytes"]
    assert ("main", "") in found
    pictures = [name for role, name in found if role in ("image", "application", "Canvas")]
    assert all(pictures)
    assert pictures[0].startswith("whole file: ")
    assert [name for role, name in found if role == "application"] == [
        "All pages by column and row. Arrow keys move from page to page.",
        "Magnified pages by column and row. Arrow keys move from page to page.",
    ]
    buttons = [name for role, name in found if role == "button"]
    assert all(buttons)
    assert {"id", "word", "Earlier rows", "Later rows", "Zoom in", "Zoom out"} <= set(buttons)
    assert ("DisclosureTriangle", "The same as tables") in found


def test_tables_are_reached_by_keys(window, maps):
    address, facts = maps("file")
    show(window, address)
    focused = "const one = document.activeElement; return one.getAttribute('aria-label') || one.textContent"
    reached = []
    for _ in range(40):
        window.keys("Tab")
        reached.append(window.run(focused))
        if reached[-1] == "The same as tables":
            break
    assert reached[-1] == "The same as tables"
    assert reached.index("id") < reached.index("Earlier rows") < len(reached) - 1
    assert not [name for role, name in window.accessible() if role == "table"]
    window.keys("Enter")
    found = window.accessible()
    tables = [name for role, name in found if role == "table"]
    assert tables == ["What each index excluded", "Pages by column", "Bytes by part"]
    cells = [name for role, name in found if role in ("cell", "gridcell")]
    (file,) = facts.files
    assert f"{file.steps[0].num_rows:,}" in cells
    assert [name for role, name in found if role == "columnheader"][:2] == ["index", "column"]


def facts_of_page(window):
    return window.run("return document.querySelector('.facts dl')?.innerText.replace(/\\s+/g, ' ')")


def test_keys_move_from_page_to_page(window, maps):
    address, _ = maps("file")
    show(window, address)
    first = facts_of_page(window)
    assert "state read" in first
    window.run("document.querySelectorAll('canvas.plot')[0].focus()")
    window.keys("ArrowRight")
    seen = [facts_of_page(window)]
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft"):
        window.keys(key)
        seen.append(facts_of_page(window))
    assert len(set(seen)) == 4
    assert "column word" in seen[2]
    window.run("document.querySelectorAll('canvas.plot')[1].focus()")
    rows = "return document.querySelector('.bar span').textContent"
    near = window.run(rows)
    window.keys("0")
    assert window.run(rows) == "rows 0 to 3,999"
    window.keys("+")
    assert window.run(rows) not in ("rows 0 to 3,999", near)


def test_the_pointer_shows_facts(window, maps):
    address, _ = maps("file")
    show(window, address)
    place = """
    const box = document.querySelectorAll("canvas.plot")[0].getBoundingClientRect();
    return [box.left + box.width * arguments[0], box.bottom - 12];
    """
    for part, state in ((0.1, "skipped by statistics of id"), (0.515, "read")):
        x, y = window.run(place, part)
        window.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        assert f"state {state}" in facts_of_page(window)


def test_a_lake(window, maps):
    address, facts = maps("lake")
    show(window, address)
    found = window.accessible()
    applications = [name for role, name in found if role == "application"]
    assert applications[0].startswith(f"{len(facts.lake.state)} files.")
    window.run("document.querySelector('canvas.plot').focus()")
    window.keys("ArrowRight")
    said = window.run("return document.querySelector('[aria-live]').textContent")
    assert facts.lake.names[facts.lake.state.index(1) + 1] in said or facts.lake.names[0] in said
    window.run("document.querySelector('details').open = true")
    assert "Files by state" in [name for role, name in window.accessible() if role == "table"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_print(window, maps, theme):
    """Paper is white in both themes, tables are open, and buttons are gone."""
    address, _ = maps("file")
    show(window, address, theme=theme)
    window.run(
        """
        window.printed = [];
        addEventListener("beforeprint", () => window.printed.push(
          document.querySelector("details").open,
          getComputedStyle(document.body).color,
          document.querySelector("canvas.plot").getContext("2d").canvas.width > 100,
        ));
        """
    )
    pdf = window.pdf()
    assert pdf.startswith(b"%PDF-")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 3
    assert window.run("return window.printed.slice(0, 3)") == [True, "rgb(28, 30, 34)", True]
    assert window.run("return document.documentElement.className") == ""
    window.emulate(theme=theme, medium="print")
    shown = "return getComputedStyle(document.querySelector(arguments[0])).display"
    assert [window.run(shown, name) for name in (".bar", ".hint", ".facts")] == ["none"] * 3
    assert window.run(shown, "table") == "table"
    assert window.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_a_large_file_has_few_nodes(window, tmp_path):
    """1,000 row groups x 100 columns; the time depends on the machine and is not compared."""
    path, names = tmp_path / "wide.parquet", [f"c{ordinal}" for ordinal in range(100)]
    rows = pa.table({name: np.arange(1000) for name in names})
    pq.write_table(rows, path, row_group_size=1, use_dictionary=False)
    page = tmp_path / "map.html"
    ia.open(path).scan("c7 = 500").map().save(page)
    assert page.stat().st_size < 200_000
    show(window, f"file://{page}")
    assert window.run("return document.querySelectorAll('*').length") < 1_000
    calls = "return performance.getEntriesByType('resource').length"
    assert window.run(calls) == 0
