"""Files that change under frames: each run has the rows of plain Spark, which reads current bytes."""

import os

import pyarrow as pa
import pytest

import intarsia.spark as ias
from tests.lake.index.lakes import write
from tests.spark.comparing import rows, settings
from tests.spark.skipping import (
    FILES,
    INDEXES,
    ROWS,
    SWITCH,
    compare,
    dropped,
    make_lake,
    make_partitioned,
    metrics_of_scans,
    rows_of_file,
    user_of,
)

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

U = user_of(3, 77)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return make_lake(tmp_path_factory.mktemp("changed") / "lake")


# --- replaced before planning, or between planning and reading


def test_a_file_replaced_before_planning_under_a_frame_that_listed_it(enabled, copy):
    frame = enabled.read.parquet(str(copy))
    assert frame.where(f"user = {U}").count() == 1
    replace(copy / "part-5.parquet")
    found = compare(enabled, lambda: frame.where(f"user = {U}"))
    assert len(found.rows) == ROWS + 1


def test_an_excluded_file_replaced_between_planning_and_reading(enabled, copy):
    frame = enabled.read.parquet(str(copy)).where(f"user = {U}")
    frame._jdf.queryExecution().executedPlan()
    replace(copy / "part-5.parquet")
    assert frame.count() == frame.toPandas().shape[0] == ROWS + 1


def test_a_narrowed_file_replaced_between_planning_and_reading(enabled, copy):
    frame = enabled.read.parquet(str(copy)).where("id = 613")
    frame._jdf.queryExecution().executedPlan()
    replace_ids(copy / "part-3.parquet", 613)
    assert len(frame.collect()) == ROWS


def test_a_file_removed_between_planning_and_reading(enabled, copy):
    frame = enabled.read.parquet(str(copy)).where(f"user = {U}")
    frame._jdf.queryExecution().executedPlan()
    os.unlink(copy / "part-5.parquet")
    with pytest.raises(Exception, match=r"part-5|FILE_NOT_EXIST|does not exist"):
        frame.collect()


def test_missing_files_are_ignored_if_spark_is_asked_to(enabled, copy):
    frame = enabled.read.option("ignoreMissingFiles", "true").parquet(str(copy))
    os.unlink(copy / "part-5.parquet")
    assert len(compare(enabled, lambda: frame.where(f"user IN ({U}, {user_of(5, 13)})")).rows) == 1


# --- changed between two runs of one frame

