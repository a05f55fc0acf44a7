"""What a query has read: counts of pages, rows and bytes, the states of pages, and what indexes excluded."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from intarsia.amounts import count
from intarsia.file import ChunkKey, FileMetadata, ParquetInput
from intarsia.file.chunks import UNKNOWN, ChunkPlan
from intarsia.format.footer import Leaf
from intarsia.format.page_index import Int64s, PageRows
from intarsia.once import cached_property
from intarsia.read.pruner import PruneStep
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import Rows
from intarsia.rows.values import JsonObject


@dataclass
class PageCounts(JsonObject):
    """The numbers of data pages of one column, each of which is in one state.

    Attributes:
        total: The number of pages; None if a file has no page counts.
        read: The number of pages whose values were read.
        excluded: The number of other pages without a row that might match, as an index proved.
        unneeded: The number of other pages, None if the total is unknown: their rows are certain to match, or
            do not match by the values of other columns, or come after a limit, or an index contains their
            values. The same if the locations of the pages were not needed, so that single ones cannot be
            excluded.
    """

    JSON_KEYS = "total read excluded unneeded"

    total: int | None = 0
    read: int = 0
    excluded: int = 0

    @property
    def unneeded(self) -> int | None:
        """The number of pages that were neither read nor excluded; see `PageCounts`."""
        return None if self.total is None else self.total - self.read - self.excluded

    def add(self, other: PageCounts) -> None:
        """Add other counts; the total becomes None if either is."""
        self.total = None if self.total is None or other.total is None else self.total + other.total
        self.read += other.read
        self.excluded += other.excluded


@dataclass(frozen=True)
class ReadCounts:
    """Counts of the reads of one file, or of a part of it.

    Attributes:
        row_groups: Number of row groups with data pages that were read.
        dictionary_pages: Number of dictionary pages that were read.
        rows_candidate: Number of rows that might match, according to the indexes.
        rows_matched: Number of rows that match.
        index_bytes: Bytes that were read from indexes.
        planned_bytes: Bytes of the pages in a plan.

    Example:
        >>> ReadCounts(row_groups=1) + ReadCounts(row_groups=2, rows_matched=3)
        ReadCounts(row_groups=3, dictionary_pages=0, rows_candidate=0, rows_matched=3, index_bytes=0,
                   planned_bytes=0)
    """

    row_groups: int = 0
    dictionary_pages: int = 0
    rows_candidate: int = 0
    rows_matched: int = 0
    index_bytes: int = 0
    planned_bytes: int = 0

    def __add__(self, other: ReadCounts) -> ReadCounts:
        return ReadCounts(*map(operator.add, vars(self).values(), vars(other).values()))


@dataclass
class PrunedBy:
    """The files, row groups, pages and rows that one index of one column excluded.

    Attributes:
        index: The name of the index, such as ``"statistics"`` or ``"distinct(dest):page"``.
        column: The dotted path of the column.
        files: The number of excluded files.
        row_groups: The number of excluded row groups, including those of excluded files.
        pages: The number of excluded pages, including those of excluded row groups.
        rows: The number of excluded rows.
    """

    index: str
    column: str
    files: int = 0
    row_groups: int = 0
    pages: int = 0
    rows: int = 0

    def __str__(self) -> str:
        counts = {"row": self.rows, "page": self.pages, "row group": self.row_groups, "file": self.files}
        parts = [count(number, noun) for noun, number in counts.items() if number]
        of_column = "" if self.column == "*" else f" of {self.column}"
        return f"{', '.join(parts) or 'nothing'} by {self.index}{of_column}"

    def add(self, *, files: int = 0, row_groups: int = 0, pages: int = 0, rows: int = 0) -> None:
        """Add to the counts."""
        self.files += files
        self.row_groups += row_groups
        self.pages += pages
        self.rows += rows

    def add_step(self, file: ParquetInput, step: PruneStep) -> None:
        """Add the rows that the index excluded in one file; `add` adds the pages.

        Args:
            file: The file, or several that are joined.
            step: The rows.
        """

        def emptied(edges: Rows) -> int:
            before, after = step.before.count_between(edges), step.after.count_between(edges)
            return int(np.count_nonzero((before > 0) & (after == 0)))

        self.add(
            files=emptied(file.extent.row_edges),
            row_groups=emptied(file.footer.row_group_starts),
            rows=step.before.num_rows - step.after.num_rows,
        )


class PagesRead:
    """The data pages of a file whose values were read, each once however often it was; thread-safe.

    Leaves are given by ordinal.

    Example:
        >>> pages = PagesRead()
        >>> pages.add_chunks(3, [1])
        >>> pages.whole_chunks([3], 2), pages.parts()
        (array([[False,  True]]), {})
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._whole: dict[int, set[int]] = {}
        self._parts: dict[ChunkKey, Bools] = {}

    def add_chunks(self, leaf: int, groups: Iterable[int]) -> None:
        """Add all pages of the chunks of a leaf in some row groups."""
        with self._lock:
            self._whole.setdefault(leaf, set()).update(groups)

    def add_plans(self, group: int, plans: Iterable[ChunkPlan]) -> None:
        """Add the pages that are read of some chunks of a row group."""
        with self._lock:
            for plan in plans:
                key = ChunkKey(group, plan.leaf.ordinal)
                if plan.whole:
                    self._whole.setdefault(key.leaf, set()).add(group)
                    continue
                known = self._parts.get(key)
                if known is None or len(known) != plan.total_pages:
                    known = self._parts[key] = np.zeros(plan.total_pages, dtype=bool)
                known[np.asarray(plan.page_ordinals, dtype=np.int64)] = True

    def parts(self) -> Mapping[ChunkKey, Bools]:
        """Return for each chunk that was not read as a whole, but in part, whether each page was read."""
        with self._lock:
            return {
                key: pages
                for key, pages in self._parts.items()
                if key.row_group not in self._whole.get(key.leaf, ())
            }

    def whole_chunks(self, leaves: Sequence[int], num_groups: int) -> Bools:
        """Return for each of some leaves and each row group whether the chunk was read as a whole."""
        found = np.zeros((len(leaves), num_groups), dtype=bool)
        with self._lock:
            for position, leaf in enumerate(leaves):
                groups = self._whole.get(leaf)
                if groups:
                    found[position, list(groups)] = True
        return found


