"""Estimates of the number of matching rows, which determine the order of reading columns.

Estimates never exclude rows; they only decide which columns are read first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from intarsia.file import ParquetInput
from intarsia.indexes.base import OpenIndex
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.proof import call_or_ignore
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
from intarsia.tuning import SELECTIVE_SHARE

_LOWER_ENDS = frozenset((">", ">="))
_UPPER_ENDS = frozenset(("<", "<="))


class Estimates:
    """Estimates from the histograms and samples of a file.

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
            size = sum(map(size_bytes, paths))
            ranked.append((size / max(1e-9, 1 - kept), kept, condition))
    stages: list[Bound] = []
    together: list[Bound] = []
    for _, kept, condition in sorted(ranked, key=lambda item: item[0]):
        together.append(condition)
        if kept <= SELECTIVE_SHARE:
            stages.append(conjoin(together))
            together = []
    rest = [*together, *unknown]
    return [*stages, conjoin(rest)] if rest else stages
