"""Errors of stores are one line with the URL and the remedy; plain HTTP works. No network is used."""

from __future__ import annotations

import http.server
import re
import threading

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import GenericError, PermissionDeniedError
from obstore.store import MemoryStore

import intarsia as ia
from intarsia.cli import main
from intarsia.lake.data_file import DataFile
from intarsia.lake.table import Table
from intarsia.storage import ByteRange, ObjectStoreFile, find_store, offered_options
from intarsia.storage.object_target import replace_object

URL = "s3://bucket/lake/x.parquet"
DUMP = '\n\nDebug source:\nGeneric {\n    store: "S3",\n}'
NO_KEYS = GenericError(
    "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1ms - error" + DUMP
)
DENIED = PermissionDeniedError("The operation lacked the privileges: 403 Forbidden" + DUMP)


@pytest.fixture
def refuse(monkeypatch):
    """Make a function of obstore raise an error."""

    def refuse(name, error):
        def raises(*rest, **more):
            raise error

        monkeypatch.setattr(obstore, name, raises)

    return refuse


def assert_clear(caught, reason=None, *remedies, url=URL):
    """The error is one line that begins with the URL; ``remedies`` are names of settings in it."""
    text = str(caught.value)
    assert text.startswith(f"{url}: ")
    assert len(text.splitlines()) == 1
    assert len(text) < 600
    assert "Debug source" not in text
    assert all(remedy in text for remedy in remedies)
    if reason is None:
        assert isinstance(caught.value, FileNotFoundError)
    else:
        assert (caught.value.reason, caught.value.path) == (reason, url)
    assert caught.value.__cause__ is None  # a traceback would contain all of obstore's dump
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NO_KEYS, "no-credentials"),
        (DENIED, "access-denied"),
        (OSError("x" * 5000), "store-failed"),
        (NotImplementedError(), "store-failed"),
    ],
)
def test_store_that_refuses(refuse, error, reason):
    refuse("head", error)
    with pytest.raises(ia.ObjectStoreError) as caught:
        ia.open(URL)
    assert_clear(caught, reason, "AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_ENDPOINT_URL")
    assert "169.254" not in str(caught.value)
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize(
    ("bucket", "options", "settings"),
    [
        ("s3://bucket", {}, "fs.s3a."),
        ("gs://bucket", {}, "fs.gs."),
        ("az://bucket", {"azure_storage_account_name": "account"}, "fs.azure."),
    ],
)
@pytest.mark.parametrize("error", [DENIED, OSError("code: 400: <Code>ExpiredToken</Code>")])
def test_the_settings_of_a_job_of_spark(refuse, bucket, options, settings, error):
    """They are not in the environment."""
    refuse("head", error)
    with offered_options({bucket: options}), pytest.raises(ia.ObjectStoreError) as caught:
        ia.open(f"{bucket}/x.parquet")
    assert settings in str(caught.value)
    assert not any(word in str(caught.value) for word in ("environment", "AWS_", "GOOGLE_", "AZURE_"))


def test_listing_that_is_refused(refuse):
    refuse("list", DENIED)
    with pytest.raises(ia.ObjectStoreError) as caught:
        ia.open("gs://bucket/lake/")
    assert_clear(caught, "access-denied", "GOOGLE_APPLICATION_CREDENTIALS", url="gs://bucket/lake/")


def test_reading_that_is_refused(refuse):
    store = MemoryStore()
    obstore.put(store, "k", b"0123")
    source = ObjectStoreFile(store, "k", URL)
    refuse("get", DENIED)
    with pytest.raises(ia.ObjectStoreError) as caught:
        source.read_ranges([ByteRange(0, 1), ByteRange(2, 3)])
    assert_clear(caught, "access-denied", "AWS_ACCESS_KEY_ID")


def test_putting_that_is_refused(refuse):
    refuse("put", DENIED)
    with pytest.raises(ia.ReplaceError) as caught:
        replace_object(MemoryStore(), "k", b"new", '"1"', path=URL)
    assert_clear(caught, "access-denied", "AWS_ACCESS_KEY_ID")
    with pytest.raises(ia.ReplaceError) as caught:
        ia.write_table(pa.table({"x": [1]}), URL)
    assert_clear(caught, "access-denied", "AWS_ACCESS_KEY_ID")


