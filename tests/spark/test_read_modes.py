"""The modes of `ias.read`: the same rows in each, from fewer pages where that is possible."""

import datetime as dt
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import intarsia as ia
import intarsia.spark as ias
from intarsia.errors import UnsupportedFeatureError
from tests.lake.index.lakes import age, write
from tests.spark import lakes
from tests.spark.comparing import rows, rows_of_each, rows_with_matches, settings
from tests.spark.skipping import FILES, INDEXES, SWITCH, code_of, dropped, make_lake, scans

MODES = ("native", "pages", "files", "auto")
#: A value within the bounds of all pages, which only an embedded index finds.
CODE = code_of(3, 120)
WHERE = f"code = '{CODE}'"

#: The rows of the file in the pages that Spark cannot exclude by itself.
BY_SPARK = 40


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return make_lake(tmp_path_factory.mktemp("modes") / "lake")


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """Files with other columns, other names, other widths, nested columns and INT96, in partitions."""
    folder = tmp_path_factory.mktemp("shapes") / "lake"
    for ordinal in range(6):
        first = dt.datetime(2024, 1, 1 + ordinal, tzinfo=dt.timezone.utc)
        numbers = [ordinal * 100 + row for row in range(100)]
        columns = {
            "Id" if ordinal % 2 else "id": pa.array(numbers, pa.int64()),
            "at": pa.array(
                [first + dt.timedelta(minutes=row) for row in range(100)], pa.timestamp("us", "UTC")
            ),
            "st": [{"a": number, "B": [number, None], "m": {"k": f"v{number}"}} for number in numbers],
            "list": [[f"w{number % 7}", None] if number % 5 else None for number in numbers],
            "dec": pa.array(numbers, pa.decimal128(9, 2)),
            "raw": [f"{number}".encode() for number in numbers],
        }
        if ordinal not in (1, 3):
            columns["extra"] = [None if number % 4 == 0 else f"e{number}" for number in numbers]
        path = folder / f"day=2024-01-0{1 + ordinal % 2}" / f"kind={'ab'[ordinal % 2]}" / f"{ordinal}.parquet"
        write(
            path,
            pa.table(columns),
            [ia.PageIndex(), ia.Distinct("st.a")],
            row_group_size=50,
            max_rows_per_page=10,
            use_deprecated_int96_timestamps=True,
        )
    return str(folder)


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """Files of every flat type, in partitions with integers, nulls and text."""
    folder = tmp_path_factory.mktemp("typed") / "lake"
    for ordinal, table in enumerate(lakes.tables()):
        value = ["1", "2", "__HIVE_DEFAULT_PARTITION__"][ordinal % 3]
        path = folder / f"k={value}" / f"t=a%20{ordinal % 2}" / f"{ordinal}.parquet"
        write(path, table, [ia.PageIndex()], row_group_size=20, max_rows_per_page=5)
    return str(folder)


def check(spark, path, where, *, columns=None, modes=MODES):
    """Compare each mode with plain Spark; return the files, and the rows out of the scan, of each."""
    plain = spark.read.parquet(path).where(where)
    plain = plain if columns is None else plain.select(*columns)
    expected = rows(plain)
    found = {}
    for mode in modes:
        frame = ias.read(spark, path, where, columns, mode=mode)
        assert (mode, frame.schema) == (mode, plain.schema)
        assert (mode, rows(frame)) == (mode, expected)
        found[mode] = [sum(column) for column in zip(*scans(frame), strict=True)]
    return found


def test_the_modes_read_less_and_less(spark, lake):
    found = check(spark, str(lake), WHERE)
    assert found["files"] == [1, BY_SPARK]
    assert found["native"] == found["auto"] == [1, 1]
    choice = ias.last_read(spark)
    assert (choice.mode, choice.reason) == ("native", None)
    assert choice.report["files"] == {"total": FILES, "read": 1, "opened": FILES, "other": 0}
    assert choice.report["rows"]["candidates"] == 1


