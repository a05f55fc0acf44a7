"""Many small files: find rows that are in one of them, in a few, or in none."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia
from benchmarks.data import File
from benchmarks.measure import Case
from benchmarks.queries import Query, fewer

FILES = 1_000
ROWS_PER_FILE = 10_000

#: For the query with IN: the number of files of the lake, and of values.
AMONG_FILES, AMONG = 200, 1_000

#: The number of rows with the greatest values.
TOP = 10

#: Increment when the data changes, so that lakes of earlier versions are not reused.
VERSION = 4

#: A country that is in every `RARE_EVERY`-th file, and within the bounds of all files.
RARE = "country 100a"
RARE_EVERY = 100

#: A text in the URL of one row.
NEEDLE = "needle"

#: The time of the first row; each file has the rows of one hour.
FIRST_SECOND = 1_700_000_000

INDEXES = (
    ia.PageIndex(),
    ia.Bloom("user"),
    ia.Distinct("country", granularity="file"),
    ia.ZoneMap("amount"),
    ia.Ngram("url"),
)


def lake_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Query a lake as it was written, with attached indexes, and with a lake index of these."""
    files = max(1, rows // ROWS_PER_FILE)
    turns = fewer(repetitions, 3)
    random = np.random.default_rng(5)
    hours = [
        dt.datetime.fromtimestamp(FIRST_SECOND + 3600 * hour, dt.timezone.utc).replace(tzinfo=None)
        for hour in random.integers(0, files, turns).tolist()
    ]
    queries = {
        **lookup_queries(files, turns),
        "rare country": [Query("country", equals=RARE)] * turns,
        "one hour, sum": [Query("ts", hour, hour + dt.timedelta(hours=1), total="amount") for hour in hours],
        "LIKE '%needle%'": [Query("url", contains=NEEDLE)] * turns,
    }
    return [Case(name, lake, asked) for lake in make_lakes(folder, files) for name, asked in queries.items()]


def top_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Find the rows with the greatest values, of all rows and of a twentieth of them.

    The bounds of ``ts`` overlap little, those of ``user`` and ``amount`` almost completely. Values of
    ``amount`` are floats. The greatest of them may be NaN, which the bounds in footers do not exclude.
    """
    files = max(1, rows // ROWS_PER_FILE)
    queries = {
        f"top {TOP} by {column}{name}": [query] * fewer(repetitions, 4)
        for name, condition in (("", {}), (", 5% of the rows", {"column": "country", "contains": "y 13"}))
        for column in ("ts", "user", "amount")
        for query in [Query(**condition, top=column, limit=TOP)]
    }
    plain, _, indexed = make_lakes(folder, files)
    return [Case(name, lake, asked) for lake in (plain, indexed) for name, asked in queries.items()]


def lookup_queries(files: int, turns: int) -> dict[str, list[Query]]:
    """Return lookups of users that are in one file or in none, which no bounds exclude."""
    present = (np.random.default_rng(7).integers(0, files * ROWS_PER_FILE, turns) * 2).tolist()
    return {
        "user = x": [Query("user", user, user + 1) for user in present],
        "user absent": [Query("user", user + 1, user + 2) for user in present],
    }


def among_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Find 1,000 values in 200 files; half of the values are in no file."""
    files = max(1, rows // ROWS_PER_FILE)
    random = np.random.default_rng(6)
    queries = [
        Query("user", among=tuple(random.integers(0, files * ROWS_PER_FILE * 2, AMONG).tolist()))
        for _ in range(fewer(repetitions, 2))
    ]
    return [Case(f"IN {AMONG:,} values", lake, queries) for lake in make_lakes(folder, files)]


def make_plain_lake(folder: Path, files: int) -> Path:
    """Create a lake with pyarrow's defaults, or reuse it; lake indexes are then beside it, in ``cache``."""
    os.environ["INTARSIA_CACHE_DIR"] = str(folder / "cache")
    plain = folder / f"lake-{files}-v{VERSION}"
    if not plain.exists():
        part = _empty(plain)
        users = np.random.default_rng(3).permutation(files * ROWS_PER_FILE) * 2
        for ordinal, of_file in enumerate(np.split(users, files)):
            pq.write_table(_table(ordinal, of_file, files), part / f"part-{ordinal:04}.parquet")
        part.rename(plain)
    return plain


def make_lakes(folder: Path, files: int) -> list[File]:
    """Create the same rows three times: with pyarrow's defaults, with indexes, and with a lake index, too."""
    plain = make_plain_lake(folder, files)
    attached, indexed = (folder / f"{name}-{files}-v{VERSION}" for name in ("lake-attached", "lake-index"))
    if not attached.exists():
        part = _empty(attached)
        shutil.copytree(plain, part, dirs_exist_ok=True)
        ia.attach(part, INDEXES)
        part.rename(attached)
    if not indexed.exists():
        part = _empty(indexed)
        shutil.copytree(attached, part, dirs_exist_ok=True)
        part.rename(indexed)
    report = ia.open(indexed).build_lake_index()
    if report.files_added:
        print(report, file=sys.stderr)
    return [
        File("lake", str(plain), f"{files:,} files of {ROWS_PER_FILE:,} rows, pyarrow's defaults"),
        File("attached", str(attached), "the same after ia.attach of five indexes"),
        File("lake index", str(indexed), "the same with a lake index"),
    ]


def _empty(folder: Path) -> Path:
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    return part


def _table(ordinal: int, users: np.ndarray, files: int) -> pa.Table:
    random = np.random.default_rng(ordinal)
    count = len(users)
    seconds = np.sort(random.integers(0, 3600, count)) + ordinal * 3600
    countries = [f"country {number:03}" for number in random.integers(0, 200, count).tolist()]
    urls = [f"https://example.org/{number:x}" for number in random.integers(0, 2**40, count).tolist()]
    if ordinal % RARE_EVERY == 0:
        countries[count // 3] = RARE
    if ordinal == files // 2:
        urls[count // 2] += f"/{NEEDLE}/"
    return pa.table(
        {
            "user": users,
            "ts": pa.array(FIRST_SECOND + seconds, pa.timestamp("s")),
            "country": countries,
            "amount": random.integers(0, 1_000_000, count) / 100,
            "url": urls,
        }
    )
