"""The bound predicate. A condition has a path, a type and literals of exactly that type.

**Bound predicates are two-valued.** NOT has been pushed down to the conditions, so NULL and FALSE are
equivalent: a condition is either *true* or *not true* for a row. :class:`BoundAnd` is an intersection of
rows, and :class:`BoundOr` is a union. There is no bound NOT, and a bound node must never be complemented:
the rows where ``x < 5`` is not true include those where x is NULL.

**NULL rows** match only :class:`BoundNull` (``IS NULL``) and the constant TRUE.

**NaN rows** match only the conditions whose ``or_nan`` is true and the constant TRUE. In Arrow, a comparison
with NaN is false, except ``<>``, which is true. So NOT (x < 5) is true for NaN and becomes ``x >= 5`` with
``or_nan=True``. Parquet's bounds ignore NaN. Code that prunes by bounds must therefore keep rows that may be
NaN when ``or_nan`` is true.

A condition on a function of a column is a :class:`BoundFunction`. Indexes that list values evaluate it on
these, and an index may recognize functions by their name. `bind` joins it by AND to the conditions on the
bare column that it implies, with which all indexes prune.

Literals are never NaN or -0.0. Values in the data may be, and -0.0 equals 0.0.
"""

from __future__ import annotations

from dataclasses import field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import sortable_type
from intarsia.predicate.literals import render_literal
from intarsia.predicate.nodes import (
    Call,
    JunctionNode,
    Op,
    Result,
    escaped,
    fold_nodes,
    render_call,
    render_column,
)
from intarsia.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from intarsia.predicate.columns import Column
    from intarsia.predicate.pattern import Skeleton


Path: TypeAlias = tuple[str, ...]

#: The last part of the path of a condition on the elements of a list, or on the keys or values of a map.
ELEMENT: Final = "[]"
KEY: Final = "[key]"
VALUE: Final = "[value]"


