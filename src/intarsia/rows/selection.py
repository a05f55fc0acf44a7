"""Sets of rows as sorted half-open ranges, and their algebra.

A `RowSelection` is independent of files, pages and I/O. Row groups, pages and files are ranges of rows, so
columns may have different page boundaries.

Every operation preserves these invariants: ``starts`` and ``stops`` are ``int64`` arrays of equal length;
``starts[i] < stops[i]`` (ranges are not empty); ``stops[i] < starts[i + 1]`` (ranges are sorted, disjoint and
not adjacent). Two selections of the same rows therefore have equal arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]

# without the Python functions behind numpy's methods `all`, `any` and `sum`
_all, _any, _sum = np.logical_and.reduce, np.logical_or.reduce, np.add.reduce


class RowSelection:
    """An immutable set of rows.

    Args:
        starts: The first row of each range.
        stops: The row after the last row of each range.

    The constructor does not check its input. Use `from_ranges` for ranges that may overlap or be adjacent,
    empty or unsorted.

    Example:
        >>> a = RowSelection.from_ranges([(0, 10), (20, 30)])
        >>> b = RowSelection.from_ranges([(5, 25)])
        >>> a & b
        RowSelection([5:10, 20:25])
        >>> a | b
        RowSelection([0:30])
        >>> a - b
        RowSelection([0:5, 25:30])
        >>> a.num_rows
        20
    """

    __slots__ = ("_num_rows", "starts", "stops")

    def __init__(self, starts: Rows, stops: Rows) -> None:
        self.starts = starts
        self.stops = stops
        self._num_rows: int | None = None

    @classmethod
    def from_ranges(cls, ranges: Iterable[tuple[int, int]]) -> RowSelection:
        """Return the rows in any of the ranges ``(start, stop)``, given in any order."""
        pairs = np.asarray(list(ranges), dtype=np.int64).reshape(-1, 2)
        return cls.union_of(pairs[:, 0], pairs[:, 1])

    @classmethod
    def of_range(cls, start: int, stop: int) -> RowSelection:
        """Return the rows from ``start`` up to ``stop``. The range may be empty."""
        if start >= stop:
            return _NONE
        return cls(np.array((start,), dtype=np.int64), np.array((stop,), dtype=np.int64))

    @classmethod
    def union_of(cls, starts: npt.ArrayLike, stops: npt.ArrayLike) -> RowSelection:
        """Return the rows in any of the ranges, which may overlap or be adjacent, empty or unsorted."""
        first = np.asarray(starts, dtype=np.int64)
        last = np.asarray(stops, dtype=np.int64)
        filled = first < last
        if not _all(filled):
            first, last = first[filled], last[filled]
        if len(first) < 2:
            return cls(first, last)
        if _any(first[1:] < first[:-1]):
            order = np.argsort(first, kind="stable")
            first, last = first[order], last[order]
        reach = np.maximum.accumulate(last)
        begins = np.empty(len(first), dtype=bool)
        begins[0] = True
        np.greater(first[1:], reach[:-1], out=begins[1:])
        ends = np.empty(len(first), dtype=bool)
        ends[-1] = True
        ends[:-1] = begins[1:]
        return cls(first[begins], reach[ends])

    @classmethod
    def from_mask(cls, mask: npt.NDArray[np.bool_], first_row: int = 0) -> RowSelection:
        """Return the rows where ``mask`` is true, where ``mask[0]`` is row ``first_row``."""
        if not len(mask):
            return _NONE
        edges: Rows = np.flatnonzero(mask[1:] != mask[:-1]) + (first_row + 1)
        if mask[0]:
            edges = np.concatenate([[first_row], edges])
        if mask[-1]:
            edges = np.concatenate([edges, [first_row + len(mask)]])
        # contiguous arrays take half as long in everything that follows
        return cls(edges[::2].copy(), edges[1::2].copy())

    @classmethod
    def from_rows(cls, rows: npt.ArrayLike) -> RowSelection:
        """Return the given rows, in any order."""
        ordinals = np.asarray(rows, dtype=np.int64)
        return cls.union_of(ordinals, ordinals + 1)

    @classmethod
    def all(cls, num_rows: int) -> RowSelection:
        """Return the rows from 0 up to ``num_rows``."""
        return cls.of_range(0, num_rows)

    @classmethod
    def none(cls) -> RowSelection:
        """Return the empty selection."""
        return _NONE

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        if self._num_rows is None:
            is_one = len(self.starts) == 1
            self._num_rows = int(self.stops[0] - self.starts[0] if is_one else _sum(self.stops - self.starts))
        return self._num_rows

    @property
    def is_empty(self) -> bool:
        """Whether the selection has no rows."""
        return len(self.starts) == 0

    def longest_gap(self, num_rows: int) -> int:
        """Return the largest number of adjacent rows, of ``num_rows`` in all, that are not selected.

        Example:
            >>> RowSelection.from_rows([2, 3, 9]).longest_gap(10)
            5
        """
        edges = np.concatenate([[0], self.stops]), np.concatenate([self.starts, [num_rows]])
        return int((edges[1] - edges[0]).max())

    def __and__(self, other: RowSelection) -> RowSelection:
        """Return the rows in both selections."""
        # most selections are a single range; the general case below costs ten times as much for them
        if len(self.starts) == 1:
            return other.clip(int(self.starts[0]), int(self.stops[0]))
        if len(other.starts) == 1:
            return self.clip(int(other.starts[0]), int(other.stops[0]))
        if not len(self.starts) or not len(other.starts):
            return _NONE
        # Each range of `self` overlaps the ranges of `other` from `low` up to `high`.
        low = other.stops.searchsorted(self.starts, side="right")
        high = other.starts.searchsorted(self.stops, side="left")
        counts = np.maximum(high - low, 0)
        mine = np.repeat(np.arange(len(counts)), counts)
        offsets = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
        theirs = np.repeat(low, counts) + offsets
        return RowSelection(
            np.maximum(self.starts[mine], other.starts[theirs]),
            np.minimum(self.stops[mine], other.stops[theirs]),
        )

    def __or__(self, other: RowSelection) -> RowSelection:
        """Return the rows in either selection."""
        if not len(self.starts):
            return other
        if not len(other.starts) or other is self:
            return self
        return RowSelection.union_of(
            np.concatenate([self.starts, other.starts]), np.concatenate([self.stops, other.stops])
        )

    def __sub__(self, other: RowSelection) -> RowSelection:
        """Return the rows that are not in the other selection."""
        if not len(self.starts) or not len(other.starts):
            return self
        gaps = RowSelection.union_of(
            np.concatenate([self.starts[:1], other.stops]), np.concatenate([other.starts, self.stops[-1:]])
        )
        return self & gaps

    def shift(self, rows: int) -> RowSelection:
        """Return the selection with every row moved by ``rows``."""
        return RowSelection(self.starts + rows, self.stops + rows)

    def clip(self, start: int, stop: int) -> RowSelection:
        """Return the rows from ``start`` up to ``stop``."""
        if not len(self.starts) or start >= stop:
            return _NONE
        if start <= self.starts[0] and self.stops[-1] <= stop:
            return self
        if len(self.starts) == 1:
            return RowSelection.of_range(max(start, int(self.starts[0])), min(stop, int(self.stops[0])))
        first = int(self.stops.searchsorted(start, side="right"))
        last = int(self.starts.searchsorted(stop, side="left"))
        if first >= last:
            return _NONE
        starts, stops = self.starts[first:last].copy(), self.stops[first:last].copy()
        starts[0], stops[-1] = max(start, int(starts[0])), min(stop, int(stops[-1]))
        return RowSelection(starts, stops)

    def head(self, num_rows: int) -> RowSelection:
        """Return the first ``num_rows`` rows."""
        if num_rows <= 0:
            return _NONE
        before = np.cumsum(self.stops - self.starts)
        if not len(self.starts) or num_rows >= before[-1]:
            return self
        last = int(np.searchsorted(before, num_rows))
        stops = self.stops[: last + 1].copy()
        stops[last] -= before[last] - num_rows
        return RowSelection(self.starts[: last + 1], stops)

    def at(self, positions: RowSelection) -> RowSelection:
        """Return the rows at some positions among the selected rows.

        Example:
            >>> RowSelection.from_ranges([(10, 15), (20, 30)]).at(RowSelection.from_ranges([(0, 2), (4, 7)]))
            RowSelection([10:12, 14:15, 20:22])
        """
        if len(self.starts) == 1:
            return positions.shift(int(self.starts[0]))
        before = np.cumsum(self.stops - self.starts)
        pieces = positions & RowSelection(before - (self.stops - self.starts), before)
        shift = (self.stops - before)[before.searchsorted(pieces.starts, side="right")]
        return RowSelection(pieces.starts + shift, pieces.stops + shift)

    def overlaps(self, starts: npt.ArrayLike, stops: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return whether each granule ``starts[i]`` to ``stops[i]`` has a selected row, False if empty."""
        first, last = np.asarray(starts), np.asarray(stops)
        if len(self.starts) == 1:
            return np.asarray((first < self.stops[0]) & (last > self.starts[0]) & (first < last))
        low = self.stops.searchsorted(first, side="right")
        high = self.starts.searchsorted(last, side="left")
        return np.asarray((low < high) & (first < last))

    def covers(self, starts: npt.ArrayLike, stops: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return whether all rows of each granule are selected, True if it is empty."""
        first = np.asarray(starts)
        last = np.asarray(stops)
        if not len(self.starts):
            return np.asarray(first >= last)
        if len(self.starts) == 1:
            return np.asarray(((first >= self.starts[0]) & (last <= self.stops[0])) | (first >= last))
        position = self.starts.searchsorted(first, side="right") - 1
        inside = (position >= 0) & (self.stops[np.maximum(position, 0)] >= last)
        return np.asarray(inside | (first >= last))

    def count_between(self, edges: Rows) -> Rows:
        """Count the selected rows of each granule ``edges[i]`` to ``edges[i + 1]``.

        Args:
            edges: The boundaries of the granules, ascending, one more than granules.

        Example:
            >>> RowSelection.from_ranges([(2, 4), (7, 20)]).count_between(np.array([0, 3, 10, 15]))
            array([1, 4, 5])
        """
        if not len(self.starts):
            return np.zeros(max(0, len(edges) - 1), dtype=np.int64)
        if len(self.starts) == 1:
            inside: Rows = np.minimum(np.maximum(edges, self.starts[0]), self.stops[0])
            return inside[1:] - inside[:-1]
        before = np.concatenate([[0], np.cumsum(self.stops - self.starts)])
        # ranges that start at or before the edge
        position = np.searchsorted(self.starts, edges, side="right")
        last = np.maximum(position - 1, 0)
        beyond = np.maximum(self.stops[last] - edges, 0)  # rows of the last of them at or after the edge
        return np.diff(before[position] - np.where(position > 0, beyond, 0))

    def rows(self) -> Rows:
        """Return the ordinals of all rows."""
        lengths = self.stops - self.starts
        shift = np.repeat(self.starts - (np.cumsum(lengths) - lengths), lengths)
        return np.asarray(np.arange(int(_sum(lengths)), dtype=np.int64) + shift)

    def flat(self, most: int) -> list[int]:
        """Return starts and stops in turn; the closest ranges are joined if there are too many.

        Args:
            most: The maximum number of ranges, at least two.

        Example:
            >>> RowSelection.from_ranges([(0, 1), (3, 4), (5, 6)]).flat(2)
            [0, 1, 3, 6]
        """
        starts, stops = self.starts, self.stops
        if len(starts) > most:
            gaps = starts[1:] - stops[:-1]
            # the largest gaps stay
            widest = np.sort(np.argpartition(gaps, len(gaps) - most + 1)[len(gaps) - most + 1 :])
            starts = np.concatenate([starts[:1], starts[widest + 1]])
            stops = np.concatenate([stops[widest], stops[-1:]])
        ranges: list[int] = np.stack([starts, stops], axis=1).ravel().tolist()
        return ranges

    def to_mask(self, num_rows: int) -> npt.NDArray[np.bool_]:
        """Return which of the rows from 0 up to ``num_rows`` are selected; the others must not be.

        Example:
            >>> RowSelection.from_ranges([(1, 3), (4, 5)]).to_mask(5)
            array([False,  True,  True, False,  True])
        """
        # 1 where a range starts, and -1 where it stops; ranges are not adjacent
        edges = np.zeros(num_rows + 1, dtype=np.int8)
        edges[self.starts] = 1
        edges[self.stops] = -1
        return np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over the ranges as Python integers."""
        return zip(self.starts.tolist(), self.stops.tolist(), strict=True)

    def __len__(self) -> int:
        """Return the number of ranges. `num_rows` is the number of rows."""
        return len(self.starts)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, RowSelection):
            return NotImplemented
        if self is other:
            return True
        if len(self.starts) != len(other.starts):
            return False
        return bool(_all(self.starts == other.starts) and _all(self.stops == other.stops))

    def __hash__(self) -> int:
        return hash((self.starts.tobytes(), self.stops.tobytes()))

    def __repr__(self) -> str:
        shown = [f"{start}:{stop}" for start, stop in zip(self.starts[:6], self.stops[:6], strict=True)]
        if len(self) > 6:
            shown.append(f"… {len(self)} ranges")
        return f"RowSelection([{', '.join(shown)}])"


