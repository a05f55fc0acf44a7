"""The plan for one file: the rows that might match according to its indexes. Planning reads no data pages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, partial
from typing import TypeVar

import numpy as np

from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.chunks import ChunkOutlines, ChunkPlan, DictionaryUse, choose_pages, plan_chunk
from intarsia.file.joined import JoinedInput
from intarsia.file.metadata import Contradiction
from intarsia.format.footer import Leaf
from intarsia.format.page_index import Int64s, PageLocations
from intarsia.indexes.base import OpenIndex
from intarsia.indexes.bloom import BloomFilters
from intarsia.indexes.column_index import ColumnIndexes
from intarsia.indexes.dictionary import Dictionaries
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.entry_proofs import EntryProofs
from intarsia.indexes.proof import Proof, call_or_ignore
from intarsia.indexes.statistics import row_group_statistics
from intarsia.predicate import (
    Bound,
    BoundAnd,
    BoundCompare,
    BoundConstant,
    BoundNull,
    BoundOr,
    Condition,
    Path,
)
from intarsia.predicate.bound import conjoin
from intarsia.read.counts import ReadCounts
from intarsia.read.file_query import FileQuery
from intarsia.read.pruner import Pruner, PruneStep, compares
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.storage import ObjectStoreFile
from intarsia.tuning import ESTIMATE_PART, REMOTE_INDEX_BYTES, SELECTIVE_SHARE

#: The indexes of fewer objects are not read together. This would take an additional round trip, because the
#: remaining objects are read separately afterwards, and save fewer bytes than are transferred in that time.
_MIN_OBJECTS = ObjectStoreFile.coalesce_bytes // REMOTE_INDEX_BYTES

_LOWER_ENDS = frozenset((">", ">="))
_UPPER_ENDS = frozenset(("<", "<="))


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
            pruner.use_all([*proofs, *entries.proofs(pruner.candidates)] if has_all else proofs)
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
    (outlines,) = file.metadata.outlines([leaf])
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
    outlines = query.file.metadata.outlines(query.leaves, query.groups_with(rows))
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


class Estimates:
    """Estimates from the histograms and samples of a file, by which columns are read in a good order.

    They never exclude rows.

    Args:
        max_bytes: Larger indexes, in bytes, are not read.
    """

    def __init__(self, file: ParquetInput, embedded: EmbeddedIndexes, max_bytes: int) -> None:
        self._file = file
        self._most_bytes = max_bytes
        self._embedded = embedded
        self._known: dict[Condition, float | None] = {}

    def share(self, node: Bound) -> float | None:
        """Estimate the share of the file's rows that match, from 0 to 1; None if no index gives an estimate.

        The two ends of a range of one column are combined exactly. Other conditions are assumed to be
        independent (Selinger et al., SIGMOD 1979).
        """
        if isinstance(node, BoundConstant):
            return float(node.value)
        if isinstance(node, (BoundAnd, BoundOr)):
            shares: list[float] = []
            for share in self._independent_shares(node):
                if share is None:
                    return None
                shares.append(share)
            if isinstance(node, BoundAnd):
                return math.prod(shares)
            return 1 - math.prod(1 - share for share in shares)
        if node not in self._known:
            self._known[node] = self._leaf_share(node)
        return self._known[node]

    def _independent_shares(self, node: BoundAnd | BoundOr) -> Iterator[float | None]:
        """Yield the share of each child, with the ends of ranges of one column as one child."""
        ends: dict[Path, list[BoundCompare]] = {}
        for child in node.children:
            if isinstance(child, BoundCompare) and child.op in _LOWER_ENDS | _UPPER_ENDS:
                ends.setdefault(child.path, []).append(child)
            else:
                yield self.share(child)
        for leaves in ends.values():
            yield self._range_share(leaves, is_and=isinstance(node, BoundAnd))

    def _range_share(self, leaves: Sequence[BoundCompare], *, is_and: bool) -> float | None:
        """Estimate the share of the rows that match all, or any, of these conditions on one column."""
        narrowest = min if is_and else max
        total, num_ends = 0.0, 0
        for ops in (_LOWER_ENDS, _UPPER_ENDS):
            shares = [self.share(leaf) for leaf in leaves if leaf.op in ops]
            if None in shares:
                return None
            if shares:
                total += narrowest(share for share in shares if share is not None)
                num_ends += 1
        if num_ends == 1:
            return total
        # either every value matches at least one of the two ends, or no value matches both
        values = self.share(BoundNull(leaves[0].path, leaves[0].type, negated=True))
        values = 1.0 if values is None else values
        return max(0.0, total - values) if is_and else min(total, values)

    def _leaf_share(self, leaf: Condition) -> float | None:
        num_rows = self._file.footer.num_rows
        for name, index in self._embedded.estimators(leaf, self._most_bytes):
            share = call_or_ignore(self._file, name, partial(_share_by, index, leaf, num_rows))
            if share is not None:
                return share
        return None


def _share_by(index: OpenIndex, leaf: Condition, num_rows: int) -> float | None:
    rows = index.estimated_rows(leaf)
    return None if rows is None or math.isnan(rows) else min(max(rows / max(1, num_rows), 0.0), 1.0)


def order_conditions(
    predicate: Bound, share: Callable[[Bound], float | None], size_bytes: Callable[[Path], int]
) -> list[Bound]:
    """Order the conditions of an AND so that reading their columns is cheapest.

    A condition that keeps few rows and is cheap to read comes first, by ``size / (1 - share)``. The columns
    of later conditions are then read only for the remaining rows. Conditions that save nothing are combined,
    and so are conditions without estimates, which come last.

    Args:
        share: A function that returns the share of the rows that a condition keeps, from 0 to 1; None if it
            is unknown.
        size_bytes: A function that returns the size of a column in bytes.

    Returns:
        Predicates whose conjunction is the predicate; a single one if nothing can be saved.

    Example:
        >>> import pyarrow as pa
        >>> from intarsia.predicate import bind, parse_sql
        >>> schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
        >>> bound = bind(parse_sql("a > 1 AND b = 2"), schema)
        >>> shares = {"a > 1": 0.9, "b = 2": 0.01}
        >>> [str(part) for part in order_conditions(bound, lambda node: shares[str(node)], lambda path: 100)]
        ['b = 2', 'a > 1']
    """
    if not isinstance(predicate, BoundAnd):
        return [predicate]
    by_columns: dict[frozenset[Path], list[Bound]] = {}
    for child in predicate.children:
        by_columns.setdefault(child.paths(), []).append(child)
    ranked: list[tuple[float, float, Bound]] = []
    unknown: list[Bound] = []
    for paths, children in by_columns.items():
        condition = conjoin(children)
        kept = share(condition)
        if kept is None:
            unknown.append(condition)
        else:
            ranked.append((sum(map(size_bytes, paths)) / max(1e-9, 1 - kept), kept, condition))
    stages: list[Bound] = []
    together: list[Bound] = []
    for _, kept, condition in sorted(ranked, key=lambda item: item[0]):
        together.append(condition)
        if kept <= SELECTIVE_SHARE:
            stages.append(conjoin(together))
            together = []
    rest = [*together, *unknown]
    return [*stages, conjoin(rest)] if rest else stages
