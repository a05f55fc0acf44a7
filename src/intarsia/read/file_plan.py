"""The plan for one file: the rows that might match according to its indexes. Planning reads no data pages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, partial
from typing import TypeVar

import numpy as np

from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.chunks import ChunkOutlines, ChunkPlan, DictionaryUse, choose_pages, plan_chunk
from intarsia.file.joined import JoinedInput
from intarsia.file.metadata import Contradiction
from intarsia.format.footer import Leaf
from intarsia.format.page_index import PageLocations
from intarsia.indexes.bloom import BloomFilters
from intarsia.indexes.column_index import ColumnIndexes
from intarsia.indexes.dictionary import Dictionaries
from intarsia.indexes.entry_proofs import EntryProofs
from intarsia.indexes.proof import Proof
from intarsia.indexes.statistics import row_group_statistics
from intarsia.predicate import Bound
from intarsia.read.counts import ReadCounts
from intarsia.read.estimate import Estimates, order_conditions
from intarsia.read.file_query import FileQuery
from intarsia.read.pruner import Int64s, Pruner, PruneStep, compares
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.storage import ObjectStoreFile
from intarsia.tuning import ESTIMATE_PART, REMOTE_INDEX_BYTES

#: The indexes of fewer objects are not read together. This would take an additional round trip, because the
#: remaining objects are read separately afterwards, and save fewer bytes than are transferred in that time.
_MIN_OBJECTS = ObjectStoreFile.coalesce_bytes // REMOTE_INDEX_BYTES


@dataclass(frozen=True)
class JoinedRows:
    """The rows of one of several files that were joined.

    Attributes:
        start: The first row of the file.
        stop: The row after its last row.
    """

    start: int
    stop: int

    def of(self, rows: RowSelection) -> RowSelection:
        """Return the rows that are in the file, as row numbers of the file."""
        return rows.clip(self.start, self.stop).shift(-self.start)

    def steps(self, steps: Iterable[PruneStep]) -> tuple[PruneStep, ...]:
        """Return the steps that excluded rows of the file."""
        own = (PruneStep(one.index, one.column, self.of(one.before), self.of(one.after)) for one in steps)
        return tuple(step for step in own if step.after.num_rows < step.before.num_rows)


@dataclass(frozen=True)
class FilePlan:
    """The plan of a query of one file, or of several that are joined.

    Attributes:
        candidates: A superset of the rows that match.
        certain: Rows that are proven to match without reading them; a subset of the candidates.
        proven: The certain rows whose proof does not depend on the page index; the predicate is not applied
            to them.
        stages: Parts of the predicate, which are combined by AND. The columns of the first part are read
            first, and those of the next part only for the remaining rows. Empty without a predicate.
        steps: The rows that each index excluded, in the order of use, and those that are deleted.
        index_bytes: Bytes that were read from indexes.
        dictionary_pages: Dictionary pages that were read while planning, by offset; reading needs them, too.
        contradictions: The metadata that was known to be wrong at the time of planning.
        has_all: Whether all indexes that pay were used. Of objects that are joined, only those are that take
            one small request; the others are read together with the pages of each object.
    """

    candidates: RowSelection
    certain: RowSelection
    proven: RowSelection = field(default_factory=RowSelection.none)
    stages: tuple[Bound, ...] = ()
    steps: tuple[PruneStep, ...] = ()
    index_bytes: int = 0
    dictionary_pages: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    contradictions: frozenset[Contradiction] = frozenset()
    has_all: bool = True


def plan_file(query: FileQuery, *, reads: bool = True) -> FilePlan:
    """Plan a query of a file, or of several that are joined, with their indexes.

    Args:
        reads: Whether indexes outside the footers are read.
    """
    file, predicate = query.file, query.predicate
    if predicate is None:
        everything = RowSelection.all(file.footer.num_rows)
        wrong = file.metadata.contradictions
        return without_deleted(query, FilePlan(everything, everything, everything, contradictions=wrong))
    before = file.source.counts.bytes
    while True:
        plan = prune(query, reads=reads)
        if file.metadata.contradictions == plan.contradictions:
            break  # else rows were excluded with wrong metadata
    return without_deleted(query, with_stages(query, plan, before))


def prune(query: FileQuery, *, candidates: RowSelection | None = None, reads: bool = True) -> FilePlan:
    """Find the rows that might match a predicate, with the indexes of a file, or of several that are joined.

    Statistics are free and are used first; then the cheapest index that can still save more bytes than it
    costs, until there is none.

    Args:
        candidates: The relevant rows; None for all.
        reads: Whether indexes outside the footers are read.

    Returns:
        The plan, without stages.
    """
    file, predicate = query.file, query.predicate
    assert predicate is not None
    before, wrong = file.source.counts.bytes, file.metadata.contradictions
    pruner = Pruner(
        predicate,
        file.footer.row_group_starts,
        bytes_of=query.estimated_bytes_by_group,
        candidates=candidates,
        request_bytes=file.source.coalesce_bytes,
        column_bytes=partial(_column_bytes, file),
    )
    pruner.use_constants(query.constants_by_file, partial(compares, file.schema))
    pruner.use(row_group_statistics(file))
    pages: Mapping[int, bytes] = {}
    objects = file.joined if isinstance(file, JoinedInput) and file.joined.is_remote else None
    has_all = pruner.candidates.is_empty
    if reads and not has_all:
        entries = EntryProofs(file, query.embedded, predicate.paths())
        dictionaries = Dictionaries(file, entries.lists_values)
        proofs: list[Proof] = [BloomFilters(file), dictionaries]
        has_all = objects is None
        if has_all:
            proofs = [ColumnIndexes(file), *proofs]
            if isinstance(file, JoinedInput):
                # their directories are parsed one by one, so proofs that cost less are used first
                pruner.use_all(proofs, entries.least_price)
        if objects is None or objects.files_with(pruner.candidates).sum() >= _MIN_OBJECTS:
            of_entries = entries.proofs(pruner.candidates)
            pruner.use_all([*proofs, *of_entries] if has_all else proofs)
        pages = dictionaries.pages
    return FilePlan(
        pruner.candidates,
        pruner.certain,
        pruner.proven,
        steps=tuple(pruner.steps),
        index_bytes=file.source.counts.bytes - before,
        dictionary_pages=pages,
        contradictions=wrong,
        has_all=has_all,
    )


def _column_bytes(file: ParquetInput, leaf: Leaf) -> Int64s:
    """Return the size of the chunks of a leaf, for each row group."""
    (outlines,) = file.metadata.outlines.of([leaf])
    return np.where(outlines.is_sound, outlines.stops - outlines.starts, 0)


def with_stages(query: FileQuery, plan: FilePlan, before: int) -> FilePlan:
    """Return a plan with the stages of its predicate, in the order that indexes of the file suggest.

    Args:
        before: The number of bytes that had been read of the file before it was planned.
    """
    predicate, paths = query.predicate, query.predicate_paths
    if predicate is None:
        return plan
    stages = [predicate] if paths else []
    # only embedded indexes give estimates
    if len(paths) > 1 and not plan.candidates.is_empty and query.embedded.entries:
        stages = _ordered_conditions(query, predicate, plan.candidates)
    return replace(plan, stages=tuple(stages), index_bytes=query.file.source.counts.bytes - before)


def without_deleted(query: FileQuery, plan: FilePlan) -> FilePlan:
    """Return a plan without the deleted rows."""
    if query.deleted.is_empty:
        return plan
    before, present, steps = plan.candidates, query.present, plan.steps
    after = before & present
    if after.num_rows < before.num_rows:
        steps = (*steps, PruneStep(query.deleted_by, "*", before, after))
    certain, proven = plan.certain & present, plan.proven & present
    return replace(plan, candidates=after, certain=certain, proven=proven, steps=steps)


def _ordered_conditions(query: FileQuery, predicate: Bound, candidates: RowSelection) -> list[Bound]:
    """Return the conditions of the predicate, ordered by cost and selectivity."""
    max_bytes = query.estimated_bytes(candidates) // ESTIMATE_PART
    estimates = Estimates(query.file, query.embedded, max_bytes)
    num_rows, possible = query.file.footer.num_rows, max(1, candidates.num_rows)

    def share_of_candidates(condition: Bound) -> float | None:
        share = estimates.share(condition)
        return None if share is None else min(1.0, share * num_rows / possible)

    return order_conditions(predicate, share_of_candidates, query.column_bytes)


def estimate_rows(query: FileQuery, plan: FilePlan) -> tuple[float | None, int]:
    """Estimate the number of rows that match.

    Returns:
        The estimate, or None if no index of the file gives one; and the bytes that were read from indexes.
    """
    num_rows = query.file.footer.num_rows
    if query.predicate is None:
        return float(plan.candidates.num_rows), 0
    before = query.file.source.counts.bytes
    share = Estimates(query.file, query.embedded, query.file.source.size()).share(query.predicate)
    index_bytes = query.file.source.counts.bytes - before
    if share is None:
        return None, index_bytes
    return float(min(max(share * num_rows, plan.certain.num_rows), plan.candidates.num_rows)), index_bytes


def count_planned(query: FileQuery, rows: RowSelection) -> ReadCounts:
    """Count the bytes of reading some rows, and add their pages to those of the query as if they were read.

    This reads only OffsetIndexes.
    """
    outlines = query.file.metadata.outlines.of(query.leaves, query.groups_with(rows))
    whole = _read_as_a_whole(query, rows, outlines)
    row_groups, planned_bytes = int(whole.sum()), 0
    for leaf, of_leaf in zip(query.leaves, outlines, strict=True):
        query.pages.add_chunks(leaf.ordinal, np.flatnonzero(whole).tolist())
        planned_bytes += int((of_leaf.stops - of_leaf.starts)[whole].sum())
    edges = query.file.footer.row_group_starts
    others = rows - RowSelection.union_of(edges[:-1][whole], edges[1:][whole])
    wanted = list(query.row_groups(others))
    of_groups, index_bytes = plan_chunks(query, query.leaves, outlines, wanted)
    for (group, _), plans in zip(wanted, of_groups, strict=True):
        query.pages.add_plans(group, plans)
        for plan in plans:
            planned_bytes += plan.num_bytes
            if plan.dictionary is not None and plan.dictionary_use is not DictionaryUse.NEVER:
                planned_bytes += plan.dictionary.length
    return ReadCounts(
        row_groups=row_groups + len(wanted),
        rows_candidate=rows.num_rows,
        index_bytes=index_bytes,
        planned_bytes=planned_bytes,
    )


def _read_as_a_whole(query: FileQuery, rows: RowSelection, outlines: Sequence[ChunkOutlines]) -> Bools:
    """Return, by row group, whether all of its pages are needed and the footer has their number."""
    edges = query.file.footer.row_group_starts
    whole = rows.covers(edges[:-1], edges[1:]) & (edges[:-1] < edges[1:])
    for of_leaf in outlines:
        whole = whole & of_leaf.is_sound & (of_leaf.data_pages >= 0)
    return np.asarray(whole, dtype=bool)


def plan_chunks(
    query: FileQuery,
    leaves: Sequence[Leaf],
    outlines: Sequence[ChunkOutlines],
    wanted: Sequence[tuple[int, RowSelection]],
    unpruned: Iterable[bool] = itertools.repeat(False),
) -> tuple[list[list[ChunkPlan]], int]:
    """Plan the pages of some leaves for some rows of row groups.

    This reads, in one request if possible, the OffsetIndexes of chunks that have several pages, unless rows
    of each page are wanted.

    Args:
        outlines: The chunks of each leaf, with at least those of these row groups.
        wanted: Ordinals of row groups, each with rows relative to it.
        unpruned: For each of them whether all rows of the row group are candidates.

    Returns:
        The plans of the leaves for each row group, and the bytes that were read from the page index.
    """
    edges = query.file.footer.row_group_starts
    known = [
        (group, rows, int(edges[group + 1] - edges[group]), is_unpruned)
        for (group, rows), is_unpruned in zip(wanted, unpruned, strict=False)
    ]
    located = [
        ChunkKey(group, leaf.ordinal)
        for group, rows, num_rows, is_unpruned in known
        for gap in [rows.longest_gap(num_rows) if is_unpruned else num_rows]
        for leaf, of_leaf in zip(leaves, outlines, strict=True)
        if _is_located(of_leaf, group, gap, num_rows)
    ]
    found, index_bytes = load_locations(query, located)
    locations = dict(zip(located, found, strict=True))
    plans = []
    for group, rows, num_rows, is_unpruned in known:
        choose = cache(partial(choose_pages, rows))
        of_leaves = []
        for leaf, of_leaf in zip(leaves, outlines, strict=True):
            pages = locations.get(ChunkKey(group, leaf.ordinal))
            plan = plan_chunk(leaf, of_leaf, group, pages, num_rows, choose, is_unpruned=is_unpruned)
            of_leaves.append(plan)
        plans.append(of_leaves)
    return plans, index_bytes


def _is_located(outlines: ChunkOutlines, group: int, gap: int, num_rows: int) -> bool:
    """Return whether the pages of a chunk are needed one by one, given the longest gap between wanted rows.

    Otherwise, a page is longer than the gap, so that each has wanted rows. If only some pages may use the
    dictionary page, their headers show which of them do.
    """
    pages = outlines.pages[group]
    is_mixed = pages.dictionary_use is DictionaryUse.SOME_PAGES
    return is_mixed or not outlines.is_sound[group] or pages.data <= 0 or gap * pages.data >= num_rows


def load_locations(query: FileQuery, keys: Sequence[ChunkKey]) -> tuple[list[PageLocations | None], int]:
    """Read the OffsetIndexes of the chunks that have several pages.

    Returns:
        The locations for each chunk, None if they are unknown or not needed, and the number of bytes that
        were read from the page index.

    Raises:
        UnsupportedFeatureError: If a column is encrypted or in another file.
        CorruptFileError: If a chunk is outside the file.
    """
    file, missing = query.file, []
    outlines = file.metadata.outlines_with(keys)
    for key in keys:
        of_leaf = outlines[key.leaf]
        if not of_leaf.is_sound[key.row_group]:
            file.footer.chunk_metadata(key.row_group, file.footer.leaves[key.leaf])  # raises
        if not of_leaf.pages[key.row_group].is_single:
            missing.append(key)
    index_bytes = file.load_page_index(missing)
    # also of single pages: rows may have been excluded with these locations, so pages are compared with them
    return list(map(file.locations, keys)), index_bytes


_Result = TypeVar("_Result")


class WrongPageIndexError(Exception):
    """The pages of a row group contradict its page index.

    Attributes:
        row_group: Ordinal of the row group.
    """

    def __init__(self, row_group: int, reason: str) -> None:
        super().__init__(reason)
        self.row_group = row_group


def retry_without_wrong_index(file: ParquetInput, work: Callable[[], _Result]) -> _Result:
    """Call a function, and call it again without the page index of a row group that is found to be wrong.

    Args:
        work: A function that plans and reads from the beginning.

    Raises:
        CorruptFileError: If the file is damaged.
    """
    while True:
        try:
            with file.named_errors():
                return work()
        except WrongPageIndexError as error:  # noqa: PERF203  (the loop is the retry)
            file.source.check_unchanged()
            file.metadata.distrust_page_index(error.row_group, str(error))


def with_current_plan(query: FileQuery, plan: FilePlan, work: Callable[[FilePlan], _Result]) -> _Result:
    """Call a function with a plan, and again with a new one if metadata is found to be wrong meanwhile.

    Args:
        plan: The plan, instead of which a new one is used if metadata has been found to be wrong since.
        work: A function that answers and reads from the beginning.

    Raises:
        CorruptFileError: If the file is damaged.
    """

    def attempt() -> _Result:
        current = plan
        while True:
            if current.contradictions != query.file.metadata.contradictions:
                current = plan_file(query)
            found = work(current)
            if current.contradictions == query.file.metadata.contradictions:
                return found

    return retry_without_wrong_index(query.file, attempt)
