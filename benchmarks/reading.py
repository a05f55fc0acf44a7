"""One file of seven columns: point lookups, ranges, aggregates and full scans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.data import (
    QUANTITIES,
    File,
    make_checked_file,
    make_files,
    make_nested_file,
    make_tuned_file,
    make_zoned_file,
)
from benchmarks.measure import Case
from benchmarks.queries import Query

RANGE_ROWS = 10_000


def read_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Run three queries on three files with the same rows."""
    return _three_queries(make_files(folder, rows), rows, repetitions)


def checksum_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Run the same queries on a file without checksums, and on one with a checksum in each page."""
    return _three_queries([make_tuned_file(folder, rows), make_checked_file(folder, rows)], rows, repetitions)


def _three_queries(files: Sequence[File], rows: int, repetitions: int) -> list[Case]:
    return [
        Case(name, file, queries)
        for file in files
        for name, queries in (
            ("point lookup", list(_ranges(rows, 1, repetitions))),
            (f"range of {RANGE_ROWS:,}", list(_ranges(rows, RANGE_ROWS, repetitions))),
            ("full scan", [Query()] * max(2, repetitions // 4)),
        )
    ]


def lookup_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Read few rows of a large file with a page index."""
    file = make_tuned_file(folder, rows)
    return [
        Case("point lookup", file, list(_ranges(rows, 1, repetitions))),
        Case(f"range of {RANGE_ROWS:,}", file, list(_ranges(rows, RANGE_ROWS, repetitions))),
    ]


def share_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Read two columns of the rows that match a condition on a column that is not sorted."""
    file = make_tuned_file(folder, rows)
    random = np.random.default_rng(9)

    def queries(length: int, count: int) -> list[Query]:
        starts = random.integers(0, QUANTITIES - length + 1, count).tolist()
        return [Query("quantity", start, start + length, ("id", "amount")) for start in starts]

    return [
        Case("1% of the rows", file, queries(QUANTITIES // 100, repetitions)),
        Case("10% of the rows", file, queries(QUANTITIES // 10, repetitions)),
        Case("all rows", file, queries(QUANTITIES, max(2, repetitions // 4))),
    ]


def nested_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Read few rows of lists."""
    file, columns = make_nested_file(folder, rows), ("id", "tags", "points")
    random = np.random.default_rng(9)
    starts = random.integers(0, QUANTITIES, repetitions).tolist()
    return [
        Case("point lookup", file, list(_ranges(rows, 1, repetitions))),
        Case("range of 100", file, list(_ranges(rows, 100, repetitions))),
        Case("1% of the rows", file, [Query("quantity", start, start + 1, columns) for start in starts]),
    ]


def total_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Count and sum two fifths of a large file, and sum it again with a zone map."""
    tuned, zoned = make_tuned_file(folder, rows), make_zoned_file(folder, rows)
    length = rows * 2 // 5
    return [
        Case(f"{name} of {length:,}", file, list(_ranges(rows, length, repetitions, total)))
        for file, name, total in ((tuned, "count", "*"), (tuned, "sum", "amount"), (zoned, "sum", "amount"))
    ]


def _ranges(rows: int, length: int, repetitions: int, total: str | None = None) -> Iterator[Query]:
    """Yield random ranges of ids, the same for all readers."""
    random = np.random.default_rng(7)
    length = min(length, rows)
    for start in random.integers(0, rows - length + 1, repetitions).tolist():
        yield Query("id", start, start + length, total=total)
