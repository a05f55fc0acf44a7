"""One run of a query, file by file: which files are opened, their plans, and what is reported about them."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from intarsia.errors import CorruptFileError, ReplacedWhileReadError
from intarsia.file.metadata import naming_errors
from intarsia.lake.binding import TableBinder
from intarsia.lake.data_file import DataFile
from intarsia.lake.planner import Planner
from intarsia.lake.planning import Ahead, IsAlone, OpenPlan, Planned, plan_files, stretches
from intarsia.lake.snapshot import FinishedQuery, OnReport, Snapshot
from intarsia.lake.table_files import TableFiles
from intarsia.predicate.nodes import dotted
from intarsia.read.file_plan import plan_file
from intarsia.read.file_rows import FileOutcome
from intarsia.read.output_columns import OutputColumn
from intarsia.read.report import FailedFile, ScanReport, warn_caller, warn_of_failed, warn_of_ignored
from intarsia.read.totals import Totals
from intarsia.read.trace import QueryTrace
from intarsia.tuning import (
    AXIS_FILES,
    CONCURRENT_BYTES,
    FIRST_FILES,
    FIRST_PLANNED,
    FIRST_ROWS_GROWTH,
    MAX_PREFETCHED_BYTES,
    STRETCH_BYTES,
)

#: What happens to damaged and missing files: an error, or they are skipped with one warning.
OnError: TypeAlias = Literal["raise", "skip"]


#: Errors of one file. Errors of a whole store, such as of its credentials, are always raised.
_BAD_FILE_ERRORS = (CorruptFileError, FileNotFoundError, ReplacedWhileReadError)


#: The outcomes of the last files are added to the report when it is asked for, which few callers do.
_MAX_WAITING = 8


class QueryRun:
    """One run of a query.

    Args:
        snapshot: What the run has learnt about the files.
        is_limited: Whether the first rows may suffice, so that the first files are not planned ahead.
        trace: What a page map needs in addition; None if none is drawn.

    Attributes:
        snapshot: As given.
        trace: As given.
    """

    def __init__(
        self,
        table: TableFiles,
        binder: TableBinder,
        snapshot: Snapshot,
        *,
        is_limited: bool,
        on_error: OnError,
        trace: QueryTrace | None = None,
        **fields: Any,
    ) -> None:
        self._table = table
        self._binder = binder
        self.snapshot = snapshot
        self.trace = trace
        self._is_limited = is_limited
        self._on_error = on_error
        self._report = ScanReport(
            files_total=len(table.files),
            files_other=len(table.other_files),
            reads=snapshot.reads,
            _trace=trace,
            **fields,
        )
        self._waiting: deque[OpenPlan] = deque()

    @property
    def report(self) -> ScanReport:
        """What the run read and skipped, and why."""
        self._report_until(0)
        return self._report

    def _report_until(self, num_waiting: int) -> None:
        """Add the outcomes of files to the report until a number of them are left."""
        while len(self._waiting) > num_waiting:
            opened = self._waiting.popleft()
            assert opened.outcome is not None
            with self.skipping(opened.entry.path):
                self._report.add_file(opened.query, opened.outcome, opened.among)

    def _add(self, opened: OpenPlan) -> None:
        """Add the outcome of a file, which is still open, to the report, or keep it until it is asked for."""
        if opened.outcome is not None:
            self._waiting.append(replace(opened, pieces=None))
            holds_bytes = opened.query.file.source.coalesce_bytes or opened.outcome.plan.dictionary_pages
            may_wait = opened.among is None and not holds_bytes and self.snapshot.reads.outer is None
            self._report_until(_MAX_WAITING if may_wait else 0)

    @contextlib.contextmanager
    def reporting(self) -> Generator[ScanReport, None, None]:
        """Complete the report after the block that reads rows, warn of what is in it, and pass it on."""
        started, report = time.perf_counter(), self._report
        failure: Exception | None = None
        try:
            yield report
        except Exception as error:
            failure = error
            raise
        finally:
            report.add_time(started)
            if self._table.has_objects:  # the ends of objects that were not opened
                self._table.cache.drop_tails()
            notes = dict.fromkeys(report.ignored)
            for opened in self._waiting:
                notes |= dict.fromkeys(opened.query.file.ignored)
            warn_of_ignored(notes)
            warn_of_failed(report.files_failed)
            if self._table.on_report is not None:
                self._pass_on(self._table.on_report, failure)

    def _pass_on(self, on_report: OnReport, failure: Exception | None) -> None:
        """Call a hook for reports, whose errors must not end the query."""
        table, predicate = self._table.root or self._table.name, self._binder.predicate
        where = None if predicate is None else str(predicate)
        columns = tuple(dotted(column.path) for column in self._binder.queried)
        try:
            on_report(FinishedQuery(table, where, columns, self.report, failure))
        except Exception as error:  # noqa: BLE001  # code of the user, and the rows are right
            warn_caller(f"{table}: on_report raised {type(error).__name__}: {error}")

    @contextlib.contextmanager
    def skipping(self, path: str) -> Generator[None, None, None]:
        """Name a file in its errors; if bad files are skipped, report them instead of raising them."""
        try:
            with naming_errors(path):
                yield
        except _BAD_FILE_ERRORS as error:
            if self._on_error == "raise":
                raise
            self._report.add_failed(FailedFile.of(path, error))

    def for_each_file(
        self, columns: Sequence[OutputColumn] | None, add: Callable[[OpenPlan], FileOutcome], **options: Any
    ) -> None:
        """Call a function with each file that is not excluded, and report the outcomes that it returns.

        Args:
            columns: The columns to read; None for those of the query.
            **options: See `planned_files`.
        """
        with contextlib.closing(self.planned_files(columns, **options)) as files:
            for found in files:
                found.record(FileOutcome(found.plan))
                with self.skipping(found.entry.path):
                    try:
                        found.record(add(found))
                    except _BAD_FILE_ERRORS:
                        if self._on_error == "raise":
                            self._find_error(found.entries, self._for_columns(columns), add)
                        raise

    def _for_columns(self, columns: Sequence[OutputColumn] | None) -> TableBinder:
        return self._binder if columns is None else self._binder.for_columns(columns)

    def _find_error(
        self, files: Iterable[DataFile], binder: TableBinder, add: Callable[[OpenPlan], FileOutcome]
    ) -> None:
        """Read files one by one that could not be read as one: the error of a file has the offset in it."""
        for entry in files:
            with self.snapshot.open(entry) as file, file.named_errors():
                query = binder.query(entry, file)
                add(OpenPlan(entry, query, plan_file(query)))

    def planned_files(
        self,
        columns: Sequence[OutputColumn] | None = None,
        totals: Totals | None = None,
        *,
        does: Ahead = Ahead.FETCH,
        is_alone: IsAlone | None = None,
    ) -> Generator[OpenPlan, None, None]:
        """Open, plan and yield each file that neither partition values nor a lake index exclude or answer.

        The file is open until the next one is taken; its outcome is then added to the report.

        Args:
            columns: The columns to read; None for those of the query.
            totals: Aggregates; files for which a lake index answers all of them are added to it and not
                yielded.
            does: See `plan_files`.
            is_alone: Returns whether a file is read by itself; None to read all files by themselves.
        """
        table, snapshot, report = self._table, self.snapshot, self._report
        binder = self._for_columns(columns)
        planner = Planner(table, binder, report, snapshot)
        survivors = planner.survivors(totals)
        plan = partial(plan_files, binder=binder, open_file=snapshot.open, counts_certain=totals is not None)
        for planned in self._portions(planner, survivors, plan, does, is_alone):
            with contextlib.closing(planned):
                for entry, future in planned:
                    with self.skipping(entry.path):
                        opened = future.result()
                    if report.has_failed(entry.path):
                        continue
                    with contextlib.closing(opened.query) as query:
                        try:
                            yield opened
                            with self.skipping(entry.path):
                                query.file.source.check_unchanged()
                        finally:
                            self._add(opened)
                            if opened.among is None:
                                snapshot.remember(entry, query.file)

    def _divided(self, files: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield the files to plan together: all, or more and more of them if there is a limit."""
        start, size = 0, FIRST_PLANNED if self._is_limited else max(len(files), 1)
        while start < len(files):
            yield files[start : start + size]
            start, size = start + size, min(FIRST_ROWS_GROWTH * size, AXIS_FILES)

    def _portions(
        self,
        planner: Planner,
        survivors: Sequence[int],
        plan: Callable[..., Generator[Planned, None, None]],
        does: Ahead,
        is_alone: IsAlone | None,
    ) -> Iterator[Generator[Planned, None, None]]:
        """Yield plans of the files to open; with a limit, first of those that may suffice, one by one."""
        table, num_first = self._table, 0
        if self._is_limited:
            num_first = len(survivors) if self._binder.predicate is None else FIRST_FILES
        for portion in self._divided(survivors):
            files, known = planner.planned(portion, reads=not num_first)
            if num_first:
                first = [table.files[ordinal] for ordinal in files[:num_first]]
                yield plan(first, at_once=1, does=Ahead.PLAN, known=known)
                files, known = planner.planned(files[num_first:])
                num_first -= len(first)
            left = list(map(table.files.__getitem__, files))
            at_once = min(table.files_at_once, max(len(left), 1))
            num_bytes = sum(map(attrgetter("read_bytes"), known.values()))
            if not table.has_objects and len(known) == len(left) and num_bytes < CONCURRENT_BYTES:
                at_once = 1
            limits = min(STRETCH_BYTES, num_bytes // at_once), MAX_PREFETCHED_BYTES
            most_bytes = (math.inf, math.inf) if does is Ahead.PLAN else limits
            items = left if is_alone is None or not known else stretches(left, known, most_bytes, is_alone)
            yield plan(items, at_once=at_once, does=does, known=known)
