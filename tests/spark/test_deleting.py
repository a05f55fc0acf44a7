"""`ias.delete`: the rows that are left, the files that are not touched, and what it refuses."""

import json
import os
import random
import shutil
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.errors import FilesFailedError, UnsupportedFeatureError, WriteError
from intarsia.storage.hadoop_files import sidecar_path
from tests.effort import examples
from tests.lake.index.lakes import age
from tests.spark import lakes
from tests.spark.comparing import rows, rows_with_matches, settings

INDEXES = [
    ia.PageIndex(),
    ia.Bloom("l"),
    ia.Distinct("s"),
    ia.ZoneMap("d"),
    ia.RowMap("i"),
    ia.Ngram("s"),
]


def delete(spark, lake, where, **options):
    return ias.delete(spark, str(lake), where, progress=False, **options)


def states(folder):
    """The contents and the times of files."""
    found = sorted(path for path in Path(folder).rglob("*.parquet"))
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def names(path):
    directory = ia.inspect(path).directory
    return {entry.name for entry in directory.entries} if directory is not None else set()


def write(spark, writer, folder):
    source = lakes.write_with_pyarrow(folder / "pyarrow")
    lake = source if writer == "pyarrow" else lakes.write_with_spark(spark, folder / "spark", source)
    ia.attach(lake, INDEXES)
    return lake


def test_copies_of_killed_jobs_are_removed(spark, tmp_path):
    """Those of a file that is removed, of one that stays, and of the whole lake."""
    lake = tmp_path / "lake"
    for part in range(3):
        (lake / f"p={part}").mkdir(parents=True)
        pq.write_table(pa.table({"x": [part, part]}), lake / f"p={part}" / "file.parquet")
    copies = [lake / f"p={part}" / f".file.parquet.intarsia-{part}.tmp" for part in range(3)]
    copies.append(lake / "p=0" / ".compacted.parquet.intarsia-0.tmp")
    for copy in copies:
        shutil.copy(lake / "p=1" / "file.parquet", copy)
    killed = tmp_path / ".lake.intarsia-0123456789abcdef"
    shutil.copytree(lake, killed / "data")
    (killed / "lock").touch()
    assert delete(spark, lake, "x = 1", dry_run=True).rows_deleted == 2
    assert all(copy.exists() for copy in copies)
    assert delete(spark, lake, "x = 1").files_removed == 1
    assert not [copy for copy in copies if copy.exists()]
    assert os.listdir(tmp_path) == ["lake"]


@pytest.mark.parametrize("writer", ["pyarrow", "spark"])
def test_the_rows_left_are_those_that_do_not_match(spark, tmp_path, writer):
    """Random predicates; NaN and null follow Spark's rules. Files without a match are not touched."""
    source = write(spark, writer, tmp_path)
    rng = random.Random(7)
    whole = spark.read.parquet(source)
    everything = rows(whole)
    tried = changed = 0
    while tried < examples(2, deep=150):
        predicate = lakes.predicate(rng)
        (matching,) = rows_with_matches(whole, [predicate])
        if matching is None:
            continue
        tried += 1
        lake = shutil.copytree(source, tmp_path / f"lake-{tried}")
        before = states(lake)
        report = delete(spark, lake, predicate)
        left = list(everything)
        for row in matching:
            left.remove(row)
        assert rows(spark.read.parquet(str(lake))) == left, predicate
        assert report.rows_deleted == len(matching), predicate
        touched = {file.path for file in report.per_file}
        after = states(lake)
        assert {path: before[path] for path in before if path not in touched} == {
            path: after[path] for path in after if path not in touched
        }
        for path in touched & after.keys():
            assert names(path) == names(path.replace(str(lake), source))
            assert ia.verify(path).ok
        changed += bool(touched) and len(touched) < len(before)
        shutil.rmtree(lake)
    assert changed or tried < 10


