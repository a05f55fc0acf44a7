"""Choose the files that Spark has to read, and the rows in them, with the planner of tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, field

from intarsia.ahead import Completion
from intarsia.errors import IntarsiaError, ObjectStoreError, ReplacedWhileReadError
from intarsia.file import Ignored, ParquetInput
from intarsia.file.writers import Claim
from intarsia.format.footer import chunk_range
from intarsia.lake.data_file import DataFile
from intarsia.lake.planner import Planner
from intarsia.lake.planning import OpenPlan, plan_files
from intarsia.lake.snapshot import Snapshot
from intarsia.lake.split import file_identity
from intarsia.lake.table_files import TableFiles
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import count_planned
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import FileOutcome
from intarsia.read.report import LAKE_INDEX, ScanReport
from intarsia.read.trace import QueryTrace
from intarsia.records import dataclass
from intarsia.rows.selection import RowSelection
from intarsia.spark.binding import SparkBinder
from intarsia.storage import QueryReads, counting

#: Files that are planned before it is decided whether to plan the others.
_SAMPLED = 16

#: The share of the bytes of the planned files that indexes have to exclude for more files to be planned.
_MIN_SHARE = 0.1

#: Files that are planned between two such decisions.
_BATCH = 64


@dataclass(frozen=True)
class RemainingFile:
    """A file that Spark has to read.

    Attributes:
        ordinal: Its ordinal in the table.
        file: The file, with the identity with which it was planned if it is an object.
        rows: The rows that might match; None if the file was not planned, or if all might. Whole row groups
            if the file's page index is not trusted.
        num_bytes: The estimated number of bytes of these rows; for a file that was not planned, its size.
        identity: The identity of the file that was planned; see `intarsia.lake.split.file_identity`. None if
            there are no ``rows``.
        row_groups: The offsets in bytes of the row groups with ``rows``; empty without them.
    """

    ordinal: int
    file: DataFile
    rows: RowSelection | None
    num_bytes: int
    identity: str | None = None
    row_groups: tuple[int, ...] = ()


@dataclass(eq=False)
class FilePlanner:
    """Chooses files by their partition values, the lake index, and the indexes of each file.

    Attributes:
        binder: Binds the query to each file.
        count_pages: Whether the report counts the pages to read, which takes a little longer.
        seconds: Planning single files stops after this time, or if a sample of them shows that planning saves
            too little; the others are read as a whole. None to plan all.
        whole_row_groups: Whether row groups can only be read as a whole.
        plans_replaced: Whether a file that is no longer as it was listed is planned as it is now. Else it is
            read as a whole, because the plan would be taken for one of the listed version.
        clock: Returns the time in seconds.
        trace: What a page map needs in addition; None if none is drawn.
        report: The files of the last call, and what each index excluded.
        is_out_of_time: Whether the last call stopped after its time.
        failure: Why a store could not be read by the last call; None if any of its objects was planned.
    """

    binder: SparkBinder
    _: KW_ONLY
    count_pages: bool = False
    seconds: float | None = None
    whole_row_groups: bool = False
    plans_replaced: bool = True
    clock: Callable[[], float] = time.monotonic
    trace: QueryTrace | None = None
    report: ScanReport = field(init=False)
    is_out_of_time: bool = field(default=False, init=False)
    failure: ObjectStoreError | None = field(default=None, init=False)

    def planned(self, table: TableFiles) -> list[RemainingFile]:
        """Return the files that might contain matching rows, and those that cannot be planned, in order."""
        found = self.planned_at_most(len(table.files), table)
        assert found is not None
        return found

    def planned_at_most(
        self, most: int, table: TableFiles, snapshot: Snapshot | None = None
    ) -> list[RemainingFile] | None:
        """Return the result of `planned`; None if more files would have to be opened than ``most``.

        Args:
            snapshot: What is known about the files, which have not changed since; None to compare them.
        """
        reads = QueryReads()
        self.failure = None
        self.report = self._new_report(table, reads)
        with counting(reads):
            snapshot = snapshot or table.new_snapshot()
            planner, left = self._not_excluded(table, snapshot)
            if len(left) > most:
                return None
            found: dict[int, RemainingFile | None] = {}
            for batch in self._batches(left, found, table):
                possible, known = planner.planned(batch)
                found |= dict.fromkeys(batch)
                files = [table.files[ordinal] for ordinal in possible]
                plans = plan_files(files, self.binder, snapshot.open, table.footers_at_once, known=known)
                with closing(plans):
                    for ordinal, (entry, future) in zip(possible, plans, strict=True):
                        found[ordinal] = self._planned(ordinal, entry, future, snapshot)
            table.cache.drop_tails()
            for ordinal in () if self.plans_replaced else found:
                file = table.files[ordinal]
                if not snapshot.is_as_listed(file):
                    found[ordinal] = RemainingFile(ordinal, file, None, file.size_bytes)
            unplanned = {ordinal: table.files[ordinal] for ordinal in left if ordinal not in found}
            if unplanned:
                self.report.add_whole(len(unplanned), sum(file.size_bytes for file in unplanned.values()))
            for ordinal, file in unplanned.items():
                found[ordinal] = RemainingFile(ordinal, file, None, file.size_bytes)
            return [planned for _, planned in sorted(found.items()) if planned is not None]

    def _new_report(self, table: TableFiles, reads: QueryReads) -> ScanReport:
        return ScanReport(
            files_total=len(table.files),
            reads=reads,
            rows_matched=None,
            bytes_planned=0,
            _trace=self.trace,
        )

    def _not_excluded(self, table: TableFiles, snapshot: Snapshot) -> tuple[Planner, Sequence[int]]:
        """Return the ordinals of the files that partition values and the lake index do not exclude."""
        query = self.binder.of_table(table.files)
        planner = Planner(table, query, self.report, snapshot)
        try:
            return planner, planner.survivors()
        except (IntarsiaError, OSError) as error:  # such as a store that only Spark can reach
            self._add_failure(error)
            note = Ignored(table.files[0].path, LAKE_INDEX, str(error), "storage-error")
            self.report = self._new_report(table, self.report.reads)
            self.report.add_ignored([note])
            return Planner(table, query, self.report, snapshot), range(len(table.files))

    def _batches(
        self, left: Sequence[int], found: dict[int, RemainingFile | None], table: TableFiles
    ) -> Iterator[Sequence[int]]:
        """Yield files to plan as long as planning saves enough; files in ``found`` have been planned."""
        if self.seconds is None or len(left) <= 2 * _SAMPLED:
            yield left
            return
        started = self.clock()
        self.is_out_of_time = False
        sample = left[:: len(left) // _SAMPLED][:_SAMPLED]
        yield sample
        chosen = set(sample)
        rest = [ordinal for ordinal in left if ordinal not in chosen]
        for first in range(0, len(rest), _BATCH):
            before = int(table.file_bytes[list(found)].sum())
            after = sum(planned.num_bytes for planned in found.values() if planned is not None)
            self.is_out_of_time = self.clock() - started > self.seconds
            if before - after < _MIN_SHARE * before or self.is_out_of_time:
                return
            yield rest[first : first + _BATCH]

    def _planned(
        self, ordinal: int, entry: DataFile, future: Completion[OpenPlan], snapshot: Snapshot
    ) -> RemainingFile | None:
        """Return the rows to read of a file; None if there are none."""
        try:
            if isinstance(future.exception(), ReplacedWhileReadError):  # since the lake index was built
                snapshot.forget([entry.path])
                ((_, future),) = plan_files([entry], self.binder, snapshot.open, 1)
            outcome = future.result()
            with closing(outcome.query):
                return self._with_candidates(ordinal, entry, outcome)
        except Exception as error:  # noqa: BLE001  Spark reads the file, or raises its own error
            self._add_failure(error)
            self.report.add_unplanned(entry.path, error)
            return RemainingFile(ordinal, entry, None, entry.size_bytes)

    def _add_failure(self, error: Exception) -> None:
        if isinstance(error, ObjectStoreError) and not self.report.files_opened:
            self.failure = self.failure or error

    def _with_candidates(self, ordinal: int, entry: DataFile, planned: OpenPlan) -> RemainingFile | None:
        query, rows = planned.query, planned.plan.candidates
        if self.whole_row_groups:
            rows = _whole_row_groups(query, rows)
        groups = query.groups_with(rows)
        counts = ReadCounts(row_groups=len(groups), rows_candidate=rows.num_rows)
        if self.count_pages:
            counts = count_planned(query, rows)
        self.failure = None
        self.report.add_file(query, FileOutcome(planned.plan, counts, counts_pages=self.count_pages))
        if rows.is_empty:
            return None
        if not _has_trusted_pages(query.file):
            rows = _whole_row_groups(query, rows)
        if rows.num_rows == query.file.footer.num_rows:
            return RemainingFile(ordinal, entry, None, entry.size_bytes)
        return RemainingFile(
            ordinal,
            entry.as_opened(query.file.source.identity),
            rows,
            query.estimated_bytes(rows),
            file_identity(query.file),
            tuple(_offset(query.file, group) for group in groups),
        )


def _whole_row_groups(query: FileQuery, rows: RowSelection) -> RowSelection:
    """Return all rows of the row groups that contain some of the rows."""
    edges, groups = query.file.footer.row_group_starts, query.groups_with(rows)
    return RowSelection.union_of(edges[:-1][groups], edges[1:][groups])


def _offset(file: ParquetInput, group: int) -> int:
    """Return the offset of a row group: that of its first page, as parquet-java defines it."""
    meta = file.footer.metadata.row_groups[group].columns[0].meta_data
    return -1 if meta is None else chunk_range(meta)[0]


def _has_trusted_pages(file: ParquetInput) -> bool:
    """Return whether Spark may find single pages of any column by the page index."""
    for leaf in file.footer.leaves:
        trust = file.trust(leaf)
        if trust.doubt(Claim.PAGE_INDEX) is None:
            continue  # without a look at its chunks, because there may be millions
        chunks = (group.columns[leaf.ordinal] for group in file.footer.metadata.row_groups)
        if any(trust.doubt_of_page_index(chunk) for chunk in chunks):
            return False
    return True
