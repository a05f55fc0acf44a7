"""`ias.aggregate`, compared with `Table.aggregate` and with Spark."""

import deltalake
import pyarrow as pa
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.errors import FilesFailedError, PredicateError, UnsupportedFeatureError
from tests.spark.skipping import FILES, ROWS, dropped, make_lake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return make_lake(tmp_path_factory.mktemp("aggregating") / "lake")


def test_the_values_are_those_of_the_table(spark, lake):
    where = "user < 40000 AND amount >= 20.5"
    text = "count(*), sum(user), min(amount), max(amount), avg(user), max(st.x)"
    calls = []
    found = ias.aggregate(spark, lake, text, where, progress=lambda *args: calls.append(args))
    functions = {"*": ["count"], "user": ["sum", "avg"], "amount": ["min", "max"], "st.x": ["max"]}
    assert found == ia.open(lake).aggregate(functions, where)
    assert calls[-1][:2] == (FILES, FILES)
    assert found.report.files_opened == FILES
    assert found.report.rows_matched == found["*"]["count"]
    plain = spark.read.parquet(str(lake)).where(where).agg({"*": "count", "user": "sum"}).first()
    assert sorted(plain) == sorted([found["*"]["count"], found["user"]["sum"]])


def test_statistics_answer_without_reading_rows(spark, lake):
    found = ias.aggregate(spark, lake, {"*": "count", "id": ["min", "max"]}, "id >= 200", progress=False)
    assert found == {"*": {"count": (FILES - 1) * ROWS}, "id": {"min": ROWS, "max": FILES * ROWS - 1}}
    assert found.report.row_groups_read == 0
    assert {entry.index for entry in found.report.answered_by.values()} == {"statistics"}


def test_a_lake_index_answers_without_a_job(spark, lake):
    table = ia.open(lake)
    table.build_lake_index("beside")
    try:
        calls = []
        found = ias.aggregate(spark, lake, "count(*), max(id)", progress=lambda *args: calls.append(args))
        assert found == {"*": {"count": FILES * ROWS}, "id": {"max": FILES * ROWS - 1}}
        assert (calls, found.report.files_opened) == ([], 0)
        found = ias.aggregate(spark, lake, "sum(user)", "id BETWEEN 150 AND 250", progress=False)
        assert found == ia.open(lake).aggregate({"user": "sum"}, "id BETWEEN 150 AND 250")
        assert found.report.files_opened == 2
    finally:
        table.remove_lake_index()


def test_tables_of_the_catalog(spark, lake):
    spark.sql(f"CREATE TABLE aggregated USING parquet LOCATION '{lake}'")
    try:
        assert ias.aggregate(spark, "aggregated", "count(amount)", progress=False) == {
            "amount": {"count": FILES * (ROWS - 4)}
        }
    finally:
        spark.sql("DROP TABLE aggregated")


def test_files_in_no_partition_of_a_table_are_refused(spark, tmp_path):
    """An external table leaves the files of a partition that it drops, and Spark no longer reads them."""
    with dropped(spark, "parted"):
        spark.sql(
            f"CREATE TABLE parted (id LONG, p INT) USING parquet PARTITIONED BY (p) LOCATION '{tmp_path}'"
        )
        spark.sql("INSERT INTO parted SELECT id, CAST(id % 2 AS INT) FROM range(100)")
        assert ias.aggregate(spark, "parted", "count(*)", progress=False) == {"*": {"count": 100}}
        spark.sql("ALTER TABLE parted DROP PARTITION (p = 1)")
        for job in (ias.aggregate, ias.approx_distinct):
            with pytest.raises(UnsupportedFeatureError) as caught:
                job(spark, "parted", "count(*)" if job is ias.aggregate else "id", progress=False)
            assert caught.value.reason == "unknown-partition"
            assert "p=1" in caught.value.path
        spark.sql("MSCK REPAIR TABLE parted")
        assert ias.aggregate(spark, "parted", "count(*)", progress=False) == {"*": {"count": 100}}


def test_partitions_elsewhere_of_a_cached_table(spark, tmp_path):
    """Spark lists no files of a table that it has cached."""
    with dropped(spark, "elsewhere"):
        columns = "(id LONG, p INT) USING parquet PARTITIONED BY (p)"
        spark.sql(f"CREATE TABLE elsewhere {columns} LOCATION '{tmp_path / 'a'}'")
        for p in (0, 1):
            spark.sql(
                f"ALTER TABLE elsewhere ADD PARTITION (p = {p}) LOCATION '{tmp_path / 'ab'[p] / f'p={p}'}'"
            )
            spark.sql(f"INSERT INTO elsewhere PARTITION (p = {p}) VALUES ({p})")
        spark.sql("CACHE TABLE elsewhere")
        assert ias.index(spark, "elsewhere", [ia.Bloom("id")], progress=False).files_indexed == 2
        assert int(ias.approx_distinct(spark, "elsewhere", "id", progress=False)) == 2


def test_files_that_fail(spark, lake, tmp_path):
    copy = make_lake(tmp_path / "lake")
    damaged = sorted(copy.glob("*.parquet"))[2]
    data = damaged.read_bytes()
    damaged.write_bytes(data[:4] + bytes(3000) + data[3004:])
    with pytest.raises(FilesFailedError) as caught:
        ias.aggregate(spark, copy, "sum(user)", "user > 5", progress=False)
    assert list(caught.value.errors) == [str(damaged)]
    with pytest.warns(ia.IntarsiaWarning):
        found = ias.aggregate(spark, copy, "sum(user)", "user > 5", on_error="skip", progress=False)
    assert found.report.files_failed[0].file == str(damaged)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("median(x)", "unknown-function"),
        ("sum(user) AS total", "renamed-aggregate"),
        ("approx_distinct(user)", "not-an-exact-function"),
        ("", "invalid-aggregate"),
    ],
)
def test_texts_that_are_refused(spark, lake, text, reason):
    with pytest.raises(PredicateError) as caught:
        ias.aggregate(spark, lake, text)
    assert caught.value.reason == reason


def test_the_folder_of_a_delta_table_is_counted_with_a_warning(spark, tmp_path):
    """In a session that does not read Delta, its files are those of a folder."""
    folder = str(tmp_path / "table")
    deltalake.write_deltalake(folder, pa.table({"id": [1, 2]}))
    deltalake.write_deltalake(folder, pa.table({"id": [3, 4, 5]}), mode="overwrite")
    for job, what in ((ias.aggregate, "count(*)"), (ias.approx_distinct, "id")):
        with pytest.warns(ia.IntarsiaWarning, match="Delta"):
            job(spark, folder, what, progress=False)
