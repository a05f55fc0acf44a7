"""The types of the drawing code are those of the facts, and a page has the code without them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia
from intarsia.picture import facts

TYPES = Path(facts.__file__).parent / "page" / "facts.d.ts"


def test_every_class_and_field():
    found = {
        name: re.findall(r"^  (\w+)\??:", body, re.MULTILINE)
        for name, body in re.findall(
            r"^export interface (\w+) \{\n(.*?)^\}", TYPES.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )
    }
    classes = {
        name: [field.name for field in dataclasses.fields(value)]
        for name, value in inspect.getmembers(facts, dataclasses.is_dataclass)
    }
    assert len(classes) == 9
    assert {name: found.get(name) for name in classes} == classes


def test_a_page_has_no_types(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": range(10)}), path)
    (script,) = re.findall(r"<script>(.*?)</script>", ia.open(path).scan("id = 3").map().html(), re.DOTALL)
    assert "function drawMap(" in script
    assert not re.search(r"/\*|@param|^(import|export) ", script, re.MULTILINE)
