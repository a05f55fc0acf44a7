"""A server on 127.0.0.1 for the protocol of a store, which counts, delays, refuses and damages responses."""

from __future__ import annotations

import contextlib
import fnmatch
import logging
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

BUCKET = "bucket"

#: The shortest delay with which `Recording.waves` shows which requests depend on each other.
LATENCY_SECONDS = 0.12

#: The time after which a stalled connection is closed without a response.
STALL_SECONDS = 2


@dataclass(frozen=True)
class Request:
    """One request.

    Attributes:
        method: The HTTP method.
        key: The path below the bucket; empty for requests to the bucket, such as listings.
        query: The query string.
        start: The first byte of the requested range; None without a range.
        stop: The end of the requested range, exclusive.
        user: The access key of S3 with which it is signed; empty without one.
        wave: The length of the longest chain of requests, up to this one, in which each began after the
            previous one ended.
    """

    method: str
    key: str
    query: str
    start: int | None
    stop: int | None
    user: str
    wave: int

    @property
    def num_bytes(self):
        """The length of the range in bytes; 0 without a range."""
        return 0 if self.start is None else self.stop - self.start

    @property
    def is_listing(self):
        return self.method == "GET" and not self.key


@dataclass
class Fault:
    """Responses that the server gives instead of those of the store.

    Attributes:
        kind: `refuse`, `drop`, `truncate`, `stall`, `lose` to drop the response of a request that took
            effect, or `call` to call `action` first.
        method: The method of the requests.
        key: A pattern for their keys.
        query: A text in their query strings.
        user: The access key of S3 with which they are signed; empty for all.
        times: The number of requests; None for all.
        status: The status of refused requests, with the reason.
        code: The error code of refused requests, as the store writes it.
        headers: More headers of refused requests.
    """

    kind: str = "refuse"
    method: str = "*"
    key: str = "*"
    query: str = ""
    user: str = ""
    times: int | None = 1
    status: str = "503 Slow Down"
    code: str = "SlowDown"
    headers: tuple = ()
    action: Callable = lambda: None

    def takes(self, method, key, query, user):
        """Return whether a request gets this fault, and count it."""
        if self.times == 0 or self.query not in query or self.user not in ("", user):
            return False
        if not (fnmatch.fnmatch(method, self.method) and fnmatch.fnmatch(key, self.key)):
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass
class Recording:
    """The requests within a block."""

    requests: list[Request] = field(default_factory=list)
    most_at_once: int = 0
    at_once: int = 0
    ended: int = 0  # the highest wave of a request that has ended

    @property
    def waves(self):
        """The length of the longest chain of requests in which each began after the previous one ended."""
        return max((request.wave for request in self.requests), default=0)

    @property
    def methods(self):
        """The number of requests of each method, listings apart."""
        return Counter("LIST" if request.is_listing else request.method for request in self.requests)

    def after_listing(self):
        """The requests without listings, and the number of waves after the last of these."""
        listed = max((one.wave for one in self.requests if one.is_listing), default=0)
        return [one for one in self.requests if not one.is_listing], self.waves - listed

    def gets(self, pattern="*"):
        """The reads of objects whose keys match a pattern."""
        return [
            one
            for one in self.requests
            if one.method == "GET" and one.key and fnmatch.fnmatch(one.key, pattern)
        ]


class StoreServer:
    """A running server.

    Attributes:
        url: Its address.
        latency_seconds: The delay of each response.
        faults: The faults to inject, in order.

    Args:
        application: The WSGI application of the store.
        bucket: The path of the bucket on the server.
    """

    def __init__(self, application, bucket=BUCKET):
        from werkzeug.serving import WSGIRequestHandler, make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)

        class Handler(WSGIRequestHandler):
            protocol_version = "HTTP/1.1"  # keeps connections open
            disable_nagle_algorithm = True

        self._application, self._bucket = application, bucket
        self._lock = threading.Lock()
        self._recording = Recording()
        self.latency_seconds = 0.0
        self.faults = []
        self._server = make_server("127.0.0.1", 0, self._respond, threaded=True, request_handler=Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reset(self):
        """Stop injecting faults and delays."""
        self.latency_seconds, self.faults = 0.0, []

    @contextlib.contextmanager
    def recording(self, latency_seconds=None):
        """Record the requests within the block, each delayed."""
        before = self.latency_seconds
        self._recording = found = Recording()
        self.latency_seconds = before if latency_seconds is None else latency_seconds
        try:
            yield found
        finally:
            self.latency_seconds = before
            self._recording = Recording()

    def _respond(self, environ, start_response):
        method = environ["REQUEST_METHOD"]
        key = environ["PATH_INFO"].removeprefix(f"/{self._bucket}").strip("/")
        query = environ.get("QUERY_STRING", "")
        start, stop = _range_of(environ.get("HTTP_RANGE"))
        user = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
        with self._lock:
            recording = self._recording
            wave = recording.ended + 1
            recording.requests.append(Request(method, key, query, start, stop, user, wave))
            recording.at_once += 1
            recording.most_at_once = max(recording.most_at_once, recording.at_once)
            fault = next((one for one in self.faults if one.takes(method, key, query, user)), None)
        try:
            time.sleep(self.latency_seconds)
            if fault is None:
                yield from _response(self._application, environ, start_response)
            else:
                yield from self._faulty(fault, environ, start_response)
        finally:
            with self._lock:
                recording.at_once -= 1
                recording.ended = max(recording.ended, wave)

    def _faulty(self, fault, environ, start_response):
        connection = environ["werkzeug.socket"]
        if fault.kind == "call":
            fault.action()
            yield from _response(self._application, environ, start_response)
            return
        if fault.kind == "lose":
            deque(_response(self._application, environ, lambda *_: None), maxlen=0)
        if fault.kind in ("drop", "lose", "stall"):
            start_response("200 OK", [("Content-Length", "0")])
            time.sleep(STALL_SECONDS if fault.kind == "stall" else 0)
            connection.shutdown(socket.SHUT_RDWR)
            return
        if fault.kind == "truncate":
            body = b"".join(_response(self._application, environ, start_response))
            yield body[: len(body) // 2]
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            return
        body = f"<Error><Code>{fault.code}</Code><Message>injected</Message></Error>".encode()
        if environ["REQUEST_METHOD"] == "HEAD":
            body = b""
        _discard_body(environ)
        headers = [("Content-Length", str(len(body))), ("Content-Type", "application/xml"), *fault.headers]
        start_response(fault.status, headers)
        yield body


def _response(application, environ, start_response):
    response = application(environ, start_response)
    try:
        yield from response
    finally:
        if hasattr(response, "close"):
            response.close()


def _discard_body(environ):
    left = int(environ.get("CONTENT_LENGTH") or 0)
    while left > 0 and (data := environ["wsgi.input"].read(min(left, 1 << 16))):
        left -= len(data)


def _range_of(header):
    if not header or not header.startswith("bytes="):
        return None, None
    start, _, last = header.removeprefix("bytes=").partition("-")
    return (int(start), int(last) + 1) if start and last else (None, None)  # other readers ask for the end
