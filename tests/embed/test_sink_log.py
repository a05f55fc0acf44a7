"""Files that the log of a streaming sink lists: their first bytes are not changed."""

import io
import json
from urllib.parse import quote

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

import intarsia as ia
from intarsia.embed.attach import attach_to
from intarsia.errors import ReplaceError
from intarsia.storage.hadoop_files import record_lengths, record_lengths_of_objects
from intarsia.storage.object_target import ObjectTarget

NAME = "part-0 é.parquet"


@pytest.fixture(params=["", "p=0", "p=a%2Fb/q=1"])
def path(request, tmp_path):
    """A file that is indexed; the folder of the sink is `tmp_path`, or one or two above."""
    folder = tmp_path / request.param
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": range(100)}), folder / NAME)
    ia.attach(folder / NAME, [ia.Distinct("x")])
    return folder / NAME


def batch(size, name=NAME):
    """One file of a log, with one entry."""
    entry = {"path": f"file:///moved/{quote(name)}", "size": size, "action": "add"}
    return f"v1\n{json.dumps(entry)}\n"


def write_log(folder, number, size, name=NAME):
    log = folder / "_spark_metadata"
    log.mkdir(exist_ok=True)
    (log / number).write_text(batch(size, name))
    (log / f".{number}.crc").write_bytes(b"crc\0")


def test_an_indexed_file_that_is_listed_is_refused(path, tmp_path):
    before = path.read_bytes()
    write_log(tmp_path, "0", len(before))
    write_log(tmp_path, "1", 10**6, name="another.parquet")
    for change in (ia.detach, lambda path: ia.attach(path, [ia.ZoneMap("x")])):
        with pytest.raises(ReplaceError) as caught:
            change(path)
        assert (caught.value.reason, caught.value.path) == ("listed-by-sink", str(path))
    assert path.read_bytes() == before
    assert not ia.attach(path, [ia.Distinct("x")]).changed
    assert [file.name for file in path.parent.glob("*part*")] == [NAME]


def test_a_file_that_is_listed_without_indexes_can_change(path, tmp_path):
    original = path.stat().st_size
    ia.detach(path)
    assert path.stat().st_size < original
    write_log(tmp_path, "7", path.stat().st_size)
    ia.attach(path, [ia.ZoneMap("x")])
    ia.attach(path, [ia.Distinct("x")])
    assert ia.detach(path).detached


def test_a_file_whose_length_a_table_expects_is_refused(path, tmp_path):
    """`ias.index(…, register=True)` commits lengths to the log of a Delta table."""
    before = path.read_bytes()
    record_lengths({str(path): len(before)})
    record_lengths({str(path.with_name("other.parquet")): 10})
    assert sorted(file.name for file in (tmp_path / "_intarsia_lengths").iterdir()) == ["0", "1"]
    for change in (ia.detach, lambda path: ia.attach(path, [ia.ZoneMap("x")])):
        with pytest.raises(ReplaceError) as caught:
            change(path)
        assert (caught.value.reason, caught.value.path) == ("registered-length", str(path))
    write_log(tmp_path, "0", 1)  # each of the logs counts
    with pytest.raises(ReplaceError):
        ia.detach(path)
    assert path.read_bytes() == before
    assert ia.open(path).count() == 100


def test_a_compacted_log_replaces_the_earlier_ones(path, tmp_path):
    write_log(tmp_path, "8", 10**6)
    write_log(tmp_path, "9.compact", 10, name="another.parquet")
    write_log(tmp_path, "notes", 10**6)
    assert ia.detach(path).detached
    write_log(tmp_path, "10", 10**6)
    with pytest.raises(ReplaceError) as caught:
        ia.attach(path, [ia.Distinct("x")])
    assert caught.value.reason == "listed-by-sink"


@pytest.mark.parametrize("text", ["v1\n{", "v1\n[]", 'v1\n{"path": 1, "size": 2}', 'v1\n{"path": "a"}'])
def test_a_damaged_log_is_an_error(tmp_path, text):
    pq.write_table(pa.table({"x": [1]}), tmp_path / NAME)
    write_log(tmp_path, "0", 1)
    (tmp_path / "_spark_metadata" / "0").write_text(text)
    with pytest.raises(ReplaceError) as caught:
        ia.attach(tmp_path / NAME, [ia.Distinct("x")])
    assert caught.value.reason == "unreadable-sink-log"
    assert caught.value.path == str(tmp_path / "_spark_metadata" / "0")


# --- objects


@pytest.fixture(params=["", "sink/", "sink/p=0/", "sink/p=a%2Fb/q=1/"])
def indexed(request):
    """A store with an indexed object, and the object's key."""
    file, store, key = io.BytesIO(), MemoryStore(), f"{request.param}{NAME}"
    pq.write_table(pa.table({"x": range(100)}), file)
    obstore.put(store, key, file.getvalue())
    attach_to(target(store, key), [ia.Distinct("x")])
    return store, key


def target(store, key):
    return ObjectTarget(store, key, f"memory:///{key}")


def put_log(store, key, number, text):
    obstore.put(store, f"{'sink/' if key.startswith('sink') else ''}_spark_metadata/{number}", text.encode())


def test_an_object_that_is_listed_is_refused(indexed):
    store, key = indexed
    put_log(store, key, "0", batch(10**6, "another.parquet"))
    assert attach_to(target(store, key), [ia.ZoneMap("x")]).changed  # the log does not list it yet
    before = bytes(obstore.get(store, key).bytes())
    put_log(store, key, "1", batch(len(before)))
    with pytest.raises(ReplaceError) as caught:
        attach_to(target(store, key), [ia.Bloom("x")])
    assert (caught.value.reason, caught.value.path) == ("listed-by-sink", f"memory:///{key}")
    with pytest.raises(ReplaceError):
        target(store, key).replace_tail(len(before) - 1, ())
    assert bytes(obstore.get(store, key).bytes()) == before
    target(store, key).replace_tail(len(before), [b"more"])
    put_log(store, key, "2.compact", batch(10**6, "another.parquet"))
    target(store, key).replace_tail(len(before), ())


def test_an_object_whose_length_a_table_expects_is_refused(indexed):
    store, key = indexed
    before = bytes(obstore.get(store, key).bytes())
    folder = "sink/" if key.startswith("sink") else ""
    record_lengths_of_objects(store, {key: len(before)}, "memory:///")
    record_lengths_of_objects(store, {f"{folder}other.parquet": 10}, "memory:///")
    logs = obstore.list_with_delimiter(store, f"{folder}_intarsia_lengths")["objects"]
    assert sorted(one["path"].rpartition("/")[2] for one in logs) == ["0", "1"]
    put_log(store, key, "0", batch(1))  # each of the logs counts
    for change in (
        lambda one: attach_to(one, [ia.Bloom("x")]),
        lambda one: one.replace_tail(len(before) - 1, ()),
    ):
        with pytest.raises(ReplaceError) as caught:
            change(target(store, key))
        assert (caught.value.reason, caught.value.path) == ("registered-length", f"memory:///{key}")
    assert bytes(obstore.get(store, key).bytes()) == before


@pytest.mark.parametrize("text", ["v1\n{", 'v1\n{"path": "a"}'])
def test_a_damaged_log_of_objects_is_an_error(indexed, text):
    store, key = indexed
    put_log(store, key, "0", text)
    with pytest.raises(ReplaceError) as caught:
        target(store, key).replace_tail(4, ())
    assert caught.value.reason == "unreadable-sink-log"
    assert caught.value.path.endswith("_spark_metadata/0")
