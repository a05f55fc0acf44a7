"""``spark.read.format("intarsia")``, compared with `Table.scan`."""

import deltalake
import pyarrow as pa
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.errors import UnsupportedFeatureError
from intarsia.spark.spark_types import spark_schema
from tests.spark import lakes
from tests.spark.comparing import rows


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    folder = lakes.write_with_pyarrow(tmp_path_factory.mktemp("source") / "lake", row_group_size=20)
    ia.attach(folder, [ia.PageIndex(), ia.Distinct("s")])
    ias.register(spark)
    return folder


def source(spark, lake, **options):
    return spark.read.format("intarsia").options(**options).load(lake)


def test_all_types(spark, lake):
    plain = spark.read.parquet(lake)
    found = source(spark, lake)
    assert [field.dataType for field in found.schema] == [field.dataType for field in plain.schema]
    assert rows(found) == rows(plain)


def test_frames_of_several_predicates_in_one_query(spark, lake):
    """Spark's own pushdown to sources in Python loses rows here."""
    first = source(spark, lake, where="i = 20000", columns="i,s")
    second = source(spark, lake, where="s LIKE 'k1%'", columns=" i , s ")
    expected = [ia.open(lake).count(where) for where in ("i = 20000", "s LIKE 'k1%'")]
    assert all(expected)
    assert (first.count(), second.count()) == tuple(expected)
    assert first.union(second).count() == sum(expected)
    whole = source(spark, lake, columns="i,s")
    assert whole.where("i = 20000").union(whole.where("i = 10000")).count() == (
        ia.open(lake).count("i IN (10000, 20000)")
    )
    assert first.columns == ["i", "s"]
    assert source(spark, lake, where="i = -1").count() == 0


def test_a_list_of_paths(spark, lake):
    paths = [f"{lake}/file-{ordinal}.parquet" for ordinal in (1, 4)]
    found = spark.read.format("intarsia").option("where", "by > 11").load(paths)
    assert rows(found) == rows(spark.read.parquet(*paths).where("by > 11"))


def test_errors_reach_the_caller(spark, lake):
    with pytest.raises(Exception, match="nowhere"):
        source(spark, lake, where="nowhere = 1")
    with pytest.raises(Exception, match="path"):
        spark.read.format("intarsia").load()


def test_views_and_tables_in_sql(spark, lake):
    """A view has the options. For a table, Spark has them only when it creates the table."""
    spark.sql(f"CREATE TEMPORARY VIEW source USING intarsia OPTIONS (path '{lake}', where 'i = 20000')")
    try:
        assert spark.table("source").count() == ia.open(lake).count("i = 20000") > 0
    finally:
        spark.sql("DROP VIEW source")
    for rest in (f"OPTIONS (path '{lake}')", f"LOCATION '{lake}'"):
        with pytest.raises(Exception, match="CREATE TEMPORARY VIEW"):
            spark.sql(f"CREATE TABLE source USING intarsia {rest}")
    assert not spark.catalog.tableExists("source")


def test_a_path_as_spark_writes_it(spark, lake):
    assert source(spark, f"file:{lake}", columns="i").count() == ia.open(lake).count()


def test_an_unknown_option_is_refused(spark, lake):
    """A predicate whose name is misspelt would be ignored."""
    with pytest.raises(Exception, match="no option 'wehre'"):
        source(spark, lake, wehre="i = 20000")


def test_the_folder_of_a_delta_table_is_refused(spark, lake, tmp_path):
    """The warning of `ia.open` would be lost, in the process in which Spark plans the source."""
    folder = str(tmp_path / "table")
    deltalake.write_deltalake(folder, pa.table({"id": [1, 2]}))
    deltalake.write_deltalake(folder, pa.table({"id": [3, 4, 5]}), mode="overwrite")
    with pytest.raises(Exception, match="'delta"):
        source(spark, folder, where="id > 1")
    assert rows(source(spark, f"delta+{folder}", where="id > 3")) == ["Row(id=4)", "Row(id=5)"]


@pytest.mark.parametrize(("columns", "name"), [("i,s,i", "i"), ("st.x,st.x", "x")])
def test_a_name_of_two_columns_is_refused(spark, lake, columns, name):
    with pytest.raises(Exception, match=f"two columns named '{name}'"):
        source(spark, lake, columns=columns).collect()


@pytest.mark.parametrize("schema", ["i long", "s string, i int", "I int", "i int, nowhere int"])
def test_another_schema_is_refused(spark, lake, schema):
    own = source(spark, lake, columns="i")
    frame = spark.read.format("intarsia").option("columns", "i")
    assert frame.schema(own.schema).load(lake).count() == own.count()
    with pytest.raises(Exception, match="leave out schema"):
        frame.schema(schema).load(lake).count()


def test_times_that_arrow_cannot_represent(spark, tmp_path):
    path = str(tmp_path / "lake")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        ends = spark.sql("SELECT id, timestamp'9999-12-31 00:00:00' AS until FROM range(3)")
        ends.coalesce(1).write.parquet(path)
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    with pytest.raises(Exception, match="INT96 timestamps before 1677 or after 2262"):
        source(spark, path).collect()
    assert source(spark, path, columns="id").count() == 3
    assert ias.read(spark, path, "until > timestamp'9000-01-01 00:00:00'").count() == 3


def test_types_of_other_writers():
    given = pa.schema(
        [
            ("a", pa.uint64()),
            ("b", pa.dictionary(pa.int8(), pa.large_string())),
            ("c", pa.timestamp("ns", "Europe/Berlin")),
            ("d", pa.struct([("x", pa.large_list(pa.uint8()))])),
            ("e", pa.map_(pa.string_view(), pa.date64())),
            ("f", pa.binary(16)),
        ]
    )
    assert spark_schema(given).types == [
        pa.decimal128(20, 0),
        pa.string(),
        pa.timestamp("us", "UTC"),
        pa.struct([("x", pa.list_(pa.int16()))]),
        pa.map_(pa.string(), pa.date32()),
        pa.binary(),
    ]
    with pytest.raises(UnsupportedFeatureError) as caught:
        spark_schema(pa.schema([("t", pa.time64("us"))]))
    assert (caught.value.reason, caught.value.column) == ("unsupported-type", "t")
