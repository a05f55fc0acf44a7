"""The figures as text, as JSON, and as a page in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.spark.jobs import Job
from benchmarks.spark.measure import BARE, ENABLED, INDEXED, MODES, ONE_ROW, SAME_ROWS, Measured, Runs

_INTRODUCTION = """\
# Benchmarks of plain Spark SQL

Written by `make bench-spark`. Each section has its command, and says how busy the machine was when it ended.
A run replaces the sections that it measures.

Each query runs in one session in three modes, in turn: plain Spark on bare files (*bare*), plain Spark on
the same files with indexes (*indexed*), and on these after `ias.enable` (*enabled*). Each run has new values,
the same in all modes, and all modes return the same rows. A query returns three aggregates.

- *Time* is that of `collect()`, planning included, in milliseconds. *CPU* is the CPU time of the JVM, with
  its compilers, and of Python. On a machine that does other work, it is the better measure.
- *Bytes* is the number of bytes that Spark and the planner read, in a run without vectored reads, which
  Hadoop does not count. *Rows* is the number of rows that the scan returns, before Spark's own filter.
- Ratios are relative to plain Spark on bare files.
- *One row* is the same query in plain Spark on a table with one row, also relative to bare files. It is the
  minimum cost of a query in Spark, which compiles code for new values. Skipping cannot reduce it.
- *Aim* is the goal of this project for the ratios of *enabled*: at most this value. For the queries
  *nothing to skip* and *no condition*, the same goal applies to *indexed*. Not every query meets its goal.
"""

_RUN = """
`{command}`: {cpus} CPUs, load {load}, Python {python}, Spark {spark} with {threads} threads, medians of
{repetitions} runs.

