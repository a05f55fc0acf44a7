"""Time plain Spark SQL on a lake: bare files, indexed files, and an enabled session.

All queries of a repetition run in one session, in turn, so that none of them has a warmer JVM.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import intarsia.spark as ias
from benchmarks.lake import FILES, FIRST_SECOND, NEEDLE, RARE, ROWS_PER_FILE, make_lakes
from intarsia.spark.local import local_session

BARE, INDEXED, ENABLED = "plain, bare files", "plain, indexed files", "enabled"
SWITCH = "spark.intarsia.enabled"


def queries(files: int, random: np.random.Generator) -> dict[str, str]:
    """Return the condition of each query, with new values."""
    user = int(random.integers(0, files * ROWS_PER_FILE)) * 2
    hour = dt.datetime.fromtimestamp(FIRST_SECOND + 3600 * int(random.integers(0, files)), dt.timezone.utc)
    start, stop = (moment.strftime("%Y-%m-%d %H:%M:%S") for moment in (hour, hour + dt.timedelta(hours=1)))
    return {
        "user = x": f"user = {user}",
        "user absent": f"user = {user + 1}",
        "rare country": f"country = '{RARE}'",
        "one hour": f"ts >= TIMESTAMP_NTZ '{start}' AND ts < TIMESTAMP_NTZ '{stop}'",
        "LIKE '%needle%'": f"url LIKE '%{NEEDLE}%'",
        "nothing to skip": "amount >= 100.5",
        "no condition": "",
    }


def measure(spark: Any, folder: Path, files: int, repetitions: int) -> dict[str, dict[str, list[float]]]:
    """Return the milliseconds of each query in each mode."""
    bare, _, indexed = (lake.path for lake in make_lakes(folder, files))
    lakes = {BARE: bare, INDEXED: indexed, ENABLED: indexed}
    views = {}
    for mode, path in lakes.items():
        views[mode] = spark.read.parquet(path)
    random = np.random.default_rng(1)
    found: dict[str, dict[str, list[float]]] = {}
    for repetition in range(repetitions + 1):
        for name, where in queries(files, random).items():
            answers = set()
            modes = list(lakes)
            for mode in modes[repetition % 3 :] + modes[: repetition % 3]:
                spark.conf.set(SWITCH, str(mode == ENABLED).lower())
                frame = views[mode].where(where) if where else views[mode]
                started = time.perf_counter()
                (row,) = frame.selectExpr("count(*)", "sum(amount)", "max(url)").collect()
                elapsed = (time.perf_counter() - started) * 1000
                answers.add((row[0], row[2]))
                if repetition:  # the first one warms up
                    found.setdefault(name, {}).setdefault(mode, []).append(elapsed)
            assert len(answers) == 1, (name, answers)
    return found


def show(found: dict[str, dict[str, list[float]]], write: Callable[[str], None]) -> None:
    """Print a table of medians, and their ratios to plain Spark."""
    write(f"{'median ms':<18}" + "".join(f"{mode:>22}" for mode in (BARE, INDEXED, ENABLED)) + "   ratios")
    for name, modes in found.items():
        medians = [statistics.median(modes[mode]) for mode in (BARE, INDEXED, ENABLED)]
        ratios = f"   indexed/bare {medians[1] / medians[0]:.2f}, enabled/bare {medians[2] / medians[0]:.2f}"
        write(f"{name:<18}" + "".join(f"{median:>22,.0f}" for median in medians) + ratios)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--files", type=int, default=FILES, help="number of files of 10,000 rows (default: %(default)s)"
    )
    parser.add_argument(
        "--repetitions", type=int, default=5, help="repetitions of each query (default: %(default)s)"
    )
    parser.add_argument(
        "--data", type=Path, help="folder for the files, which are reused (default: a temporary one)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.data or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        spark = local_session(scratch, name="intarsia benchmark")
        ias.enable(spark)
        found = measure(spark, folder, arguments.files, arguments.repetitions)
        spark.stop()
    print(f"{arguments.files:,} files of {ROWS_PER_FILE:,} rows; count(*), sum(amount), max(url)")
    show(found, print)
    return 0


if __name__ == "__main__":
    sys.exit(main())
