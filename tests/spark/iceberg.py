"""Iceberg tables in an enabled session. The checks run in a process with a Spark that Iceberg supports."""

import json
import os
import random
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.picture.facts import READ
from tests.lake.index.lakes import age
from tests.spark import lakes, skipping
from tests.spark.comparing import settings
from tests.spark.delta import delete_at_once
from tests.spark.mapping import assert_files, assert_pages, check_map, matching_rows
from tests.spark.random_queries import check_plans, check_predicates
from tests.spark.skipping import SWITCH, metrics_of

#: Iceberg 1.12 and later read a file of up to 1 MiB at once, and refuse it if indexes have made it longer.
LARGE = 1_100_000

ROWS = 60

#: Small row groups, whose size parquet-java checks after each of these numbers of rows. Without bounds in
#: manifests, Iceberg itself leaves out no files.
PROPERTIES = {
    "write.metadata.metrics.default": "none",
    "write.parquet.row-group-size-bytes": 300_000,
    "write.parquet.row-group-check-min-record-count": 10,
    "write.parquet.row-group-check-max-record-count": 10,
    "write.parquet.compression-codec": "uncompressed",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
}

INDEXES = (
    *(ia.Distinct(name) for name in ("i", "cat", "dt")),
    *(ia.Bloom(name) for name in ("l", "s", "st.x")),
    *(ia.ZoneMap(name) for name in ("d", "f", "wide", "ts", "ntz")),
    ia.Ngram("s"),
    ia.RowMap("u"),
)


def enable(spark):
    """Enable the session; `SWITCH` turns skipping off for a query."""
    spark.conf.set(SWITCH, "true")
    ias.enable(spark, timeout_seconds=60)


def create(spark, table, columns, **properties):
    spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")
    listed = ", ".join(f"'{key}'='{value}'" for key, value in {**PROPERTIES, **properties}.items())
    spark.sql(f"CREATE TABLE {table} ({columns}) USING iceberg TBLPROPERTIES ({listed})")


def files_of(spark, table):
    """Return the paths of the data files of a table."""
    rows = spark.sql(f"SELECT file_path FROM {table}.files WHERE content = 0 ORDER BY file_path").collect()
    return [row[0].removeprefix("file:") for row in rows]


def attach(spark, table, indexes=INDEXES):
    """Attach those of the indexes whose columns a file has, to each large file, as if some time ago."""
    for path in files_of(spark, table):
        if not path.endswith(".parquet"):
            continue
        if os.path.getsize(path) < 1 << 20:
            age(path)
            continue
        columns = {leaf.path for leaf in pq.ParquetFile(path).schema}
        chosen = [index for index in indexes if index.column in columns]
        ia.attach(path, chosen)
        age(path)


def run(spark, query):
    """Return the rows of a query, as text, without order."""
    return skipping.run(spark, query)[0]


def compare(spark, query):
    """Compare the rows of a query with those of plain Spark; return the skips of each scan."""
    return skipping.compare_runs(spark, query)[0]


def saved_files(skips):
    """Return the number of files that were left out."""
    reports = [skip.report for skip in skips if skip.reason is None]
    return sum(report["files"]["total"] - report["files"]["read"] for report in reports)


def saved_row_groups(skips):
    """Return the number of row groups that were left out."""
    reports = [skip.report for skip in skips if skip.reason is None]
    return sum(report["row_groups"]["total"] - report["row_groups"]["read"] for report in reports)


def read_row_groups(skips):
    """Return the number of row groups that were read of tables of which some were left out."""
    return sum(skip.report["row_groups"]["read"] for skip in skips if skip.reason is None)


def output_rows(frame):
    """Return the number of rows that come out of the scans of a frame that ran."""
    return [rows for (rows,) in metrics_of(frame, ("BatchScanExec",), "numOutputRows")]


# --- tables ----------------------------------------------------------------------------------------------


