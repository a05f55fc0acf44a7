"""Reading the rows of a plan: the predicate's columns first, then the other columns of the matching rows.

The predicate's columns are read together, unless an index estimates that one condition keeps few rows. Then
its columns are read first, and those of the other conditions only for the remaining rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.arrow.owned_rows import own_rows
from intarsia.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from intarsia.file.chunk_plan import PageChooser, plan_chunk
from intarsia.file.claims import check_claims
from intarsia.file.decode import PageDecoder
from intarsia.file.fetch import PageCache
from intarsia.file.joined import JoinedInput
from intarsia.file.synthetic import decode_errors
from intarsia.format.footer import chunk_range
from intarsia.predicate import Bound
from intarsia.read.ahead import ahead
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.read.retry import WrongPageIndexError, retry_without_wrong_index
from intarsia.read.row_group import RowGroupColumns, RowReader, select_columns
from intarsia.read.row_group_run import RowGroupRun, RowGroupRuns, RunColumns
from intarsia.rows.selection import RowSelection
from intarsia.storage import BufferedSource, ByteRange, CountedSource, SourceStream

#: Maximum number of row groups, or runs of small ones, that are decoded concurrently (contract C7).
RUNS_AT_ONCE = 2

#: At most this many row groups, with fewer than this many bytes, are decoded serially, because starting a
#: thread takes longer.
_FEW_ROW_GROUPS = 2
_CONCURRENT_BYTES = 1 << 20


@dataclass(frozen=True)
class Piece:
    """Some matching rows, and the counts of reading them.

    Attributes:
        rows: The columns of the query without constant columns.
        counts: The counts for these rows and for the candidate rows that do not match.
        numbers: The rows, as row numbers of the file.
    """

    rows: pa.Table
    counts: ReadCounts
    numbers: RowSelection

    def head(self, num_rows: int) -> Piece:
        """Return the first rows, and all counts except that of the matching rows."""
        if self.rows.num_rows <= num_rows:
            return self
        rows = own_rows(self.rows.slice(0, num_rows))
        return Piece(rows, replace(self.counts, rows_matched=rows.num_rows), self.numbers.head(rows.num_rows))


def read_rows(
    query: FileQuery, plan: FilePlan, limit: int | None = None, *, runs_at_once: int = 1
) -> Iterator[Piece]:
    """Yield the matching rows, row group by row group, in the order of the file.

    If a page index is found to be wrong, its row group is read again without it.

    Args:
        query: The query.
        plan: The plan of the query.
        limit: Stop after this many rows.
        runs_at_once: Maximum number of runs of row groups that are being read or wait to be taken. More
            than 1 is only for callers that take all rows.
    """
    candidates = plan.candidates
    if candidates.is_empty:
        return
    if query.predicate is None and limit is not None:
        candidates = candidates.head(limit)
    reader = FileReader(query, plan)
    left = limit

    def read_one(group: int, wanted: RowSelection) -> Piece:
        return retry_without_wrong_index(query.file, partial(reader.read_again, group, wanted, left))

    runs = RowGroupRuns(query, plan, candidates)

    def needed_runs() -> Iterator[RowGroupRun]:
        position = 0
        while position < len(runs.groups) and left != 0:
            run = runs.run_at(position, left)
            yield run
            position += len(run.groups)

    def read(run: RowGroupRun) -> Iterator[Piece]:
        return reader.read_run(run, candidates, read_one)

    # with a limit the rows of one run determine whether another one is needed
    at_once = _at_once(query, runs, candidates, runs_at_once) if limit is None else 1
    for piece in _in_order(read, needed_runs(), at_once):
        if left is not None:
            piece = piece.head(left)
            left -= piece.rows.num_rows
        yield piece


def read_known_rows(query: FileQuery, plan: FilePlan, rows: RowSelection) -> Iterator[Piece]:
    """Yield the matching rows among some rows, for callers that handle the other candidates themselves.

    Up to `RUNS_AT_ONCE` runs of row groups are read concurrently.

    Args:
        query: The query.
        plan: The plan of the query.
        rows: The rows to read; rows that are not candidates are skipped.

    Raises:
        WrongPageIndexError: If a page index is found to be wrong, so that the caller's results for the other
            rows may be wrong, too.
    """
    reader = FileReader(query, plan)
    wanted = plan.candidates & rows
    runs = RowGroupRuns(query, plan, wanted)

    def read(run: RowGroupRun) -> Iterator[Piece]:
        yield from reader.read_run(run, wanted, reader.read)
        reader.refuse_outdated(run.groups)

    yield from _in_order(read, runs, _at_once(query, runs, wanted, RUNS_AT_ONCE))


def _at_once(query: FileQuery, runs: RowGroupRuns, rows: RowSelection, most: int) -> int:
    """Return the number of runs to read concurrently."""
    most = min(most, len(runs.groups))
    if most < 2 or query.file.source.coalesce_bytes or len(runs.groups) > _FEW_ROW_GROUPS:
        return most
    return most if query.estimated_bytes(rows) >= _CONCURRENT_BYTES else 1


def _in_order(
    read: Callable[[RowGroupRun], Iterator[Piece]], runs: Iterable[RowGroupRun], at_once: int
) -> Iterator[Piece]:
    """Read runs, several of them concurrently, and yield their pieces in the order of the file."""
    if at_once < 2:
        for run in runs:
            yield from read(run)
        return
    with contextlib.closing(ahead(lambda run: list(read(run)), runs, at_once)) as found:
        for _, future in found:
            yield from future.result()


class FileReader:
    """A reader of the row groups of a file.

    Args:
        query: The query.
        plan: The plan of the query.
    """

    def __init__(self, query: FileQuery, plan: FilePlan) -> None:
        self._query = query
        self._plan = plan
        self._decoder = PageDecoder(query.file)

    def read(self, group: int, wanted: RowSelection, limit: int | None = None) -> Piece:
        """Read the matching rows of a row group.

        Args:
            group: Ordinal of the row group.
            wanted: The rows that might match, relative to the row group.
            limit: Maximum number of rows, at least 1; None for all. Only the pages that are needed for them
                are read, and up to as many more.

        Raises:
            WrongPageIndexError: If the page index of this row group is wrong, or has been found to be wrong
                since the plan was made, possibly by a scan in another thread. Other rows might match then.
        """
        is_proven = self.is_proven(group, wanted)
        if is_proven and limit is not None:
            wanted = wanted.head(limit)
        is_whole = wanted.num_rows == self._num_rows(group) and not isinstance(self._query.file, JoinedInput)
        if is_whole and is_proven:
            return self.read_whole(group)
        stages = () if is_proven else self._plan.stages
        piece = self._read_selected(group, wanted, stages, limit)
        self.refuse_outdated([group])
        return piece

    def read_again(self, group: int, wanted: RowSelection, limit: int | None = None) -> Piece:
        """Read as `read` does; if the page index is wrong, all rows that are not deleted are candidates."""
        if not self._is_outdated(group):
            return self.read(group, wanted, limit)
        first, num_rows = self._first_row(group), self._num_rows(group)
        present = self._query.present.clip(first, first + num_rows).shift(-first)
        is_single = not isinstance(self._query.file, JoinedInput)
        if self._query.predicate is None and present.num_rows == num_rows and is_single:
            return self.read_whole(group)
        return self._read_selected(group, present, self._plan.stages, limit)

    def read_run(
        self, run: RowGroupRun, rows: RowSelection, read_one: Callable[[int, RowSelection], Piece]
    ) -> Iterator[Piece]:
        """Read the matching rows of a run of row groups, in one piece unless something in it is damaged.

        Args:
            run: The run.
            rows: The rows that might match.
            read_one: A function that reads one row group, given its ordinal and the rows relative to it. Its
                errors name the column and the location.
        """
        together = self._read_together(run) if len(run.groups) > 1 else None
        if together is not None:
            yield together
            return
        edges = self._query.file.footer.row_group_starts
        for group in run.groups:
            start, stop = int(edges[group]), int(edges[group + 1])
            yield read_one(group, rows.clip(start, stop).shift(-start))

    def _read_together(self, run: RowGroupRun) -> Piece | None:
        """Read the matching rows of a run at once; None if something in it is damaged."""
        columns = RunColumns(self._query, run.groups, self._plan.dictionary_pages)
        stages = () if run.is_proven else self._plan.stages
        try:
            rows, counts, found = RowReader(self._query, columns).read(
                [RowSelection.all(columns.num_rows)], stages
            )
            return Piece(rows, counts, columns.row_numbers(found))
        except FormatError:
            return None

    def refuse_outdated(self, groups: Sequence[int]) -> None:
        """Raise if the page index of a row group has been found to be wrong since the plan was made.

        Raises:
            WrongPageIndexError: If it has.
        """
        for group in groups:
            if self._is_outdated(group):
                raise WrongPageIndexError(group, "it contradicts the pages")

    def _read_selected(
        self, group: int, wanted: RowSelection, stages: Sequence[Bound], limit: int | None
    ) -> Piece:
        columns = RowGroupColumns(self._query, self._plan, self._decoder, group)
        parts = [wanted] if limit is None or not stages else columns.parts(wanted, limit)
        rows, counts, found = RowReader(self._query, columns).read(parts, stages, limit)
        return Piece(rows, counts, found.shift(self._first_row(group)))

    def _first_row(self, group: int) -> int:
        return int(self._query.file.footer.row_group_starts[group])

    def _is_outdated(self, group: int) -> bool:
        found = self._query.file.metadata.contradictions - self._plan.contradictions
        return any(one.row_group == group for one in found)

    def _num_rows(self, group: int) -> int:
        return self._query.file.footer.metadata.row_groups[group].num_rows

    def is_proven(self, group: int, wanted: RowSelection) -> bool:
        """Return whether rows of a row group are proven to match, so the predicate's columns are not needed.

        At least one column has to be read, because its values determine the number of rows.
        """
        if self._query.predicate is None:
            return True
        proven = self._plan.proven
        if proven.is_empty or not self._query.output_leaves:
            return False
        first = self._first_row(group)
        return (wanted.shift(first) - proven.clip(first, first + self._num_rows(group))).is_empty

    def read_whole(self, group: int) -> Piece:
        """Read all rows of a row group with pyarrow, through the counted source."""
        query, num_rows = self._query, self._num_rows(group)
        for leaf in query.output_leaves:
            query.pages.add_chunks(leaf.ordinal, [group])
        counts = ReadCounts(row_groups=1, rows_candidate=num_rows, rows_matched=num_rows)
        first = self._first_row(group)
        numbers = RowSelection.of_range(first, first + num_rows)
        if not query.output_leaves:
            return Piece(select_columns(query, {}, num_rows), counts, numbers)
        return Piece(self._read_by_pyarrow(group, num_rows), counts, numbers)

    def _read_by_pyarrow(self, group: int, num_rows: int) -> pa.Table:
        query = self._query
        for leaf in query.output_leaves:
            check_claims(query.file, group, leaf)
        metas = [query.file.footer.chunk_metadata(group, leaf) for leaf in query.output_leaves]
        chunks = sorted({ByteRange(*chunk_range(meta)) for meta in metas})
        encodings = (encoding for meta in metas for encoding in meta.encodings)  # needed only for an error
        # not in threads of pyarrow: one that still holds bytes of Python when Python exits aborts the process
        data = query.file.source.read_ranges(chunks)
        held = BufferedSource(query.file.source)  # pyarrow reads bytes behind the chunks of old parquet-mr
        try:
            with decode_errors(f"row group {group}", "RowGroup", encodings), held.buffering() as buffer:
                for chunk, of_chunk in zip(chunks, data, strict=True):
                    buffer(chunk.start, of_chunk)
                reader = pq.ParquetFile(
                    pa.PythonFile(SourceStream(CountedSource(held)), mode="r"),
                    metadata=query.file.arrow_metadata,
                    pre_buffer=False,
                    page_checksum_verification=query.file.page_checksums,
                ).reader
                columns = [leaf.ordinal for leaf in query.output_leaves]
                table = reader.read_row_group(group, column_indices=columns, use_threads=len(columns) > 1)
        except (FormatError, MemoryError) as error:  # pages may claim more bytes or values than they have
            names = {leaf.path[0] for leaf in query.output_leaves}
            if isinstance(error, UnsupportedFeatureError) and len(names) == 1:
                error.column = names.pop()
            else:
                self._decode_whole(group, num_rows)  # raises an error that names the damaged column
            raise
        if table.num_rows != num_rows:
            raise CorruptFileError(
                f"row group {group} has {table.num_rows} rows, not {num_rows}", reason="row-count-mismatch"
            )
        roots = sorted({leaf.root_ordinal for leaf in query.output_leaves})
        return select_columns(query, dict(zip(roots, table.columns, strict=True)), num_rows)

    def _decode_whole(self, group: int, num_rows: int) -> None:
        """Decode each column of a row group separately, to raise an error that names the damaged column."""
        everything = RowSelection.all(num_rows)
        for leaf in self._query.output_leaves:
            meta = self._query.file.footer.chunk_metadata(group, leaf)
            plan = plan_chunk(leaf, meta, None, num_rows, PageChooser(everything))
            try:
                self._decoder.decode(PageCache(self._query.file).fetch([plan]), everything)
            except CorruptFileError as error:
                self._query.file.distrust_damaged(group, error)
                raise


def read_whole_file(query: FileQuery) -> Piece:
    """Read all rows of a file, with runs of its row groups in parallel, for a query without a predicate.

    Args:
        query: The query; no rows are deleted.
    """
    file = query.file
    everything = RowSelection.all(file.footer.num_rows)
    plan = FilePlan(everything, RowSelection.none())
    reader = FileReader(query, plan)
    runs = list(RowGroupRuns(query, plan, everything))

    def read(run: RowGroupRun) -> list[Piece]:
        return list(reader.read_run(run, everything, lambda group, _: reader.read_whole(group)))

    # pyarrow decodes the columns of one row group in parallel; several runs use the remaining cores
    with file.named_errors(), ThreadPoolExecutor(max(1, min(len(runs), pa.cpu_count()))) as pool:
        pieces = [piece for found in pool.map(read, runs) for piece in found]
    if not query.output_leaves:
        rows = select_columns(query, {}, file.footer.num_rows)
    else:
        rows = pa.concat_tables([piece.rows for piece in pieces] or [select_columns(query, {}, 0)])
    counts = sum((piece.counts for piece in pieces), ReadCounts())
    return Piece(rows, counts, everything)
