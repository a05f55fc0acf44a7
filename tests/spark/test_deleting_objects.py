"""`ias.delete` in object stores: conditional puts, lost races, kills, and what is refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.errors import FilesFailedError, ObjectStoreError, UnsupportedFeatureError
from tests.effort import examples
from tests.object_stores.store_server import BUCKET, Fault
from tests.spark.killing import Job, check_kills, requests_to

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

LAKE = f"s3a://{BUCKET}/lake"

FILES, ROWS = 6, 1_000

INDEXES = [ia.PageIndex(), ia.Bloom("user"), ia.Distinct("country")]

#: Rows in all files but one, and all rows of one.
WHERE = "country = 'part-5' OR id % 100 = 0 AND id < 5000"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    found = {}
    for part in range(FILES):
        path = tmp_path_factory.mktemp("files") / f"a {part}%.parquet"
        ids = range(part * ROWS, (part + 1) * ROWS)
        table = pa.table({"id": ids, "user": [one + 100 for one in ids], "country": [f"part-{part}"] * ROWS})
        pq.write_table(table, path, row_group_size=400)
        ia.attach(path, INDEXES)
        found[f"lake/day={part // 2}/{path.name}"] = path.read_bytes()
    return found


@pytest.fixture
def lake(store, files):
    for key, data in files.items():
        store.put(key, data)
    return store


def left():
    return [one for one in range(FILES * ROWS) if one // ROWS != 5 and not (one % 100 == 0 and one < 5_000)]


LEFT = frozenset(left())


def ids_of_bytes(data):
    return pq.read_table(pa.BufferReader(data))["id"].to_pylist()


def ids_of(store, key):
    return ids_of_bytes(store.content(key))


def all_ids(store):
    keys = [key for key in store.list_keys() if key.endswith(".parquet")]
    return sorted(one for key in keys for one in ids_of(store, key))


def delete(spark, where=WHERE, **options):
    return ias.delete(spark, LAKE, where, progress=False, **options)


def test_the_rows_left_are_those_of_plain_spark(spark, lake, files):
    whole = spark.read.parquet(LAKE)
    expected = sorted(map(str, whole.where(f"NOT ({WHERE})").collect()))
    dry = delete(spark, dry_run=True)
    assert {key: lake.content(key) for key in files} == files
    report = delete(spark)
    assert report.rows_deleted == dry.rows_deleted == FILES * ROWS - len(left())
    assert (report.files_rewritten, report.files_removed) == (FILES, 0)
    assert report.rows_checked == len(left())
    spark.catalog.refreshByPath(LAKE)
    assert sorted(map(str, spark.read.parquet(LAKE).collect())) == expected
    assert all_ids(lake) == left()
    for key in files:
        data = pa.BufferReader(lake.content(key))
        assert pq.ParquetFile(data).metadata.num_columns == 3
    assert ias.verify(spark, LAKE, progress=False).ok
    rows = ias.describe(spark, LAKE, progress=False).where("rows > 0").collect()
    assert all(len(row["indexes"]) == 1 for row in rows)
    assert delete(spark).rows_deleted == 0


def test_other_objects_are_not_written(spark, lake, files):
    with lake.recording() as found:
        report = delete(spark, "user = 1207")
    assert (report.rows_deleted, report.files_rewritten) == (1, 1)
    assert found.methods["PUT"] == 1
    assert sum(lake.content(key) == data for key, data in files.items()) == FILES - 1


def test_lake_indexes_lose_the_values(spark, store, tmp_path):
    for part in range(2):
        names = [f"zz-person-{part}" if row == 5 else f"name-{row}" for row in range(100)]
        pq.write_table(pa.table({"name": names}), tmp_path / "x.parquet", compression="none")
        store.put(f"lake/{part}.parquet", (tmp_path / "x.parquet").read_bytes())
    ias.index(spark, LAKE, [ia.Distinct("name")], lake_index="beside", progress=False)

    def contents():
        return b"".join(store.content(key) for key in store.list_keys() if "_intarsia" in key)

    assert b"zz-person-1" in contents()
    assert len(delete(spark, "name LIKE 'zz-person-1'").lake_indexes) == 1
    assert b"zz-person-1" not in contents()
    assert b"zz-person-0" in contents()


def test_a_lake_index_that_cannot_be_updated(spark, store, tmp_path):
    """No row remains, but its values do; the next run removes them."""
    for part in range(2):
        pq.write_table(pa.table({"name": [f"zz-person-{part}", "a"]}), tmp_path / "x.parquet")
        store.put(f"lake/{part}.parquet", (tmp_path / "x.parquet").read_bytes())
    ias.index(spark, LAKE, [ia.Distinct("name")], lake_index="beside", progress=False)
    before = [key for key in store.list_keys() if "_intarsia" in key]
    store.faults = [
        Fault(method="PUT", key="*_intarsia*", times=None, status="403 Forbidden", code="AccessDenied")
    ]
    with pytest.warns(ia.IntarsiaWarning), pytest.raises(FilesFailedError, match="lake index") as caught:
        delete(spark, "name = 'zz-person-1'")
    assert caught.value.report.rows_deleted == 1
    assert [failure.path for failure in caught.value.report.failed] == [f"s3://{BUCKET}/lake/_intarsia"]
    store.faults = []
    assert len(delete(spark, "name = 'zz-person-1'").lake_indexes) == 1
    assert set(before).isdisjoint(store.list_keys())


def test_a_store_that_lists_nothing(spark, lake):
    """Neither Python nor Spark can; the error is one sentence, and not the stack trace of Java."""
    lake.faults = [Fault(method="GET", key="", times=None, status="400 Bad Request", code="ExpiredToken")]
    with pytest.raises(ObjectStoreError):
        ias.index(spark, LAKE, INDEXES, progress=False)


def test_a_truncated_listing_is_requested_again(spark, lake):
    """The folder of a table's log is listed to refuse tables."""
    lake.faults = [Fault("truncate", "GET", key="", query="_delta_log")]
    assert delete(spark, "id = 7").rows_deleted == 1
    assert lake.faults[0].times == 0


