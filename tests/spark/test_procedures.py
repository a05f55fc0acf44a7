"""The procedures of the catalog ``intarsia``, in an enabled session: SQL for the jobs of this package."""

import inspect
import json
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
import intarsia.spark as ias
from intarsia.spark.procedures import CATALOG, CATALOG_KEY, PROCEDURES
from tests.spark.skipping import make_lake, user_of

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path):
    """A folder of four files without indexes."""
    folder = tmp_path / "lake"
    folder.mkdir()
    for day in range(4):
        rows = pa.table({"user": range(day * 100, day * 100 + 100), "city": [f"c{day}", "all"] * 50})
        pq.write_table(rows, folder / f"{day}.parquet")
    return folder


@pytest.fixture
def table(enabled, lake):
    """The same files as a table of the catalog."""
    enabled.sql(f"CREATE TABLE visits USING parquet LOCATION '{lake}'")
    yield "visits"
    enabled.sql("DROP TABLE visits")


def names_of(folder):
    return [
        [entry.name for entry in ia.inspect(path).directory.entries]
        for path in sorted(folder.glob("*.parquet"))
    ]


def test_index_verify_show_and_detach(enabled, lake, table):
    before = [path.read_bytes() for path in sorted(lake.glob("*.parquet"))]
    kinds = "page_index => true, bloom => array('user'), distinct => array('city')"
    call = f"CALL intarsia.index(table => '{table}', {kinds})"
    rows = enabled.sql(call).collect()
    assert [row.error for row in rows] == [None] * 4
    assert [sorted(row.built) for row in rows] == [["bloom(user)", "distinct(city):page", "page_index"]] * 4
    assert all(row.bytes_after > row.bytes_before for row in rows)
    assert names_of(lake) == [["distinct(city):page"]] * 4

    shown = enabled.sql(f"CALL intarsia.show_indexes('{table}')").collect()
    assert [(row.column, row["index"], row.files, row.files_without) for row in shown] == [
        ("city", "distinct(city):page", 4, 0),
        ("city", "page_index", 4, 0),
        ("user", "bloom", 4, 0),
        ("user", "page_index", 4, 0),
    ]
    assert all(row.bytes > 0 for row in shown)

    assert enabled.sql(f"CALL intarsia.verify(table => '{table}')").collect() == []

    restored = enabled.sql(f"CALL intarsia.detach('{table}')").collect()
    assert all(row.detached and row.error is None for row in restored)
    assert [path.read_bytes() for path in sorted(lake.glob("*.parquet"))] == before


def test_other_indexes_by_text(enabled, lake):
    text = 'zone_map(user), ngram(city, ignore_case=true), distinct(city, granularity="file")'
    enabled.sql(f"CALL intarsia.index(table => '{lake}', indexes => '{text}')")
    assert [sorted(names) for names in names_of(lake)] == [
        sorted(names_of_text)
        for names_of_text in [["distinct(city):file", "ngram(city):page", "zone_map(user):page"]] * 4
    ]


@pytest.mark.parametrize("clause", ["OPTIONS", "TBLPROPERTIES"])
def test_the_indexes_of_a_table(enabled, lake, clause):
    enabled.sql(
        f"CREATE TABLE named USING parquet {clause} ('intarsia.indexes' = 'page_index, bloom(user)') "
        f"LOCATION '{lake}'"
    )
    try:
        rows = enabled.sql("CALL intarsia.index('named')").collect()
        assert all(set(row.built) == {"page_index", "bloom(user)"} for row in rows)
    finally:
        enabled.sql("DROP TABLE named")