def test_a_session_that_may_find_columns_by_field_id(spark, tmp_path, lake):
    """Delta sets the setting for all scans, but Spark uses field ids only if the schema has them."""
    by_id = {
        "spark.sql.parquet.fieldId.read.enabled": "true",
        "spark.sql.parquet.filterPushdown": "false",  # by which Spark itself loses the row
    }
    with settings(spark, by_id), dropped(spark, "with_ids"):
        assert check(spark, str(lake), WHERE)["files"][0] == 1
        assert ias.explain(spark, str(lake), WHERE).files_read == 1
        # the ids of the table name other fields of the file than the names do
        pair = [
            StructField(name, LongType(), metadata={"parquet.field.id": 2 - place})
            for place, name in enumerate("ab")
        ]
        empty = spark.createDataFrame([], StructType([StructField("st", StructType(pair))]))
        empty.write.option("path", str(tmp_path)).saveAsTable("with_ids")
        pair = [
            pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(1 + place)})
            for place, name in enumerate("ab")
        ]
        pq.write_table(
            pa.table({"st": pa.array([{"a": 3, "b": 4}], pa.struct(pair))}), tmp_path / "1.parquet"
        )
        spark.catalog.refreshTable("with_ids")
        for mode in MODES:
            assert ias.read(spark, "with_ids", "st.a = 4", mode=mode).count() == 1
        assert spark.table("with_ids").where("st.a = 4").count() == 1


def test_pages_are_read_by_tasks(spark, lake):
    frame = ias.read(spark, lake, WHERE, ["id", "country", "st"], mode="pages")
    plain = spark.read.parquet(str(lake)).where(WHERE).select("id", "country", "st")
    assert frame.schema == plain.schema
    assert rows(frame) == rows(plain)
    assert not scans(frame)
    assert str(ias.last_read(spark)).startswith(f"pages: 1 of {FILES} files")
    other = ias.read(spark, lake, "code = 'c0001'", mode="pages").select("id", "country", "st")
    plain_other = spark.read.parquet(str(lake)).where("code = 'c0001'").select("id", "country", "st")
    assert rows(frame.union(other)) == rows(plain.union(plain_other))
    assert rows(frame) == rows(plain)
    for where in ("_metadata.row_index = 5", "id >= 0", "lower(country) = 'country 4'"):
        found = ias.read(spark, lake, where, ["id"], mode="pages")
        assert found.count() == spark.read.parquet(str(lake)).where(where).count()
        assert ias.last_read(spark).mode == "files"


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_pages_of_every_type(spark, typed, zone):
    whole = spark.read.parquet(typed)
    wheres = ["i = 23000", "i = 13000 AND k = 2", "dec BETWEEN 30 AND 31 AND t = 'a 1'"]
    with settings(spark, {"spark.sql.session.timeZone": zone}):
        for columns in (None, [name for name in whole.columns if name not in ("ts", "ntz", "dt")]):
            frames = []
            for where in wheres:
                frames.append(ias.read(spark, typed, where, columns, mode="pages"))
                assert ias.last_read(spark).mode == "pages"
            plain = whole if columns is None else whole.select(*columns)
            assert [frame.schema for frame in frames] == [plain.schema] * len(wheres)
            assert rows_of_each(frames) == rows_with_matches(plain, wheres)


def test_auto_reads_pages_if_that_saves_enough(spark, lake):
    where = f"{WHERE} AND current_date() > DATE '2000-01-01'"  # which is not planned natively
    spark.conf.set("spark.intarsia.minSavedBytes", "1000")
    try:
        assert ias.read(spark, lake, where, ["id"]).count() == 1
        assert ias.last_read(spark).mode == "pages"
    finally:
        spark.conf.unset("spark.intarsia.minSavedBytes")
    assert ias.read(spark, lake, where, ["id"]).count() == 1
    assert ias.last_read(spark).mode == "files"