@cache
def source():
    """Return the folder of a lake whose files Iceberg's writer makes larger than `LARGE`."""
    folder = Path(tempfile.mkdtemp(prefix="lake", dir=os.getcwd()))
    rng = np.random.default_rng(1)
    for ordinal, table in enumerate(lakes.tables(rows=ROWS)):
        pad = pa.array([rng.bytes(LARGE // ROWS) for _ in range(ROWS)], pa.binary())
        pq.write_table(table.append_column("pad", pad), folder / f"file-{ordinal}.parquet")
    return folder


def append(spark, table, ordinals, *expressions):
    for ordinal in ordinals:
        frame = spark.read.parquet(str(source() / f"file-{ordinal}.parquet")).coalesce(1)
        frame.selectExpr(*expressions).writeTo(table).append()


#: The columns of `lakes.SCHEMA` in Iceberg's types, which have no small integers.
TYPES = {
    "by": "int",
    "i": "int",
    "l": "bigint",
    "u": "int",
    "f": "float",
    "d": "double",
    "dec": "decimal(9,2)",
    "wide": "decimal(38,20)",
    "s": "string",
    "cat": "string",
    "b": "binary",
    "bo": "boolean",
    "dt": "date",
    "ts": "timestamp",
    "ntz": "timestamp_ntz",
    "st": "struct<x: bigint, Y: double>",
    "pad": "binary",
}


def plain_table(spark):
    """Create the lake as a table with indexes."""
    create(spark, "ice.db.plain", ", ".join(f"{name} {kind}" for name, kind in TYPES.items()))
    append(spark, "ice.db.plain", range(lakes.FILES), *TYPES)
    attach(spark, "ice.db.plain")
    return "ice.db.plain"


def evolved_table(spark, version):
    """Create the lake as a table whose columns, partitions and deleted rows have changed in between."""
    table = f"ice.db.evolved{version}"
    old = {**TYPES, "s": "string", "f": "float", "dec": "decimal(9,2)"}
    names = {"s": "text", "u": "v", "v": "u", "cat": None}
    columns = {names.get(name, name): kind for name, kind in old.items() if names.get(name, name)}
    columns["st"] = "struct<z: bigint, Y: double>"
    create(spark, table, ", ".join(f"{n} {k}" for n, k in columns.items()), **{"format-version": version})
    values = {"text": "s", "v": "u", "st": "named_struct('z', st.x, 'Y', st.Y) AS st"}
    append(
        spark,
        table,
        range(3),
        *(values[n] if n == "st" else f"{values.get(n, n)} AS {n}" for n in columns),
    )
    attach(spark, table, [*INDEXES, ia.Bloom("text"), ia.Distinct("v")])
    for change in (
        "RENAME COLUMN text TO s",
        "RENAME COLUMN v TO u",
        "RENAME COLUMN st.z TO x",
        "ALTER COLUMN i TYPE bigint",
        "ALTER COLUMN f TYPE double",
        "ALTER COLUMN dec TYPE decimal(12,2)",
        "DROP COLUMN b",  # the new one has another id: rows of old files are null
        "ADD COLUMN b binary",
        "ADD COLUMN cat string",
        "ADD PARTITION FIELD truncate(i, 100000)",
    ):
        spark.sql(f"ALTER TABLE {table} {change}")
    new = [row[0] for row in spark.sql(f"DESCRIBE {table}").collect() if row[0] in TYPES]
    assert set(new) == set(TYPES)
    select = ["named_struct('x', st.x, 'Y', st.Y) AS st" if name == "st" else name for name in new]
    append(spark, table, range(3, 5), *select)
    spark.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD truncate(i, 100000) WITH bo")
    append(spark, table, range(5, lakes.FILES), *select)
    spark.sql(f"DELETE FROM {table} WHERE i % 5000 = 1000 OR s LIKE '%x'")
    spark.sql(f"UPDATE {table} SET s = 'k10', u = 10400 WHERE i = 43000")
    attach(spark, table)
    return table


# --- random queries --------------------------------------------------------------------------------------

#: What identifies a row.
ROW = ("i", f"xxhash64({', '.join(name for name in TYPES if name != 'pad')}) AS h")


def check_random(spark, table, predicates, plans=0):
    """Compare random predicates and random plans with plain Spark."""

    def files_read(frame):
        branches = frame._jdf.queryExecution().analyzed().collectLeaves().size()
        return branches * lakes.FILES - saved_files(ias.last_skips(spark))

    whole = spark.table(table).drop("pad")
    rng = random.Random(f"predicates {predicates}")
    check_predicates(whole, rng, predicates, row=ROW, files_read=files_read, most=0.95)
    if plans:
        check_plans(whole, random.Random("plans"), plans, lambda query: saved_files(compare(spark, query)))


# --- single features -------------------------------------------------------------------------------------

NEEDLES = "ice.db.needles"
NEEDLE_ROWS = 80_000


def needle(ordinal):
    """Return a number that occurs in one row, and that bounds cannot exclude."""
    return ordinal * 7919 % 100_003


def needles_table(spark, table=NEEDLES, **properties):
    """Create four files of seven row groups, with a `RowMap` each."""
    create(
        spark,
        table,
        "id bigint, user int, text string",
        **{
            "write.parquet.row-group-check-min-record-count": 1000,
            "write.parquet.row-group-check-max-record-count": 1000,
            **properties,
        },
    )
    frame = spark.range(0, NEEDLE_ROWS, 1, 4)
    frame.selectExpr(
        "id",
        "cast(id * 7919 % 100003 AS int) AS user",
        "concat(sha2(cast(id AS string), 512), '#', id, '#') AS text",
    ).writeTo(table).append()
    attach(spark, table, [ia.RowMap("user"), ia.Ngram("text")])
    return table


def check_maps(spark):
    """The picture of a plan has the row groups with the rows that plain Spark finds, and whole row groups."""
    table = needles_table(spark, "ice.db.drawn")
    where = f"user = {needle(3)}"
    found = check_map(spark, f"SELECT id, text FROM {table} WHERE {where}")
    truth = matching_rows(spark, spark.table(table).where(where), "_file", "_pos")
    assert_files(found, truth)
    assert_pages(found, truth)
    (file,) = found.files
    assert found.title == "ice.db.drawn"
    by_name = {lane.name: lane for lane in file.lanes}
    assert by_name["user"].role == "where"
    assert {(lane.by_state[READ] > 0) for lane in file.lanes} == {True}
    cells = by_name["text"].cells
    read = [start for start, state in zip(cells.start, cells.state, strict=True) if state == READ]
    assert sum(edge in read for edge in file.edges[:-1]) == found.report["row_groups"]["read"] == 1


def check_needles(spark):
    needles_table(spark)
    frame = spark.table(NEEDLES).where(f"user = {needle(3)}")
    assert [row.id for row in frame.collect()] == [3]
    (skip,) = ias.last_skips(spark)
    report = skip.report
    assert skip.reason is None
    assert skip.paths == (NEEDLES,)
    assert (report["files"]["read"], report["files"]["total"]) == (1, 4)
    assert report["row_groups"]["read"] == 1
    assert report["row_groups"]["total"] >= 28
    assert report["rows"]["total"] == NEEDLE_ROWS
    # Spark's node counts the rows that the report announces
    assert output_rows(frame) == [report["rows"]["candidates"]]
    assert report["rows"]["candidates"] < NEEDLE_ROWS / 20
    assert frame.collect() == frame.collect()
    # absent, and a row in each file
    assert not compare(spark, f"SELECT * FROM {NEEDLES} WHERE user = 100002 AND id > 0")[0].reason
    ids = [1, 25_000, 45_000, 79_999]
    users = ", ".join(str(needle(one)) for one in ids)
    skips = compare(spark, f"SELECT id FROM {NEEDLES} WHERE user IN ({users})")
    assert read_row_groups(skips) == 4
    # the plan is used for the size: a join broadcasts the needle
    joined = spark.sql(
        f"SELECT a.id FROM {NEEDLES} a JOIN {NEEDLES} b ON a.id = b.id WHERE b.user = {needle(3)}"
    )
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "2MB"}):
        assert "BroadcastHashJoin" in joined._jdf.queryExecution().sparkPlan().toString()


def check_scans_of_equal_filters(spark):
    """Iceberg's scans are equal if their pushed filters are, whatever their tasks."""
    needles_table(spark)
    one, other = (f"text LIKE '%{text}'" for text in ("#44444", "#7777#"))
    plain = f"SELECT max(id) FROM {NEEDLES} WHERE"
    queries = [
        f"SELECT (SELECT max(id) FROM {NEEDLES} WHERE {one}), (SELECT min(id) FROM {NEEDLES} WHERE {other})",
        f"SELECT * FROM ({plain} {one}) UNION ALL ({plain} {other})",
        f"WITH c AS (SELECT * FROM {NEEDLES} WHERE {other}) SELECT x.id FROM c x JOIN c y ON x.id = y.id",
        f"SELECT a.id FROM {NEEDLES} a JOIN {NEEDLES} b ON a.id = b.id WHERE a.{one} AND b.{other}",
        f"SELECT id FROM {NEEDLES} WHERE id IN (SELECT id FROM {NEEDLES} WHERE {one}) AND {other}",
        f"SELECT count(*) FROM {NEEDLES} WHERE id > (SELECT max(id) - 10 FROM {NEEDLES} WHERE {one})",
        f"SELECT id FROM {NEEDLES} WHERE {other} UNION SELECT count(*) FROM {NEEDLES}",
        f"SELECT count(*) FROM {NEEDLES} GROUP BY id % 3 UNION ALL {plain} {other}",
    ]
    assert sum(saved_row_groups(compare(spark, query)) for query in queries) > 28
    for condition in (one, other):
        frame = spark.table(NEEDLES).where(condition)
        frame.cache()
        compare(spark, lambda frame=frame: frame.where("id % 2 = 1"))
        compare(spark, lambda: spark.table(NEEDLES).where(other))
        frame.unpersist(True)


def check_partitions(spark):
    """Partition columns, their pruning at run time, and a join on them."""
    create(spark, "ice.db.parts", "id bigint, day int, user int, text string", **{"format-version": 2})
    spark.sql("ALTER TABLE ice.db.parts ADD PARTITION FIELD day")
    needles_table(spark)
    spark.table(NEEDLES).selectExpr("id", "cast(id / 20000 AS int) AS day", "user", "text").sort(
        "day"
    ).coalesce(1).writeTo("ice.db.parts").append()
    attach(spark, "ice.db.parts", [ia.RowMap("user"), ia.Distinct("day")])
    spark.table(NEEDLES).where(f"user = {needle(9)}").createOrReplaceTempView("one")
    users = f"{needle(25_000)}, {needle(26_000)}, {needle(45_000)}"
    queries = [
        f"SELECT * FROM ice.db.parts WHERE user = {needle(30_000)} AND day = 1",
        f"SELECT * FROM ice.db.parts WHERE user = {needle(30_000)} AND day = 2",
        f"SELECT * FROM ice.db.parts WHERE user = {needle(30_000)} OR day = 7",
        f"SELECT * FROM ice.db.parts p JOIN one ON p.day = one.id - 8 WHERE p.user IN ({users})",
        f"SELECT _file IS NULL, _pos, _spec_id, id FROM ice.db.parts WHERE user = {needle(30_000)}",
        "SELECT count(*) FROM ice.db.parts WHERE _pos < 10 AND user < 50000",
        f"SELECT count(*) FROM ice.db.parts WHERE _file LIKE '%parquet' AND user = {needle(30_000)}",
    ]
    assert sum(saved_row_groups(compare(spark, query)) for query in queries) > 20
    grouping = "spark.sql.iceberg.planning.preserve-data-grouping"
    spark.conf.set(grouping, "true")
    for query in queries:
        compare(spark, query)
    spark.conf.unset(grouping)


def check_history(spark):
    """Time travel, tags, branches, and the tables of metadata."""
    table = needles_table(spark, "ice.db.history")
    first = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect()[0][0]
    spark.sql(f"ALTER TABLE {table} CREATE TAG before")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH other")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN user TO person")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN user int")
    spark.sql(f"INSERT INTO {table}.branch_other SELECT -1, {needle(3)}, 'x', 5")
    spark.sql(f"DELETE FROM {table} WHERE person = {needle(5)}")
    queries = [
        *(f"SELECT * FROM {table} VERSION AS OF {first} WHERE user = {needle(one)}" for one in (3, 5)),
        f"SELECT * FROM {table} VERSION AS OF 'before' WHERE user = {needle(5)}",
        *(f"SELECT * FROM {table}.branch_other WHERE person = {needle(one)}" for one in (3, 5)),
        *(f"SELECT * FROM {table} WHERE person = {needle(one)}" for one in (3, 5)),
        f"SELECT * FROM {table} WHERE user IS NULL AND person = {needle(7)}",
    ]
    for query in queries:
        assert saved_row_groups(compare(spark, query)) >= 20, query
    assert len(run(spark, queries[0])) == 1
    # old files have no column of the new field
    assert saved_files(compare(spark, f"SELECT * FROM {table} WHERE user = {needle(3)}")) == 4
    for name, condition in (
        ("files", "file_size_in_bytes > 5"),
        ("entries", "status < 2"),
        ("snapshots", "operation = 'append'"),
        ("history", "is_current_ancestor"),
        ("all_data_files", "record_count > 1"),
        ("position_deletes", "pos > 1"),
        ("partitions", "record_count > 1"),
        ("refs", "name = 'before'"),
    ):
        assert not compare(spark, f"SELECT * FROM {table}.{name} WHERE {condition}"), name