def small_lake(folder, parts=4, rows_of_part=1_000):
    """Hive folders; a few rows of user 7 in two files, and all rows of a file are of the country 'part-3'."""
    for part in range(parts):
        path = folder / f"day={part // 2}" / f"a {part}%.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = np.arange(part * rows_of_part, (part + 1) * rows_of_part)
        user = np.where((ids % 500 == 0) & (part < 2), 7, ids + 100)
        table = pa.table({"id": ids, "user": user, "country": [f"part-{part}"] * len(ids)})
        pq.write_table(table, path, row_group_size=400)
        age(path)
    ia.attach(folder, [ia.PageIndex(), ia.Bloom("user"), ia.Distinct("country")])
    return folder


def write_sidecar(path):
    """Write the checksums with which Hadoop compares a file when it reads it."""
    data = path.read_bytes()
    sums = [zlib.crc32(data[start : start + 512]) for start in range(0, len(data), 512)]
    content = b"crc\0" + b"".join(number.to_bytes(4, "big") for number in (512, *sums))
    Path(sidecar_path(str(path))).write_bytes(content)


def ids(spark, lake):
    return sorted(row.id for row in spark.read.parquet(str(lake)).select("id").collect())


def test_what_is_rewritten(spark, tmp_path):
    lake = small_lake(tmp_path / "la ke")
    before = states(lake)
    write_sidecar(lake / "day=0" / "a 0%.parquet")
    report = delete(spark, lake, "user = 7")
    assert (report.rows_deleted, report.files_rewritten, report.files_removed) == (4, 2, 0)
    assert (report.files_total, report.rows_checked) == (4, 1_996)
    assert [file.rows_before for file in report.per_file] == [1_000, 1_000]
    assert all("distinct(country):page" in file.built for file in report.per_file)
    after = states(lake)
    assert sum(after[path] == before[path] for path in before) == 2
    assert len(ids(spark, lake)) == 3_996
    assert sorted(os.listdir(lake / "day=0")) == ["a 0%.parquet", "a 1%.parquet"]
    again = delete(spark, lake, "user = 7")
    assert (again.rows_deleted, again.per_file, again.rows_checked) == (0, (), 0)
    assert states(lake) == after


def test_a_file_without_other_rows_is_removed(spark, tmp_path):
    lake = small_lake(tmp_path / "lake")
    report = delete(spark, lake, "country = 'part-3' OR day = 0 AND id < 10")
    assert (report.rows_deleted, report.files_rewritten, report.files_removed) == (1_010, 1, 1)
    assert len(states(lake)) == 3
    assert json.loads(json.dumps(report.to_dict()))["files"] == {"total": 4, "rewritten": 1, "removed": 1}


def test_no_file_stays_empty_if_others_keep_rows(spark, tmp_path):
    """Although each file has rows that match."""
    lake = small_lake(tmp_path / "lake")
    report = delete(spark, lake, "country = 'part-0' OR id % 500 = 0")
    assert (report.rows_deleted, report.files_rewritten, report.files_removed) == (1_006, 3, 1)
    assert len(states(lake)) == 3


def test_the_last_file_keeps_the_schema(spark, tmp_path):
    lake = small_lake(tmp_path / "lake")
    schema = spark.read.parquet(str(lake)).schema
    report = delete(spark, lake, "id >= 0")
    assert (report.rows_deleted, report.files_removed) == (4_000, 3)
    frame = spark.read.parquet(str(lake))
    assert (frame.count(), frame.schema) == (0, schema)
    assert delete(spark, lake, "id >= 0").rows_deleted == 0


def test_a_dry_run_changes_nothing(spark, tmp_path):
    lake = small_lake(tmp_path / "lake")
    before = states(lake)
    report = delete(spark, lake, "user = 7", dry_run=True)
    assert [file.rows_deleted for file in report.per_file] == [2, 2]
    assert (report.rows_deleted, report.is_dry_run, states(lake)) == (4, True, before)
    assert "would be deleted" in str(report)


def test_columns_and_subqueries(spark, tmp_path):
    import pyspark.sql.functions as sf

    lake = small_lake(tmp_path / "lake")
    assert delete(spark, lake, sf.col("user") == 7).rows_deleted == 4
    spark.createDataFrame([(1101,), (2102,), (-1,)], "who LONG").createOrReplaceTempView("erased_users")
    report = delete(spark, lake, "user IN (SELECT who FROM erased_users)")
    assert (report.rows_deleted, report.files_rewritten) == (2, 2)
    with pytest.raises(UnsupportedFeatureError) as caught:
        delete(spark, lake, "rand() < 0.5")
    assert caught.value.reason == "nondeterministic-predicate"


