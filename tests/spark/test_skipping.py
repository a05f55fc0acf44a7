"""Enabled sessions: every kind of query has the rows of plain Spark, and reads fewer files."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import intarsia as ia
import intarsia.spark as ias
from intarsia.format import thrift
from tests.embed.tables import edit_footer
from tests.lake.index.lakes import age, write
from tests.spark.comparing import rows, rows_with_matches, settings
from tests.spark.skipping import (
    FILES,
    ROWS,
    SWITCH,
    code_of,
    compare,
    dropped,
    make_lake,
    make_partitioned,
    metrics_of_scans,
    rows_of_file,
    scans,
    user_of,
)

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

U, V = user_of(3, 77), user_of(5, 13)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return str(make_lake(tmp_path_factory.mktemp("skipping") / "lake"))


@pytest.fixture(scope="module")
def read(enabled, lake):
    frame = enabled.read.parquet(lake)
    frame.createOrReplaceTempView("lake")
    yield lambda: enabled.read.parquet(lake)
    enabled.catalog.dropTempView("lake")


@pytest.fixture(scope="module")
def days(enabled, lake, tmp_path_factory):
    folder = make_partitioned(tmp_path_factory.mktemp("days") / "lake", Path(lake))
    enabled.read.parquet(str(folder)).createOrReplaceTempView("days")
    yield str(folder)
    enabled.catalog.dropTempView("days")


# --- conditions: the predicate, the number of files to read, and the most rows that leave the scan

CONDITIONS = {
    f"user = {U}": (1, ROWS),
    f"USER = {U}": (1, ROWS),
    f"{U} = user": (1, ROWS),
    f"user = {U}L": (1, ROWS),
    f"user = {U}.0": (1, ROWS),
    f"user <=> {U}": (1, ROWS),
    f"user IN ({U}, {V}, -1)": (2, 2 * ROWS),
    f"user = {U} OR user = {V}": (2, 2 * ROWS),
    f"NOT (user <> {U})": (1, ROWS),
    "user = -7": (0, 0),
    "user = null": (0, 0),
    "id = 613": (1, 20),
    "id BETWEEN 650 AND 655": (1, 20),
    "id < 15 OR id >= 1590": (2, 40),
    "cast(id AS double) = 613.0": (1, 20),
    "cast(id AS decimal(20, 2)) = 613.00BD": (1, 20),
    "id > 1580.5D": (1, 20),
    "country = 'country 11'": (1, ROWS),
    "country LIKE 'country 1_' AND id < 100": (1, ROWS),
    "country IS NULL AND id < 190": (1, ROWS),
    "url LIKE '%org/3/077%'": (1, ROWS),
    "contains(url, 'org/3/077') AND startswith(url, 'https')": (1, ROWS),
    "endswith(url, '/6/111')": (1, ROWS),
    "amount > 71.5 AND amount < 71.6": (1, 60),
    "amount IS NULL AND id < 55": (1, 60),
    f"code = '{code_of(2, 101)}'": (1, 1),
    f"code IN ('{code_of(2, 101)}', '{code_of(6, 3)}', 'no')": (2, 2),
    "st.x = 305": (1, 20),
    f"user = {U} AND rand() < 2": (1, ROWS),
    f"user = {U} AND upper(country) LIKE 'C%'": (1, ROWS),
    # no index answers these
    "upper(country) = 'COUNTRY 11'": (FILES, FILES * ROWS),
    f"user + 1 = {U + 1}": (FILES, FILES * ROWS),
    f"cast(user AS string) = '{U}'": (FILES, FILES * ROWS),
    "country = 'COUNTRY 11' COLLATE UTF8_LCASE": (FILES, FILES * ROWS),
    "country = 'COUNTRY 11' COLLATE UNICODE_CI": (FILES, FILES * ROWS),
    "_metadata.file_name LIKE '%-3%'": (FILES, FILES * ROWS),
    "_metadata.row_index = 5": (FILES, FILES * ROWS),
    "user IS NOT NULL": (FILES, FILES * ROWS),
    f"cast(cast(id AS float) AS double) = {ROWS}D": (FILES, FILES * ROWS),
    f"coalesce(user, 0) = {U}": (FILES, FILES * ROWS),
    "country LIKE 'country !_1' ESCAPE '!'": (FILES, FILES * ROWS),
}


def test_conditions(enabled, read):
    """Every condition has the rows that Spark finds if it evaluates the condition as a column."""
    whole = read()
    expected = rows_with_matches(whole, list(CONDITIONS))
    for (where, (files, scanned)), matches in zip(CONDITIONS.items(), expected, strict=True):
        frame = whole.where(where)
        assert rows(frame) == matches, where
        found = scans(frame)
        assert sum(number for number, _ in found) <= files, where
        assert sum(number for _, number in found) <= scanned, where


# --- shapes of queries


#: Queries, and the number of files to read if that is certain.
QUERIES = {
    "SELECT * FROM lake WHERE user = {U}": 1,
    "SELECT country, count(*) FROM parquet.`{lake}` WHERE user = {U} GROUP BY 1": 1,
    "SELECT count(*) FROM lake WHERE user = {U}": 1,
    "SELECT 1 FROM lake WHERE user = {U} LIMIT 1": 1,
    "SELECT url FROM lake WHERE user = {U} UNION ALL SELECT url FROM lake WHERE user = {V}": 2,
    "SELECT a.url, b.code FROM lake a JOIN lake b USING (user) WHERE user = {U}": 2,
    """SELECT a.url FROM (SELECT * FROM lake WHERE user = {U}) a
       CROSS JOIN (SELECT * FROM lake WHERE user = {V}) b""": 2,
    """SELECT url FROM lake a
       WHERE EXISTS (SELECT 1 FROM lake b WHERE b.user = a.user AND b.user = {U})""": None,
    """SELECT url FROM lake WHERE id > 1490
       AND user NOT IN (SELECT user FROM lake WHERE id < 1500)""": None,
    "SELECT user, rank() OVER (ORDER BY id) FROM lake WHERE user IN ({U}, {V})": 2,
    """WITH c AS (SELECT country, count(*) n FROM lake WHERE user IN ({U}, {V}) GROUP BY 1)
       SELECT a.country, b.n FROM c a JOIN c b ON a.country = b.country""": None,
    """SELECT _metadata.file_name, _metadata.row_index, _metadata.file_size
       FROM parquet.`{lake}` WHERE user = {U}""": 1,
    "SELECT url FROM parquet.`{lake}` WHERE user = {U} AND _metadata.row_index = 77": 1,
    "SELECT input_file_name(), id FROM lake WHERE user = {U}": 1,
    "SELECT max(id) FROM lake WHERE id > 1580 GROUP BY country HAVING count(*) > 1": 1,
    "SELECT _metadata.row_index, id FROM parquet.`{lake}` WHERE id BETWEEN 750 AND 790": 1,
    "SELECT /*+ REPARTITION(2) */ id FROM lake WHERE user = {U}": 1,
    """SELECT l.id FROM lake l LEFT JOIN (SELECT * FROM lake WHERE user = {U}) r
       ON l.id = r.id WHERE l.id < 30""": None,
}


@pytest.mark.parametrize("sql", QUERIES)
def test_queries(enabled, read, lake, sql):
    text = sql.format(U=U, V=V, lake=lake)
    found = compare(enabled, lambda: enabled.sql(text))
    assert found.files < found.plain_files
    assert QUERIES[sql] in (None, found.files)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_exchanges_are_reused(enabled, read, adaptive):
    """Scans with the same plan are equal, so Spark runs the exchange above them once."""
    counts = f"SELECT country, count(*) FROM lake WHERE user IN ({U}, {V}) GROUP BY country"
    sql = f"{counts} UNION ALL {counts}"
    with settings(enabled, {"spark.sql.adaptive.enabled": adaptive}):
        for on in ("false", "true"):
            with settings(enabled, {SWITCH: on}):
                frame = enabled.sql(sql)
                assert len(frame.collect()) == 4
                assert "ReusedExchange" in frame._jdf.queryExecution().executedPlan().toString()
                assert {files for files, _ in scans(frame)} == ({2} if on == "true" else {FILES})


@pytest.mark.parametrize("name", ["orc", "json"])
def test_other_formats_are_left_to_spark(enabled, read, name, tmp_path):
    """Only Spark's own Parquet format is planned; any other class reads all files, without a warning."""
    folder = str(tmp_path / name)
    read().select("id", "user", "country").write.format(name).save(folder)
    before = len(ias.last_skips(enabled))
    found = compare(enabled, lambda: enabled.read.format(name).load(folder).where(f"user = {U}"))
    assert len(found.rows) == 1
    assert found.files == found.plain_files
    assert len(ias.last_skips(enabled)) == before


