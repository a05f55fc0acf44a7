"""Run the benchmarks, all or some of them, and print tables with ratios, or JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import lake, lineitem, memory
from benchmarks.attaching import attaching_document, measure_attaching, print_attaching
from benchmarks.data import make_bare_file, make_files
from benchmarks.engines import ENGINES, version
from benchmarks.measure import Case, DisagreementError, import_ms, measure
from benchmarks.reading import lookup_cases, read_cases, total_cases
from benchmarks.report import print_reading, reading_document

#: Those that time readers: what is asked of what, and of how many rows.
READING: dict[str, tuple[Callable[[Path, int, int], list[Case]], int]] = {
    "read": (read_cases, 2_000_000),
    "lookup": (lookup_cases, 10_000_000),
    "totals": (total_cases, 10_000_000),
    "lineitem": (lineitem.lineitem_cases, lineitem.ROWS),
    "lake": (lake.lake_cases, lake.FILES * lake.ROWS_PER_FILE),
}
MEMORY, ATTACH = "memory", "attach"
BENCHMARKS = (*READING, MEMORY, ATTACH)

ATTACH_ROWS = 2_000_000

_BENCHMARKS_HELP = """\
benchmarks:
  read      a file written in three ways: a point lookup, a range of 10,000 rows, everything
  lookup    a point lookup and a range in a file of 10,000,000 rows with a page index
  totals    the count and a sum over 4,000,000 of its rows
  lineitem  l_partkey = k in TPC-H's lineitem, with and without a RowMap (needs tpchgen-cli)
  lake      user = x in 1,000 files of 10,000 rows, with and without a Bloom filter
  memory    what a result of 200 wide rows keeps in memory
  attach    the time that it takes to attach each kind of index

examples:
  python -m benchmarks
  python -m benchmarks lookup totals --repetitions 21
  make bench ARGS='lake --engines intarsia,duckdb --json'
"""


def main() -> int:
    options = _options()
    chosen = options.benchmarks or list(BENCHMARKS)
    engines = options.engines.split(",")
    folder = Path(options.dir)
    document: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {engine: version(engine) for engine in engines},
        "import_ms": round(import_ms(), 1),
    }
    if not options.json:
        print(f"{os.cpu_count()} CPUs, Python {platform.python_version()}", end="; ")
        print(", ".join(f"{engine} {version(engine)}" for engine in engines))
        print(f"import intarsia: {document['import_ms']:.0f} ms of processor time beyond pyarrow.parquet")
    try:
        for name in chosen:
            if name == "lineitem" and lineitem.find_program() is None and not options.benchmarks:
                print(f"\n{name} is left out: it {lineitem.NEEDS}", file=sys.stderr)
            else:
                document[name] = _run(name, folder, engines, options)
    except DisagreementError as error:
        print(f"\nwrong answer: {error}", file=sys.stderr)
        return 1
    except lineitem.MissingProgramError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(document, indent=2))
    return 0


def _run(name: str, folder: Path, engines: list[str], options: argparse.Namespace) -> Any:
    """Run one benchmark; show what it found, unless JSON is wanted of all."""
    if not options.json:
        print(f"\n=== {name}")
    _tell(f"{name}: making files in {folder}")
    if name == MEMORY:
        results = memory.measure_memory(folder, min(options.rows or memory.ROWS, memory.ROWS), engines, _tell)
        _tell("")
        if not options.json:
            memory.print_memory(results)
        return memory.memory_document(results)
    if name == ATTACH:
        rows = options.rows or ATTACH_ROWS
        full = next(file for file in make_files(folder, rows) if file.name == "default")
        bare = make_bare_file(folder, rows)
        attaching = measure_attaching(full, bare, folder, max(2, options.repetitions // 2), _tell)
        _tell("")
        if not options.json:
            print_attaching(attaching, rows)
        return attaching_document(attaching, rows)
    make_cases, rows = READING[name]
    cases = make_cases(folder, options.rows or rows, options.repetitions)
    measure(cases, engines, _tell)
    _tell("")
    if not options.json:
        print_reading(cases, engines)
    return reading_document(cases)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=_BENCHMARKS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK", help="which, in this order (all)")
    parser.add_argument(
        "--rows", type=int, help="rows of each file or lake (as many as each has its name for)"
    )
    parser.add_argument("--repetitions", type=int, default=9, help="of each question (%(default)s)")
    parser.add_argument("--engines", default=",".join(ENGINES), help="which readers (%(default)s)")
    folder = os.path.join(tempfile.gettempdir(), "intarsia-benchmarks")
    parser.add_argument("--dir", default=folder, help="where the files are kept (%(default)s)")
    parser.add_argument("--json", action="store_true", help="JSON on stdout")
    options = parser.parse_args()
    if unknown := set(options.benchmarks) - set(BENCHMARKS):
        parser.error(
            f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}"
        )
    engines = options.engines.split(",")
    if engines[0] != "intarsia" or set(engines) - set(ENGINES):
        parser.error(f"--engines begins with intarsia; others are {', '.join(list(ENGINES)[1:])}")
    return options


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