def check_promises(spark, predicates):
    """Commands change the same rows as in plain Spark, and queries have the rows of plain Spark and skip."""
    check_writes(spark, ["merge-on-read"])
    check_maps(spark)
    check_random(spark, evolved_table(spark, 3), predicates)


def check_writes(spark, modes=("merge-on-read", "copy-on-write")):
    """DELETE, UPDATE, MERGE and INSERT change the same rows, and their plans are not changed."""
    found = {}
    merged = "WHEN MATCHED AND s.id = 9 THEN DELETE WHEN MATCHED THEN UPDATE SET text = 'merged'"
    for mode in modes:
        for switch in ("false", "true"):
            properties = {f"write.{what}.mode": mode for what in ("delete", "update", "merge")}
            table = needles_table(spark, "ice.db.written", **properties)
            with settings(spark, {SWITCH: "true"}):
                run(spark, f"SELECT * FROM {table} WHERE user = {needle(1)}")
            before = ias.last_skips(spark)
            matched = f"(SELECT * FROM {table} WHERE user IN ({needle(9)}, {needle(70_000)}))"
            with settings(spark, {SWITCH: switch}):
                for change in (
                    f"DELETE FROM {table} WHERE user = {needle(3)}",
                    f"DELETE FROM {table} WHERE id IN (SELECT id + 1 FROM {table} WHERE user = {needle(30)})",
                    f"UPDATE {table} SET text = 'changed' WHERE user = {needle(40_000)}",
                    f"MERGE INTO {table} t USING {matched} s ON t.id = s.id AND t.user = s.user {merged}",
                    f"INSERT INTO {table} SELECT -id, user, text FROM {table} WHERE user = {needle(60_000)}",
                ):
                    spark.sql(change)
            assert ias.last_skips(spark) == before
            for one in (3, 31, 9, 70_000, 60_000, 40_000) if switch == "true" else ():
                compare(spark, f"SELECT * FROM {table} WHERE user = {needle(one)}")
            found[mode, switch] = run(spark, f"SELECT * FROM {table} WHERE id < 100 OR id % 10000 = 0")
    assert len(set(map(tuple, found.values()))) == 1
    assert not [row for row in found["merge-on-read", "true"] if row.startswith(("Row(id=3,", "Row(id=31,"))]


