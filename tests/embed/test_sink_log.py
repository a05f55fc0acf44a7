"""Files that the log of a streaming sink lists: their first bytes are not changed."""

import json
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.errors import ReplaceError

NAME = "part-0 é.parquet"


@pytest.fixture(params=["", "p=0", "p=a%2Fb/q=1"])
def path(request, tmp_path):
    """A file that is indexed; the folder of the sink is `tmp_path`, or one or two above."""
    folder = tmp_path / request.param
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": range(100)}), folder / NAME)
    ia.attach(folder / NAME, [ia.Distinct("x")])
    return folder / NAME


def write_log(folder, number, size, name=NAME, version="v1"):
    log = folder / "_spark_metadata"
    log.mkdir(exist_ok=True)
    entry = {"path": f"file:///moved/{quote(name)}", "size": size, "action": "add"}
    (log / number).write_text(f"{version}\n{json.dumps(entry)}\n")
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
