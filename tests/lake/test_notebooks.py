"""What a notebook shows: an SVG without a script, and nothing is read or run for it."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia


@pytest.fixture
def path(tmp_path):
    pq.write_table(
        pa.table({"<x>": range(1000), "y": ["a", "b"] * 500}), tmp_path / "t.parquet", row_group_size=100
    )
    return tmp_path / "t.parquet"


def picture(shown):
    """Return the texts of the SVG in the HTML, which must be well-formed and have no script."""
    text = shown._repr_html_()
    assert "script" not in text
    root = ET.fromstring(re.search(r"<svg.*</svg>", text, re.DOTALL)[0])
    return [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]


def test_pictures(path):
    table = ia.open(path)
    assert "<x>" in picture(ia.inspect(path))
    assert "1 file, " in " ".join(picture(table))
    scan = table.scan("y = 'a'", ["<x>"])
    assert "svg" not in scan._repr_html_()  # it has not run
    scan.to_arrow()
    assert "10 of 10 pages" in picture(scan)
    assert picture(scan.report) == picture(scan)
    assert "10 of 10 pages" in picture(table.explain("y = 'a'"))
    assert [text for text in picture(scan.map()) if text.startswith("read: ")]
    advice = ia.advise(path, ["y = 'a'"])
    assert {"now", "least possible"} <= set(picture(advice))
