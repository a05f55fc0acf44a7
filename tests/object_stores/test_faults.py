"""A store that refuses, throttles or drops connections: requests are repeated, or errors are clear."""

from __future__ import annotations

import io
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.storage import ByteRange, ObjectStoreFile, find_store
from tests.object_stores.store_server import BUCKET, Fault

URL = f"s3://{BUCKET}/lake/x.parquet"
KEY = "lake/x.parquet"
VALUES = list(range(1000))

#: Enough for several attempts.
QUICK = {"deadline_seconds": 4}


@pytest.fixture
def lake(s3):
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": VALUES}), sink, row_group_size=100)
    s3.put(KEY, sink.getvalue())
    return s3


def read(**options):
    return ia.open(URL, storage_options=QUICK | options).scan("a >= 990").to_arrow()["a"].to_pylist()


@pytest.mark.parametrize(
    "fault",
    [
        Fault(),
        Fault(status="500 Internal Server Error", code="InternalError"),
        Fault(status="429 Too Many Requests", code="TooManyRequests"),
        Fault(status="408 Request Timeout", code="RequestTimeout"),
        Fault("drop"),
        Fault("truncate"),
        Fault("stall"),
    ],
    ids=["503", "500", "429", "408", "dropped", "truncated", "stalled"],
)
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_request_is_repeated(lake, fault, method):
    lake.faults = [Fault(fault.kind, method, times=1, status=fault.status, code=fault.code)]
    # a stalled request is abandoned after a part of the deadline; a busy machine may need more than that
    options = {} if fault.kind == "stall" else {"deadline_seconds": 60}
    with lake.recording() as recording:
        assert read(**options) == VALUES[990:]
    if fault.kind != "truncate" or method != "HEAD":  # the response to HEAD has no body
        assert recording.methods == {"HEAD": 1, "GET": 1, method: 2}


def test_the_rest_of_a_truncated_response_is_requested(lake):
    lake.put("bytes", bytes(range(200)))
    source = ObjectStoreFile(*find_store(f"s3://{BUCKET}/bytes"), f"s3://{BUCKET}/bytes")
    lake.faults = [Fault("truncate", "GET")]
    with lake.recording() as recording:
        assert source.read_ranges([ByteRange(100, 200)]) == [bytes(range(100, 200))]
    assert [(one.start, one.stop) for one in recording.requests] == [(100, 200), (150, 200)]


@pytest.mark.parametrize("times", [2, None])
def test_a_truncated_listing_is_requested_again(lake, times):
    """obstore repeats requests, and the rest of an object, but not a listing of which a part has arrived."""
    lake.faults = [Fault("truncate", "GET", key="", times=times)]
    with lake.recording() as recording:
        if times is None:
            with pytest.raises(ia.ObjectStoreError) as caught:
                ia.open(f"s3://{BUCKET}/lake/").count()
            assert caught.value.reason == "connection-lost"
        else:
            assert ia.open(f"s3://{BUCKET}/lake/").count() == len(VALUES)
    assert recording.methods["LIST"] == 3


def test_a_truncated_listing_of_a_log_is_requested_again(lake):
    """`detach` looks for a log with the length of the object."""
    ia.attach(URL, ia.Bloom("a"))
    lake.faults = [Fault("truncate", "GET", key="", query="_spark_metadata", times=2)]
    assert ia.detach(URL).detached
    assert lake.faults[0].times == 0


@pytest.mark.parametrize(
    ("fault", "reason", "remedy"),
    [
        (Fault(), "throttled", "deadline_seconds"),
        (Fault(status="429 Too Many Requests", code="TooManyRequests"), "throttled", "deadline_seconds"),
        (
            Fault(status="500 Internal Server Error", code="InternalError"),
            "server-failed",
            "deadline_seconds",
        ),
        (Fault("drop"), "no-connection", "endpoint"),
        (Fault("truncate"), "connection-lost", "deadline_seconds"),
        (Fault(status="403 Forbidden", code="AccessDenied"), "access-denied", "AWS_ACCESS_KEY_ID"),
        (Fault(status="401 Unauthorized", code="Unauthorized"), "access-denied", "AWS_ACCESS_KEY_ID"),
        (Fault(status="400 Bad Request", code="ExpiredToken"), "expired-credentials", "AWS_SESSION_TOKEN"),
        (Fault(status="400 Bad Request", code="RequestTimeout"), "timed-out", "run again"),
        (Fault(status="403 Forbidden", code="RequestTimeTooSkewed"), "wrong-clock", "clock"),
        (Fault(status="301 Moved Permanently", code="PermanentRedirect"), "wrong-region", "AWS_REGION"),
        (
            Fault(status="400 Bad Request", code="AuthorizationHeaderMalformed"),
            "wrong-region",
            "AWS_REGION",
        ),
        (Fault(status="412 Precondition Failed", code="PreconditionFailed"), "object-replaced", "run again"),
        (Fault(status="416 Range Not Satisfiable", code="InvalidRange"), "range-refused", "open"),
    ],
    ids=lambda value: value.code if isinstance(value, Fault) else None,
)
def test_the_error_names_the_object_and_the_remedy(lake, fault, reason, remedy):
    table = ia.open(URL, storage_options={"deadline_seconds": 30, "max_retries": 2})
    fault = Fault(fault.kind, "GET", times=None, status=fault.status, code=fault.code)
    lake.faults = [fault]
    with lake.recording() as recording, pytest.raises(ia.ObjectStoreError) as caught:
        table.scan("a >= 990").to_arrow()
    assert (caught.value.reason, caught.value.path) == (reason, URL)
    assert len(str(caught.value).splitlines()) == 1
    assert remedy in str(caught.value)
    if fault.kind == "refuse" and "Redirect" not in fault.code:
        assert fault.status.partition(" ")[0] in str(caught.value)
    assert recording.methods["GET"] == (3 if reason in TRANSIENT else 1)