@pytest.mark.parametrize(
    "where",
    [
        "id = (SELECT max(id) FROM own_rows)",
        "country = 'part-0' AND id IN (SELECT max(id) FROM own_rows GROUP BY user)",
        "EXISTS (SELECT 1 FROM own_rows r JOIN other_rows o ON r.id = o.who WHERE r.user = user)",
        "id > (SELECT max(who) FROM other_rows WHERE who < (SELECT avg(id) FROM own_rows))",
    ],
)
def test_a_subquery_on_the_table_itself_is_refused(spark, tmp_path, where):
    lake = small_lake(tmp_path / "lake")
    before = states(lake)
    spark.read.parquet(str(lake)).createOrReplaceTempView("own_rows")
    spark.createDataFrame([(1101,), (2102,)], "who LONG").createOrReplaceTempView("other_rows")
    with pytest.raises(UnsupportedFeatureError) as caught:
        delete(spark, lake, where)
    assert (caught.value.reason, states(lake)) == ("own-rows-in-predicate", before)


def test_metadata_that_a_deletion_changes_is_refused(spark, tmp_path):
    lake = small_lake(tmp_path / "lake")
    before = states(lake)
    fields = ("row_index < 2", "file_size > 1", "FILE_MODIFICATION_TIME < now()")
    for where in (*(f"id > 5 AND _metadata.{field}" for field in fields), "hash(_metadata) % 2 = 0"):
        with pytest.raises(UnsupportedFeatureError) as caught:
            delete(spark, lake, where)
        assert (caught.value.reason, states(lake)) == ("metadata-in-predicate", before)
    report = delete(
        spark, lake, "user = 7 AND _metadata.file_name LIKE '%1%' AND `_metadata`['file_path'] <> ''"
    )
    assert (report.rows_deleted, report.files_rewritten) == (2, 1)
    assert delete(spark, lake, "user = 7 AND country <> '_metadata'").rows_deleted == 2
    own = tmp_path / "own.parquet"
    pq.write_table(pa.table({"_metadata": [{"row_index": 3}, {"row_index": 4}]}), own)
    assert delete(spark, own, "_metadata.row_index = 3").rows_deleted == 1


def test_a_file_that_is_named_twice(spark, tmp_path):
    """Spark reads its rows twice."""
    lake = small_lake(tmp_path / "lake") / "day=0"
    paths = [str(lake), str(lake / "a 0%.parquet")]
    assert spark.read.parquet(*paths).count() == 3_000
    report = ias.delete(spark, paths, "user = 7", progress=False)
    assert (report.rows_deleted, report.rows_checked) == (4, 1_996)
    assert len(ids(spark, lake)) == 1_996


def test_tables_and_their_caches(spark, tmp_path):
    lake = small_lake(tmp_path / "lake")
    spark.sql(
        f"CREATE TABLE erased (id LONG, user LONG, country STRING, day INT) USING parquet "
        f"PARTITIONED BY (day) LOCATION '{lake}'"
    )
    try:
        spark.sql("MSCK REPAIR TABLE erased")
        spark.sql("CACHE TABLE erased")
        assert delete(spark, "erased", "user = 7").rows_deleted == 4
        assert spark.table("erased").where("user = 7").count() == 0
        assert spark.table("erased").count() == 3_996
    finally:
        spark.sql("DROP TABLE erased")


def test_the_files_of_a_table_are_listed_again(spark, tmp_path):
    """The session keeps the files of a table that it has read, although some are new and some are removed."""
    spark.range(0, 400, 1, 4).write.saveAsTable("relisted", path=str(tmp_path / "lake"))
    try:
        assert spark.table("relisted").count() == 400
        pq.write_table(pa.table({"id": [70, 900]}), tmp_path / "lake" / "new.parquet")
        report = delete(spark, "relisted", "id < 110 OR id = 900")
        assert (report.rows_deleted, report.files_rewritten, report.files_removed) == (112, 1, 2)
        assert spark.table("relisted").count() == 290
    finally:
        spark.sql("DROP TABLE relisted")


