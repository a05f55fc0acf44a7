"""Small payloads that expand enormously are not decompressed but reported, and results are correct."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.format.arrow_stream import ExpansionBudget, expanded_bytes
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.predicate import bind, parse_sql
from intarsia.read.file_plan import plan_file
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import read_rows
from intarsia.read.output_columns import output_columns

COLUMNS = "abcd"
ROWS = 20_000
WHERE = " OR ".join(f"{name} BETWEEN 5000 AND 5002" for name in COLUMNS)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({name: range(ROWS) for name in COLUMNS}), path, row_group_size=ROWS, write_statistics=False
    )
    return path


def bomb():
    """256 MiB of zeros in a few kilobytes."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"x": np.zeros(1 << 25, np.int64)})
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


#: Prints the rows, the peak of allocations, the ignored indexes and a warning. It runs in a new process,
#: because the default pool counts from its start, and a replaced pool must outlive its allocations.
READ = """
import sys, warnings
import pyarrow as pa
import intarsia as ia
scan = ia.open(sys.argv[1]).scan(sys.argv[2])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    rows = scan.to_arrow()["a"].to_pylist()
print(rows)
print(pa.default_memory_pool().max_memory())
print(sorted({note.index for note in scan.report.ignored}))
print(caught[0].message)
"""


@dataclasses.dataclass(frozen=True)
class Bomb(ia.ZoneMap):
    """A zone map with a payload that expands enormously."""

    def build(self, chunk):
        return bomb()


def test_bombs_are_not_expanded(file):
    payload = bomb()
    assert expanded_bytes(payload) > 1000 * len(payload)
    ia.attach(file, [Bomb(name, 100) for name in COLUMNS])
    done = subprocess.run(
        [sys.executable, "-c", READ, file, WHERE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows, peak_bytes, ignored, warning = done.stdout.splitlines()
    assert rows == "[5000, 5001, 5002]"
    assert 0 < int(peak_bytes) < expanded_bytes(payload) // 16
    assert ignored == str([f"zone_map({name}):100" for name in COLUMNS])
    assert "268,435,456" in warning
    assert "33,554,432" in warning


class Recorded(ExpansionBudget):
    """A budget that records how much of it was taken."""

    def release(self):
        self.taken_bytes = self.max_bytes - self.left_bytes
        super().release()


def read_with(path, budget):
    """Return the matching rows, and the codes of the notes about ignored indexes."""
    with ParquetInput.open(path) as file:
        schema = file.arrow_schema
        query = FileQuery.of(file, bind(parse_sql(WHERE), schema), output_columns(schema, ["a"]))
        query = dataclasses.replace(query, embedded=EmbeddedIndexes(file, budget))
        pieces = read_rows(query, plan_file(query))
        rows = [value for piece in pieces for value in piece.rows["a"].to_pylist()]
        query.embedded.close()
        return rows, [note.code for note in file.ignored]


def test_indexes_of_one_file_share_a_budget(file):
    ia.attach(file, [ia.ZoneMap(name, 10) for name in COLUMNS])
    expected = [5000, 5001, 5002]
    budget = Recorded(1 << 30)
    assert read_with(file, budget) == (expected, [])
    each = budget.taken_bytes // len(COLUMNS)
    for fitting in range(len(COLUMNS)):
        budget = Recorded(each * fitting + each // 2)
        assert read_with(file, budget) == (expected, ["over-budget"] * (len(COLUMNS) - fitting))
        assert budget.taken_bytes <= budget.max_bytes


def test_files_of_one_scan_share_a_budget(file):
    """As a table opens them: each file has a budget of its own, and all of them count against another one."""
    ia.attach(file, [ia.ZoneMap(COLUMNS[0], 10)])
    whole = Recorded(1 << 30)
    expected, _ = read_with(file, whole)
    scan = ExpansionBudget(whole.taken_bytes * 3 // 2)  # enough for one file
    first, second = (ExpansionBudget(1 << 30, scan) for _ in range(2))
    payload = bytes(whole.taken_bytes)
    first.take(payload)
    assert read_with(file, second) == (expected, ["over-budget"])
    first.release()
    assert scan.left_bytes == scan.max_bytes
    assert read_with(file, second) == (expected, [])
    assert scan.left_bytes == scan.max_bytes  # closing a file releases its memory


def test_payloads_of_other_forms_take_their_length():
    budget = ExpansionBudget(100)
    budget.take(b"x" * 60)
    with pytest.raises(ValueError, match="60"):
        budget.take(b"x" * 60)
    assert budget.left_bytes == 40
    budget.take(b"x" * 40)
    assert budget.left_bytes == 0