def test_missing_objects(put_behind_urls):
    store = MemoryStore()
    with pytest.raises(FileNotFoundError) as caught:
        Table([DataFile(URL, 4, (), store, "lake/x.parquet")]).count()
    assert_clear(caught)
    put_behind_urls(store)
    with pytest.raises(FileNotFoundError) as caught:
        ia.open(URL)
    assert str(caught.value).startswith(URL)


@pytest.mark.parametrize(
    ("url", "reason", "remedy"),
    [
        ("hdfs://node/x.parquet", "unknown-store", "s3://, gs://, az://"),
        ("s3:///x.parquet", "no-bucket", "s3://bucket/"),
        ("s3://two words/x.parquet", "invalid-url", ""),
        ("s3://bucket/a//x.parquet", "invalid-url", ""),
        ("az://lake/x.parquet", "store-failed", "AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
@pytest.mark.parametrize("call", [ia.open, ia.attach, ia.detach, ia.inspect, ia.verify])
def test_urls_without_a_store(monkeypatch, url, reason, remedy, call):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(ia.ObjectStoreError) as caught:
        call(url, [ia.PageIndex()]) if call is ia.attach else call(url)
    assert_clear(caught, reason, remedy, url=url)


def test_the_command_reports_it_in_one_line(capsys):
    assert main(["query", "hdfs://node/x.parquet"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "hdfs://node/x.parquet: " in line


# --- http:// ---------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The address of a server for the files of a folder, and the requests that it received."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self):
            self.answer(with_body=False)

        def do_GET(self):
            self.answer(with_body=True)

        def answer(self, with_body):
            asked.append((self.command, self.path, self.headers.get("Range")))
            path = tmp_path / self.path[1:]
            data = path.read_bytes() if path.is_file() else None
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if data is not None and found and int(found[1]) >= len(data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                data = found = None
            else:
                self.send_response(404 if data is None else 206 if found else 200)
            if data is not None and found:
                start, last = int(found[1]), min(int(found[2]), len(data) - 1)
                self.send_header("Content-Range", f"bytes {start}-{last}/{len(data)}")
                data = data[start : last + 1]
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            if with_body and data:
                self.wfile.write(data)

        def log_message(self, *rest):
            pass

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True  # connections are kept open by the client
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


def test_plain_http_is_read(served, tmp_path):
    address, asked = served
    rows = pa.table({"x": range(1000)})
    pq.write_table(rows, tmp_path / "x.parquet", row_group_size=100)
    assert ia.open(f"{address}/x.parquet").scan("x >= 990").to_arrow() == rows.slice(990)
    assert all(place for method, _, place in asked if method == "GET")
    assert find_store(address.upper())[1] == ""


@pytest.mark.parametrize("left", [0, 100, 500, 600])
def test_file_on_a_web_server_that_becomes_shorter(served, tmp_path, left):
    """Whether the server refuses the range (416) or cuts it, the error is not about credentials."""
    address, _ = served
    path = tmp_path / "range" / "x.bin"  # "range" in the URL must not look like a refused range
    path.parent.mkdir()
    path.write_bytes(bytes(1000))
    source = ObjectStoreFile(*find_store(f"{address}/range/x.bin"), f"{address}/range/x.bin")
    path.write_bytes(bytes(left))
    with pytest.raises(ia.ReplacedWhileReadError) as caught:
        source.read_ranges([ByteRange(500, 700)])
    assert (caught.value.reason, caught.value.path) == ("object-replaced", f"{address}/range/x.bin")


def test_missing_file_on_a_web_server(served):
    """One request: a listing would be retried ten times by a server without folders."""
    address, asked = served
    with pytest.raises(FileNotFoundError) as caught:
        ia.open(f"{address}/nowhere.parquet")
    assert_clear(caught, url=f"{address}/nowhere.parquet")
    assert asked == [("HEAD", "/nowhere.parquet", None)]
