"""Iceberg tables, compared with pyiceberg's own answers."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import os
import pickle
import struct
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.lake.iceberg import MAX_KEPT_DELETES, DeleteFile, iceberg_statistics
from intarsia.lake.scan import Scan
from intarsia.rows.selection import RowSelection
from tests.counting import calls
from tests.lake.answers import assert_answers, ordered
from tests.lake.iceberg_files import (
    commit_deletion_vectors,
    commit_file,
    commit_position_deletes,
    with_metadata,
)
from tests.lake.index.lakes import age

pytest.importorskip("pyiceberg.catalog.sql")

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType, StringType

INDEXES = [ia.PageIndex(), ia.Bloom("id"), ia.Distinct("text"), ia.ZoneMap("id"), ia.Hll("id"), ia.Sample(4)]

CONDITIONS = [
    ("id = 7", lambda row: row["id"] == 7),
    ("id > 5 AND text = 't1'", lambda row: (row["id"] or 0) > 5 and row["text"] == "t1"),
    ("id IS NULL", lambda row: row["id"] is None),
    ("text IN ('t0', 't2') OR id < 2", lambda row: row["text"] in ("t0", "t2") or row["id"] in (0, 1)),
    ("id = 3000000000", lambda row: False),
]

PARTITIONS = ["a b", "c/d", None, "é%", "x=y"]


def rows_of(first, count=15):
    """Rows with nested columns and special characters."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array([None if one % 9 == 8 else one for one in ids], pa.int32()),
            "part": [PARTITIONS[one % 5] for one in ids],
            "text": [f"t{one % 3}" for one in ids],
            "score": pa.array([one / 4 for one in ids], pa.float32()),
            "time": pa.array([dt.datetime(2024, 1, 1 + one % 2, tzinfo=dt.timezone.utc) for one in ids]),
            "nested": [None if one % 5 == 4 else {"a": one, "b": -one} for one in ids],
            "list": [[{"x": str(one)}] * (one % 3) for one in ids],
            "map": pa.array([[("k", one)] for one in ids], pa.map_(pa.string(), pa.int64())),
        }
    )


@pytest.fixture
def catalog(tmp_path):
    """A catalog in a folder of the test."""
    found = SqlCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    found.create_namespace("db")
    yield found
    found.close()


def expected(iceberg, **options):
    """Return all rows of a table, read by pyiceberg."""
    return iceberg.scan(**options).to_arrow().to_pylist()


def files_of(table):
    """Return the paths of the data files."""
    return [file.path for file in table.files]


def attach_to_all(table, indexes=INDEXES):
    """Attach indexes to the files of a table, which the manifests do not know."""
    for path in files_of(table):
        ia.attach(path, indexes)
        age(path)


