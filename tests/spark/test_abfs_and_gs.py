"""Enabled sessions on abfs:// and gs://, with the file systems of Hadoop and Google."""

import pytest

import intarsia as ia
import intarsia.spark as ias
from tests.effort import examples
from tests.object_stores.cloud_servers import AzureServer, GoogleServer
from tests.spark.object_lakes import (
    check_needle,
    check_partition_columns,
    check_random,
    check_replaced_object,
    lake_files,
    put_lake,
    replacement,
)
from tests.spark.skipping import code_of, compare
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
    return lake_files(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def lake(store, files):
    """The URL of a lake."""
    server, url = store
    put_lake(server, NAMES, files)
    return f"{url}/lake"


@pytest.mark.parametrize("ordinal", [0, 3])
def test_files_and_rows_are_skipped(enabled, lake, ordinal):
    check_needle(enabled, lake, ordinal)


def test_random_queries(store, enabled, tmp_path):
    check_random(enabled, *store, tmp_path, examples(40, deep=1_000), examples(0, deep=160))


def test_partition_columns(store, enabled, files):
    check_partition_columns(enabled, *store, files)


@pytest.mark.parametrize("ordinal", [3, 5])
@pytest.mark.parametrize("moment", ["listed", "planned", "run"])
def test_a_replaced_object(store, enabled, lake, files, tmp_path, ordinal, moment):
    new = replacement(files, ordinal, tmp_path)
    key = f"lake/{NAMES[ordinal]}.parquet"
    check_replaced_object(enabled, store[0], lake, key, new, moment, is_excluded=ordinal != 3)


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