@pytest.mark.parametrize("clause", ["OPTIONS", "TBLPROPERTIES"])
def test_written_files_follow_the_table(enabled, tmp_path, clause):
    folder = tmp_path / "written"
    ias.enable_writes(enabled, ia.Statistics())
    try:
        enabled.sql(
            f"CREATE TABLE written USING parquet {clause} ('intarsia.indexes' = 'bloom(user)') "
            f"LOCATION '{folder}' AS SELECT CAST(id AS INT) AS user FROM range(5)"
        )
        enabled.sql("INSERT INTO written VALUES (1), (2)")
        paths = list(folder.glob("*.parquet"))
        assert len(paths) > 1
        assert all(has_bloom(path) for path in paths if pq.read_metadata(path).num_row_groups)
        if clause == "TBLPROPERTIES":
            enabled.sql(
                "CREATE TABLE managed USING parquet TBLPROPERTIES ('intarsia.indexes' = 'bloom(user)') "
                "AS SELECT 1 AS user"
            )
            assert all(map(has_bloom, parquet_files(enabled, "managed")))
            enabled.sql("ALTER TABLE written SET TBLPROPERTIES ('intarsia.indexes' = 'page_index')")
            enabled.sql("INSERT OVERWRITE written SELECT 3")
            assert not any(map(has_bloom, folder.glob("*.parquet")))
        ias.disable_writes(enabled)
        enabled.sql("INSERT OVERWRITE written SELECT 4")
        assert not any(map(has_bloom, folder.glob("*.parquet")))
    finally:
        ias.disable_writes(enabled)
        enabled.sql("DROP TABLE written")
        enabled.sql("DROP TABLE IF EXISTS managed")


def parquet_files(spark, table):
    names = [row[0] for row in spark.sql(f"SELECT DISTINCT input_file_name() FROM {table}").collect()]
    assert names
    return [unquote(name.removeprefix("file://")) for name in names]


def has_bloom(path):
    return all(group.columns[0].bloom_filter is not None for group in ia.inspect(path).row_groups)


def test_lake_index(enabled, lake):
    (row,) = enabled.sql(f"CALL intarsia.lake_index(table => '{lake}', location => 'beside')").collect()
    assert (row.files_total, row.files_known + row.files_added, row.files_failed) == (4, 4, 0)
    assert ia.open(lake).scan("user = 250").explain().to_dict()["files"]["opened"] == 1


def test_optimize(enabled, lake, tmp_path):
    (row,) = enabled.sql(
        f"CALL intarsia.optimize(table => '{lake}', destination => '{tmp_path / 'sorted'}', "
        "sort_by => array('city', 'user'), indexes => 'bloom(user)', rows_per_page => 10)"
    ).collect()
    assert (row.rows, row.files_before, row.files_after) == (400, 4, 1)
    assert sorted(row.verified) == ["city", "user"]
    assert "bloom(user)" in row.built
    found = ia.open(tmp_path / "sorted").scan().to_arrow()
    assert found.column("city").to_pylist() == sorted(found.column("city").to_pylist())


def test_optimize_in_place(enabled, lake):
    """The files of a folder are merged, and keep their indexes."""
    enabled.sql(f"CALL intarsia.index(table => '{lake}', bloom => array('user'))")
    rows = sorted(enabled.read.parquet(str(lake)).collect())
    (row,) = enabled.sql(f"CALL intarsia.optimize(table => '{lake}', in_place => true)").collect()
    assert (row.destination, row.rows, row.files_before, row.files_after) == (str(lake), 400, 4, 1)
    assert row.built == ["bloom(user)"]
    assert sorted(enabled.read.parquet(str(lake)).collect()) == rows
    assert len(list(lake.rglob("*.parquet"))) == 1


def test_delete(enabled, lake):
    """The rows of some users; the indexes stay."""
    where = "user IN (7, 250)"
    rows = enabled.sql(
        f"CALL intarsia.delete(table => '{lake}', where => '{where}', dry_run => true)"
    ).collect()
    assert (sum(row.rows_deleted for row in rows), count_of(enabled, lake, where)) == (2, 2)
    rows = enabled.sql(f"CALL intarsia.delete(table => '{lake}', where => '{where}')").collect()
    assert (sum(row.rows_deleted for row in rows), count_of(enabled, lake, where)) == (2, 0)
    assert len(rows) == 2
    (row,) = enabled.sql(f"CALL intarsia.delete('{lake}', '{where}')").collect()
    assert (row.path, row.rows_deleted) == (None, 0)


def count_of(spark, lake, where):
    return spark.read.parquet(str(lake)).where(where).count()


