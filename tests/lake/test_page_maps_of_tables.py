"""Page maps of Delta and Iceberg tables: names of the table, deleted rows, and pages with matching rows."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.picture.facts import EXCLUDED, READ, SKIPPED
from tests.lake.delta_logs import column, inline_vector, struct_of, write_log
from tests.lake.index.lakes import age

ROWS = 400


def rows_of(ordinal, names):
    ids = pa.array(range(ordinal * ROWS, ordinal * ROWS + ROWS), pa.int64())
    return pa.table([ids, pa.array([f"w{row % 50}" for row in range(ROWS)])], names=list(names))


def assert_pages(file, path, id_name, low, high, deleted=()):
    """Compare the pages of a file with the rows of a full read."""
    ids = pq.ParquetFile(path).read()[id_name]
    mask = pc.and_(pc.greater_equal(ids, low), pc.less(ids, high)).to_pylist()
    rows = [row for row, matches in enumerate(mask) if matches and row not in deleted]
    assert rows
    assert file.num_matches == len(rows)
    lanes = [lane for lane in file.lanes if lane.cells is not None]
    assert lanes
    for lane in lanes:
        stops = [*lane.cells.start[1:], file.num_rows]
        for start, stop, state in zip(lane.cells.start, stops, lane.cells.state, strict=True):
            has_rows = any(start <= row < stop for row in rows)
            assert (state == READ) >= has_rows
            assert (state < SKIPPED) >= has_rows
        assert sum(lane.by_state) == lane.num_pages >= ROWS // 20
    return {lane.name for lane in lanes}


@pytest.fixture
def delta(tmp_path):
    """A table whose columns have other names in its files, with ten deleted rows."""
    folder = tmp_path / "table"
    folder.mkdir()
    physical = ("col-1", "col-2")
    files = {}
    for ordinal in range(3):
        vector = inline_vector(range(100, 110)) if ordinal == 1 else None
        files[f"{ordinal}.parquet"] = (rows_of(ordinal, physical), {}, vector)
    schema = struct_of(column("id", "long", "col-1", 1), column("word", "string", "col-2", 2))
    features = ("columnMapping", "deletionVectors")
    write_log(folder, schema, [(path, *one) for path, one in files.items()], features=features, mode="name")
    for path in files:
        age(folder / path)
    return folder


def test_delta(delta):
    pytest.importorskip("deltalake")
    table = ia.open(f"delta+{delta}")
    scan = table.scan("id >= 490 AND id < 520", trace=True)
    assert scan.to_arrow().num_rows == 20
    for found in (scan.report.map().facts, table.scan("id >= 490 AND id < 520").map().facts):
        assert found.title == "table"
        (file,) = found.files
        assert assert_pages(file, delta / "1.parquet", "col-1", 490, 520, range(100, 110)) == {"id", "word"}
        assert [state >= EXCLUDED for state in found.lake.state] == [True, False, True]
        assert found.result == "20 rows"
    total = ia.open(f"delta+{delta}").scan("id >= 490").map({"id": ["min", "count"]}).facts
    assert total.result == "min(id) = 490, count(id) = 700"


def test_iceberg(tmp_path):
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = catalogs.SqlCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("db")
    try:
        rows = pa.table({"old": pa.array([], pa.int64()), "word": pa.array([], pa.string())})
        iceberg = catalog.create_table("db.events", rows.schema)
        paths = [tmp_path / f"{ordinal}.parquet" for ordinal in range(3)]
        for ordinal, path in enumerate(paths):
            options = {"row_group_size": 200, "max_rows_per_page": 20, "write_page_index": True}
            pq.write_table(rows_of(ordinal, ("old", "word")), path, **options)
            age(path)
        iceberg.add_files([str(path) for path in paths])
        with iceberg.update_schema() as update:
            update.rename_column("old", "id")
        found = ia.open(catalog.load_table("db.events")).scan("id >= 830 AND id < 850", ["id"]).map().facts
        (file,) = found.files
        assert os.path.basename(file.path) == "2.parquet"
        assert assert_pages(file, paths[2], "old", 830, 850) == {"id"}
        assert [state >= EXCLUDED for state in found.lake.state] == [True, True, False]
        assert found.result == "20 rows"
        assert found.least_bytes < found.num_read < found.num_bytes
    finally:
        catalog.close()