def test_an_object_that_is_replaced_meanwhile_is_searched_again(spark, lake, files):
    """Of the same length and in the same second; its new rows match at other places."""
    key = next(iter(files))
    table = pq.read_table(pa.BufferReader(files[key]))
    turned = table.take(list(range(ROWS))[::-1])
    sink = pa.BufferOutputStream()
    pq.write_table(turned, sink, row_group_size=400)
    new = sink.getvalue().to_pybytes()

    def replace():
        lake.put(key, new)

    lake.faults = [Fault(kind="call", method="PUT", key="*a 0*", action=replace)]
    report = delete(spark)
    assert lake.faults[0].times == 0
    assert report.rows_deleted == FILES * ROWS - len(left())
    assert all_ids(lake) == left()


def test_a_store_that_refuses(spark, lake, files):
    lake.faults = [Fault(method="PUT", key="*a 1*", times=None, status="403 Forbidden", code="AccessDenied")]
    with pytest.raises(FilesFailedError) as caught:
        delete(spark)
    (failure,) = caught.value.report.failed
    assert "a 1%" in failure.path
    lake.faults = []
    assert delete(spark).files_rewritten == 1
    assert all_ids(lake) == left()


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("lake/_delta_log/0.json", "Delta"),
        ("_delta_log/0.json", "Delta"),
        ("lake/metadata/v1.metadata.json", "Iceberg"),
        ("lake/.hoodie/hoodie.properties", "Hudi"),
        ("schema/schema-0", "Paimon"),
    ],
)
def test_tables_of_formats_are_refused(spark, lake, files, key, name):
    lake.put(key, b"{}")
    with pytest.raises(UnsupportedFeatureError, match=name) as caught:
        delete(spark)
    assert caught.value.reason == "managed-table"
    assert {one: lake.content(one) for one in files} == files


JOBS = {
    "delete": f"ias.delete(spark, {LAKE!r}, {WHERE!r}, progress=False)",
    "index": f"ias.index(spark, {LAKE!r}, [ia.RowMap('id')], progress=False)",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_killed_at_requests(spark, lake, files, tmp_path, name):
    """Killed while an object is read or replaced: nothing is lost or doubled, and the next run finishes."""
    old = {key: ids_of_bytes(data) for key, data in files.items()}
    new = {key: [one for one in ids if one in LEFT] for key, ids in old.items()} if name == "delete" else old
    kinds_of_job = {"distinct"} if name == "delete" else {"distinct", "row_map"}

    def prepare():
        for key, data in files.items():
            lake.put(key, data)
        spark.catalog.refreshByPath(LAKE)

    def check():
        assert set(lake.list_keys()) == set(files)
        for key in files:
            assert ids_of(lake, key) in (old[key], new[key]), key

    def check_done():
        assert {key: ids_of(lake, key) for key in files} == new
        for key in files:
            path = tmp_path / "object.parquet"
            path.write_bytes(lake.content(key))
            assert ia.verify(path, quick=True).ok
            directory = ia.inspect(path).directory
            kinds = {entry.kind for entry in directory.entries} if new[key] else kinds_of_job
            assert kinds == kinds_of_job, key

    job = Job(JOBS[name], requests_to(lake, "*.parquet"), prepare, check, check_done)
    check_kills(spark, job, examples(1, deep=30))