def check_other_formats(spark):
    """Files of other formats in the same table, and files without field ids."""
    table = needles_table(spark, "ice.db.mixed")
    for name, ids in (("orc", (100_000, 100_500)), ("avro", (200_000, 200_500))):
        spark.range(*ids).selectExpr(
            "id", "cast(id * 7919 % 100003 AS int) AS user", "cast(id AS string) AS text"
        ).writeTo(table).option("write-format", name).append()
    for one in (3, 100_001, 200_001):
        skips = compare(spark, f"SELECT * FROM {table} WHERE user = {needle(one)}")
        assert saved_row_groups(skips) >= 25
    folder = Path(tempfile.mkdtemp(dir=os.getcwd()))
    columns = {"id": range(10), "user": range(10, 20), "text": ["x" * 200_000] * 10}
    pq.write_table(pa.table(columns), folder / "a.parquet", compression="none", use_dictionary=False)
    assert os.path.getsize(folder / "a.parquet") > LARGE
    ia.attach(folder / "a.parquet", [ia.RowMap("user")])
    age(folder / "a.parquet")
    create(spark, "ice.db.added", "id bigint, user bigint, text string")
    spark.sql(f"CALL ice.system.add_files(table => 'db.added', source_table => '`parquet`.`{folder}`')")
    assert "schema.name-mapping.default" in str(spark.sql("SHOW TBLPROPERTIES ice.db.added").collect())
    assert len(run(spark, "SELECT * FROM ice.db.added WHERE user = 15")) == 1
    assert saved_files(compare(spark, "SELECT * FROM ice.db.added WHERE user = 30 AND id >= 0")) == 1
    spark.sql("ALTER TABLE ice.db.added RENAME COLUMN user TO person")
    spark.sql("ALTER TABLE ice.db.added ADD COLUMN user bigint")
    assert saved_files(compare(spark, "SELECT * FROM ice.db.added WHERE person = 30 AND id >= 0")) == 1
    compare(spark, "SELECT * FROM ice.db.added WHERE user IS NULL AND person = 15")
    # without a mapping, Iceberg counts columns
    spark.sql("ALTER TABLE ice.db.added UNSET TBLPROPERTIES ('schema.name-mapping.default')")
    compare(spark, "SELECT * FROM ice.db.added WHERE person = 15")


