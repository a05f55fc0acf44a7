"""Many files are planned without garbage collections, which would look at all objects again and again."""

from __future__ import annotations

import gc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.lake.index.lakes import age

NUM_FILES = 300


@pytest.fixture
def lake(tmp_path):
    for file in range(NUM_FILES):
        path = tmp_path / f"{file:03}.parquet"
        pq.write_table(pa.table({"id": range(10 * file, 10 * file + 10)}), path)
        age(path)
    return tmp_path


@pytest.fixture
def collections():
    """The generations that are collected, with a collector that works all the time."""
    found = []

    def note(phase, info):
        if phase == "start":
            found.append(info["generation"])

    thresholds = gc.get_threshold()
    gc.set_threshold(200, 1, 1)
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.set_threshold(*thresholds)


def test_few_collections_for_many_files(lake, collections):
    table = ia.open(lake)
    collections.clear()
    assert table.count("id = 777") == 1
    assert len(collections) < NUM_FILES / 10
    assert gc.isenabled()


@pytest.mark.parametrize("run", ["inspect", "attach", "detach"])
def test_few_collections_for_many_chunks(tmp_path, collections, run):
    path, chunks = tmp_path / "f.parquet", 40 * 50
    table = pa.table({f"c{ordinal}": range(100) for ordinal in range(40)})
    pq.write_table(table, path, row_group_size=2, write_page_index=True)
    ia.attach(path, [ia.Bloom("c0")])
    collections.clear()
    if run == "attach":
        ia.attach(path, [ia.Statistics()])
    else:
        getattr(ia, run)(path)
    assert len(collections) < chunks / 10


def test_the_collector_is_left_as_it_was(lake):
    (lake / "007.parquet").write_bytes(b"PAR1 no footer PAR1")
    gc.disable()
    try:
        with pytest.raises(ia.CorruptFileError):
            ia.open(lake).count("id = 777")
        assert not gc.isenabled()
    finally:
        gc.enable()
    with pytest.raises(ia.CorruptFileError):
        ia.open(lake).count("id = 777")
    assert gc.isenabled()
