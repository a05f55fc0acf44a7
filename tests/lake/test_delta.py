"""Delta tables, compared with deltalake's own answers."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

import intarsia as ia
from intarsia.errors import CorruptFileError, ObjectStoreError, UnsupportedFeatureError
from tests.lake.answers import assert_answers, ordered
from tests.lake.delta_logs import column, inline_vector, list_of, struct_of, vector_in_a_file, write_log
from tests.lake.index.lakes import age

deltalake = pytest.importorskip("deltalake")

INDEXES = [ia.PageIndex(), ia.Bloom("id"), ia.Distinct("text"), ia.ZoneMap("id"), ia.Hll("id"), ia.Sample(4)]

CONDITIONS = [
    ("id = 7", lambda row: row["id"] == 7),
    ("id > 5 AND text = 't1'", lambda row: (row["id"] or 0) > 5 and row["text"] == "t1"),
    ("id IS NULL", lambda row: row["id"] is None),
    ("text IN ('t0', 't2') OR id < 2", lambda row: row["text"] in ("t0", "t2") or -1 < (row["id"] or -1) < 2),
    ("id = 1000", lambda row: False),
]

PARTITIONS = ["c/d", None, "é% =y"]


def rows_of(first, count=20):
    """Rows in five partitions with special characters."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array([None if one % 9 == 8 else one for one in ids], pa.int32()),
            "part": [PARTITIONS[one % 3] for one in ids],
            "text": [f"t{one % 3}" for one in ids],
            "day": pa.array([dt.date(2024, 1, 1 + one % 2) for one in ids]),
            "time": pa.array([dt.datetime(2024, 1, 1, one % 24, tzinfo=dt.timezone.utc) for one in ids]),
        }
    )


def expected(delta):
    """Return all rows of a table, read by deltalake."""
    return delta.to_pyarrow_table().to_pylist()


