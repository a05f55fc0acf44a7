"""Enabled sessions on abfs:// and gs://, with the file systems of Hadoop and Google."""

import random

import pytest

import intarsia as ia
import intarsia.spark as ias
from tests.effort import examples
from tests.object_stores.cloud_servers import AzureServer, GoogleServer
from tests.spark import lakes
from tests.spark.random_queries import check_predicates
from tests.spark.skipping import FILES, ROWS, code_of, compare, make_lake, user_of
from tests.spark.test_lake_index import attach
from tests.spark.test_s3a import replacement
from tests.spark.test_store_settings import SECRET, issuer, settings_of

assert issuer  # a fixture

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

NAMES = ("a b", "100%", "%41", "1+1", "x=1", "ü", "a&b", "plain")


@pytest.fixture(params=["account key", "key file"], ids=["abfs", "gs"])
def store(request, enabled, issuer, tmp_path, monkeypatch):
    """A server with an empty bucket, whose address Spark alone has, and the URL of the bucket."""
    for name in ("AZURE_STORAGE_ACCOUNT_KEY", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    server = AzureServer() if request.param == "account key" else GoogleServer()
    url, values = settings_of(request.param, issuer, tmp_path, server.url.removeprefix("http://"))
    values |= {"fs.abfs.impl.disable.cache": "true", "fs.gs.impl.disable.cache": "true"}
    # Google's connector 3.1 calls a method that Hadoop 3.5 does not have
    values["parquet.hadoop.vectored.io.enabled"] = "false"
    for key, value in values.items():
        enabled.conf.set(key, value)
    yield server, url
    for key in values:
        enabled.conf.unset(key)
    server.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return [
        path.read_bytes() for path in sorted(make_lake(tmp_path_factory.mktemp("lake")).glob("*.parquet"))
    ]


@pytest.fixture
def lake(store, files):
    """The URL of a lake."""
    server, url = store
    for name, data in zip(NAMES, files, strict=True):
        server.put(f"lake/{name}.parquet", data)
    return f"{url}/lake"


@pytest.mark.parametrize("ordinal", [0, 3])
def test_files_and_rows_are_skipped(enabled, lake, ordinal):
    found = compare(enabled, lambda: enabled.read.parquet(lake).where(f"code = '{code_of(ordinal, 5)}'"))
    assert len(found.rows) == 1
    assert found.plain_files == FILES
    assert (found.files, found.scanned) == (1, 1)


def test_random_predicates(store, enabled, tmp_path):
    server, url = store
    local = lakes.write_with_pyarrow(tmp_path / "lake", rows=60, row_group_size=30, max_rows_per_page=6)
    attach(local)
    ia.attach(local, [ia.PageIndex()])
    for path in sorted(tmp_path.rglob("*.parquet")):
        server.put(str(path.relative_to(tmp_path)), path.read_bytes())
    whole = enabled.read.parquet(f"{url}/lake")
    check_predicates(whole, random.Random("predicates of other stores"), examples(40, deep=1_000))


def test_partition_columns(store, enabled, files):
    server, url = store
    for ordinal, data in enumerate(files):
        server.put(f"lake/day={ordinal % 4}/part of {ordinal}.parquet", data)
    frame = enabled.read.parquet(f"{url}/lake")
    found = compare(enabled, lambda: frame.where(f"day = 1 AND code = '{code_of(5, 5)}'"))
    assert (len(found.rows), found.files, found.scanned) == (1, 1, 1)


@pytest.mark.parametrize("ordinal", [3, 5])
@pytest.mark.parametrize("moment", ["listed", "planned", "run"])
def test_a_replaced_object(store, enabled, lake, files, tmp_path, ordinal, moment):
    new = replacement(files, ordinal, tmp_path)
    frame = enabled.read.parquet(lake)
    narrow = frame.where(f"user = {user_of(3, 77)}")
    if moment == "planned":
        narrow._jdf.queryExecution().executedPlan()
    elif moment == "run":
        assert len(narrow.collect()) == 1
    store[0].put(f"lake/{NAMES[ordinal]}.parquet", new)
    assert len(narrow.collect()) == ROWS + (ordinal != 3)


def test_a_lake_index(store, enabled, lake):
    """No object is opened to be excluded."""
    ias.index(enabled, lake, [ia.RowMap("code")], lake_index="beside", progress=False)
    query = f"code = '{code_of(3, 5)}'"
    assert compare(enabled, lambda: enabled.read.parquet(lake).where(query)).files == 1
    query = f"code = '{code_of(3, 6)}'"
    frame = enabled.read.parquet(lake).where(query)
    with store[0].recording() as found:
        assert len(frame.collect()) == 1
    opened = {
        name
        for one in found.requests
        for name in NAMES
        if one.key.endswith(f"lake/{name}.parquet") and one.method == "GET"
    }
    assert opened == {NAMES[3]}
    assert SECRET not in repr(ias.last_skips(enabled))