def test_columns_that_were_renamed_added_dropped_and_widened(catalog):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    iceberg.append(rows_of(0))
    attach_to_all(ia.open(iceberg))
    with iceberg.update_schema() as update:
        update.update_column("id", LongType())
        update.update_column("score", DoubleType())
        update.rename_column("nested.a", "c")
        update.rename_column("list.element.x", "y")
        update.delete_column("text")
    with iceberg.update_schema() as update:
        update.rename_column("nested.b", "a")
        update.rename_column("part", "text")
        update.rename_column("id", "key")
    with iceberg.update_schema() as update:
        update.add_column("part", StringType())
    with iceberg.update_schema() as update:
        update.add_column("id", LongType())
        update.move_first("id")
    new = pa.Table.from_pylist(
        [
            {
                "id": one,
                "key": 3_000_000_000 + one,
                "text": "new",
                "part": "p",
                "score": 1e300,
                "time": dt.datetime(2025, 1, 1, tzinfo=dt.timezone.utc),
                "nested": {"c": one, "a": 2},
                "list": [{"y": "l"}],
                "map": [("k", 1)],
            }
            for one in range(5)
        ],
        schema=iceberg.schema().as_arrow(),
    )
    iceberg.append(new)
    conditions = [
        ("key = 7", lambda row: row["key"] == 7),
        ("key = 3000000002", lambda row: row["key"] == 3_000_000_002),
        ("id = 2", lambda row: row["id"] == 2),
        ("id IS NULL AND text = 'c/d'", lambda row: row["id"] is None and row["text"] == "c/d"),
        ("part IS NULL", lambda row: row["part"] is None),
        ("text = 't1' OR part = 't1'", lambda row: False),
        ("nested.a < -5", lambda row: (row["nested"] or {"a": 0})["a"] < -5),
        ("nested.c = 2", lambda row: (row["nested"] or {"c": 0})["c"] == 2),
        ("score = 2.5", lambda row: row["score"] == 2.5),
    ]
    table = ia.open(iceberg)
    assert table.schema.names == ["id", "key", "text", "score", "time", "nested", "list", "map", "part"]
    assert table.schema.types[:4] == [pa.int64(), pa.int64(), pa.string(), pa.float64()]
    rows = expected(iceberg)
    assert_answers(table, rows, conditions, key="key")
    table.build_lake_index()
    assert_answers(ia.open(iceberg), rows, conditions, key="key")
    scan = ia.open(iceberg).scan("key = 1000")
    assert scan.to_arrow().num_rows == 0
    assert scan.report.files_opened == 0


def test_a_new_column_with_the_name_and_the_type_of_a_dropped_one(catalog):
    """The schemas of the files differ only in a field id."""
    rows = rows_of(0).select(["id", "text"])
    iceberg = catalog.create_table("db.t", schema=rows.schema)
    iceberg.append(rows)
    with iceberg.update_schema() as update:
        update.delete_column("text")
    with iceberg.update_schema() as update:
        update.add_column("text", StringType())
    iceberg.append(rows_of(15).select(["id", "text"]))
    attach_to_all(ia.open(iceberg))
    assert_answers(ia.open(iceberg), expected(iceberg), CONDITIONS)
    ia.open(iceberg).build_lake_index()
    assert_answers(ia.open(iceberg), expected(iceberg), CONDITIONS)


def test_snapshots_have_the_names_of_their_time(catalog):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    iceberg.append(rows_of(0))
    first = iceberg.current_snapshot().snapshot_id
    iceberg.delete("id = 7")
    with iceberg.update_schema() as update:
        update.rename_column("id", "key")
    # with a list, because pyiceberg reads a null list as an empty one
    rewritten = pa.table({"key": pa.array([1], pa.int32()), "list": [[{"x": "rewritten"}]]})
    iceberg.overwrite(rewritten, overwrite_filter="text = 't1'")
    for scan in (iceberg.scan(snapshot_id=first), iceberg.scan()):
        key = "key" if "key" in scan.projection().column_names else "id"
        conditions = [(f"{key} = 7", lambda row, key=key: row[key] == 7)]
        assert_answers(ia.open(scan), scan.to_arrow().to_pylist(), conditions, key=key)
    iceberg.manage_snapshots().create_tag(first, "before").commit()
    assert ia.open(iceberg.scan().use_ref("before")).count() == 15
    some = ia.open(iceberg.scan(selected_fields=("text", "key")))
    assert sorted(some.schema.names) == ["key", "text"]
    with pytest.raises(ValueError, match="filter"):
        ia.open(iceberg.scan(row_filter="key = 1"))


