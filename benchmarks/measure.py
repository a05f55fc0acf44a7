"""Time the readers side by side, and check that they answer the same."""

from __future__ import annotations

import gc
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from benchmarks.data import File
from benchmarks.engines import ENGINES, Intarsia, Opened
from benchmarks.questions import Question


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
        file: The file, or the folder.
        questions: One for each repetition, the same for all readers.
        rows: Rows of each answer.
        timings: By reader, of those that can answer.
        failures: By reader, why it cannot.
        bytes_read: What Intarsia read for the last answer; and in how many requests.
    """

    name: str
    file: File
    questions: Sequence[Question]
    rows: int = 0
    timings: dict[str, Timing] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    bytes_read: int = 0
    requests: int = 0

    def ratios(self, peers: Sequence[str]) -> tuple[float, float] | None:
        """Intarsia's time, cold and warm, of the best of some readers'; None if none of them answers."""
        best = [self.timings[name].median_ms() for name in peers if name in self.timings]
        if not best:
            return None
        cold, warm = self.timings["intarsia"].median_ms()
        return cold / min(ms for ms, _ in best), warm / min(ms for _, ms in best)


class DisagreementError(Exception):
    """Two readers gave different answers."""


def import_ms(repetitions: int = 5) -> float:
    """Processor time of ``import intarsia`` where pyarrow.parquet is loaded already: the least of a few."""
    program = (
        "import time, numpy, pyarrow.parquet; start = time.process_time(); import intarsia;"
        "print(time.process_time() - start)"
    )
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, check=True, text=True) for _ in range(repetitions)]
    return min(float(run.stdout) for run in runs) * 1000


def measure(cases: Sequence[Case], engines: Sequence[str], tell: Callable[[str], None]) -> None:
    """Ask every reader every question, in turns, so that what else the machine does hits all alike."""
    for case in cases:
        tell(f"{case.name}, {case.file.name}")
        # imports, threads' first start and the page cache are nobody's query
        able = [engine for engine in engines if _answers(engine, case)]
        case.timings = {engine: Timing() for engine in able}
        for turn, question in enumerate(case.questions):
            first = turn % len(able)
            _take_turns(case, question, able[first:] + able[:first])


def _answers(engine: str, case: Case) -> bool:
    try:
        ENGINES[engine](case.file.path).ask(case.questions[0])
    except Exception as error:
        if engine == "intarsia":
            raise
        case.failures[engine] = f"{type(error).__name__}: {error}".splitlines()[0]
        return False
    return True


def _take_turns(case: Case, question: Question, engines: list[str]) -> None:
    expected: Any = None
    for name in engines:
        timing = case.timings[name]
        gc.collect()
        started = time.perf_counter()
        opened = ENGINES[name](case.file.path)
        answer = opened.ask(question)
        timing.cold.append(time.perf_counter() - started)
        found = _comparable(opened, question, answer)
        del answer
        if expected is None:
            expected = found
            case.rows = found.num_rows if isinstance(found, pa.Table) else 1
        elif not same_answer(expected, found):
            raise DisagreementError(f"{name} and {engines[0]} differ on {question} of {case.file.path}")
        del found
        gc.collect()
        started = time.perf_counter()
        answer = opened.ask(question)
        timing.warm.append(time.perf_counter() - started)
        if isinstance(opened, Intarsia):
            case.bytes_read, case.requests = opened.report.bytes_read, opened.report.requests
        del opened, answer


def _comparable(opened: Opened, question: Question, answer: Any) -> Any:
    return answer if question.total is not None else opened.to_arrow(answer)


def same_answer(one: Any, other: Any) -> bool:
    """Whether two answers have the same rows, by whatever types and in whatever order, or the same total."""
    if not isinstance(one, pa.Table):
        return math.isclose(one, other, rel_tol=1e-9)
    if one.column_names != other.column_names or one.num_rows != other.num_rows:
        return False
    other = other.cast(one.schema)
    if one.equals(other):
        return True
    order = [(name, "ascending") for name in one.column_names]
    return one.sort_by(order).equals(other.sort_by(order))