def check_changed_files(spark):
    """Indexes are attached and detached between planning and running; a file gets another layout."""
    table = needles_table(spark, "ice.db.changed")
    frame = spark.table(table).where(f"user IN ({needle(3)}, {needle(30_000)})")
    expected = run(spark, lambda: frame)
    assert read_row_groups(ias.last_skips(spark)) == 2
    frames = {"planned": frame.select("*")}
    frames["planned"]._jdf.queryExecution().executedPlan()
    for name, change in (
        ("detached", ia.detach),
        ("indexed", lambda path: ia.attach(path, [ia.RowMap("user"), ia.Bloom("id")])),
    ):
        for path in files_of(spark, table):
            change(path)
            age(path)
        frames[name] = frame.select("*")
        for one in frames.values():
            assert run(spark, lambda one=one: one) == expected
        # files of a snapshot never get other rows, so plans outlive the indexes that they were made with
        assert read_row_groups(ias.last_skips(spark)) == 2
    # another layout of the same rows: the offsets in the manifest are those of the first one
    first = files_of(spark, table)[0]
    rows = pq.read_table(first)
    Path(first).parent.joinpath(f".{Path(first).name}.crc").unlink(missing_ok=True)
    pq.write_table(rows, first, row_group_size=1500, compression="none", use_dictionary=False)
    ia.attach(first, [ia.RowMap("user")])
    age(first)
    assert run(spark, lambda: frame.select("*")) == expected


def check_faults(spark):
    """A planner that fails, answers wrongly, or is too slow; and an unknown version of Iceberg."""
    table = needles_table(spark, "ice.db.faults")
    query = f"SELECT * FROM {table} WHERE user = {needle(3)}"
    with settings(spark, {SWITCH: "false"}):
        expected = run(spark, query)

    def fails(request):
        raise RuntimeError("no")

    def slow(request):
        time.sleep(3)
        return "{}"

    wrong = [
        {},
        {"files": 3, "kept": []},
        {"files": 4, "kept": [[9, 1]]},
        {"files": 4, "kept": [["x"]]},
        {"files": 4, "kept": [[]]},
    ]
    planners = [
        fails,
        slow,
        lambda _: "[",
        *(lambda _, answer=answer: json.dumps(answer) for answer in wrong),
    ]
    for planner in planners:
        ias.enable(spark, timeout_seconds=0.5, planner=planner)
        assert run(spark, query) == expected
        (skip,) = ias.last_skips(spark)
        assert skip.reason.startswith("failed")

    def offsets(request):
        # row groups that Iceberg cannot find: whole files are read
        return json.dumps({"files": 4, "kept": [[file, 1, 5, 77] for file in range(4)], "report": {}})

    ias.enable(spark, timeout_seconds=60, planner=offsets)
    frame = spark.sql(query)
    assert sorted(map(str, frame.collect())) == expected
    assert sum(output_rows(frame)) == NEEDLE_ROWS
    enable(spark)
    assert read_row_groups(compare(spark, query)) == 1
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    version = loader.loadClass("org.apache.iceberg.IcebergBuild").getDeclaredField("version")
    version.setAccessible(True)
    known = version.get(None)
    version.set(None, "9.9.0")
    try:
        assert run(spark, query) == expected
        (skip,) = ias.last_skips(spark)
        assert "9.9.0" in skip.reason
    finally:
        version.set(None, known)
    assert read_row_groups(compare(spark, query)) == 1


def check_streams(spark):
    """A stream from a table is not planned; a table that is joined with a stream is."""
    table = needles_table(spark, "ice.db.streamed")
    found = {}
    for switch in ("false", "true"):
        with settings(spark, {SWITCH: switch}):
            rows = spark.readStream.table(table)
            lookup = spark.table(table).where(f"user IN ({needle(3)}, {needle(30_000)})").select("id")
            joined = rows.join(lookup, "id").where("id % 2 = 1 OR id = 30000")
            query = joined.writeStream.format("memory").queryName(f"s{switch}").trigger(availableNow=True)
            query.option("checkpointLocation", tempfile.mkdtemp(dir=os.getcwd())).start().awaitTermination()
            found[switch] = run(spark, f"SELECT id, user FROM s{switch}")
    assert len(found["true"]) == 2
    assert found["true"] == found["false"]