def test_advise(enabled, lake):
    rows = enabled.sql(
        f"CALL intarsia.advise(table => '{lake}', queries => array('user = 7', 'user < 20'))"
    ).collect()
    assert sum(row.is_advised for row in rows) == 1
    assert all(0 <= row.share <= row.share_without <= 1 for row in rows)


def test_skips(enabled, tmp_path):
    lake = make_lake(tmp_path / "indexed")
    assert enabled.sql(f"SELECT id FROM parquet.`{lake}` WHERE user = {user_of(3, 77)}").count() == 1
    (row,) = enabled.sql("CALL intarsia.skips()").collect()
    (same,) = ias.last_skips(enabled)
    assert (row.files_read, row.files_total) == (1, 8)
    assert (row.condition, row.reason, row.rows_read) == (
        same.condition,
        None,
        same.report["rows"]["candidates"],
    )
    assert row.excluded_by


def test_a_second_session_has_its_own_skips(enabled, tmp_path):
    lake = make_lake(tmp_path / "indexed")
    other = enabled.newSession()
    other.conf.set(CATALOG_KEY, CATALOG)
    other.sql(f"SELECT id FROM parquet.`{lake}` WHERE user = {user_of(3, 77)}").collect()
    enabled.sql(f"SELECT id FROM parquet.`{lake}` WHERE user = {user_of(5, 1)}").collect()
    (row,) = other.sql("CALL intarsia.skips()").collect()
    assert str(user_of(3, 77)) in row.condition


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("index('{lake}')", "no index to attach.*intarsia.indexes"),
        ("index('a-folder')", "no index to attach"),
        ("index('{lake}', indexes => 'blom(user)')", "did you mean bloom"),
        ("index('{lake}', bloom => array('usr'))", "usr"),
        ("index('nowhere', page_index => true)", "nowhere"),
        ("index('{lake}', page_index => true, lake_index => 'inside')", "inside"),
        ("verify('{lake}', quick => true, sample => 3)", "sample"),
        ("optimize('{lake}', '{lake}')", "optimize"),
        ("optimize('{lake}', '')", "destination is empty"),
        ("advise('{lake}', array())", "queries"),
        ("advise('{lake}', array('usr = 1'))", "advise: ColumnNotFoundError: no column 'usr'"),
        ("index('{lake}', bloom => array('user', NULL))", "bloom has an element that is NULL"),
        ("index('{lake}', page_index => true, older_than => double('NaN'))", "older_than is"),
        ("index('nowhere://x/y', page_index => true)", "nowhere://x/y: this kind of store"),
        ("nonesuch('{lake}')", "nonesuch"),
        ("index()", "(?i)table"),
        ("index(NULL)", "table is NULL"),
        ("delete('{lake}', NULL)", "where is NULL"),
        ("delete('{lake}', true)", "where is of type boolean"),
        ("delete(dry_run => true, WHERE => 1 = 1, table => '{lake}')", "where is of type boolean"),
        ("index('{lake}', true, lake_index => true)", "lake_index is of type boolean"),
        ("index('{lake}', indexes => 'bloom(user')", r"'bloom\(user' cannot be parsed"),
    ],
)
def test_a_call_that_fails_raises(enabled, lake, call, message):
    before = [path.read_bytes() for path in sorted(lake.glob("*.parquet"))]
    with pytest.raises(Exception, match=message):
        enabled.sql(f"CALL intarsia.{call.format(lake=lake)}")
    assert [path.read_bytes() for path in sorted(lake.glob("*.parquet"))] == before


def test_bad_files_are_rows(enabled, lake):
    (lake / "1.parquet").write_bytes(b"PAR1 truncated")
    rows = enabled.sql(f"CALL intarsia.index(table => '{lake}', page_index => true)").collect()
    assert [row.error is None for row in rows] == [True, False, True, True]
    found = enabled.sql(f"CALL intarsia.verify(table => '{lake}')").collect()
    assert [(row.path, row.severity) for row in found] == [(str(lake / "1.parquet"), "error")]
    (failed,) = [row for row in enabled.sql(f"CALL intarsia.show_indexes('{lake}')").collect() if row.error]
    assert "1.parquet" in failed.error