def test_one_frame_with_different_filters(enabled, read):
    def make():
        frame = read()
        parts = [frame.where(f"user = {user}") for user in (U, V, -1)]
        return parts[0].union(parts[1]).union(parts[2]).union(frame.where("id = 9"))

    assert compare(enabled, make).files == 3


@pytest.mark.parametrize(
    ("key", "value", "files"),
    [
        ("spark.sql.parquet.enableVectorizedReader", "false", 1),
        ("spark.sql.adaptive.enabled", "false", 1),
        ("spark.sql.ansi.enabled", "false", 1),
        ("spark.sql.codegen.wholeStage", "false", 1),
        ("spark.sql.parquet.filterPushdown", "false", 1),
        ("spark.sql.files.maxPartitionBytes", "2000", 1),
        ("spark.sql.caseSensitive", "true", 1),
        ("spark.sql.sources.parallelPartitionDiscovery.threshold", "2", 1),
        ("parquet.filter.columnindex.enabled", "false", 1),
        ("spark.sql.sources.useV1SourceList", "", None),
        ("spark.sql.parquet.fieldId.read.enabled", "true", 1),
    ],
)
def test_settings(enabled, read, key, value, files):
    before = enabled.conf.get(key, None)
    enabled.conf.set(key, value)
    try:
        found = compare(enabled, lambda: read().where(f"user = {U} AND id BETWEEN 600 AND 799"))
    finally:
        enabled.conf.unset(key) if before is None else enabled.conf.set(key, before)
    assert files in (None, found.files)


