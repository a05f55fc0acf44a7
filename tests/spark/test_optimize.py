"""`ias.optimize`: the rows, order and layout of a rewritten lake, and what it refuses."""

import os
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.errors import ColumnNotFoundError, IntarsiaError, UnsupportedFeatureError, WriteError
from intarsia.format import thrift, thrift_tree
from intarsia.spark.checksums import (
    Checksums,
    batches_of_counted_rows,
    checksums,
    likely_row_bytes,
    with_hashes,
)
from intarsia.spark.part_files import PartOptions, Staging, outcome_of, write_parts
from tests.spark import lakes
from tests.spark.comparing import rows
from tests.spark.test_indexing import contents, write_lake
from tests.verify.damage import Damage


def quietly(spark, source, destination, **options):
    return ias.optimize(spark, source, str(destination), progress=False, **options)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Every type of the Spark tests, with nulls, NaN and infinities, in files with different columns."""
    folder = tmp_path_factory.mktemp("source") / "lake"
    lake = lakes.write_with_pyarrow(folder)
    pq.write_table(
        pa.table({"i": pa.array([10**6, None], pa.int32()), "late": ["ä", ""]}), folder / "late.parquet"
    )
    return lake


def test_the_rows_are_those_of_the_source(spark, source, tmp_path):
    """Also those of columns that only one file has, of nested columns, and of NaN and nulls."""
    before = contents(source)
    report = quietly(
        spark,
        source,
        tmp_path / "new" / "out",
        sort_by=["dec", ("s", "descending")],
        target_file_size=80_000,
        rows_per_page=16,
        indexes=[ia.Distinct("s"), ia.Bloom("l")],
    )
    assert contents(source) == before
    whole = spark.read.option("mergeSchema", "true").parquet(source)
    found = spark.read.parquet(report.destination)
    assert rows(found) == rows(whole)
    assert {field.name: field.dataType for field in found.schema} == {
        field.name: field.dataType for field in whole.schema
    }
    assert report.num_rows == whole.count() == 322
    assert report.verified == tuple(whole.columns)
    assert report.files_after == len(report.per_file) == 3
    assert sorted(contents(report.destination)) == [file.path for file in report.per_file]
    assert set(os.listdir(tmp_path / "new")) == {"out"}
    assert report.built == ("bloom(l)", "distinct(s):page")
    table = ia.open(report.destination)
    ordered = [value for file in report.per_file for value in pq.read_table(file.path)["dec"].to_pylist()]
    known = [value for value in ordered if value is not None]
    assert known == sorted(known)
    assert ordered[len(known) :] == [None] * (len(ordered) - len(known))
    assert table.count("s = 'k10'") == found.where("s = 'k10'").count()
    for file in report.per_file:
        checked = ia.verify(file.path)
        assert checked.ok, checked.findings
        pages = ia.open(file.path).explain("i = 0", columns=["i"]).to_dict()["pages"]["by_column"]
        assert pages["i"]["total"] == -(-file.num_rows // 16)
    written = pq.read_schema(report.per_file[0].path)
    assert str(written.field("ts").type) == "timestamp[us, tz=UTC]"
    assert str(written.field("ntz").type) == "timestamp[us]"
    assert report.to_dict()["files"] == {"before": 9, "after": report.files_after}
    assert str(report).splitlines()[0].startswith(f"{report.destination}: wrote 322 rows from 9 files")


@pytest.mark.parametrize("key", ["number", "text"])
def test_files_are_in_order(spark, tmp_path, key):
    """Also if most values are equal or null."""
    values = [None] * 40 + [7] * 150 + [value * 37 % 211 - 50 for value in range(210)]
    table = {
        "number": pa.array(values, pa.int16()),
        "text": [None if value is None else f"ü{value}'\\" if value % 2 else f"z{value}" for value in values],
        "pad": [f"{place * 7919 % 10_007}" for place in range(400)],
    }
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.table(table), tmp_path / "lake" / "a.parquet")
    report = quietly(spark, tmp_path / "lake", tmp_path / "out", sort_by=key, target_file_size=1500)
    assert rows(spark.read.parquet(report.destination)) == rows(spark.read.parquet(str(tmp_path / "lake")))
    assert report.files_after > 2
    found = [value for file in report.per_file for value in pq.read_table(file.path)[key].to_pylist()]
    known = [value for value in found if value is not None]
    assert known == sorted(known)
    assert found == [*known, *[None] * 40]


def test_days_that_python_lacks(spark, tmp_path):
    """Files are in order by days before the year 1 and after 9999."""
    lake = str(tmp_path / "lake")
    days = spark.range(0, 100, 1, 2).selectExpr("date_from_unix_date(id * 37 % 100 * 90000 - 1800000) AS day")
    days.write.parquet(lake)
    report = quietly(spark, lake, tmp_path / "out", sort_by="day", target_file_size=300)
    frame = spark.read.parquet(report.destination)
    assert report.files_after > 1
    in_files = frame.selectExpr("unix_date(day) AS d", "_metadata.file_name AS f", "_metadata.row_index AS r")
    assert [row.d for row in in_files.sort("f", "r").collect()] == list(range(-1800000, 7200000, 90000))


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """A lake of partitions with special characters and nulls, over two independent columns."""
    folder = tmp_path_factory.mktemp("grid") / "lake"
    rng = np.random.default_rng(5)
    for place, name in enumerate(["p=a%2Fb c", "p=__HIVE_DEFAULT_PARTITION__", "p=%C3%A9%3D"]):
        table = pa.table(
            {
                "x": rng.integers(0, 1000, 2000),
                "y": [f"k{value:03}" for value in rng.integers(0, 1000, 2000)],
                "dotted.name": np.full(2000, place),
                "m": pa.array([[(f"{value}", value)] for value in range(2000)], pa.map_("string", "int64")),
            }
        )
        (folder / name).mkdir(parents=True)
        pq.write_table(table, folder / name / "part.parquet")
    return str(folder)


@pytest.fixture(scope="module")
def grid_rows(spark, grid):
    return rows(spark.read.parquet(grid))


@pytest.mark.parametrize("curve", ["zorder_by", "hilbert_by"])
def test_a_curve_serves_conditions_on_each_column(spark, grid, grid_rows, tmp_path, curve):
    report = quietly(spark, grid, tmp_path / "out", partition_by=(), rows_per_page=100, **{curve: ["x", "y"]})
    assert rows(spark.read.parquet(report.destination)) == grid_rows
    assert report.files_after == 1
    table = ia.open(report.destination)
    for where in ("x BETWEEN 500 AND 510", "y BETWEEN 'k500' AND 'k510'"):
        pages = table.explain(where, columns=["x"]).to_dict()["pages"]
        assert pages["read"] < pages["total"] / 3


def test_partitions_are_kept(spark, grid, grid_rows, tmp_path):
    """Their names are those that Spark writes, and files are divided by size within them."""
    report = quietly(spark, grid, tmp_path / "out", sort_by="x")
    spark.read.parquet(grid).write.partitionBy("p").parquet(str(tmp_path / "plain"))
    folders = {name for name in os.listdir(tmp_path / "plain") if "=" in name}
    assert set(os.listdir(report.destination)) == folders
    assert len(folders) == 3
    found = spark.read.parquet(report.destination)
    assert rows(found) == grid_rows
    assert found.schema == spark.read.parquet(grid).schema
    small = quietly(spark, grid, tmp_path / "small", partition_by="dotted.name", target_file_size=10_000)
    assert small.files_after == 6
    assert {Path(file.path).parent.name for file in small.per_file} == {f"dotted.name={n}" for n in range(3)}
    assert sum(file.num_rows for file in small.per_file) == small.num_rows == 6000


def test_a_table_of_the_catalog(spark, grid, tmp_path):
    spark.read.parquet(grid).drop("m").write.partitionBy("p").saveAsTable("grid_table")
    try:
        report = quietly(spark, "grid_table", tmp_path / "out", sort_by=["x"])
        assert rows(spark.read.parquet(report.destination)) == rows(spark.table("grid_table"))
        assert len(os.listdir(report.destination)) == 3
        spark.sql("CREATE OR REPLACE TEMP VIEW grid_view AS SELECT 1 AS x")
        with pytest.raises(UnsupportedFeatureError) as caught:
            quietly(spark, "grid_view", tmp_path / "other")
        assert caught.value.reason == "not-a-table-of-files"
    finally:
        spark.sql("DROP TABLE grid_table")


def test_a_lake_without_rows(spark, tmp_path):
    write_lake(tmp_path / "lake", files=2, rows_of_each=0)
    report = quietly(spark, tmp_path / "lake", tmp_path / "out", sort_by="x", indexes=[ia.Distinct("s")])
    assert (report.num_rows, report.files_after, len(report.verified)) == (0, 1, 4)
    assert spark.read.parquet(report.destination).columns == ["x", "s", "y", "p"]


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"sort_by": "x", "zorder_by": "y"}, WriteError, "conflicting-orders"),
        ({"sort_by": "nowhere"}, ColumnNotFoundError, "no-such-column"),
        ({"hilbert_by": ["x", "nowhere"]}, ColumnNotFoundError, "no-such-column"),
        ({"zorder_by": []}, WriteError, "invalid-curve-columns"),
        ({"zorder_by": ["x", "x"]}, WriteError, "invalid-curve-columns"),
        ({"sort_by": "m"}, WriteError, "not-sortable"),
        ({"partition_by": "nowhere"}, ColumnNotFoundError, "no-such-column"),
        ({"partition_by": "m"}, WriteError, "invalid-partition-column"),
        ({"partition_by": ["p", "x", "y", "dotted.name", "m"]}, WriteError, "invalid-partition-column"),
        ({"sort_by": "p"}, WriteError, "partition-column-in-order"),
        ({"indexes": [ia.Distinct("nowhere")]}, ColumnNotFoundError, "no-such-column"),
        ({"indexes": [ia.Distinct("p")]}, ColumnNotFoundError, "no-such-column"),
        ({"compression": "none such"}, WriteError, "schema-not-writable"),
        ({"target_file_size": 0}, WriteError, "invalid-size"),
        ({"rows_per_page": 1.5}, WriteError, "invalid-size"),
    ],
    ids=str,
)
def test_arguments_are_checked_before_any_job(spark, grid, tmp_path, options, error, reason):
    calls = []
    with pytest.raises(error) as caught:
        ias.optimize(spark, grid, tmp_path / "out", progress=lambda *call: calls.append(call), **options)
    assert caught.value.reason == reason
    assert calls == []
    assert os.listdir(tmp_path) == []


def test_destinations(spark, grid, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "empty").mkdir()
    link = tmp_path / "link"
    link.symlink_to(Path(grid))
    for destination, reason in [
        (tmp_path / "full", "destination-not-empty"),
        (tmp_path / "full" / "x", "destination-not-empty"),
        (grid, "destination-in-source"),
        (Path(grid) / "new", "destination-in-source"),
        (link / "new", "destination-in-source"),
        (Path(grid).parent, "destination-in-source"),
        (Path(grid) / "p=new", "destination-in-source"),
        ("s3://bucket/new", "destination-not-local"),
    ]:
        with pytest.raises((WriteError, UnsupportedFeatureError)) as caught:
            quietly(spark, grid, destination)
        assert caught.value.reason == reason
    with pytest.raises(WriteError) as caught:
        quietly(spark, f"{grid}/*/*.parquet", Path(grid) / "new")
    assert caught.value.reason == "destination-in-source"
    assert quietly(spark, grid, f"file://{tmp_path}/empty").num_rows == 6000
    assert {"full", "empty", "link"} == set(os.listdir(tmp_path))
    strange = tmp_path / "a%20b [new] {x}*é"
    assert quietly(spark, f"{grid}/*/*.parquet", strange, sort_by="y").num_rows == 6000
    assert ia.open(strange).count() == 6000


@pytest.mark.parametrize("name", ["_delta_log/", ".hoodie/", "metadata/v1.metadata.json", "schema/schema-0"])
def test_tables_of_other_formats_are_refused(spark, tmp_path, name):
    write_lake(tmp_path / "lake", files=1, rows_of_each=10)
    (tmp_path / "lake" / name).parent.mkdir(exist_ok=True)
    if name.endswith("/"):
        (tmp_path / "lake" / name).mkdir()
    else:
        (tmp_path / "lake" / name).touch()
    for source in ("lake", "lake/p=0", "lake/*/*.parquet"):
        with pytest.raises(UnsupportedFeatureError) as caught:
            quietly(spark, str(tmp_path / source), tmp_path / "out")
        assert caught.value.reason == "managed-table"


def test_types_that_files_cannot_keep_are_refused(spark, tmp_path):
    spark.sql("SELECT INTERVAL '1' DAY AS i, 1 AS x").write.parquet(str(tmp_path / "lake"))
    with pytest.raises(UnsupportedFeatureError) as caught:
        quietly(spark, tmp_path / "lake", tmp_path / "out")
    assert (caught.value.reason, caught.value.column) == ("unsupported-type", "i")


def test_a_logical_type_of_a_later_version_is_refused(spark, tmp_path):
    """Spark cannot read the footer, so no row is rewritten."""
    folder = tmp_path / "lake"
    folder.mkdir()
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(pa.table({"x": range(10), "y": range(10)}), folder / name)
    damage = Damage(folder / "b.parquet")
    damage.tree.get(2).items[2].set(
        10, thrift.STRUCT, thrift_tree.Struct({19: (thrift.STRUCT, thrift_tree.Struct())})
    )
    damage.write()
    with pytest.raises(Exception, match=r"b\.parquet"):  # of py4j, or of Connect
        quietly(spark, folder, tmp_path / "new", sort_by="x")
    assert not (tmp_path / "new").exists()


def test_an_empty_string_cannot_be_a_partition(spark, tmp_path):
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.table({"x": [1, 2], "s": ["a", ""]}), tmp_path / "lake" / "a.parquet")
    with pytest.raises(WriteError) as caught:
        quietly(spark, tmp_path / "lake", tmp_path / "out", partition_by=["s"])
    assert (caught.value.reason, caught.value.column) == ("empty-partition-value", "s")
    assert os.listdir(tmp_path) == ["lake"]


def staged_files(folder):
    return list(folder.glob(".out.intarsia-*/data/**/*.parquet"))


@pytest.mark.parametrize("fault", ["lost", "doubled", "changed", "stopped", "occupied"])
def test_nothing_appears_unless_it_equals_the_source(spark, grid, tmp_path, fault):
    def meddle(done, total, label):
        if label != "verifying" or done:
            return
        first, *_ = staged_files(tmp_path)
        if fault == "lost":
            first.unlink()
        elif fault == "doubled":
            first.with_name("copy.parquet").write_bytes(first.read_bytes())
        elif fault == "changed":
            table = pq.read_table(first, partitioning=None)
            # every column keeps its values, but in other rows
            pq.write_table(table.set_column(0, "x", table["x"][::-1]), first)
        elif fault == "stopped":
            raise KeyboardInterrupt
        else:
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "theirs").touch()

    before = contents(grid)
    with pytest.raises((WriteError, KeyboardInterrupt)) as caught:
        ias.optimize(spark, grid, tmp_path / "out", target_file_size=30_000, sort_by="y", progress=meddle)
    if fault != "stopped":
        expected = "destination-not-empty" if fault == "occupied" else "verification-failed"
        assert caught.value.reason == expected
    assert os.listdir(tmp_path) == (["out"] if fault == "occupied" else [])
    assert contents(grid) == before


@pytest.mark.parametrize("change", ["removed", "damaged"])
def test_a_source_file_that_spark_cannot_read(spark, tmp_path, change):
    """The error is one sentence, and not the stack trace of Java."""
    source = write_lake(tmp_path / "lake", files=2, rows_of_each=50)
    first = sorted(Path(source).rglob("*.parquet"))[0]

    def meddle(done, total, label):
        if label == "reading":
            first.unlink() if change == "removed" else first.write_bytes(b"PAR1")

    with pytest.raises(WriteError) as caught:
        ias.optimize(spark, source, in_place=True, sort_by="x", progress=meddle)
    assert (caught.value.reason, len(str(caught.value).splitlines())) == ("unreadable-file", 1)
    assert os.listdir(tmp_path) == ["lake"]
    assert sum(path.is_file() for path in Path(source).rglob("*.parquet")) == 2 - (change == "removed")


@pytest.mark.parametrize(("phase", "change"), [("writing", "indexed"), ("verifying", "value")])
def test_a_source_that_changes_is_compared_again(spark, tmp_path, phase, change):
    """Files that were only indexed have the same rows. Other changes are found, even of as many rows."""
    source = write_lake(tmp_path / "lake", files=2, rows_of_each=50)
    first = sorted(Path(source).rglob("*.parquet"))[0]

    def meddle(done, total, label):
        if label != phase or done:
            return
        table = pq.read_table(first, partitioning=None)
        if change == "indexed":
            ia.attach(first, [ia.Distinct("s")])
        else:
            pq.write_table(table.set_column(0, "x", table["x"].combine_chunks()[::-1]), first)

    if change == "indexed":
        report = ias.optimize(spark, source, tmp_path / "out", sort_by="x", progress=meddle)
        assert report.num_rows == 100
        return
    with pytest.raises(WriteError) as caught:
        ias.optimize(spark, source, tmp_path / "out", sort_by="x", progress=meddle)
    assert caught.value.reason == "verification-failed"
    assert os.listdir(tmp_path) == ["lake"]


def test_files_of_a_killed_run_are_removed_and_those_of_a_running_one_are_kept(
    spark, grid, grid_rows, tmp_path
):
    killed = tmp_path / ".out.intarsia-0123456789abcdef"
    (killed / "data").mkdir(parents=True)
    (killed / "lock").touch()
    (killed / "data" / "part.parquet").touch()
    listed = []

    def start_another(done, total, label):
        if label == "verifying" and not done and not listed:
            listed.extend(name for name in os.listdir(tmp_path))
            quietly(spark, grid, tmp_path / "out")

    with pytest.raises(WriteError) as caught:
        ias.optimize(spark, grid, tmp_path / "out", progress=start_another)
    assert caught.value.reason == "destination-not-empty"
    assert len(listed) == 1
    assert killed.name not in listed
    assert os.listdir(tmp_path) == ["out"]
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == grid_rows


DIES = """
import os, sys
import intarsia as ia
from dies import Dies
from intarsia import spark as ias
lake, out, marks = sys.argv[1:]
report = ias.optimize(
    spark, lake, out, sort_by="x", target_file_size=20_000, indexes=[Dies("x", marks)], progress=False
)
print(report.num_rows, report.files_after > 1, spark.read.parquet(out).distinct().count())
found = sum(len(files) for _, _, files in os.walk(out))
print(found == report.files_after, os.listdir(os.path.dirname(out)))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_task_that_dies_is_retried(packages_host, tmp_path):
    """Files of an attempt that died are not among the result."""
    lake, marks = write_lake(tmp_path / "lake", files=2), tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "new").mkdir()
    printed = packages_host.run(DIES, lake, tmp_path / "new" / "out", marks)
    assert printed.splitlines() == ["2000 True 2000", "True ['out']"]
    assert len(os.listdir(marks)) > 1