# --- jobs ------------------------------------------------------------------------------------------------


def check_jobs(spark):
    """The jobs process the data files of the current snapshot, but do not attach indexes to small ones."""
    table = "ice.db.jobs"
    create(spark, table, "id bigint, user int, text string")
    rows = spark.range(0, 200_000, 1, 2).selectExpr(
        "id",
        "cast(id * 7919 % 100003 AS int) AS user",
        "concat(sha2(cast(id AS string), 512), id) AS text",
    )
    rows.writeTo(table).append()
    large = files_of(spark, table)
    rows.where("id >= 199000").withColumn("id", -rows.id).coalesce(1).writeTo(table).append()
    (small,) = set(files_of(spark, table)) - set(large)
    assert min(map(os.path.getsize, large)) > 8 << 20 > os.path.getsize(small)
    before = {path: Path(path).read_bytes() for path in (*large, small)}
    with settings(spark, {SWITCH: "false"}):
        expected = run(spark, f"SELECT count(*), sum(id), max(text) FROM {table}")
    report = ias.index(spark, table, [ia.RowMap("user")], lake_index="beside", progress=False)
    outcomes = {outcome.path: outcome for outcome in report.per_file}
    assert set(outcomes) == {*large, small}
    assert outcomes[small].code == "small-iceberg-file"
    assert not [outcomes[path].error for path in large if outcomes[path].error]
    assert Path(small).read_bytes() == before[small]
    assert report.lake_index.files_added == 3
    for path in (*large, small):
        age(path)
    # Iceberg reads the longer files with the lengths of its manifest
    with settings(spark, {SWITCH: "false"}):
        assert run(spark, f"SELECT count(*), sum(id), max(text) FROM {table}") == expected
    skips = compare(spark, f"SELECT * FROM {table} WHERE user = {needle(3)} AND id >= 0")
    assert read_row_groups(skips) <= 2 < saved_row_groups(skips)
    assert ias.verify(spark, table, quick=True, progress=False).ok
    assert {len(row.indexes) for row in ias.describe(spark, table, progress=False).collect()} == {0, 1}
    # again, after rows were deleted and files compacted: the new file has no indexes
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    assert not run(spark, f"SELECT * FROM {table} WHERE user = {needle(3)} AND id BETWEEN 0 AND 9")
    again = ias.index(spark, table, [ia.RowMap("user")], progress=False)
    assert (again.files_indexed, again.files_unchanged, again.files_failed) == (0, 2, 1)
    ias.detach(spark, table, progress=False)
    assert {path: Path(path).read_bytes() for path in before} == before
    ias.index(spark, table, [ia.RowMap("user")], progress=False)
    spark.sql(
        "CALL ice.system.rewrite_data_files(table => 'db.jobs', options => map('rewrite-all', 'true', "
        "'delete-file-threshold', '1'))"
    )
    new = set(files_of(spark, table)) - set(before)
    done = ias.index(spark, table, [ia.RowMap("user")], progress=False)
    assert {outcome.path for outcome in done.per_file} == new
    assert done.files_indexed == len(new)
    for path in new:
        age(path)
    skips = compare(spark, f"SELECT * FROM {table} WHERE user = {needle(30_000)}")
    assert saved_row_groups(skips) > 2
    # files of the old snapshots are removed, those of the current one are not
    spark.sql(
        "CALL ice.system.expire_snapshots(table => 'db.jobs', older_than => TIMESTAMP '2099-01-01 00:00:00', "
        "retain_last => 1)"
    )
    assert not [path for path in before if os.path.exists(path)]
    assert len(run(spark, f"SELECT * FROM {table} WHERE user = {needle(30_000)}")) == 2
    # these would count deleted rows
    for job, what in ((ias.approx_distinct, "user"), (ias.aggregate, "count(*)")):
        with pytest.raises(ia.UnsupportedFeatureError) as caught:
            job(spark, table, what)
        assert caught.value.reason == "not-a-parquet-table"
    # tables of metadata, and an older snapshot, which has files but cannot be changed
    snapshot = spark.sql(f"SELECT snapshot_id FROM {table}.history").collect()[-1][0]
    for name in ("files", "snapshots", "entries", "position_deletes", f"snapshot_id_{snapshot}"):
        for refused in (
            lambda name: ias.index(spark, name, [ia.RowMap("user")], progress=False),
            lambda name: ias.describe(spark, name, progress=False),
            lambda name: ias.delete(spark, name, "1 = 1", progress=False),
        ):
            with pytest.raises(ia.UnsupportedFeatureError) as caught:
                refused(f"{table}.{name}")
            assert caught.value.reason == "not-a-table-of-files"