def test_arguments_by_position_null_and_quoted_names(enabled, lake):
    rows = enabled.sql(f"CALL intarsia.INDEX('{lake}', true, false, NULL, array('city'), NULL)").collect()
    assert all("distinct(city):page" in row.built for row in rows)
    strange = lake / "it''s 100% `odd`".replace("''", "'")
    strange.mkdir()
    pq.write_table(pa.table({"a b": [1]}), strange / "x.parquet")
    name = str(strange).replace("'", "\\'")
    (row,) = enabled.sql(f"CALL intarsia.index('{name}', bloom => array('a b'))").collect()
    assert (row.error, row.built) == (None, ["bloom(a b)"])


def test_types_within_arguments_are_coerced(enabled, lake):
    call = f"CALL intarsia.optimize('{lake}', '{lake}-new', target_file_size => 100 * 1.5, sort_by => array("
    (row,) = enabled.sql(f"{call}if(1 = 1.0, 'city', 'user')))").collect()
    assert (row.rows, row.files_after > 1) == (400, True)


def test_declared_parameters_are_those_of_the_functions(enabled):
    """The JVM declares the parameters that Python's functions take."""
    for name, procedure in PROCEDURES.items():
        taken = list(inspect.signature(procedure.run).parameters.values())[1:]
        is_open = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken)
        named = [one.name for one in taken if one.kind is not inspect.Parameter.VAR_KEYWORD]
        rows = enabled.sql(f"DESCRIBE PROCEDURE intarsia.{name}").collect()
        text = "".join(row[0] for row in rows)
        declared = re.findall(r"[(, ](\w+) (?:STRING|BOOLEAN|INT|BIGINT|DOUBLE|ARRAY<STRING>)", text)
        assert set(declared) >= set(named) if is_open else declared == named
        # the others are passed on to the job
        of_job = inspect.signature(getattr(ias, name)).parameters if is_open else {}
        assert set(declared) - set(named) <= set(of_job)


def test_a_call_in_another_thread(enabled, lake):
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(enabled.sql, f"CALL intarsia.index('{lake}', page_index => true)")
        assert {row.error for row in call.result().collect()} == {None}


def test_other_catalog_of_the_name(spark):
    session = spark.newSession()
    session.conf.set(CATALOG_KEY, "some.other.Catalog")
    ias.enable(session)
    assert session.conf.get(CATALOG_KEY) == "some.other.Catalog"
    ias.disable(session)


def test_procedures_that_are_turned_off(spark):
    session = spark.newSession()
    session.conf.set("spark.intarsia.procedures", "false")
    ias.enable(session)
    assert session.conf.get(CATALOG_KEY, "none") == "none"
    ias.disable(session)


def test_settings():
    assert CATALOG_KEY not in ias.spark_conf()
    assert ias.spark_conf(procedures=True)[CATALOG_KEY] == CATALOG


def test_shown_and_described(enabled):
    shown = {row[-1] for row in enabled.sql("SHOW PROCEDURES IN intarsia").collect()}
    assert shown >= set(PROCEDURES)


CONNECTED = """
import json, sys
lake, user = sys.argv[1:]
rows = spark.sql(f"CALL intarsia.index(table => '{lake}', bloom => array('user'))").collect()
spark.sql(f"SELECT id FROM parquet.`{lake}` WHERE user = {user}").collect()
skips = spark.sql("CALL intarsia.skips()").collect()
try:
    spark.sql("CALL intarsia.index('/nowhere/at/all', page_index => true)").collect()
    failure = None
except Exception as error:
    failure = str(error)
print(json.dumps([[row.error for row in rows], skips[-1].files_read, skips[-1].files_total, failure]))
"""


def test_a_connect_client(connect_host, tmp_path):
    """The server has no Python driver: a process beside it runs the procedures."""
    lake = make_lake(tmp_path / "lake")
    errors, files_read, files_total, failure = json.loads(connect_host.run(CONNECTED, lake, user_of(3, 77)))
    assert errors == [None] * 8
    assert (files_read, files_total) == (1, 8)
    assert "/nowhere/at/all" in failure
