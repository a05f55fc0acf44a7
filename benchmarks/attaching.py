"""Time attaching indexes to a file, compared with rewriting the file with pyarrow."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia
from benchmarks.data import File
from intarsia.indexes.registry import find_index_class, known_kinds

REWRITE = "rewrite with pyarrow"

#: The indexes that most files need.
USUAL = "PageIndex, Bloom(id), Distinct(country)"

#: The column for each built-in kind. A sample has none.
_COLUMNS = {
    "bloom_granule": "user",
    "distinct": "country",
    "histogram": "amount",
    "hll": "user",
    "ngram": "note",
    "row_map": "user",
    "zone_map": "amount",
}

_SAMPLE_ROWS = 10_000


@dataclass
class Attaching:
    """One operation on a fresh copy of a file.

    Attributes:
        name: The name in the table.
        source: The file that is copied.
        indexes: The indexes to attach. If empty, the file is rewritten.
        wall: Seconds of each repetition.
        cpu: CPU seconds of all threads in each repetition.
        bytes_added: The growth of the file in bytes.
    """

    name: str
    source: File
    indexes: Sequence[Any] = ()
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    bytes_added: int = 0


def measure_attaching(
    full: File, bare: File, folder: Path, repetitions: int, progress: Callable[[str], None]
) -> list[Attaching]:
    """Time each kind alone, the usual indexes together, and the rewrite, alternating between them.

    Every run gets a fresh copy of the file, synced and in the page cache, and ends when the new file is
    synced.

    Args:
        full: A file with pyarrow's default options.
        bare: The same without statistics, for `Statistics`.
        folder: The folder for the copies.
        repetitions: Number of runs of each case.
        progress: Called with a description of each run.
    """
    cases = _cases(full, bare)
    copy = folder / "attaching.parquet"
    try:
        for case in cases:  # warm up imports and threads
            _write_small(copy)
            _run(case, copy)
        for turn in range(repetitions):
            for case in cases:
                progress(f"{case.name}, {turn + 1} of {repetitions}")
                shutil.copyfile(case.source.path, copy)
                _sync(copy)
                wall, cpu = time.perf_counter(), time.process_time()
                _run(case, copy)
                case.cpu.append(time.process_time() - cpu)
                case.wall.append(time.perf_counter() - wall)
                case.bytes_added = copy.stat().st_size - case.source.size_bytes
    finally:
        copy.unlink(missing_ok=True)
    return cases


def _cases(full: File, bare: File) -> list[Attaching]:
    page_index, bloom = ia.PageIndex(), ia.Bloom("id")
    cases = [
        Attaching(REWRITE, full),
        Attaching(USUAL, full, [page_index, bloom, ia.Distinct("country")]),
        Attaching("PageIndex", full, [page_index]),
        Attaching("Statistics", bare, [ia.Statistics()]),
        Attaching("Bloom(id)", full, [bloom]),
    ]
    for kind in known_kinds():
        if kind == "sample":
            cases.append(Attaching(f"Sample({_SAMPLE_ROWS:,})", full, [ia.Sample(_SAMPLE_ROWS)]))
        elif kind in _COLUMNS:
            cls, column = find_index_class(kind), _COLUMNS[kind]
            cases.append(Attaching(f"{cls.__name__}({column})", full, [cls(column)]))
    return cases


def _run(case: Attaching, path: Path) -> None:
    if case.indexes:
        ia.attach(path, case.indexes)
        return
    new = path.with_suffix(".new")
    pq.write_table(pq.read_table(path), new, write_page_index=True)
    _sync(new)
    new.replace(path)


def _write_small(path: Path) -> None:
    columns = {"id": [1], "user": [1], "amount": [1.0], "country": ["a"], "note": ["note 1"]}
    pq.write_table(pa.table(columns), path)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# --- output --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figures:
    """The results of a case: the minimum of all repetitions."""

    name: str
    seconds: float
    cpu_seconds: float
    seconds_per_million_rows: float
    of_rewrite: float
    cpu_of_rewrite: float
    bytes_added: int
    share_of_file: float
    repetitions: int


def figures(cases: list[Attaching], rows: int) -> list[Figures]:
    """Return the figures of each case, starting with the rewrite."""
    rewrite = next(case for case in cases if case.name == REWRITE)
    return [
        Figures(
            case.name,
            round(min(case.wall), 4),
            round(min(case.cpu), 4),
            round(min(case.wall) * 1e6 / rows, 4),
            round(min(case.wall) / min(rewrite.wall), 3),
            round(min(case.cpu) / min(rewrite.cpu), 3),
            case.bytes_added,
            round(case.bytes_added / case.source.size_bytes, 5),
            len(case.wall),
        )
        for case in cases
    ]


def attaching_document(cases: list[Attaching], rows: int) -> dict[str, Any]:
    """Return the figures for JSON."""
    full = cases[0].source
    return {"file_bytes": full.size_bytes, "cases": [asdict(found) for found in figures(cases, rows)]}


def print_attaching(cases: list[Attaching], rows: int) -> None:
    """Print the figures as a table."""
    full = cases[0].source
    print(f"\nAttaching to a fresh copy of {full.name} ({full.size_bytes / 1e6:.0f} MB, {full.about})")
    print(
        "Minimum of all repetitions, warm page cache, until the new file is synced. In parentheses: CPU time"
    )
    print("of all threads. of rewrite: relative to reading the table and writing it with a page index.")
    head = ("seconds", "(CPU)", "of rewrite", "(CPU)", "s/M rows", "MB added", "of file")
    print(f"  {'':<40}" + "".join(f"{title:>11}" for title in head))
    for found in figures(cases, rows):
        cells = [
            f"{found.seconds:.3f}",
            f"({found.cpu_seconds:.3f})",
            f"{found.of_rewrite:.2f}x",
            f"({found.cpu_of_rewrite:.2f}x)",
            f"{found.seconds_per_million_rows:.3f}",
            "" if found.name == REWRITE else f"{found.bytes_added / 1e6:.3f}",
            "" if found.name == REWRITE else f"{found.share_of_file:.2%}",
        ]
        print(f"  {found.name:<40}" + "".join(f"{cell:>11}" for cell in cells))
    print("  Statistics: on a file without statistics. Other kinds: one column, default parameters.")
