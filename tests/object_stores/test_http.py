"""Files on web servers: with range requests they are read like objects, without them the error says so."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia


def handler(folder, asked, ranges):
    class Handler(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __init__(self, *rest, **more):
            super().__init__(*rest, directory=folder, **more)

        def do_GET(self):
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            place = found and (int(found[1]), int(found[2]) + 1)
            asked.append(place)
            if not (ranges and found):
                super().do_GET()
                return
            with open(self.translate_path(self.path), "rb") as file:
                data = file.read()
            start, stop = place
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
            self.send_header("Content-Length", str(stop - start))
            self.end_headers()
            self.wfile.write(data[start:stop])

        def log_message(self, *rest):
            pass

    return Handler


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Start a server for a folder; return its address, and the ranges that it was asked for."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with contextlib.ExitStack() as stack:

        def serve(*, ranges):
            asked = []
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(tmp_path, asked, ranges))
            server.handle_error = lambda *rest: None  # clients close connections
            server.daemon_threads, server.block_on_close = True, False
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}", asked

        yield serve


@pytest.fixture
def rows(tmp_path):
    """The rows of a file of some megabytes."""
    rows = pa.table({"x": np.arange(400_000), "y": np.random.default_rng(0).random(400_000)})
    form = {"compression": "none", "use_dictionary": False}
    pq.write_table(rows, tmp_path / "large.parquet", row_group_size=50_000, data_page_size=8192, **form)
    ia.attach(tmp_path / "large.parquet", ia.PageIndex())
    return rows


def test_only_the_pages_that_can_match_are_requested(serve, rows, tmp_path):
    address, asked = serve(ranges=True)
    scan = ia.open(f"{address}/large.parquet").scan("x = 123456")
    assert scan.to_arrow() == rows.slice(123_456, 1)
    assert all(asked)
    assert sum(stop - start for start, stop in asked) < (tmp_path / "large.parquet").stat().st_size / 2
    assert len(asked) <= 4
    files = [f"{address}/large.parquet"] * 3
    assert ia.open(files, storage_options={"deadline_seconds": 20}).count("x < 10") == 30


def test_a_server_without_range_requests(serve, rows):
    address, _ = serve(ranges=False)
    url = f"{address}/large.parquet"
    with pytest.raises(ia.ObjectStoreError) as caught:
        ia.open(url).scan("x = 1").to_arrow()
    assert (caught.value.reason, caught.value.path) == ("no-range-requests", url)
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_on_a_web_server_cannot_be_replaced(serve, rows):
    address, _ = serve(ranges=True)
    with pytest.raises(ia.ReplaceError) as caught:
        ia.attach(f"{address}/large.parquet", ia.Bloom("x"), storage_options={"max_retries": 0})
    assert caught.value.reason == "no-conditional-put"
