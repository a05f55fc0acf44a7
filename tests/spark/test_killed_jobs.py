"""Jobs on local lakes are killed at random instants: no row is lost or doubled, and the next run finishes."""

import os
import shutil

import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.effort import examples
from tests.spark.killing import Job, changes_of, check_kills
from tests.spark.test_deleting import small_lake

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark")]

PROGRAMS = {
    "index": "ias.index(spark, {lake!r}, [ia.RowMap('id')], progress=False)",
    "delete": "ias.delete(spark, {lake!r}, \"country = 'part-5' OR id % 100 = 0\", progress=False)",
    "optimize": "ias.optimize(spark, {lake!r}, in_place=True, sort_by='id', progress=False)",
}

#: The kinds of embedded indexes afterwards.
KINDS = {"index": {"distinct", "row_map"}, "delete": {"distinct"}, "optimize": {"distinct"}}

PARTS, ROWS = 6, 4_000


def ids_by_file(folder):
    """Return the ids of each file, which has each of them once."""
    found = {}
    for path in folder.rglob("*.parquet"):
        numbers = pq.read_table(path, columns=["id"], partitioning=None)["id"].to_pylist()
        found[path.name] = set(numbers)
        assert len(found[path.name]) == len(numbers)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_killed_at_any_time(spark, tmp_path, name):
    source, lake = small_lake(tmp_path / "source", PARTS, ROWS), tmp_path / "run" / "lake"
    old = ids_by_file(source)
    new = old
    if name == "delete":
        new = {
            file: {one for one in numbers if one // ROWS != 5 and one % 100} for file, numbers in old.items()
        }
    rows = set().union(*new.values())

    def prepare():
        shutil.rmtree(lake.parent, ignore_errors=True)
        shutil.copytree(source, lake)

    def check():
        found = ids_by_file(lake)
        if name == "optimize":  # it replaces all files or none
            assert found == old or found.keys().isdisjoint(old)
            assert sorted(one for numbers in found.values() for one in numbers) == sorted(rows)
        else:
            assert all(found.get(file, set()) in (old[file], new[file]) for file in old), found.keys()
            assert found.keys() <= old.keys()
        for path in lake.rglob("*.parquet"):
            assert ia.verify(path, quick=True).ok
            if name == "index":
                before = source / path.relative_to(lake)
                length = ia.inspect(before).directory.original_length
                assert path.read_bytes()[:length] == before.read_bytes()[:length]

    def check_done():
        check()
        found = ids_by_file(lake)
        assert set().union(*found.values()) == rows
        assert os.listdir(lake.parent) == ["lake"]
        assert not list(lake.rglob(".*"))
        for path in lake.rglob("*.parquet"):
            assert {entry.kind for entry in ia.inspect(path).directory.entries} == KINDS[name], path

    program = PROGRAMS[name].format(lake=str(lake))
    job = Job(program, changes_of(lake.parent), prepare, check, check_done)
    check_kills(spark, job, examples(1, deep=30))
