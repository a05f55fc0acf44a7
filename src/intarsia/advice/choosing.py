"""Choose the smallest set of indexes with nearly all of the savings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

#: Part of the savings that may be lost if smaller indexes replace larger ones.
LOST_PART = 0.05

#: Number of runs of each query within which an index has to save its own size in bytes.
RUNS_TO_PAY = 20


def choose(
    weights: Mapping[str, float],
    read_bytes: Callable[[frozenset[str]], float],
    num_queries: int,
    companions: Collection[str] = (),
) -> tuple[str, ...]:
    """Choose the indexes that minimize their size plus the bytes that `RUNS_TO_PAY` runs of a query read.

    The search starts from no index and from all of them, because under an OR some help only together. It adds
    or removes the index that reduces the sum most, as long as there is one.

    Args:
        weights: The size of each index in bytes.
        read_bytes: Returns the number of bytes that all queries read with some of the indexes.
        num_queries: The number of queries.
        companions: Indexes that others need, such as the page index.

    Returns:
        The names of the chosen indexes, the lightest first.

    Example:
        >>> weights = {"light": 10, "heavy": 500_000, "useless": 1}
        >>> saved = {"light": 900_000, "heavy": 910_000}
        >>> def read_bytes(names):
        ...     return 1_000_000 - max((saved.get(name, 0) for name in names), default=0)
        >>> choose(weights, read_bytes, 1)
        ('light',)
    """
    nothing = frozenset[str]()

    def price(names: frozenset[str]) -> float:
        return RUNS_TO_PAY * read_bytes(names) / max(1, num_queries) + sum(weights[name] for name in names)

    everything = frozenset(weights)
    helping = frozenset(name for name in weights if _helps(name, everything, companions, read_bytes)) | set(
        companions
    )
    found = [_descend(start, helping, companions, price) for start in (nothing, helping)]
    best = min(found, key=lambda names: (price(names), len(names)))
    now = read_bytes(nothing)
    best = _lighter(best, weights, read_bytes, now)
    return tuple(sorted(best, key=lambda name: (weights[name], name)))


def _lighter(
    names: frozenset[str],
    weights: Mapping[str, float],
    read_bytes: Callable[[frozenset[str]], float],
    now: float,
) -> frozenset[str]:
    """Remove indexes, the largest first, or replace them with smaller ones, with nearly the same savings."""
    read = read_bytes(names)
    allowed = read + LOST_PART * (now - read)
    for heavy in sorted(names, key=lambda name: (-weights[name], name)):
        rest = names - {heavy}
        lighter = sorted(
            (weights[name], name) for name in weights.keys() - names if weights[name] < weights[heavy]
        )
        for changed in (rest, *(rest | {name} for _, name in lighter)):
            if read_bytes(changed) <= allowed:
                names = changed
                break
    return names


def _helps(
    name: str,
    everything: frozenset[str],
    companions: Collection[str],
    read_bytes: Callable[[frozenset[str]], float],
) -> bool:
    """Return whether an index reduces the bytes read, with its companions only or with all other indexes."""
    others = (frozenset(companions), everything)
    return any(read_bytes(there | {name}) < read_bytes(there - {name}) for there in others)


def _descend(
    names: frozenset[str],
    everything: frozenset[str],
    companions: Collection[str],
    price: Callable[[frozenset[str]], float],
) -> frozenset[str]:
    """Add or remove one index at a time, or one with a companion, as long as the price decreases."""
    lowest = price(names)
    while True:
        changes = [names ^ {one} for one in sorted(everything)]
        changes += [
            names | {one, other} for one in sorted(everything - names) for other in companions if one != other
        ]
        best = min(changes, key=lambda changed: (price(changed), len(changed)), default=names)
        if price(best) >= lowest:
            return names
        names, lowest = best, price(best)