@pytest.mark.parametrize("location", ["beside", "cache"])
def test_lake_indexes_lose_the_values(spark, tmp_path, monkeypatch, location):
    """Also one of a folder above; it contains no byte of a deleted value."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lake = tmp_path / "lake"
    for part in range(3):
        (lake / f"p={part}").mkdir(parents=True)
        names = [f"zz-person-{part}" if row == 5 else f"name-{row}" for row in range(100)]
        pq.write_table(pa.table({"name": names}), lake / f"p={part}" / "a.parquet", compression="none")
        age(lake / f"p={part}" / "a.parquet")
    ia.attach(lake, [ia.PageIndex(), ia.Distinct("name")])
    folder = Path(ia.open(lake).build_lake_index(location).folder)

    def contents():
        return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())

    assert b"zz-person-1" in contents()
    report = delete(spark, lake / "p=1", "name LIKE 'zz-person-%'")
    assert (report.rows_deleted, len(report.lake_indexes)) == (1, 1)
    assert b"zz-person-1" not in contents()
    assert b"zz-person-2" in contents()
    assert ia.open(lake).scan("name = 'zz-person-2'").count() == 1


def during(label, action):
    """Return a function for ``progress`` that acts once, the second time that a label is shown."""
    shown = []

    def progress(done, total, text):
        if text == label and done == 0:
            shown.append(text)
            if len(shown) == 2:
                action()

    return progress


def test_another_deletion_between_the_last_round_and_the_proof(spark, tmp_path):
    """It has other rows, so both are done, and the files have fewer rows than the first one left."""
    lake = small_lake(tmp_path / "lake")
    other = during("searching", lambda: delete(spark, lake, "id % 500 = 1"))
    report = ias.delete(spark, str(lake), "user = 7", progress=other)
    assert (report.rows_deleted, report.files_rewritten, report.rows_checked) == (4, 2, 1_992)
    assert len(ids(spark, lake)) == 3_988


@pytest.mark.parametrize("change", ["removed", "damaged"])
def test_files_that_change_while_they_are_searched(spark, tmp_path, change):
    """The error is one sentence, and not the stack trace of Java; nothing else is lost."""
    lake = small_lake(tmp_path / "lake")
    whole = sorted(lake.rglob("*.parquet"))

    def act():
        for path in whole[:2]:
            if change == "removed":
                path.unlink()
            else:
                path.write_bytes(b"PAR1")

    with pytest.raises(WriteError) as caught:
        ias.delete(spark, str(lake), "user = 7", progress=during("searching", act))
    if change == "removed":
        assert (caught.value.reason, "2 files" in str(caught.value)) == ("verification-failed", True)
    else:
        assert (caught.value.reason, len(str(caught.value).splitlines())) == ("unreadable-file", 1)
    for path in whole[:2]:
        path.unlink(missing_ok=True)
    spark.catalog.refreshByPath(str(lake))
    assert len(ids(spark, lake)) == 2_000


def test_files_that_cannot_be_rewritten(spark, tmp_path):
    """The others are; the error has the report."""
    lake = small_lake(tmp_path / "lake")
    folder = lake / "day=0"
    log = folder / "_spark_metadata"
    log.mkdir()
    entries = [{"path": f"file://{path}", "size": path.stat().st_size} for path in folder.glob("*.parquet")]
    (log / "0").write_text("\n".join(["v1", *map(json.dumps, entries)]) + "\n")
    before = states(lake)
    with pytest.raises(FilesFailedError) as caught:
        ias.delete(spark, sorted(map(str, lake.rglob("*.parquet"))), "id % 1000 = 0", progress=False)
    report = caught.value.report
    assert {failure.code for failure in report.failed} == {"listed-by-sink"}
    assert (len(report.failed), report.rows_deleted) == (2, 2)
    after = states(lake)
    assert sum(after[path] == before[path] for path in before) == 2


def test_a_file_of_a_sink_that_has_got_indexes(spark, tmp_path):
    """Its length is not the one in the log, but it has not been replaced."""
    rows = spark.readStream.schema("id LONG").parquet(str(small_lake(tmp_path / "lake") / "day=0"))
    writer = rows.writeStream.trigger(availableNow=True).option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    )
    writer.start(str(tmp_path / "out"), format="parquet").awaitTermination()
    ia.attach(tmp_path / "out", [ia.Bloom("id")])
    with pytest.raises(FilesFailedError) as caught:
        delete(spark, tmp_path / "out", "id = 1")
    assert {failure.code for failure in caught.value.report.failed} == {"listed-by-sink"}


def test_what_is_refused(spark, tmp_path):
    lake = small_lake(tmp_path / "lake")
    with settings(spark, {"spark.sql.files.ignoreCorruptFiles": "true"}):
        with pytest.raises(UnsupportedFeatureError) as caught:
            delete(spark, lake, "id = 1")
        assert caught.value.reason == "ignored-files"


def test_tables_with_a_log_are_refused_by_every_name(spark, tmp_path):
    """A new file would have other rows at the places of the deleted ones. Spark does not decode its paths."""
    table = tmp_path / "lake" / "tenant=1" / "a%20b"
    (table / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), table / "1.parquet")
    before = states(table)
    for name in (
        table,
        f"file:{table}",
        f"file://{table}",
        f"{tmp_path}/lake/*/*",
        f"{tmp_path}/lake/tenant=1/*",
    ):
        with pytest.raises(UnsupportedFeatureError) as caught:
            delete(spark, name, "id = 1")
        assert (caught.value.reason, states(table)) == ("managed-table", before)
    (table / "_delta_log").rename(table.parent / "_delta_log")
    (table / "1.parquet").rename(table.parent / "1.parquet")
    for job in (
        lambda lake: delete(spark, lake, "id = 1"),
        lambda lake: ias.optimize(spark, lake, in_place=True, progress=False),
    ):
        with pytest.raises(UnsupportedFeatureError) as caught:
            job(str(tmp_path / "lake"))
        assert caught.value.reason == "managed-table"


def test_a_folder_as_spark_writes_it(spark, tmp_path):
    """Spark does not decode paths, and neither do the jobs."""
    lake = tmp_path / "a%20b"
    small_lake(lake)
    name = f"file:{lake}"
    assert ias.index(spark, name, [ia.Bloom("user")], lake_index="beside", progress=False).files_total == 4
    report = delete(spark, name, "user = 7")
    assert (report.rows_deleted, len(report.lake_indexes)) == (4, 1)
    assert (
        ias.optimize(spark, name, in_place=True, progress=False).num_rows == spark.read.parquet(name).count()
    )


RETRIES = """
import os, shutil, sys
import intarsia as ia
from intarsia import spark as ias
from dies import Dies
lake, marks = sys.argv[1:]
for number in range(3, 128, 12):
    open(os.path.join(marks, str(number * 100)), "w").close()
    ia.attach(os.path.join(lake, f"{number:03}.parquet"), [Dies("id", marks)])
shutil.rmtree(marks)
os.mkdir(marks)
report = ias.delete(spark, lake, "id % 100 = 50 OR id DIV 100 % 3 > 0", progress=False)
print(report.files_rewritten, report.files_removed, report.rows_deleted, report.rows_checked)
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_task_that_dies_is_retried(packages_host, tmp_path):
    """Files that the attempt has rewritten or removed before are in the report, and are not failures."""
    lake, marks = tmp_path / "lake", tmp_path / "marks"
    for folder in (lake, marks):
        folder.mkdir()
    for number in range(128):  # about four for each task, the largest first
        noise = random.Random(number).randbytes(500 * (128 - number))
        rows = pa.table({"id": range(number * 100, number * 100 + 100), "noise": [noise] * 100})
        pq.write_table(rows, lake / f"{number:03}.parquet")
    assert packages_host.run(RETRIES, lake, marks).split() == ["43", "85", "8543", "4257"]
    assert len(os.listdir(marks)) == 11
    assert len(list(lake.glob("*.parquet"))) == 43
