"""Estimates of how many rows a predicate matches, and the order in which to read its conditions' columns.

Nothing is skipped because of an estimate: it only decides which columns are read first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from intarsia.file import ParquetInput
from intarsia.indexes.calling import call_or_ignore
from intarsia.indexes.embedded import EmbeddedIndexes
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

#: A condition that keeps a larger share of the rows hardly saves pages of the next one's columns.
SELECTIVE_SHARE = 0.25

_LOWER_ENDS = frozenset((">", ">="))
_UPPER_ENDS = frozenset(("<", "<="))


class Estimates:
    """What the histograms and samples of a file say about a predicate.

    Args:
        file: The file.
        embedded: Its embedded indexes.
        most_bytes: An index that takes more than this many bytes to read is not asked.
    """

    def __init__(self, file: ParquetInput, embedded: EmbeddedIndexes, most_bytes: int) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self._embedded = embedded
        self._known: dict[Condition, float | None] = {}

    def share(self, node: Bound) -> float | None:
        """The share of the file's rows that match, 0 to 1; None if no index can tell.

        The two ends of a range of one column are combined exactly; other conditions are assumed to be
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
        """The share of each child; children that are ends of ranges of one column count as one."""
        ends: dict[Path, list[BoundCompare]] = {}
        for child in node.children:
            if isinstance(child, BoundCompare) and child.op in _LOWER_ENDS | _UPPER_ENDS:
                ends.setdefault(child.path, []).append(child)
            else:
                yield self.share(child)
        for leaves in ends.values():
            yield self._range_share(leaves, is_and=isinstance(node, BoundAnd))

    def _range_share(self, leaves: Sequence[BoundCompare], *, is_and: bool) -> float | None:
        """The share of the rows where all of these, or any, hold of one column."""
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
        # either every value lies above the lower end or below the upper one, or no value does both
        values = self.share(BoundNull(leaves[0].path, leaves[0].type, negated=True))
        values = 1.0 if values is None else values
        return max(0.0, total - values) if is_and else min(total, values)

    def _leaf_share(self, leaf: Condition) -> float | None:
        num_rows = self._file.footer.num_rows
        for name, index in self._embedded.estimators(leaf, self._most_bytes):
            rows = call_or_ignore(self._file, name, partial(index.estimated_rows, leaf))
            if rows is not None and not math.isnan(rows):
                return min(max(rows / max(1, num_rows), 0.0), 1.0)
        return None


def order_conditions(
    predicate: Bound, share: Callable[[Bound], float | None], size_bytes: Callable[[Path], int]
) -> list[Bound]:
    """The conditions of an AND in the order in which it costs least to look at them.

    A condition that keeps few rows and is cheap to read comes first, by ``size / (1 - share)``; the columns
    of those after it are then read only where its rows are. Conditions that spare nothing stay together,
    as do those that nothing is known of, at the end.

    Args:
        predicate: What is asked for.
        share: The share of the rows that a condition keeps, 0 to 1; None where it is not known.
        size_bytes: What it takes to read a column.

    Returns:
        Predicates that together, by AND, are the predicate; one, if there is nothing to gain.

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
