"""`attach` needs memory for one row group, not for the whole file (contract C7)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads its peak from /proc"),
]

GROUP_ROWS = 100_000
FEW, MANY = 4, 12

#: Verifying takes the longest.
MANY_TO_VERIFY = 10

EACH = [
    *(ia.PageIndex(), ia.Statistics(), ia.Distinct("country"), ia.ZoneMap("amount")),
    *(ia.Histogram("amount"), ia.Hll("number")),
]

#: Decoded size of a row group.
GROUP_BYTES = GROUP_ROWS * (8 + 8 + 40)

VERIFY = """
import sys
import intarsia as ia
assert not ia.verify(sys.argv[1]).findings
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM:")).split()[1])
"""

ATTACH = """
import sys
import intarsia as ia
ia.attach(sys.argv[1], [eval(text, {"ia": ia}) for text in sys.argv[2:]])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM:")).split()[1])
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files with few and with many equal row groups, by their number."""
    folder = tmp_path_factory.mktemp("memory")
    random = np.random.default_rng(1)
    numbers = random.integers(0, 1 << 40, GROUP_ROWS)
    table = pa.table(
        {
            "number": numbers,
            "amount": numbers / 100,
            "text": [f"{number:040}" for number in numbers.tolist()],
            "country": [f"country {number % 50}" for number in numbers.tolist()],
        }
    )
    paths = {groups: folder / f"{groups}.parquet" for groups in (FEW, MANY_TO_VERIFY, MANY)}
    for groups, path in paths.items():
        with pq.ParquetWriter(path, table.schema, use_dictionary=["country"]) as writer:
            for _ in range(groups):
                writer.write_table(table)
    return paths


def growth_bytes(files, tmp_path, *indexes, program=ATTACH):
    """Return the difference of the memory peaks for the larger and the smaller file."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    peaks = []
    for groups in (FEW, MANY_TO_VERIFY if program == VERIFY else MANY):
        path = tmp_path / f"{groups}.parquet"
        path.write_bytes(files[groups].read_bytes())
        if program == VERIFY:
            ia.attach(path, EACH)
        command = [sys.executable, "-c", program, str(path), *indexes]
        out = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
        peaks.append(int(out) * 1024)
    return peaks[1] - peaks[0]


def assert_growth_below(most_bytes, files, tmp_path, *indexes, program=ATTACH):
    """Assert a limit on `growth_bytes`.

    Allocators keep some megabytes more in one process than in another, so there are three tries. Memory that
    grows with the file grows in each of them.
    """
    found = []
    while len(found) < 3 and (not found or found[-1] >= most_bytes):
        found.append(growth_bytes(files, tmp_path, *indexes, program=program))
    assert min(found) < most_bytes, found


def test_a_row_group_at_a_time(files, tmp_path):
    indexes = [
        "ia.PageIndex()",
        "ia.Statistics()",
        "ia.Distinct('country')",
        "ia.ZoneMap('amount')",
        "ia.Hll('number')",
        "ia.Histogram('amount')",
        "ia.BloomGranule('number')",
    ]
    # a whole column of numbers would be a seventh of it
    assert_growth_below((MANY - FEW) * GROUP_BYTES / 8, files, tmp_path, *indexes)


def test_verifying_takes_a_row_group_at_a_time(files, tmp_path):
    """Although all rules and indexes are checked in one pass."""
    assert_growth_below((MANY_TO_VERIFY - FEW) * GROUP_BYTES / 2, files, tmp_path, program=VERIFY)


def test_a_row_map_takes_a_few_bytes_a_row(files, tmp_path):
    """8 bytes a row while it sorts, and the payload."""
    assert_growth_below(16 * (MANY - FEW) * GROUP_ROWS, files, tmp_path, "ia.RowMap('number')")