def test_partitions_that_changed(catalog, tmp_path):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    iceberg.append(rows_of(0))
    with iceberg.update_spec() as update:
        update.add_field("part", IdentityTransform(), "part")
        update.add_field("time", DayTransform(), "day")
        update.add_field("text", BucketTransform(3), "bucket")
    # pyiceberg writes only identity partitions by itself
    for place, part in enumerate(PARTITIONS):
        ids = iceberg.schema().as_arrow()
        mine = [row for row in rows_of(15).to_pylist() if row["part"] == part]
        path = tmp_path / f"{place}.parquet"
        pq.write_table(pa.Table.from_pylist(mine, schema=ids), path)
        commit_file(iceberg, path, num_rows=len(mine), partition=(part, 19_723, 1))
    with iceberg.update_schema() as update:
        update.rename_column("part", "place")
    table = ia.open(iceberg)
    conditions = [
        *CONDITIONS,
        ("place = 'é%'", lambda row: row["place"] == "é%"),
        ("place IS NULL AND id > 20", lambda row: row["place"] is None and (row["id"] or 0) > 20),
    ]
    assert_answers(table, expected(iceberg), conditions)
    scan = table.scan("place = 'x=y'")
    scan.to_arrow()
    # the files of the old specification have no partition value
    assert (len(table.files), scan.report.files_opened) == (6, 2)
    assert "partition" in {index for index, _ in scan.report.pruned_by}
    # not all files have a value of the partition column
    assert table.partitions().column_names == ["num_files", "num_bytes"]


def test_a_partition_column_that_files_lack(catalog, tmp_path):
    schema = rows_of(0).select(["id", "part", "text"]).schema
    iceberg = catalog.create_table("db.t", schema=schema)
    with iceberg.update_spec() as update:
        update.add_field("part", IdentityTransform(), "part")
    iceberg.append(rows_of(0).select(["id", "part", "text"]))
    ids = pa.schema(
        [
            pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"}),
            pa.field("text", pa.string(), metadata={"PARQUET:field_id": "3"}),
        ]
    )
    pq.write_table(rows_of(100).select(["id", "text"]).cast(ids), tmp_path / "lacks.parquet")
    commit_file(iceberg, tmp_path / "lacks.parquet", num_rows=15, partition=("only here",))
    table = ia.open(iceberg)
    conditions = [
        *CONDITIONS,
        (
            "part = 'only here' AND id > 105",
            lambda row: row["part"] == "only here" and (row["id"] or 0) > 105,
        ),
        ("part <> 'only here'", lambda row: row["part"] not in (None, "only here")),
    ]
    assert_answers(table, expected(iceberg), conditions)
    assert table.count("part = 'only here'") == 15
    assert "only here" in table.partitions()["part"].to_pylist()


