"""Jobs on abfs:// and gs:// have the settings and the credentials of Spark's file systems."""

import json
import os
import pickle
import shutil
import subprocess
import threading
import time
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import obstore
import pyspark
import pytest

import intarsia as ia
import intarsia.spark as ias
from intarsia.spark.spark_stores import options_of_spark
from intarsia.storage import find_store
from tests.lake.index.lakes import write
from tests.object_stores.cloud_servers import ACCOUNT, AzureServer, GoogleServer
from tests.object_stores.store_server import BUCKET, Fault
from tests.spark.jars import folder_of_jars, jars_of
from tests.spark.skipping import rows_of_file

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SECRET = "U0VDUkVULVRIQVQtTVVTVC1OT1QtQkUtU0VFTg=="  # in Base64, as keys of Azure are

HOST = f"{ACCOUNT}.dfs.core.windows.net"
ABFS = f"abfs://{BUCKET}@{HOST}"
GS = f"gs://{BUCKET}"

#: In the responses of the issuers of all stores.
EXPIRY = {"expires_in": 3600, "expires_on": str(int(time.time()) + 3600)}

PROVIDERS = {
    "Tokens": """
package given;
public final class Tokens implements com.google.cloud.hadoop.util.AccessTokenProvider {
  private org.apache.hadoop.conf.Configuration conf;
  public AccessToken getAccessToken() {
    return new AccessToken(conf.get("given.token"), java.time.Instant.now().plusSeconds(3600));
  }
  public void refresh() {}
  public void setConf(org.apache.hadoop.conf.Configuration given) { conf = given; }
  public org.apache.hadoop.conf.Configuration getConf() { return conf; }
}
""",
    "Signatures": """
package given;
public final class Signatures implements org.apache.hadoop.fs.azurebfs.extensions.SASTokenProvider {
  public void initialize(org.apache.hadoop.conf.Configuration conf, String account) {}
  public String getSASToken(String account, String container, String path, String operation) { return path; }
}
""",
}


