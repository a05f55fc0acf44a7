"""One file of seven columns: lookups, ranges, totals, and reading everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.data import make_files, make_tuned_file, make_zoned_file
from benchmarks.measure import Case
from benchmarks.questions import Question

RANGE_ROWS = 10_000


def read_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Three questions of the same rows, as three files have them."""
    return [
        Case(name, file, questions)
        for file in make_files(folder, rows)
        for name, questions in (
            ("point lookup", list(_ranges(rows, 1, repetitions))),
            (f"range of {RANGE_ROWS:,}", list(_ranges(rows, RANGE_ROWS, repetitions))),
            ("full scan", [Question()] * max(2, repetitions // 4)),
        )
    ]


def lookup_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Few rows of a large file with a page index."""
    file = make_tuned_file(folder, rows)
    return [
        Case("point lookup", file, list(_ranges(rows, 1, repetitions))),
        Case(f"range of {RANGE_ROWS:,}", file, list(_ranges(rows, RANGE_ROWS, repetitions))),
    ]


def total_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Two totals of two fifths of a large file, and the sum with a zone map, too."""
    tuned, zoned = make_tuned_file(folder, rows), make_zoned_file(folder, rows)
    length = rows * 2 // 5
    return [
        Case(f"{name} of {length:,}", file, list(_ranges(rows, length, repetitions, total)))
        for file, name, total in ((tuned, "count", "*"), (tuned, "sum", "amount"), (zoned, "sum", "amount"))
    ]


def _ranges(rows: int, length: int, repetitions: int, total: str | None = None) -> Iterator[Question]:
    """Other ids in each repetition, the same for all readers."""
    random = np.random.default_rng(7)
    length = min(length, rows)
    for start in random.integers(0, rows - length + 1, repetitions).tolist():
        yield Question("id", start, start + length, total=total)
