"""Decide which files of a lake Spark need not read, with the planner that tables use."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing

from intarsia.lake.data_file import DataFile
from intarsia.lake.planning import OpenPlan, plan_files
from intarsia.lake.table_files import TableFiles
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import count_planned
from intarsia.read.report import FileOutcome, ScanReport
from intarsia.spark.binding import SparkBinder


class FilePlanner:
    """Chooses files by their partition values and indexes.

    Args:
        binder: Binds the query to each file.
        count_pages: Whether the report counts the pages to read, which takes a little longer.

    Attributes:
        report: The files of the last call, and what each index excluded.
    """

    def __init__(self, binder: SparkBinder, *, count_pages: bool = False) -> None:
        self._binder = binder
        self._count_pages = count_pages
        self.report = ScanReport(rows_matched=None, bytes_planned=0)

    def surviving(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Return the files that might contain matching rows, and those that cannot be planned, in order."""
        self.report = ScanReport(files_total=len(files), rows_matched=None, bytes_planned=0)
        if not files:
            return []
        table = TableFiles(files)
        left = [entry for entry in files if not self._is_excluded(entry)]
        with closing(plan_files(left, self._binder, table.open_file, table.files_at_once)) as planned:
            return [entry for entry, future in planned if self._keeps(entry, future)]

    def _is_excluded(self, entry: DataFile) -> bool:
        column = self._binder.excluding_column(entry)
        if column is not None:
            self.report.add_unopened(entry.size_bytes, column)
        return column is not None

    def _keeps(self, entry: DataFile, future: Future[OpenPlan]) -> bool:
        try:
            found = future.result()
            with closing(found.query):
                return self._has_candidates(found)
        except Exception as error:  # noqa: BLE001  Spark reads the file, or raises its own error
            self.report.add_unplanned(entry.path, error)
            return True

    def _has_candidates(self, planned: OpenPlan) -> bool:
        rows = planned.plan.candidates
        counts = ReadCounts(rows_candidate=rows.num_rows)
        if self._count_pages:
            counts = count_planned(planned.query, rows)
        self.report.add_file(planned.query, FileOutcome(planned.plan, counts))
        return not rows.is_empty
