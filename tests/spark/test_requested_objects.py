"""Objects that a log names: a lake index excludes them without a listing or any other request."""

import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.spark.skipping import SkippingPlanner
from tests.lake.index.lakes import write
from tests.object_stores.cloud_servers import GoogleServer
from tests.object_stores.s3_server import REGION, S3Server
from tests.object_stores.store_server import BUCKET, Fault
from tests.spark.test_requested_files import request

FILES, ROWS = 24, 10


@pytest.fixture(scope="module")
def server():
    server = S3Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """The bytes of each file before and after an index is attached."""
    folder = tmp_path_factory.mktemp("files")
    found = []
    for ordinal in range(FILES):
        path = folder / f"{ordinal}.parquet"
        write(path, pa.table({"id": range(ordinal * ROWS, (ordinal + 1) * ROWS)}))
        before = path.read_bytes()
        ia.attach(path, [ia.RowMap("id"), ia.PageIndex()])
        found.append((before, path.read_bytes()))
    return found


@pytest.fixture
def store(server, contents, monkeypatch):
    """The server with an indexed lake in two folders, with a lake index."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    server.reset()
    for ordinal, (_, indexed) in enumerate(contents):
        server.put(key_of(ordinal), indexed)
    ia.open(f"s3://{BUCKET}/lake").build_lake_index("beside")
    return server


def key_of(ordinal):
    return f"lake/p={ordinal % 2}/{ordinal:02}.parquet"


def stores_of(server, key="testing"):
    """Return how the planner reads from the server, as the JVM says it."""
    options = {
        "aws_endpoint_url": server.url,
        "aws_region": REGION,
        "aws_virtual_hosted_style_request": False,
        "allow_http": True,
        "credentials": {"access_key_id": key, "secret_access_key": "x", "token": None},
    }
    return {"stores": {f"s3a://{BUCKET}": {"options": options}}}


def logged(contents, ordinals=range(FILES), **changes):
    """Return the list of the files of a log, which were written before their indexes were attached."""
    written = int(time.time() - 3600) * 1000
    found = {
        "root": f"s3a://{BUCKET}/lake",
        "partition_columns": [],
        "partitions": [[]],
        "partition_of": [0 for _ in ordinals],
        "paths": [f"s3a://{BUCKET}/{key_of(ordinal)}" for ordinal in ordinals],
        "sizes": [len(contents[ordinal][0]) for ordinal in ordinals],
        "times_ms": [None for _ in ordinals],
        "logged_ms": [written for _ in ordinals],
        "logged_sizes": [len(contents[ordinal][0]) for ordinal in ordinals],
    }
    for name, (ordinal, value) in changes.items():
        found[name][ordinal] = value
    return found


@pytest.fixture
def ask(store):
    planner = SkippingPlanner()
    stores = stores_of(store)
    return lambda asked: json.loads(planner.answer(json.dumps({**stores, **asked})))


def test_excluded_objects_are_not_listed(store, contents, ask):
    files = logged(contents)
    for value in (57, 101):
        with store.recording() as found:
            answer = ask({**request(value), **files})
        ((place, _, *rows),) = answer["kept"]
        assert (place, rows) == (value // ROWS, [value % ROWS, value % ROWS + 1])
        e_tag = store.backend.get_object(BUCKET, key_of(place)).etag
        assert answer["statuses"] == [[len(contents[place][1]), 0, e_tag]]
        assert {one.query.rpartition("prefix=")[2] for one in found.requests if one.is_listing} == {
            "lake%2F_intarsia%2F"
        }
        assert not [one for one in found.requests if one.key.startswith("lake/p=")]
    assert len(found.requests) == 1  # the lake index has the version, the footer and the small index


def test_objects_of_one_folder_have_the_lake_index_of_the_table(store, contents, ask):
    answer = ask({**request(57), **logged(contents, range(1, FILES, 2))})
    assert [kept[0] for kept in answer["kept"]] == [2]


@pytest.mark.parametrize("change", ["later", "longer"])
def test_an_object_that_the_log_knows_better(store, contents, ask, change):
    """A table can be made of replaced files: the lake index may have the rows that one had before."""
    store.put(key_of(7), contents[20][1])
    value = {"later": int(time.time() + 60) * 1000, "longer": len(contents[20][1]) + 1}[change]
    files = logged(contents, **{{"later": "logged_ms", "longer": "sizes"}[change]: (7, value)})
    assert [kept[0] for kept in ask({**request(205), **files})["kept"]] == [7, 20]


def test_a_plan_has_the_version_in_the_lake_index(store, contents, ask):
    """Tasks compare it, so they read all rows of an object that was replaced."""
    files = logged(contents)
    planned = store.backend.get_object(BUCKET, key_of(7)).etag
    store.put(key_of(7), contents[20][1])
    answer = ask({**request(75), **files})
    assert [kept[0] for kept in answer["kept"]] == [7]
    assert answer["statuses"][0][2] == planned != store.backend.get_object(BUCKET, key_of(7)).etag


def test_a_removed_lake_index(store, contents, ask):
    files = logged(contents)
    assert [kept[0] for kept in ask({**request(57), **files})["kept"]] == [5]
    ia.open(f"s3://{BUCKET}/lake").remove_lake_index()
    assert ask({**request(58), **files}) == {"unknown": "versions"}


def test_without_a_lake_index_it_is_searched_now_and_then(store, contents):
    ia.open(f"s3://{BUCKET}/lake").remove_lake_index()
    now = [0.0]
    planner = SkippingPlanner(lambda: now[0])
    asked = json.dumps({**stores_of(store), **request(57), **logged(contents)})
    assert json.loads(planner.answer(asked)) == {"unknown": "versions"}
    with store.recording() as found:
        assert json.loads(planner.answer(asked)) == {"unknown": "versions"}
    assert not found.requests
    ia.open(f"s3://{BUCKET}/lake").build_lake_index("beside")
    now[0] = 61.0
    assert [kept[0] for kept in json.loads(planner.answer(asked))["kept"]] == [5]


def test_many_objects_to_open_are_listed(store, contents, tmp_path):
    for ordinal in range(40):
        path = tmp_path / f"{ordinal}.parquet"
        write(path, pa.table({"id": [1, ordinal]}))
        store.put(f"many/{ordinal}.parquet", path.read_bytes())
    ia.open(f"s3://{BUCKET}/many").build_lake_index("beside")
    files = {
        **logged(contents, [0] * 40),
        "root": f"s3a://{BUCKET}/many",
        "paths": [f"s3a://{BUCKET}/many/{ordinal}.parquet" for ordinal in range(40)],
    }
    asked = json.dumps({**stores_of(store), **request(1), **files})
    assert json.loads(SkippingPlanner().answer(asked)) == {"unknown": "versions"}


# --- objects whose indexes are read


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file before and after an index is attached, and a value that it lacks."""
    values = [at * 7919 % 100_003 for at in range(60_000)]
    (absent, *_) = set(range(1_000, 100_000)) - set(values)
    path = tmp_path_factory.mktemp("large") / "x.parquet"
    write(path, pa.table({"id": values}), use_dictionary=False)
    before = path.read_bytes()
    ia.attach(path, [ia.RowMap("id"), ia.PageIndex()])
    assert path.stat().st_size - len(before) > 100_000
    return before, path.read_bytes(), absent


