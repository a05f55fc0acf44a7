"""What a store refuses is one line with the URL and the remedy; plain HTTP is read. No network is used."""

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
from intarsia.lake import discovery
from intarsia.lake.data_file import DataFile
from intarsia.lake.table import Table
from intarsia.storage import ByteRange, ObjectStoreFile, find_store, target

URL = "s3://bucket/lake/x.parquet"
DUMP = '\n\nDebug source:\nGeneric {\n    store: "S3",\n}'
NO_KEYS = GenericError(
    "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1ms - error" + DUMP
)
DENIED = PermissionDeniedError("The operation lacked the privileges: 403 Forbidden" + DUMP)


@pytest.fixture
def refuse(monkeypatch):
    """Let a call of obstore raise an error."""

    def refuse(name, error):
        def raises(*rest, **more):
            raise error

        monkeypatch.setattr(obstore, name, raises)

    return refuse


def assert_clear(caught, *words, url=URL):
    text = str(caught.value)
    assert text.startswith(f"{url}: ")
    assert len(text.splitlines()) == 1
    assert len(text) < 600
    assert "Debug source" not in text
    for word in words:
        assert word in text
    assert isinstance(caught.value, (ia.IntarsiaError, FileNotFoundError))
    assert caught.value.__cause__ is None  # a traceback would show all of obstore's dump
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NO_KEYS, ["no credentials were found", "AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_ENDPOINT_URL"]),
        (DENIED, ["403 Forbidden; set AWS_ACCESS_KEY_ID"]),
        (OSError("x" * 5000), ["x…; set AWS"]),
        (NotImplementedError(), ["NotImplementedError; set AWS"]),
    ],
)
def test_a_store_that_refuses(refuse, error, words):
    refuse("head", error)
    with pytest.raises(ia.ObjectStoreError) as caught:
        ia.open(URL)
    assert_clear(caught, *words)
    assert "169.254" not in str(caught.value)
    assert isinstance(caught.value, OSError)


def test_listing_that_is_refused(refuse):
    refuse("list", DENIED)
    with pytest.raises(ia.ObjectStoreError) as caught:
        ia.open("gs://bucket/lake/")
    assert_clear(caught, "403 Forbidden; set GOOGLE_APPLICATION_CREDENTIALS", url="gs://bucket/lake/")


def test_reading_that_is_refused(refuse):
    store = MemoryStore()
    obstore.put(store, "k", b"0123")
    source = ObjectStoreFile(store, "k", URL)
    refuse("get", DENIED)
    with pytest.raises(ia.ObjectStoreError) as caught:
        source.read_ranges([ByteRange(0, 1), ByteRange(2, 3)])
    assert_clear(caught, "403 Forbidden", "AWS_ACCESS_KEY_ID")


def test_putting_that_is_refused(refuse, monkeypatch):
    refuse("put", DENIED)
    with pytest.raises(ia.ReplaceError) as caught:
        target.replace_object(MemoryStore(), "k", [b"new"], '"1"', path=URL)
    assert_clear(caught, "cannot be replaced", "403 Forbidden; set AWS_ACCESS_KEY_ID")
    with pytest.raises(ia.ReplaceError) as caught:
        ia.write_table(pa.table({"x": [1]}), URL)
    assert_clear(caught, "cannot be written", "403 Forbidden; set AWS_ACCESS_KEY_ID")


def test_objects_that_are_not_there(monkeypatch):
    store = MemoryStore()
    with pytest.raises(FileNotFoundError, match="no such object") as caught:
        Table([DataFile(URL, 4, (), store, "lake/x.parquet")]).count()
    assert_clear(caught)
    monkeypatch.setattr(discovery, "find_store", lambda url: (store, "lake/x.parquet"))
    with pytest.raises(FileNotFoundError, match="no such object or folder") as caught:
        ia.open(URL)
    assert str(caught.value).startswith(URL)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("hdfs://node/x.parquet", ["known are s3://, gs://, az://", "mounted", "downloaded"]),
        ("s3:///x.parquet", ["names no bucket", "s3://bucket/"]),
        ("s3://two words/x.parquet", ["invalid domain character"]),
        ("s3://bucket/a//x.parquet", ["empty path segment"]),
        ("az://lake/x.parquet", ["Account must be specified; set AZURE_STORAGE_ACCOUNT_NAME"]),
    ],
)
@pytest.mark.parametrize("call", [ia.open, ia.attach, ia.detach, ia.inspect, ia.verify])
def test_urls_that_name_no_store(monkeypatch, url, words, call):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(ia.ObjectStoreError) as caught:
        call(url, [ia.PageIndex()]) if call is ia.attach else call(url)
    assert_clear(caught, *words, url=url)


def test_the_command_says_it_in_one_line(capsys):
    assert main(["query", "hdfs://node/x.parquet"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "hdfs://node/x.parquet: no store of this kind is known here" in line


# --- http:// ---------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The address of a server of the files of a folder, and what was asked of it."""
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
def test_a_file_on_a_web_server_that_becomes_shorter(served, tmp_path, left):
    """Whether the server refuses the range (416) or cuts it: nobody needs credentials for what is gone."""
    address, _ = served
    path = tmp_path / "range" / "x.bin"  # a URL may hold the word by which a refused range is told
    path.parent.mkdir()
    path.write_bytes(bytes(1000))
    source = ObjectStoreFile(*find_store(f"{address}/range/x.bin"), f"{address}/range/x.bin")
    path.write_bytes(bytes(left))
    with pytest.raises(ia.ReplacedWhileReadError) as caught:
        source.read_ranges([ByteRange(500, 700)])
    told = "the object was replaced while it was read; open it again"
    assert str(caught.value) == f"{address}/range/x.bin: {told}"


def test_what_a_web_server_does_not_have(served):
    """One question: a server that has no folders would be asked for a listing ten times."""
    address, asked = served
    with pytest.raises(FileNotFoundError) as caught:
        ia.open(f"{address}/nowhere.parquet")
    assert_clear(caught, url=f"{address}/nowhere.parquet")
    assert asked == [("HEAD", "/nowhere.parquet", None)]
