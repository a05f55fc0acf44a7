"""`enable`, `disable`, `last_skips` and `explain`; and everything that may go wrong."""

import os
import re
import time

import pyarrow as pa
import pytest
from pyspark.errors import NumberFormatException

import intarsia as ia
import intarsia.spark as ias
from tests.lake.index.lakes import age, write
from tests.spark.comparing import settings
from tests.spark.skipping import (
    FILES,
    ROWS,
    compare,
    make_lake,
    metrics_of_scans,
    rows_of_file,
    scans,
    user_of,
    write_file,
)

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

U = user_of(3, 77)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return make_lake(tmp_path_factory.mktemp("enabling") / "lake")


def files_of(frame):
    frame.collect()
    return [files for files, _ in scans(frame)]


# --- the interface


def test_explain_shows_what_is_kept_and_why(enabled, lake):
    frame = enabled.read.parquet(str(lake)).where("id = 613")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "Format: Parquet, Intarsia: 1/8 files, 1/16 row groups, " in plan
    assert "SkippingIndex" in plan


def test_explain_shows_the_names_of_all_indexes(enabled, tmp_path):
    names = [f"column_with_a_very_long_name_{letter}" for letter in "abcd"]
    for ordinal in range(8):
        table = pa.table({name: [ordinal * 2 + place] * 50 for place, name in enumerate(names)})
        write(tmp_path / f"{ordinal}.parquet", table, [ia.Distinct(name) for name in names])
    frame = enabled.read.parquet(str(tmp_path))
    frame = frame.where(" AND ".join(f"{name} <= {9 + 2 * place}" for place, name in enumerate(names)))
    frame = frame.where(f"{names[0]} <> 3 AND {names[1]} > 2 AND {names[2]} > 5 AND {names[3]} > 8")
    frame.collect()
    (skip,) = ias.last_skips(enabled)
    used = {entry["column"] for entry in skip.report["pruned_by"]}
    assert len("".join(used)) > 100
    execution = frame._jdf.queryExecution()
    mode = enabled._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    for plan in (execution.executedPlan().toString(), execution.explainString(mode)):
        (line,) = re.findall(r"SkippedBy: \[(.*?)\]", plan)
        assert {name for name in names if f"({name})" in line} == used


def test_the_size_is_what_is_left(enabled, lake):
    def size(where):
        plan = enabled.read.parquet(str(lake)).where(where)._jdf.queryExecution().optimizedPlan()
        return int(plan.stats().sizeInBytes())

    assert size(f"user = {U}") < size("upper(url) = 'x'") / 4
    assert size("user = -1") == 1


def test_last_skips(enabled, lake):
    enabled.read.parquet(str(lake)).where(f"user = {U} AND country LIKE 'c%'").collect()
    (skip,) = ias.last_skips(enabled)
    assert skip.reason is None
    assert [path.removeprefix("file:") for path in skip.paths] == [str(lake)]
    assert skip.report["files"] == {"total": FILES, "read": 1, "opened": FILES, "other": 0}
    assert {entry["index"] for entry in skip.report["pruned_by"]} >= {"bloom_filter"}
    assert skip.planning_ms > 0
    whole = f"SELECT * FROM parquet.`{lake}`"
    enabled.sql(f"{whole} WHERE id = 5 UNION ALL {whole} WHERE amount > -1").collect()
    first, second = ias.last_skips(enabled)
    assert first.report["files"]["read"] == 1
    assert second.reason == "indexes exclude nothing" or second.report["rows"]["candidates"] < FILES * ROWS