@pytest.fixture
def files(store, large):
    """The list of four such files in the store."""
    before, indexed, _ = large
    keys = [f"large/{ordinal}.parquet" for ordinal in range(4)]
    for key in keys:
        store.put(key, indexed)
    return {
        **logged([(before, indexed)] * 4, range(4)),
        "root": f"s3a://{BUCKET}/large",
        "paths": [f"s3a://{BUCKET}/{key}" for key in keys],
    }


def test_indexes_are_read_with_the_footer(store, files, large, ask):
    """What was attached since the log recorded the object takes one request."""
    _, indexed, absent = large
    del files["logged_ms"]
    e_tags = [store.backend.get_object(BUCKET, f"large/{ordinal}.parquet").etag for ordinal in range(4)]
    with store.recording() as found:
        answer = ask({**request(absent), **files, "sizes": [len(indexed)] * 4, "etags": e_tags})
    assert answer["kept"] == []
    assert len(found.gets("large/?.parquet")) == 4


def test_a_replaced_object_is_planned_again(store, files, ask):
    ia.open(f"s3://{BUCKET}/large").build_lake_index("beside")
    with store.recording() as found:
        answer = ask({**request(7919), **files})
    assert [kept[0] for kept in answer["kept"]] == [0, 1, 2, 3]
    assert not found.methods["HEAD"]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [7919, 1, 7919]}), sink)
    store.put("large/2.parquet", sink.getvalue().to_pybytes())
    with store.recording() as found:
        answer = ask({**request(7919), **files})
    assert found.methods["HEAD"] == 2  # why a range is refused, and which version is there
    whole = [kept for kept in answer["kept"] if len(kept) == 2]
    assert [kept[0] for kept in whole] == [2]
    assert len(answer["kept"]) == 4


def test_users_share_nothing(store, contents):
    """A user whom the store refuses gets no plan that the rights of another user have made possible."""
    planner = SkippingPlanner()

    def asked(user):
        return json.dumps({**stores_of(store, user), **request(57), **logged(contents)})

    assert len(json.loads(planner.answer(asked("alice")))["kept"]) == 1
    store.faults = [Fault(times=None, status="403 Forbidden", code="AccessDenied", user="bob")]
    with store.recording() as found, pytest.raises(ia.ObjectStoreError, match="AccessDenied"):
        planner.answer(asked("bob"))
    assert {one.user for one in found.requests} == {"bob"}
    with store.recording() as found:
        assert len(json.loads(planner.answer(asked("alice")))["kept"]) == 1
    assert {one.user for one in found.requests} == {"alice"}


# --- stores without ETags in Hadoop


@pytest.mark.parametrize("is_sealed", [False, True])
def test_versions_by_their_times(contents, is_sealed):
    """Tasks compare the length and the time of an object of Google; one with another time is not planned."""
    server = GoogleServer()
    kept = [server.put(key_of(ordinal), contents[ordinal][1]) for ordinal in range(FILES)]
    times = [round(one.modified * 1000) for one in kept]
    times[20] += 1
    files = {name: value for name, value in logged(contents).items() if not name.startswith("logged")}
    files |= {
        "root": f"gs://{BUCKET}/lake",
        "paths": [path.replace("s3a:", "gs:") for path in files["paths"]],
        "sizes": [len(indexed) for _, indexed in contents],
        "times_ms": [None] * FILES if is_sealed else times,
        "object_ms": times,
    }
    options = {"google_base_url": server.url, "allow_http": True, "credentials": {}}
    asked = {**request(57), **files, "stores": {f"gs://{BUCKET}": {"options": options}}}
    answer = json.loads(SkippingPlanner().answer(json.dumps(asked)))
    server.close()
    ((place, _, *rows),) = answer["kept"]
    assert (place, rows, answer["unplanned"]) == (5, [7, 8], [20])
    if is_sealed:
        assert answer["statuses"] == [[len(contents[5][1]), times[5], None]]