def test_partition_values_that_pyiceberg_rounds(catalog, tmp_path):
    """Version 0.12.0 reads doubles of manifests as floats of 32 bits."""
    iceberg = catalog.create_table("db.t", schema=pa.schema({"id": pa.int32(), "x": pa.float64()}))
    with iceberg.update_spec() as update:
        update.add_field("x", IdentityTransform(), "x")
    values = [0.1, 1e300, -1e-300, 0.0, 1.5, math.inf, None]
    iceberg.append(pa.table({"id": pa.array(range(7), pa.int32()), "x": values}))
    table = ia.open(iceberg)
    for where, ids in {
        "x = 0.1": [0], "x = 1e300": [1], "x > 1e300": [5], "x < 0": [2], "x = 0": [3], "x IS NULL": [6]
    }.items():  # fmt: skip
        assert sorted(table.scan(where).to_arrow()["id"].to_pylist()) == ids, where
    ids = pa.schema([pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table({"id": pa.array([7], pa.int32())}, ids), tmp_path / "lacks.parquet")
    commit_file(iceberg, tmp_path / "lacks.parquet", partition=(0.1,))
    if new_decoder(struct.pack("<d", 0.1)).read_double() == 0.1:
        assert ia.open(iceberg).count("x = 0.1") == 2
    else:
        with pytest.raises(UnsupportedFeatureError) as caught:
            ia.open(iceberg)
        assert (caught.value.reason, caught.value.column) == ("rounded-partition", "x")


def test_bounds_of_some_row_groups(catalog):
    """pyiceberg leaves out row groups without bounds, which texts above 4 KiB have."""
    table = pa.table({"x": ["a" * 5_000] * 100 + ["m"] * 100 + ["z" * 5_000] * 100, "y": range(300)})
    for limit in (100, 300):
        properties = {"write.parquet.row-group-limit": str(limit), "write.metadata.metrics.default": "full"}
        iceberg = catalog.create_table(f"db.t{limit}", schema=table.schema, properties=properties)
        iceberg.append(table)
        iceberg.append(pa.table({"x": ["m"], "y": [300]}))
        found = ia.open(iceberg)
        assert found.count("x < 'b'") == found.count("x > 'n'") == 100
        assert found.count("x = 'm'") == 101
        assert found.explain("x > 'n'").files_read == 1  # the bounds of the other file are used
        assert found.explain("y > 300").files_read == 0


def test_calls_for_each_bound_of_text_in_the_manifests(catalog):
    """Whether the bounds of a file are those of all row groups was found out again for each column."""
    table = pa.table({f"text_{ordinal}": ["a"] for ordinal in range(30)})
    iceberg = catalog.create_table("db.t", schema=table.schema)
    iceberg.append(table)
    schema = iceberg.schema()
    (task,) = iceberg.scan().plan_files()

    def calls_for(num_files):
        return calls(lambda: iceberg_statistics([task.file] * num_files, schema, schema.as_arrow()))

    calls_for(1)  # imports
    assert (calls_for(40) - calls_for(20)) / 20 / 30 < 5  # a look-up for each of three values


def test_files_without_field_ids_need_a_name_mapping(catalog, tmp_path):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    pq.write_table(rows_of(0), tmp_path / "added.parquet")
    iceberg.add_files([f"file://{tmp_path}/added.parquet"])
    with iceberg.update_schema() as update:
        update.rename_column("id", "key")
        update.rename_column("nested.a", "c")
    table = ia.open(iceberg)
    conditions = [("key = 7", lambda row: row["key"] == 7)]
    assert_answers(table, expected(iceberg), conditions, key="key")
    with iceberg.transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    with pytest.raises(UnsupportedFeatureError) as caught:
        ia.open(iceberg).count("key = 7")
    assert caught.value.reason == "no-field-ids"
    assert caught.value.path == str(tmp_path / "added.parquet")


@pytest.mark.parametrize("is_indexed", [False, True])
def test_deleted_rows(catalog, tmp_path, is_indexed):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    iceberg.append(rows_of(0))
    iceberg.append(rows_of(15))
    iceberg.append(rows_of(30))
    if is_indexed:
        attach_to_all(ia.open(iceberg))
        ia.open(iceberg).build_lake_index()
    whole = ia.open(iceberg)
    assert_answers(whole, expected(iceberg), CONDITIONS)
    locations = [f"file://{path}" for path in files_of(whole)]
    gone = {locations[0]: [0, 7, 8, 14], locations[1]: list(range(15))}
    pairs = [(location, row) for location, rows in gone.items() for row in rows]
    commit_position_deletes(iceberg, tmp_path / "1.parquet", [*pairs, ("file:///another.parquet", 1)])
    table = ia.open(iceberg)
    rows = expected(iceberg)
    assert len(rows) == 26
    assert_answers(table, rows, CONDITIONS)
    assert {index for index, _ in table.explain().pruned_by} == {"deletes"}
    commit_position_deletes(iceberg, tmp_path / "2.parquet", [(locations[2], 3), (locations[0], 7)])
    assert_answers(ia.open(iceberg), expected(iceberg), CONDITIONS)
    # rows that are written later are not deleted
    iceberg.append(rows_of(45))
    assert ia.open(iceberg).count() == 40


def test_a_delete_file_is_read_once_for_all_data_files(catalog, tmp_path):
    """It was searched for each data file, so that a count of 400 files with 20 delete files took 20 s."""
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    for first in (0, 15, 30):
        iceberg.append(rows_of(first))
    locations = [f"file://{path}" for path in files_of(ia.open(iceberg))]
    for row in (3, 4):
        path = tmp_path / f"{row}.parquet"
        commit_position_deletes(iceberg, path, [(location, row) for location in locations])
    table, found = ia.open(iceberg), []
    assert calls(lambda: found.extend(file.deletes.rows() for file in table.files), of=Scan.to_arrow) == 2
    assert found == [RowSelection.of_range(3, 5)] * 3
    assert table.count() == 45 - 2 * 3


@pytest.mark.parametrize(
    "path_type",
    [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()],
    ids=str,
)
@pytest.mark.parametrize("num_rows", [50, MAX_KEPT_DELETES + 1], ids=["read once", "searched"])
def test_deleted_rows_by_location(tmp_path, path_type, num_rows):
    paths = [None if row % 7 == 6 else f"file:///{row % 5}.parquet" for row in range(50)]
    columns = {"file_path": pa.array(paths, pa.string()).cast(path_type), "pos": range(100, 150)}
    path = tmp_path / "deletes.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=15)
    deletes = DeleteFile(ia.DataFile(str(path), path.stat().st_size), "PARQUET", num_rows)
    for location in {*paths, "file:///absent.parquet"} - {None}:
        found = deletes.rows_of(location).tolist()
        assert found == [100 + row for row, one in enumerate(paths) if one == location]


def test_paths_of_deleted_rows_that_are_not_text_are_an_error(tmp_path):
    path = tmp_path / "deletes.parquet"
    pq.write_table(pa.table({"file_path": [1], "pos": [1]}), path)
    deletes = DeleteFile(ia.DataFile(str(path), path.stat().st_size), "PARQUET", 1)
    with pytest.raises(ia.PredicateError):
        deletes.rows_of("file:///a.parquet")


def test_a_split_has_the_names_of_its_columns_only(catalog):
    """It had those of all columns, so thousands of splits of a wide table did not fit into memory."""

    def pickled(columns):
        rows = pa.table({f"c{ordinal}": range(9) for ordinal in range(columns)})
        rows = rows.append_column("s", pa.array([{"x": row, "y": -row} for row in range(9)]))
        iceberg = catalog.create_table(f"db.t{columns:03}", schema=rows.schema)
        iceberg.append(rows)
        with iceberg.update_schema() as update:
            update.rename_column("c7", "d7").rename_column(("s", "x"), "z").add_column("new", LongType())
        scan = ia.open(iceberg).scan("d7 > 2 AND s.z < 8 AND new IS NULL", columns=["new", "c8", "s"])
        (split,) = scan.plan()
        found = pickle.loads(pickle.dumps(split)).to_arrow()
        assert found.equals(scan.to_arrow())
        assert found.to_pylist()[0] == {"new": None, "c8": 3, "s": {"z": 3, "y": -3}}
        return len(pickle.dumps(split))

    assert pickled(200) <= pickled(10) + 300  # the longest name, too


def test_deletion_vectors(catalog, tmp_path):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    iceberg.append(rows_of(0))
    iceberg.append(rows_of(15))
    locations = [f"file://{path}" for path in files_of(ia.open(iceberg))]
    commit_deletion_vectors(iceberg, tmp_path / "1.puffin", {locations[0]: [1, 2, 3], locations[1]: [14]})
    rows = expected(iceberg)
    assert len(rows) == 26
    assert_answers(ia.open(iceberg), rows, CONDITIONS)
    (tmp_path / "1.puffin").write_bytes(b"PFA1" * 9)
    with pytest.raises(CorruptFileError) as caught:
        ia.open(iceberg).count()
    assert (caught.value.reason, caught.value.path) == ("damaged-deletes", str(tmp_path / "1.puffin"))


def test_a_missing_delete_file_is_an_error_and_not_ignored(catalog, tmp_path):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    iceberg.append(rows_of(0))
    locations = [f"file://{path}" for path in files_of(ia.open(iceberg))]
    commit_position_deletes(iceberg, tmp_path / "1.parquet", [(locations[0], 1)])
    os.remove(tmp_path / "1.parquet")
    with pytest.raises(FileNotFoundError):
        ia.open(iceberg).count()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"content": DataFileContent.EQUALITY_DELETES}, "equality-deletes"),
        ({"content": DataFileContent.POSITION_DELETES, "file_format": FileFormat.AVRO}, "not-parquet"),
        ({"file_format": FileFormat.ORC}, "not-parquet"),
    ],
)
def test_what_cannot_be_applied_is_refused(catalog, tmp_path, options, reason):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    iceberg.append(rows_of(0))
    (tmp_path / "file").write_bytes(b"?")
    commit_file(iceberg, tmp_path / "file", **options)
    with pytest.raises(UnsupportedFeatureError) as caught:
        ia.open(iceberg)
    assert caught.value.reason == reason
    assert caught.value.path in (str(tmp_path / "file"), f"{tmp_path}/warehouse/db/t")