"""

_JOBS = """\
Lineitem at scale factor 1 is written and sorted, and a copy of the bare lake is indexed. *CPU* is the CPU
time of the JVM and of all Python processes, verification included. *MB per CPU second* is the size of the
files that a job reads, per second of one core. Medians after one run that is not timed.
"""

_NAMES = {BARE: "bare", INDEXED: "indexed", ENABLED: "enabled", ONE_ROW: "one row"}
_COMPARED = (INDEXED, ENABLED, ONE_ROW)

_AMOUNTS, _TIMES, _RATIOS = (
    ("query", *(f"{figure} {_NAMES[mode]}" for figure in figures for mode in modes))
    for figures, modes in (
        (("bytes", "rows"), SAME_ROWS),
        (("time", "CPU"), MODES),
        (("time", "CPU"), _COMPARED),
    )
)


def median_cpu_ms(runs: Runs) -> float:
    return runs.median_cpu_ms


def document(found: Sequence[Measured], jobs: Sequence[Job], facts: dict[str, Any]) -> dict[str, Any]:
    """Return the figures for JSON."""
    return {
        **facts,
        "queries": [
            {
                "data": one.data.name,
                "query": one.query.name,
                "aim": one.query.aim,
                "modes": {
                    mode: {
                        "bytes": runs.bytes_read,
                        "rows": runs.scan_rows,
                        "ms": [round(value, 1) for value in runs.ms],
                        "cpu_ms": [round(value, 1) for value in runs.cpu_ms],
                        "ratio": round(one.ratio(mode), 3),
                        "cpu_ratio": round(one.ratio(mode, median_cpu_ms), 3),
                    }
                    for mode, runs in one.runs.items()
                },
            }
            for one in found
        ],
        "jobs": [
            {
                "job": job.name,
                "bytes": job.num_bytes,
                "seconds": [round(value, 2) for value in job.wall_s],
                "cpu_seconds": [round(value, 2) for value in job.cpu_s],
                "than": None if job.than is None else job.than.name,
                "cpu_ratio": None if job.ratio is None else round(job.ratio, 3),
                "aim": job.aim,
            }
            for job in jobs
        ],
    }


def line(one: Measured) -> str:
    """Return the figures of a query in a line of text."""
    cells = [f"{one.data.name + ': ' + one.query.name:<40}"]
    for mode in SAME_ROWS:
        runs = one.runs[mode]
        cells.append(
            f"{_size(runs.bytes_read):>9} {runs.scan_rows:>11,} rows {runs.median_ms:>7,.0f} ms "
            f"({runs.median_cpu_ms:,.0f} CPU)"
        )
    ratios = ", ".join(
        f"{name} {one.ratio(mode):.2f} ({one.ratio(mode, median_cpu_ms):.2f} CPU)"
        for name, mode in (("indexed/bare", INDEXED), ("enabled/bare", ENABLED), ("one row/bare", ONE_ROW))
    )
    return " | ".join([*cells, ratios + ("" if one.query.aim is None else f", aim {one.query.aim:g}")])


def job_line(job: Job) -> str:
    """Return the figures of a job in a line of text."""
    return "job: " + ", ".join(filter(None, _job(job)))


def write_page(found: Sequence[Measured], jobs: Sequence[Job], facts: dict[str, Any], path: Path) -> None:
    """Write the page.

    Args:
        found: The figures of the queries.
        jobs: The figures of the jobs.
        facts: The command, the versions and the machine.
        path: The path of the page.
    """
    run = _RUN.format(**facts)
    sections = _sections_of(path)
    for data in dict.fromkeys(one.data for one in found):
        ours = [one for one in found if one.data == data]
        sections[data.name] = "".join(
            (
                f"\n{data.about[0].upper()}{data.about[1:]}. `{', '.join(data.columns)}`.\n",
                run,
                _table((*_RATIOS, "aim"), [_ratios(one) for one in ours]),
                "\n" + _table(_AMOUNTS, [_amounts(one) for one in ours]),
                "\n" + _table(_TIMES, [_times(one) for one in ours]),
            )
        )
    if jobs:
        head = ("job", "time", "CPU", "MB per CPU second", "CPU ratio", "aim")
        sections["jobs"] = f"\n{_JOBS}{run}{_table(head, map(_job, jobs))}"
    if "jobs" in sections:  # the last one
        sections["jobs"] = sections.pop("jobs")
    text = "".join(f"\n## {name}\n{section}" for name, section in sections.items())
    path.write_text(_INTRODUCTION + text, encoding="utf-8")


def _sections_of(path: Path) -> dict[str, str]:
    """Return the sections of a page by name; none if it does not exist."""
    if not path.exists():
        return {}
    _, *found = path.read_text(encoding="utf-8").split("\n## ")
    return {name: text.rstrip("\n") + "\n" for name, _, text in (one.partition("\n") for one in found)}


def _job(job: Job) -> list[str]:
    ratio = "" if job.than is None else f"{job.ratio:.2f} of {job.than.name}"
    return [
        job.name,
        f"{statistics.median(job.wall_s):.1f} s",
        f"{job.median_cpu_s:.1f} s",
        f"{job.mb_per_cpu_s:,.0f} MB/s",
        ratio,
        "" if job.aim is None else f"{job.aim:g}",
    ]


def _ratios(one: Measured) -> list[str]:
    cells = [f"{one.ratio(mode):.2f}" for mode in _COMPARED]
    cells += [f"{one.ratio(mode, median_cpu_ms):.2f}" for mode in _COMPARED]
    return [one.query.name, *cells, "" if one.query.aim is None else f"{one.query.aim:g}"]


def _amounts(one: Measured) -> list[str]:
    runs = [one.runs[mode] for mode in SAME_ROWS]
    return [
        one.query.name,
        *(_size(each.bytes_read) for each in runs),
        *(f"{each.scan_rows:,}" for each in runs),
    ]


def _times(one: Measured) -> list[str]:
    runs = [one.runs[mode] for mode in MODES]
    return [
        one.query.name,
        *(f"{each.median_ms:,.0f}" for each in runs),
        *(f"{each.median_cpu_ms:,.0f}" for each in runs),
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(head), ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB" if num_bytes >= 1e5 else f"{num_bytes / 1e3:,.1f} kB"
