"""Statistics in the logs of Delta and Iceberg tables: files are excluded before their footers are read."""

import datetime as dt
import math
import random
import warnings
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.lake.delta_logs import column, inline_vector, struct_of, write_log

deltalake = pytest.importorskip("deltalake")
catalogs = pytest.importorskip("pyiceberg.catalog.sql")

NUM_ROWS = 12
UTC = dt.timezone.utc


def rows_of(part, first_id):
    chosen = random.Random(part)
    start = dt.datetime(1969, 12, 31, 23, 59, 58, tzinfo=UTC) + dt.timedelta(seconds=part)

    def column(value, nulls=0.2):
        return [None if chosen.random() < nulls else value() for _ in range(NUM_ROWS)]

    return pa.table(
        {
            "id": pa.array(range(first_id, first_id + NUM_ROWS), pa.int64()),
            "x": pa.array(
                column(lambda: part * 5 + chosen.randrange(9), 1 if part == 2 else 0.2), pa.int32()
            ),
            "f": pa.array(
                column(lambda: chosen.choice([part - 2.5, -0.0, math.nan, part / 3])), pa.float64()
            ),
            "g": pa.array(column(lambda: part + chosen.random()), pa.float32()),
            "s": pa.array(column(lambda: "é" * 60 + chr(0x10FFF0 + part) * chosen.randrange(4)), pa.string()),
            "t": pa.array(
                column(lambda: start + dt.timedelta(microseconds=chosen.randrange(3000)), 0),
                pa.timestamp("us", "UTC"),
            ),
            "d": pa.array(column(lambda: dt.date(1970, 1, 1) + dt.timedelta(days=part * 3 - 3)), pa.date32()),
            "n": pa.array(column(lambda: Decimal(part * 7 + chosen.randrange(5)) / 100), pa.decimal128(9, 2)),
            "w": pa.array(
                column(lambda: Decimal(10**24 + part * 2**30 + chosen.randrange(9)) / 100),
                pa.decimal128(30, 2),
            ),
            "y": pa.array(column(lambda: bytes([part * 20, 255]) * chosen.randrange(1, 20)), pa.binary()),
            "b": pa.array(column(lambda: part > 3), pa.bool_()),
            "r": pa.array(column(lambda: {"x": chosen.choice([None, part])}), pa.struct([("x", pa.int64())])),
        }
    )


CONDITIONS = [
    "x = 12", "x > 30", "x <= 3", "x IN (1, 17)", "x <> 10", "x IS NULL", "x IS NOT NULL",
    "NOT x BETWEEN 4 AND 30", "f > 3", "f = 0", "f < -2", "g >= 6.5", "g < 1.25",
    f"s = '{'é' * 60}{chr(0x10FFF6) * 3}'", f"s > '{'é' * 60}{chr(0x10FFF5)}'", "s LIKE 'é%'", "s < 'e'",
    "t >= TIMESTAMP '1970-01-01 00:00:00.002500Z'", "t < TIMESTAMP '1969-12-31 23:59:58.000900Z'",
    "t = TIMESTAMP '1969-12-31 23:59:59Z'", "year(t) = 1969",
    "d = DATE '1970-01-04'", "d < DATE '1969-12-30'", "d IS NULL OR x = 3",
    "n >= 0.46", "n = 0.08", "w > 10000000000000000000064.42", "w = 10000000000000000000021.47",
    "y = 'absent'", "b = true AND x < 20", "b = false", "r.x = 4", "r.x IS NULL AND x > 25",
    "id > 60 AND f IS NULL",
]  # fmt: skip


def ids(table, where):
    return sorted(table.scan(where, ["id"]).to_arrow()["id"].to_pylist())


def check(table, rows, tmp_path, source, conditions=CONDITIONS):
    """Compare answers with those of one file without statistics; return the number of excluded files."""
    pq.write_table(rows, tmp_path / "plain.parquet", write_statistics=False)
    plain, num_excluded = ia.open(tmp_path / "plain.parquet"), 0
    for where in conditions:
        scan = table.scan(where, ["id"])
        assert sorted(scan.to_arrow()["id"].to_pylist()) == ids(plain, where), where
        excluded = sum(entry.files for (name, _), entry in scan.report.pruned_by.items() if name == source)
        assert scan.report.files_opened <= len(table.files) - excluded
        num_excluded += excluded
    return num_excluded