def check_views(spark):
    """The error for a view says that it is not a table."""
    catalog = "spark.sql.catalog.views"
    spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{catalog}.catalog-impl", "org.apache.iceberg.inmemory.InMemoryCatalog")
    spark.sql("CREATE NAMESPACE views.db")
    spark.sql("CREATE VIEW views.db.seen AS SELECT 1 AS id")
    for job in (
        ias.read,
        lambda *source: ias.index(*source, [ia.RowMap("id")], progress=False),
        lambda *source: ias.describe(*source, progress=False),
        lambda *source: ias.delete(*source, "id = 1", progress=False),
    ):
        with pytest.raises(ia.UnsupportedFeatureError) as caught:
            job(spark, "views.db.seen")
        assert (caught.value.reason, caught.value.path) == ("not-a-table-of-files", "views.db.seen")
    with pytest.raises(FileNotFoundError):
        ias.describe(spark, "views.db.missing", progress=False)


def check_staged_writes(spark):
    """Jobs process the branch that queries of the session read."""
    table = "ice.db.audited"

    def count_files():
        return ias.describe(spark, table, progress=False).count()

    create(spark, table, "id bigint", **{"write.wap.enabled": "true"})
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    with settings(spark, {"spark.wap.branch": "audit-1"}):
        assert count_files() == 1  # Spark creates the branch when it first writes to it
        spark.sql(f"INSERT INTO {table} VALUES (2)")
        assert count_files() == 2
        assert ias.delete(spark, table, "id = 1", progress=False).rows_deleted == 1
        assert [row.id for row in spark.table(table).collect()] == [2]
    assert [row.id for row in spark.table(table).collect()] == [1]
    with settings(spark, {"spark.wap.id": "audit"}):
        with pytest.raises(ia.UnsupportedFeatureError) as caught:
            ias.delete(spark, table, "id = 1", progress=False)
        assert caught.value.reason == "staged-writes"
        assert ias.delete(spark, table, "id = 1", dry_run=True, progress=False).rows_deleted == 1
    assert ias.delete(spark, table, "id = 1", progress=False).rows_deleted == 1
    assert not spark.table(table).collect()
    create(spark, table, "id bigint")  # a table without the property ignores both settings
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH `audit-1`")
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    with settings(spark, {"spark.wap.branch": "audit-1", "spark.wap.id": "audit"}):
        assert count_files() == 2
        assert ias.delete(spark, table, "id = 1", progress=False).rows_deleted == 1


# --- equality deletes ------------------------------------------------------------------------------------


def delete_by_equality(spark, table, users):
    """Delete rows by their values, as Flink does; Spark has no command for it."""
    iceberg, lang = spark._jvm.org.apache.iceberg, spark._jvm.java.lang
    loaded = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
    ids = lang.reflect.Array.newInstance(lang.Integer.TYPE, 1)
    ids[0] = loaded.schema().findField("user").fieldId()
    names = lang.reflect.Array.newInstance(lang.Class.forName("java.lang.String"), 1)
    names[0] = "user"
    schema = loaded.schema().select(names)
    file = loaded.io().newOutputFile(f"{loaded.location()}/data/equality.parquet")
    builder = iceberg.data.GenericFileWriterFactory.Builder(loaded)
    builder.deleteFileFormat(iceberg.FileFormat.PARQUET).equalityFieldIds(ids).equalityDeleteRowSchema(schema)
    output = iceberg.encryption.EncryptionUtil.plainAsEncryptedOutput(file)
    writer = builder.build().newEqualityDeleteWriter(output, loaded.spec(), None)
    for user in users:
        record = iceberg.data.GenericRecord.create(schema)
        record.setField("user", user)
        writer.write(record)
    writer.close()
    loaded.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
    spark.sql(f"REFRESH TABLE {table}")


def check_equality_deletes(spark):
    """Iceberg applies equality deletes to the row groups that are left."""
    table = needles_table(spark, "ice.db.equality")
    delete_by_equality(spark, table, [needle(3), needle(30_000)])
    for one in (3, 4, 30_000):
        query = f"SELECT * FROM {table} WHERE user = {needle(one)}"
        assert read_row_groups(compare(spark, query)) == 1
        assert len(run(spark, query)) == (one == 4)


def check_deleting(spark):
    """`ias.delete` runs the table's DELETE; null stays, and nothing matches afterwards."""
    table = "ice.db.deleting"
    create(spark, table, "id bigint, user bigint")
    rows = spark.range(0, 400, 1, 4).selectExpr("id", "IF(id % 5 = 0, NULL, id % 7) AS user")
    rows.writeTo(table).append()
    report = ias.delete(spark, table, "user = 3", progress=False)
    assert (report.format, report.rows_deleted, report.lake_indexes) == ("iceberg", 45, ())
    assert spark.table(table).where("user IS NULL").count() == 80
    assert spark.table(table).count() == 355
    assert ias.delete(spark, table, "user = 3", progress=False).rows_deleted == 0
    check_refused(spark, table)
    assert delete_at_once(spark, table, ["user = 0", "user = 1", "user = 2"]) == [46, 46, 46]
    assert spark.table(table).count() == 217
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH other")
    assert ias.delete(spark, f"{table}.branch_other", "user = 4", progress=False).rows_deleted == 46
    assert (spark.table(table).count(), spark.table(f"{table}.branch_other").count()) == (217, 171)
    # commits of another session, which the catalog of this one does not see
    other = spark.newSession()
    for name in (table, f"{table}.branch_other"):
        assert spark.table(name).where("user = 9").count() == 0
        other.sql(f"INSERT INTO {name} VALUES (900, 9), (901, 9)")
        assert ias.delete(spark, name, "user = 9", dry_run=True, progress=False).rows_deleted == 2
        other.sql(f"INSERT INTO {name} VALUES (902, 9)")
        assert ias.delete(spark, name, "user = 9", progress=False).rows_deleted == 3
        other.catalog.refreshTable(table)
        assert other.table(name).where("user = 9").count() == 0
    spark.sql("USE ice.db")  # then the name of a table has one part
    try:
        assert ias.delete(spark, "deleting", "user = 5", progress=False).rows_deleted == 45
        assert ias.describe(spark, "`deleting`", progress=False).count() == len(files_of(spark, table))
    finally:
        spark.sql("USE spark_catalog.default")


