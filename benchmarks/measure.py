"""Time the readers side by side, and check that they answer the same."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from benchmarks.data import File
from benchmarks.engines import ENGINES, Intarsia, Question

RANGE_ROWS = 10_000


@dataclass
class Timing:
    """Seconds that one reader took, with a new object each time, and with the same once more."""

    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)

    def median_ms(self) -> tuple[float, float]:
        return statistics.median(self.cold) * 1000, statistics.median(self.warm) * 1000


@dataclass
class Case:
    """One kind of question, asked of one file.

    Attributes:
        name: What it is called in the tables.
        file: The file.
        rows: Rows of each answer.
        timings: By reader.
        bytes_read: What Intarsia read for the last answer; and in how many requests.
    """

    name: str
    file: File
    rows: int = 0
    timings: dict[str, Timing] = field(default_factory=dict)
    bytes_read: int = 0
    requests: int = 0


def import_ms(repetitions: int = 5) -> float:
    """Processor time of ``import intarsia`` where pyarrow.parquet is loaded already: the least of a few."""
    program = (
        "import time, numpy, pyarrow.parquet; start = time.process_time(); import intarsia;"
        "print(time.process_time() - start)"
    )
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, check=True, text=True) for _ in range(repetitions)]
    return min(float(run.stdout) for run in runs) * 1000


class DisagreementError(Exception):
    """Two readers gave different answers."""


def measure(
    files: list[File], rows: int, repetitions: int, engines: list[str], tell: Callable[[str], None]
) -> list[Case]:
    """Ask every reader every question, in turns, so that what else the machine does hits all alike."""
    cases = []
    for engine in engines:  # imports and threads' first start are nobody's query
        ENGINES[engine](files[0].path).ask(Question(0, 1))
    for file in files:
        for name, questions in _questions(rows, repetitions):
            tell(f"{name}, {file.name}")
            case = Case(name, file, timings={engine: Timing() for engine in engines})
            for turn, question in enumerate(questions):
                _take_turns(
                    case, question, [*engines[turn % len(engines) :], *engines[: turn % len(engines)]]
                )
            cases.append(case)
    return cases


def _questions(rows: int, repetitions: int) -> Iterator[tuple[str, list[Question]]]:
    """Other ids in each repetition, the same for all readers; a full scan is repeated less."""
    random = np.random.default_rng(7)
    points = random.integers(0, rows, repetitions).tolist()
    yield "point lookup", [Question(start, start + 1) for start in points]
    length = min(RANGE_ROWS, rows)
    starts = random.integers(0, rows - length + 1, repetitions).tolist()
    yield f"range of {length:,}", [Question(start, start + length) for start in starts]
    yield "full scan", [Question()] * max(2, repetitions // 4)


def _take_turns(case: Case, question: Question, engines: list[str]) -> None:
    expected: pa.Table | None = None
    for name in engines:
        timing = case.timings[name]
        gc.collect()
        started = time.perf_counter()
        opened = ENGINES[name](case.file.path)
        answer = opened.ask(question)
        timing.cold.append(time.perf_counter() - started)
        found = opened.to_arrow(answer)
        del answer
        if expected is None:
            expected = found
            case.rows = found.num_rows
        elif not same_rows(expected, found):
            raise DisagreementError(f"{name} and {engines[0]} differ on {question} of {case.file.path}")
        del found
        gc.collect()
        started = time.perf_counter()
        answer = opened.ask(question)
        timing.warm.append(time.perf_counter() - started)
        if isinstance(opened, Intarsia):
            case.bytes_read, case.requests = opened.report.bytes_read, opened.report.requests
        del opened, answer


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether two answers have the same rows, by whatever types and in whatever order."""
    if one.column_names != other.column_names or one.num_rows != other.num_rows:
        return False
    other = other.cast(one.schema)
    if not other["id"].equals(one["id"]):
        one, other = one.sort_by("id"), other.sort_by("id")
    return one.equals(other)