def test_metrics_in_the_ui(enabled, lake, tmp_path):
    enabled.read.parquet(str(lake)).where(f"user = {U}").collect()
    (skip,) = ias.last_skips(enabled)
    rows = skip.report["rows"]
    assert metrics_of_scans(enabled) == [(FILES - 1, rows["total"] - rows["candidates"], 1)]

    # a scalar subquery's value is known when the scan starts; rows instead of columns
    with settings(enabled, {"spark.sql.parquet.enableVectorizedReader": "false"}):
        largest = f"SELECT max(id) FROM parquet.`{lake}` WHERE user = {U}"
        enabled.sql(f"SELECT * FROM parquet.`{lake}` WHERE id = ({largest})").collect()
    assert [files for files, _, _ in metrics_of_scans(enabled)] == [FILES - 1] * 2

    # adaptive execution plans the scan again
    enabled.createDataFrame([(U,)], "user int").write.parquet(str(tmp_path / "keys"))
    enabled.sql(f"SELECT * FROM parquet.`{lake}` JOIN parquet.`{tmp_path / 'keys'}` USING (user)").collect()
    assert [files for files, _, _ in metrics_of_scans(enabled) if files is not None] == [FILES - 1]

    enabled.read.parquet(str(lake)).where("upper(url) = 'x'").collect()
    assert metrics_of_scans(enabled) == [(None, None, FILES)]


def test_disable_and_enable_again(enabled, lake):
    query = f"SELECT * FROM parquet.`{lake}` WHERE user = {U}"
    held = enabled.sql(query)
    assert files_of(held) == [1]
    ias.disable(enabled)
    try:
        assert files_of(enabled.sql(query)) == [FILES]
        assert len(held.collect()) == 1
        assert ias.last_skips(enabled) == []
        assert files_of(enabled.newSession().sql(query)) == [FILES]
    finally:
        ias.enable(enabled)
    ias.enable(enabled)  # the second time changes nothing
    assert files_of(enabled.sql(query)) == [1]
    assert enabled._jsparkSession.experimental().extraOptimizations().size() == 1
    assert enabled._jsparkSession.experimental().extraStrategies().size() == 1


def test_the_lake_index_plans_without_opening_files(enabled, copy):
    ia.open(str(copy)).build_lake_index()
    found = compare(enabled, lambda: enabled.read.parquet(str(copy)).where(f"user = {U}"))
    assert found.files == 1
    (skip,) = ias.last_skips(enabled)
    assert skip.report["files"]["opened"] == 1


# --- files that change


def test_insert_overwrite_and_refresh(enabled, copy, tmp_path):
    enabled.sql(f"CREATE OR REPLACE TEMP VIEW extra AS SELECT * FROM parquet.`{copy}` WHERE id < 3")
    enabled.sql("DROP TABLE IF EXISTS held")
    enabled.sql(f"CREATE TABLE held USING parquet LOCATION '{copy}'")
    try:
        frame = enabled.table("held").where(f"user = {U}")
        frame._jdf.queryExecution().executedPlan()
        assert frame.count() == 1
        insert = f"SELECT id, {U} AS user, country, url, amount, code, st FROM extra"
        enabled.sql(f"INSERT INTO held {insert}")
        assert enabled.table("held").where(f"user = {U}").count() == 4
        assert frame.count() == 4
        enabled.sql(f"CREATE TABLE made USING parquet LOCATION '{tmp_path / 'made'}' AS SELECT * FROM held")
        enabled.sql(f"INSERT OVERWRITE made {insert}")
        assert len(compare(enabled, lambda: enabled.table("made").where(f"user = {U}")).rows) == 6
    finally:
        enabled.sql("DROP TABLE IF EXISTS held")
        enabled.sql("DROP TABLE IF EXISTS made")
        enabled.catalog.dropTempView("extra")


def test_files_of_the_last_two_seconds_are_not_planned(enabled, tmp_path):
    write_file(tmp_path / "a.parquet", 1)
    os.utime(tmp_path / "a.parquet")
    frame = enabled.read.parquet(str(tmp_path)).where("user = -1")
    assert files_of(frame) == [1]
    assert [(skip.reason is None, skip.report) for skip in ias.last_skips(enabled)] == [(False, {})]


# --- files of other kinds


