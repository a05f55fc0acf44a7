"""A local file that a program overwrites in place while it is read: an error, and no mixed rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.indexes import Index, OpenIndex
from intarsia.rows.selection import RowSelection

#: Two row groups are read one after the other if they are large.
ROWS = 1_000_000


def write(path, value, num_rows=2 * ROWS):
    """Write a file in place, which has the same layout for each value."""
    numbers = np.arange(num_rows)
    rows = pa.table({"x": numbers % 7 * 100 + value, "n": numbers})
    flags = os.O_WRONLY | os.O_CREAT
    with open(os.open(path, flags), "wb") as file:
        pq.write_table(rows, file, row_group_size=num_rows // 2, compression="none", use_dictionary=False)


def values(rows):
    """Return the values that files with these rows were written with."""
    return set((rows["x"].to_numpy() % 100).tolist())


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "f.parquet"
    write(path, 1)
    os.utime(path, (1_700_000_000,) * 2)
    return path


@pytest.mark.parametrize("where", [None, "n >= 0"])
def test_an_iterator_returns_no_row_of_the_new_bytes(path, where):
    table = ia.open(path)
    batches = iter(table.scan(where, ["x"]))
    found, size = [next(batches)], path.stat().st_size
    write(path, 2)
    assert path.stat().st_size == size
    with pytest.raises(ia.ReplacedWhileReadError) as caught:
        found.extend(batches)
    assert (caught.value.reason, caught.value.path) == ("file-overwritten", str(path))
    assert values(pa.Table.from_batches(found)) == {1}
    assert values(table.scan(where).to_arrow()) == {2}


def test_damage_is_not_reported(path):
    batches = iter(ia.open(path).scan("n >= 0"))
    next(batches)
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.write(bytes(size - 1000))
    with pytest.raises(ia.ReplacedWhileReadError):
        list(batches)


def test_a_rename_is_no_change_of_the_open_file(path, tmp_path):
    batches = iter(ia.open(path).scan(columns=["x"]))
    found = [next(batches)]
    write(tmp_path / "new", 2)
    os.replace(tmp_path / "new", path)
    found.extend(batches)
    assert values(pa.Table.from_batches(found)) == {1}


@dataclass(frozen=True)
class Meddling(Index):
    """An index that overwrites files while a query is planned with it."""

    kind: ClassVar[str] = "meddling"
    version: ClassVar[int] = 1
    meddle: ClassVar[list] = []

    column: str

    @property
    def columns(self):
        return (self.column,)

    def can_prune(self, predicate):
        return True

    def build(self, chunk):
        return b"x" * 2000  # it is read from the file

    def open(self, payload, layout):
        return OpenMeddling()


class OpenMeddling(OpenIndex):
    def candidate_rows(self, predicate):
        while Meddling.meddle:
            Meddling.meddle.pop()()
        return RowSelection.none() if predicate.op == ">" else None


def lake_of(folder, num_files):
    """Write files with the index, with bytes that overwrite each of them."""
    folder.mkdir()
    for number in range(num_files):
        for value in (2, 1):
            path = folder / f"{number}.parquet"
            write(path, value, 20_000)
            ia.attach(path, [ia.PageIndex(), Meddling("x")])
            os.utime(path, (1_700_000_000,) * 2)
            yield path, path.read_bytes() if value == 2 else None


def meddling(folder, num_files):
    found = [one for one in lake_of(folder, num_files) if one[1] is not None]

    def overwrite():
        for path, data in found:
            path.write_bytes(data)

    Meddling.meddle.append(overwrite)


@pytest.mark.parametrize("where", ["x >= 150", "x > 150"])
@pytest.mark.parametrize(
    "ask", [lambda scan: scan.to_arrow(), lambda scan: scan.count(), lambda scan: scan.value_counts("x")]
)
def test_overwritten_while_it_is_planned(tmp_path, announce, where, ask):
    announce({"meddling": f"{__name__}:Meddling"})
    meddling(tmp_path / "lake", 1)
    (path,) = (tmp_path / "lake").iterdir()
    with pytest.raises(ia.ReplacedWhileReadError) as caught:
        ask(ia.open(path).scan(where, on_error="raise"))
    assert (caught.value.reason, caught.value.path) == ("file-overwritten", str(path))


def test_overwritten_while_a_lake_is_planned(tmp_path, announce):
    """The files are read one by one, as if they had been replaced."""
    announce({"meddling": f"{__name__}:Meddling"})
    meddling(tmp_path / "lake", 3)
    assert values(ia.open(tmp_path / "lake").scan("x >= 150").to_arrow()) == {2}


def test_a_file_that_is_skipped(tmp_path, announce):
    announce({"meddling": f"{__name__}:Meddling"})
    meddling(tmp_path / "lake", 1)
    scan = ia.open(tmp_path / "lake").scan("x >= 150", on_error="skip")
    with pytest.warns(ia.IntarsiaWarning):
        assert scan.to_arrow().num_rows == 0
    assert [failed.code for failed in scan.report.files_failed] == ["file-overwritten"]
