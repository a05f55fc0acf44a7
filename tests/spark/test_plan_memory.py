"""The planner of enabled sessions does not repeat plans that cannot pay, and it says what would help."""

import json
import os

import pyarrow as pa
import pytest

import intarsia as ia
from intarsia.spark.skipping import SkippingPlanner
from tests.lake.index.lakes import age, write

FILES = 80


class Clock:
    """Each look takes some seconds."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory") / "lake"
    for ordinal in range(FILES):
        table = pa.table(
            {
                "user": [ordinal * 10 + row * 7919 % 100_003 for row in range(10)],
                "common": [row % 3 for row in range(10)],
                "other": [row % 3 for row in range(10)],
            }
        )
        write(folder / f"{ordinal:02}.parquet", table, [ia.Distinct("user")])
    return folder


def asking(lake, clock, timeout_ms=10_000):
    """Return a function that asks one planner for a plan of a comparison."""
    planner = SkippingPlanner(clock)

    def ask(column, value):
        paths = sorted(lake.glob("*.parquet"))
        stats = [os.stat(path) for path in paths]
        sides = [
            {"op": "Column", "type": "bigint", "name": [column]},
            {"op": "Literal", "type": "bigint", "value": value},
        ]
        settings = {"case_sensitive": False, "int96_conversion": False, "field_ids": False}
        request = {
            "condition": {"op": "EqualTo", "type": "boolean", "args": sides},
            "settings": {**settings, "timeout_ms": timeout_ms},
            "partition_columns": [],
            "partitions": [[]],
            "paths": [f"file:{path}" for path in paths],
            "sizes": [stat.st_size for stat in stats],
            "times_ms": [stat.st_mtime_ns // 10**6 for stat in stats],
            "partition_of": [0] * len(paths),
        }
        return json.loads(planner.answer(json.dumps(request)))

    return ask


def is_planned(answer):
    return "report" in answer


def test_plans_that_exclude_nothing_wait(lake):
    clock = Clock(0.2)
    ask = asking(lake, clock)
    answers = [ask("common", value) for value in (0, 1, 2, 0, 1, 2)]
    assert [is_planned(answer) for answer in answers] == [True] * 3 + [False] * 3
    assert all(answer["reason"] for answer in answers)
    assert is_planned(ask("other", 1))
    clock.now += 60
    assert is_planned(ask("common", 7))  # absent from all files, so the memory starts again
    assert is_planned(ask("common", 1))


def test_the_plan_after_the_wait_decides(lake):
    clock = Clock(0.2)
    ask = asking(lake, clock)
    for value in (0, 1, 2):
        ask("common", value)
    clock.now += 60
    assert [is_planned(ask("common", value)) for value in (-3, 0)] == [True, True]
    clock = Clock(0.2)
    ask = asking(lake, clock)
    for _ in range(2):
        for value in (0, 1, 2):
            ask("common", value)
        clock.now += 60
    assert is_planned(ask("common", 0)) is True


def test_one_in_sixteen_quick_plans_is_made_after_eight_that_exclude_nothing(tmp_path):
    lake = tmp_path / "lake"
    for name in "ab":
        write(lake / f"{name}.parquet", pa.table({"x": range(128), "y": range(128)}))
    ask = asking(lake, Clock(0.0001))

    def planned(values, column="x"):
        return [value for value in values if is_planned(ask(column, value))]

    assert planned(range(60)) == [*range(8), 23, 39, 55]
    assert planned(range(10), "y") == [*range(8)]
    # 1011 excludes both files, so the memory starts again
    assert planned(range(1000, 1020)) == [*range(1011, 1020)]
    assert planned(range(60, 70)) == [*range(60, 68)]
    ia.attach(lake / "a.parquet", [ia.Distinct("x")])
    age(lake / "a.parquet")
    assert planned(range(70, 80)) == [*range(70, 78)]
    ia.open(lake).build_lake_index("beside")
    assert planned(range(80, 90)) == [*range(80, 88)]


def test_a_changed_lake_is_planned_again(lake):
    ask = asking(lake, Clock(0.2))
    for value in (0, 1, 2):
        ask("common", value)
    assert not is_planned(ask("common", 0))
    age(lake / "05.parquet")
    assert is_planned(ask("common", 0))


def test_a_lake_index_is_advised_and_found(lake):
    """Planning single files stops after a quarter of the limit; a lake index that is built later is used."""
    clock = Clock(3.0)
    ask = asking(lake, clock)
    answer = ask("user", 55)
    assert 0 < answer["report"]["files"]["opened"] < FILES
    assert "build a lake index" in answer["advice"]
    assert asking(lake, Clock(0.001))("user", 55).get("advice") is None  # it plans all of them
    ia.open(lake).build_lake_index()
    clock.now += 60
    answer = ask("user", 56)
    assert answer["report"]["files"]["opened"] <= 2
    assert answer["advice"] is None
