"""A signal handler that raises TimeoutError ends a query, although the error is an OSError."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia

#: Calls to the system in which the signal arrives.
CALLS = (os.open, os.fstat, os.pread)

QUERIES = {
    "scan": lambda table: table.scan("word = 'w3' AND n > 5").to_arrow().num_rows,
    "order": lambda table: table.scan(order_by="n DESC", limit=2).to_pylist(),
    "aggregate": lambda table: table.aggregate({"n": ["sum"]}, where="word = 'w4'")["n"],
    "skip": lambda table: table.scan("word = 'w3'", on_error="skip").to_arrow().num_rows,
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    for number in range(3):
        path = folder / f"{number}.parquet"
        rows = pa.table({"n": range(900), "word": [f"w{(number + row) % 17}" for row in range(900)]})
        pq.write_table(rows, path, row_group_size=300, write_page_index=True)
        ia.attach(path, [ia.Distinct("word"), ia.Bloom("n")])
        os.utime(path, (1_700_000_000 + number,) * 2)
    return folder


class Timeout:
    """A signal handler that raises an error at a call to the system, or only counts the calls."""

    def __init__(self, at=0, calls=CALLS):
        self.calls = 0
        self._at = at
        self._of = calls

    def __enter__(self):
        sys.setprofile(self._interrupt)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _interrupt(self, _frame, event, function):
        if event == "c_call" and function in self._of:
            self.calls += 1
            if self.calls == self._at:
                sys.setprofile(None)
                raise TimeoutError("after 60 s")


@pytest.mark.parametrize("has_lake_index", [False, True])
@pytest.mark.parametrize("name", QUERIES)
def test_at_any_call_to_the_system(lake, name, has_lake_index):
    query = QUERIES[name]
    if has_lake_index:
        ia.open(lake).build_lake_index("beside")
    expected = query(ia.open(lake))
    table = ia.open(lake)
    with Timeout() as counted:
        query(table)
    assert counted.calls > 5
    for number in range(1, counted.calls + 1):
        table = ia.open(lake)
        with pytest.raises(TimeoutError, match="after 60 s") as caught, Timeout(at=number):
            query(table)
        assert type(caught.value) is TimeoutError
        assert query(table) == expected
    ia.open(lake).remove_lake_index()


@pytest.mark.parametrize("call", [os.pread, os.write, os.fsync, fcntl.flock])
def test_it_ends_a_run_over_many_files(lake, tmp_path, call):
    shutil.copytree(lake, tmp_path / "lake")
    before = {path: path.read_bytes() for path in (tmp_path / "lake").iterdir()}
    with pytest.raises(TimeoutError, match="after 60 s"), Timeout(1, [call]):
        ia.attach(tmp_path / "lake", ia.ZoneMap("n"))
    assert {path: path.read_bytes() for path in (tmp_path / "lake").iterdir()} == before
