"""Whole processes of `intarsia query` on growing lakes and files: CPU time and peak memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia
from benchmarks.measure import compiling_modules
from benchmarks.planning import ROWS_PER_FILE, make_lake

FILES = (10, 100, 1_000, 10_000)
PAGES = (10, 100, 1_000, 10_000, 100_000)
ROW_GROUPS = (10, 1_000, 5_000, 20_000)
COLUMNS = (10, 2_000, 8_000)
ROWS_PER_PAGE = 20

#: Increment when the data changes.
VERSION = 1


#: Prints the CPU time and the peak memory of the process at its end. The peak that the operating system
#: reports to the parent includes the parent's memory before the program was loaded.
_REPORTING = """
import atexit, re, sys, time
def report():
    peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]
    print("\\n", time.process_time(), peak, file=sys.stderr)
atexit.register(report)
"""

_QUERY = "import runpy; runpy.run_module('intarsia', run_name='__main__', alter_sys=True)"


@dataclass
class Process:
    """One kind of process; the figures are the minimum of all runs.

    Attributes:
        name: The name in the table.
        code: The program.
        arguments: Its arguments.
        cache: The folder of the user's lake indexes.
        cpu_ms: Milliseconds of CPU time of all threads.
        peak_mb: Maximum resident memory in megabytes.
    """

    name: str
    code: str
    arguments: Sequence[str]
    cache: str
    cpu_ms: float = float("inf")
    peak_mb: float = float("inf")

    def run(self, environment: dict[str, str]) -> None:
        """Run the process once.

        Args:
            environment: The environment variables.

        Raises:
            RuntimeError: If it fails.
        """
        environment = {**environment, "INTARSIA_CACHE_DIR": self.cache}
        command = [sys.executable, "-c", _REPORTING + self.code, *self.arguments]
        done = subprocess.run(command, capture_output=True, check=False, env=environment, text=True)
        if done.returncode:
            raise RuntimeError(f"{self.name}: {done.stderr}")
        cpu_seconds, peak_kb = done.stderr.split()[-2:]
        self.cpu_ms = round(min(self.cpu_ms, float(cpu_seconds) * 1000), 1)
        self.peak_mb = round(min(self.peak_mb, int(peak_kb) / 1024), 1)


def measure_growth(
    folder: Path, rows: int | None, repetitions: int, progress: Callable[[str], None]
) -> list[Process]:
    """Look up one value in lakes of many files, and in files of many pages, row groups or columns.

    Args:
        folder: The folder for the files, which are reused.
        rows: The maximum number of rows of a lake or a file; None for no limit.
        repetitions: Number of runs of each process.
        progress: Called with a description of the current step.
    """
    with tempfile.TemporaryDirectory() as empty, compiling_modules() as environment:
        processes = [
            Process("import pyarrow.parquet", "import pyarrow.parquet", [], empty),
            Process("from intarsia import open", "import intarsia; intarsia.open", [], empty),
            *_lakes(folder, _up_to(rows, FILES, ROWS_PER_FILE), empty, progress),
            *_files(folder, rows, empty, progress),
        ]
        for _ in range(1 + repetitions):  # the first runs compile modules
            for process in processes:
                progress(process.name)
                process.run(environment)
    return processes


def growth_document(processes: Sequence[Process]) -> list[dict[str, Any]]:
    """Return the figures for JSON."""
    shown = ("name", "cpu_ms", "peak_mb")
    return [{name: asdict(process)[name] for name in shown} for process in processes]


def print_growth(processes: Sequence[Process]) -> None:
    """Print the figures as a table."""
    print("\nWhole processes, the minimum of all runs; a lookup of one value by `intarsia query`.")
    print(f"  {'':<34}{'ms of CPU':>12}{'peak MB':>12}")
    for process in processes:
        print(f"  {process.name:<34}{process.cpu_ms:>12,.0f}{process.peak_mb:>12,.0f}")


def _up_to(rows: int | None, sizes: Sequence[int], rows_each: int) -> list[int]:
    """Return the sizes that have at most some number of rows, at least the first of them."""
    return [size for size in sizes if rows is None or size in (sizes[0], min(size, rows // rows_each))]


def _lakes(
    folder: Path, sizes: Sequence[int], empty: str, progress: Callable[[str], None]
) -> Iterator[Process]:
    cache = str(folder / "cache")
    os.environ["INTARSIA_CACHE_DIR"] = cache
    whole = make_lake(folder, max(sizes), progress)
    for files in sizes:
        lake = whole if files == max(sizes) else folder / f"growth-{files}-v{VERSION}"
        if not lake.exists():
            part = lake.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            for path in sorted(whole.iterdir())[:files]:
                shutil.copyfile(path, part / path.name)
            part.rename(lake)
        ia.open(lake).build_lake_index()
        query = ["query", str(lake), "-w", "user = 7919000003"]
        yield Process(f"{files:,} files", _QUERY, query, empty)
        yield Process(f"{files:,} files, lake index", _QUERY, query, cache)


def _files(folder: Path, rows: int | None, empty: str, progress: Callable[[str], None]) -> Iterator[Process]:
    """Files with many pages, row groups or columns; the value is in one page, row group or column."""
    for kind, sizes, rows_each, make in (
        ("pages", PAGES, ROWS_PER_PAGE, _write_pages),
        ("row groups", ROW_GROUPS, ROWS_PER_PAGE, _write_row_groups),
        ("columns", COLUMNS, ROWS_PER_PAGE, _write_columns),
    ):
        for size in _up_to(rows, sizes, rows_each):
            path = folder / f"growth-{size}-{kind.replace(' ', '-')}-v{VERSION}.parquet"
            if not path.exists():
                progress(f"growth: creating a file of {size:,} {kind}")
                part = path.with_suffix(".part")
                make(size, part)
                part.rename(path)
            where = "c7 = 5" if kind == "columns" else f"id = {size * ROWS_PER_PAGE // 3}"
            yield Process(
                f"{size:,} {kind}", _QUERY, ["query", str(path), "-w", where, "-c", where[:2]], empty
            )


def _write_pages(pages: int, path: Path) -> None:
    ids = pa.table({"id": np.arange(pages * ROWS_PER_PAGE)})
    pq.write_table(ids, path, max_rows_per_page=ROWS_PER_PAGE, write_page_index=True)


def _write_row_groups(row_groups: int, path: Path) -> None:
    ids = pa.table({"id": np.arange(row_groups * ROWS_PER_PAGE)})
    pq.write_table(ids, path, row_group_size=ROWS_PER_PAGE)


def _write_columns(columns: int, path: Path) -> None:
    values = pa.array(np.arange(ROWS_PER_PAGE))
    pq.write_table(pa.table({f"c{ordinal}": values for ordinal in range(columns)}), path)
