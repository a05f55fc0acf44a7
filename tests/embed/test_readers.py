"""Every reader gets the same rows from a file with attached indexes as from the original (contract C6)."""

import datetime as dt
import decimal
import math
import shutil
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.embed import Bloom, PageIndex, Statistics, attach
from intarsia.indexes.distinct import Distinct
from intarsia.write import write_table


def rows():
    for i in range(2000):
        yield {
            "id": i,
            "small": i % 100,
            "user": None if i % 13 == 0 else f"user-{i * 7919 % 211}",
            "amount": math.nan if i % 97 == 0 else i / 4,
            "price": decimal.Decimal(i).scaleb(-2),
            "when": dt.datetime(2024, 1, 1) + dt.timedelta(minutes=i),
            "day": dt.date(2024, 1, 1) + dt.timedelta(days=i // 50),
            "flag": i % 2 == 0,
            "long": "x" * 100 + str(i),
            "tags": [f"t{i % 5}"] * (i % 4),
            "place": {"lat": float(i), "name": f"n{i % 3}"},
        }


FLAT_COLUMNS = ["id", "small", "user", "amount", "price", "when", "day", "flag", "long"]


@pytest.fixture(scope="module", params=["1.0", "2.0"])
def files(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("readers")
    original, retrofitted = str(folder / "original.parquet"), str(folder / "retrofitted.parquet")
    table = pa.Table.from_pylist(list(rows()))
    pq.write_table(
        table,
        original,
        row_group_size=700,
        data_page_size=500,
        write_batch_size=100,
        data_page_version=request.param,
    )
    shutil.copyfile(original, retrofitted)
    standard = [PageIndex(), Statistics(), Bloom("id"), Bloom("user"), Bloom("price"), Bloom("tags")]
    attach(retrofitted, [*standard, Distinct("user"), Distinct("small", "row_group")])
    return original, retrofitted


def test_pyarrow(files):
    original, retrofitted = files
    assert str(pq.read_table(original).to_pylist()) == str(pq.read_table(retrofitted).to_pylist())
    chunk = pq.ParquetFile(retrofitted).metadata.row_group(0).column(0)
    assert chunk.has_column_index
    assert chunk.has_offset_index


FILTERS = [
    "id = 1234",
    "id >= 1990",
    "\"user\" = 'user-7'",
    '"user" IS NULL',
    "amount > 480",
    "long >= 'xxx'",
]


def test_duckdb(files):
    duckdb = pytest.importorskip("duckdb")
    for where in ["true", *FILTERS]:
        a, b = (
            duckdb.sql(f"SELECT * FROM read_parquet('{path}') WHERE {where} ORDER BY id").fetchall()
            for path in files
        )
        assert str(a) == str(b)


def test_polars(files):
    polars = pytest.importorskip("polars")
    for where in ["true", *FILTERS]:
        a, b = (
            polars.SQLContext(t=polars.scan_parquet(path))
            .execute(f"SELECT * FROM t WHERE {where} ORDER BY id")
            .collect()
            for path in files
        )
        assert str(a.to_dicts()) == str(b.to_dicts())


def test_datafusion(files):
    """DataFusion prunes pages by the ColumnIndex and locates them by the OffsetIndex."""
    datafusion = pytest.importorskip("datafusion")
    config = datafusion.SessionConfig({"datafusion.execution.parquet.pushdown_filters": "true"})
    for where in ["true", *FILTERS]:
        results = []
        for path in files:
            context = datafusion.SessionContext(config)
            context.register_parquet("t", path)
            results.append(context.sql(f"SELECT * FROM t WHERE {where} ORDER BY id").to_pydict())
        assert str(results[0]) == str(results[1])


@pytest.mark.parametrize("form", ["attached", "written"])
def test_datafusion_and_duckdb_with_nan_in_some_row_groups(tmp_path, form):
    """Bounds leave out NaN, and DataFusion up to 55 takes those of some row groups for those of the file."""
    datafusion, duckdb = (pytest.importorskip(name) for name in ("datafusion", "duckdb"))
    path = str(tmp_path / "t.parquet")
    table = pa.table({"x": [9.0, math.nan, 2.0, 3.0], "y": [1, 2, 3, 4]})
    if form == "attached":
        pq.write_table(table, path, row_group_size=2, write_statistics=False)
        attach(path, [PageIndex(), Statistics(), Bloom("x")])
    else:
        write_table(table, path, row_group_size=2)
    context = datafusion.SessionContext()
    context.register_parquet("t", path)
    nan = "CAST('NaN' AS DOUBLE)"
    for where, rows in (("x > 5", [1, 2]), ("x = 9", [1]), (f"x = {nan}", [2]), ("x < 3", [3])):
        query = f"SELECT y FROM t WHERE {where} ORDER BY y"
        assert context.sql(query).to_pydict()["y"] == rows
        assert duckdb.sql(query.replace("FROM t", f"FROM '{path}'")).fetchall() == [(row,) for row in rows]
    assert math.isnan(context.sql("SELECT max(x) AS m FROM t").to_pydict()["m"][0])
    assert math.isnan(duckdb.sql(f"SELECT max(x) FROM '{path}'").fetchall()[0][0])


def test_duckdb_finds_numbers_of_16_bits(tmp_path):
    """It reads them as 32 bits, and looks up the hash of these in Bloom filters."""
    duckdb = pytest.importorskip("duckdb")
    path = str(tmp_path / "t.parquet")
    numbers = pa.array([1.5, None, -0.0, 65504.0, math.nan, 2.0], pa.float32()).cast(pa.float16())
    pq.write_table(pa.table({"x": numbers, "y": range(6)}), path, row_group_size=2, write_statistics=False)
    attach(path, Bloom("x"))
    for value, row in (("1.5", 0), ("0.0", 2), ("-0.0", 2), ("65504.0", 3), ("'NaN'", 4), ("2.0", 5)):
        found = duckdb.sql(f"SELECT y FROM '{path}' WHERE x = {value}::FLOAT").fetchall()
        assert found == [(row,)], value
    assert duckdb.sql(f"SELECT y FROM '{path}' WHERE x IN (1.5, 2.0) ORDER BY y").fetchall() == [(0,), (5,)]


def test_fastparquet(files):
    fastparquet = pytest.importorskip("fastparquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = (fastparquet.ParquetFile(path).to_pandas(columns=FLAT_COLUMNS) for path in files)
    assert a.equals(b)