def attach_to_all(table, indexes=INDEXES):
    """Attach indexes to the files of a table, which the log does not know."""
    for file in table.files:
        ia.attach(file.path, indexes)
        age(file.path)


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A table that was written, appended to with a new column, deleted from, updated and compacted."""
    folder = tmp_path_factory.mktemp("delta") / "history"
    deltalake.write_deltalake(folder, rows_of(0), partition_by=["part", "day"])
    more = rows_of(20, 10).append_column("extra", pa.array(range(10), pa.int64()))
    deltalake.write_deltalake(folder, more, mode="append", schema_mode="merge")
    deltalake.DeltaTable(folder).delete("id = 3 OR text = 't2' AND id > 20")
    deltalake.DeltaTable(folder).update(updates={"text": "'t9'"}, predicate="id = 4")
    deltalake.DeltaTable(folder).optimize.compact()
    return folder


CONDITIONS_OF_PARTITIONS = [
    ("part = 'é% =y'", lambda row: row["part"] == "é% =y"),
    ("part IS NULL AND id > 3", lambda row: row["part"] is None and (row["id"] or 0) > 3),
    ("day = DATE '2024-01-02'", lambda row: row["day"] == dt.date(2024, 1, 2)),
]


@pytest.mark.parametrize("version", [1, 4])
def test_each_version_of_a_table(history, version):
    delta = deltalake.DeltaTable(history, version=version)
    table = ia.open(delta)
    assert table.schema == delta.to_pyarrow_table().schema
    conditions = [*CONDITIONS, *CONDITIONS_OF_PARTITIONS]
    conditions.append(("extra = 3", lambda row: row["extra"] == 3))
    conditions.append(("extra IS NULL", lambda row: row["extra"] is None))
    assert_answers(table, expected(delta), conditions)


def test_a_url_opens_the_current_version(history):
    table = ia.open(f"delta+{history.as_uri()}")
    assert ordered(table.scan().to_arrow().to_pylist()) == ordered(expected(deltalake.DeltaTable(history)))
    assert ia.open(f"delta+{history}").count() == table.count()


def test_partition_values_exclude_files_without_opening_them(history):
    table = ia.open(deltalake.DeltaTable(history, version=0))
    scan = table.scan("part = 'c/d' AND day = DATE '2024-01-01'")
    assert scan.to_arrow().num_rows == 4
    assert (len(table.files), scan.report.files_opened) == (6, 1)
    listed = table.partitions()
    assert listed.schema.types[:2] == [pa.string(), pa.date32()]
    assert listed.num_rows == 6


def test_attached_indexes_are_used_and_the_log_keeps_the_old_lengths(tmp_path):
    deltalake.write_deltalake(tmp_path, rows_of(0))
    deltalake.write_deltalake(tmp_path, rows_of(20), mode="append")
    attach_to_all(ia.open(deltalake.DeltaTable(tmp_path)))
    delta = deltalake.DeltaTable(tmp_path)
    table = ia.open(delta)
    logged = pa.table(delta.get_add_actions())["size_bytes"].to_pylist()
    assert sorted(file.size_bytes for file in table.files) > sorted(logged)
    assert [file.size_bytes for file in table.files] == [os.path.getsize(file.path) for file in table.files]
    assert_answers(table, expected(delta), CONDITIONS)
    scan = table.scan("text = 'absent'")
    assert scan.to_arrow().num_rows == 0
    assert scan.report.row_groups_read == 0


def test_the_lake_index_forgets_files_that_were_compacted(tmp_path):
    for first in range(0, 60, 10):
        deltalake.write_deltalake(tmp_path, rows_of(first, 10), mode="append")
    old = ia.open(deltalake.DeltaTable(tmp_path))
    attach_to_all(old)
    assert old.build_lake_index().files_added == 6
    scan = ia.open(deltalake.DeltaTable(tmp_path)).scan("id = 42")
    assert scan.to_arrow().num_rows == 1
    assert scan.report.files_opened == 1

    delta = deltalake.DeltaTable(tmp_path)
    delta.optimize.compact()
    delta = deltalake.DeltaTable(tmp_path)
    assert_answers(ia.open(delta), expected(delta), CONDITIONS)
    table = ia.open(delta)
    assert len(table.files) == 1
    for file in table.files:
        age(file.path)
    report = ia.open(delta).build_lake_index()
    assert (report.files_total, report.files_known + report.files_added) == (1, 1)
    delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert_answers(ia.open(delta), expected(delta), CONDITIONS)
    # the removed files are gone from the lake index, too
    sizes = [path.stat().st_size for path in Path(report.folder).glob("*.lake")]
    assert len(sizes) == 1


# --- features that deltalake does not write ------------------------------------------------------------

MAPPED = struct_of(
    column("id", "long", "col-1", 1),
    column("part", "integer", "col-2", 2),
    column("text", "string", "id", 3),
    column("nested", struct_of(column("b", "long", "a", 5), column("a", "long", "b", 6)), "col-4", 4),
    column("list", list_of(struct_of(column("new", "string", "old", 8))), "col-7", 7),
    column("added", "string", "col-9", 9),
)


def mapped_rows(first, count=12):
    """Rows under physical names; two columns and two fields have exchanged their names."""
    ids = range(first, first + count)
    logical = [
        {
            "id": None if one % 9 == 8 else one,
            "text": f"t{one % 3}",
            "nested": None if one % 5 == 4 else {"b": one, "a": -one},
            "list": [{"new": str(one)}] * (one % 3),
        }
        for one in ids
    ]
    physical = pa.table(
        {
            "col-1": pa.array([row["id"] for row in logical], pa.int64()),
            "id": [row["text"] for row in logical],
            "col-4": pa.array(
                [row["nested"] and {"a": row["nested"]["b"], "b": row["nested"]["a"]} for row in logical],
                pa.struct({"a": pa.int64(), "b": pa.int64()}),
            ),
            "col-7": pa.array(
                [[{"old": one["new"]} for one in row["list"]] for row in logical],
                pa.list_(pa.struct({"old": pa.string()})),
            ),
            "dropped": [0] * count,
        }
    )
    return logical, physical


def with_ids(table):
    """Return rows whose fields have the field ids of `MAPPED`, but other names."""
    fields = [
        pa.field(f"x{place}", field.type, metadata={"PARQUET:field_id": str(number)})
        for place, (field, number) in enumerate(zip(table.schema, (1, 3, 4, 7, 99), strict=True))
    ]
    nested = [
        pa.field(name, pa.int64(), metadata={"PARQUET:field_id": number})
        for name, number in (("y", "5"), ("z", "6"))
    ]
    item = pa.struct([pa.field("w", pa.string(), metadata={"PARQUET:field_id": "8"})])
    fields[2] = fields[2].with_type(pa.struct(nested))
    fields[3] = fields[3].with_type(pa.list_(item))
    columns = [
        pa.array(
            [row and dict(zip("yz", row.values(), strict=True)) for row in table["col-4"].to_pylist()],
            fields[2].type,
        ),
        pa.array([[{"w": one["old"]} for one in row] for row in table["col-7"].to_pylist()], fields[3].type),
    ]
    arrays = [table["col-1"], table["id"], *columns, table["dropped"]]
    return pa.table(arrays, schema=pa.schema(fields))


CONDITIONS_OF_MAPPED = [
    *CONDITIONS,
    ("nested.b = 6", lambda row: (row["nested"] or {}).get("b") == 6),
    ("nested.a < -8 AND part = 2", lambda row: (row["nested"] or {"a": 0})["a"] < -8 and row["part"] == 2),
    ("added IS NULL AND id = 9", lambda row: row["id"] == 9),
    ("added = 'x'", lambda row: False),
    ("upper(text) = 'T1' AND id + 1 > 12", lambda row: row["text"] == "t1" and (row["id"] or 0) > 11),
]


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_renamed_columns_and_deleted_rows(tmp_path, mode, is_indexed):
    deleted = {0: [0, 3, 7], 1: [], 2: list(range(12))}
    rows, files = [], []
    for place, gone in deleted.items():
        logical, physical = mapped_rows(12 * place)
        physical = physical if mode == "name" else with_ids(physical)
        vector = inline_vector(gone) if place == 0 else vector_in_a_file(tmp_path, gone) if gone else None
        files.append((f"part {place}%.parquet", physical, {"col-2": str(place)}, vector))
        rows += [
            {
                "id": row["id"],
                "part": place,
                **{name: row[name] for name in ("text", "nested", "list")},
                "added": None,
            }
            for number, row in enumerate(logical)
            if number not in gone
        ]
    write_log(
        tmp_path,
        MAPPED,
        files,
        features=["columnMapping", "deletionVectors"],
        partition_by=["part"],
        mode=mode,
    )
    table = ia.open(deltalake.DeltaTable(tmp_path))
    if is_indexed:
        own = {"name": ("col-1", "id"), "id": ("x0", "x1")}[mode]
        attach_to_all(
            table,
            [
                ia.PageIndex(),
                ia.Bloom(own[0]),
                ia.Distinct(own[1]),
                ia.ZoneMap(own[0]),
                ia.Hll(own[0]),
                ia.Sample(4),
            ],
        )
        table = ia.open(deltalake.DeltaTable(tmp_path))
    assert_answers(table, rows, CONDITIONS_OF_MAPPED)
    if is_indexed:
        table.build_lake_index()
        indexed = ia.open(deltalake.DeltaTable(tmp_path))
        assert_answers(indexed, rows, CONDITIONS_OF_MAPPED)
        scan = indexed.scan("text = 't1' AND id = 13", ["nested.a"])
        assert scan.to_arrow().num_rows == 1
        assert {"id", "text", "nested.a"} == set(scan.report.pages)
        assert {column for _, column in scan.report.pruned_by} <= {"id", "text", "*"}


def test_a_whole_file_can_be_deleted_and_a_vector_may_be_too_short(tmp_path):
    logical, physical = mapped_rows(0)
    write_log(
        tmp_path,
        struct_of(column("col-1", "long"), column("id", "string")),
        [("a.parquet", physical.select(["col-1", "id"]), {}, inline_vector([0, 1]))],
        features=["deletionVectors"],
    )
    table = ia.open(f"delta+{tmp_path}")
    assert table.scan(columns=["col-1"]).to_arrow()["col-1"].to_pylist() == [row["id"] for row in logical][2:]
    assert [entry.rows for entry in table.explain().pruned_by.values()] == [2]


@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_the_log_of_a_clone_has_the_files_of_another_table(tmp_path, scheme):
    """Spark writes them as Hadoop does, with one slash."""
    original, clone = tmp_path / "the original", tmp_path / "clone"
    rows = pa.table({"id": pa.array(range(8), pa.int64())})
    write_log(
        original,
        struct_of(column("id", "long")),
        [("100%.parquet", rows, {}, inline_vector([2, 5]))],
        features=["deletionVectors"],
    )
    log = Path("_delta_log", f"{0:020}.json")
    (clone / "_delta_log").mkdir(parents=True)
    text = (original / log).read_text().replace("100%25.parquet", scheme + quote(f"{original}/100%.parquet"))
    (clone / log).write_text(text)
    assert ia.open(f"delta+{clone}").scan().to_arrow()["id"].to_pylist() == [0, 1, 3, 4, 6, 7]


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_deletion_vector_that_cannot_be_read_is_not_ignored(tmp_path, damage):
    rows = pa.table({"id": pa.array(range(5), pa.int64())})
    vector = vector_in_a_file(tmp_path, [1])
    write_log(
        tmp_path,
        struct_of(column("id", "long")),
        [("a.parquet", rows, {}, vector)],
        features=["deletionVectors"],
    )
    assert ia.open(f"delta+{tmp_path}").count() == 4
    if damage == "missing":
        os.remove(tmp_path / "deletion_vector.bin")
    else:
        (tmp_path / "deletion_vector.bin").write_bytes(b"?" * 100)
    with pytest.raises(CorruptFileError) as caught:
        ia.open(f"delta+{tmp_path}")
    assert (caught.value.reason, caught.value.path) == ("unreadable-log", str(tmp_path))


def test_unknown_features_are_refused(tmp_path):
    write_log(tmp_path, struct_of(column("id", "long")), [], features=["variantType"])
    with pytest.raises(UnsupportedFeatureError) as caught:
        ia.open(f"delta+{tmp_path}")
    assert caught.value.reason == "unsupported-delta-feature"
    assert caught.value.path == str(tmp_path)


def test_an_empty_table_has_a_schema(tmp_path):
    write_log(tmp_path, struct_of(column("id", "long"), column("part", "string")), [], partition_by=["part"])
    table = ia.open(f"delta+{tmp_path}")
    assert table.schema == pa.schema({"id": pa.int64(), "part": pa.string()})
    assert_answers(table, [], [("id = 1", lambda row: True), ("part = 'x'", lambda row: True)])
    assert table.partitions().num_rows == 0


def test_the_schema_of_a_table_has_no_options(history):
    with pytest.raises(ValueError, match="defines its schema"):
        ia.open(deltalake.DeltaTable(history), partition_types="text")


def test_there_is_no_table(tmp_path):
    with pytest.raises(FileNotFoundError):
        ia.open(f"delta+{tmp_path}/nothing")


def test_a_file_that_vacuum_removed_is_named(tmp_path):
    deltalake.write_deltalake(tmp_path, rows_of(0))
    table = ia.open(deltalake.DeltaTable(tmp_path))
    os.remove(table.files[0].path)
    with pytest.raises(FileNotFoundError) as caught:
        ia.open(deltalake.DeltaTable(tmp_path)).scan().to_arrow()
    assert table.files[0].path in str(caught.value)
    scan = table.scan(on_error="skip")
    with pytest.warns(ia.IntarsiaWarning):
        assert scan.to_arrow().num_rows == 0


def test_a_folder_of_a_table_is_opened_with_a_warning(tmp_path):
    deltalake.write_deltalake(tmp_path, rows_of(0))
    with pytest.warns(ia.IntarsiaWarning) as caught:
        table = ia.open(tmp_path)
    assert table.count() == 20
    assert caught[0].filename == __file__
    # naming a file is a choice
    assert ia.open(table.files[0].path).count() == 20


def test_indexes_are_attached_to_the_current_files(tmp_path):
    deltalake.write_deltalake(tmp_path, rows_of(0), partition_by=["part"])
    deltalake.DeltaTable(tmp_path).delete("part = 'c/d'")
    url = f"delta+{tmp_path.as_uri()}"
    report = ia.attach(url, [ia.Bloom("id")])
    assert report.files_total == 2
    with pytest.raises(ia.IntarsiaError) as caught:
        ia.attach(url, [ia.Bloom("part")])
    assert caught.value.column == "part"
    assert ia.detach(url).files_total == 2
    with pytest.raises(UnsupportedFeatureError) as caught:
        ia.open([url, str(tmp_path)])
    assert caught.value.reason == "several-tables"
    assert ia.open([url]).count() == 13


def test_names_that_start_with_a_dot(tmp_path):
    rows = [{".a": 3, ".b": 1, "b": 7}, {".a": 1, ".b": 2, "b": 8}]
    deltalake.write_deltalake(tmp_path, pa.Table.from_pylist(rows), partition_by=[".a"])
    table = ia.open(f"delta+{tmp_path.as_uri()}")
    assert table.scan('".a" = 3').to_pylist() == rows[:1]
    assert table.scan('".b" = 2').to_pylist() == rows[1:]


def test_a_log_that_cannot_be_read(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(FileNotFoundError):
        ia.open(f"delta+{tmp_path}")
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text('{"broken')
    with pytest.raises(CorruptFileError) as caught:
        ia.open(f"delta+{tmp_path}")
    assert (caught.value.reason, caught.value.path) == ("unreadable-log", str(tmp_path))


@pytest.mark.parametrize(
    ("error", "expected", "reason"),
    [
        (RuntimeError(), CorruptFileError, "unreadable-log"),
        (ValueError("a value"), CorruptFileError, "unreadable-log"),
        (NotImplementedError("a type"), UnsupportedFeatureError, "unsupported-by-library"),
        (
            deltalake.exceptions.DeltaError("Unsupported table features required: [TypeWidening]"),
            UnsupportedFeatureError,
            "unsupported-by-library",
        ),
        (PermissionError("refused"), ObjectStoreError, "store-failed"),
    ],
)
def test_errors_of_the_library_name_the_table(tmp_path, error, expected, reason):
    """Also those that are raised after the log was opened."""

    class Failing(deltalake.DeltaTable):
        def get_add_actions(self, *_):
            raise error

    deltalake.write_deltalake(tmp_path, rows_of(0))
    with pytest.raises(expected) as caught:
        ia.open(Failing(tmp_path))
    assert (caught.value.reason, caught.value.path) == (reason, str(tmp_path))
    assert caught.value.__cause__ is error
