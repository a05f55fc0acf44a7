"""The predicate after binding: leaves hold a path, a type and literals of exactly that type.

**Two-valued from here on.** NOT was pushed to the leaves, so a row is selected exactly where a bound node
is TRUE, and NULL and FALSE need no telling apart: every leaf is simply *true* or *not true* for a row, and
:class:`BoundAnd` and :class:`BoundOr` are plain intersection and union. There is no bound NOT, and a bound
node must never be complemented (the rows where ``x < 5`` is not true include those where x is NULL).

**NULL rows** match :class:`BoundNull` (``IS NULL``) and constants, nothing else.

**NaN rows** match the leaves whose ``or_nan`` is true and the constant TRUE, nothing else. In Arrow,
comparing with NaN is false, except ``<>`` which is true. So NOT (x < 5) is true for NaN and becomes ``x >=
5`` with ``or_nan=True``. Code that prunes by bounds must keep rows that may hold NaN when ``or_nan`` is
true: Parquet's bounds leave NaN out.

Literals are never NaN nor -0.0; values of the data may be, and -0.0 equals 0.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from intarsia.predicate.nodes import Op, escaped, render_column, render_literal
from intarsia.predicate.skeleton import Skeleton

if TYPE_CHECKING:
    from collections.abc import Iterator

Path: TypeAlias = tuple[str, ...]


def _name(path: Path) -> str:
    return render_column(path[0] if len(path) == 1 else ".".join(path))


@dataclass(frozen=True, slots=True)
class BoundCompare:
    """``path op value``; where ``or_nan`` is true, NaN matches too (always so for ``<>`` on floats)."""

    path: Path
    type: pa.DataType
    op: Op
    value: pa.Scalar
    or_nan: bool = False

    def paths(self) -> frozenset[Path]:
        """The leaf that this node reads."""
        return frozenset((self.path,))

    def __str__(self) -> str:
        text = f"{_name(self.path)} {self.op} {render_literal(self.value)}"
        return f"({text} OR {_name(self.path)} IS NAN)" if self.or_nan and self.op != "<>" else text


@dataclass(frozen=True, slots=True)
class BoundIn:
    """``path [NOT] IN values``; at least two values, unique, in ascending order, without NULL and NaN."""

    path: Path
    type: pa.DataType
    values: tuple[pa.Scalar, ...]
    negated: bool = False
    _array: list[pa.Array] = field(default_factory=list, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        """Of the ends of the list, so that a long one is as good a key as a short one."""
        return hash((self.path, self.type, len(self.values), self.values[0], self.values[-1], self.negated))

    @property
    def array(self) -> pa.Array:
        """The values as an array of ``type``, made once."""
        if not self._array:
            self._array.append(pa.array(self.values, self.type))
        return self._array[0]

    @property
    def or_nan(self) -> bool:
        """Whether NaN matches: it is in no list, so it matches NOT IN."""
        return self.negated and pa.types.is_floating(self.type)

    def paths(self) -> frozenset[Path]:
        """The leaf that this node reads."""
        return frozenset((self.path,))

    def __str__(self) -> str:
        values = ", ".join(render_literal(value) for value in self.values[:20])
        more = f", … {len(self.values) - 20} more" if len(self.values) > 20 else ""
        return f"{_name(self.path)} {'NOT ' if self.negated else ''}IN ({values}{more})"


@dataclass(frozen=True, slots=True)
class BoundNull:
    """``path IS NULL``, or ``IS NOT NULL`` when negated (then NaN matches, it is a value)."""

    path: Path
    type: pa.DataType
    negated: bool = False

    @property
    def or_nan(self) -> bool:
        """Whether NaN matches."""
        return self.negated and pa.types.is_floating(self.type)

    def paths(self) -> frozenset[Path]:
        """The leaf that this node reads."""
        return frozenset((self.path,))

    def __str__(self) -> str:
        return f"{_name(self.path)} IS {'NOT ' if self.negated else ''}NULL"


@dataclass(frozen=True, slots=True)
class BoundPrefix:
    """A string starts with ``prefix`` (UTF-8, not empty), or does not when negated; NULL matches neither."""

    path: Path
    type: pa.DataType
    prefix: bytes
    negated: bool = False
    or_nan: bool = field(default=False, init=False)

    def paths(self) -> frozenset[Path]:
        """The leaf that this node reads."""
        return frozenset((self.path,))

    def __str__(self) -> str:
        text = escaped(self.prefix.decode()) + "%"
        return f"{_name(self.path)} {'NOT ' if self.negated else ''}LIKE {render_literal(text)}"


@dataclass(frozen=True, slots=True)
class BoundMatch:
    """A string matches a pattern that is more than a prefix, or does not when negated; NULL matches neither.

    Attributes:
        condition: The condition without its column and its NOT, as SQL text: ``LIKE '%a'``, ``RLIKE '^a|b'``.
        regex: The same for RE2, which searches for it; all flags are inside.
        skeleton: What every string that matches has. See :func:`intarsia.predicate.required.required_texts`.
    """

    path: Path
    type: pa.DataType
    condition: str
    regex: str
    skeleton: Skeleton
    negated: bool = False
    or_nan: bool = field(default=False, init=False)

    @property
    def prefix(self) -> bytes:
        """UTF-8 that every string which matches starts with, in exactly this case; may be empty."""
        return self.skeleton.prefix.encode()

    def paths(self) -> frozenset[Path]:
        """The leaf that this node reads."""
        return frozenset((self.path,))

    def __str__(self) -> str:
        return f"{_name(self.path)} {'NOT ' if self.negated else ''}{self.condition}"


@dataclass(frozen=True, slots=True)
class BoundConstant:
    """Every row (``True``) or no row (``False``)."""

    value: bool

    def paths(self) -> frozenset[Path]:
        """Nothing is read."""
        return frozenset()

    def __str__(self) -> str:
        return render_literal(self.value)


@dataclass(frozen=True, slots=True)
class BoundAnd:
    """Rows that match every child; at least two, none of them a :class:`BoundAnd` or a constant."""

    children: tuple[Bound, ...]

    def paths(self) -> frozenset[Path]:
        """The leaves that this node reads."""
        return frozenset().union(*(child.paths() for child in self.children))

    def __str__(self) -> str:
        return " AND ".join(
            f"({child})" if isinstance(child, BoundOr) else str(child) for child in self.children
        )


@dataclass(frozen=True, slots=True)
class BoundOr:
    """Rows that match at least one child; at least two, none of them a :class:`BoundOr` or a constant."""

    children: tuple[Bound, ...]

    def paths(self) -> frozenset[Path]:
        """The leaves that this node reads."""
        return frozenset().union(*(child.paths() for child in self.children))

    def __str__(self) -> str:
        return " OR ".join(
            f"({child})" if isinstance(child, BoundAnd) else str(child) for child in self.children
        )


Condition: TypeAlias = BoundCompare | BoundIn | BoundNull | BoundPrefix | BoundMatch
"""A node that reads one column; ``path``, ``type`` and ``or_nan`` are common to all."""

Bound: TypeAlias = Condition | BoundConstant | BoundAnd | BoundOr
"""Any node of a bound predicate."""

CONDITION_TYPES = (BoundCompare, BoundIn, BoundNull, BoundPrefix, BoundMatch)


def conditions(bound: Bound) -> Iterator[Condition]:
    """The leaves from left to right, repeated ones repeatedly.

    Example:
        >>> from intarsia.predicate import bind, parse_sql
        >>> schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
        >>> bound = bind(parse_sql("a = 1 OR b > 2 AND a IS NULL"), schema)
        >>> [str(leaf) for leaf in conditions(bound)]
        ['a = 1', 'b > 2', 'a IS NULL']
    """
    if isinstance(bound, (BoundAnd, BoundOr)):
        for child in bound.children:
            yield from conditions(child)
    elif not isinstance(bound, BoundConstant):
        yield bound


def conjoin(children: list[Bound]) -> Bound:
    """AND, flattened and simplified."""
    return _combine(children, BoundAnd, absorbing=False)


def disjoin(children: list[Bound]) -> Bound:
    """OR, flattened and simplified."""
    return _combine(children, BoundOr, absorbing=True)


def _combine(children: list[Bound], node: type[BoundAnd] | type[BoundOr], *, absorbing: bool) -> Bound:
    kept: dict[Bound, None] = {}  # a dict as an ordered set: what is written twice is judged once
    for child in children:
        if isinstance(child, BoundConstant):
            if child.value is absorbing:
                return child
        elif isinstance(child, node):
            kept.update(dict.fromkeys(child.children))
        else:
            kept[child] = None
    if not kept:
        return BoundConstant(not absorbing)
    return next(iter(kept)) if len(kept) == 1 else node(tuple(kept))
