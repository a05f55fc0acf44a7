"""The report of a scan: what was read and skipped, counted per file and added up."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from intarsia.amounts import count, others_ignored, part, size, some
from intarsia.errors import IntarsiaWarning, code_of
from intarsia.file import Ignored
from intarsia.file.metadata import naming_errors
from intarsia.read.counts import PageCounts, PageStates, PrunedBy, ReadCounts
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import FileOutcome
from intarsia.read.pruner import PruneStep
from intarsia.read.trace import QueryTrace, UnopenedFiles
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.rows.values import JsonObject
from intarsia.storage import QueryReads

if TYPE_CHECKING:
    from intarsia.picture import PageMap


#: A plan that reads fewer bytes gets no advice.
MIN_BYTES = 1_000_000

#: A lake index is advised for at least this many files.
MIN_FILES = 16

#: Indexes are effective if at most this part of the rows or files is left.
NARROWED_PART = 0.5


@dataclass(frozen=True)
class Hint(JsonObject):
    """One piece of advice.

    Attributes:
        code: A stable code: ``"add-lake-index"``, or ``"run-advise"`` if `intarsia.advise` may find an index
            or an order of rows that helps.
        text: The advice in words.
    """

    code: str
    text: str


def opens_in_vain(num_files: int, num_unmatched: float) -> bool:
    """Return whether so many opened files have no candidate rows that a lake index is worthwhile.

    Example:
        >>> opens_in_vain(20, 19), opens_in_vain(20, 1), opens_in_vain(2, 2)
        (True, False, False)
    """
    return num_files >= MIN_FILES and num_unmatched > NARROWED_PART * num_files


class Hints:
    """The advice at the end of a plan, from metadata alone.

    Whether an index, smaller pages or another order help depends on the values, which a plan does not read.
    `intarsia.advise` reads and measures them. A plan shows whether that can be worthwhile, and whether a lake
    index is.
    """

    def __init__(self) -> None:
        self._improvable_bytes = 0
        self._total = 0
        self._num_left = 0

    def add(self, query: FileQuery, plan: FilePlan) -> None:
        """Add a planned file, or several that are joined."""
        if plan.candidates.is_empty:
            return
        self._num_left += query.num_files_with(plan.candidates)
        num_bytes = query.estimated_bytes(plan.candidates)
        self._total += num_bytes
        if _is_improvable(query, plan):
            self._improvable_bytes += num_bytes

    def best(self, num_opened: int, *, has_lake_index: bool) -> Hint | None:
        """Return the advice; None if there is none.

        Args:
            num_opened: The number of files that were opened, with those that were planned together.
            has_lake_index: Whether the table has a lake index.
        """
        num_excluded = num_opened - self._num_left
        if opens_in_vain(num_opened, num_excluded) and not has_lake_index:
            text = (
                f"{num_excluded:,} of {num_opened:,} opened files have no candidate rows: build a lake index"
            )
            return Hint("add-lake-index", text)
        if self._total < MIN_BYTES or self._improvable_bytes < NARROWED_PART * self._total:
            return None
        text = (
            f"the plan excludes few rows and reads up to {size(self._total)}; measure what helps with advise"
        )
        return Hint("run-advise", text)


def _is_improvable(query: FileQuery, plan: FilePlan) -> bool:
    """Return whether few rows of the row groups that are read are excluded, or proven to match."""
    if query.predicate is None or not query.predicate_paths:
        return False
    groups = query.groups_with(plan.candidates)
    edges = query.file.footer.row_group_starts
    rows_left = int((edges[1:] - edges[:-1])[groups].sum())
    undecided = plan.candidates.num_rows - plan.certain.num_rows
    return undecided > NARROWED_PART * rows_left


@dataclass(frozen=True)
class FailedFile:
    """A file that was skipped because it is damaged or missing.

    Attributes:
        file: The path of the file.
        reason: Why, in words.
        code: Why, as a stable code such as ``"wrong-magic"``; see `IntarsiaError.reason`.
    """

    file: str
    reason: str
    code: str

    @classmethod
    def of(cls, path: str, error: Exception) -> FailedFile:
        """Describe a file by its error."""
        if isinstance(error, FileNotFoundError):
            return cls(path, "no such file", "no-such-file")
        reason = " ".join(str(error).split()).removeprefix(f"{path}: ")
        return cls(path, reason or type(error).__name__, code_of(error, "damaged-file"))


#: The numbers of a report that are those of its files.
_ADDED = (
    "files_opened",
    "files_read",
    "row_groups_total",
    "row_groups_read",
    "dictionary_pages_read",
    "rows_total",
    "rows_candidate",
    "bytes_total",
)


@dataclass
class ScanReport(JsonObject):
    """The report of a scan or a plan: what is read and skipped, and why.

    ``str()`` returns a summary of a few lines.

    Attributes:
        files_total: The number of files of the table.
        files_other: The number of files in the table's folders that are not Parquet and were ignored.
        files_opened: The number of files whose footers were read. Files that partition values or a lake index
            exclude are not opened.
        files_read: The number of files from which a row group was read.
        row_groups_total: The number of row groups of the opened files, and of those in a lake index.
        row_groups_read: The number of row groups that were read.
        dictionary_pages_read: The number of dictionary pages that were read.
        rows_total: The number of rows of the same files as in ``row_groups_total``.
        rows_candidate: The number of rows that might match, as far as the indexes can prove.
        rows_estimated: The number of matching rows, estimated by indexes. Part of plans only; None if a file
            has no index for it.
        rows_matched: The number of matching rows; None in a plan.
        bytes_total: The size of all files in bytes.
        reads: The reads of the query, counted where they are made.
        bytes_planned: The number of bytes that a scan would read in addition to the plan; None in the report
            of a scan.
        ignored: The indexes that were found and not used.
        files_failed: The damaged and missing files that were skipped with ``on_error="skip"``.
        seconds: Time taken.
        advice: The most useful advice that follows from the plan. Part of plans only; None if there is none.
            `intarsia.advise` measures indexes on a sample.

    Example:
        >>> print(ScanReport(files_total=2, files_opened=1, rows_total=100, bytes_total=4096))
        files       0 of 2 read, 1 not opened
        row groups  0 of 0 read
        pages       0 of 0 read
        rows        0 of 100 might match, 0 match
        bytes       0 of 4,096 read in 0 requests
    """

    JSON_KEYS = (
        "files.total files.read files.opened files.other row_groups.total row_groups.read pages=_all_pages "
        "pages.by_column=pages pages.dictionary_read=dictionary_pages_read rows.total "
        "rows.candidates=rows_candidate rows.estimated=_rows_estimated rows.matched bytes.total bytes.read "
        "bytes.index bytes.planned requests pruned_by=_prunings answered_by=_answers files_failed "
        "ignored seconds advice"
    )

    files_total: int = 0
    files_other: int = 0
    files_opened: int = 0
    files_read: int = 0
    row_groups_total: int = 0
    row_groups_read: int = 0
    dictionary_pages_read: int = 0
    rows_total: int = 0
    rows_candidate: int = 0
    rows_estimated: float | None = None
    rows_matched: int | None = 0
    bytes_total: int = 0
    reads: QueryReads = field(default_factory=QueryReads, repr=False, compare=False)
    bytes_planned: int | None = None
    ignored: list[Ignored] = field(default_factory=list)
    files_failed: list[FailedFile] = field(default_factory=list)
    seconds: float = 0.0
    advice: Hint | None = None
    _trace: QueryTrace | None = field(default=None, repr=False, compare=False)
    _failed_paths: set[str] = field(default_factory=set, repr=False)
    _noted: set[Ignored] = field(default_factory=set, repr=False, compare=False)
    _pages: dict[str, PageCounts] = field(default_factory=dict, repr=False)
    _pruned_by: dict[tuple[str, str], PrunedBy] = field(default_factory=dict, repr=False)
    _answered_by: dict[tuple[str, str], PrunedBy] = field(default_factory=dict, repr=False)
    _uncounted: list[Callable[[], None]] = field(default_factory=list, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        self._count_pages()
        return {**self.__dict__, "_trace": None}

    @property
    def pages(self) -> dict[str, PageCounts]:
        """The data pages of each column of the opened files, by the column's dotted path."""
        self._count_pages()
        return self._pages

    @property
    def pruned_by(self) -> dict[tuple[str, str], PrunedBy]:
        """What each index excluded, by its name and column."""
        self._count_pages()
        return self._pruned_by

    @property
    def answered_by(self) -> dict[tuple[str, str], PrunedBy]:
        """The matching rows that an aggregate took from indexes instead of reading them.

        With the pages of the column that a scan would have read for them.
        """
        self._count_pages()
        return self._answered_by

    def _count_pages(self) -> None:
        """Count the pages of the files that were added: few queries ask, and the chunks of all are parsed."""
        while self._uncounted:
            self._uncounted.pop()()

    @property
    def bytes_read(self) -> int:
        """The number of bytes that were read, including footers and indexes."""
        return self.reads.bytes

    @property
    def bytes_index(self) -> int:
        """The part of `bytes_read` that was indexes."""
        return self.reads.index_bytes

    @property
    def requests(self) -> int:
        """The number of requests: reads of byte ranges, and requests for the metadata of an object."""
        return self.reads.requests

    def add_time(self, started: float) -> None:
        """Add the seconds since ``started``, a value of `time.perf_counter`."""
        self.seconds += time.perf_counter() - started

    def advise(self, hint: Hint | None) -> None:
        """Set the best advice."""
        self.advice = hint

    def add_failed(self, failed: FailedFile) -> None:
        """Add a file that is skipped because of an error; only the first error of a file is recorded."""
        if not self.has_failed(failed.file):
            self._failed_paths.add(failed.file)
            self.files_failed.append(failed)

    def has_failed(self, path: str) -> bool:
        """Return whether a file is skipped because of an error."""
        return path in self._failed_paths

    def add_index_bytes(self, num_bytes: int) -> None:
        """Add bytes to those of indexes, which the storage has counted with all others."""
        self.reads.add(index_bytes=num_bytes)

    def add_ignored(self, ignored: Iterable[Ignored]) -> None:
        """Add indexes, or parts of one, that were ignored, each once."""
        new = [note for note in dict.fromkeys(ignored) if note not in self._noted]
        self._noted.update(new)
        self.ignored += new

    def add_unplanned(self, path: str, error: BaseException) -> None:
        """Add a file that could not be planned and has to be read completely."""
        self.files_read += 1
        reason = f"{type(error).__name__}: {error}"
        self.add_ignored([Ignored(path, "all", reason, code_of(error, "not-planned"))])

    def add_whole(self, files: int, num_bytes: int) -> None:
        """Add files that are read completely, because planning them would take longer than it saves.

        Args:
            files: The number of files.
            num_bytes: Their size in bytes.
        """
        self.files_read += files
        self.bytes_total += num_bytes
        if self.bytes_planned is not None:
            self.bytes_planned += num_bytes

    def add_unopened(
        self,
        sources: Iterable[tuple[str, str]],
        *,
        files: npt.NDArray[np.int64],
        num_bytes: int,
        row_groups: int = 0,
        rows: int = 0,
        are_answered: bool = False,
    ) -> None:
        """Add files that indexes excluded, or answered because all rows match, without opening them.

        Args:
            sources: The names of the indexes, each with the dotted path of its column.
            files: The ordinals of the files in the table.
            num_bytes: Their size in bytes.
            row_groups: Their number of row groups; 0 if unknown.
            rows: Their number of rows; 0 if unknown.
            are_answered: Whether the rows match, and were summarized from the indexes.
        """
        self.bytes_total += num_bytes
        self.row_groups_total += row_groups
        self.rows_total += rows
        if are_answered:
            self.rows_candidate += rows
            if self.rows_matched is not None:
                self.rows_matched += rows
        entries = self._answered_by if are_answered else self._pruned_by
        for index, column in sources:
            _entry(entries, index, column).add(files=len(files), row_groups=row_groups, rows=rows)
            if self._trace is not None:
                self._trace.add_unopened(UnopenedFiles(index, column, files, are_answered))

    def add_report(self, other: ScanReport) -> None:
        """Add the report of a scan of other files, which another process ran at the same time.

        ``files_total`` and ``seconds`` do not change.
        """
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reads.add(other.requests, other.bytes_read, other.bytes_index)
        if self.rows_matched is not None and other.rows_matched is not None:
            self.rows_matched += other.rows_matched
        for column, counts in other.pages.items():
            self._pages.setdefault(column, PageCounts()).add(counts)
        for entries, others in ((self._pruned_by, other.pruned_by), (self._answered_by, other.answered_by)):
            for (index, column), found in others.items():
                _entry(entries, index, column).add(
                    files=found.files, row_groups=found.row_groups, pages=found.pages, rows=found.rows
                )
        self.add_ignored(other.ignored)
        for failed in other.files_failed:
            self.add_failed(failed)

    def add_file(self, query: FileQuery, outcome: FileOutcome, among: Bools | None = None) -> None:
        """Add a file whose footer was read, or several that are joined.

        Args:
            query: The query of the file.
            outcome: The outcome of the query.
            among: The files that count, if several are joined; None for all.
        """
        with query.file.named_errors():
            self._add_file(query, outcome, among)

    def add_further_reads(self, query: FileQuery, counts: ReadCounts, before: PageStates) -> None:
        """Add reads of a file that was added before.

        Args:
            query: The query that read the file again, with the pages of the first query.
            counts: The counts of the reads.
            before: The states of the pages before these reads.
        """
        pages = [self._pages.setdefault(query.shown(leaf.name), PageCounts()) for leaf in query.leaves]
        after, path = query.page_states(), query.file.metadata.path

        def count_pages() -> None:
            with naming_errors(path):
                for of_leaf, read, read_before in zip(pages, after.read, before.read, strict=True):
                    of_leaf.add(PageCounts(read=read - read_before))

        self._uncounted.append(count_pages)
        self._add_counts(counts)
        self.add_ignored(query.file.ignored)

    def _add_counts(self, counts: ReadCounts) -> None:
        if self.rows_matched is not None:
            self.rows_matched += counts.rows_matched
        self.dictionary_pages_read += counts.dictionary_pages
        self.add_index_bytes(counts.index_bytes)

    def _add_file(self, query: FileQuery, outcome: FileOutcome, among: Bools | None) -> None:
        plan, counts, extent = outcome.plan, outcome.counts, query.file.extent
        if self._trace is not None:
            self._trace.add_file(query, outcome, among)
        own, groups = None, None
        if among is not None:
            own = RowSelection.union_of(extent.row_edges[:-1][among], extent.row_edges[1:][among])
            edges = query.file.footer.row_group_starts
            groups = own.covers(edges[:-1], edges[1:])
        self.files_opened += len(extent.num_bytes) if among is None else int(among.sum())
        if counts.row_groups:
            files_read = outcome.files_read
            self.files_read += query.num_files_with(plan.candidates) if files_read is None else files_read
        self.row_groups_total += query.num_row_groups if groups is None else int(groups.sum())
        self.row_groups_read += counts.row_groups
        self.rows_total += query.file.footer.num_rows if own is None else own.num_rows
        self.rows_candidate += counts.rows_candidate
        if outcome.rows_estimated is None or self.rows_estimated is None:
            self.rows_estimated = None
        else:
            self.rows_estimated += outcome.rows_estimated
        self._add_counts(counts)
        self.add_index_bytes(plan.index_bytes)
        self.bytes_total += int((extent.num_bytes if among is None else extent.num_bytes[among]).sum())
        if self.bytes_planned is not None:
            self.bytes_planned += counts.planned_bytes
        steps = plan.steps
        if own is not None:
            steps = tuple(replace(step, before=step.before & own, after=step.after & own) for step in steps)
        narrowing = [step for step in steps if step.after.num_rows < step.before.num_rows]
        found = _add_steps(self._pruned_by, query, narrowing)
        answered = _add_steps(self._answered_by, query, outcome.answered)
        metadata, leaves, counts_pages = query.file.metadata, query.leaves, outcome.counts_pages
        pages = [self._pages.setdefault(query.shown(leaf.name), PageCounts()) for leaf in leaves]
        states = PageStates(metadata, leaves, query.pages, groups)

        def count_pages() -> None:  # keeps the metadata, but neither the open file nor the plan
            with naming_errors(metadata.path):
                excluded = np.zeros(len(leaves), dtype=np.int64)
                for step, entry in found:
                    by_leaf = states.excluded_by(step)
                    excluded += by_leaf
                    entry.add(pages=int(by_leaf.sum()))
                totals = states.totals if counts_pages else [None] * len(leaves)
                numbers = zip(pages, totals, states.read, excluded.tolist(), strict=True)
                for of_leaf, total, num_read, num_excluded in numbers:
                    of_leaf.add(PageCounts(total, num_read, num_excluded))
                for step, entry in answered:
                    is_own = [leaf.name == step.column for leaf in leaves]
                    entry.add(pages=int(states.excluded_by(step)[is_own].sum()))

        self._uncounted.append(count_pages)
        self.add_ignored(query.file.ignored)

    def __str__(self) -> str:
        total, read = self._all_pages.total, self._all_pages.read
        unopened = self.files_total - self.files_opened
        skipped = f", {unopened:,} not opened" if unopened else ""
        others = others_ignored(self.files_other)
        estimated = "" if self.rows_estimated is None else f", about {self.rows_estimated:,.0f} by estimate"
        matched = "" if self.rows_matched is None else f", {self.rows_matched:,} match"
        index = f", including {self.bytes_index:,} of indexes" if self.bytes_index else ""
        planned = "" if self.bytes_planned is None else f"; a scan reads at most {self.bytes_planned:,} more"
        requests = f" in {count(self.requests, 'request')}"
        lines = [
            f"files       {self.files_read:,} of {self.files_total:,} read{skipped}{others}",
            f"row groups  {self.row_groups_read:,} of {self.row_groups_total:,} read",
            f"pages       {read:,} of {'an unknown number' if total is None else f'{total:,}'} read",
            f"rows        {self.rows_candidate:,} of {self.rows_total:,} might match{estimated}{matched}",
            f"bytes       {self.bytes_read:,} of {self.bytes_total:,} read{requests}{index}{planned}",
        ]
        lines += [f"excluded    {entry}" for entry in self.pruned_by.values()]
        lines += [f"answered    {entry}" for entry in self.answered_by.values()]
        lines += [f"skipped     {failed.file}: {failed.reason}" for failed in self.files_failed]
        lines += [f"ignored     {note.file}: {note.index}: {note.reason}" for note in self.ignored]
        lines += [] if self.advice is None else [f"advice      {self.advice.text}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"ScanReport({self.to_dict()})"

    def _repr_html_(self) -> str:
        from intarsia.picture import Bar, draw_bars, in_notebook

        num_bytes = self.bytes_read + (self.bytes_planned or 0)
        of = f"{size(num_bytes)} of {size(self.bytes_total)}"
        bars = [Bar("bytes", num_bytes / max(self.bytes_total, 1), "read", of)]
        bars += [
            Bar(
                name, one.read / max(one.total or one.read, 1), "read", f"{part(one.read, one.total, 'page')}"
            )
            for name, one in self.pages.items()
        ]
        what = "to read at most" if self.bytes_planned is not None else "read"
        files = f"{part(self.files_read, self.files_total, 'file')} {what}"
        return in_notebook(draw_bars(f"{of} {what}", f"{files}, in {count(self.requests, 'request')}", bars))

    @property
    def _all_pages(self) -> PageCounts:
        found = PageCounts()
        for counts in self.pages.values():
            found.add(counts)
        return found

    def map(self) -> PageMap:
        """Return a picture of the pages that this run read and skipped; see `Scan.map`.

        Only metadata is read for it: the page indexes of row groups that might match.

        Raises:
            ValueError: If the run was not traced, or returned neither rows nor aggregates.
            ReplacedWhileReadError: If a file was replaced since.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path, row_group_size=500)
            >>> scan = ia.open(path).scan("x < 3", trace=True)
            >>> scan.to_arrow().num_rows
            3
            >>> scan.report.map().facts.num_read == scan.report.bytes_read
            True
        """
        if self._trace is None:
            raise ValueError(
                "the run was not traced, so it cannot be drawn; scan with trace=True, or call map() of a scan"
            )
        return self._trace.draw(self._trace, self)

    @property
    def _rows_estimated(self) -> int | None:
        return None if self.rows_estimated is None else round(self.rows_estimated)

    @property
    def _prunings(self) -> list[PrunedBy]:
        return list(self.pruned_by.values())

    @property
    def _answers(self) -> list[PrunedBy]:
        return list(self.answered_by.values())


def _entry(entries: dict[tuple[str, str], PrunedBy], index: str, column: str) -> PrunedBy:
    return entries.setdefault((index, column), PrunedBy(index, column))


def _add_steps(
    entries: dict[tuple[str, str], PrunedBy], query: FileQuery, steps: Iterable[PruneStep]
) -> list[tuple[PruneStep, PrunedBy]]:
    """Add the rows of steps to the entries of their indexes; return each step with its entry."""
    found = []
    for step in steps:
        entry = _entry(entries, step.index, query.shown(step.column))
        entry.add_step(query.file, step)
        found.append((step, entry))
    return found


#: The name of a lake index in notes.
LAKE_INDEX = "lake index"

#: The notes about lake indexes, as file and code, that this process has shown.
_shown: set[tuple[str, str]] = set()


def warn_of_ignored(ignored: Collection[Ignored]) -> None:
    """Warn once per file with ignored indexes, at the line that called this package.

    A lake index serves all tables of a lake, so a note about it is shown once per process.
    """
    if not ignored:
        return
    new = [note for note in ignored if (note.file, note.code) not in _shown]
    _shown.update((note.file, note.code) for note in new if note.index == LAKE_INDEX)
    by_file: dict[str, list[Ignored]] = defaultdict(list)
    for note in new:
        by_file[note.file].append(note)
    for path, notes in by_file.items():
        more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
        warn_caller(f"{path}: ignored {notes[0].index}: {notes[0].reason}{more}")


def warn_of_failed(failed: Sequence[FailedFile]) -> None:
    """Warn once about all files that were skipped, at the line that called this package."""
    if failed:
        skipped = f"{count(len(failed), 'file')} {'was' if len(failed) == 1 else 'were'}"
        warn_caller(
            f"{some([one.file for one in failed])}: {failed[0].reason}; {skipped} skipped, so rows are "
            "missing from the result"
        )


def warn_caller(message: str) -> None:
    """Warn at the innermost line outside this package."""
    package = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
    inside = (package, functools.__file__, contextlib.__file__)  # this package's decorators run there
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, IntarsiaWarning, stacklevel=level)