def test_times_of_unknown_writers_are_left_to_spark(spark, typed):
    with settings(spark, {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}):
        assert ias.read(spark, typed, "i = 23000", ["i", "dt"], mode="pages").count() > 0
        assert ias.last_read(spark).mode == "files"
        assert ias.read(spark, typed, "i = 23000", ["i", "s"], mode="pages").count() > 0
        assert ias.last_read(spark).mode == "pages"


def test_a_replaced_file_is_not_read_by_pages(spark, tmp_path):
    path = tmp_path / "lake" / "0.parquet"
    write(path, pa.table({"x": list(range(100))}), INDEXES[:1], max_rows_per_page=10)
    frame = ias.read(spark, path, "x = 55", mode="pages")
    assert [row.x for row in frame.collect()] == [55]
    write(path, pa.table({"x": [55] * 100}), INDEXES[:1], max_rows_per_page=10)
    with pytest.raises(Exception, match="replaced after it was planned"):
        frame.collect()


def test_the_session_is_not_enabled(spark, lake):
    frame = ias.read(spark, lake, WHERE, mode="native")
    plain = spark.read.parquet(str(lake)).where(WHERE)
    assert rows(frame) == rows(plain)
    assert scans(plain)[0][0] == FILES
    assert not ias.last_skips(spark)


def test_the_same_rows_of_every_shape(spark, shapes):
    """The frames of all conditions are the branches of one query in each mode.

    The expected rows are from one query that evaluates the conditions as columns, and skips nothing.
    """
    of_times = ["at = TIMESTAMP '2024-01-03 00:15:00'", "at > TIMESTAMP '2024-01-06 01:30:00' AND kind = 'b'"]
    others = [
        "st.a = 333 AND id > 0",
        "ST.A IN (12, 512) OR extra = 'e107'",
        "extra IS NULL AND st.a BETWEEN 298 AND 303",
        "day = DATE '2024-01-01' AND ID < 5",
        "kind = 'c'",
        "dec = 17",
        "raw = X'3137'",
        "list[0] = 'w3' AND st.a < 20",
        "st.m['k'] = 'v77' OR st.b IS NULL",
        "id = -1",
        "rand(1) >= 0 AND st.a = 5",
    ]
    whole = spark.read.parquet(shapes)
    columns = ["kind", "ST", "extra", "list", "day", "raw"]
    for mode, wheres, chosen in (
        ("native", [*of_times, *others], None),
        ("pages", of_times, None),  # Spark reads files with INT96
        ("pages", others, columns),
    ):
        plain = whole.select(*chosen or whole.columns)
        frames = [ias.read(spark, shapes, where, chosen, mode=mode) for where in wheres]
        assert [frame.schema for frame in frames] == [plain.schema] * len(wheres)
        matching = rows_with_matches(whole, wheres, columns=plain.columns)
        for where, found, expected in zip(wheres, rows_of_each(frames), matching, strict=True):
            assert (mode, where, found) == (mode, where, expected)


def test_columns_and_pyarrow_expressions_prune_natively(spark, lake):
    import pyarrow.compute as pc
    import pyspark.sql.functions as sf

    for where in (sf.col("code") == CODE, pc.field("code") == CODE):
        frame = ias.read(spark, lake, where)
        assert (len(frame.collect()), scans(frame)) == (1, [(1, 1)])
    assert ias.read(spark, lake, sf.col("user") == 1, mode="files").count() == 0
    assert ias.last_read(spark).mode == "files"


def test_metadata_columns_and_further_conditions(spark, lake):
    frame = ias.read(spark, lake, "country = 'country 4'", mode="native")
    plain = spark.read.parquet(str(lake)).where("country = 'country 4'")
    names = ("id", "_metadata.file_name", "_metadata.row_index")
    assert rows(frame.select(*names)) == rows(plain.select(*names))
    other = ias.read(spark, lake, "country = 'country 7'", mode="native")
    plain_other = spark.read.parquet(str(lake)).where("country = 'country 7'")
    assert rows(frame.union(other)) == rows(plain.union(plain_other))
    assert frame.join(other, frame["url"] == other["url"]).count() == 0
    assert rows(frame.where("user > 50000")) == rows(plain.where("user > 50000"))
    assert len(frame.inputFiles()) == len({row[1] for row in plain.select(*names).collect()})