def test_columns_with_field_ids(enabled, tmp_path):
    """Spark finds columns by field id only if the schema has ids; Delta sets the setting for all scans."""
    for ordinal in range(2):
        table = pa.table({"a": range(ordinal * 100, ordinal * 100 + 100), "b": range(100)})
        fields = [
            field.with_metadata({"PARQUET:field_id": str(place)}) for place, field in enumerate(table.schema)
        ]
        write(tmp_path / f"{ordinal}.parquet", table.cast(pa.schema(fields)))

    def swapped(metadata):
        """A schema in which the ids name other columns than the names do."""
        ids = [{"parquet.field.id": 1}, {"parquet.field.id": 0}] if metadata else [{}, {}]
        return StructType(
            [StructField(name, LongType(), metadata=found) for name, found in zip("ab", ids, strict=True)]
        )

    for setting, metadata, files in [("false", True, 1), ("true", False, 1), ("true", True, 2)]:
        with settings(enabled, {"spark.sql.parquet.fieldId.read.enabled": setting}):
            found = compare(
                enabled,
                lambda metadata=metadata: (
                    enabled.read.schema(swapped(metadata)).parquet(str(tmp_path)).where("a = 150")
                ),
            )
        assert found.files == files
        assert len(found.rows) == (0 if files == 2 else 1)


def test_splits_smaller_than_a_row_group(enabled, read):
    with settings(
        enabled, {"spark.sql.files.maxPartitionBytes": "1000", "spark.sql.files.openCostInBytes": "0"}
    ):
        found = compare(enabled, lambda: read().where(f"id BETWEEN 590 AND 610 OR user = {V}"))
    assert found.scanned < 3 * ROWS


