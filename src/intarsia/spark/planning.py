"""Decide which files of a lake Spark need not read, with the planner that tables use."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing

from intarsia.errors import IntarsiaError
from intarsia.file import Ignored
from intarsia.lake.data_file import DataFile
from intarsia.lake.planning import OpenPlan, plan_files
from intarsia.lake.survivors import find_survivors
from intarsia.lake.table_files import TableFiles
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import count_planned
from intarsia.read.report import FileOutcome, ScanReport
from intarsia.spark.binding import SparkBinder
from intarsia.spark.table_binding import SparkTableBinder
from intarsia.storage import IoCounts


class FilePlanner:
    """Chooses files by their partition values, the lake index, and the indexes of each file.

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
        left = [files[ordinal] for ordinal in self._not_excluded(table)]
        with closing(plan_files(left, self._binder, table.open_file, table.files_at_once)) as planned:
            return [entry for entry, future in planned if self._keeps(entry, future)]

    def _not_excluded(self, table: TableFiles) -> Sequence[int]:
        """Return the ordinals of the files that partition values and the lake index do not exclude."""
        try:
            return find_survivors(table, SparkTableBinder(self._binder, table.files), self.report).files
        except (IntarsiaError, OSError) as error:  # such as a store that only Spark can reach
            note = Ignored(table.files[0].path, "lake index", str(error), "storage-error")
            self.report = ScanReport(files_total=len(table.files), rows_matched=None, bytes_planned=0)
            self.report.add_index_reads(IoCounts(), [note])
            return range(len(table.files))

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
