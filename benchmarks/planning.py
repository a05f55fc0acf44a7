"""Plan a query of 10,000 files with a lake index; other readers have no such step to compare with."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia

FILES = 10_000
ROWS_PER_FILE = 1_000

#: Increment when the data changes.
VERSION = 1


def measure_planning(
    folder: Path, files: int, repetitions: int, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Measure milliseconds of listing a lake, and of planning a lookup after it.

    Args:
        folder: The folder for the lake, which is reused.
        files: Number of files.
        repetitions: Number of plans.
        progress: Called with a description of the current step.

    Returns:
        ``files``, and medians: ``list_ms`` of `intarsia.open`, ``cold_ms`` of the first plan of a table, and
        ``warm_ms`` of a further plan.
    """
    os.environ["INTARSIA_CACHE_DIR"] = str(folder / "cache")
    lake = make_lake(folder, files, progress)
    progress("plan: building the lake index")
    ia.open(lake).build_lake_index()
    progress("plan: planning")
    listing, cold, warm = [], [], []
    for turn in range(repetitions):
        where = f"user = {turn * 7_919_000_003 % 10**9}"
        gc.collect()
        started = time.perf_counter()
        table = ia.open(lake)
        listed = time.perf_counter()
        table.plan(where)
        planned = time.perf_counter()
        table.plan(where)
        listing.append(listed - started)
        cold.append(planned - listed)
        warm.append(time.perf_counter() - planned)
    medians = {"list_ms": listing, "cold_ms": cold, "warm_ms": warm}
    return {"files": files} | {
        name: round(statistics.median(times) * 1000, 1) for name, times in medians.items()
    }


def make_lake(folder: Path, files: int, progress: Callable[[str], None]) -> Path:
    """Create a lake of small files with Bloom filters, and return its folder."""
    lake = folder / f"plan-{files}-v{VERSION}"
    if not lake.exists():
        progress(f"creating {files:,} files")
        part = lake.with_suffix(".part")
        part.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(1)
        for ordinal in range(files):
            _write(part / f"part-{ordinal:05}.parquet", ordinal, random)
        part.rename(lake)
    return lake


def print_planning(found: dict[str, Any]) -> None:
    """Print the figures."""
    print(
        f"{found['files']:,} files: listing {found['list_ms']:.0f} ms; then planning a lookup with a lake "
        f"index {found['cold_ms']:.0f} ms with a new table, {found['warm_ms']:.0f} ms with the same again"
    )


def _write(path: Path, ordinal: int, random: np.random.Generator) -> None:
    seconds = 1_700_000_000 + ordinal * 3600 + np.sort(random.integers(0, 3600, ROWS_PER_FILE))
    table = pa.table(
        {
            "user": random.integers(0, 10**9, ROWS_PER_FILE),
            "ts": pa.array(seconds, pa.timestamp("s")),
            "country": [f"country {ordinal % 200}"] * ROWS_PER_FILE,
            "amount": random.random(ROWS_PER_FILE),
        }
    )
    pq.write_table(table, path, bloom_filter_options={"user": {"ndv": ROWS_PER_FILE, "fpp": 0.01}})