def test_checksums_tell_nested_nulls_apart(spark):
    """Null, an empty list, a list of null and the text of null differ; the order of rows has no influence."""
    texts = ["NULL", "array()", "array(NULL)", "array('null')", "array('')"]
    structs = ["NULL", "named_struct('a', NULL)", "named_struct('a', 'null')"]
    maps = ["NULL", "map()", "map('a', NULL)", "map('a', 'null')"]
    for values, data_type in (
        (texts, "array<string>"),
        (structs, "struct<a:string>"),
        (maps, "map<string,string>"),
    ):
        frames = [spark.sql(f"SELECT CAST({value} AS {data_type}) AS c") for value in values]
        found = [checksums(spark, frame, lambda *_: None).rows for frame in frames]
        if data_type.startswith("map"):
            assert len(set(found)) == len(values) - 1  # texts of null in maps are not distinguished
        else:
            assert len(set(found)) == len(values)
    numbers = spark.range(1000).selectExpr("id", "id % 7 AS m")
    shuffled = numbers.orderBy("m").repartition(3)
    assert checksums(spark, numbers, lambda *_: None) == checksums(spark, shuffled, lambda *_: None)


def test_the_size_of_rows_is_estimated_from_texts_and_files(spark):
    frame = spark.createDataFrame([("é" * 500, None), ("b", bytearray(700))], "s string, b binary")
    found = likely_row_bytes(frame, 10)
    assert 1000 < found < 10_000
    assert likely_row_bytes(frame, 10_000) > 10 * found
    assert likely_row_bytes(frame.selectExpr("length(s)"), 10_000) < 100
    assert likely_row_bytes(frame.selectExpr("array(s)"), 10) is None
    assert checksums(spark, frame.limit(0), lambda *_: None) == Checksums(0, 0)


