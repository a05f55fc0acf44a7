"""The pages of the columns of a traced query in one file: their state, place and bounds.

Only metadata is read for this: the page indexes of row groups in which pages were read or might have been.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from intarsia.amounts import cut
from intarsia.errors import FormatError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.chunks import UNKNOWN, ChunkOutlines
from intarsia.format.enums import codec_name, encoding_name
from intarsia.format.footer import Leaf
from intarsia.format.page_index import Int64s
from intarsia.format.structs import ColumnMetaData
from intarsia.once import cached_property
from intarsia.picture.facts import (
    PROVEN,
    READ,
    SKIPPED,
    UNNEEDED,
    Cells,
    IndexFacts,
    Lane,
    State,
    look_of,
    name_of,
)
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.read.pruner import PruneStep
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.rows.values import human_value, json_value, type_name

#: The most cells of all lanes of the files in a picture.
MAX_CELLS = 7_000

#: The most cells with bounds; those of skipped pages far from the ones that were read have none.
MAX_BOUNDS = 1_500

#: The most chunks whose pages are located; of a file with more, each chunk is one cell.
MAX_LOCATED = 20_000

#: The most characters of a bound.
_MAX_TEXT = 32


@dataclass(frozen=True)
class TracedRows:
    """What a query learnt about one file, as row numbers of this file.

    Attributes:
        query: The query of the file, or of several that are joined.
        first_group: The first row group of the file among those of the query.
        candidates: The rows that might match.
        certain: The rows that are proven to match.
        steps: The rows that each index excluded.
        answered: The rows that were summarized from indexes.
        matches: The matching rows; None if they are unknown.
        num_matches: Their number; None if it is unknown.
        reads: The ranges of bytes that were read, one row each; None for a plan, which reads the pages that
            it has not excluded.
        selects_values: Whether the values of the result's columns were returned, not only summarized.
    """

    query: FileQuery
    first_group: int
    candidates: RowSelection
    certain: RowSelection
    steps: Sequence[PruneStep]
    answered: Sequence[PruneStep]
    matches: RowSelection | None
    num_matches: int | None
    reads: Int64s | None
    selects_values: bool


class Lanes:
    """The pages of the columns of a query in one file."""

    def __init__(self, file: ParquetInput, traced: TracedRows, num_lanes: int) -> None:
        self._file = file
        self._num_lanes = max(num_lanes, 1)
        self._traced = traced
        self._edges = file.footer.row_group_starts
        self.steps = joined_steps(traced.steps)
        query = traced.query
        self._shown = {leaf.ordinal for leaf in query.output_leaves}
        self._asked = {leaf.ordinal for leaf in leaves_under(file, query.predicate_paths)}
        self.wanted = {leaf.ordinal for leaf in query.leaves}
        self._leaves = [leaf for leaf in file.footer.leaves if leaf.ordinal in self.wanted]
        ordinals = [leaf.ordinal for leaf in self._leaves]
        self._outlines = dict(zip(ordinals, file.metadata.outlines(self._leaves), strict=True))
        whole = query.pages.whole_chunks(ordinals, query.num_row_groups)
        self._read_whole = dict(zip(ordinals, whole[:, traced.first_group :], strict=True))
        self._read_parts = query.pages.parts()
        self.described = self._cheap(file.footer.leaves) or self.wanted
        self._load()
        self._planned = [np.zeros((0, 2), dtype=np.int64)]
        self.least_bytes: int | None = 0 if traced.matches is not None and traced.selects_values else None

    @property
    def reads(self) -> Int64s:
        """The ranges that were read, or those that a plan reads, when all lanes have been described."""
        reads = self._traced.reads
        return np.concatenate(self._planned) if reads is None else reads

    def _cheap(self, leaves: Sequence[Leaf]) -> set[int]:
        """Return the ordinals of leaves if they do not have too many chunks."""
        is_cheap = len(leaves) * (len(self._edges) - 1) <= MAX_LOCATED
        return {leaf.ordinal for leaf in leaves} if is_cheap else set()

    @property
    def with_parts(self) -> set[int]:
        """The ordinals of the leaves whose page indexes and Bloom filters are among the parts of the file."""
        return self._cheap(self._file.footer.leaves) or self._cheap(self._leaves) or self._asked

    @cached_property
    def states(self) -> list[State]:
        """The states of pages, by number."""
        found = {
            READ: State("read", "read" if self._traced.reads is not None else "to read"),
            PROVEN: State("proven", "proven by an index, not read"),
            UNNEEDED: State("unneeded", "not needed"),
        }
        shown = self._traced.query.shown
        skipped = [
            State(look_of(one.index), f"skipped by {name_of(one.index, shown(one.column))}")
            for one in self.steps
        ]
        return [*(found[state] for state in range(SKIPPED)), *skipped]

    def _load(self) -> None:
        """Load the page indexes of the row groups that are not excluded as a whole."""
        num_rows = np.diff(self._edges)
        is_left = num_rows > 0
        for step in self.steps:
            before, after = step.before.count_between(self._edges), step.after.count_between(self._edges)
            is_left &= (before < num_rows) | (after > 0)
        possible = np.flatnonzero(is_left).tolist()
        self._located = set(possible) if len(possible) * len(self._leaves) <= MAX_LOCATED else set[int]()
        keys = [ChunkKey(group, leaf) for leaf in self._outlines for group in self._located]
        keys = [key for key in keys if self._outlines[key.leaf].is_sound[key.row_group]]
        self._file.load_page_index(keys, keys)

    # --- one lane ----------------------------------------------------------------------------------

    def lane(self, leaf: Leaf) -> Lane:
        """Describe a leaf column."""
        name, logical = self._traced.query.shown(leaf.name), type_name(leaf) or leaf.type.name
        is_wanted = leaf.ordinal in self.wanted
        if leaf.ordinal not in self.described:
            return Lane(name, logical, "", None, "", [], [], None, None, ())
        meta = self._first_metadata(leaf)
        (outlines,) = self._file.metadata.outlines([leaf])
        (counts,) = self._file.metadata.page_counts([leaf])
        cells, by_state = self._cells(leaf, outlines, counts) if is_wanted else (None, ())
        return Lane(
            name=name,
            type=logical,
            role="where" if leaf.ordinal in self._asked else "result" if is_wanted else "",
            num_bytes=int(np.where(outlines.is_sound, outlines.stops - outlines.starts, 0).sum()),
            codec="" if meta is None else codec_name(meta.codec),
            encodings=[] if meta is None else [encoding_name(one) for one in meta.encodings],
            indexes=self._indexes(leaf, outlines) if is_wanted else [],
            num_pages=None if (counts == UNKNOWN).any() else int(counts.sum()),
            cells=cells,
            by_state=by_state,
        )

    def _first_metadata(self, leaf: Leaf) -> ColumnMetaData | None:
        return self._file.footer.chunk(0, leaf).meta_data if len(self._edges) > 1 else None

    def _pages(self, leaf: Leaf, outlines: ChunkOutlines, counts: Int64s) -> _Pages | None:
        """Return the pages of a column; None if the file has no rows."""
        parts: list[tuple[Any, ...]] = []
        for group in np.flatnonzero(np.diff(self._edges)).tolist():
            first, key = int(self._edges[group]), ChunkKey(group, leaf.ordinal)
            locations = self._file.locations(key) if group in self._located else None
            is_whole = self._read_whole[leaf.ordinal][group]
            part = ChunkKey(group + self._traced.first_group, leaf.ordinal)
            read = np.array(True) if is_whole else self._read_parts.get(part, np.array(False))
            if locations is None:
                here = slice(group, group + 1)
                offsets = outlines.first_pages[here]
                sizes = outlines.stops[here] - offsets
                parts.append(([(key, -1)], [first], offsets, sizes, counts[here], [np.any(read)]))
                continue
            number = len(locations)
            keys, starts = [(key, page) for page in range(number)], locations.rows.starts + first
            one_each, is_read = np.ones(number, dtype=np.int64), np.broadcast_to(read, number)
            parts.append((keys, starts, locations.offsets, locations.sizes_bytes, one_each, is_read))
        if not parts:
            return None
        of_groups, *columns = zip(*parts, strict=True)
        starts, *others = map(np.concatenate, columns)
        return _Pages([*chain(*of_groups)], starts, np.r_[starts[1:], self._edges[-1:]], *others)

    def _cells(self, leaf: Leaf, outlines: ChunkOutlines, counts: Int64s) -> tuple[Cells, Sequence[int]]:
        """Return the pages of a column, and their number in each state."""
        pages = self._pages(leaf, outlines, counts)
        if pages is None:
            return Cells([], [], [], [], [], None, [], [], []), [0] * len(self.states)
        state = self._states_of(leaf, pages)
        if self._traced.reads is None:  # a plan reads these pages and their dictionary pages
            chosen = state == READ
            ranges = np.stack([pages.offsets[chosen], (pages.offsets + pages.sizes)[chosen]], axis=1)
            self._planned += [ranges, pages.dictionaries(outlines, chosen)]
        matches = self._traced.matches
        hits = None if matches is None else matches.count_between(np.r_[pages.starts, pages.stops[-1:]])
        if hits is not None and self.least_bytes is not None and leaf.ordinal in self._shown:
            dictionaries = pages.dictionaries(outlines, hits > 0)
            self.least_bytes += int(pages.sizes[hits > 0].sum() + np.diff(dictionaries).sum())
        num_pages = np.maximum(pages.num_pages, 0)
        by_state = np.bincount(state, num_pages, minlength=len(self.states)).astype(int).tolist()
        return self._described(leaf, pages, state, hits), by_state

    def _states_of(self, leaf: Leaf, pages: _Pages) -> Int64s:
        traced, starts, stops = self._traced, pages.starts, pages.stops
        state = np.full(len(starts), UNNEEDED, dtype=np.int64)
        possible = traced.candidates.overlaps(starts, stops)
        if traced.answered or leaf.ordinal not in self._shown:  # nobody needs the values of proven rows
            unproven = traced.candidates - traced.certain
            for step in traced.answered:
                unproven = unproven - (step.before - step.after)
            state[possible & ~unproven.overlaps(starts, stops)] = PROVEN
        for ordinal, step in enumerate(self.steps):
            gone = step.before.overlaps(starts, stops) & ~step.after.overlaps(starts, stops)
            state[gone & ~possible] = SKIPPED + ordinal
        state[pages.is_read] = READ
        return state

    def _merged(self, starts: Int64s, state: Int64s) -> Int64s:
        """Return the first pages of the cells: each page, or neighbours if there are too many."""
        most = max(MAX_CELLS // self._num_lanes, 20)
        if len(starts) <= most:
            return np.arange(len(starts))
        cuts = np.flatnonzero(np.r_[True, (state[1:] != state[:-1]) | (state[1:] == READ)])
        if len(cuts) > most:
            cuts = np.flatnonzero(np.r_[True, state[1:] != state[:-1]])
        if len(cuts) > most:
            places = starts * most // max(int(self._edges[-1]), 1)
            cuts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
        return cuts

    def _described(self, leaf: Leaf, pages: _Pages, state: Int64s, hits: Int64s | None) -> Cells:
        cuts = self._merged(pages.starts, state)
        lasts = np.r_[cuts[1:], len(state)]
        single = lasts - cuts == 1
        cell_state = np.minimum.reduceat(state, cuts)
        low: list[Any] = [None] * len(cuts)
        high, nulls = low.copy(), low.copy()
        for cell in self._with_bounds(cell_state, single):
            low[cell], high[cell], nulls[cell] = self._bounds(leaf, *pages.keys[int(cuts[cell])])
        unknown = np.logical_or.reduceat(pages.num_pages == UNKNOWN, cuts)
        offsets = pages.offsets[cuts].tolist()
        counted = np.add.reduceat(np.maximum(pages.num_pages, 0), cuts)
        return Cells(
            start=pages.starts[cuts].tolist(),
            state=cell_state.tolist(),
            num_pages=[None if none else one for one, none in zip(counted.tolist(), unknown, strict=True)],
            offset=[one if alone else None for one, alone in zip(offsets, single, strict=True)],
            num_bytes=np.add.reduceat(pages.sizes, cuts).tolist(),
            num_matches=None if hits is None else np.add.reduceat(hits, cuts).tolist(),
            low=low,
            high=high,
            num_nulls=nulls,
        )

    def _with_bounds(self, state: Int64s, single: Bools) -> list[int]:
        """Return the cells that get bounds: those that might match, and the nearest of the others."""
        most = max(MAX_BOUNDS // self._num_lanes, 4)
        important = np.flatnonzero(state < SKIPPED)
        center = int(important[0]) if len(important) else 0
        distance = np.abs(np.arange(len(state)) - center)
        order = np.lexsort((distance, state >= SKIPPED))
        found: list[int] = order[single[order]][:most].tolist()
        return found

    def _bounds(self, leaf: Leaf, key: ChunkKey, page: int) -> tuple[Any, Any, int | None]:
        """Return the bounds and the number of nulls of a page, or of a chunk for page -1."""
        if page >= 0:
            index = self._file.column_index(key)
            if index is None:
                return None, None, None
            nulls = index.null_counts[page] if index.null_counts else None
            if index.null_pages[page]:
                return None, None, nulls
            return _short(leaf, index.min_values[page]), _short(leaf, index.max_values[page]), nulls
        try:
            meta = self._file.footer.chunk_metadata(key.row_group, leaf)
        except FormatError:  # encrypted, or in another file; reading it raises the error
            return None, None, None
        bounds = self._file.trust(leaf).bounds(meta).value
        nulls = None if meta.statistics is None else meta.statistics.null_count
        return (None, None, nulls) if bounds is None else (*(_short(leaf, one) for one in bounds), nulls)

    def _indexes(self, leaf: Leaf, outlines: ChunkOutlines) -> list[IndexFacts]:
        found = []
        meta = self._first_metadata(leaf)
        if meta is not None and meta.statistics is not None:
            found.append(IndexFacts("statistics", "bounds of each row group, in the footer", None))
        if outlines.column_indexes.any():
            size = int(outlines.column_index_bytes.sum())
            found.append(IndexFacts(name_of("column_index"), "bounds of each page", size))
        if outlines.has_offset_index.any():
            size = int(outlines.offset_index_bytes.sum())
            found.append(IndexFacts(name_of("offset_index"), "where each page begins", size))
        if meta is not None and meta.bloom_filter_offset:
            found.append(IndexFacts(name_of("bloom_filter"), "which values each row group can contain", None))
        directory = self._file.metadata.directory
        for entry in () if directory is None else directory.entries:
            if leaf.path in entry.columns:
                size = entry.length if entry.inline is None else len(entry.inline)
                found.append(IndexFacts(entry.name, "embedded in the file", size))
        return found


class _Pages(NamedTuple):
    """The pages of a column in the order of their rows; a chunk whose pages are not located is one."""

    keys: Sequence[tuple[ChunkKey, int]]
    starts: Int64s
    stops: Int64s
    offsets: Int64s
    sizes: Int64s
    num_pages: Int64s
    is_read: Bools

    def dictionaries(self, outlines: ChunkOutlines, chosen: Bools) -> Int64s:
        """Return the ranges of the dictionary pages that some of the pages need."""
        groups = np.unique([self.keys[at][0].row_group for at in np.flatnonzero(chosen).tolist()]).astype(
            np.int64
        )
        found = np.stack([outlines.starts[groups], outlines.first_pages[groups]], axis=1)
        return found[found[:, 1] > found[:, 0]]


def joined_steps(steps: Sequence[PruneStep]) -> list[PruneStep]:
    """Return steps without those that changed nothing; consecutive steps of one index are one step."""
    found: list[PruneStep] = []
    for step in steps:
        if step.after.num_rows == step.before.num_rows:
            continue
        if found and (found[-1].index, found[-1].column) == (step.index, step.column):
            found[-1] = PruneStep(step.index, step.column, found[-1].before, step.after)
        else:
            found.append(step)
    return found


def _short(leaf: Leaf, raw: bytes) -> Any:
    value = json_value(human_value(leaf, raw))
    return cut(value, _MAX_TEXT) if isinstance(value, str) else value
