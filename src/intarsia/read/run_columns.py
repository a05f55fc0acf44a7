"""The columns of a run of row groups: which pages are read for some rows, and their decoding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter

import numpy as np
import pyarrow as pa

from intarsia.errors import CorruptFileError
from intarsia.file.chunks import Bools, ChunkPlan, DictionaryUse, Int64s, LeafPlan, padded
from intarsia.file.claims import check_row_count
from intarsia.file.decode import PageIndexMismatchError, decode_rows, parse_pages
from intarsia.file.fetch import FetchedBytes, PageCache
from intarsia.file.metadata import naming_errors
from intarsia.format.footer import Leaf
from intarsia.read.file_plan import (
    WrongPageIndexError,
    add_planned,
    load_locations,
    load_offset_indexes,
    plan_chunks,
)
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.read.runs import Run
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange, coalesce

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
        plans, fetched = self._fetch(leaves, rows)
        with self._naming_wrong_index(), self._naming():
            file = self._query.file
            edges = file.footer.row_group_starts
            return decode_rows(file.schema, edges, plans, fetched, rows, checksums=file.page_checksums)

    def fetch(self, leaves: list[Leaf], rows: RowSelection) -> None:
        """Fetch and count the pages that `decode` would decode."""
        self._fetch(leaves, rows)

    def _fetch(self, leaves: list[Leaf], rows: RowSelection) -> tuple[list[LeafPlan], FetchedBytes]:
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
        compiled, are_many = self._query.file.schema.compiled, len(self._run.groups) > 1
        is_joined = any(
            (plan.leaf.root_ordinal not in compiled or plan.leaf.max_repetition_level)
            and (are_many or len(coalesce(own, 0)) > 1)
            for plan, own in zip(plans, ranges, strict=True)
        )
        return self._pages.fetch(itertools.chain.from_iterable(ranges), join=is_joined)

    def _whole_chunks(self, leaves: list[Leaf], touched: Int64s) -> list[LeafPlan]:
        """Plan to read chunks without their page index."""
        query, groups = self._query, self._run.groups[touched]
        outlines = padded(query.file.footer, query.file.metadata.outlines(leaves))
        if len(self._run.groups) == 1:
            with self._naming():
                for leaf in leaves:
                    check_row_count(query.file.footer, int(groups[0]), leaf)
        for leaf, of_leaf in zip(leaves, outlines, strict=True):
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
        outlines = query.file.metadata.outlines(leaves)
        if len(groups) > 1:
            self.index_bytes += load_offset_indexes(query, groups.tolist(), leaves)
        of_groups = []
        for group, unpruned in zip(groups.tolist(), self._unpruned[touched].tolist(), strict=True):
            first, stop = int(edges[group]), int(edges[group + 1])
            own = rows.clip(first, stop).shift(-first)
            chunks, index_bytes = plan_chunks(query, group, leaves, own, is_unpruned=unpruned)
            self.index_bytes += index_bytes
            of_groups.append(chunks)
        plans = []
        for leaf, of_leaf, *chunks in zip(leaves, outlines, *of_groups, strict=True):
            dictionaries = {}
            for at, (group, chunk) in enumerate(zip(groups.tolist(), chunks, strict=True)):
                dictionary = self._add_chunk(group, chunk)
                if dictionary is not None:
                    dictionaries[at] = dictionary
            # for nested V1 pages, only the number of decoded rows shows that the page index is correct
            rows_of_pages = tuple(map(_ROWS, chunks))
            plans.append(LeafPlan(leaf, groups, of_leaf, chunks, dictionaries, rows_of_pages))
        return plans

    def _add_chunk(self, group: int, chunk: ChunkPlan) -> ByteRange | None:
        """Count the pages to read of a chunk, and return the dictionary page to read with them."""
        query = self._query
        add_planned(query, group, chunk)
        if chunk.whole:
            with self._naming():
                check_row_count(query.file.footer, group, chunk.leaf)
            if chunk.has_dictionary_within and chunk.pages[0].start not in self._known:
                # counted as if the page index had been used
                column = query.file.footer.metadata.row_groups[group].columns[chunk.leaf.ordinal]
                is_new = bool(column.offset_index_offset) and self._pages.is_missing(chunk.pages[0])
                self.dictionary_pages += is_new
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
        found, index_bytes = load_locations(query, group, leaves)
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
