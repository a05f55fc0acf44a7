"""The runs in which row groups are read, the pages that are read of a run for some rows, and their decoding.

Planning and decoding a row group takes at least about a millisecond. Files of streaming writers may have
thousands of small row groups, and a query of many files has as many. So up to a few megabytes of them are
decoded in one call.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import CorruptFileError
from intarsia.file import ChunkKey
from intarsia.file.chunks import ChunkOutlines, ChunkPlan, DictionaryUse, LeafPlan
from intarsia.file.claims import check_row_count
from intarsia.file.decode import PageIndexMismatchError, decode_rows, parse_pages
from intarsia.file.fetch import FetchedBytes, PageCache
from intarsia.file.metadata import naming_errors
from intarsia.format.footer import Leaf
from intarsia.format.page_index import Int64s
from intarsia.once import cached_property
from intarsia.read.file_plan import (
    FilePlan,
    WrongPageIndexError,
    load_locations,
    plan_chunks,
)
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange, coalesce
from intarsia.tuning import ISLAND_BYTES, ISLAND_GROUPS, ITERATED_ROWS, RUN_BYTES, RUN_ROWS

#: How a row group can be read with others: not at all, whole chunks, or pages.
_ALONE, _CHUNKS, _PAGES = range(3)


class Run(NamedTuple):
    """Row groups that are read as one.

    Attributes:
        groups: Their ordinals, ascending.
        is_proven: Whether the wanted rows are proven to match.
        reads_chunks: Whether whole chunks are read, without their page index.
    """

    groups: Int64s
    is_proven: bool
    reads_chunks: bool


class Runs:
    """The row groups that contain some rows, divided into runs.

    Several row groups are a run if all of their rows are read and none of their columns has pages that could
    be skipped. They also are one if pages of them are read. If these have all rows, only a caller that takes
    all rows gets such runs: an iterator reads no further than the row group from which rows are taken.

    Args:
        takes_all: Whether the caller takes all rows.

    Attributes:
        groups: Ordinals of the row groups.
    """

    def __init__(self, query: FileQuery, plan: FilePlan, rows: RowSelection, *, takes_all: bool) -> None:
        self._edges = query.file.footer.row_group_starts
        self.groups: Int64s = rows.overlaps(self._edges[:-1], self._edges[1:]).nonzero()[0]
        self._query = query
        self._plan = plan
        self._rows = rows
        self._takes_all = takes_all

    def __iter__(self) -> Iterator[Run]:
        position = 0
        while position < len(self.groups):
            run = self.run_at(position)
            yield run
            position += len(run.groups)

    def run_at(self, position: int, most_rows: int | None = None) -> Run:
        """Return the run that starts at a position in `groups`.

        Args:
            most_rows: Maximum number of rows in a run of several row groups; None for no limit.
        """
        kind = self._kind[position] if len(self.groups) > 1 else _ALONE
        # a limit may need only some pages of one row group
        if kind == _ALONE or (kind == _PAGES and most_rows is not None):
            return Run(self.groups[position : position + 1], is_proven=False, reads_chunks=False)
        run_rows = RUN_ROWS if self._takes_all else ITERATED_ROWS
        most_rows = run_rows if most_rows is None else min(most_rows, run_rows)
        stop = min(
            int(np.searchsorted(self._bytes, self._bytes[position] + RUN_BYTES, side="right")) - 1,
            int(np.searchsorted(self._num_rows, self._num_rows[position] + most_rows, side="right")) - 1,
            int(self._stretch_ends[np.searchsorted(self._stretch_ends, position, side="right")]),
        )
        stop = max(stop, position + 1)
        return Run(self.groups[position:stop], bool(self._is_proven[position]), kind == _CHUNKS)

    @cached_property
    def _kind(self) -> Int64s:
        """How each of the row groups can be read with others."""
        query, groups, num_rows = self._query, self.groups, np.diff(self._edges)
        if not all(_is_plain(query, leaf) for leaf in query.leaves):
            return np.full(len(groups), _ALONE)
        is_covered = self._rows.covers(self._edges[:-1], self._edges[1:])[groups]
        in_chunks, in_pages = is_covered, ~is_covered | self._takes_all
        needs_all = self._is_proven & self._takes_all
        for outlines in query.file.metadata.outlines(query.leaves, groups):
            # with as many values as rows
            is_sound = (
                outlines.is_sound & (outlines.starts < outlines.stops) & (outlines.num_values == num_rows)
            )
            in_pages = in_pages & is_sound[groups]
            has_no_pages = (outlines.data_pages == 1) | ~outlines.has_offset_index
            in_chunks = in_chunks & is_sound[groups] & (has_no_pages[groups] | needs_all)
        return np.where(in_chunks, _CHUNKS, np.where(in_pages, _PAGES, _ALONE))

    @cached_property
    def _is_proven(self) -> Bools:
        """Whether each row group is proven to match, so that the predicate's columns are not needed.

        A few proven row groups between others are read like these, because reading them separately costs
        more. At least one column has to be read, because its values determine the number of rows.
        """
        query, groups = self._query, self.groups
        if query.predicate is None:
            return np.ones(len(groups), dtype=bool)
        if not query.output_leaves:
            return np.zeros(len(groups), dtype=bool)
        known = (self._rows & self._plan.proven).count_between(self._edges)
        proven: Bools = (known == self._rows.count_between(self._edges))[groups]
        extra_bytes = np.zeros(len(groups), dtype=np.int64)
        written = {leaf.ordinal for leaf in query.output_leaves}
        only_judged = [leaf for leaf in query.leaves if leaf.ordinal not in written]
        for outlines in query.file.metadata.outlines(only_judged, groups):
            extra_bytes += (outlines.stops - outlines.starts)[groups]
        ends = _stretch_ends(proven)
        starts = np.concatenate([[0], ends[:-1]])
        is_island = proven[starts] & (starts > 0) & (ends < len(groups)) & (ends - starts <= ISLAND_GROUPS)
        islands = np.repeat(is_island, ends - starts) & (extra_bytes <= ISLAND_BYTES)
        return np.asarray(proven & ~islands)

    @cached_property
    def _stretch_ends(self) -> Int64s:
        """The end of each sequence of row groups that are read in the same way."""
        return _stretch_ends(self._kind * 2 + self._is_proven)

    @property
    def num_bytes(self) -> int:
        """Bytes of the pages to read; an estimate."""
        return int(self._bytes[-1])

    @cached_property
    def _bytes(self) -> Int64s:
        """Bytes of the pages to read of the row groups before each position."""
        return np.concatenate([[0], np.cumsum(self._query.page_bytes_by_group(self._rows)[self.groups])])

    @cached_property
    def _num_rows(self) -> Int64s:
        """Number of rows to read in the row groups before each position."""
        return np.concatenate([[0], np.cumsum(self._rows.count_between(self._edges)[self.groups])])


def run_of_group(query: FileQuery, plan: FilePlan, group: int, rows: RowSelection) -> Run:
    """Return the run of a single row group.

    Args:
        group: Ordinal of the row group.
        rows: The rows to read in it.
    """
    is_proven = query.predicate is None
    # at least one column has to be read, because its values determine the number of rows
    if not is_proven and not plan.proven.is_empty and query.output_leaves:
        is_proven = (rows - plan.proven).is_empty
    whole = is_proven and rows.num_rows == query.file.footer.metadata.row_groups[group].num_rows
    return Run(np.array([group]), is_proven, reads_chunks=whole)


def _stretch_ends(values: npt.NDArray[Any]) -> Int64s:
    """Return the end of each sequence of equal values."""
    return np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))


def _is_plain(query: FileQuery, leaf: Leaf) -> bool:
    """Return whether a leaf is a top-level column that pyarrow does not decode to a dictionary array."""
    data_type = query.file.leaf_types.get(leaf.ordinal)
    return data_type is not None and len(leaf.path) == 1 and not pa.types.is_dictionary(data_type)


_ROWS = attrgetter("covered", "whole")
_FIRST: Int64s = np.zeros(1, dtype=np.int64)


class RunColumns:
    """The columns of a run of row groups, of which only pages with requested rows are read.

    Args:
        unpruned: For each of its row groups whether no row was excluded or proven with the page index.
            Otherwise its pages are compared with it.
        known: Dictionary pages that were read while planning, by offset.

    Attributes:
        dictionary_pages: Number of dictionary pages that were read.
        index_bytes: Bytes that were read from the page index.
    """

    def __init__(self, query: FileQuery, run: Run, unpruned: Bools, known: Mapping[int, bytes]) -> None:
        self._query, self._run, self._unpruned, self._known = query, run, unpruned, known
        self._pages = PageCache(query.file.source, known)
        self._has_undecided = False
        self.dictionary_pages = 0
        self.index_bytes = 0

    def has_only(self, rows: RowSelection) -> bool:
        """Return whether some rows are all rows of the run."""
        edges, groups = self._query.file.footer.row_group_starts, self._run.groups
        return rows.num_rows == int((edges[groups + 1] - edges[groups]).sum())

    def decode(self, leaves: list[Leaf], rows: RowSelection) -> dict[int, pa.ChunkedArray]:
        """Decode rows of top-level fields, reduced to the given leaves, by ordinal of the field.

        Raises:
            WrongPageIndexError: If the pages of a single row group contradict the page index.
            CorruptFileError: If pages are damaged, or those of one of several row groups contradict it.
        """
        plans, fetched = self.fetch(leaves, rows)
        with self._naming_wrong_index(), self._naming():
            file = self._query.file
            edges = file.footer.row_group_starts
            schema = file.schema.decoded
            return decode_rows(schema, edges, plans, fetched, rows, checksums=file.page_checksums)

    def fetch(self, leaves: list[Leaf], rows: RowSelection) -> tuple[list[LeafPlan], FetchedBytes]:
        """Fetch and count the pages that `decode` decodes; return the plan of each leaf, and the bytes."""
        query, run, touched = self._query, self._run, _FIRST
        if len(run.groups) > 1:
            edges = query.file.footer.row_group_starts
            touched = np.flatnonzero(rows.overlaps(edges[run.groups], edges[run.groups + 1]))
        if run.reads_chunks:
            plans = self._whole_chunks(leaves, touched)
        else:
            plans = self._chosen_pages(leaves, touched, rows)
        fetched = self._fetched(plans)
        if self._has_undecided:
            # only the headers of pages show which of them need a dictionary page
            with self._naming_wrong_index():
                plans = [self._with_needed(plan, fetched) for plan in plans]
            fetched = self._fetched(plans)
        return plans, fetched

    def _fetched(self, plans: Sequence[LeafPlan]) -> FetchedBytes:
        """Return the bytes of plans, in one buffer if pyarrow decodes pages that are not adjacent.

        They are copied only then: the extension takes pages from any buffers.
        """
        ranges = list(map(LeafPlan.ranges, plans))
        compiled, are_many = self._query.file.schema.decoded.compiled, len(self._run.groups) > 1
        # chunks that are padded overlap
        is_joined = self._query.file.metadata.is_padded or any(
            (plan.leaf.root_ordinal not in compiled or plan.leaf.max_repetition_level)
            and (are_many or len(coalesce(own, 0)) > 1)
            for plan, own in zip(plans, ranges, strict=True)
        )
        return self._pages.fetch(itertools.chain.from_iterable(ranges), join=is_joined)

    def _whole_chunks(self, leaves: list[Leaf], touched: Int64s) -> list[LeafPlan]:
        """Plan to read chunks without their page index."""
        query, groups = self._query, self._run.groups[touched]
        outlines = query.file.metadata.outlines(leaves, groups)
        for leaf, of_leaf in zip(leaves, outlines, strict=True):
            if len(self._run.groups) == 1:
                self._check_row_count(int(groups[0]), leaf, of_leaf)
            query.pages.add_chunks(leaf.ordinal, groups.tolist())
            is_new = of_leaf.has_offset_index[groups]
            if self._known:
                is_new = is_new & ~np.isin(of_leaf.starts[groups], list(self._known))
            self.dictionary_pages += int(np.maximum(of_leaf.dictionary_pages[groups], 0)[is_new].sum())
        return [LeafPlan(leaf, groups, of_leaf) for leaf, of_leaf in zip(leaves, outlines, strict=True)]

    def _chosen_pages(self, leaves: list[Leaf], touched: Int64s, rows: RowSelection) -> list[LeafPlan]:
        """Plan to read the pages with some rows, and the dictionary pages that they may need."""
        query, groups = self._query, self._run.groups[touched]
        edges = query.file.footer.row_group_starts
        outlines = query.file.metadata.outlines(leaves, groups)
        starts, stops = edges[groups].tolist(), edges[groups + 1].tolist()
        parts = [rows.clip(start, stop).shift(-start) for start, stop in zip(starts, stops, strict=True)]
        wanted = list(zip(groups.tolist(), parts, strict=True))
        unpruned = self._unpruned[touched].tolist()
        of_groups, index_bytes = plan_chunks(query, leaves, outlines, wanted, unpruned)
        self.index_bytes += index_bytes
        for (group, _), plans in zip(wanted, of_groups, strict=True):
            query.pages.add_plans(group, plans)
        of_leaves = []
        for leaf, of_leaf, *chunks in zip(leaves, outlines, *of_groups, strict=True):
            dictionaries = {}
            for at, (group, chunk) in enumerate(zip(groups.tolist(), chunks, strict=True)):
                dictionary = self._dictionary_of(group, chunk, of_leaf)
                if dictionary is not None:
                    dictionaries[at] = dictionary
            # for nested V1 pages, only the number of decoded rows shows that the page index is correct
            of_leaves.append(LeafPlan(leaf, groups, of_leaf, chunks, dictionaries, tuple(map(_ROWS, chunks))))
        return of_leaves

    def _check_row_count(self, group: int, leaf: Leaf, outlines: ChunkOutlines) -> None:
        """Refuse a chunk whose number of values contradicts that of the rows; parse it only then."""
        footer = self._query.file.footer
        num_rows = footer.row_group_starts[group + 1] - footer.row_group_starts[group]
        if not outlines.is_sound[group] or outlines.num_values[group] != num_rows:
            with self._naming():
                check_row_count(footer, group, leaf)

    def _dictionary_of(self, group: int, chunk: ChunkPlan, outlines: ChunkOutlines) -> ByteRange | None:
        """Count and return the dictionary page to read with the pages of a chunk."""
        query = self._query
        if chunk.whole:
            self._check_row_count(group, chunk.leaf, outlines)
            if chunk.has_dictionary_within and chunk.pages[0].start not in self._known:
                # counted as if the page index had been used
                has_index = outlines.offset_indexes[group] != 0
                self.dictionary_pages += bool(has_index and self._pages.is_missing(chunk.pages[0]))
        dictionary = chunk.dictionary
        if dictionary is None or chunk.dictionary_use is DictionaryUse.NEVER:
            return None
        self._has_undecided |= chunk.dictionary_use is DictionaryUse.SOME_PAGES
        # writers limit dictionaries to 1 MiB, and in an object store, another request takes about as long
        is_small = dictionary.length <= 2 * query.file.source.coalesce_bytes
        if chunk.dictionary_use is not DictionaryUse.ALWAYS and not is_small:
            return None
        self.dictionary_pages += self._pages.is_missing(dictionary)
        return dictionary

    def _with_needed(self, plan: LeafPlan, fetched: FetchedBytes) -> LeafPlan:
        """Return a plan with the dictionary pages that its pages need, according to their headers."""
        needed = dict(plan.dictionaries)
        for at, chunk in enumerate(plan.chunks):
            if chunk.dictionary_use is not DictionaryUse.SOME_PAGES or chunk.dictionary is None:
                continue
            pages = parse_pages(chunk, fetched, fetched.position(chunk.pages[0].start))
            if not any(page.uses_dictionary for page in pages):
                needed.pop(at, None)
            elif at not in needed:
                needed[at] = chunk.dictionary
                self.dictionary_pages += self._pages.is_missing(chunk.dictionary)
        return plan._replace(dictionaries=needed)

    def _naming(self) -> naming_errors:
        """Add the path of the file to errors that leave the block."""
        return naming_errors(self._query.file.path_of(int(self._run.groups[0])))

    @contextmanager
    def _naming_wrong_index(self) -> Iterator[None]:
        group, is_one = int(self._run.groups[0]), len(self._run.groups) == 1
        try:
            yield
        except PageIndexMismatchError as error:
            if not is_one:  # each row group is then read by itself
                raise CorruptFileError(str(error), reason="wrong-page-index") from error
            raise WrongPageIndexError(group, str(error)) from error
        except CorruptFileError as error:
            if is_one:
                self._query.file.distrust_damaged(group, error)
            raise

    def parts(self, rows: RowSelection, limit: int) -> Iterator[RowSelection]:
        """Divide rows of one row group into parts for a query that needs a limited number of matching rows.

        The parts end where pages of the predicate's largest column end, because the other columns' pages are
        small in comparison. The first part has as many rows as are needed; each further part doubles the
        number of rows that have been read, so that at most half of the rows are read unnecessarily.

        Args:
            rows: The rows that might match.
            limit: The number of matching rows that are needed.
        """
        query, group = self._query, int(self._run.groups[0])
        self._unpruned = np.zeros(1, dtype=bool)  # whole chunks would have the pages of earlier parts again
        leaves = leaves_under(query.file, query.predicate_paths)
        found, index_bytes = load_locations(query, [ChunkKey(group, leaf.ordinal) for leaf in leaves])
        self.index_bytes += index_bytes
        sizes = [query.file.footer.chunk_metadata(group, leaf).total_compressed_size for leaf in leaves]
        largest = max(range(len(leaves)), key=sizes.__getitem__)
        locations = found[largest]
        if locations is None:
            yield rows
            return
        first = int(query.file.footer.row_group_starts[group])
        edges = first + np.append(locations.rows.starts, locations.rows.num_rows)
        counts = rows.count_between(edges)
        num_rows = counts.cumsum()
        num_bytes = np.where(counts > 0, locations.sizes_bytes, 0).cumsum()
        # a request to an object store takes about as long as reading `coalesce_bytes`
        least_bytes, start, needed = query.file.source.coalesce_bytes, first, limit
        while True:
            pages = max(int(np.searchsorted(num_rows, needed)), int(np.searchsorted(num_bytes, least_bytes)))
            last = min(pages, len(locations) - 1)
            stop = int(edges[last + 1])
            yield rows.clip(start, stop)
            if num_rows[last] == num_rows[-1]:
                return
            start, needed = stop, 2 * int(num_rows[last])
