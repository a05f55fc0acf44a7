"""Run the benchmarks, and print a table with ratios, or JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.attaching import Attaching, attaching_document, measure_attaching, print_attaching
from benchmarks.data import make_bare_file, make_files
from benchmarks.engines import ENGINES, version
from benchmarks.measure import Case, DisagreementError, import_ms, measure

DEFAULT_ROWS = 2_000_000
FULL_ROWS = 10_000_000


def main() -> int:
    options = _options()
    engines = options.engines.split(",")
    unknown = [name for name in engines if name not in ENGINES]
    if unknown or engines[0] != "intarsia":
        print(f"--engines begins with intarsia; others are {', '.join(list(ENGINES)[1:])}", file=sys.stderr)
        return 2
    rows = FULL_ROWS if options.full else options.rows
    folder = Path(options.dir)
    _tell(f"making files of {rows:,} rows in {folder}")
    files = make_files(folder, rows)
    cases: list[Case] = []
    attaching: list[Attaching] = []
    if options.only in (None, "read"):
        try:
            cases = measure(files, rows, options.repetitions, engines, _tell)
        except DisagreementError as error:
            print(f"\nwrong answer: {error}", file=sys.stderr)
            return 1
    if options.only in (None, "attach"):
        full = next(file for file in files if file.name == "default")
        bare = make_bare_file(folder, rows)
        attaching = measure_attaching(full, bare, folder, max(2, options.repetitions // 2), _tell)
    _tell("")
    if options.json:
        print(json.dumps(_document(cases, attaching, rows, engines), indent=2))
        return 0
    print(f"{rows:,} rows x 7 columns; {os.cpu_count()} CPUs, Python {platform.python_version()}", end="; ")
    print(", ".join(f"{engine} {version(engine)}" for engine in engines))
    if cases:
        _print(cases, engines)
    if attaching:
        print_attaching(attaching, rows)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=DEFAULT_ROWS, help="rows of each file (%(default)s)")
    parser.add_argument("--full", action="store_true", help=f"{FULL_ROWS:,} rows")
    parser.add_argument("--repetitions", type=int, default=9, help="of each question (%(default)s)")
    parser.add_argument("--engines", default=",".join(ENGINES), help="which readers (%(default)s)")
    folder = os.path.join(tempfile.gettempdir(), "intarsia-benchmarks")
    parser.add_argument("--dir", default=folder, help="where the files are kept (%(default)s)")
    parser.add_argument("--only", choices=("read", "attach"), help="one half: reading, or attaching indexes")
    parser.add_argument("--json", action="store_true", help="JSON on stdout")
    return parser.parse_args()


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()


def _document(cases: list[Case], attaching: list[Attaching], rows: int, engines: list[str]) -> dict[str, Any]:
    out = []
    for case in cases:
        medians = {engine: timing.median_ms() for engine, timing in case.timings.items()}
        base = medians["intarsia"]
        out.append(
            {
                "file": case.file.name,
                "file_bytes": case.file.size_bytes,
                "question": case.name,
                "rows": case.rows,
                "intarsia_bytes_read": case.bytes_read,
                "intarsia_requests": case.requests,
                "ms": {
                    engine: {
                        "cold": round(cold, 3),
                        "warm": round(warm, 3),
                        "cold_ratio": round(cold / base[0], 3),
                        "warm_ratio": round(warm / base[1], 3),
                        "repetitions": len(case.timings[engine].cold),
                    }
                    for engine, (cold, warm) in medians.items()
                },
            }
        )
    return {
        "rows": rows,
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {engine: version(engine) for engine in engines},
        "import_ms": round(import_ms(), 1),
        "cases": out,
        "attaching": attaching_document(attaching, rows) if attaching else None,
    }


def _print(cases: list[Case], engines: list[str]) -> None:
    print("Median ms with a new object (cold), and with it once more (warm); in brackets: times Intarsia's.")
    print("All columns of the rows are read. Every answer was compared with the others': they agree.")
    file = None
    for case in cases:
        if case.file != file:
            file = case.file
            print(f"\n{file.name}: {file.size_bytes / 1e6:.0f} MB, {file.about}")
            print(f"{'':<22}" + "".join(f"{engine:>17}" for engine in engines))
        base = case.timings["intarsia"].median_ms()
        for place, label in enumerate(("cold", "warm")):
            cells = [_cell(case.timings[engine].median_ms()[place], base[place]) for engine in engines]
            line = f"  {case.name if label == 'cold' else '':<15} {label}" + "".join(
                f"{cell:>17}" for cell in cells
            )
            print(line)
        print(f"  {'':<16}(Intarsia read {case.bytes_read / 1e6:.2f} MB in {case.requests} requests)")
    print(f"\nimport intarsia: {import_ms():.0f} ms of processor time beyond pyarrow.parquet")


def _cell(ms: float, base: float) -> str:
    shown = f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"
    ratio = ms / base
    return f"{shown} ({ratio:.0f}x)" if ratio >= 9.95 else f"{shown} ({ratio:.1f}x)"


if __name__ == "__main__":
    sys.exit(main())