_NONE = RowSelection(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def union(selections: Sequence[RowSelection]) -> RowSelection:
    """Return the rows in any of the selections.

    Example:
        >>> union([RowSelection.from_ranges([(5, 9)]), RowSelection.from_ranges([(0, 6)])])
        RowSelection([0:9])
    """
    if len(selections) == 1:
        return selections[0]
    if not selections:
        return RowSelection.none()
    return RowSelection.union_of(
        np.concatenate([selection.starts for selection in selections]),
        np.concatenate([selection.stops for selection in selections]),
    )


def intersection(selections: Sequence[RowSelection]) -> RowSelection:
    """Return the rows in all of the selections. At least one selection is required.

    Example:
        >>> parts = [RowSelection.from_ranges([(0, 9)]), RowSelection.from_ranges([(1, 4), (6, 12)])]
        >>> intersection([*parts, RowSelection.from_ranges([(3, 8)])])
        RowSelection([3:4, 6:8])
    """
    if len(selections) == 1:
        return selections[0]
    if len(selections) == 2:
        return selections[0] & selections[1]
    if any(selection.is_empty for selection in selections):
        return RowSelection.none()
    starts = np.concatenate([selection.starts for selection in selections])
    stops = np.concatenate([selection.stops for selection in selections])
    edges = np.concatenate([starts, stops])
    order = np.argsort(edges, kind="stable")
    steps = np.concatenate([np.ones(len(starts), np.int64), np.full(len(stops), -1, np.int64)])
    depths = np.cumsum(steps[order])
    edges = edges[order]
    # the ranges of one selection are never adjacent, so all selections contain a row if and only if the depth
    # after the last step at an edge equals their number
    inside = np.flatnonzero((depths[:-1] == len(selections)) & (edges[1:] > edges[:-1]))
    return RowSelection.union_of(edges[inside], edges[inside + 1])
