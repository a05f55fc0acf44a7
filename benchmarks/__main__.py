"""Run all or some of the benchmarks, and print tables with ratios, or JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import growth, lake, lineitem, memory, object_store, planning, reading
from benchmarks.attaching import attaching_document, measure_attaching, print_attaching
from benchmarks.command import add_common_options, show_progress
from benchmarks.data import make_bare_file, make_files
from benchmarks.engines import ENGINES, installed, version
from benchmarks.extension import NATIVE
from benchmarks.measure import Case, DisagreementError, import_ms, measure
from benchmarks.page import write_page
from benchmarks.report import print_reading, reading_document
from intarsia.native import SWITCH

#: Benchmarks that time readers: a function that creates the cases, and the number of rows.
READING: dict[str, tuple[Callable[[Path, int, int], list[Case]], int]] = {
    "read": (reading.read_cases, 2_000_000),
    "lookup": (reading.lookup_cases, 10_000_000),
    "shares": (reading.share_cases, 10_000_000),
    "nested": (reading.nested_cases, 2_000_000),
    "totals": (reading.total_cases, 10_000_000),
    "checksums": (reading.checksum_cases, 2_000_000),
    "lineitem": (lineitem.lineitem_cases, lineitem.ROWS),
    "lake": (lake.lake_cases, lake.FILES * lake.ROWS_PER_FILE),
    "s3": (object_store.object_store_cases, lake.FILES * lake.ROWS_PER_FILE),
    "top": (lake.top_cases, lake.FILES * lake.ROWS_PER_FILE),
    "among": (lake.among_cases, lake.AMONG_FILES * lake.ROWS_PER_FILE),
}
MEMORY, ATTACH, PLAN, GROWTH = "memory", "attach", "plan", "growth"
BENCHMARKS = (*READING, MEMORY, ATTACH, PLAN, GROWTH)

ATTACH_ROWS = 2_000_000

#: Rows and timed runs with ``--small``.
SMALL_ROWS, SMALL_REPETITIONS = 40_000, 3

_BENCHMARKS_HELP = """\
benchmarks:
  read      point lookup, range of 10,000 rows and full scan of a file written in three ways
  lookup    point lookup and range of 10,000 rows in 10,000,000 rows with a page index
  shares    1%, 10% and all of the same rows, by a condition on an unsorted column
  nested    point lookup, range of 100 rows and 1% of the rows of lists
  totals    count and sum of 4,000,000 rows of the same file
  checksums point lookup, range and full scan of two files, one of them with a checksum in each page
  lineitem  l_partkey = k in TPC-H's lineitem, with and without a RowMap, and scattered rows
            (needs tpchgen-cli)
  lake      five queries on 1,000 files of 10,000 rows, without indexes, with indexes, with a lake index
  s3        two lookups in the same lake, with and without a lake index, on an S3 server with 20 ms of delay
            (needs moto; DuckDB needs httpfs)
  top       the 10 rows with the greatest values, in the same lake
  among     IN with 1,000 values on 200 files of 10,000 rows
  memory    memory that a result of 200 wide rows retains
  attach    time to attach each kind of index
  plan      time to plan a lookup in 10,000 files with a lake index
  growth    CPU time and peak memory of whole processes, to 10,000 files, 100,000 pages and 8,000 columns

examples:
  python -m benchmarks
  python -m benchmarks lookup totals --repetitions 21
  make bench ARGS='lake --engines intarsia,duckdb --json'
  make bench ARGS='--page docs/benchmarks.md'
  make bench ARGS=--small
