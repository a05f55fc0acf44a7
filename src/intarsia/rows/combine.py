"""Union and intersection of many row selections at once, in one pass of NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intarsia.rows.selection import RowSelection


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