def test_the_lake_index_forgets_rewritten_files(catalog):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    for first in range(0, 60, 15):
        iceberg.append(rows_of(first))
    attach_to_all(ia.open(iceberg))
    assert ia.open(iceberg).build_lake_index().files_added == 4
    scan = ia.open(iceberg).scan("id = 20")
    assert scan.to_arrow().num_rows == 1
    assert scan.report.files_opened == 1
    iceberg.overwrite(iceberg.scan().to_arrow())  # rewrites all rows in one file
    table = ia.open(iceberg)
    assert len(table.files) == 1
    age(table.files[0].path)
    assert_answers(ia.open(iceberg), expected(iceberg), CONDITIONS)
    report = ia.open(iceberg).build_lake_index()
    assert len(list(Path(report.folder).glob("*.lake"))) == 1


DEFAULTS = {
    "long": 7,
    "string": "x",
    "date": "2020-01-01",
    "timestamptz": "2020-01-01T01:00:00.000000+00:00",
    "decimal(9,2)": "1.25",
    "double": 1.5,
    "uuid": "00000000-0000-0000-0000-000000000005",
    "fixed[2]": "6162",
}


def test_columns_have_their_initial_defaults_in_older_files(catalog, tmp_path):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).select(["id", "text"]).schema)
    iceberg.append(rows_of(0).select(["id", "text"]))

    def change(metadata):
        fields = metadata["schemas"][0]["fields"]
        for place, (kind, default) in enumerate(DEFAULTS.items()):
            field = {"id": 9 + place, "name": f"new {place}", "type": kind, "required": False}
            fields.append({**field, "initial-default": default})
        metadata["last-column-id"] = 99

    iceberg = with_metadata(iceberg, tmp_path / "v3.metadata.json", change)
    conditions = [
        ('"new 0" = 7 AND id > 3', lambda row: (row["id"] or 0) > 3),
        ('"new 1" <> \'x\' OR "new 2" IS NULL', lambda row: False),
    ]
    assert_answers(ia.open(iceberg), expected(iceberg), conditions)