"""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    chosen = options.benchmarks or list(BENCHMARKS)
    engines = options.engines.split(",")
    if NATIVE in engines:
        os.environ[SWITCH] = "off"  # the other process has the extension
    folder = Path(options.dir)
    document: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {engine: version(engine) for engine in engines},
        "import_ms": round(import_ms(min(5, options.repetitions)), 1),
    }
    if not options.json:
        print(f"{os.cpu_count()} CPUs, Python {platform.python_version()}", end="; ")
        print(", ".join(f"{engine} {version(engine)}" for engine in engines))
        print(f"from intarsia import open: {document['import_ms']:.0f} ms of CPU time, without pyarrow")
    try:
        for name in chosen:
            missing = _missing(name) if not options.benchmarks else None
            if missing is not None:
                print(f"\n{name} is skipped: it {missing}", file=sys.stderr)
            else:
                document[name] = _run(name, folder, engines, options)
    except DisagreementError as error:
        print(f"\nwrong result: {error}", file=sys.stderr)
        return 1
    except lineitem.MissingProgramError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(document, indent=2))
    if options.page:
        write_page(document, Path(options.page), f"python -m benchmarks {shlex.join(sys.argv[1:])}")
    return 0


def _missing(name: str) -> str | None:
    """Return what a benchmark needs and this environment lacks; None if it can run."""
    if name == "lineitem" and lineitem.find_program() is None:
        return lineitem.NEEDS
    if name == "s3" and find_spec("moto") is None:
        return object_store.NEEDS
    return None


def _run(name: str, folder: Path, engines: list[str], options: argparse.Namespace) -> Any:
    """Run one benchmark, print its results unless JSON was requested, and return them."""
    if not options.json:
        print(f"\n=== {name}")
    show_progress(f"{name}: creating files in {folder}")
    if name == MEMORY:
        results = memory.measure_memory(
            folder, min(options.rows or memory.ROWS, memory.ROWS), engines, show_progress
        )
        show_progress("")
        if not options.json:
            memory.print_memory(results)
        return memory.memory_document(results)
    if name == ATTACH:
        rows = options.rows or ATTACH_ROWS
        full = next(file for file in make_files(folder, rows) if file.name == "default")
        bare = make_bare_file(folder, rows)
        attaching = measure_attaching(full, bare, folder, max(2, options.repetitions // 2), show_progress)
        show_progress("")
        if not options.json:
            print_attaching(attaching, rows)
        return attaching_document(attaching, rows)
    if name == PLAN:
        files = (options.rows or planning.FILES * planning.ROWS_PER_FILE) // planning.ROWS_PER_FILE
        planned = planning.measure_planning(folder, max(1, files), options.repetitions, show_progress)
        show_progress("")
        if not options.json:
            planning.print_planning(planned)
        return planned
    if name == GROWTH:
        grown = growth.measure_growth(folder, options.rows, max(1, options.repetitions // 3), show_progress)
        show_progress("")
        if not options.json:
            growth.print_growth(grown)
        return growth.growth_document(grown)
    make_cases, rows = READING[name]
    cases = make_cases(folder, options.rows or rows, options.repetitions)
    measure(cases, engines, show_progress)
    show_progress("")
    if not options.json:
        print_reading(cases, engines)
    return reading_document(cases)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=_BENCHMARKS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "benchmarks", nargs="*", metavar="BENCHMARK", help="benchmarks to run, in this order (default: all)"
    )
    parser.add_argument("--rows", type=int, help="rows of each file or lake (default: differs by benchmark)")
    parser.add_argument(
        "--engines", default=",".join(installed()), help="readers, Intarsia first (default: %(default)s)"
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help=f"at most {SMALL_REPETITIONS} runs, and {SMALL_ROWS:,} rows unless --rows is given; for CI",
    )
    add_common_options(parser, 9, "docs/benchmarks.md")
    options = parser.parse_args(arguments)
    if options.small:
        options.rows = options.rows or SMALL_ROWS
        options.repetitions = min(options.repetitions, SMALL_REPETITIONS)
    if unknown := set(options.benchmarks) - set(BENCHMARKS):
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; use {', '.join(BENCHMARKS)}")
    engines = options.engines.split(",")
    if engines[0] != "intarsia" or set(engines) - set(ENGINES):
        parser.error(f"--engines must start with intarsia; others are {', '.join(list(ENGINES)[1:])}")
    return options


if __name__ == "__main__":
    sys.exit(main())