#: The query execution of a frame, and what else runs the tasks that Spark has planned once.
RUNS = {
    "collect": lambda frame: len(frame.collect()),
    "toPandas": lambda frame: len(frame.toPandas()),
    "local iterator": lambda frame: sum(1 for _ in frame.toLocalIterator()),
    "rdd": lambda frame: frame._jdf.javaRDD().count(),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_an_excluded_file_replaced_between_two_runs(enabled, copy, run, adaptive):
    with settings(enabled, {"spark.sql.adaptive.enabled": adaptive}):
        one, none = (enabled.read.parquet(str(copy)).where(f"user = {user}") for user in (U, -1))
        assert (run(one), run(none)) == (1, 0)
        replace(copy / "part-5.parquet")
        replace(copy / "part-6.parquet", -1)
        assert (run(one), run(none)) == (ROWS + 1, ROWS)
        replace(copy / "part-5.parquet", 7)
        assert (run(one), run(none)) == (1, ROWS)


def test_a_narrowed_file_replaced_between_two_runs(enabled, copy):
    frame = enabled.read.parquet(str(copy)).where("id = 613")
    assert len(frame.collect()) == 1
    replace_ids(copy / "part-3.parquet", 613)
    assert len(frame.collect()) == ROWS


def test_values_of_a_subquery_and_of_a_join(enabled, copy, tmp_path):
    """The files that late plans and the keys of a broadcast exclude are compared, too."""
    enabled.createDataFrame([(U,)], "user int").write.parquet(str(tmp_path / "keys"))
    keys = f"parquet.`{tmp_path / 'keys'}`"
    frames = [
        enabled.sql(f"SELECT id FROM parquet.`{copy}` WHERE user = (SELECT max(user) FROM {keys})"),
        enabled.sql(f"SELECT id FROM parquet.`{copy}` JOIN {keys} USING (user)"),
    ]
    assert [len(frame.collect()) for frame in frames] == [1, 1]
    replace(copy / "part-5.parquet")
    assert [len(frame.collect()) for frame in frames] == [ROWS + 1, ROWS + 1]


def test_a_file_removed_between_two_runs(enabled, copy):
    frame = enabled.read.parquet(str(copy)).where(f"user = {U}")
    assert len(frame.collect()) == 1
    os.unlink(copy / "part-5.parquet")
    with pytest.raises(Exception, match=r"part-5|FILE_NOT_EXIST|does not exist"):
        frame.collect()
    ignoring = enabled.read.option("ignoreMissingFiles", "true").parquet(str(copy)).where(f"user = {U}")
    assert len(ignoring.collect()) == 1
    os.unlink(copy / "part-6.parquet")
    assert len(ignoring.collect()) == 1


def test_metadata_of_a_replaced_file(enabled, copy):
    columns = "_metadata.file_name AS name", "_metadata.row_index AS row", "input_file_name() AS path"
    frame = enabled.read.parquet(str(copy)).where(f"user = {U}").selectExpr(*columns)
    assert [row.name for row in frame.collect()] == ["part-3.parquet"]
    replace(copy / "part-5.parquet")
    found = frame.collect()
    assert sorted(row.row for row in found if row.name == "part-5.parquet") == list(range(ROWS))
    assert all(row.path.endswith(row.name) for row in found)


@pytest.mark.parametrize(
    "where", ["day = 1", "day = (SELECT 1)", "day IN (SELECT 1)", "(day = 1 OR day = 3)"], ids=str
)
def test_files_of_other_partitions_are_not_read(enabled, lake, tmp_path, where):
    """Spark does not evaluate conditions on partition columns on rows, but only on folders."""
    days = make_partitioned(tmp_path / "days", lake)
    sql = f"SELECT id, day FROM parquet.`{days}` WHERE user = {user_of(1, 5)} AND {where}"
    frame = enabled.sql(sql)
    with settings(enabled, {SWITCH: "false"}):
        plain = enabled.sql(sql)
        plain.collect()
    assert len(frame.collect()) == 1
    for path in days.glob("day=[012]/part-[4-7].parquet"):
        replace(path, user_of(1, 5))
    expected = rows(plain)
    assert len(expected) == ROWS + 1
    assert rows(frame) == expected


def test_buckets(enabled, copy):
    with dropped(enabled, "buckets"):
        frame = enabled.read.parquet(str(copy))
        frame.write.bucketBy(4, "user").sortBy("user").saveAsTable("buckets")
        sql = "SELECT b.id FROM buckets a JOIN buckets b USING (user) WHERE a.id < 5 AND b.id < 9"
        held = enabled.sql(sql)
        with settings(enabled, {SWITCH: "false"}):
            plain = enabled.sql(sql)
            plain.collect()
        assert rows(held) == rows(plain)
        with settings(enabled, {"spark.sql.legacy.bucketedTableScan.outputOrdering": "true"}):
            compare(enabled, lambda: enabled.sql(sql))


def test_a_cached_frame_reads_lost_blocks_again(enabled, copy):
    frame = enabled.read.parquet(str(copy)).where(f"user = {U}").cache()
    try:
        assert len(frame.collect()) == 1
        replace(copy / "part-5.parquet")
        assert len(frame.collect()) == 1  # as in plain Spark
        for blocks in list(enabled.sparkContext._jsc.getPersistentRDDs().values()):
            blocks.unpersist(True)
        assert len(frame.collect()) == ROWS + 1
    finally:
        frame.unpersist()


def test_native_reads(enabled, copy):
    """Frames of `ias.read` in native mode are planned once, and compared in each run, in any session."""
    session = enabled.newSession()
    frame = ias.read(session, str(copy), f"user = {U}", mode="native")
    assert ias.last_read(session).mode == "native"
    assert len(frame.collect()) == 1
    replace(copy / "part-5.parquet")
    assert len(frame.collect()) == ROWS + 1


# --- the cost


def test_each_run_compares_each_excluded_file_once(enabled, copy):
    """The metric counts excluded files where they are compared: in tasks, of which there are no more."""
    frame = enabled.read.parquet(str(copy)).where(f"user = {U}")
    for _ in range(2):
        frame.collect()
        assert metrics_of_scans(enabled)[0][0] == FILES - 1
    assert frame.rdd.getNumPartitions() == 1
    replace(copy / "part-5.parquet")
    frame.collect()
    assert metrics_of_scans(enabled)[0][0] == FILES - 2
    with settings(enabled, {SWITCH: "false"}):
        frame = enabled.read.parquet(str(copy)).where(f"user = {U}")
        plain = frame.rdd.getNumPartitions()
    assert enabled.read.parquet(str(copy)).where("user = -2").rdd.getNumPartitions() <= plain


def replace(path, user=U):
    table = rows_of_file(5)
    table = table.set_column(1, "user", pa.array([user] * ROWS, pa.int32()))
    write(path, table, INDEXES, row_group_size=ROWS // 2)
    remove_checksums(path.parent)


def replace_ids(path, value):
    table = rows_of_file(3)
    table = table.set_column(0, "id", pa.array([value] * ROWS, pa.int64()))
    write(path, table, INDEXES, row_group_size=ROWS // 2, max_rows_per_page=ROWS // 10)
    remove_checksums(path.parent)


def remove_checksums(folder):
    for path in folder.glob(".*.crc"):
        path.unlink()