@pytest.mark.parametrize("damage", ["name mapping", "default", "missing manifests", "damaged manifests"])
def test_metadata_that_pyiceberg_cannot_read(catalog, tmp_path, damage):
    """Errors of pydantic, pyarrow and Python become one of Intarsia with the name of the table."""
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    iceberg.append(rows_of(0))
    (tmp_path / "damaged").write_bytes(b"Obj?garbage")

    def change(metadata):
        if damage == "name mapping":
            metadata["properties"]["schema.name-mapping.default"] = "nonsense"
        elif damage == "default":
            new = {"id": 99, "name": "new", "type": "int", "required": False, "initial-default": "text"}
            metadata["schemas"][0]["fields"].append(new)
        else:
            name = tmp_path / damage.partition(" ")[0]
            metadata["snapshots"][0]["manifest-list"] = f"file://{name}"

    table = with_metadata(iceberg, tmp_path / "v3.metadata.json", change)
    for source in (table, table.scan()):
        with pytest.raises(CorruptFileError) as caught:
            ia.open(source)
        assert (caught.value.reason, caught.value.path) == (
            "unreadable-metadata",
            f"{tmp_path}/warehouse/db/t",
        )
        assert caught.value.__cause__ is not None


def test_a_default_inside_a_column_is_refused(catalog, tmp_path):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)

    def change(metadata):
        nested = next(one for one in metadata["schemas"][0]["fields"] if one["name"] == "nested")
        nested["type"]["fields"].append(
            {"id": 99, "name": "new", "type": "long", "required": False, "initial-default": 1}
        )
        metadata["last-column-id"] = 99

    with pytest.raises(UnsupportedFeatureError) as caught:
        ia.open(with_metadata(iceberg, tmp_path / "v3.metadata.json", change))
    assert (caught.value.reason, caught.value.column) == ("nested-default", "nested")