class _OnColumn:
    """What the conditions have in common: each reads one column."""

    __slots__ = ()
    path: Path

    def paths(self) -> frozenset[Path]:
        """Return the path of the column that this node reads."""
        return frozenset((self.path,))

    def text(self, name: str) -> str:
        """Render the condition as SQL text, given the text of its column."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text(render_column(".".join(self.path)))


@dataclass(frozen=True, slots=True)
class BoundCompare(_OnColumn):
    """``path op value``. If ``or_nan`` is true, NaN also matches; it is always true for ``<>`` on floats."""

    path: Path
    type: pa.DataType
    op: Op
    value: pa.Scalar
    or_nan: bool = False

    def text(self, name: str) -> str:
        """Render the condition as SQL text, given the text of its column."""
        text = f"{name} {self.op} {render_literal(self.value)}"
        return f"({text} OR {name} IS NAN)" if self.or_nan and self.op != "<>" else text


@dataclass(frozen=True, slots=True)
class BoundIn(_OnColumn):
    """``path [NOT] IN values``.

    Attributes:
        values: An array of ``type`` with at least two values, unique and ascending, without NULL or NaN.
    """

    path: Path
    type: pa.DataType
    values: pa.Array
    negated: bool = False

    def __hash__(self) -> int:
        """Hash three values only, so that a long list is as cheap a key as a short one."""
        sampled = (self.values[0], self.values[len(self.values) // 2], self.values[-1])
        return hash((self.path, self.type, len(self.values), sampled, self.negated))

    @property
    def or_nan(self) -> bool:
        """Whether NaN matches. A list never contains NaN, so NaN matches NOT IN."""
        return self.negated and pa.types.is_floating(self.type)

    def text(self, name: str) -> str:
        """Render the condition as SQL text, given the text of its column."""
        values = ", ".join(map(render_literal, self.values[:20]))
        more = f", … {len(self.values) - 20} more" if len(self.values) > 20 else ""
        return f"{name} {'NOT ' if self.negated else ''}IN ({values}{more})"


@dataclass(frozen=True, slots=True)
class BoundNull(_OnColumn):
    """``path IS NULL``, or ``IS NOT NULL`` when negated. NaN is a value and matches ``IS NOT NULL``."""

    path: Path
    type: pa.DataType
    negated: bool = False

    @property
    def or_nan(self) -> bool:
        """Whether NaN matches."""
        return self.negated and pa.types.is_floating(self.type)

    def text(self, name: str) -> str:
        """Render the condition as SQL text, given the text of its column."""
        return f"{name} IS {'NOT ' if self.negated else ''}NULL"


@dataclass(frozen=True, slots=True)
class BoundPrefix(_OnColumn):
    """A string starts with ``prefix`` (UTF-8, not empty), or does not when negated. NULL never matches."""

    path: Path
    type: pa.DataType
    prefix: bytes
    negated: bool = False
    or_nan: bool = field(default=False, init=False)

    def text(self, name: str) -> str:
        """Render the condition as SQL text, given the text of its column."""
        text = escaped(self.prefix.decode()) + "%"
        return f"{name} {'NOT ' if self.negated else ''}LIKE {render_literal(text)}"


@dataclass(frozen=True, slots=True)
class BoundMatch(_OnColumn):
    """A string matches a pattern that is more than a prefix, or does not when negated. NULL never matches.

    Attributes:
        condition: SQL text without the column and NOT, such as ``LIKE '%a'`` or ``RLIKE '^a|b'``.
        regex: The regular expression that RE2 searches for, with its flags inline.
        skeleton: The text common to all matches. See :func:`intarsia.predicate.bound.required_texts`.
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
        """The case-sensitive prefix of every matching string, in UTF-8. May be empty."""
        return self.skeleton.prefix.encode()

    def text(self, name: str) -> str:
        """Render the condition as SQL text, given the text of its column."""
        return f"{name} {'NOT ' if self.negated else ''}{self.condition}"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one value, bound to the type of its operand. The result of null is null.

    Attributes:
        name: The name in SQL, such as ``length``, ``%`` or ``CAST``.
        arguments: The constants after the operand, as in SQL. Empty for ``length(s)``.
        type: The type in which the result is compared.
    """

    name: str
    arguments: tuple[Any, ...]
    type: pa.DataType

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the value of the function for each value.

        Args:
            values: An array of the type that the function was bound to.

        Raises:
            PredicateError: If a value has no result in the type of the function.
        """
        raise NotImplementedError

    def invert(self, condition: OnResult, operand: Column) -> Inverse:  # noqa: ARG002
        """Return the conditions on the operand that a condition on the result implies."""
        return ANY_VALUE

    def is_null(self, operand: Column, *, negated: bool) -> Bound:
        """Return the condition that the result is null, or that it is not null."""
        return BoundNull(operand.path, operand.type, negated)

    def on_elements(self, condition: OnResult) -> Condition | None:  # noqa: ARG002
        """Return the condition that an element of a list or a map meets if one on the result is true.

        Its path is `ELEMENT`, `KEY` or `VALUE`.
        """
        return None

    def text(self, operand: str) -> str:
        """Render the function as SQL text, given the text of its operand."""
        return render_call(Call(self.name.lower(), operand, self.arguments), operand)