def test_pages_of_an_untrusted_writer(enabled, tmp_path):
    """Spark finds single pages by a page index that Intarsia added, but not by the writer's."""
    path = tmp_path / "lake" / "part-0.parquet"
    options = {"row_group_size": ROWS // 2, "max_rows_per_page": 10}
    scanned = []
    for by_writer in (True, False):
        write(path, rows_of_file(0), write_page_index=by_writer, **options)
        edit_footer(str(path), lambda footer: footer.set(6, thrift.BINARY, b"parquet-go version latest"))
        ia.attach(path, [ia.RowMap("id")] if by_writer else [ia.RowMap("id"), ia.PageIndex()])
        age(path)
        frame = enabled.read.parquet(str(path))
        # otherwise Spark skips pages by itself
        with settings(enabled, {"spark.sql.parquet.filterPushdown": "false"}):
            scanned.append(compare(enabled, lambda frame=frame: frame.where("id = 55")).scanned)
    assert scanned == [ROWS // 2, 1]


# --- partitioned lakes


@pytest.mark.parametrize(
    ("where", "files"),
    [
        (f"user = {U} AND day = 3", 1),
        (f"user = {U} AND day = 2", 0),
        (f"user = {U} OR day = 9", 1),
        (f"(user = {U} AND day > 1) OR (user = {V} AND day < 1)", 1),
        (f"user = {U}", 1),
        ("day = 1", 2),
        ("day = 1 AND country = 'country 3'", 1),
        ("day = '1' AND id < 300", 1),
    ],
)
def test_partition_columns(enabled, days, where, files):
    found = compare(enabled, lambda: enabled.read.parquet(days).where(where).select("day", "url"))
    assert found.files == files


def test_dynamic_partition_pruning(enabled, days, read, tmp_path):
    enabled.createDataFrame([(2, "a"), (3, "b")], "day int, n string").write.parquet(str(tmp_path / "dim"))
    enabled.read.parquet(str(tmp_path / "dim")).createOrReplaceTempView("dim")
    for more, most in (("", 2), (f"AND f.user = {user_of(2, 5)}", 1)):
        sql = f"SELECT f.url FROM days f JOIN dim d ON f.day = d.day WHERE d.n = 'a' {more}"
        found = compare(enabled, lambda sql=sql: enabled.sql(sql))
        assert found.files <= most + 2  # and the dimension's files
    enabled.catalog.dropTempView("dim")


# --- tables


def test_tables_of_the_catalog(enabled, lake, days, read):
    with dropped(enabled, "ext", "made", "parts"):
        enabled.sql(f"CREATE TABLE ext USING parquet LOCATION '{lake}'")
        assert compare(enabled, lambda: enabled.sql(f"SELECT * FROM ext WHERE user = {U}")).files == 1
        enabled.sql("ANALYZE TABLE ext COMPUTE STATISTICS")
        assert compare(enabled, lambda: enabled.sql(f"SELECT * FROM ext WHERE user = {U}")).files == 1
        enabled.sql(f"CREATE TABLE made USING parquet AS SELECT * FROM lake WHERE user IN ({U}, {V})")
        enabled.sql(f"INSERT INTO made SELECT * FROM lake WHERE user = {U}")
        assert len(compare(enabled, lambda: enabled.sql(f"SELECT * FROM made WHERE user = {U}")).rows) == 2
        enabled.sql(
            "CREATE TABLE parts (id bigint, user int, country string, url string, day int) USING parquet "
            f"PARTITIONED BY (day) LOCATION '{days}'"
        )
        enabled.sql("MSCK REPAIR TABLE parts")
        for where, files in ((f"user = {U} AND day IN (2, 3)", 1), (f"user = {U}", 1)):
            found = compare(enabled, lambda where=where: enabled.sql(f"SELECT url FROM parts WHERE {where}"))
            assert found.files == files


def test_a_table_that_was_listed_before_its_files_changed(enabled, tmp_path):
    for ordinal in range(3):
        write(tmp_path / f"part-{ordinal}.parquet", rows_of_file(ordinal), use_dictionary=False)
    query = f"SELECT id FROM listed WHERE user = {user_of(1, 5)}"
    with dropped(enabled, "listed"):
        enabled.sql(f"CREATE TABLE listed USING parquet LOCATION '{tmp_path}'")
        assert compare(enabled, lambda: enabled.sql(query)).files == 3
        for change, files in (
            (lambda: ias.index(enabled, "listed", [ia.Bloom("user")], progress=False), 1),
            (lambda: ias.detach(enabled, "listed", progress=False), 3),
            (lambda: enabled.sql("CALL intarsia.index(table => 'listed', distinct => array('user'))"), 1),
        ):
            change()
            for path in tmp_path.glob("*.parquet"):
                age(path)
            found = compare(enabled, lambda: enabled.sql(query))
            assert (len(found.rows), found.files) == (1, files)


def test_columns_with_defaults(enabled):
    """Files without the column are read as if it had its default in every row."""
    with dropped(enabled, "grown"):
        enabled.sql("CREATE TABLE grown (id bigint) USING parquet")
        enabled.range(20).repartition(2).write.insertInto("grown")
        enabled.sql("ALTER TABLE grown ADD COLUMNS (n int DEFAULT 5, t string DEFAULT 'abc')")
        enabled.sql("INSERT INTO grown VALUES (100, 6, 'x')")
        for path in enabled.table("grown").inputFiles():
            age(path.removeprefix("file://"))
        enabled.sql("REFRESH TABLE grown")
        for where in (
            *("n = 5", "n <> 7", "n IN (5, 6)", "n IS NOT NULL", "n IS NULL", "n <=> 5"),
            *("n = 6 OR id < 3", "t LIKE '%b%'", "t = 'abc' AND id = 7"),
            *("n = (SELECT 5)", "t = (SELECT 'abc')", "n IN (SELECT 5)"),
        ):
            found = compare(enabled, lambda where=where: enabled.sql(f"SELECT * FROM grown WHERE {where}"))
            if "SELECT" not in where:
                assert ias.read(enabled, "grown", where=where).count() == len(found.rows), where
        assert compare(enabled, lambda: enabled.sql("SELECT * FROM grown WHERE id = 100")).files == 1


def test_variants(enabled, tmp_path):
    """Spark reads the parts of a variant as fields of a struct, which no file has."""
    for ordinal in range(2):
        parts = enabled.range(100 * ordinal, 100 * ordinal + 100, 1, 1).selectExpr("id", "id AS `0`")
        parts = parts.selectExpr("id", "`0`", "parse_json(concat('{\"a\":', id, '}')) AS v")
        parts.selectExpr("*", "struct(v AS w, id AS x) AS st").write.parquet(str(tmp_path), mode="append")
    for path in tmp_path.glob("*.parquet"):
        ia.attach(path, [ia.PageIndex(), ia.Distinct("id")])
        age(path)
    conditions = {
        "variant_get(v, '$.a', 'int') = 150": 2,
        "try_variant_get(v, '$.a', 'int') BETWEEN 120 AND 150": 2,
        "variant_get(st.w, '$.a', 'int') = 150": 2,
        "v IS NOT NULL AND st.x = 150 AND v:a::int = 150": 1,
        "`0` = 150": 1,
    }
    frame = enabled.read.parquet(str(tmp_path))
    with settings(enabled, {"spark.sql.codegen.factoryMode": "FALLBACK"}):  # Spark fails without it
        for condition, files in conditions.items():
            found = compare(enabled, lambda condition=condition: frame.where(condition).select("id"))
            assert found.files == files, condition
            assert found.rows, condition


def test_bucketed_tables(enabled, read):
    with dropped(enabled, "buckets"):
        read().limit(500).write.bucketBy(4, "user").sortBy("user").saveAsTable("buckets")
        compare(
            enabled,
            lambda: enabled.sql("SELECT a.url FROM buckets a JOIN buckets b USING (user) WHERE a.id < 9"),
        )
        compare(
            enabled,
            lambda: enabled.sql("SELECT url FROM buckets WHERE user = (SELECT min(user) FROM buckets)"),
        )
        # Spark copies the nodes of scans whose buckets do not matter
        assert any(files is not None for files, _, _ in metrics_of_scans(enabled))


# --- frames that are cached, and streams


def test_cached_frames(enabled, read):
    one = read().where(f"user = {U}").cache()
    try:
        assert len(one.collect()) == 1
        compare(enabled, lambda: read().where(f"user = {U}").select("url"))
        compare(enabled, lambda: read().where(f"user = {V}"))
    finally:
        one.unpersist()
    whole = read().cache()
    try:
        assert whole.count() == FILES * ROWS
        compare(enabled, lambda: read().where(f"user = {U}"))
    finally:
        whole.unpersist()


def test_streams(enabled, lake, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(lake, source, ignore=shutil.ignore_patterns("_*", "part-[0-4]*"))
    stream = enabled.readStream.schema(enabled.read.parquet(lake).schema).option("maxFilesPerTrigger", 1)
    query = (
        stream.parquet(str(source))
        .where(f"user = {V}")
        .writeStream.format("memory")
        .queryName("streamed")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    assert [row["id"] for row in enabled.table("streamed").collect()] == [5 * ROWS + 13]
    enabled.catalog.dropTempView("streamed")