def test_checksums_of_the_driver_and_of_tasks_agree(spark):
    frame = spark.range(1000).selectExpr("id", "cast(id AS string) AS s")
    hashes = with_hashes(frame).toArrow().columns[-1].chunks
    found = sum(map(Checksums.of_hashes, hashes), Checksums())
    assert found == checksums(spark, frame, lambda *_: None)
    assert Checksums.of_hashes(pa.array([], pa.int64())) == Checksums()


@pytest.mark.parametrize(
    ("row_bytes", "limit"), [(1000, 10_000), (100_000, 671), (1 << 20, None), (None, None)]
)
def test_batches_of_small_rows_are_limited_by_rows(spark, row_bytes, limit):
    keys = [f"spark.sql.execution.arrow.max{unit}PerBatch" for unit in ("Records", "Bytes")]
    before = [spark.conf.get(key) for key in keys]
    with batches_of_counted_rows(spark, row_bytes):
        inside = [spark.conf.get(key) for key in keys]
    assert inside == (before if limit is None else [str(limit), str(2**31 - 1)])
    assert [spark.conf.get(key) for key in keys] == before


def test_settings_that_a_server_refuses_stay():
    class Settings(dict):
        def set(self, key, value):
            if key.endswith("BytesPerBatch"):
                raise ValueError(key)
            self[key] = value

    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    settings = Settings({key: "7", "spark.sql.execution.arrow.maxBytesPerBatch": "8"})
    session = SimpleNamespace(conf=settings)
    before = dict(settings)
    with batches_of_counted_rows(session, 100_000):
        assert settings == {**before, key: "671"}
    assert settings == before


