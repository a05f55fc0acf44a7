"""Small payloads that expand enormously are not decompressed but reported, and results are correct."""

from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format.arrow_stream import ExpansionBudget, expanded_bytes
from intarsia.read import file_query

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


def test_bombs_are_not_expanded(file, monkeypatch):
    payload = bomb()
    assert expanded_bytes(payload) > 1000 * len(payload)
    with monkeypatch.context() as patch:
        patch.setattr(ia.ZoneMap, "build", lambda *_: payload)
        ia.attach(file, [ia.ZoneMap(name, 100) for name in COLUMNS])
    done = subprocess.run(
        [sys.executable, "-c", READ, file, WHERE], capture_output=True, text=True, check=True
    )
    rows, peak_bytes, ignored, warning = done.stdout.splitlines()
    assert rows == "[5000, 5001, 5002]"
    assert 0 < int(peak_bytes) < expanded_bytes(payload) // 16
    assert ignored == str([f"zone_map({name}):100" for name in COLUMNS])
    assert "268,435,456" in warning
    assert "33,554,432" in warning


def test_indexes_of_one_file_share_a_budget(file, monkeypatch):
    zone_maps = [ia.ZoneMap(name, 10) for name in COLUMNS]
    ia.attach(file, zone_maps)
    budgets = []

    class Recorded(ExpansionBudget):
        def give_back(self):
            self.taken_bytes = self.most_bytes - self.left_bytes
            super().give_back()

    def limited(most_bytes, shared):
        budgets.append(Recorded(most_bytes, shared))
        return budgets[-1]

    expected = [5000, 5001, 5002]
    monkeypatch.setattr(file_query, "ExpansionBudget", functools.partial(limited, 1 << 30))
    scan = ia.open(file).scan(WHERE)
    assert scan.to_arrow()["a"].to_pylist() == expected
    assert not scan.report.ignored
    taken = max(budget.taken_bytes for budget in budgets)
    each = taken // len(COLUMNS)
    for fitting in range(len(COLUMNS)):
        budgets.clear()
        most_bytes = each * fitting + each // 2
        monkeypatch.setattr(file_query, "ExpansionBudget", functools.partial(limited, most_bytes))
        scan = ia.open(file).scan(WHERE)
        with pytest.warns(ia.IntarsiaWarning):
            assert scan.to_arrow()["a"].to_pylist() == expected
        assert [note.code for note in scan.report.ignored] == ["over-budget"] * (len(COLUMNS) - fitting)
        assert all(budget.taken_bytes <= most_bytes for budget in budgets)


def test_payloads_of_other_forms_take_their_length():
    budget = ExpansionBudget(100)
    budget.take(b"x" * 60)
    with pytest.raises(ValueError, match="60"):
        budget.take(b"x" * 60)
    assert budget.left_bytes == 40
    budget.take(b"x" * 40)
    assert budget.left_bytes == 0