def test_a_condition_on_the_time_is_not_planned_natively(spark, lake):
    where = "id = 7 AND current_date() > DATE '2000-01-01'"
    frame = ias.read(spark, lake, where)
    assert [row.id for row in frame.collect()] == [7]
    assert ias.last_read(spark).mode == "files"
    assert scans(frame)[0][0] == 1
    frame = ias.read(spark, lake, where, mode="native")
    assert [row.id for row in frame.collect()] == [7]
    assert ias.last_read(spark).reason is not None


def test_subqueries_are_left_to_spark(spark, lake):
    where = f"user = (SELECT min(user) FROM parquet.`{lake}`)"
    for mode in MODES:
        assert ias.read(spark, lake, where, mode=mode).count() == 1


def test_files_that_change_after_planning(spark, tmp_path):
    folder = tmp_path / "lake"
    for ordinal in range(3):
        table = pa.table({"x": list(range(ordinal * 100, ordinal * 100 + 100))})
        write(folder / f"{ordinal}.parquet", table, INDEXES[:1], max_rows_per_page=10)
    frame = ias.read(spark, folder, "x = 150", mode="native")
    assert frame.count() == 1
    write(folder / "0.parquet", pa.table({"x": [150] * 90}), INDEXES[:1])
    age(folder / "0.parquet")
    assert frame.count() == 91


def test_in_an_enabled_session(enabled, lake):
    frame = ias.read(enabled, lake, WHERE)
    assert (len(frame.collect()), scans(frame)) == (1, [(1, 1)])
    assert ias.last_read(enabled).report["files"]["read"] == 1
    with settings(enabled, {SWITCH: "false"}):
        frame = ias.read(enabled, lake, WHERE)
        assert (len(frame.collect()), scans(frame)) == (1, [(1, BY_SPARK)])
        choice = ias.last_read(enabled)
        assert (choice.mode, choice.reason) == ("files", f"{SWITCH} is false")
        frame = ias.read(enabled, lake, WHERE, mode="native")
        assert (len(frame.collect()), scans(frame)) == (1, [(1, 1)])
        assert ias.last_read(enabled).reason is None


def test_tables_of_the_catalog(spark, lake):
    with dropped(spark, "moded", "padded"):
        spark.sql(f"CREATE TABLE moded USING parquet LOCATION '{lake}'")
        frame = ias.read(spark, "moded", f"moded.code = '{CODE}'")
        assert (len(frame.collect()), scans(frame), len(frame.inputFiles())) == (1, [(1, 1)], 1)
        spark.sql(f"CREATE TABLE padded (id bigint, code char(9)) USING parquet LOCATION '{lake}'")
        plain = spark.table("padded").where("id = 5")
        for mode in MODES:
            assert rows(ias.read(spark, "padded", "id = 5", mode=mode)) == rows(plain)
            assert not ias.last_read(spark).report


def test_a_table_that_is_read_is_not_overwritten(spark, tmp_path):
    """Spark would delete its files before it reads them, and refuses that if the plan has the table."""
    from pyspark.errors import AnalysisException

    table, where = make_lake(tmp_path / "table"), f"{WHERE} AND id < 10000"
    with dropped(spark, "overwritten"):
        spark.sql(f"CREATE TABLE overwritten USING parquet LOCATION '{table}'")
        expected = rows(spark.table("overwritten").where(where))
        for mode in MODES:
            for source in ("overwritten", table):
                frame = ias.read(spark, source, where, mode=mode)
                assert ias.last_read(spark).mode == ("native" if mode == "auto" else mode)
                with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
                    frame.write.insertInto("overwritten", overwrite=True)
                if source == "overwritten":
                    with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
                        frame.write.mode("overwrite").saveAsTable("overwritten")
                assert rows(frame) == expected
                assert "Join" not in frame._jdf.queryExecution().optimizedPlan().toString()
                assert len(frame.inputFiles()) == (0 if mode == "pages" else 1)