@dataclass(frozen=True, slots=True)
class BoundFunction(_OnColumn):
    """A condition on a function of a column, such as ``lower(s) = 'x'``. NULL never matches.

    Attributes:
        functions: The functions, in the order in which they are applied to the values of the column.
        condition: The condition on the result. It is not :class:`BoundNull`, and its path is not a column.
    """

    path: Path
    type: pa.DataType
    functions: tuple[Function, ...]
    condition: OnResult

    @property
    def name(self) -> str | None:
        """The name of the function, such as ``length``. None if several functions are nested."""
        return self.functions[0].name if len(self.functions) == 1 else None

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The constants of the function. Empty if several functions are nested."""
        return self.functions[0].arguments if len(self.functions) == 1 else ()

    @property
    def or_nan(self) -> bool:
        """Whether NaN may match."""
        return bool(pa.types.is_floating(self.type))

    def text(self, name: str) -> str:
        """Render the condition as SQL text, given the text of its column."""
        for function in self.functions:
            name = function.text(name)
        return self.condition.text(name)


@dataclass(frozen=True, slots=True)
class BoundConstant:
    """Every row (``True``) or no row (``False``)."""

    value: bool

    def paths(self) -> frozenset[Path]:
        """Return an empty set: a constant reads no column."""
        return frozenset()

    def __str__(self) -> str:
        return render_literal(self.value)


_PATH = attrgetter("path")


class _BoundJunction(JunctionNode):
    """What `BoundAnd` and `BoundOr` have in common."""

    __slots__ = ()

    def paths(self) -> frozenset[Path]:
        """Return the paths of the columns that this node reads."""
        return frozenset(map(_PATH, conditions(self)))

    def __str__(self) -> str:
        texts = (f"({child})" if isinstance(child, JunctionNode) else str(child) for child in self.children)
        return (" AND " if self.is_and else " OR ").join(texts)


@dataclass(frozen=True, slots=True)
class BoundAnd(_BoundJunction):
    """Rows that match every child. It has two or more children, none a :class:`BoundAnd` or a constant."""

    is_and = True
    children: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class BoundOr(_BoundJunction):
    """Rows that match any child. It has two or more children, none a :class:`BoundOr` or a constant."""

    is_and = False
    children: tuple[Bound, ...]


Condition: TypeAlias = BoundCompare | BoundIn | BoundNull | BoundPrefix | BoundMatch | BoundFunction
"""A node that reads one column. Every condition has ``path``, ``type`` and ``or_nan``."""

Bound: TypeAlias = Condition | BoundConstant | BoundAnd | BoundOr
"""Any node of a bound predicate."""

OnResult: TypeAlias = BoundCompare | BoundIn | BoundPrefix | BoundMatch
"""A condition on the result of a function. It is not on NULL, because only NULL has the result NULL."""


class Inverse(NamedTuple):
    """The conditions on the operand of a function that a condition on its result implies.

    Attributes:
        bound: The conditions: true for each value for which the condition on the result is true.
        is_exact: Whether they are true for no other value.
    """

    bound: Bound
    is_exact: bool


#: The operand can have any value.
ANY_VALUE: Final = Inverse(BoundConstant(True), False)


def conditions(bound: Bound | JunctionNode) -> Iterator[Condition]:
    """Yield the conditions from left to right, including duplicates.

    Example:
        >>> from intarsia.predicate import bind, parse_sql
        >>> schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
        >>> bound = bind(parse_sql("a = 1 OR b > 2 AND a IS NULL"), schema)
        >>> [str(leaf) for leaf in conditions(bound)]
        ['a = 1', 'b > 2', 'a IS NULL']
    """
    pending: list[Any] = [bound]
    while pending:
        node = pending.pop()
        if isinstance(node, JunctionNode):
            pending += reversed(node.children)
        elif not isinstance(node, BoundConstant):
            yield node


def fold(
    bound: Bound,
    leaf: Callable[[Condition | BoundConstant], Result],
    all_of: Callable[[Sequence[Result]], Result],
    any_of: Callable[[Sequence[Result]], Result],
    *,
    batch: int | None = None,
) -> Result:
    """Compute a value from the conditions of a bound predicate upwards, such as a set of rows.

    The work is linear in the nodes, and any depth is allowed. With a cached function as ``leaf``, the value
    of a repeated condition is computed once.

    Args:
        all_of: Joins the values of the children of an AND.
        any_of: Joins the values of the children of an OR.
        batch: Join as soon as so many values of one node are there, because they are large; None for all.

    Example:
        >>> from intarsia.predicate import bind, parse_sql
        >>> bound = bind(parse_sql("a = 1 OR a > 7 AND a < 9"), pa.schema({"a": pa.int64()}))
        >>> fold(bound, lambda leaf: leaf.op, " and ".join, " or ".join)
        '= or > and <'
    """
    return fold_nodes(bound, lambda node, _: leaf(node), all_of, any_of, batch=batch)


def renamed(bound: Bound, path: Callable[[Path], Path]) -> Bound:
    """Return a node with other paths.

    Args:
        path: Returns the new path of a path.

    Example:
        >>> node = BoundNull(("x",), pa.int64())
        >>> str(renamed(node, lambda path: ("y", *path)))
        'y.x IS NULL'
    """

    def leaf(node: Condition | BoundConstant) -> Bound:
        return node if isinstance(node, BoundConstant) else replace(node, path=path(node.path))

    return fold(bound, leaf, lambda parts: BoundAnd(tuple(parts)), lambda parts: BoundOr(tuple(parts)))


def conjoin(children: Iterable[Bound]) -> Bound:
    """Join nodes by AND, flattened; ``<>`` and NOT IN on one column become a single NOT IN.

    Example:
        >>> x = [BoundCompare(("x",), pa.int64(), "<>", pa.scalar(value)) for value in (7, 5)]
        >>> str(conjoin([*x, BoundNull(("y",), pa.int64())]))
        'x NOT IN (5, 7) AND y IS NULL'
    """
    return _combine(children, BoundAnd)


def disjoin(children: Iterable[Bound]) -> Bound:
    """Join nodes by OR, flattened; ``=`` and IN on one column become a single IN.

    Example:
        >>> x = [BoundCompare(("x",), pa.int64(), "=", pa.scalar(value)) for value in (7, 5)]
        >>> str(disjoin([*x, BoundNull(("x",), pa.int64())]))
        'x IN (5, 7) OR x IS NULL'
    """
    return _combine(children, BoundOr)


def _combine(children: Iterable[Bound], node: type[BoundAnd] | type[BoundOr]) -> Bound:
    """Join nodes. Under OR, ``=`` and IN of a column are merged; under AND, ``<>`` and NOT IN.

    The merged test agrees with its parts on NULL, which never matches, and on NaN, which matches if negated.
    """
    is_and = node.is_and
    kept: dict[Bound, None] = {}  # an ordered set, so that a repeated condition is evaluated once
    for child in children:
        if isinstance(child, BoundConstant):
            if child.value is not is_and:
                return child
        elif isinstance(child, node):
            kept.update(dict.fromkeys(child.children))
        else:
            kept[child] = None
    terms: list[Bound | list[BoundCompare | BoundIn]] = []
    tests: dict[Path, list[BoundCompare | BoundIn]] = {}
    for child in kept:
        if (isinstance(child, BoundIn) and child.negated is is_and) or (
            isinstance(child, BoundCompare) and child.op == ("<>" if is_and else "=")
        ):
            if child.path not in tests:
                terms.append(tests.setdefault(child.path, []))
            tests[child.path].append(child)
        else:
            terms.append(child)
    joined = tuple(_membership(term, is_and) if isinstance(term, list) else term for term in terms)
    return BoundConstant(is_and) if not joined else joined[0] if len(joined) == 1 else node(joined)


def _membership(tests: list[BoundCompare | BoundIn], negated: bool) -> Bound:
    first = tests[0]
    if len(tests) == 1:
        return first
    single = pa.array([test.value for test in tests if isinstance(test, BoundCompare)], first.type)
    lists = [test.values for test in tests if isinstance(test, BoundIn)]
    return BoundIn(first.path, first.type, ascending(pa.concat_arrays([single, *lists])), negated)


def ascending(values: pa.Array) -> pa.Array:
    """Return the distinct values in ascending order.

    Args:
        values: An array of a comparison type, without NULL, NaN or -0.0.

    Example:
        >>> ascending(pa.array(["b", "a", "b"])).to_pylist()
        ['a', 'b']
    """
    keys = values.cast(sortable_type(values.type))
    order = pc.sort_indices(keys)
    keys = keys.take(order)
    is_new = pc.not_equal(keys[1:], keys[:-1])
    return values.take(pa.concat_arrays([order[:1], order[1:].filter(is_new)]))


#: The maximum number of values in a list that is evaluated as lookups.
MAX_LOOKUPS = 1024


def is_lookup(predicate: Condition) -> bool:
    """Return whether a condition is ``=`` or IN with at most `MAX_LOOKUPS` values.

    Example:
        >>> is_lookup(BoundCompare(("x",), pa.int64(), "=", pa.scalar(7)))
        True
    """
    if isinstance(predicate, BoundIn):
        return not predicate.negated and len(predicate.values) <= MAX_LOOKUPS
    return isinstance(predicate, BoundCompare) and predicate.op == "=" and not predicate.or_nan


def num_lookup_values(predicate: Condition) -> int:
    """Return the number of values in an IN list, 1 for any other condition.

    Example:
        >>> num_lookup_values(BoundCompare(("x",), pa.int64(), "=", pa.scalar(7)))
        1
    """
    return len(predicate.values) if isinstance(predicate, BoundIn) else 1


def on_values(condition: Condition) -> Condition:
    """Return the condition on single values that some value of each matching row meets.

    It is the condition itself, unless that is on lists or maps: then it is one on their elements, whose path
    ends with `ELEMENT`, `KEY` or `VALUE`, and it excludes rows but proves no match.
    """
    if isinstance(condition, BoundFunction):
        found = condition.functions[0].on_elements(condition.condition) if condition.name else None
        if found is not None:
            return replace(found, path=condition.path + found.path)
    return condition


def required_texts(leaf: Condition) -> tuple[str, ...]:
    """Return the substrings that every value matching a condition contains, or an empty tuple if unknown.

    The substrings are distinct, not empty, and in order of appearance. If :func:`ignores_case` is true for
    the condition, they are folded, and the value contains them after :func:`fold_case`. Otherwise the value
    itself contains them (and so the folded value contains the folded substrings).

    Example:
        >>> from intarsia.predicate import bind, parse_sql
        >>> schema = pa.schema({"s": pa.string()})
        >>> required_texts(bind(parse_sql("s LIKE '%/api/v_/%.json'"), schema))
        ('/api/v', '/', '.json')
        >>> required_texts(bind(parse_sql("s NOT LIKE '%a%'"), schema))
        ()
    """
    if isinstance(leaf, BoundMatch) and not leaf.negated:
        return leaf.skeleton.texts
    if isinstance(leaf, BoundPrefix) and not leaf.negated:
        return (leaf.prefix.decode(),)
    if isinstance(leaf, BoundCompare) and leaf.op == "=" and pa.types.is_string(leaf.type):
        text = leaf.value.as_py()
        return (text,) if text else ()
    return ()


def ignores_case(leaf: Condition) -> bool:
    """Return whether only folded values contain the required texts of a condition."""
    return isinstance(leaf, BoundMatch) and leaf.skeleton.ignores_case


def fold_case(texts: pa.Array) -> pa.Array:
    r"""Fold strings: convert A to Z, the Kelvin sign and the long s to lower case, and nothing else.

    Args:
        texts: Strings of any Arrow type that `pyarrow.compute.ascii_lower` accepts.

    Example:
        >>> fold_case(pa.array(["Stra\u00dfe 5\u212a", None])).to_pylist()
        ['straße 5k', None]
    """
    lower = pc.ascii_lower(texts)
    return pc.replace_substring(pc.replace_substring(lower, "\u017f", "s"), "\u212a", "k")