def test_files_without_page_index_are_read_by_row_groups(enabled, tmp_path):
    for ordinal in range(2):
        write(
            tmp_path / f"{ordinal}.parquet",
            rows_of_file(ordinal),
            (),
            row_group_size=100,
            max_rows_per_page=20,
        )
    found = compare(enabled, lambda: enabled.read.parquet(str(tmp_path)).where("id BETWEEN 105 AND 107"))
    assert found.enabled == [(1, 100)]
    ia.attach(tmp_path / "0.parquet", [ia.RowMap("code")])
    age(tmp_path / "0.parquet")
    code = rows_of_file(0)["code"][33].as_py()
    found = compare(
        enabled, lambda: enabled.read.parquet(str(tmp_path / "0.parquet")).where(f"code = '{code}'")
    )
    assert found.enabled == [(1, 100)]  # a row map excludes the other rows, but the pages cannot be found


def test_a_damaged_offset_index_is_not_used(enabled, tmp_path):
    path = tmp_path / "a.parquet"
    write(
        path, rows_of_file(0), [ia.PageIndex(), ia.RowMap("code")], row_group_size=200, max_rows_per_page=20
    )
    write_file(tmp_path / "b.parquet", 4)
    data = bytearray(path.read_bytes())
    start = offset_index_of(path)
    data[start : start + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    age(path)
    code = rows_of_file(0)["code"][33].as_py()
    assert (
        len(compare(enabled, lambda: enabled.read.parquet(str(tmp_path)).where(f"code = '{code}'")).rows) == 1
    )


def test_mixed_schemas(enabled, tmp_path):
    """Columns that are missing, in other case, and of other types; a user's own schema."""
    write(tmp_path / "a.parquet", pa.table({"id": pa.array(range(100), pa.int32()), "Name": ["x"] * 100}))
    write(tmp_path / "b.parquet", pa.table({"ID": pa.array(range(50, 150), pa.int32())}))
    write(tmp_path / "c.parquet", pa.table({"other": pa.array(range(100), pa.int32())}))
    schema = "id bigint, name string, absent int"
    for where in (
        "id = 60",
        "id = 200",
        "name = 'x'",
        "name IS NULL AND id > 10",
        "absent IS NULL AND id = 60",
        "absent = 1",
    ):
        compare(enabled, lambda where=where: enabled.read.schema(schema).parquet(str(tmp_path)).where(where))


def test_a_data_column_named_like_metadata(enabled, tmp_path):
    write(
        tmp_path / "a.parquet", pa.table({"file_name": ["x", "y"], "_metadata": [1, 2], "row_index": [5, 6]})
    )
    write(
        tmp_path / "b.parquet", pa.table({"file_name": ["z", "y"], "_metadata": [3, 2], "row_index": [7, 6]})
    )
    for where in ("file_name = 'y'", "_metadata = 1", "row_index = 7", "_metadata = 9"):
        compare(enabled, lambda where=where: enabled.read.parquet(str(tmp_path)).where(where))


@pytest.mark.filterwarnings("ignore::intarsia.errors.IntarsiaWarning")
def test_corrupt_files(enabled, copy):
    (copy / "part-2.parquet").write_bytes(b"PAR1 is not enough PAR1")
    age(copy / "part-2.parquet")
    schema = enabled.read.parquet(str(copy / "part-1.parquet")).schema
    reader = enabled.read.schema(schema).option("ignoreCorruptFiles", "true")
    assert len(compare(enabled, lambda: reader.parquet(str(copy)).where(f"user = {U}")).rows) == 1


def test_a_query_that_fails_by_itself_is_not_a_failure_of_the_planner(enabled, tmp_path):
    """After three failures in a row, no scan is planned for a minute."""
    for day in ("1", "x"):
        write_file(tmp_path / f"day={day}" / "a.parquet", 0)
    frame = enabled.read.parquet(str(tmp_path))
    for _ in range(4):
        with pytest.raises(NumberFormatException):
            frame.where("day = 1 AND id = 3").collect()
        assert "CAST_INVALID_INPUT" in ias.last_skips(enabled)[0].reason
    assert frame.where("day = '1' AND id = 3").count() == 1
    assert ias.last_skips(enabled)[0].reason is None


def test_zero_rows_and_no_files(enabled, tmp_path):
    write(tmp_path / "a.parquet", rows_of_file(0).slice(0, 0))
    assert compare(enabled, lambda: enabled.read.parquet(str(tmp_path)).where("id = 1")).rows == []
    schema = enabled.read.parquet(str(tmp_path)).schema
    (tmp_path / "empty").mkdir()
    assert (
        compare(
            enabled, lambda: enabled.read.schema(schema).parquet(str(tmp_path / "empty")).where("id = 1")
        ).rows
        == []
    )


def test_the_same_file_twice(enabled, lake):
    path = str(lake / "part-3.parquet")
    assert len(compare(enabled, lambda: enabled.read.parquet(path, path).where("id = 613")).rows) == 2


def test_names_of_files_with_special_characters(enabled, tmp_path):
    folder = tmp_path / "a b%20ü=#+[1]" / "x=a%2Fb"
    write_file(folder / "p é%41.parquet", 3)
    found = compare(enabled, lambda: enabled.read.parquet(str(tmp_path)).where("id = 613"))
    assert found.enabled == [(1, 20)]
    assert (
        compare(enabled, lambda: enabled.read.parquet(str(tmp_path)).where("x = 'a/b' AND id = 613")).files
        == 1
    )
    assert (
        compare(enabled, lambda: enabled.read.parquet(str(tmp_path)).where("x = 'a%2Fb' OR id = 1")).files
        == 0
    )


# --- failures


@pytest.fixture
def failing(enabled):
    """Enables a session with another planner."""

    def enable(answer, seconds=10.0):
        ias.enable(enabled, timeout_seconds=seconds, planner=answer)

    yield enable
    ias.enable(enabled)


@pytest.mark.parametrize(
    "reply",
    [
        "not JSON",
        "{}",
        "[]",
        '{"files": 7, "kept": []}',
        '{"files": 8}',
        '{"files": 8, "kept": [[99, 5]]}',
        '{"files": 8, "kept": [[0, 5, 3]]}',
        '{"files": 8, "kept": [[]]}',
        "null",
    ],
)
def test_answers_that_are_not_understood(enabled, lake, failing, reply):
    failing(lambda request: reply)
    found = compare(enabled, lambda: enabled.read.parquet(str(lake)).where(f"user = {U}"), may_fail=True)
    assert found.files == FILES
    assert ias.last_skips(enabled)[0].reason.startswith("failed: ")


def test_a_planner_that_fails_or_hangs(enabled, lake, failing):
    asked = []

    def fail(request):
        asked.append(request)
        raise RuntimeError("no plan")

    failing(fail)
    for _ in range(4):
        assert files_of(enabled.read.parquet(str(lake)).where(f"user = {U}")) == [FILES]
    assert len(asked) == 3  # then it is not asked for a while
    failing(lambda request: time.sleep(3), seconds=0.2)
    assert files_of(enabled.read.parquet(str(lake)).where(f"user = {U}")) == [FILES]
    assert "200 ms" in ias.last_skips(enabled)[0].reason


def test_the_advice_of_the_planner(enabled, lake, failing):
    failing(lambda request: '{"reason": "planning takes too long", "advice": "build a lake index"}')
    enabled.read.parquet(str(lake)).where(f"user = {U}").collect()
    (skip,) = ias.last_skips(enabled)
    assert skip.advice == "build a lake index"
    assert str(skip).endswith(skip.advice)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_time_limit_that_is_none(spark, seconds):
    with pytest.raises(ValueError, match="timeout_seconds"):
        ias.enable(spark, timeout_seconds=seconds)


def test_an_unknown_version_of_spark(spark):
    class Other:
        version = "5.0.0"

    with pytest.warns(ia.IntarsiaWarning, match=r"5\.0\.0"):
        ias.enable(Other())


def offset_index_of(path):
    """Return the offset of the OffsetIndex of the first column in a file."""
    from intarsia.file import ParquetInput
    from intarsia.storage import LocalFile

    with ParquetInput(LocalFile(str(path))) as file:
        return file.footer.metadata.row_groups[0].columns[0].offset_index_offset