def delta_of_parts(folder):
    for part in range(7):
        deltalake.write_deltalake(folder, rows_of(part, part * NUM_ROWS), mode="append")
    return deltalake.DeltaTable(folder)


def iceberg_of_parts(catalog):
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", rows_of(0, 0).schema)
    for part in range(7):
        table.append(rows_of(part, part * NUM_ROWS))
    return table


def check_orders(table, rows, tmp_path):
    """Compare the first rows with those of one file; return the number of opened files of all orders."""
    pq.write_table(rows, tmp_path / "plain.parquet", write_statistics=False)
    plain, num_opened = ia.open(tmp_path / "plain.parquet"), 0
    for name in rows.column_names:
        for direction in ("ascending", "descending") if name != "r" else ():
            order = [(name, direction), ("id", "descending")][: 1 if name == "id" else 2]
            expected = plain.scan(columns=["id"], order_by=order, limit=3).to_arrow()
            scan = table.scan(columns=["id"], order_by=order, limit=3)
            assert scan.to_arrow()["id"].to_pylist() == expected["id"].to_pylist(), order
            num_opened += scan.report.files_opened
    return num_opened


def test_the_first_rows_of_a_delta_table_are_in_the_best_files(tmp_path):
    """Without a lake index, all files were opened: the log neither ordered nor excluded them."""
    folder = tmp_path / "delta"
    delta = delta_of_parts(folder)
    assert check_orders(ia.open(delta), delta.to_pyarrow_table(), tmp_path) < 22 * 7 / 2
    for direction in ("ascending", "descending"):
        scan = ia.open(delta).scan(order_by=[("id", direction)], limit=3)
        assert scan.to_arrow().num_rows == 3
        assert scan.report.files_opened == 1


def test_the_first_rows_of_an_iceberg_table_are_in_the_best_files(tmp_path):
    catalog = catalogs.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    try:
        table = iceberg_of_parts(catalog)
        assert check_orders(ia.open(table), table.scan().to_arrow(), tmp_path) < 22 * 7 / 2
    finally:
        catalog.close()


def test_a_delta_table_with_a_history(tmp_path):
    folder = tmp_path / "delta"
    delta = delta_of_parts(folder)
    assert check(ia.open(delta), delta.to_pyarrow_table(), tmp_path, "delta_log") > 80
    delta.update(updates={"x": "id"}, predicate="id = 20 OR x = 17")
    delta.delete("x = 12 OR id = 70")
    delta = deltalake.DeltaTable(folder)
    assert check(ia.open(delta), delta.to_pyarrow_table(), tmp_path, "delta_log") > 40
    delta.optimize.compact()
    delta = deltalake.DeltaTable(folder)
    check(ia.open(delta), delta.to_pyarrow_table(), tmp_path, "delta_log")


def test_an_iceberg_table_with_a_history(tmp_path):
    catalog = catalogs.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    try:
        table = iceberg_of_parts(catalog)
        assert check(ia.open(table), table.scan().to_arrow(), tmp_path, "iceberg_manifests") > 80
        with table.update_schema() as update:
            update.rename_column("x", "n2")
            update.rename_column("n", "x")
            update.rename_column("r.x", "z")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            table.delete("x = 0.08")
        renamed = [
            *(
                "n2 = 12",
                "n2 IS NULL",
                "n2 > 30",
                "x >= 0.46",
                "x = 0.08",
                "x IS NULL",
                "r.z = 4",
                "f > 3",
                "s < 'e'",
            )
        ]
        assert check(ia.open(table), table.scan().to_arrow(), tmp_path, "iceberg_manifests", renamed) > 15
    finally:
        catalog.close()


def logged(low, high, nulls, **more):
    return {"minValues": low, "maxValues": high, "nullCount": nulls, **more}