def test_attempts_that_spark_does_not_report_leave_nothing(tmp_path):
    """As under speculation: two attempts finish, one counts, and a third one still runs afterwards."""
    schema = pa.schema([("x", pa.int64())])
    batch = pa.record_batch({"x": range(10), "p": ["a"] * 4 + [None] * 6, "hash": [1] * 10})
    with Staging(str(tmp_path / "out")) as staging:
        options = PartOptions(staging.attempts, schema, ("p",), 3, 4096, "zstd", None, ())
        attempts = [next(write_parts([batch], options, 7)).column(0).to_pylist() for _ in range(2)]
        *reports, read = map(outcome_of, attempts[1])
        assert read == Checksums(10, 10)
        kept = [staging.accept(report.path) for report in reports]
        staging.publish({})
    assert sorted(contents(tmp_path / "out")) == sorted(map(staging.published, kept))
    assert [Path(path).parent.name for path in sorted(kept)] == (
        ["p=__HIVE_DEFAULT_PARTITION__"] * 2 + ["p=a"] * 2
    )
    assert sorted(pq.read_table(tmp_path / "out")["x"].to_pylist()) == list(range(10))
    (outcome,) = next(write_parts([batch], options, 7)).column(0).to_pylist()
    with pytest.raises(WriteError) as caught:
        outcome_of(outcome)
    assert caught.value.reason == "no-such-folder"
    assert os.listdir(tmp_path) == ["out"]


def test_the_empty_folder_of_a_killed_run_is_removed(tmp_path):
    """It was killed before it made its lock, or after it removed the lock."""
    (tmp_path / ".out.intarsia-0123456789abcdef").mkdir()
    with Staging(str(tmp_path / "out")) as staging:
        assert os.listdir(tmp_path) == [os.path.basename(staging.folder)]


def test_an_attempt_that_runs_when_the_job_ends_leaves_nothing(tmp_path):
    """Its first rows come afterwards, and nobody would remove their files."""
    held = ExitStack()
    staging = held.enter_context(Staging(str(tmp_path / "out")))
    schema = pa.schema([("x", pa.int64())])

    def batches():
        held.close()
        yield pa.record_batch({"x": [1], "p": ["a"], "hash": [1]})

    options = PartOptions(staging.attempts, schema, ("p",), 3, 4096, "zstd", None, ())
    with pytest.raises(IntarsiaError) as caught:
        outcome_of(next(write_parts(batches(), options, 7)).column(0)[0].as_py())
    assert caught.value.reason == "no-such-folder"
    assert os.listdir(tmp_path) == []