def test_a_partition_column_that_was_promoted_from_a_date_is_refused(catalog, tmp_path):
    iceberg = catalog.create_table("db.t", schema=pa.schema({"id": pa.int32(), "day": pa.date32()}))
    with iceberg.update_spec() as update:
        update.add_field("day", IdentityTransform(), "day")
    iceberg.append(pa.table({"id": pa.array([1], pa.int32()), "day": [dt.date(2024, 1, 1)]}))

    def change(metadata):
        (old,) = metadata["schemas"]
        promoted = [{**one, "type": "timestamp"} if one["name"] == "day" else one for one in old["fields"]]
        metadata["schemas"].append({**old, "schema-id": 1, "fields": promoted})
        metadata["current-schema-id"] = 1

    with pytest.raises(UnsupportedFeatureError) as caught:
        ia.open(with_metadata(iceberg, tmp_path / "v3.metadata.json", change))
    assert (caught.value.reason, caught.value.column) == ("promoted-partition", "day")


def test_all_types(catalog):
    rows = pa.table(
        {
            "id": pa.array([1, 2, None], pa.int64()),
            "flag": [True, None, False],
            "date": [dt.date(2024, 1, 1), None, dt.date(1969, 12, 31)],
            "clock": pa.array([1, None, 86_399_999_999], pa.time64("us")),
            "local": pa.array([dt.datetime(2024, 1, 1), None, dt.datetime(1900, 1, 1)], pa.timestamp("us")),
            "price": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-9.99")], pa.decimal128(9, 2)),
            "code": pa.array([b"0" * 16, None, b"f" * 16], pa.binary(16)),
            "blob": [b"a", None, b""],
            "uuid": pa.array([uuid.UUID(int=5).bytes, None, uuid.UUID(int=6).bytes], pa.uuid()),
        }
    )
    iceberg = catalog.create_table("db.t", schema=rows.schema)
    with iceberg.update_spec() as update:
        update.add_field("date", IdentityTransform())
        update.add_field("price", IdentityTransform())
        update.add_field("local", IdentityTransform())
    iceberg.append(rows)
    table = ia.open(iceberg)
    conditions = [
        ("date = DATE '1969-12-31'", lambda row: row["date"] == dt.date(1969, 12, 31)),
        ("price = 1.25", lambda row: row["price"] == decimal.Decimal("1.25")),
        ("local > TIMESTAMP '2000-01-01 00:00:00'", lambda row: row["id"] == 1),
        ("blob = X'61'", lambda row: row["id"] == 1),
        ("price IS NULL", lambda row: row["price"] is None),
    ]
    rows = [{**row, "uuid": row["uuid"]} for row in expected(iceberg)]
    assert ordered(table.scan().to_arrow().to_pylist()) == ordered(rows)
    assert_answers(table, rows, conditions)


def test_an_empty_table_has_a_schema(catalog):
    iceberg = catalog.create_table("db.t", schema=rows_of(0).schema)
    table = ia.open(iceberg)
    assert table.schema.equals(rows_of(0).schema)
    assert_answers(table, [], CONDITIONS)