def test_physical_names_deleted_rows_and_missing_or_damaged_statistics(tmp_path):
    """The bounds of files with deleted rows may be wide; the names of renamed columns are physical."""
    schema = struct_of(
        column("id", "long", "col-1", 1),
        column("a", "long", "col-2", 2),
        column("b", "double", "col-3", 3),
        column("swapped", "long", "other", 4),
        column("other", "long", "swapped", 5),
    )

    def rows(first):
        numbers = range(first, first + 4)
        columns = {"col-1": numbers, "col-2": numbers, "col-3": [-1.0, math.nan, -first, None]}
        return pa.table({**columns, "other": [70 + first] * 4, "swapped": [90] * 4})

    statistics = {
        "wide": logged(
            {"col-2": -5, "col-3": -9.5}, {"col-2": 50, "col-3": 9.5}, {"col-2": 0}, tightBounds=False
        ),
        "tight": logged(
            {"col-2": 10, "col-3": -10.0, "other": 80, "swapped": 90},
            {"col-2": 13, "col-3": -1.0, "other": 80, "swapped": 90},
            {"col-2": 0, "col-3": 1},
        ),
        "none": {},
        "half": logged({"col-2": 30}, {}, {}),
        "reversed": logged({"col-2": 43}, {"col-2": 40}, {"col-2": 99}),
    }
    firsts = dict(zip(statistics, range(0, 50, 10), strict=True))
    files = [
        (name, rows(first), {}, inline_vector([0, 3]) if name == "wide" else None)
        for name, first in firsts.items()
    ]
    features = ["columnMapping", "deletionVectors"]
    write_log(tmp_path, schema, files, features=features, mode="name", statistics=statistics)
    table = ia.open(deltalake.DeltaTable(tmp_path))
    conditions = {
        "a = 11": ([11], {"wide", "tight"}),
        "a = 2": ([2], {"wide"}),
        "a = 3": ([], {"wide"}),
        "a > 60": ([], set()),
        "b > -1": ([2], {"tight", "wide"}),
        "b < -9.75": ([12, 22, 32, 42], {"tight"}),
        "a IS NULL": ([], set()),
        "swapped = 80": ([10, 11, 12, 13], {"tight", "wide"}),
    }
    for where, (expected, opened) in conditions.items():
        scan = table.scan(where, ["id"])
        assert sorted(scan.to_arrow()["id"].to_pylist()) == expected, where
        excluded = sum(one.files for (name, _), one in scan.report.pruned_by.items() if name == "delta_log")
        assert excluded == len(firsts) - len(opened | {"none", "half", "reversed"}), where
    (tmp_path / "tight").unlink()  # an excluded file is not touched
    assert ids(table, "a = 2") == [2]
    part = table.explain("a = 2")
    assert part.pruned_by["delta_log", "a"].files == 1
    assert "delta_log of a" in str(part)


def test_bounds_of_floats_that_became_doubles(tmp_path):
    """The log has 0.1 for a float of 32 bits, which is 0.10000000149011612 in a column of doubles."""
    schema = struct_of(column("id", "long"), column("c", "double"))
    floats = pa.array([-0.1, 0.1], pa.float32())
    files = [
        ("old", pa.table({"id": [0, 1], "c": floats}), {}, None),
        ("new", pa.table({"id": [2, 3], "c": [5.0, 1e300]}), {}, None),
    ]
    statistics = {
        "old": logged({"c": -0.1}, {"c": 0.1}, {"c": 0}),
        "new": logged({"c": 5.0}, {"c": 1e300}, {"c": 0}),
    }
    write_log(tmp_path, schema, files, features=["typeWidening"], statistics=statistics)
    table = ia.open(deltalake.DeltaTable(tmp_path))
    for row, value in enumerate([*floats.cast(pa.float64()).to_pylist(), 5.0, 1e300]):
        assert [one["id"] for one in table.scan("c = ?", parameters=[value]).to_pylist()] == [row]
    scan = table.scan("c = 6")
    assert (scan.count(), scan.report.files_opened) == (0, 1)


def test_characters_that_json_escapes_as_two(tmp_path):
    """deltalake reads an escaped U+20000 as U+10000, and U+10FFFF as U+FFFFF, so maxima are too small."""
    texts = ["a", "\U0001f600", "\U00020000", "b\U0010ffff"]
    files = [(text[:1], pa.table({"t": [text]}), {}, None) for text in texts]
    bounds = {text[:1]: logged({"t": text}, {"t": text}, {"t": 0}) for text in texts}
    write_log(tmp_path, struct_of(column("t", "string")), files, statistics=bounds)
    table = ia.open(deltalake.DeltaTable(tmp_path))
    for text in texts:
        assert table.count("t = ?", parameters=[text]) == 1
    scan = table.scan("t = 'c'")
    assert (scan.count(), scan.report.files_opened) == (0, 0)
