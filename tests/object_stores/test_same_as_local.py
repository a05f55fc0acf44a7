"""Objects give the same rows as local files, although they are read ahead, also with damaged indexes."""

from __future__ import annotations

import warnings

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

import intarsia as ia

URL = "s3://bucket/x.parquet"

QUERIES = (
    ("a = 4321", None),
    ("a = 4321 AND b > 0.5", ["c"]),
    ("a BETWEEN 100 AND 2600", ["b"]),
    ("b < 0.001 OR c = 'text 17'", None),
    ("c IS NULL", ["a"]),
    ("a < 0", None),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "x.parquet"
    random = np.random.default_rng(0)
    rows = pa.table(
        {
            "a": np.arange(5000),
            "b": random.random(5000),
            "c": [None if row % 7 == 0 else f"text {row % 100}" for row in range(5000)],
        }
    )
    pq.write_table(rows, path, row_group_size=1500, data_page_size=500, write_batch_size=100)
    ia.attach(path, [ia.PageIndex(), ia.Bloom("a"), ia.Distinct("c", granularity="row_group")])
    return path.read_bytes()


def answers(path):
    """Return the answers of all queries, and errors by their types and reasons."""
    found = []
    for where, columns in QUERIES:
        for ask in (
            lambda table, where=where, columns=columns: table.scan(where, columns).to_arrow().to_pylist(),
            lambda table, where=where: table.count(where),
            lambda table, where=where: dict(table.aggregate({"b": ["min", "count"]}, where)),
            lambda table, where=where: table.locate(where).drop_columns(["path"]).to_pylist(),
        ):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ia.IntarsiaWarning)
                    found.append(ask(ia.open(path)))
            except ia.IntarsiaError as error:
                found.append((type(error), error.reason))
    return found


@pytest.mark.parametrize("damage", [None, *range(6)])
def test_objects_give_the_answers_of_local_files(data, damage, tmp_path, put_behind_urls):
    """Bytes of the page index, of Bloom filters or of the embedded index are wrong."""
    content = bytearray(data)
    if damage is not None:
        start = data.index(b"PAR1", 4) + 4  # after the original file
        random = np.random.default_rng(damage)
        for place in random.integers(start, len(data) - 3000, 3).tolist():
            content[place] ^= int(random.integers(1, 256))
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    store = MemoryStore()
    obstore.put(store, "x.parquet", bytes(content))
    expected = answers(path)
    put_behind_urls(store)
    assert answers(URL) == expected