def check_deleting_nan(spark):
    """NaN is greater than all numbers, but Iceberg leaves out files by bounds without it."""
    create(spark, "ice.db.ids", "id int")
    spark.sql("INSERT INTO ice.db.ids VALUES (2), (4)")
    bounds = {"write.metadata.metrics.default": "full"}
    for where, left in (
        ("d > 5", [1, 4]),
        ("NOT st.`F` < 5 -- or NaN", [1, 4]),
        ("d >= 5 AND id IN (SELECT id FROM ice.db.ids)", [1, 3, 4]),
    ):
        for mode in ("merge-on-read", "copy-on-write"):
            properties = {**bounds, "write.delete.mode": mode}
            create(spark, "ice.db.nan", "id int, d double, st struct<f: float>", **properties)
            rows = ", ".join(
                f"({id}, double('{value}'), named_struct('f', float('{value}')))"
                for id, value in ((1, 1), (2, "NaN"), (3, "NaN"), (4, 2))
            )
            spark.sql(f"INSERT INTO ice.db.nan SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")
            report = ias.delete(spark, "ice.db.nan", where, progress=False)
            assert report.rows_deleted == 4 - len(left)
            assert sorted(row.id for row in spark.table("ice.db.nan").collect()) == left


def check_refused(spark, table):
    """Predicates that mean other rows once some are deleted change nothing, also on Spark Connect."""
    before = spark.table(table).count()
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW own_rows AS SELECT id FROM {table} WHERE id > 5")
    for where, reason in (
        (f"id = (SELECT max(id) FROM {table})", "own-rows-in-predicate"),
        ("id IN (SELECT max(id) FROM own_rows GROUP BY id % 2)", "own-rows-in-predicate"),
        ("_pos = 3", "metadata-in-predicate"),
        ("rand() < 0.5", "nondeterministic-predicate"),
    ):
        with pytest.raises(ia.UnsupportedFeatureError) as caught:
            ias.delete(spark, table, where, progress=False)
        assert caught.value.reason == reason
    assert spark.table(table).count() == before


def check_connect(spark):
    """A client of Spark Connect deletes rows, also by the rows of other tables."""
    rows = spark.range(0, 40, 1, 2).selectExpr("id", "id % 7 AS user")
    for table in ("ice.db.remote", "ice.db.others"):
        rows.writeTo(table).using("iceberg").create()
    check_refused(spark, "ice.db.remote")
    others = "SELECT max(id) FROM ice.db.others"
    where = f"id IN ({others}) OR id + 1 = ({others})"
    assert ias.delete(spark, "ice.db.remote", where, progress=False).rows_deleted == 2
    assert spark.table("ice.db.remote").count() == 38


def check_procedures(spark):
    """The procedures take a table, whose property names the indexes of new files; small ones are refused."""
    table = needles_table(spark, "ice.db.called", **{"intarsia.indexes": "bloom(user)"})
    files = files_of(spark, table)
    shown = spark.sql(f"CALL intarsia.show_indexes('{table}')").collect()
    found = {(row["column"], row["files"]) for row in shown if "(" in row["index"]}  # embedded indexes
    assert found == {("user", len(files)), ("text", len(files))}
    assert not spark.sql(f"CALL intarsia.verify(table => '{table}', quick => true)").collect()
    (built,) = spark.sql(f"CALL intarsia.lake_index('{table}', 'beside')").collect()
    assert built["files_added"] == len(files)
    assert read_row_groups(compare(spark, f"SELECT * FROM {table} WHERE user = {needle(3)} AND id >= 0")) == 1
    (skip,) = spark.sql("CALL intarsia.skips()").collect()
    assert skip["files_read"] == 1
    create(spark, "ice.alone", "user int", **{"intarsia.indexes": "bloom(user)"})  # in no namespace
    spark.sql("INSERT INTO ice.alone VALUES (1)")
    (alone,) = spark.sql("CALL intarsia.index('ice.alone')").collect()
    assert "8 MiB" in alone["error"]
    indexed = spark.sql(f"CALL intarsia.index('{table}')").collect()
    assert {(row["path"], "8 MiB" in row["error"]) for row in indexed} == {(path, True) for path in files}
    assert {row["detached"] for row in spark.sql(f"CALL intarsia.detach('{table}')").collect()} == {True}
    spark.sql(f"CALL intarsia.delete('{table}', 'user = {needle(3)}')")
    assert spark.table(table).count() == NEEDLE_ROWS - 1
