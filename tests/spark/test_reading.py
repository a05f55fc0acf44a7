"""`ias.read` and `ias.explain` on lakes of every shape."""

import datetime as dt
import functools
import os
import shutil

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.embed import PageIndex, attach
from intarsia.errors import IntarsiaWarning
from tests.spark.comparing import check, rows, rows_of_each, rows_with_matches, settings


def same_as_plain(spark, path, where, columns=None):
    """Compare the mode "files" with plain Spark without skipping, and return the number of files kept."""
    paths = path if isinstance(path, list) else [path]
    with settings(spark, {"spark.sql.parquet.filterPushdown": "false"}):
        plain = spark.read.parquet(*paths).where(where)
        plain = plain if columns is None else plain.select(*columns)
        expected = rows(plain)
        frame = ias.read(spark, path, where=where, columns=columns, mode="files")
        assert frame.schema == plain.schema
        assert rows(frame) == expected
    return len(frame.inputFiles())


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A lake of two years, two kinds and three files each; x identifies the file."""
    root = tmp_path_factory.mktemp("lake")
    for year in (2019, 2020):
        for kind in ("a", "b"):
            for part in range(3):
                x = list(range(part * 100, part * 100 + 100))
                words = [f"w{value % 50 + 50 * part}" for value in x]
                write(root / f"year={year}" / f"Kind={kind}" / f"part-{part}.parquet", x=x, word=words)
    return str(root)


#: Conditions, and the number of files that are kept.
CONDITIONS = {
    "x = 150": 4,
    "year = 2019": 6,
    "year = 2019 AND x = 150": 2,
    "YEAR = 2019 AND kind = 'a' AND X > 250": 1,
    "year = 2019 OR x = 150": 8,
    "year IN (2018, 2020) AND Kind LIKE 'b%' AND word = 'w3'": 1,
    "year BETWEEN 2018 AND 2019 AND NOT (x < 200)": 2,
    "year = 2018": 0,
    "x = -1 OR year IS NULL": 0,
    "upper(word) = 'W3' AND x < 50": 4,
    "upper(word) = 'W3' OR x < 50": 12,
    "NOT (upper(word) = 'W3' OR x >= 50)": 4,
    "NOT (upper(word) = 'W3' AND x >= 50)": 12,
    "year = '2019'": 6,
    "startswith(word, 'w12')": 8,
    "NOT ifnull(x >= 100, false)": 12,
    "year + 1 = 2020 AND x = 1": 4,
    "x = 1 /* one */": 4,
    "true": 12,
    "x = null": 0,
    "NOT (x <> null OR x < 50)": 0,
}


def test_functions_have_the_meaning_of_the_session(spark, lake):
    """Whether a session can redefine a function of Spark depends on its version: 4.3 prefers its own."""
    import pyspark.sql.functions as sf

    text = "startswith(word, 'w12')"
    assert len(ias.read(spark, lake, sf.expr(text), mode="files").inputFiles()) == 8
    spark.sql("CREATE TEMPORARY FUNCTION startswith(a STRING, b STRING) RETURNS BOOLEAN RETURN a < b")
    try:
        for where in (text, sf.expr(text)):
            frame = ias.read(spark, lake, where, mode="files")
            assert rows(frame) == rows(spark.read.parquet(lake).where(where))
            assert len(frame.inputFiles()) in (8, 12)
    finally:
        spark.sql("DROP TEMPORARY FUNCTION startswith")


def test_timestamps_without_zone_are_compared_in_that_of_the_session(spark, tmp_path):
    hours = [dt.datetime(2024, 3, 10, hour) for hour in range(24)]  # one is skipped in New York
    for day in range(6):
        times = pa.array([hour + dt.timedelta(days=day) for hour in hours], pa.timestamp("us"))
        write(tmp_path / "times" / f"{day}.parquet", ntz=times)
    path = str(tmp_path / "times")
    for zone, files in (("UTC", 1), ("America/New_York", 3)):
        with settings(spark, {"spark.sql.session.timeZone": zone}):
            for where in ("ntz = TIMESTAMP '2024-03-12 02:00:00'", "ntz >= TIMESTAMP '2024-03-15 01:00:00'"):
                frame = ias.read(spark, path, where, mode="files")
                assert rows(frame) == rows(spark.read.parquet(path).where(where))
                assert 1 <= len(frame.inputFiles()) <= files
            check(spark, path, [f"ntz {op} TIMESTAMP '2024-03-10 02:30:00'" for op in ("=", "<>", "<", ">")])


def test_files_are_excluded(spark, lake):
    """One query evaluates all conditions and skips nothing, another one has the frames of all of them."""
    whole = spark.read.parquet(lake)
    frames = [ias.read(spark, lake, where=where, mode="files") for where in CONDITIONS]
    matching = rows_with_matches(whole, list(CONDITIONS))
    for (where, files), frame, found, expected in zip(
        CONDITIONS.items(), frames, rows_of_each(frames), matching, strict=True
    ):
        assert frame.schema == whole.schema, where
        assert found == expected, where
        assert len(frame.inputFiles()) == files, where


def test_columns(spark, lake):
    frame = ias.read(spark, lake, where="x = 150 AND year = 2019", columns=["word", "YEAR"])
    assert frame.columns == ["word", "YEAR"]
    assert {tuple(row) for row in frame.collect()} == {("w50", 2019)}
    assert ias.read(spark, lake, columns="x").columns == ["x"]
    assert ias.read(spark, lake).count() == 1200


def test_a_column_object_prunes(spark, lake):
    import pyspark.sql.functions as sf

    frame = ias.read(spark, lake, where=(sf.col("x") == 150) & (sf.col("year") == 2019), mode="files")
    assert frame.count() == 2
    assert len(frame.inputFiles()) == 2


@pytest.mark.parametrize("where", ["nope = 1", "x = ", "x = 1 AND )", "x"])
def test_errors_of_spark_are_raised(spark, lake, where):
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException):
        ias.read(spark, lake, where=where)


def test_a_missing_path(spark, tmp_path):
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        ias.read(spark, tmp_path / "nowhere", where="x = 1")


def test_paths_in_every_form_of_spark(spark, lake, tmp_path, monkeypatch):
    flat = tmp_path / "flat"
    for part in range(3):
        write(flat / f"f{part}.parquet", x=[part], deep=["d"])
    write(flat / "nested" / "ignored.parquet", x=[0], deep=["d"])
    assert same_as_plain(spark, str(flat), "x = 0") == 1
    assert same_as_plain(spark, f"file://{flat}/", "x = 0") == 1
    assert same_as_plain(spark, f"{flat}/f[01].parquet", "x = 0") == 1
    assert same_as_plain(spark, f"{flat}/f{{0,1}}.parquet", "x = 0") == 2  # braces are left to Spark
    assert same_as_plain(spark, f"{flat}/f0.parquet", "x = 0") == 1
    assert same_as_plain(spark, [f"{flat}/f0.parquet", f"{flat}/f1.parquet"], "x = 0") == 1
    assert same_as_plain(spark, f"{lake}/year=*/Kind=a", "x = 150") == 2
    assert same_as_plain(spark, f"{lake}/year=2019", "x = 150 AND Kind = 'a'") == 1
    assert same_as_plain(spark, f"{lake}/year=20*9", "x = 150 AND Kind = 'a'") == 1
    assert same_as_plain(spark, [f"{lake}/year=2019/Kind=a", f"{lake}/year=2020/Kind=b"], "x = 150") == 2
    assert ias.read(spark, flat, where="x = 0").count() == 1
    monkeypatch.chdir(tmp_path)
    relative = os.path.relpath(flat, spark._jvm.System.getProperty("user.dir"))
    assert same_as_plain(spark, relative, "x = 0") in (1, 3)  # Spark's working directory is another one


@pytest.mark.parametrize("name", ["p[1]{a}*?.parquet", "p%20q #é.parquet", "p q&=.parquet"])
def test_names_with_special_characters(spark, tmp_path, name):
    write(tmp_path / "lake" / name, x=[1, 2])
    write(tmp_path / "lake" / "other.parquet", x=[3, 4])
    assert same_as_plain(spark, str(tmp_path / "lake"), "x = 1") == 1
    assert same_as_plain(spark, str(tmp_path / "lake"), "x = 3") == 1


def test_partition_values_are_parsed_like_spark(spark, tmp_path):
    lake = str(tmp_path / "lake")
    values = ["a/b", "50%", "x y", "é", "c=d", "[q]", "{w}*", None, "1", "01", "%41"]
    frame = spark.createDataFrame([(i, value) for i, value in enumerate(values)], "i int, p string")
    frame.write.partitionBy("p").parquet(lake)
    texts = ["p IS NULL" if value is None else f"p = '{value}'" for value in values]
    frames = [ias.read(spark, lake, where=text, mode="files") for text in texts]
    assert [len(frame.inputFiles()) for frame in frames] == [1] * len(values)
    # each row has another value, so that each of the frames must have its row
    assert rows(functools.reduce(lambda first, second: first.union(second), frames)) == rows(
        spark.read.parquet(lake)
    )
    assert same_as_plain(spark, lake, "p <> 'é'") == len(values) - 2
    assert same_as_plain(spark, lake, "p < 'a'") < len(values) - 3
    assert same_as_plain(spark, lake, "p IN ('x y', '01') AND i < 3") == 1
    write(tmp_path / "lake" / "p=%C3%A9x" / "f.parquet", i=pa.array([99], pa.int32()))
    assert same_as_plain(spark, lake, "p = 'éx'") == 0
    assert same_as_plain(spark, lake, "p LIKE '%x' AND p <> 'x'") >= 1


PARTITIONS = [
    (["2020-01-01", "2020-01-02"], ["p = DATE '2020-01-01'", "p > '2020-01-01'", "p = '2020-1-1'"]),
    (["1.0", "1.50", "2"], ["p = 1", "p > 1.2", "p = 1.5D", "p <> 2"]),
    (["1", "01", "3000000000"], ["p = 1", "p > 2", "p = 3000000000", "p < 1.5"]),
    (
        ["2020-01-01 10:00:00", "2020-01-02 11:00:00"],
        ["p > TIMESTAMP '2020-01-01 12:00:00'", "p < '2020-01-02'"],
    ),
    (["true", "false"], ["p = 'true'", "p < 'true'"]),
    (["a", "__HIVE_DEFAULT_PARTITION__", ""], ["p IS NULL", "p = 'a'", "p <> 'b'"]),
    (["1", "__HIVE_DEFAULT_PARTITION__"], ["p IS NULL", "p = 1", "p <> 1", "NOT (p <> 1)", "p <=> NULL"]),
]


@pytest.mark.parametrize(
    ("values", "wheres", "inference"),
    [
        *((*case, "true") for case in PARTITIONS),
        *((*case, "false") for case in PARTITIONS[:3]),  # all of them are texts then
    ],
)
def test_partition_types(spark, tmp_path, values, wheres, inference):
    from pyspark.errors import PySparkException

    lake = str(tmp_path / "lake")
    for ordinal, value in enumerate(value for value in values if value):
        write(tmp_path / "lake" / f"p={value.replace(':', '%3A')}" / f"{ordinal}.parquet", x=[ordinal])
    with settings(spark, {"spark.sql.sources.partitionColumnTypeInference.enabled": inference}):
        check(
            spark, lake, [where + suffix for where in wheres for suffix in ("", " AND x >= 0", " OR x = 0")]
        )
        try:
            spark.read.parquet(lake).where(wheres[0]).collect()
        except PySparkException:
            return
        same_as_plain(spark, lake, wheres[0])


def test_files_with_different_schemas(spark, tmp_path):
    """Columns that are missing, or have other types or another case."""
    folder = tmp_path / "lake"
    write(folder / "a.parquet", x=pa.array([1, 2], pa.int32()), y=["a", "b"], s=[{"k": 1}, None])
    write(folder / "b.parquet", x=pa.array([3, 4], pa.int32()))
    write(folder / "c.parquet", X=pa.array([1, 9], pa.int32()), Y=["a", "z"])
    write(folder / "d.parquet", x=pa.array([7, 8], pa.int16()), y=["q", "r"])
    for where in [
        "x = 1",
        "y = 'z'",
        "y IS NULL",
        "y IS NOT NULL",
        "x > 6",
        "s.k IS NULL",
        "S.K = 1",
        "y <=> NULL",
    ]:
        same_as_plain(spark, str(folder), where)
    assert same_as_plain(spark, str(folder), "y IS NULL AND x > 2") == 1
    with settings(spark, {"spark.sql.caseSensitive": "true"}):
        for where in ["x = 1", "y = 'z'", "y IS NULL", "x IS NULL"]:
            same_as_plain(spark, str(folder), where)


def test_names_with_dots(spark, tmp_path):
    folder = tmp_path / "lake"
    for value in (1, 2):
        inner = pa.StructArray.from_arrays([pa.array([value * 10])], ["b"])
        write(folder / f"{value}.parquet", **{"a.b": [value], "a": inner, "odd `name`": [value]})
    assert same_as_plain(spark, str(folder), "`a.b` = 1") == 1
    assert same_as_plain(spark, str(folder), "a.b = 10") == 1
    assert same_as_plain(spark, str(folder), "a.b = 1") == 0
    assert same_as_plain(spark, str(folder), "`odd ``name``` = 2") == 1
    assert ias.read(spark, folder, columns=["a.b", "odd `name`"]).columns == ["a.b", "odd `name`"]


def test_many_files_do_not_change_the_settings(spark, tmp_path):
    for value in range(60):
        write(tmp_path / "lake" / f"p={value % 3}" / f"{value}.parquet", x=[value])
    key = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = spark.conf.get(key)
    assert same_as_plain(spark, str(tmp_path / "lake"), "x < 50") == 50
    assert spark.conf.get(key) == before


def test_the_frame_is_lazy_and_composes(spark, lake):
    frame = ias.read(spark, lake, where="x < 100")
    joined = frame.join(ias.read(spark, lake, where="year = 2020"), ["x", "Kind"]).groupBy("Kind").count()
    plain = spark.read.parquet(lake)
    expected = plain.where("x < 100").join(plain.where("year = 2020"), ["x", "Kind"]).groupBy("Kind").count()
    assert rows(joined) == rows(expected)
    assert rows(frame.where("x = 150")) == []


def test_embedded_indexes_exclude_files_that_bounds_cannot(spark, tmp_path):
    """Tails scattered over all files: only distinct values exclude files."""
    paths = []
    for part in range(4):
        tails = [f"N{(value * 4 + part) % 997:03d}" for value in range(5000)]
        path = tmp_path / "lake" / f"{part}.parquet"
        path.parent.mkdir(exist_ok=True)
        table = pa.table({"tail": tails, "much": [os.urandom(20) for _ in tails]})
        pq.write_table(table, path, use_dictionary=False)  # which would exclude files with known footers
        paths.append(str(path))
    tail = "N996"
    holders = sum(tail in pq.read_table(path)["tail"].to_pylist() for path in paths)
    assert same_as_plain(spark, str(tmp_path / "lake"), f"tail = '{tail}'") == 4
    for path in paths:
        attach(path, [ia.Distinct("tail", granularity="file")])
    assert same_as_plain(spark, str(tmp_path / "lake"), f"tail = '{tail}'") == holders
    report = ias.explain(spark, str(tmp_path / "lake"), "tail = 'N500X'").to_dict()
    assert report["files"] == {"total": 4, "read": 0, "opened": 4, "other": 0}
    assert {entry["index"] for entry in report["pruned_by"]} == {"distinct(tail):file"}


def test_a_copied_directory_is_ignored_with_a_warning(spark, tmp_path):
    path = tmp_path / "lake" / "a.parquet"
    write(path, x=list(range(1000)), much=[os.urandom(50)] * 1000)
    attach(str(path), [ia.Distinct("x")])
    directory = {b"intarsia": pq.read_metadata(path).metadata[b"intarsia"]}
    changed = pq.read_table(path).set_column(0, "x", pa.array([5000 + i for i in range(1000)]))
    pq.write_table(changed.replace_schema_metadata(directory), path)
    with pytest.warns(IntarsiaWarning, match=r"a\.parquet") as caught:
        frame = ias.read(spark, tmp_path / "lake", where="x = 5001 OR x = 3")
    assert {warning.filename for warning in caught} == {__file__}
    assert frame.count() == 1


def test_files_that_cannot_be_planned_are_left_to_spark(spark, tmp_path):
    write(tmp_path / "lake" / "a.parquet", x=[1])
    write(tmp_path / "lake" / "b.parquet", x=[2])
    spark_frame = spark.read.parquet(str(tmp_path / "lake"))
    assert spark_frame.count() == 2
    (tmp_path / "lake" / "b.parquet").write_bytes(b"PAR1" + b"garbage" * 9 + b"PAR1")
    with pytest.warns(IntarsiaWarning, match=r"b\.parquet") as caught:
        frame = ias.read(spark, tmp_path / "lake", where="x = 1")
    assert {warning.filename for warning in caught} == {__file__}
    assert len(frame.inputFiles()) == 2
    with pytest.raises(Exception, match=r"b\.parquet"):
        frame.collect()


def test_the_folder_of_a_delta_table_is_read_with_a_warning(spark, tmp_path):
    """In a session that does not read Delta, its files are those of a folder."""
    folder = str(tmp_path / "table")
    deltalake.write_deltalake(folder, pa.table({"id": [1, 2]}))
    deltalake.write_deltalake(folder, pa.table({"id": [3, 4, 5]}), mode="overwrite")
    with pytest.warns(IntarsiaWarning, match="Delta"):
        assert ias.read(spark, folder, "id > 1").count() == 4


def test_explain(spark, lake):
    report = ias.explain(spark, lake, "year = 2019 AND x = 150", columns=["word"]).to_dict()
    assert report["files"] == {"total": 12, "read": 2, "opened": 6, "other": 0}
    assert report["rows"]["matched"] is None
    assert {(entry["index"], entry["column"], entry["files"]) for entry in report["pruned_by"]} == {
        ("partition", "year", 6),
        ("statistics", "x", 4),
    }
    assert report["bytes"]["total"] > report["bytes"]["planned"] > 0
    assert ias.explain(spark, lake).to_dict()["files"]["read"] == 12
    braces = ias.explain(spark, f"{lake}/year=2019/Kind={{a,b}}", "x = 1").to_dict()  # left to Spark
    assert braces["files"] == {"total": 6, "read": 6, "opened": 0, "other": 0}


def test_scan_reads_files_by_spark(spark, tmp_path):
    """INT96 instants, partitions, nulls, NaN, several row groups: a scan equals a full read and a filter."""
    source = spark.range(4000).selectExpr(
        "id",
        "CASE WHEN id % 7 = 0 THEN NULL ELSE concat('u', id % 50) END AS user",
        "CASE WHEN id % 11 = 0 THEN double('NaN') ELSE id / 10D END AS amount",
        "timestamp_seconds(1577836800 + id * 60) AS ts",
        "date_add(DATE '2020-01-01', cast(id / 400 AS int)) AS day",
        "cast(id AS decimal(12, 3)) AS price",
        "id % 3 AS part",
    )
    lake = str(tmp_path / "lake")
    source.coalesce(2).write.option("parquet.block.size", 8_000).option(
        "parquet.page.size", 1_000
    ).partitionBy("part").parquet(lake)
    assert any(pq.ParquetFile(file.path).num_row_groups > 1 for file in ia.open(lake).files)
    assert pq.ParquetFile(ia.open(lake).files[0].path).schema.column(3).physical_type == "INT96"
    whole = pq.read_table(lake)
    moment = dt.datetime(2020, 1, 2)
    checks = [
        ("id = 1234", lambda row: row["id"] == 1234),
        ("user = 'u3' AND part = 1", lambda row: row["user"] == "u3" and row["part"] == 1),
        ("ts >= TIMESTAMP '2020-01-02' AND id < 2000", lambda row: row["ts"] >= moment and row["id"] < 2000),
        ("user IS NULL AND amount < 50", lambda row: row["user"] is None and row["amount"] < 50),
        (
            "day = DATE '2020-01-03' OR price = 3999",
            lambda row: str(row["day"]) == "2020-01-03" or row["price"] == 3999,
        ),
        ("NOT (amount >= 0)", lambda row: not row["amount"] >= 0),
    ]
    for indexed in (False, True):
        for where, matches in checks:
            found = ia.open(lake).scan(where=where).to_arrow()
            expected = [row for row in whole.to_pylist() if matches(row)]
            assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected)), where
            assert found.schema.equals(whole.schema)
        ias_rows = rows(ias.read(spark, lake, where="user = 'u3' AND part = 1"))
        assert ias_rows == rows(spark.read.parquet(lake).where("user = 'u3' AND part = 1"))
        if not indexed:
            ias.index(spark, lake, [PageIndex(), ia.Distinct("user")], progress=False)
    shutil.rmtree(lake)


def test_date_partitions(spark, tmp_path):
    """Spark reads the names of the folders as dates; conditions with dates and with text skip files."""
    for place, day in enumerate(("2024-01-01", "2024-01-02", "2024-02-01")):
        write(tmp_path / f"day={day}" / "part.parquet", x=[place])
    lake = str(tmp_path)
    assert same_as_plain(spark, lake, "day = DATE '2024-01-01'") == 1
    assert same_as_plain(spark, lake, "day >= DATE '2024-01-02' AND x < 2") == 1
    same_as_plain(spark, lake, "day = '2024-01-01'")
    same_as_plain(spark, lake, "day IN ('2024-01-01', '2024-02-01')")