class PageStates:
    """The states of the data pages of some leaves of a file, when its query has ended.

    A page that was read is not excluded, whatever an index proves. Whether a page that was not read is
    excluded is only known if the locations of the pages of its chunk are, or if all of its row group is
    excluded: nothing is read for a report.

    Args:
        among: The row groups that count, one boolean per row group; None for all.
    """

    def __init__(
        self, metadata: FileMetadata, leaves: Sequence[Leaf], pages: PagesRead, among: Bools | None = None
    ) -> None:
        self._metadata = metadata
        self._leaves = leaves
        self._edges = metadata.footer.row_group_starts
        self._among = among
        self._is_read = pages.whole_chunks([leaf.ordinal for leaf in leaves], len(self._edges) - 1)
        self._parts = pages.parts()

    @cached_property
    def _counts(self) -> Int64s:
        """The number of pages by leaf and row group; `UNKNOWN` if neither the writer nor an index has it."""
        counts = self._metadata.page_counts(self._leaves)
        if self._among is not None:
            counts = np.where(self._among, counts, 0)
        return counts

    @cached_property
    def totals(self) -> list[int | None]:
        """The number of pages of each leaf; None if the footer does not have that of a chunk."""
        among = slice(None) if self._among is None else self._among
        recorded = [of_leaf.data_pages[among] for of_leaf in self._metadata.outlines(self._leaves)]
        sums = self._counts.sum(axis=1).tolist()
        return [
            None if (counts == UNKNOWN).any() else total for counts, total in zip(recorded, sums, strict=True)
        ]

    @cached_property
    def _unread(self) -> Int64s:
        """The number of pages by leaf and row group; 0 if it is unknown, or if all were read."""
        return np.where(self._is_read, 0, np.maximum(self._counts, 0))

    @cached_property
    def read(self) -> list[int]:
        """The number of pages of each leaf that were read, without those of chunks of an unknown number."""
        found: list[int] = (np.maximum(self._counts, 0) - self._unread).sum(axis=1).tolist()
        if self._parts:
            positions = {leaf.ordinal: position for position, leaf in enumerate(self._leaves)}
            for key, pages in self._parts.items():
                if key.leaf in positions:
                    position = positions[key.leaf]
                    num_pages = int(self._counts[position, key.row_group])
                    found[position] += min(int(np.count_nonzero(pages)), max(num_pages, 0))
        return found

    def excluded_by(self, step: PruneStep) -> Int64s:
        """Return the number of pages of each leaf that lost their last candidate rows by an index."""
        before, after = step.before.count_between(self._edges), step.after.count_between(self._edges)
        narrowed = before != after
        # for row groups that are excluded completely, single pages need not be counted
        is_whole = narrowed & (before == np.diff(self._edges)) & (after == 0)
        for key in self._parts:
            is_whole[key.row_group] = False
        unread = self._unread
        found: Int64s = unread[:, is_whole].sum(axis=1)
        for group in np.flatnonzero(narrowed & ~is_whole).tolist():
            found += np.array(self._excluded_in(group, unread[:, group].tolist(), step), dtype=np.int64)
        return found

    def _excluded_in(self, group: int, unread: Sequence[int], step: PruneStep) -> list[int]:
        """Return the number of excluded pages of each leaf in one row group.

        Args:
            group: The ordinal of the row group.
            unread: The number of pages of each leaf, 0 if they were all read.
            step: The rows that an index excluded.
        """
        start, stop = int(self._edges[group]), int(self._edges[group + 1])
        before, after = (rows.clip(start, stop).shift(-start) for rows in (step.before, step.after))
        by_rows: dict[PageRows, Bools] = {}
        found = []
        for leaf, num_pages in zip(self._leaves, unread, strict=True):
            key = ChunkKey(group, leaf.ordinal)
            locations, read = self._metadata.locations(key), self._parts.get(key)
            excluded = 0
            if num_pages and locations is not None:
                rows = locations.rows  # columns whose pages have the same rows share them
                if rows not in by_rows:
                    gone = before.overlaps(rows.starts, rows.stops) & ~after.overlaps(rows.starts, rows.stops)
                    by_rows[rows] = gone
                own = by_rows[rows]
                excluded = int(np.count_nonzero(own if read is None else own & ~read))
            elif read is None and after.is_empty:
                excluded = num_pages
            found.append(excluded)
        return found
