"""One run of a query, file by file: which files are opened, their plans, and what is reported about them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from intarsia.errors import CorruptFileError, ReplacedWhileReadError
from intarsia.lake.binding import TableBinder
from intarsia.lake.data_file import DataFile
from intarsia.lake.planner import Planner
from intarsia.lake.planning import Ahead, IsAlone, OpenPlan, Planned, plan_files, stretches
from intarsia.lake.snapshot import Snapshot
from intarsia.lake.table_files import TableFiles
from intarsia.read.aggregate import Totals
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.read.output_columns import OutputColumn
from intarsia.read.report import FileOutcome, ScanReport, warn_of_failed, warn_of_ignored
from intarsia.tuning import FIRST_FILES

#: What happens to damaged and missing files: an error, or they are skipped with one warning.
OnError: TypeAlias = Literal["raise", "skip"]


#: Errors of one file. Errors of a whole store, such as of its credentials, are always raised.
_BAD_FILE_ERRORS = (CorruptFileError, FileNotFoundError, ReplacedWhileReadError)


class QueryRun:
    """One run of a query.

    Args:
        table: The table.
        binder: The query.
        snapshot: What the run has learnt about the files.
        is_limited: Whether the first rows may suffice, so that the first files are not planned ahead.
        on_error: What happens to bad files.
        **fields: Other attributes of the report.

    Attributes:
        report: What the run read and skipped, and why.
    """

    def __init__(
        self,
        table: TableFiles,
        binder: TableBinder,
        snapshot: Snapshot,
        *,
        is_limited: bool,
        on_error: OnError,
        **fields: Any,
    ) -> None:
        self._table = table
        self._binder = binder
        self.snapshot = snapshot
        self._is_limited = is_limited
        self._on_error = on_error
        self.report = ScanReport(
            files_total=len(table.files),
            files_other=len(table.other_files),
            reads=snapshot.reads,
            **fields,
        )

    @contextlib.contextmanager
    def reporting(self) -> Generator[ScanReport, None, None]:
        """Complete the report after the block, and warn of what is in it."""
        started, report = time.perf_counter(), self.report
        try:
            yield report
        finally:
            report.add_time(started)
            warn_of_ignored(report.ignored)
            warn_of_failed(report.files_failed)

    @contextlib.contextmanager
    def skipping(self, path: str) -> Generator[None, None, None]:
        """Add errors of a bad file to the report instead of raising them, if bad files are skipped."""
        try:
            yield
        except _BAD_FILE_ERRORS as error:
            if self._on_error == "raise":
                raise
            self.report.add_failed(path, error)

    @contextlib.contextmanager
    def each_file(
        self, columns: Sequence[OutputColumn]
    ) -> Generator[Iterator[tuple[FileQuery, FilePlan, Callable[[FileOutcome], None]]], None, None]:
        """Iterate over each file that is not excluded, its plan, and a callback for its outcome.

        Args:
            columns: The columns to read.
        """
        with contextlib.closing(self.each_plan(columns)) as plans:
            yield ((found.query, found.plan, record) for found, record in plans)

    def each_plan(
        self,
        columns: Sequence[OutputColumn],
        totals: Totals | None = None,
        *,
        does: Ahead = Ahead.FETCH,
        is_alone: IsAlone | None = None,
    ) -> Generator[tuple[OpenPlan, Callable[[FileOutcome], None]], None, None]:
        """Yield as `each_file`, with the rows of small files if the caller reads all rows.

        Args:
            columns: The columns to read.
            totals: Aggregates; files for which a lake index answers all of them are added to it and not
                yielded.
            does: See `plan_files`.
            is_alone: Returns whether a file is read by itself; None to read all files by themselves.
        """
        planned = self.planned_files(columns, totals, does=does, is_alone=is_alone)
        with self.reporting() as report, contextlib.closing(planned) as files:
            for _, opened in files:
                outcome = FileOutcome(opened.plan)

                def record(found: FileOutcome) -> None:
                    nonlocal outcome
                    outcome = found

                try:
                    yield opened, record
                finally:
                    with self.skipping(opened.path):
                        report.add_file(opened.query, outcome, opened.among)

    def planned_files(
        self,
        columns: Sequence[OutputColumn] | None = None,
        totals: Totals | None = None,
        *,
        does: Ahead = Ahead.PLAN,
        is_alone: IsAlone | None = None,
    ) -> Generator[tuple[DataFile, OpenPlan], None, None]:
        """Open, plan and yield each file that neither partition values nor a lake index exclude or answer.

        Args:
            columns: The columns to read; None for those of the query.
            totals: Aggregates; see `each_plan`.
            does: See `plan_files`.
            is_alone: See `each_plan`.
        """
        table, snapshot, report = self._table, self.snapshot, self.report
        binder = self._binder if columns is None else self._binder.for_columns(columns)
        questions = None if totals is None else totals.questions
        planner = Planner(table, binder, report, snapshot)
        survivors = planner.survivors(questions)
        for answers in survivors.answers:
            assert totals is not None
            totals.add_summaries(answers.summaries)
        plan = partial(
            plan_files, binder=binder, open_file=snapshot.open, does=does, counts_certain=totals is not None
        )
        planned = self._plan_survivors(planner, survivors.files, plan, is_alone)
        with contextlib.closing(planned):
            for entry, future in planned:
                with self.skipping(entry.path):
                    outcome = future.result()
                if report.has_failed(entry.path):
                    continue
                try:
                    yield entry, outcome
                finally:
                    if outcome.among is None:
                        snapshot.remember(entry, outcome.query.file)
                    outcome.query.close()

    def _plan_survivors(
        self,
        planner: Planner,
        survivors: Sequence[int],
        plan: Callable[..., Generator[Planned, None, None]],
        is_alone: IsAlone | None,
    ) -> Generator[Planned, None, None]:
        """Plan the files to open; with a limit, first those that may suffice, one by one."""
        table = self._table
        files, known = planner.planned(survivors, reads=not self._is_limited)
        table.cache.drop_tails()
        if self._is_limited:
            num_first = len(files) if self._binder.predicate is None else FIRST_FILES
            first = [table.files[ordinal] for ordinal in files[:num_first]]
            yield from plan(first, at_once=1, does=Ahead.PLAN, known=known)
            files = files[num_first:]
            files, known = planner.planned(files)
        left = [table.files[ordinal] for ordinal in files]
        at_once = min(table.files_at_once, max(len(left), 1))
        items = left if is_alone is None else stretches(left, known, at_once, is_alone)
        yield from plan(items, at_once=at_once, known=known)
