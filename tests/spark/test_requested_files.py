"""Lists of files that the JVM sends once; planning costs what is left of them, not what is excluded."""

import json
import os

import pyarrow as pa
import pytest

import intarsia as ia
from intarsia.lake.data_file import DataFile
from intarsia.spark.skipping import SkippingPlanner
from tests.counting import calls
from tests.lake.index.lakes import age, write

SETTINGS = {"case_sensitive": False, "int96_conversion": False, "field_ids": False, "timeout_ms": 0}


def make_lake(folder, num_files):
    """Write files of ten values each, linked in several folders, with a lake index."""
    for ordinal in range(num_files):
        write(folder / f"p={ordinal % 5}" / f"{ordinal:03}.parquet", rows(ordinal))
    ia.open(folder).build_lake_index("beside")
    return folder


def rows(ordinal):
    return pa.table({"id": range(ordinal * 10, ordinal * 10 + 10)})


def request(value, name="list 1", column="id", op="EqualTo"):
    """Return a request for one value, with the name of a list."""
    sides = [
        {"op": "Column", "type": "bigint", "name": [column]},
        {"op": "Literal", "type": "bigint", "value": value},
    ]
    return {"condition": {"op": op, "type": "boolean", "args": sides}, "settings": SETTINGS, "list": name}


def files_of(lake, *, is_sealed):
    """Return the list of the files of a lake."""
    paths = sorted(lake.glob("p=*/*.parquet"))
    partitions = sorted({path.parent.name for path in paths})
    statuses = [os.stat(path) for path in paths]
    return {
        "partition_columns": ["p"],
        "partitions": [[partition[2:]] for partition in partitions],
        "paths": [f"file:{path}" for path in paths],
        "sizes": [status.st_size for status in statuses],
        "times_ms": [None if is_sealed else status.st_mtime_ns // 10**6 for status in statuses],
        "partition_of": [partitions.index(path.parent.name) for path in paths],
    }


def asking():
    planner = SkippingPlanner()
    return lambda asked: json.loads(planner.answer(json.dumps(asked)))


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """Lakes of 20 and 80 files."""
    return [make_lake(tmp_path_factory.mktemp("requested") / str(number), number) for number in (20, 80)]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_list_is_sent_once(lakes, is_sealed):
    ask = asking()
    assert ask(request(5)) == {"unknown": "list"}
    files = files_of(lakes[0], is_sealed=is_sealed)
    first = ask({**request(5), **files})
    assert [kept[0] for kept in first["kept"]] == [0]
    again = ask(request(155))
    whole = asking()({**request(155), **files})
    for answer in (again, whole):
        for changing in ("seconds", "requests", "bytes"):
            del answer["report"][changing]
    assert again == whole
    assert files["paths"][again["kept"][0][0]].endswith("/015.parquet")
    assert ask(request(5, "list 2")) == {"unknown": "list"}
    in_partition = ask(request(3, column="p"))
    assert {files["paths"][kept[0]].split("/")[-2] for kept in in_partition["kept"]} == {"p=3"}
    assert len(in_partition["kept"]) == 4


def test_only_files_that_are_left_become_objects(lakes):
    counts = []
    for lake in lakes:
        ask = asking()
        ask({**request(5), **files_of(lake, is_sealed=True)})
        counts.append(calls(lambda ask=ask: ask(request(155)), of=DataFile.__init__))
    assert 0 < counts[1] == counts[0]


@pytest.mark.parametrize(("is_sealed", "per_file"), [(True, 0.0), (False, 3.0)])
def test_calls_grow_with_stats_of_files_that_may_be_replaced(lakes, is_sealed, per_file):
    def planning(lake):
        ask = asking()
        ask({**request(5), **files_of(lake, is_sealed=is_sealed)})
        ask(request(35))
        return calls(lambda: ask(request(155)))

    # the fewest of three: the first plans of a process make more calls, and the caches of a process
    # drop what other tests left in them
    few, many = (min(planning(lake) for _ in range(3)) for lake in lakes)
    assert (many - few) / 60 <= per_file


def test_a_replaced_file_is_not_planned(tmp_path):
    lake, ask = make_lake(tmp_path / "lake", 10), asking()
    ask({**request(5), **files_of(lake, is_sealed=False)})
    path = lake / "p=0" / "000.parquet"
    write(path, rows(100))
    assert ask(request(55))["unplanned"] == [0]


@pytest.mark.parametrize("rebuilds", [False, True])
def test_files_of_a_snapshot_keep_their_plans_when_indexes_are_attached(tmp_path, rebuilds):
    lake, ask = make_lake(tmp_path / "lake", 10), asking()
    files = files_of(lake, is_sealed=True)
    first = ask({**request(5), **files})
    assert [kept[0] for kept in first["kept"]] == [0]
    assert first["is_sealed"]
    for path in lake.glob("p=*/*.parquet"):
        ia.attach(path, [ia.RowMap("id"), ia.PageIndex()])
        age(path)
    if rebuilds:
        ia.open(lake).build_lake_index("beside")
    for value, place in ((7, 0), (17, 2)):
        answer = ask(request(value))
        assert [kept[0] for kept in answer["kept"]] == [place]
        path = files["paths"][place].removeprefix("file:")
        status = os.stat(path)
        assert answer["kept"][0][2:] == [7, 8]
        assert answer["statuses"] == [[status.st_size, status.st_mtime_ns // 10**6]]
    assert ask(request(1000))["kept"] == []
