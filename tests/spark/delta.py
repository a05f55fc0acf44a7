"""Delta tables in an enabled session. The checks run in a process with a Spark that Delta supports."""

import functools
import json
import os
import random
import shutil
import signal
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.spark.registering import DeltaLog
from tests.lake.index.lakes import age
from tests.spark import lakes
from tests.spark.comparing import rows_with_matches, settings
from tests.spark.killing import Job, changes_of, descendants, kills_of
from tests.spark.mapping import assert_files, assert_pages, check_map, matching_rows
from tests.spark.random_queries import check_plans, check_predicates
from tests.spark.skipping import SWITCH, compare_runs, run, scans

#: The settings of a session, apart from ``spark.jars`` and ``spark.sql.extensions``.
SESSION = {
    SWITCH: "true",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.hadoop.parquet.block.row.count.limit": "30",
    "spark.hadoop.parquet.page.row.count.limit": "6",
    "spark.log.level": "ERROR",
    "spark.master": "local[2]",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "1000",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",  # of tasks that VACUUM starts
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"

ROWS = 60

#: What identifies a row, where asking for its number would change how Delta finds deleted rows.
ROW = ("_metadata.file_name AS f", "xxhash64(*) AS h")

INDEXES = (
    *((ia.Distinct, name) for name in ("i", "cat", "dt")),
    *((ia.Bloom, name) for name in ("l", "s", "st.x")),
    *((ia.ZoneMap, name) for name in ("d", "f", "wide", "ntz")),
    (ia.Ngram, "s"),
    (ia.RowMap, "u"),
)


@functools.cache
def source():
    """Return a lake of plain Parquet files."""
    return lakes.write_with_pyarrow(Path(tempfile.mkdtemp(prefix="lake", dir=os.getcwd())), rows=ROWS)


def write(spark, folder, *columns, partition_by=(), **properties):
    """Write the lake as a Delta table, with a file for each file, or for each partition of it.

    The log has no bounds, by which Delta itself would leave out most of the files.
    """
    names = [field.name for field in lakes.SCHEMA if field.name != "much"]
    with settings(spark, {"spark.sql.files.openCostInBytes": str(1 << 30)}):  # a task for each file
        frame = spark.read.parquet(source()).selectExpr(*(columns or names))
        frame = frame.sortWithinPartitions(frame.i if "i" in frame.columns else frame.columns[0])
        properties = {"dataSkippingNumIndexedCols": "0", **properties}
        writer = frame.write.format("delta").partitionBy(*partition_by)
        writer.options(**{f"delta.{key}": value for key, value in properties.items()}).save(
            os.path.abspath(folder)
        )
    return named(folder)


def named(folder):
    """Return the name of a table in SQL."""
    return f"delta.`{os.path.abspath(folder)}`"


def data_files(folder):
    return sorted(path for path in Path(folder).rglob("*.parquet") if "_delta_log" not in path.parts)


def attach(folder, names=None):
    """Attach indexes to the files of a table, as if some time ago; ``names`` are those in its files."""
    chosen = [(kind, (names or {}).get(name, name)) for kind, name in INDEXES]
    for path in data_files(folder):
        columns = {leaf.path for leaf in pq.ParquetFile(path).schema}
        ia.attach(path, [kind(name) for kind, name in chosen if name in columns])
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        age(path)


def detach(folder):
    for path in data_files(folder):
        ia.detach(path)
        age(path)


def compare(spark, query):
    """Compare the rows of a query with those of plain Spark; return its skips, and the files saved."""
    skips, plain, frame = compare_runs(spark, query)
    return skips, sum(files for files, _ in scans(plain)) - sum(files for files, _ in scans(frame))


def check_random(spark, table, predicates, plans=0):
    """Compare random predicates and random plans with plain Spark."""
    whole = spark.table(table)
    check_predicates(whole, random.Random(f"predicates {predicates}"), predicates, row=ROW, most=0.95)
    if plans:
        check_plans(whole, random.Random("plans"), plans, lambda query: compare(spark, query)[1], least=0)


# --- checks ----------------------------------------------------------------------------------------------


def check_plain(spark, predicates, plans):
    """Files, row groups, pages and rows of a table without deleted rows are skipped."""
    table = write(spark, "plain")
    attach("plain")
    skips, saved = compare(spark, f"SELECT * FROM {table} WHERE u = 10400")
    report = skips[0].report
    assert saved == 7
    assert report["files"] == {**report["files"], "total": 8, "read": 1}
    assert report["row_groups"]["read"] < report["row_groups"]["total"]
    assert report["pages"]["read"] < report["pages"]["total"]
    assert 0 < report["rows"]["candidates"] < ROWS / 2
    frame = spark.table(table).where("u = 10400")
    assert len(frame.collect()) == scans(frame)[0][1]  # only these rows come out of the scan
    check_random(spark, table, predicates, plans)


def check_deleted(spark, predicates, plans):
    """Deleted rows never come back, however the rows of their files are selected."""
    table = write(spark, "deleted", partition_by=["bo"], enableDeletionVectors="true")
    attach("deleted")
    spark.sql(f"DELETE FROM {table} WHERE i % 3000 = 1000 OR s LIKE '%x' OR u BETWEEN 16000 AND 16800")
    spark.sql(f"UPDATE {table} SET s = 'k10' WHERE i = 43000")
    assert not spark.sql(f"SELECT * FROM {table} WHERE i = 13000").collect()
    skips, saved = compare(spark, f"SELECT * FROM {table} WHERE u = 18400")
    assert saved > 0
    assert skips[0].report["rows"]["candidates"] < ROWS
    # Delta adds the deleted rows of a subquery to its plan together with those of the scan that it belongs to
    below = f"SELECT i FROM {table} WHERE i >= (SELECT max(i) - 6000 FROM {table} WHERE u = 18400)"
    skips, saved = compare(spark, below)
    assert saved > 0
    assert spark.sql(below).collect()
    frame = spark.table(table).where("u = 18400")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "__delta_internal_is_row_deleted" in plan
    assert "Intarsia" in plan
    check_random(spark, table, predicates, plans)
    names = "spark.databricks.delta.deletionVectors.useMetadataRowIndex", "spark.sql.adaptive.enabled"
    with settings(spark, dict.fromkeys(names, "false")):
        _, saved = compare(spark, f"SELECT * FROM {table} WHERE u = 18400")
        assert saved > 0
        frame = spark.table(table).where("u = 18400")
        assert frame.collect()
        assert scans(frame)[0][1] == ROWS  # the file is read as a whole
        check_random(spark, table, predicates // 3)


MERGE = """
    MERGE INTO {} t USING (SELECT DISTINCT i FROM {} WHERE u = 32000) s ON t.i = s.i
    WHEN MATCHED THEN UPDATE SET s = 'merged'
"""


#: The columns of the lake, some of which get their names, types and ids later.
BEFORE = {"s": "text", "u": "v", "b": "b", "bo": "flag", "i": "i", "by": "by", "f": "f"}

AFTER = (
    "RENAME COLUMN text TO s",
    "RENAME COLUMN v TO u",
    "RENAME COLUMN flag TO bo",
    "RENAME COLUMN st.z TO x",
    "ALTER COLUMN i TYPE bigint",
    "ALTER COLUMN by TYPE int",
    "ALTER COLUMN f TYPE double",
    "DROP COLUMN b",  # the new one has another id: rows of old files are null
    "ADD COLUMN b binary",
    "RENAME COLUMN l TO old",
    "ADD COLUMN l bigint",
)


def check_maps(spark, table, where, others=()):
    """The picture of a plan has the files and pages with the rows that plain Spark finds."""
    found = check_map(spark, f"SELECT u, s FROM {table} WHERE {where}")
    truth = matching_rows(spark, spark.table(table).where(where))
    assert truth
    assert_files(found, truth)
    assert_pages(found, truth)
    lanes = {lane.name for file in found.files for lane in file.lanes if lane.role == "result"}
    assert lanes <= {"u", "s", *others}, lanes


def check_mapped(spark, mode, predicates, plans):
    """Columns whose names, types and ids have changed have the values of plain Spark."""
    folder = f"mapped-{mode}"
    properties = {
        "columnMapping.mode": mode,
        "enableDeletionVectors": "true",
        "enableTypeWidening": "true",
        "enableRowTracking": "true",
    }
    names = [field.name for field in lakes.SCHEMA if field.name not in ("much", "st")]
    columns = [f"{name} AS {BEFORE.get(name, name)}" for name in names]
    struct = "named_struct('z', st.x, 'Y', st.Y) AS st"
    table = write(spark, folder, *columns, struct, partition_by=["flag"], **properties)
    _attach_mapped(folder)
    for change in AFTER:
        spark.sql(f"ALTER TABLE {table} {change}")
    changed = {"old": "l + 1", "i": "bigint(i)", "by": "int(`by`)", "f": "double(f)"}
    columns = [f"{changed.get(name, f'`{name}`')} AS `{name}`" for name in spark.table(table).columns]
    lake = spark.read.parquet(source()).selectExpr(*columns).coalesce(1)
    lake.write.format("delta").mode("append").save(os.path.abspath(folder))
    spark.sql(f"DELETE FROM {table} WHERE i % 3000 = 1000")
    for query, least in (
        ("u = 18400", 1),
        ("s LIKE 'k23%'", 1),
        ("st.x = 23", 1),
        ("l = 9007199254740995", 1),
        ("b = X'17ff'", 1),
        ("old = 9007199254740996", 0),
        ("bo AND i = 23000", 1),
    ):
        _, saved = compare(spark, f"SELECT *, _metadata.row_id FROM {table} WHERE {query}")
        assert saved >= least, (query, saved)
    check_maps(
        spark, table, "st.x = 23", others=("st.Y", "bo")
    )  # of a struct and a partition, which Spark reads
    check_random(spark, table, predicates, plans)


def _attach_mapped(folder):
    """Attach indexes to files with the names of the mapping in the first version of a table."""
    log = Path(folder, "_delta_log", f"{0:020}.json").read_text().splitlines()
    schema = next(json.loads(line)["metaData"]["schemaString"] for line in log if "metaData" in line)
    later = {before: after for after, before in BEFORE.items()}
    key = "delta.columnMapping.physicalName"
    found = {}
    for field in json.loads(schema)["fields"]:
        found[later.get(field["name"], field["name"])] = name = field["metadata"][key]
        if field["name"] == "st":
            found["st.x"] = f"{name}.{field['type']['fields'][0]['metadata'][key]}"
    attach(folder, found)


#: Commands that read a table in order to change it.
COMMANDS = (
    "UPDATE {} SET s = 'new', i = i + 1 WHERE u IN (10400, 16800)",
    "DELETE FROM {} WHERE u BETWEEN 24000 AND 25600 OR i % 3000 = 1000",
    MERGE,
    "INSERT INTO {} SELECT * FROM {} WHERE u = 800",
    "OPTIMIZE {}",
    "DELETE FROM {} WHERE s = 'new'",
)


def check_promises(spark, predicates):
    """Commands change the same rows as in plain Spark, and queries afterwards have them and skip."""
    table = check_commands(spark, COMMANDS[:2])
    query = f"SELECT * FROM {table} WHERE u = 18400"
    skips, saved = compare(spark, query)
    assert saved > 0
    assert 0 < skips[0].report["rows"]["candidates"] < ROWS
    assert "__delta_internal_is_row_deleted" in spark.sql(query)._jdf.queryExecution().toString()
    check_maps(spark, table, "u = 18400")
    with settings(spark, {"spark.sql.adaptive.enabled": "false"}):
        check_random(spark, table, predicates)


def check_changes(spark):
    """All commands of an enabled session, and the change data feed of the table that they leave."""
    table = check_commands(spark, COMMANDS)
    changes = "SELECT * EXCEPT (_commit_timestamp) FROM table_changes_by_path('{}', 0)"
    with settings(spark, {SWITCH: "false"}):
        expected, _ = run(spark, changes.format(os.path.abspath("plainly")))
    assert run(spark, changes.format(os.path.abspath("enabled")))[0] == expected
    compare(spark, f"SELECT * FROM {table} WHERE u = 18400")


def check_streams(spark):
    """Streams from a table with deleted rows, and into another one, have the rows of plain Spark."""
    table = write(spark, "streamed", enableDeletionVectors="true")
    attach("streamed")
    spark.sql(f"DELETE FROM {table} WHERE i % 3000 = 1000")
    source = spark.readStream.format("delta").load(os.path.abspath("streamed"))
    rows = source.where("u IN (10400, 16000, 18400)")
    for added in (0, 1):
        for folder, switch in (("into-plain", "false"), ("into-enabled", "true")):
            with settings(spark, {SWITCH: switch}):
                writer = rows.writeStream.format("delta").trigger(availableNow=True)
                writer = writer.option("checkpointLocation", os.path.abspath(f"{folder}-checkpoint"))
                writer.start(os.path.abspath(folder)).awaitTermination()
        with settings(spark, {SWITCH: "false"}):
            expected = Counter(map(str, spark.table(table).where("u IN (10400, 16000, 18400)").collect()))
            assert expected
            assert _contents(spark, "into-plain") == _contents(spark, "into-enabled") == expected, added
        spark.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE u = 18400")


def check_commands(spark, commands):
    """Run commands without and with skipping, on two copies of a table; return the second one."""
    for folder in ("plainly", "enabled"):
        shutil.rmtree(folder, ignore_errors=True)
    write(spark, "plainly", enableDeletionVectors="true", enableChangeDataFeed="true")
    attach("plainly")
    shutil.copytree("plainly", "enabled")
    for path in data_files("enabled"):
        age(path)
    for command in commands:
        with settings(spark, {SWITCH: "false"}):
            spark.sql(command.replace("{}", named("plainly")))
            expected = _contents(spark, "plainly")
        spark.sql(command.replace("{}", named("enabled")))
        assert _contents(spark, "enabled") == expected, command
    return named("enabled")


def _contents(spark, folder, version=None):
    reader = spark.read.format("delta")
    reader = reader if version is None else reader.option("versionAsOf", version)
    return Counter(map(str, reader.load(os.path.abspath(folder)).collect()))


def check_history(spark):
    """Old versions, clones, cached frames and files that have changed give the rows of plain Spark."""
    table = write(spark, "history", enableDeletionVectors="true")
    attach("history")
    query = "SELECT * FROM {} WHERE u = 16800"
    frame = spark.sql(query.format(table))
    rows = sorted(map(str, frame.collect()))
    assert rows
    detach("history")  # the plan of the frame is that of longer files
    again = frame.select("*")
    assert sorted(map(str, frame.collect())) == rows
    assert sorted(map(str, again.collect())) == rows
    attach("history")
    assert sorted(map(str, again.collect())) == rows
    spark.sql(f"DELETE FROM {table} WHERE u = 16800")
    assert not spark.sql(query.format(table)).collect()
    _, saved = compare(spark, query.format(f"{table} VERSION AS OF 0"))
    assert saved > 0
    assert sorted(map(str, spark.sql(query.format(f"{table} VERSION AS OF 0")).collect())) == rows
    clone = named("clone")
    spark.sql(f"CREATE TABLE {clone} SHALLOW CLONE {table} VERSION AS OF 0")
    _, saved = compare(spark, query.format(clone))
    assert saved > 0
    cached = spark.sql(query.format(clone)).cache()
    assert sorted(map(str, cached.collect())) == rows
    cached.unpersist()


def check_left_by_the_log(spark):
    """What the log has reduced to a few small files is not planned."""
    rows = spark.range(0, 2_000, 1, 20).selectExpr("id", "id * 7 % 2000 AS other")
    rows.write.format("delta").save("left")
    ias.index(spark, "left", [ia.Bloom("id"), ia.Bloom("other")], progress=False)
    for path in data_files("left"):
        age(path)
    skips, saved = compare(spark, f"SELECT * FROM {named('left')} WHERE id = 777")
    assert (len(skips), skips[0].reason, saved) == (1, "the log of the table has left little to read", 0)
    skips, saved = compare(spark, f"SELECT * FROM {named('left')} WHERE other = 777")
    assert skips[0].reason is None
    assert saved > 0


def check_faults(spark):
    """Without a planner, or with one that is slow or wrong, queries return the rows of plain Spark."""
    table = write(spark, "faults", enableDeletionVectors="true")
    attach("faults")
    spark.sql(f"DELETE FROM {table} WHERE u = 16000")
    query = f"SELECT * FROM {table} WHERE u BETWEEN 15200 AND 16800"
    with settings(spark, {SWITCH: "false"}):
        expected, _ = run(spark, query)

    def dead(request):
        raise OSError("dead")

    wrong = (
        {},
        {"files": 3, "kept": []},
        {"files": 8, "kept": [[9, 1]]},
        {"files": 8, "kept": [["x"]]},
        {"files": 8, "kept": [[0, 1, 5]]},
        {"files": 8, "unplanned": [77], "kept": []},
    )
    answers = (dead, lambda _: "{", *(lambda _, answer=answer: json.dumps(answer) for answer in wrong))
    for answer in answers:
        ias.enable(spark, planner=answer)
        assert run(spark, query)[0] == expected
        assert ias.last_skips(spark)[0].reason.startswith("failed")
    ias.enable(spark, timeout_seconds=0.2, planner=lambda request: __import__("time").sleep(2) or "{}")
    assert run(spark, query)[0] == expected
    assert ias.last_skips(spark)[0].reason.startswith("failed")
    ias.enable(spark)
    assert compare(spark, query)[1] > 0
    ias.disable(spark)
    assert run(spark, query)[0] == expected
    ias.enable(spark)


def check_changed_files(spark):
    """Frames that were planned before files changed have the rows of plain Spark."""
    # pyarrow has another type for Spark's timestamps
    columns = [field.name for field in lakes.SCHEMA if field.name not in ("much", "ts")]
    table = write(spark, "changed", *columns, enableDeletionVectors="true")
    attach("changed")
    spark.sql(f"DELETE FROM {table} WHERE i % 3000 = 1000")
    query = f"SELECT * FROM {table} WHERE u IN (10400, 18400, 26400)"
    with settings(spark, {SWITCH: "false"}):
        expected, _ = run(spark, query)
    assert expected
    frames = [spark.sql(query)]
    frames[0].collect()

    def other_layout(path):
        """Write the same rows, which have the same numbers, with other row groups."""
        size = path.stat().st_size
        pq.write_table(
            pq.read_table(path, partitioning=None),
            path,
            write_statistics=False,
            compression="zstd",
        )
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        assert path.stat().st_size != size

    for change in (ia.detach, lambda path: ia.attach(path, [ia.RowMap("u")]), ia.detach, other_layout):
        frames.append(frames[0].select("*"))
        frames[-1]._jdf.queryExecution().executedPlan()
        for path in data_files("changed"):
            change(path)
            age(path)
        for frame in [*frames, frames[0].select("*"), spark.sql(query)]:
            assert sorted(map(str, frame.collect())) == expected


# --- lengths in the log ----------------------------------------------------------------------------------


def commits(folder):
    """Return the actions of each commit of a table."""
    paths = sorted(Path(folder, "_delta_log").glob("*.json"))
    return [list(map(json.loads, path.read_text().splitlines())) for path in paths]


def check_registered(spark):
    """A commit gives files their new lengths; all other things in the log stay."""
    table = write(
        spark,
        "registered",
        "*",
        "concat('a b%20+ü', bo) AS part",
        partition_by=["part"],
        enableDeletionVectors="true",
        enableRowTracking="true",
        enableChangeDataFeed="true",
        checkpointInterval="3",
    )
    spark.sql(f"DELETE FROM {table} WHERE u = 16000")
    query = f"SELECT *, _metadata.row_id, _metadata.row_commit_version FROM {table}"
    before, _ = run(spark, query)
    files = data_files("registered")
    originals = {path: path.read_bytes() for path in files}
    clone = named("clone-of-registered")
    spark.sql(f"CREATE TABLE {clone} SHALLOW CLONE {table}")
    indexes = [ia.PageIndex(), ia.Bloom("u")]
    assert ias.index(spark, table, indexes, progress=False).files_registered == 0
    assert not any(_has_indexes("registered"))
    report = ias.index(spark, table, indexes, register=True, progress=False)
    assert (report.files_unchanged, report.files_registered) == (len(files), len(files))
    *older, newest = commits("registered")
    (info,) = (action["commitInfo"] for action in newest if "commitInfo" in action)
    assert info["operation"] == "Manual Update"
    adds = {action["add"]["path"]: action["add"] for action in newest if "add" in action}
    assert len(newest) == 1 + len(adds) == 1 + len(files)
    last = {action["add"]["path"]: action["add"] for commit in older for action in commit if "add" in action}
    assert any("deletionVector" in add for add in adds.values())
    for add in adds.values():
        old = last[add["path"]]
        state = Path("registered", unquote(add["path"])).stat()
        assert (add["size"], add["modificationTime"]) == (state.st_size, state.st_mtime_ns // 1_000_000)
        assert add["dataChange"] is False
        assert add["stats"]
        assert {**old, **{key: add[key] for key in ("size", "modificationTime", "dataChange")}} == add
    for path in files:
        age(path)
    assert run(spark, query)[0] == before
    _, saved = compare(spark, f"SELECT * FROM {table} WHERE u = 18400")
    assert saved > 0
    assert all(_has_indexes("registered"))
    assert ia.open("delta+registered").count() == len(before)
    for registered in (0, len(files)):
        assert run(spark, f"SELECT * FROM {clone}")[0] == run(spark, f"SELECT * FROM {table}")[0]
        report = ias.index(spark, clone, indexes, register=bool(registered), progress=False)
        assert report.files_registered == registered
    assert run(spark, f"SELECT * FROM {clone}")[0] == run(spark, f"SELECT * FROM {table}")[0]
    # again, there is nothing to commit
    assert ias.index(spark, "registered", indexes, register=True, progress=False).files_registered == 0
    assert len(commits("registered")) == len(older) + 1
    # readers rely on the lengths
    for path in files:
        for change in (ia.detach, lambda path: ia.attach(path, [ia.Distinct("u")])):
            with pytest.raises(ia.ReplaceError) as caught:
                change(path)
            assert caught.value.reason == "registered-length"
    assert {one.error.reason for one in ias.detach(spark, table, progress=False).failed} == {
        "registered-length"
    }
    # the log remains one that Delta accepts: later commits, checkpoints, checksums, older versions
    with settings(spark, {"spark.databricks.delta.checksum.mismatch.fatal": "true"}):
        for command in (
            f"UPDATE {table} SET s = 'x' WHERE u = 18400",
            f"DELETE FROM {table} WHERE u = 19200",
            f"INSERT INTO {table} SELECT * FROM {table} WHERE u = 800",
        ):
            spark.sql(command)
    spark.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    for path, original in originals.items():
        assert path.read_bytes().startswith(original)
    assert list(Path("registered", "_delta_log").glob("*.checkpoint*"))


def check_versions_of_registered(spark):
    """Older versions, the change data feed and OPTIMIZE, of a table with registered lengths."""
    table = named("versions")
    writer = spark.range(0, 400, 1, 4).write.format("delta")
    for name in ("enableDeletionVectors", "enableChangeDataFeed"):
        writer = writer.option(f"delta.{name}", "true")
    writer.save("versions")
    spark.sql(f"DELETE FROM {table} WHERE id = 7")
    report = ias.index(spark, table, [ia.PageIndex(), ia.Bloom("id")], register=True, progress=False)
    assert report.files_registered == len(data_files("versions")) == 4
    for version in (0, 1, 2):
        found = spark.sql(f"SELECT id FROM {table} VERSION AS OF {version}").collect()
        assert sorted(row.id for row in found) == [
            number for number in range(400) if not version or number != 7
        ]
    changes = f"table_changes_by_path('{os.path.abspath('versions')}', 2, 2)"
    assert not spark.sql(f"SELECT * FROM {changes}").collect()
    old = data_files("versions")
    spark.sql(f"OPTIMIZE {table}")
    call = f"CALL intarsia.index(table => '{table}', bloom => array('id'), register => true)"
    assert {row.error for row in spark.sql(call).collect()} == {None}
    adds = [action["add"] for action in commits("versions")[-1] if "add" in action]
    (new,) = set(data_files("versions")) - set(old)
    assert [add["size"] for add in adds] == [new.stat().st_size]
    assert spark.table(table).count() == 399


def _has_indexes(folder):
    """Return for each file whether readers that take its length from the log find the added indexes."""
    files = [Path(folder, unquote(one["path"])).read_bytes()[: one["size_bytes"]] for one in _adds(folder)]
    footers = [pq.read_metadata(pa.BufferReader(file)) for file in files]
    assert all(footer.row_group(0).column(0).has_offset_index for footer in footers)
    return [b"intarsia" in (footer.metadata or {}) for footer in footers]


def _adds(folder):
    return pa.table(deltalake.DeltaTable(folder).get_add_actions()).to_pylist()


def check_refused(spark):
    """What cannot be registered is refused before a file changes, and a wrong commit is undone."""
    mapped = {"columnMapping.mode": "name", "enableIcebergCompatV2": "true"}
    tables = {write(spark, "compatible", "i", "u", **mapped): "unsupported-delta-feature"}
    tables[source()] = "not-a-delta-table"
    for table, reason in tables.items():
        with pytest.raises(ia.UnsupportedFeatureError) as caught:
            ias.index(spark, table, [ia.PageIndex()], register=True, progress=False)
        assert caught.value.reason == reason
    for path in data_files("compatible"):
        assert ia.inspect(path).directory is None
    table = write(spark, "undone")
    rows, _ = run(spark, f"SELECT * FROM {table}")
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE u = 800")
    with pytest.raises(ia.WriteError) as caught:
        DeltaLog(spark, table).check(1, {})
    assert caught.value.reason == "registration-undone"
    assert run(spark, f"SELECT * FROM {table}")[0] == rows


class Meanwhile(frozenset):
    """Paths of files; each time that a transaction searches for them, another one commits first."""

    def __init__(self, paths):
        self.commands, self.seen = [], set()

    def __contains__(self, path):
        if path in self.seen:
            self.seen.clear()
        if not self.seen and self.commands:
            self.commands.pop(0)()
        self.seen.add(path)
        return super().__contains__(path)


def check_writers(spark):
    """Transactions that commit while lengths are registered are not lost, and lose no rows."""
    table = write(spark, "written", enableDeletionVectors="true")
    shutil.copytree("written", "alone")
    attach("written")
    log, files = DeltaLog(spark, table), data_files("written")
    commands = [
        "INSERT INTO {} SELECT * FROM {} WHERE u = 800",
        "DELETE FROM {} WHERE u = 16000",
        "UPDATE {} SET i = i + 1 WHERE u IN (10400, 18400)",
        "OPTIMIZE {}",
    ]
    for number, command in enumerate(commands):
        paths = Meanwhile(str(path.absolute()) for path in files[: 2 * number + 2])
        paths.commands = [lambda command=command: spark.sql(command.replace("{}", table))]
        registered = log.register(paths)
        assert not paths.commands
        assert registered == (0 if command.startswith("OPTIMIZE") else 2)
        spark.sql(command.replace("{}", named("alone")))
        assert _contents(spark, "written") == _contents(spark, "alone")
    shutil.copytree("alone", "busy")
    attach("busy")
    before = len(commits("busy"))
    paths = Meanwhile(str(path.absolute()) for path in data_files("busy"))
    update = f"UPDATE {named('busy')} SET s = 'x' WHERE i % 3000 = "
    paths.commands = [lambda rest=rest: spark.sql(f"{update} {rest}") for rest in (0, 1000, 2000)]
    with pytest.raises(ia.WriteError) as caught:
        DeltaLog(spark, "busy").register(paths)
    assert caught.value.reason == "concurrent-transactions"
    assert not paths.commands
    assert len(commits("busy")) == before + 3
    assert DeltaLog(spark, "busy").register(paths) > 0
    assert _contents(spark, "busy").total() == _contents(spark, "alone").total()


#: Registers lengths in tables at the same time.
REGISTERING = """
import concurrent.futures
from intarsia.spark.registering import DeltaLog
with concurrent.futures.ThreadPoolExecutor() as pool:
    list(pool.map(lambda table: DeltaLog(spark, table[0]).register(table[1]), {}))
"""

#: One JVM, whose start takes many seconds, is killed for so many tables.
TABLES_AT_ONCE = 5


@functools.cache
def _kills(spark, kills):
    source, killed = "to-be-killed", Path("killed")
    write(spark, source, partition_by=["bo"], enableDeletionVectors="true")
    attach(source)
    spark.sql(f"DELETE FROM {named(source)} WHERE u = 16000")
    versions = [_contents(spark, source, version) for version in (0, 1)]
    folders = [killed / str(ordinal) for ordinal in range(TABLES_AT_ONCE)]

    def prepare():
        shutil.rmtree(killed, ignore_errors=True)
        for folder in folders:
            shutil.copytree(source, folder)
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def check_current():
        """Return for each table whether the lengths of its files are registered, those of all or of none."""
        for folder in folders:
            assert _contents(spark, folder) == versions[1]
            assert len(set(_has_indexes(folder))) == 1
        return [any(_has_indexes(folder)) for folder in folders]

    def check():
        assert all(_contents(spark, folder, 0) == versions[0] for folder in folders)
        return "registered: {}, recorded: {}".format(
            check_current(), [Path(folder, "_intarsia_lengths").exists() for folder in folders]
        )

    def check_done():
        assert all(check_current())
        for folder in folders:
            sizes = {add["path"]: add["size_bytes"] for add in _adds(folder)}
            assert sizes == {path: os.path.getsize(folder / unquote(path)) for path in sizes}

    tables = [
        (named(folder), [str(folder.absolute() / path.relative_to(source)) for path in data_files(source)])
        for folder in folders
    ]
    names = ["spark.jars", "spark.sql.extensions"]
    settings_of = {**SESSION, **{name: spark.conf.get(name) for name in names}}
    job = Job(REGISTERING.format(tables), changes_of(killed), prepare, check, check_done, settings_of)
    return kills_of(spark, job, kills)


def check_killed(spark, kills):
    """A JVM that registers lengths is killed: versions have their rows, and lengths are those of files.

    Each call kills one; the last one checks how many were killed.
    """
    print(next(_kills(spark, kills)))


def check_jobs(spark):
    """The jobs process the files of the current snapshot, by name or folder, also of a cached table."""
    write(spark, "jobs", "*", "concat('a b%20+ü', bo) AS part", partition_by=["part"])
    table = named("jobs")
    old = data_files("jobs")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    spark.sql(f"DELETE FROM {table} WHERE u = 16000")  # without a new file
    spark.sql(f"CREATE TABLE of_jobs USING delta LOCATION '{os.path.abspath('jobs')}'")
    spark.sql("OPTIMIZE of_jobs WHERE part = 'a b%20+ütrue'")
    new = sorted(set(data_files("jobs")) - set(old))
    assert new
    cached = spark.table("of_jobs").cache()
    rows = cached.count()
    sizes = {path: path.stat().st_size for path in data_files("jobs")}
    before = {path: path.read_bytes() for path in old if "true" in path.parent.name}
    assert 0 < len(before) < len(old)
    indexes = [ia.RowMap("u")]
    report = ias.index(spark, "of_jobs", indexes, lake_index="beside", progress=False)
    cached.unpersist()
    live = sorted({*old, *new} - set(before))
    assert {Path(file.path) for file in report.per_file} == {path.absolute() for path in live}
    assert report.files_indexed == len(live)
    assert report.lake_index.files_added == len(live)
    assert {path: path.read_bytes() for path in before} == before
    for same in (table, "jobs"):
        assert ias.index(spark, same, indexes, progress=False).files_unchanged == len(live)
    for path in live:
        age(path)
    assert spark.table("of_jobs").count() == rows
    skips, saved = compare(spark, "SELECT * FROM of_jobs WHERE u = 16800")
    assert skips
    assert saved > 0
    assert ias.verify(spark, "of_jobs", quick=True, progress=False).ok
    assert {len(row.indexes) for row in ias.describe(spark, table, progress=False).collect()} == {1}
    spark.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    spark.sql("VACUUM of_jobs RETAIN 0 HOURS")
    assert data_files("jobs") == live
    assert Path("jobs", "_intarsia").is_dir()
    assert len(ias.detach(spark, "of_jobs", progress=False).per_file) == len(live)
    assert {path: path.stat().st_size for path in live} == {path: sizes[path] for path in live}
    compare(spark, "SELECT * FROM of_jobs WHERE u = 16800")
    assert ias.index(spark, "of_jobs", indexes, only="new", progress=False).files_indexed == len(live)
    spark.sql("INSERT INTO of_jobs SELECT * FROM of_jobs WHERE u = 800")
    (inserted,) = set(data_files("jobs")) - set(live)
    report = ias.index(spark, "of_jobs", indexes, only="new", progress=False)
    assert [Path(file.path) for file in report.per_file] == [inserted.absolute()]
    spark.sql("DELETE FROM of_jobs")
    with pytest.raises(FileNotFoundError, match="current snapshot"):
        ias.index(spark, "of_jobs", indexes, progress=False)
    for one in ("of_jobs", "jobs", table):  # these would return deleted rows
        for job in (
            lambda name: ias.aggregate(spark, name, "count(*)", progress=False),
            lambda name: ias.approx_distinct(spark, name, "u", progress=False),
            lambda name: ias.read(spark, name, "u = 800"),
            lambda name: ias.explain(spark, name, "u = 800"),
        ):
            with pytest.raises(ia.UnsupportedFeatureError) as caught:
                job(one)
            assert caught.value.reason == "not-a-parquet-table"
    for one in ("of_jobs", table):
        for job in (
            lambda name: ias.advise(spark, name, "u = 800"),
            lambda name: ias.optimize(spark, name, "sorted", sort_by="u", progress=False),
        ):
            with pytest.raises(ia.UnsupportedFeatureError) as caught:
                job(one)
            assert (caught.value.reason, caught.value.path) == ("not-a-parquet-table", one)
    spark.sql("DROP TABLE of_jobs")


def check_one_file(spark):
    """A table whose snapshot has one file, as after OPTIMIZE, has its lake index in the same folder."""
    rows = spark.range(0, 300, 1, 3).selectExpr("id", "id div 100 AS part")
    rows.write.format("delta").partitionBy("part").saveAsTable("single")
    spark.sql("DELETE FROM single WHERE part > 0")
    folder = spark.sql("DESCRIBE DETAIL single").first()["location"].removeprefix("file:")
    for path in data_files(folder):
        age(path)
    report = ias.index(spark, "single", [ia.Bloom("id")], lake_index="beside", progress=False)
    assert (report.files_indexed, report.lake_index.folder) == (1, f"{folder}/_intarsia")
    assert ias.index(spark, "single", [ia.Bloom("id")], only="new", progress=False).files_unchanged == 1
    spark.sql("INSERT INTO single VALUES (900, 9)")
    assert ias.index(spark, "single", [ia.Bloom("id")], only="new", progress=False).files_indexed == 1
    (built,) = spark.sql("CALL intarsia.lake_index('single', 'beside')").collect()
    assert (built.folder, built.files_total) == (f"{folder}/_intarsia", 2)
    spark.sql("DROP TABLE single")


def check_configured(spark):
    """A session with both extensions skips in Delta tables and in plain files."""
    table = write(spark, "configured", enableDeletionVectors="true")
    attach("configured")
    spark.sql(f"DELETE FROM {table} WHERE u = 16000")
    frame = spark.sql(f"SELECT * FROM {table} WHERE u BETWEEN 15200 AND 16800")
    rows = sorted(map(str, frame.collect()))
    assert sum(files for files, _ in scans(frame)) == 1, frame._jdf.queryExecution().toString()
    query = f"SELECT * FROM {table} WHERE u BETWEEN 15200 AND 16800"
    with settings(spark, {SWITCH: "false"}):
        assert rows == run(spark, query)[0]
    killed = descendants("intarsia.spark.serving")
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert run(spark, query)[0] == rows
    found, frame = run(spark, query)  # planned by another process
    assert found == rows
    assert sum(files for files, _ in scans(frame)) == 1
    assert set(descendants("intarsia.spark.serving")).isdisjoint(killed)
    attach(source())
    frame = spark.read.parquet(source()).where("u = 10400")
    assert frame.collect()
    assert sum(files for files, _ in scans(frame)) == 1


def check_deleting(spark):
    """`ias.delete` runs the table's DELETE, by its name or its folder; null stays."""
    rows = spark.range(0, 400, 1, 4).selectExpr("id", "IF(id % 5 = 0, NULL, id % 7) AS user")
    rows.write.format("delta").save("deleting")
    spark.sql(f"CREATE TABLE of_deleting USING delta LOCATION '{os.path.abspath('deleting')}'")
    ias.index(spark, "of_deleting", [ia.Bloom("user")], lake_index="beside", progress=False)
    assert ias.delete(spark, "of_deleting", "user = 3", dry_run=True, progress=False).rows_deleted == 45
    assert spark.table("of_deleting").count() == 400
    report = ias.delete(spark, "of_deleting", "user = 3", progress=False)
    assert (report.format, report.rows_deleted, len(report.lake_indexes)) == ("delta", 45, 1)
    assert "Delta" in str(report)
    assert spark.table("of_deleting").where("user = 3").count() == 0
    assert ias.delete(spark, "deleting", "NOT user <> 4", progress=False).rows_deleted == 46
    assert spark.table("of_deleting").where("user IS NULL").count() == 80
    assert spark.table("of_deleting").count() == 309
    for where, reason in (
        (rows["user"] == 5, "column-predicate"),
        ("id = 5 AND _metadata.file_size > 1", "metadata-in-predicate"),
        ("rand() < 0.5", "nondeterministic-predicate"),
    ):
        with pytest.raises(ia.UnsupportedFeatureError) as caught:
            ias.delete(spark, "of_deleting", where, progress=False)
        assert caught.value.reason == reason
    for name, reason in (
        ("of_deleting -- all", "not-a-table-of-files"),  # the condition would be a part of the comment
        ("of_deleting VERSION AS OF 0", "not-current-snapshot"),
        ("of_deleting for timestamp as of '2030-01-01'", "not-current-snapshot"),
    ):
        with pytest.raises(ia.UnsupportedFeatureError) as caught:
            ias.delete(spark, name, "user = 5", progress=False)
        assert (caught.value.reason, caught.value.path) == (reason, name)
    assert spark.table("of_deleting").count() == 309
    assert delete_at_once(spark, "of_deleting", ["user = 0", "user = 1", "user = 2"]) == [46, 46, 46]
    copy = Path("deleting", ".replaced.parquet.intarsia-0.tmp")  # of a job that was killed
    copy.touch()
    assert ias.delete(spark, "of_deleting", "true", progress=False).rows_deleted == 171
    assert not copy.exists()


def delete_at_once(spark, table, predicates):
    """Return the number of rows that each of several deletions has deleted, which start together."""
    with ThreadPoolExecutor(len(predicates)) as pool:
        runs = [pool.submit(ias.delete, spark, table, one, progress=False) for one in predicates]
        return [run.result().rows_deleted for run in runs]


def check_random_deletions(spark, count):
    """`ias.delete` by random predicates leaves the rows for which they are not true, and older versions."""
    rng = random.Random("deletions")
    for folder, properties in (
        ("whole-files", {}),
        ("vectors", {"enableDeletionVectors": "true"}),
        ("names", {"enableDeletionVectors": "true", "columnMapping.mode": "name"}),
    ):
        names = [field.name for field in lakes.SCHEMA if field.name != "much"]
        later = {"s": "text", "u": "v", "bo": "flag"} if folder == "names" else {}
        columns = [f"{name} AS {later.get(name, name)}" for name in names]
        table = write(spark, folder, *columns, partition_by=[later.get("bo", "bo")], **properties)
        for name, before in later.items():
            spark.sql(f"ALTER TABLE {table} RENAME COLUMN {before} TO {name}")
        (attach if not later else _attach_mapped)(folder)
        predicates = [lakes.predicate(rng) for _ in range(count * 4)]
        with settings(spark, {SWITCH: "false"}):
            everything = _contents(spark, folder)
            matching = rows_with_matches(spark.table(table), predicates)
        chosen = [
            (predicate, Counter(rows))
            for predicate, rows in zip(predicates, matching, strict=True)
            if rows and len(rows) < everything.total()
        ][:count]
        assert len(chosen) > count / 2
        for number, (predicate, rows) in enumerate(chosen):
            copy = f"{folder}-{number}"
            shutil.copytree(folder, copy)
            for path in data_files(copy):
                age(path)
            report = ias.delete(spark, named(copy), predicate, progress=False)
            with settings(spark, {SWITCH: "false"}):
                assert _contents(spark, copy) == everything - rows, predicate
                assert _contents(spark, copy, version=len(later)) == everything, predicate
            assert report.rows_deleted == rows.total(), predicate
            shutil.rmtree(copy)


def check_procedures(spark):
    """The procedures take the name of a table, and its property names the indexes of new files."""
    spark.sql(
        "CREATE TABLE called (id bigint, user int) USING delta "
        "TBLPROPERTIES ('intarsia.indexes' = 'page_index, bloom(user)')"
    )
    rows = spark.range(0, 400, 1, 4).selectExpr("id", "cast(id * 7919 % 1009 AS int) AS user")
    rows.write.insertInto("called")
    files = len(spark.table("called").inputFiles())
    indexed = spark.sql("CALL intarsia.index('called')").collect()
    assert [row.error for row in indexed] == [None] * files
    shown = {
        (row.column, row["index"]): row.files
        for row in spark.sql("CALL intarsia.show_indexes('called')").collect()
    }
    assert shown["user", "bloom"] == files
    assert not spark.sql("CALL intarsia.verify('called')").collect()
    (built,) = spark.sql("CALL intarsia.lake_index('called', 'beside')").collect()
    assert built.files_added == files
    spark.sql("CALL intarsia.delete('called', 'user = 7919 % 1009')")
    assert spark.table("called").where("id = 1").isEmpty()
    assert spark.table("called").count() == 399
    detached = spark.sql("CALL intarsia.detach('called')").collect()
    assert {row.detached for row in detached} <= {True, False}
    assert any(row.detached for row in detached)
    left = spark.sql("CALL intarsia.show_indexes('called')").collect()
    assert {row["index"] for row in left} <= {"page_index"}  # of Spark
    spark.sql("DROP TABLE called")
