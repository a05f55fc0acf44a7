"""What a scan read and what it skipped: counted per file, added up in one report."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intarsia.errors import IntarsiaWarning
from intarsia.file import ChunkKey, Ignored, ParquetInput
from intarsia.format.footer import Leaf
from intarsia.read.counts import PageCounts, ReadCounts
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.read.prune import PruneStep
from intarsia.storage import IoCounts


@dataclass(frozen=True)
class FileOutcome:
    """What a query to one file took.

    Attributes:
        plan: What its indexes said.
        counts: What was read in addition, and how many rows match.
        answered: What indexes answered, so that it was not read.
        rows_estimated: About how many rows match; None if no index of the file can tell.
    """

    plan: FilePlan
    counts: ReadCounts = field(default_factory=ReadCounts)
    answered: tuple[PruneStep, ...] = ()
    rows_estimated: float | None = None


@dataclass
class PrunedBy:
    """What one index, asked about one column, excluded: whole files, whole row groups, pages, rows."""

    index: str
    column: str
    files: int = 0
    row_groups: int = 0
    pages: int = 0
    rows: int = 0

    def __str__(self) -> str:
        pages, groups = f"{self.pages:,} pages", f"{self.row_groups:,} row groups"
        return f"{self.rows:,} rows, {pages}, {groups}, {self.files:,} files by {self.index} of {self.column}"


@dataclass
class ScanReport:
    """What a scan, or the plan of one, reads and skips, and why.

    Totals of row groups, pages and rows are those of the files whose footers were read: a file that its
    partition values exclude is never opened. A page total is None where a file does not tell how many pages
    it has. ``rows_estimated`` is about how many rows match, estimated by indexes: in a plan only, and None if
    some file has no such index. ``bytes_planned`` is what a scan would read in addition to the plan; None in
    a scan's own report.

    ``answered_by`` is what an aggregate took from indexes: rows that match and were not read, and the pages
    of the column that a scan would have read for them.

    ``files_other`` is the number of files in the table's folders that are not Parquet and were left alone;
    ``files_total`` does not contain them.

    ``str()`` gives a few lines for people.

    Example:
        >>> print(ScanReport(files_total=2, files_opened=1, rows_total=100, bytes_total=4096))
        files       0 of 2 read, 1 not even opened
        row groups  0 of 0 read
        pages       0 of 0 read
        rows        0 of 100 might match, 0 do
        bytes       0 of 4,096 read, by 0 requests
    """

    files_total: int = 0
    files_other: int = 0
    files_opened: int = 0
    files_read: int = 0
    row_groups_total: int = 0
    row_groups_read: int = 0
    pages: dict[str, PageCounts] = field(default_factory=dict)
    dictionary_pages_read: int = 0
    rows_total: int = 0
    rows_candidate: int = 0
    rows_estimated: float | None = None
    rows_matched: int | None = 0
    bytes_total: int = 0
    bytes_read: int = 0
    bytes_index: int = 0
    bytes_planned: int | None = None
    requests: int = 0
    pruned_by: dict[tuple[str, str], PrunedBy] = field(default_factory=dict)
    answered_by: dict[tuple[str, str], PrunedBy] = field(default_factory=dict)
    ignored: list[Ignored] = field(default_factory=list)
    seconds: float = 0.0

    def add_time(self, started: float) -> None:
        """Count the seconds since `time.perf_counter` was ``started``."""
        self.seconds += time.perf_counter() - started

    def add_reads(self, counts: IoCounts) -> None:
        """Count what was read of a file before it was asked."""
        self.bytes_read += counts.bytes
        self.requests += counts.requests

    def add_unplanned(self, path: str, error: BaseException) -> None:
        """Count a file that could not be planned and has to be read whole."""
        self.files_read += 1
        self.ignored.append(Ignored(path, "all", f"{type(error).__name__}: {error}"))

    def add_unopened(self, size_bytes: int, column: str) -> None:
        """Count a file that its partition values exclude."""
        self.bytes_total += size_bytes
        _entry(self.pruned_by, "partition", column).files += 1

    def add_file(self, query: FileQuery, outcome: FileOutcome) -> None:
        """Count a file whose footer was read.

        Args:
            query: The query to it.
            outcome: What that took.
        """
        with query.file.named_errors():
            self._add_file(query, outcome)

    def _add_file(self, query: FileQuery, outcome: FileOutcome) -> None:
        plan, counts, file = outcome.plan, outcome.counts, query.file
        self.files_opened += 1
        self.files_read += counts.row_groups > 0
        self.row_groups_total += query.num_row_groups
        self.row_groups_read += counts.row_groups
        for name, total in query.total_pages().items():
            self.pages.setdefault(name, PageCounts()).add(PageCounts(total, counts.pages.get(name, 0)))
        self.dictionary_pages_read += counts.dictionary_pages
        self.rows_total += file.footer.num_rows
        self.rows_candidate += counts.rows_candidate
        if outcome.rows_estimated is None or self.rows_estimated is None:
            self.rows_estimated = None
        else:
            self.rows_estimated += outcome.rows_estimated
        if self.rows_matched is not None:
            self.rows_matched += counts.rows_matched
        self.bytes_total += file.source.size()
        self.bytes_read += file.source.counts.bytes
        self.bytes_index += plan.index_bytes + counts.index_bytes
        if self.bytes_planned is not None:
            self.bytes_planned += counts.planned_bytes
        self.requests += file.source.counts.requests
        for step in plan.steps:
            _add_step(_entry(self.pruned_by, step.index, step.column), file, query.leaves, step)
        for step in outcome.answered:
            own = [leaf for leaf in query.leaves if leaf.name == step.column]
            _add_step(_entry(self.answered_by, step.index, step.column), file, own, step)
        self.ignored += [note for note in file.ignored if note not in self.ignored]

    def __str__(self) -> str:
        total, read = self._pages_total, self._pages_read
        unopened = self.files_total - self.files_opened
        skipped = f", {unopened:,} not even opened" if unopened else ""
        others = f"; {self.files_other:,} others in the folders are not Parquet" if self.files_other else ""
        estimated = "" if self.rows_estimated is None else f", about {self.rows_estimated:,.0f} by estimate"
        matched = "" if self.rows_matched is None else f", {self.rows_matched:,} do"
        index = f", {self.bytes_index:,} of them indexes" if self.bytes_index else ""
        planned = "" if self.bytes_planned is None else f", at most {self.bytes_planned:,} planned"
        requests = f", by {self.requests:,} requests"
        lines = [
            f"files       {self.files_read:,} of {self.files_total:,} read{skipped}{others}",
            f"row groups  {self.row_groups_read:,} of {self.row_groups_total:,} read",
            f"pages       {read:,} of {'an unknown number' if total is None else f'{total:,}'} read",
            f"rows        {self.rows_candidate:,} of {self.rows_total:,} might match{estimated}{matched}",
            f"bytes       {self.bytes_read:,} of {self.bytes_total:,} read{index}{planned}{requests}",
        ]
        lines += [f"excluded    {entry}" for entry in self.pruned_by.values()]
        lines += [f"answered    {entry}" for entry in self.answered_by.values()]
        lines += [f"ignored     {note.file}: {note.index}: {note.reason}" for note in self.ignored]
        return "\n".join(lines)

    @property
    def _pages_read(self) -> int:
        return sum(counts.read for counts in self.pages.values())

    @property
    def _pages_total(self) -> int | None:
        totals = [counts.total for counts in self.pages.values()]
        return None if None in totals else sum(total or 0 for total in totals)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON holds it; the keys are fixed, more may be added."""
        return {
            "files": {
                "total": self.files_total,
                "read": self.files_read,
                "opened": self.files_opened,
                "other": self.files_other,
            },
            "row_groups": {"total": self.row_groups_total, "read": self.row_groups_read},
            "pages": {
                "total": self._pages_total,
                "read": self._pages_read,
                "by_column": {
                    name: {"total": counts.total, "read": counts.read} for name, counts in self.pages.items()
                },
                "dictionary_read": self.dictionary_pages_read,
            },
            "rows": {
                "total": self.rows_total,
                "candidates": self.rows_candidate,
                "estimated": None if self.rows_estimated is None else round(self.rows_estimated),
                "matched": self.rows_matched,
            },
            "bytes": {
                "total": self.bytes_total,
                "read": self.bytes_read,
                "index": self.bytes_index,
                "planned": self.bytes_planned,
            },
            "requests": self.requests,
            "pruned_by": [vars(entry).copy() for entry in self.pruned_by.values()],
            "answered_by": [vars(entry).copy() for entry in self.answered_by.values()],
            "ignored": [vars(note).copy() for note in self.ignored],
            "seconds": self.seconds,
        }


