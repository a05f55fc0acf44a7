"""Types that engines do not take as pyarrow reads them: JSON, UUIDs, structs in structs."""

from __future__ import annotations

import uuid

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.lake.dataset import BATCH_ROWS
from intarsia.polars import scan


def by_duckdb(dataset, where):
    with duckdb.connect() as connection:
        connection.register("lake", dataset)
        return connection.sql(f"SELECT * FROM lake WHERE {where}").to_arrow_table()


def by_datafusion(dataset, where):
    context = datafusion.SessionContext()
    context.register_dataset("lake", dataset)
    return context.sql(f"SELECT * FROM lake WHERE {where}").to_arrow_table()


def by_polars(dataset, where):
    return pl.scan_pyarrow_dataset(dataset).filter(pl.sql_expr(where)).collect().to_arrow()


def by_scan(dataset, where):
    return scan(dataset).filter(pl.sql_expr(where)).collect().to_arrow()


ENGINES = pytest.mark.parametrize("engine", [by_duckdb, by_datafusion, by_polars, by_scan])

JSON = pa.array(['{"a": 1}', "2", None, "3"], pa.json_())
UUIDS = pa.array([uuid.UUID(int=number).bytes for number in range(4)], pa.uuid())
EXTENSIONS = {
    "j": JSON,
    "u": UUIDS,
    "js": pa.ListArray.from_arrays([0, 1, 2, 3, 4], JSON),
    "us": pa.FixedSizeListArray.from_arrays(UUIDS, 1),
    "s": pa.StructArray.from_arrays([JSON, UUIDS], ["j", "u"]),
    "m": pa.MapArray.from_arrays([0, 1, 2, 3, 4], pa.array(list("abcd")), UUIDS),
}


@pytest.fixture(params=[True, False], ids=["Arrow schema", "no Arrow schema"])
def extensions(tmp_path, request):
    table = pa.table({"n": range(4), **EXTENSIONS})
    pq.write_table(table, tmp_path / "t.parquet", store_schema=request.param)
    return ia.open(tmp_path).dataset()


@ENGINES
def test_engines_read_and_compare_json_and_uuids(extensions, engine):
    assert engine(extensions, "n > 1")["n"].to_pylist() == [2, 3]
    assert extensions.last_report.rows_matched == 2
    assert engine(extensions, "j = '2'")["n"].to_pylist() == [1]
    assert engine(extensions, "j > '2' AND n < 9")["n"].to_pylist() == [0, 3]


@pytest.mark.parametrize("engine", [by_duckdb, by_datafusion])
def test_uuids_are_compared_with_bytes(extensions, engine):
    literal = "unhex('{}')" if engine is by_duckdb else "X'{}'"
    assert engine(extensions, f"u = {literal.format(uuid.UUID(int=2).hex)}")["n"].to_pylist() == [2]


def test_the_types_of_a_dataset(extensions):
    types = {field.name: field.type for field in extensions.schema}
    assert (types["j"], types["u"]) == (pa.string(), pa.uuid())
    assert types["s"] == pa.struct({"j": pa.string(), "u": pa.uuid()})
    assert types["js"].value_type == pa.string()
    rows = extensions.to_table(filter=pc.field("n") + 1 > 2)
    assert rows.schema == extensions.schema
    assert rows["s"].to_pylist() == EXTENSIONS["s"].to_pylist()[2:]
    assert rows["js"].to_pylist() == EXTENSIONS["js"].to_pylist()[2:]


@ENGINES
def test_json_in_a_list_of_a_file_of_duckdb(large_corpus, engine):
    path = large_corpus / "duckdb/data/parquet-testing/json_convertedtype.parquet"
    dataset = ia.open(path).dataset()
    where = "\"STATUS\" = 'SUCCESS'" if engine is by_datafusion else "STATUS = 'SUCCESS'"
    assert engine(dataset, where).num_rows == ia.open(path).count("STATUS = 'SUCCESS'") > 0


# --- structs in structs ------------------------------------------------------------------------------------

NUM_ROWS = BATCH_ROWS + 50


@pytest.fixture(scope="module")
def nested(tmp_path_factory):
    numbers = pa.array(range(NUM_ROWS))
    codes = pa.array([number % 5 for number in range(NUM_ROWS)]).dictionary_encode()
    inner = pa.StructArray.from_arrays([numbers, codes], ["y", "c"])
    folder = tmp_path_factory.mktemp("nested")
    table = pa.table({"n": numbers, "place": pa.StructArray.from_arrays([inner], ["x"])})
    pq.write_table(table, folder / "t.parquet")
    return ia.open(folder)


@pytest.mark.parametrize("engine", [by_duckdb, by_datafusion])
def test_structs_in_structs_after_the_first_batch(nested, engine):
    found = engine(nested.dataset(), "n >= 5")
    places = sorted(row["place"]["x"]["y"] for row in found.slice(NUM_ROWS - 105).to_pylist())
    assert (found.num_rows, len(places)) == (NUM_ROWS - 5, 100)


def test_only_structs_are_rebuilt(nested):
    first, second = nested.dataset().to_batches()
    assert (first.num_rows, second.num_rows) == (BATCH_ROWS, 50)
    assert (second["n"].offset, second["place"].offset) == (BATCH_ROWS, 0)
    assert first["n"].buffers()[1].address == second["n"].buffers()[1].address
    inner = [batch["place"].field("x").field("y") for batch in (first, second)]
    assert inner[0].buffers()[1].address == inner[1].buffers()[1].address
    assert second["place"].to_pylist()[0] == {"x": {"y": BATCH_ROWS, "c": BATCH_ROWS % 5}}


def test_batches_of_chunks_with_other_borders(tmp_path):
    """Each row group has another dictionary, so columns have chunks with different borders."""
    inner = pa.array([{"x": {"y": number}} for number in range(90)])
    texts = pa.chunked_array(
        [pa.array([f"{part} {number % 3}" for number in range(30)]).dictionary_encode() for part in range(3)]
    )
    pq.write_table(pa.table({"n": range(90), "t": texts, "place": inner}), tmp_path / "t.parquet")
    for batches in (ia.open(tmp_path).dataset().to_batches(batch_size=20), ia.open(tmp_path).scan()):
        assert all(batch["place"].offset == 0 for batch in batches)
    assert by_duckdb(ia.open(tmp_path).dataset(), "n > 40")["place"].to_pylist() == inner.to_pylist()[41:]