TRANSIENT = {"throttled", "server-failed", "no-connection", "connection-lost"}


def test_a_missing_object_or_bucket(s3):
    with pytest.raises(FileNotFoundError, match=URL):
        ia.open(URL)
    with pytest.raises((FileNotFoundError, ia.ObjectStoreError)) as caught:
        ia.open("s3://elsewhere/lake/")
    assert "s3://elsewhere/lake/" in str(caught.value)
    assert caught.value.reason == "no-such-bucket"


@pytest.mark.parametrize("name", ["a?b.parquet", "[x].parquet", "a b%20c#d.parquet", "ü+&.parquet"])
def test_any_key(lake, name):
    lake.put(f"lake/{name}", lake.content(KEY))
    url = f"s3://{BUCKET}/lake/{name}"
    assert ia.open(url).count() == len(VALUES)
    assert ia.open(f"s3://{BUCKET}/lake/").count() == 2 * len(VALUES)
    ia.attach(url, [ia.Distinct("a")])
    assert lake.list_keys() == sorted([KEY, f"lake/{name}"])
    assert len(lake.content(f"lake/{name}")) > len(lake.content(KEY))


def test_a_glob(lake):
    with pytest.raises(FileNotFoundError, match="pass the folder"):
        ia.open(f"s3://{BUCKET}/lake/*.parquet")


@pytest.mark.parametrize("key", ["lake//x.parquet", "lake/a/../x.parquet", "lake/a/./x.parquet"])
def test_keys_that_are_not_paths(lake, key):
    lake.put(key, lake.content(KEY))
    with pytest.raises(ia.ObjectStoreError, match="rename the object") as caught:
        ia.open(f"s3://{BUCKET}/lake/")
    assert caught.value.reason == "invalid-key"
    assert f'"{key}"' in str(caught.value)


@pytest.mark.parametrize("kind", ["refuse", "stall"])
def test_a_request_ends_before_the_deadline(lake, kind):
    """The server never answers, or refuses each attempt; without a deadline this takes minutes."""
    table = ia.open(URL, storage_options={"deadline_seconds": 1})
    lake.faults = [Fault(kind, times=None)]
    started = time.monotonic()
    with lake.recording() as recording, pytest.raises(ia.ObjectStoreError) as caught:
        table.count()
    assert time.monotonic() - started < 20
    assert caught.value.reason == ("throttled" if kind == "refuse" else "timed-out")
    assert len(recording.requests) >= 2


# --- options ---------------------------------------------------------------------------------------


def test_options_instead_of_the_environment(lake, monkeypatch):
    for name in lake.environment:
        monkeypatch.delenv(name)
    options = {name.lower(): value for name, value in lake.environment.items()}
    table = ia.open(f"s3://{BUCKET}/lake/", storage_options=options)
    assert table.count("a = 57") == 1
    assert table.count("a = 58") == 1  # a second run asks the store again
    assert ia.open([URL], storage_options=options | QUICK).count() == 1000


class Listed:
    """A catalog that names a file without a store."""

    def list_files(self):
        return [ia.DataFile(URL, 0)]


def test_options_apply_to_the_files_of_a_catalog(lake, monkeypatch):
    for name in lake.environment:
        monkeypatch.delenv(name)
    options = {name.lower(): value for name, value in lake.environment.items()}
    assert ia.open(Listed(), storage_options=options).count() == 1000


def test_options_of_urls_with_https():
    url = "https://bucket.s3.eu-west-1.amazonaws.com"
    options = {"aws_skip_signature": "true", "timeout_seconds": 5}
    store, key = find_store(f"{url}/lake/x.parquet", options)
    assert (type(store).__name__, key) == ("S3Store", "lake/x.parquet")
    with pytest.raises(ia.ObjectStoreError) as caught:
        find_store("https://example.org/x.parquet", options)
    assert caught.value.reason == "unknown-option"


@pytest.mark.parametrize(
    "options", [{"deadline_seconds": 1e300}, {"timeout_seconds": 1e18}, {"max_retries": 2**64}]
)
def test_limits_of_any_size(lake, options):
    assert ia.open(URL, storage_options=options, query_timeout_seconds=1e300).count() > 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"nonsense": 1}, "unknown-option"),
        ({"deadline_seconds": 0}, "invalid-option"),
        ({"timeout_seconds": "5"}, "invalid-option"),
        ({"max_retries": -1}, "invalid-option"),
        ({"overwrite": "always"}, "invalid-option"),
    ],
)
def test_wrong_options_are_refused(s3, options, reason):
    with pytest.raises(ia.ObjectStoreError) as caught:
        ia.open(URL, storage_options=options)
    assert (caught.value.reason, caught.value.path) == (reason, URL)
    assert next(iter(options)) in str(caught.value)