def _entry(entries: dict[tuple[str, str], PrunedBy], index: str, column: str) -> PrunedBy:
    return entries.setdefault((index, column), PrunedBy(index, column))


def _add_step(entry: PrunedBy, file: ParquetInput, leaves: Sequence[Leaf], step: PruneStep) -> None:
    edges = file.footer.row_group_starts
    before, after = step.before.count_between(edges), step.after.count_between(edges)
    entry.files += step.after.is_empty
    entry.row_groups += int(((before > 0) & (after == 0)).sum())
    entry.rows += int(before.sum() - after.sum())
    narrowed = np.flatnonzero(before != after)
    # of most row groups no row is left of all: these need no look at single pages
    is_whole = (before == np.diff(edges)) & (after == 0)
    whole, others = narrowed[is_whole[narrowed]], narrowed[~is_whole[narrowed]].tolist()
    for leaf, outlines in zip(leaves, file.metadata.outlines(leaves), strict=True):
        recorded = outlines.data_pages
        unrecorded = whole[recorded[whole] <= 0].tolist()
        entry.pages += int(np.maximum(recorded[whole], 0).sum())
        entry.pages += sum([_num_pages(file, group, leaf) for group in unrecorded])
        for group in others:
            known = int(recorded[group]) if recorded[group] >= 0 else None
            entry.pages += _pages_skipped(file, group, leaf, step, known, bool(after[group]))