@pytest.mark.parametrize("folder", ["p=2", "v2", "v2/p=2"])
def test_partitions_have_the_values_of_the_catalog(spark, tmp_path, folder):
    """Spark does not read them from the names of folders."""
    root = tmp_path / "table"
    with dropped(spark, "placed"):
        spark.sql(
            f"CREATE TABLE placed (id BIGINT, p INT) USING parquet PARTITIONED BY (p) LOCATION '{root}'"
        )
        spark.sql(f"ALTER TABLE placed ADD PARTITION (p = 1) LOCATION '{root / folder}'")
        spark.sql("INSERT INTO placed SELECT id, CAST(id % 2 AS INT) FROM range(100)")
        for where in ("p = 1", "p = 2", "p = 0 AND id < 20", "id < 20"):
            plain = spark.table("placed").where(where)
            for mode in MODES:
                assert rows(ias.read(spark, "placed", where, mode=mode)) == rows(plain)
        with pytest.raises(UnsupportedFeatureError) as caught:
            ias.aggregate(spark, "placed", "max(p)", progress=False)
        assert caught.value.reason == "partition-elsewhere"
        assert caught.value.path.startswith(str(root / folder))
        assert int(ias.approx_distinct(spark, "placed", "id", progress=False)) == 100


@pytest.mark.parametrize("is_repaired", [True, False])
def test_partitions_of_a_table_are_pruned_by_their_values(spark, tmp_path, is_repaired):
    root = tmp_path / "months"
    folders = {0: root / "month=0", 1: root / "month=01"}
    parts = [f"PARTITION (month = {month}) LOCATION '{folder}'" for month, folder in folders.items()]
    add = "MSCK REPAIR TABLE months" if is_repaired else f"ALTER TABLE months ADD {' '.join(parts)}"
    spark.range(100).selectExpr("id", "id % 2 AS month").write.partitionBy("month").parquet(str(root))
    os.rename(root / "month=1", folders[1])
    with dropped(spark, "months"):
        columns = "(id BIGINT, Month INT) USING parquet PARTITIONED BY (Month)"
        spark.sql(f"CREATE TABLE months {columns} LOCATION '{root}'")
        spark.sql(add)
        assert ias.read(spark, "months", "month = 1", mode="files").count() == 50
        files = ias.last_read(spark).report["files"]
        assert (files["total"] - files["read"]) * 2 == files["total"] > 0
        assert ias.aggregate(spark, "months", "count(*), max(id)", "month = 1", progress=False) == {
            "*": {"count": 50},
            "id": {"max": 99},
        }


def test_an_unknown_mode(spark, lake):
    with pytest.raises(ValueError, match="native"):
        ias.read(spark, lake, mode="fast")
    ias.read(spark, lake)
    assert ias.last_read(spark).mode == "files"


def test_files_without_a_column_of_a_type_that_python_cannot_return(spark, tmp_path):
    """Spark reads all files of the frame, also those in which the column is null in every row."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    spark.range(100).selectExpr("id", "make_dt_interval(0, 0, id) AS took").coalesce(1).write.parquet(first)
    write(
        tmp_path / "second" / "0.parquet",
        pa.table({"id": range(100, 200)}),
        INDEXES[:1],
        max_rows_per_page=10,
    )
    plain = spark.read.parquet(first, second).where("id = 155")
    frame = ias.read(spark, [first, second], "id = 155", mode="pages")
    assert (frame.schema, rows(frame)) == (plain.schema, rows(plain))
    assert ias.last_read(spark).mode == "files"