class Issuer:
    """A server that issues tokens, and answers all other requests with an empty object.

    Attributes:
        url: Its address.
        seen: The headers and the path of each request for an object.
    """

    def __init__(self):
        issuer = self
        self.seen = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def do_GET(self):
                answer = {"access_token": f"issued-{SECRET}", "token_type": "Bearer", **EXPIRY}
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_HEAD(self):
                issuer.seen.append((self.headers, self.path))
                self.send_response(200)
                for name, value in {"Content-Length": "0", "ETag": '"1"'}.items():
                    self.send_header(name, value)
                self.send_header("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def issuer():
    for profile in ("azure-3.5", "google-3.1"):
        jars_of(profile)
    found = Issuer()
    yield found
    found.close()


@pytest.fixture
def configure(spark, monkeypatch):
    """A function that sets settings of the session for one test."""
    for name in ("AZURE_STORAGE_ACCOUNT_KEY", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    names = set()

    def set_all(values):
        # file systems of other tests have the settings of those
        for key, value in {
            **values,
            "fs.abfs.impl.disable.cache": "true",
            "fs.gs.impl.disable.cache": "true",
        }.items():
            names.add(key)
            spark.conf.set(key, value)

    yield set_all
    for key in names:
        spark.conf.unset(key)


def azure(address, **values):
    """Settings of ABFS for an emulator, without a request at the start."""
    plain = {
        "fs.azure.abfs.endpoint": address,
        "fs.azure.always.use.https": "false",
        "fs.azure.account.hns.enabled": "true",
        "fs.abfs.impl": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",  # the other one needs TLS
        "fs.azure.oauth.token.fetch.retry.max.retries": "0",
        "fs.azure.io.retry.max.retries": "0",
    }
    return plain | {f"fs.azure.{key}": value for key, value in values.items()}


def google(address, **values):
    plain = {
        "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "fs.gs.project.id": "project",
        "fs.gs.storage.root.url": f"http://{address}/",
    }
    return plain | {f"fs.gs.{key}": value for key, value in values.items()}


def key_file(tmp_path, address):
    """Write the key of a service account, whose tokens the issuer issues."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    account = {
        "type": "service_account",
        "client_email": "a@b",
        "client_id": "1",
        "private_key_id": SECRET,
        "private_key": text,
        "token_uri": f"http://{address}/token",
    }
    path = tmp_path / "key.json"
    path.write_text(json.dumps(account))
    return path


OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2."

#: The ways of authentication: the store, its settings, the name and the value of the header that objects get.
WAYS = {
    "account key": (ABFS, {f"account.key.{HOST}": SECRET}, f"SharedKey {ACCOUNT}:"),
    "key for all accounts": (ABFS, {"account.key": SECRET}, f"SharedKey {ACCOUNT}:"),
    "SAS": (ABFS, {"account.auth.type": "SAS", "sas.fixed.token": f"?sv=1&sig={SECRET[:-2]}"}, None),
    "client credentials": (
        ABFS,
        {
            "account.auth.type": "OAuth",
            "account.oauth.provider.type": f"{OAUTH}ClientCredsTokenProvider",
            "account.oauth2.client.endpoint": "http://ADDRESS/token",
            "account.oauth2.client.id": "id",
            "account.oauth2.client.secret": SECRET,
        },
        f"Bearer issued-{SECRET}",
    ),
    "managed identity": (
        ABFS,
        {
            f"account.auth.type.{HOST}": "OAuth",
            f"account.oauth.provider.type.{HOST}": f"{OAUTH}MsiTokenProvider",
            "account.oauth2.msi.endpoint": "http://ADDRESS/identity",
            "account.oauth2.msi.tenant": "tenant",
            "account.oauth2.client.id": "id",
        },
        f"Bearer issued-{SECRET}",
    ),
    "key file": (
        GS,
        {"auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE", "auth.service.account.json.keyfile": "KEY"},
        f"Bearer issued-{SECRET}",
    ),
    "credentials of a user": (
        GS,
        {
            "auth.type": "USER_CREDENTIALS",
            "auth.client.id": "id",
            "auth.client.secret": SECRET,
            "auth.refresh.token": SECRET,
            "token.server.url": "http://ADDRESS/token",
        },
        f"Bearer issued-{SECRET}",
    ),
    "access tokens": (
        GS,
        {"auth.type": "ACCESS_TOKEN_PROVIDER", "auth.access.token.provider": "given.Tokens"},
        f"Bearer given-{SECRET}",
    ),
    "anonymous": (GS, {"auth.type": "UNAUTHENTICATED"}, None),
}


def settings_of(way, issuer, tmp_path, address=None):
    """Return the URL of the store of a way, and the settings of Spark."""
    url, values, _ = WAYS[way]
    found = {key: text.replace("ADDRESS", issuer.address) for key, text in values.items()}
    if way == "key file":
        found["auth.service.account.json.keyfile"] = str(key_file(tmp_path, issuer.address))
    of_store = azure if url == ABFS else google
    return url, of_store(address or issuer.address, **found) | {"given.token": f"given-{SECRET}"}


@pytest.fixture(scope="module")
def given(spark):
    """Providers of credentials as companies write them, on the class path of the session."""
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("no javac to compile providers of credentials")
    class_path = spark._jvm.java.lang.System.getProperty("java.class.path").split(os.pathsep)
    folder = next(filter(Path.is_dir, map(Path, class_path)))
    jars = [folder_of_jars("azure-3.5"), folder_of_jars("google-3.1"), Path(pyspark.__file__).parent / "jars"]
    sources = {folder / f"{name}.java": source for name, source in PROVIDERS.items()}
    for path, source in sources.items():
        path.write_text(source)
    options = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none", "-d", folder]
    options += ["-cp", os.pathsep.join(f"{one}/*" for one in jars)]
    subprocess.run([javac, *options, *sources], check=True)


@pytest.fixture
def way(request):
    if request.param == "access tokens":
        request.getfixturevalue("given")
    return request.param


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_requests_have_the_credentials_of_spark(spark, issuer, configure, way, tmp_path):
    url, values = settings_of(way, issuer, tmp_path)
    configure(values)
    options = options_of_spark(spark, f"{url}/lake")
    assert set(options) == {url}
    sent = pickle.loads(pickle.dumps(options))[url]  # to the tasks
    if sent.get("azure_storage_endpoint", "").startswith("https:"):
        assert "OAuth" in str(values)  # as ABFS, which sends no token without TLS
        sent |= {"azure_storage_endpoint": f"http://{issuer.address}/{ACCOUNT}", "allow_http": True}
    store, _ = find_store(url, sent)
    issuer.seen.clear()
    obstore.head(store, "x")
    ((headers, path),) = issuer.seen
    expected = WAYS[way][2]
    assert headers.get("Authorization", "").startswith(expected or "")
    assert ("Authorization" in headers) == (expected is not None)
    assert (f"sig={SECRET[:-2]}" in path) == (way == "SAS")
    assert SECRET not in repr(store) + repr(options)


@pytest.fixture(params=["account key", "key file"])
def lake(request, spark, issuer, configure, tmp_path):
    """A lake in a store that has the settings of Spark alone."""
    way = request.param
    server = AzureServer() if WAYS[way][0] == ABFS else GoogleServer()
    url, values = settings_of(way, issuer, tmp_path, server.url.removeprefix("http://"))
    configure(values)
    for ordinal in range(2):
        path = tmp_path / "x.parquet"
        write(path, rows_of_file(ordinal))
        server.put(f"lake/a b{ordinal}.parquet", path.read_bytes())
    yield server, f"{url}/lake"
    server.close()


def test_jobs(spark, lake, capfd, caplog):
    server, url = lake
    originals = {key: server.content(key) for key in server.list_keys()}
    report = ias.index(spark, url, [ia.RowMap("code"), ia.PageIndex()], lake_index="beside")
    assert (report.files_indexed, report.lake_index.files_added) == (2, 2)
    assert ias.verify(spark, url).ok
    assert ias.describe(spark, url).where("size(indexes) = 1 AND error IS NULL").count() == 2
    detached = ias.detach(spark, url)
    assert detached.files_detached == 2
    assert {key: server.content(key) for key in originals} == originals
    server.faults = [Fault(method="GET", key="lake/*", times=None, status="403 Forbidden", code="Refused")]
    refused = ias.describe(spark, url).collect()
    assert all("403" in row["error"] for row in refused)
    printed = "".join(capfd.readouterr()) + caplog.text
    for text in (printed, repr(report), repr(detached), str(refused), repr(pickle.dumps(report))):
        assert SECRET not in text


#: Settings that the planner does not support, or that are wrong; and what the warning names.
REFUSED = [
    (
        ABFS,
        {"account.auth.type": "SAS", "sas.token.provider.type": "given.Signatures"},
        "sas.token.provider.type",
    ),
    (ABFS, {"account.key": "a2V5", "encryption.encoded.client-provided-key": SECRET}, "client-provided-key"),
    (ABFS, {"account.key": "a2V5", "io.read.tolerate.concurrent.append": "true"}, "concurrent.append"),
    (ABFS, {"account.key": f"not Base64: {SECRET}"}, "fs.azure.account.auth.type"),
    (
        ABFS,
        {
            "account.auth.type": "OAuth",
            "account.oauth.provider.type": f"{OAUTH}ClientCredsTokenProvider",
            "account.oauth2.client.endpoint": "http://127.0.0.1:9/token",
            "account.oauth2.client.id": "id",
            "account.oauth2.client.secret": SECRET,
        },
        "fs.azure.account.auth.type",
    ),
    (
        GS,
        {
            "auth.type": "UNAUTHENTICATED",
            "encryption.key": SECRET,
            "encryption.key.hash": SECRET,
            "encryption.algorithm": "AES256",
        },
        "fs.gs.encryption.key",
    ),
    (GS, {"auth.type": "UNAUTHENTICATED", "requester.pays.mode": "AUTO"}, "fs.gs.requester.pays.mode"),
    (
        GS,
        {
            "auth.type": "USER_CREDENTIALS",
            "auth.client.id": "id",
            "auth.client.secret": SECRET,
            "auth.refresh.token": SECRET,
            "token.server.url": "http://127.0.0.1:9/",
        },
        "fs.gs.auth.type",
    ),
]


@pytest.mark.parametrize(("url", "values", "named"), REFUSED)
def test_a_warning_names_the_setting(spark, issuer, given, configure, url, values, named):
    configure((azure if url == ABFS else google)(issuer.address, **values))
    with pytest.warns(ia.IntarsiaWarning) as caught:
        assert options_of_spark(spark, f"{url}/lake") == {}
    (message,) = (str(one.message) for one in caught)
    assert named in message
    assert message.startswith(f"{url}/lake: ")
    assert SECRET not in message


def test_a_session_without_the_file_system(spark):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert options_of_spark(spark, "abfs://a@b.c/x") == {}
