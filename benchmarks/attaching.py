"""Time what it costs to add indexes to a file, beside rewriting it with pyarrow."""

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

#: What most files want.
USUAL = "PageIndex, Bloom(id), Distinct(country)"

#: The column that each built-in kind is for; a sample has none.
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
    """One thing that is done to a fresh copy of a file.

    Attributes:
        name: What it is called in the table.
        source: The file that is copied.
        indexes: What is attached; none: the file is rewritten.
        wall: Seconds of each repetition.
        cpu: Processor seconds of each repetition, of all threads.
        bytes_added: What the file grew by.
    """

    name: str
    source: File
    indexes: Sequence[Any] = ()
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    bytes_added: int = 0


def measure_attaching(
    full: File, bare: File, folder: Path, repetitions: int, tell: Callable[[str], None]
) -> list[Attaching]:
    """Time every kind alone, the usual ones together, and the rewrite, in turns.

    Every run has a fresh copy that is on the disk and in the page cache, and ends when the new file is.

    Args:
        full: A file by pyarrow's defaults.
        bare: The same without statistics, since `Statistics` has nothing to do on the other.
        folder: Where copies are made.
        repetitions: How often.
        tell: Told what is being done.
    """
    cases = _cases(full, bare)
    copy = folder / "attaching.parquet"
    try:
        for case in cases:  # imports and threads' first start are nobody's index
            _write_small(copy)
            _run(case, copy)
        for turn in range(repetitions):
            for case in cases:
                tell(f"{case.name}, {turn + 1} of {repetitions}")
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


# --- showing -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figures:
    """What a case comes to: the least of all repetitions."""

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
    """The figures of each case, the rewrite's first."""
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
    """The figures for JSON."""
    full = cases[0].source
    return {"file_bytes": full.size_bytes, "cases": [asdict(found) for found in figures(cases, rows)]}


def print_attaching(cases: list[Attaching], rows: int) -> None:
    """The figures as a table."""
    full = cases[0].source
    print(f"\nAttaching to a fresh copy of {full.name} ({full.size_bytes / 1e6:.0f} MB, {full.about})")
    print("Least of all repetitions, page cache warm, until the new file is synced; in brackets: processor")
    print("seconds of all threads, and times those of reading the table and writing it with a page index.")
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
    print("  Statistics is measured on a file without; one column each, by the kinds' default parameters.")
