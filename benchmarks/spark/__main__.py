"""Measure plain Spark SQL on bare files, on indexed files and in an enabled session, and jobs that write."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import intarsia.spark as ias
from benchmarks.command import add_common_options, show_progress
from benchmarks.lake import FILES
from benchmarks.lineitem import MissingProgramError
from benchmarks.measure import DisagreementError
from benchmarks.spark.cases import Data, make_lake, make_lineitem, make_tuned
from benchmarks.spark.jobs import Job, measure_jobs
from benchmarks.spark.measure import Bench
from benchmarks.spark.page import document, job_line, line, write_page
from benchmarks.spark.tables import (
    MissingJarsError,
    make_delta,
    make_iceberg,
    make_objects,
    session_settings,
)
from intarsia.spark.sessions import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS = 2

#: The data by name; each function creates it, or reuses it.
_DATA: Mapping[str, Callable[[SparkSession, Path, int], list[Data]]] = {
    "lake": lambda _, folder, files: make_lake(folder, files),
    "lineitem": lambda _, folder, __: make_lineitem(folder),
    "tuned": lambda _, folder, __: make_tuned(folder),
    "s3a": make_objects,
    "delta": make_delta,
    "iceberg": make_iceberg,
}

_JOBS = "jobs"
_SECTIONS = (*_DATA, _JOBS)

#: Those that need neither jars nor another version of Spark.
_USUAL = ("lake", "lineitem", "tuned", _JOBS)

_EXAMPLES = """\
examples:
  python -m benchmarks.spark
  python -m benchmarks.spark lake --files 100 --repetitions 3
  python -m benchmarks.spark s3a
  PYTHONPATH=.venv/spark-4.2 python -m benchmarks.spark delta
  PYTHONPATH=.venv/spark-4.1 python -m benchmarks.spark iceberg
  make bench-spark ARGS='--page docs/benchmarks-spark.md'
"""


def main() -> int:
    options = _options()
    folder = Path(options.dir)
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        chosen = options.data or _USUAL
        try:
            settings = [session_settings(name, folder) for name in chosen]
        except MissingJarsError as error:
            print(error, file=sys.stderr)
            return 2
        more = {key: value for each in settings for key, value in each.items()}
        spark = local_session(scratch, name="intarsia benchmark", threads=THREADS, more=more)
        ias.enable(spark)
        bench = Bench(spark, Path(scratch), options.repetitions, show_progress)
        jobs: Sequence[Job] = ()
        try:
            for name in (name for name in chosen if name != _JOBS):
                show_progress(f"{name}: creating files in {folder}")
                for measured in bench.measure(_DATA[name](spark, folder, options.files)):
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
    parser.add_argument(
        "data", nargs="*", metavar="DATA", help=f"{', '.join(_SECTIONS)} (default: {' '.join(_USUAL)})"
    )
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
