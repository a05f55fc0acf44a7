"""Many small files: find one row in one of them, or in none."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia
from benchmarks.data import VERSION, File
from benchmarks.measure import Case
from benchmarks.queries import Query

FILES = 1_000
ROWS_PER_FILE = 10_000


def lake_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Query a user that is in one file, and one that is in none but within the bounds of all files."""
    files = max(1, rows // ROWS_PER_FILE)
    turns = max(2, repetitions // 3)  # each repetition is slow
    present = np.random.default_rng(5).integers(0, files * ROWS_PER_FILE, turns) * 2
    absent = present + 1
    return [
        Case(name, lake, [Query("user", user, user + 1) for user in users.tolist()])
        for lake in _make_lakes(folder, files)
        for name, users in (("user = x", present), ("user absent", absent))
    ]


def _make_lakes(folder: Path, files: int) -> list[File]:
    """Create the same rows twice: with pyarrow's defaults, and with attached indexes."""
    plain, attached = (folder / f"{name}-{files}-v{VERSION}" for name in ("lake", "lake-attached"))
    if not plain.exists():
        part = plain.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        users = np.random.default_rng(3).permutation(files * ROWS_PER_FILE) * 2
        for ordinal, of_file in enumerate(np.split(users, files)):
            pq.write_table(_table(ordinal, of_file), part / f"part-{ordinal:04}.parquet")
        part.rename(plain)
    if not attached.exists():
        part = attached.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(plain, part)
        for path in sorted(part.iterdir()):
            ia.attach(path, [ia.PageIndex(), ia.Bloom("user")])
        part.rename(attached)
    return [
        File("lake", str(plain), f"{files:,} files of {ROWS_PER_FILE:,} rows, pyarrow's defaults"),
        File("attached", str(attached), "the same after ia.attach of PageIndex() and Bloom('user')"),
    ]


def _table(ordinal: int, users: np.ndarray) -> pa.Table:
    random = np.random.default_rng(ordinal)
    count = len(users)
    seconds = np.sort(random.integers(0, 3600, count)) + ordinal * 3600
    return pa.table(
        {
            "user": users,
            "ts": pa.array(1_700_000_000 + seconds, pa.timestamp("s")),
            "country": [f"country {number:03}" for number in random.integers(0, 200, count).tolist()],
            "amount": random.integers(0, 1_000_000, count) / 100,
            "url": [
                f"https://example.org/{number:x}" for number in random.integers(0, 2**40, count).tolist()
            ],
        }
    )