def _num_pages(file: ParquetInput, group: int, leaf: Leaf) -> int:
    """Data pages of a chunk by its OffsetIndex; 0 if that was not read."""
    locations = file.locations(ChunkKey(group, leaf.ordinal))
    return 0 if locations is None else len(locations)


def _pages_skipped(
    file: ParquetInput, group: int, leaf: Leaf, step: PruneStep, recorded: int | None, partly: bool
) -> int:
    """Data pages of a chunk that a step excluded; 0 where the pages are not known."""
    locations = file.locations(ChunkKey(group, leaf.ordinal))
    if locations is None:
        return 0 if partly else recorded or 0
    first = int(file.footer.row_group_starts[group])
    starts, stops = locations.row_starts + first, locations.row_stops + first
    return int(step.before.overlaps(starts, stops).sum() - step.after.overlaps(starts, stops).sum())


def reasons_by_file(ignored: Iterable[Ignored]) -> dict[str, list[Ignored]]:
    """Notes, grouped by file."""
    out: dict[str, list[Ignored]] = defaultdict(list)
    for note in ignored:
        out[note.file].append(note)
    return out


def warn_of_ignored(ignored: Iterable[Ignored]) -> None:
    """Warn once for each file with ignored indexes, at the line that called this package."""
    for path, notes in reasons_by_file(ignored).items():
        more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
        warn_caller(f"{path}: ignored {notes[0].index}: {notes[0].reason}{more}")


def warn_caller(message: str) -> None:
    """Warn at the nearest line outside this package."""
    package = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
    inside = (package, functools.__file__, contextlib.__file__)  # decorators of ours run there
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, IntarsiaWarning, stacklevel=level)
