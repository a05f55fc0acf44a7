"""Measure plain Spark SQL on bare files, on indexed files and in an enabled session, and jobs that write."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import intarsia.spark as ias
from benchmarks.command import add_common_options, show_progress
from benchmarks.lake import FILES
from benchmarks.lineitem import MissingProgramError
from benchmarks.measure import DisagreementError
from benchmarks.spark.cases import DATA
from benchmarks.spark.jobs import Job, measure_jobs
from benchmarks.spark.measure import Bench
from benchmarks.spark.page import document, job_line, line, write_page
from intarsia.spark.sessions import local_session

THREADS = 2

_JOBS = "jobs"
_SECTIONS = (*DATA, _JOBS)

_EXAMPLES = """\
examples:
  python -m benchmarks.spark
  python -m benchmarks.spark lake --files 100 --repetitions 3
  make bench-spark ARGS='--page docs/benchmarks-spark.md'
"""


def main() -> int:
    options = _options()
    folder = Path(options.dir)
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        spark = local_session(scratch, name="intarsia benchmark", threads=THREADS)
        ias.enable(spark)
        bench = Bench(spark, Path(scratch), options.repetitions, show_progress)
        chosen = options.data or _SECTIONS
        jobs: Sequence[Job] = ()
        try:
            for name in (name for name in chosen if name != _JOBS):
                show_progress(f"{name}: creating files in {folder}")
                for measured in bench.measure(DATA[name](folder, options.files)):
                    found.append(measured)
                    show_progress("")
                    if not options.json:
                        print(line(measured), flush=True)
            if _JOBS in chosen:
                jobs = measure_jobs(spark, folder, options.files, 1.0, options.repetitions, show_progress)
                show_progress("")
                if not options.json:
                    print(*map(job_line, jobs), sep="\n")
        except DisagreementError as error:
            print(f"\nwrong result: {error}", file=sys.stderr)
            return 1
        except MissingProgramError as error:
            print(error, file=sys.stderr)
            return 2
        finally:
            version = spark.version
            spark.stop()
    facts = {
        "command": f"python -m benchmarks.spark {shlex.join(sys.argv[1:])}".rstrip(),
        "cpus": os.cpu_count(),
        "load": f"{os.getloadavg()[1]:.1f}",
        "python": platform.python_version(),
        "spark": version,
        "threads": THREADS,
        "repetitions": options.repetitions,
    }
    if options.json:
        print(json.dumps(document(found, jobs, facts), indent=2))
    if options.page:
        write_page(found, jobs, facts, Path(options.page))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", nargs="*", metavar="DATA", help=f"{', '.join(_SECTIONS)} (default: all)")
    parser.add_argument(
        "--files", type=int, default=FILES, help="files of the lake, 10,000 rows each (default: %(default)s)"
    )
    add_common_options(parser, 5, "docs/benchmarks-spark.md")
    options = parser.parse_args()
    if unknown := set(options.data) - set(_SECTIONS):
        parser.error(f"unknown data {', '.join(sorted(unknown))}; use {', '.join(_SECTIONS)}")
    if options.repetitions < 1 or options.files < 2:
        parser.error("at least one repetition and two files are needed")
    return options


if __name__ == "__main__":
    sys.exit(main())
