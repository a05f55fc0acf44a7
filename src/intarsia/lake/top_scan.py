"""The first rows of a table in an order: only files that can contain them are read."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from intarsia.arrow.owned_rows import no_rows, take_rows
from intarsia.errors import ReplacedWhileReadError
from intarsia.file import ParquetInput
from intarsia.file.joined import JoinedPart
from intarsia.lake.binding import TableBinder
from intarsia.lake.data_file import DataFile
from intarsia.lake.joined_files import KnownFacts, PlannedFamily, plan_together
from intarsia.lake.planning import OpenPlan, plan_files
from intarsia.lake.split import file_identity
from intarsia.lake.survivors import find_survivors
from intarsia.lake.table_files import TableFiles
from intarsia.lake.top_candidates import TopCandidates
from intarsia.lake.top_together import FamilySearch, FoundRows
from intarsia.predicate import And, Predicate
from intarsia.read.ahead import ahead
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import current_plan, plan_file
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import read_known_rows
from intarsia.read.output_columns import OutputColumn, concat_rows, with_constants
from intarsia.read.page_states import pages_read
from intarsia.read.pages_read import PagesRead
from intarsia.read.report import FileOutcome, ScanReport
from intarsia.read.retry import retry_without_wrong_index
from intarsia.read.sort_key import SortKey, TopRows
from intarsia.read.top_rows import search_file, values_of
from intarsia.rows.selection import RowSelection

#: The number of files to search first, if bounds prove that other files cannot contain the rows.
_FIRST_FILES = 8


class _Source(NamedTuple):
    """A file in which rows were found.

    Attributes:
        identity: The identity of its source; None if unknown, as for a file that was just written.
        content: Its length and a hash of its footer.
        pages: The pages that the search read.
    """

    identity: Hashable | None
    content: str
    pages: PagesRead

    def is_same(self, file: ParquetInput) -> bool:
        """Return whether an open file is the same."""
        now = file.source.identity
        if self.identity is not None and now is not None:
            return now == self.identity
        return file_identity(file) == self.content


class _KeyColumns:
    """A query that reads only the columns of the order.

    Args:
        binder: The query.
        key: The order.
    """

    def __init__(self, binder: TableBinder, key: SortKey) -> None:
        self._binder = binder
        self._key = key

    def query(self, entry: DataFile, file: ParquetInput) -> FileQuery:
        """See `intarsia.lake.planning.Binder`."""
        return self._binder.query(entry, file).for_columns(self._key.columns)


class TopScan:
    """A search for the rows of a table that come first in an order.

    Args:
        table: The table.
        where: The rows to search; None for all.
        columns: The columns of the result.
        schema: The schema of the result.
        key: The order.
        limit: The maximum number of rows.
        report: The report of the scan.
    """

    def __init__(
        self,
        table: TableFiles,
        where: Predicate | None,
        columns: Sequence[OutputColumn],
        schema: pa.Schema,
        key: SortKey,
        limit: int,
        report: ScanReport,
    ) -> None:
        self._table = table
        self._where = where
        self._columns = list(columns)
        self._schema = schema
        self._key = key
        self._top = TopRows(key, limit)
        self._report = report
        known = {column.path for column in columns}
        self._searched = [*columns, *(column for column in key.columns if column.path not in known)]
        self._sources: dict[int, _Source] = {}
        self._has_digests = np.zeros(len(table.files), dtype=bool)
        # files that were searched for all rows that match, and those of them that have any
        self._num_searched = self._num_matching = 0

    def rows(self, *, is_current: bool) -> pa.Table:
        """Return the rows in order.

        Args:
            is_current: The table's metadata was read in the same run.
        """
        if self._top.limit:
            self._search_all(is_current=is_current, uses_floor=True)
            if self._top.has_wrong_floor:  # bounds that are not values, although the files claim it
                self._top = TopRows(self._key, self._top.limit)
                self._search_all(is_current=is_current, uses_floor=False)
        return self._winners()

    def _search_all(self, *, is_current: bool, uses_floor: bool) -> None:
        table, report = self._table, self._report
        binder = self._binder(None)
        known = table.known_files(is_current=is_current)
        if known is not None:
            self._has_digests = known.is_known
        found = find_survivors(table, binder, report, is_current=is_current).files
        candidates = TopCandidates(table, self._key, binder.queried, report, found, is_current=is_current)
        if self._where is not None:
            candidates.exclude_by_footers(self._where)
        num_files = 1
        condition: Predicate | None = None
        if self._where is None and uses_floor:
            floor = candidates.floor(self._top.limit)
            if floor is not None:
                self._top = TopRows(self._key, self._top.limit, floor)
                condition = self._key.at_least(floor)
                candidates.exclude(condition)
                num_files = min(self._top.limit, _FIRST_FILES)
        while files := candidates.take(num_files):
            current = is_current or candidates.footers.keys() >= set(files)
            if len(files) > 1 and (self._where is not None or condition is not None):
                self._search_together(files, candidates.footers, is_current=current)
            else:
                for file in files:
                    self._search(file, is_current=current)
            if self._top.condition is not None and self._top.condition != condition:
                condition = self._top.condition
                candidates.exclude(condition)
            num_files *= 2
        table.tails.clear()

    def _binder(self, condition: Predicate | None) -> TableBinder:
        """Bind the query for the rows that match another condition, too."""
        where = [one for one in (self._where, condition) if one is not None]
        return TableBinder(
            self._table, And(tuple(where)) if len(where) > 1 else next(iter(where), None), self._searched
        )

    # --- the search --------------------------------------------------------------------------------

    def _search(self, file: int, *, is_current: bool) -> None:
        entry = self._table.files[file]
        with self._table.open_file(entry, is_current=is_current) as opened:
            self._search_open(file, opened)

    def _search_open(self, file: int, opened: ParquetInput) -> None:
        entry = self._table.files[file]

        def query_for(condition: Predicate | None) -> FileQuery:
            with opened.named_errors():
                return self._binder(condition).query(entry, opened)

        is_open, num_rows = self._top.condition is None, self._top.rows.num_rows
        query, outcome = search_file(query_for, file, self._key, self._top)
        if is_open:
            self._num_searched += 1
            self._num_matching += self._top.rows.num_rows > num_rows
        self._report.add_file(query, outcome)
        self._sources[file] = _Source(opened.source.identity, file_identity(opened), query.pages)
        self._table.remember(entry, opened)

    def _search_together(
        self, files: Sequence[int], footers: Mapping[int, JoinedPart], *, is_current: bool
    ) -> None:
        """Search files with a query that has a condition; the small ones are planned and read together.

        Args:
            files: The files.
            footers: The footers that have been read for the order of the files.
            is_current: The footers of these files are among them.
        """
        table, binder = self._table, self._binder(self._top.condition)
        ordinals = {table.files[file].path: file for file in files}
        left, facts = set(files), KnownFacts(table)
        # then Bloom filters and dictionaries exclude few files, and most rows are excluded by the order
        most_match = 2 * self._num_matching > self._num_searched
        reads = table.has_objects or not most_match
        for family in plan_together(
            table, binder, self._report, files, reads=reads, is_current=is_current, footers=footers
        ):
            left.difference_update(family.ordinals[~family.is_left].tolist())
            done = self._search_family(family, binder, most_match=most_match)
            left -= done
            facts.add(family, done)
        planned = plan_files(
            [table.files[file] for file in files if file in left],
            _KeyColumns(binder, self._key),
            partial(table.open_file, is_current=is_current),
            min(table.files_at_once, max(len(left), 1)),
            reads_all=True,
            known=facts.by_path,
            joined=table.joined,
        )
        found = FoundRows(self._top)
        with contextlib.closing(planned):
            for entry, future in planned:
                plan = future.result()
                with contextlib.closing(plan.query), plan.query.file.named_errors():
                    if plan.pieces is None:
                        found.sort()
                        self._search_open(ordinals[entry.path], plan.query.file)
                    else:
                        self._add_rows(ordinals[entry.path], plan, found)
        found.sort()

    def _search_family(self, family: PlannedFamily, binder: TableBinder, *, most_match: bool) -> set[int]:
        """Search files that were planned together.

        Args:
            family: The files.
            binder: The query by which they were planned.
            most_match: Whether most files have rows that match the predicate of the scan.

        Returns:
            The files that were searched. The others are searched separately.
        """
        search = FamilySearch(
            self._table, family, binder, self._key, self._has_digests, starts_with_key=most_match
        )
        done: set[int] = set()
        for found in search.searched(self._searched, self._top.limit, self._report):
            if binder.predicate is self._where:  # later, it depends on the rows that were found, too
                self._num_searched += len(found.parts)
                self._num_matching += found.num_matching
            rows = found.top.rows
            self._top.add(
                rows.select(self._key.schema.names), rows["file"].to_numpy(), rows["row"].to_numpy()
            )
            for file in np.unique(rows["file"].to_numpy()).tolist():
                part, pages = found.parts[file], found.pages_of(file)
                self._sources[file] = _Source(part.identity, file_identity(part.metadata), pages)
            done.update(found.parts)
        return done

    def _add_rows(self, file: int, plan: OpenPlan, found: FoundRows) -> None:
        query, counts = plan.query, ReadCounts()
        for piece in plan.pieces or ():
            counts += replace(piece.counts, rows_matched=0)
            if piece.rows.num_rows:
                numbers = piece.numbers.rows()
                found.add(values_of(query, self._key, piece), np.full(len(numbers), file), numbers)
                identity = query.file.source.identity
                self._sources[file] = _Source(identity, file_identity(query.file), query.pages)
        self._report.add_file(query.for_columns(self._searched), FileOutcome(plan.plan, counts))
        self._table.remember(self._table.files[file], query.file)

    # --- the rows ----------------------------------------------------------------------------------

    def _winners(self) -> pa.Table:
        """Read the rows that were found, in order."""
        rows = self._top.rows
        files, numbers = rows["file"].to_numpy(), rows["row"].to_numpy()
        nothing = no_rows(self._schema)
        binder = TableBinder(self._table, None, self._columns)
        wanted = np.unique(files).tolist()
        read = ahead(
            lambda file: self._rows_of(file, numbers[files == file], binder),
            wanted,
            min(self._table.files_at_once, max(len(wanted), 1)),
        )
        pieces = []
        with contextlib.closing(read):
            for _, future in read:
                query, counts, read_before, found = future.result()
                self._report.add_further_reads(query, counts, read_before)
                pieces.append(found)
        result = concat_rows([nothing, *pieces])
        if not self._columns:
            return result
        position = np.empty(len(files), dtype=np.int64)
        position[np.lexsort((numbers, files))] = np.arange(len(files))
        return take_rows(result, position)

    def _rows_of(
        self, file: int, numbers: np.ndarray, binder: TableBinder
    ) -> tuple[FileQuery, ReadCounts, list[int], pa.Table]:
        """Read some rows of a file.

        Returns:
            The query, which is closed, the counts, the number of pages of each leaf that were read before,
            and the rows.
        """
        entry = self._table.files[file]
        wanted = RowSelection.from_rows(np.sort(numbers))
        with self._table.open_file(entry, is_current=True) as opened:
            source = self._sources[file]
            if not source.is_same(opened):
                raise ReplacedWhileReadError(
                    f"{entry.path}: the file was replaced while it was read; scan again",
                    reason="file-replaced",
                    path=entry.path,
                )
            query = replace(binder.query(entry, opened), pages=source.pages)
            read_before = pages_read(query)
            plan = plan_file(query)
            pieces = retry_without_wrong_index(
                opened, lambda: list(read_known_rows(query, current_plan(query, plan), wanted))
            )
            rows = concat_rows([piece.rows for piece in pieces])
            counts = sum((piece.counts for piece in pieces), ReadCounts())
            columns = [query.own(column) for column in self._columns]
            found = with_constants(rows, query.columns, query.constants, columns, self._schema)
            return query, counts, read_before, found
