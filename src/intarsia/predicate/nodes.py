"""The nodes of an unbound predicate. They are immutable and independent of a schema.

Nodes follow SQL's three-valued logic: a predicate is TRUE, FALSE or NULL for a row, and only TRUE selects the
row. ``BETWEEN`` is an :class:`And` of two comparisons. Literals are plain Python values, or pyarrow scalars
where Python has no exact equivalent, as for nanoseconds. :func:`intarsia.predicate.bind` interprets them by
the type of their column.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from intarsia.errors import PredicateError
from intarsia.predicate.literals import render_literal

Op: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
"""The comparison operators."""

#: The operator with its sides exchanged.
MIRRORED: Final[dict[Op, Op]] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

#: The operator that is true where an operator is false.
OPPOSITE: Final[dict[Op, Op]] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

ColumnName: TypeAlias = str | tuple[str, ...]
"""A name, or a tuple of names that is a path. A dotted name is first tried as one name, then as a path."""

ARITHMETIC = ("+", "-", "*", "/", "%")
"""The functions of a `Call` that are operators."""

Operand: TypeAlias = "ColumnName | Call"
"""The left side of a condition: a column, or a function of a column."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_WORDS = """
    all alter and any as between call case cast create cross current_catalog current_date
    current_time current_timestamp current_user distinct drop else end escape except execute exists
    explain false fetch for from glob grant having if ilike in inner insert intersect interval into
    is join lateral like localtime localtimestamp not notnull null on optimize or order outer
    partitioned_by prepare qualify regexp rename returning revoke rlike rollback select session_user
    show straight_join tablesample then true uncache union using vacuum when where with xor
"""
RESERVED: Final = frozenset(_RESERVED_WORDS.split())
"""Words that cannot name a column without quotes."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a column, which replaces the column in a condition.

    Attributes:
        function: The name of the function: ``lower``, ``upper``, ``length``, ``substr``, ``abs``, ``year``,
            ``quarter``, ``month``, ``day``, ``hour``, ``minute``, ``date``, ``date_trunc``, ``cast``,
            ``array_contains``, ``element_at``, or one of the operators ``+``, ``-``, ``*``, ``/`` and ``%``.
        operand: The column, or another call.
        arguments: The constants: the number of an operator, the start and the length of ``substr``, the unit
            of ``date_trunc``, the SQL type of ``cast``, the value that a list contains, or the key in a map.

    Example:
        >>> str(Comparison(Call("year", "ts"), "=", 2024))
        'year(ts) = 2024'
        >>> str(In(Call("+", Call("abs", "x"), (1,)), (2, 3)))
        '(abs(x) + 1) IN (2, 3)'
    """

    function: str
    operand: Operand
    arguments: tuple[object, ...] = ()

    def __str__(self) -> str:
        return render_call(self, render_column(self.operand))


class JunctionNode:
    """An AND or an OR, bound or not."""

    __slots__ = ()
    is_and: ClassVar[bool]
    children: tuple[Any, ...]


class _Tree:
    """A node with children. It is rendered without recursion: trees may have thousands of levels."""

    __slots__ = ()

    def __str__(self) -> str:
        return _rendered(self, _sql_parts)

    def __repr__(self) -> str:
        return _rendered(self, _repr_parts)


@dataclass(frozen=True, slots=True, repr=False)
class And(_Tree, JunctionNode):
    """TRUE if every child is TRUE. TRUE without children.

    Attributes:
        children: The predicates that are joined by AND.
    """

    is_and = True
    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Or(_Tree, JunctionNode):
    """TRUE if at least one child is TRUE. FALSE without children.

    Attributes:
        children: The predicates that are joined by OR.
    """

    is_and = False
    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Not(_Tree):
    """TRUE if the child is FALSE, NULL if the child is NULL.

    Attributes:
        child: The negated predicate.
    """

    child: Predicate


class _Pickled(NamedTuple):
    """A literal with nanoseconds, which pyarrow would pickle as a Python value without them."""

    values: pa.Array


def _pickled(literal: object) -> object:
    has_nanoseconds = isinstance(literal, (pa.Time64Scalar, pa.TimestampScalar, pa.DurationScalar))
    return _Pickled(pa.repeat(literal, 1)) if has_nanoseconds else literal


def _restored(field: Any) -> Any:
    if isinstance(field, _Pickled):
        return field.values[0]
    return tuple(map(_restored, field)) if isinstance(field, tuple) else field


def _unpickled(node: Callable[..., Any], *fields: Any) -> Any:
    return node(*map(_restored, fields))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column, or a `Call`, with a literal. NULL if either is NULL.

    Attributes:
        column: A column name, dotted if it is nested, a path (a tuple of names), or a `Call`.
        op: ``"="``, ``"<>"``, ``"<"``, ``"<="``, ``">"`` or ``">="``.
        value: The literal: a Python value, or a pyarrow or NumPy scalar.

    Example:
        >>> str(Comparison("a.b", ">=", 3))
        'a.b >= 3'
    """

    column: Operand
    op: Op
    value: object

    def __str__(self) -> str:
        return f"{render_column(self.column)} {self.op} {render_literal(self.value)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (Comparison, self.column, self.op, _pickled(self.value))


@dataclass(frozen=True, slots=True)
class In:
    """Membership of a column in a list, equivalent to ``=`` joined by OR.

    NaN never matches, and -0.0 equals 0.0. A negated ``In`` with NULL in the list is NULL or FALSE for every
    row, as in SQL. With an empty list, ``In`` is FALSE for every row, and TRUE when negated, NULL rows
    included.

    Attributes:
        column: As in `Comparison`.
        values: The literals: a list, a set, a NumPy array or an Arrow array, converted to a tuple.
        negated: Whether it is NOT IN.

    Example:
        >>> str(In("dest", ("BOS", "LAX"), negated=True))
        "dest NOT IN ('BOS', 'LAX')"
    """

    column: Operand
    values: tuple[object, ...]
    negated: bool = False

    def __post_init__(self) -> None:
        values: object = self.values
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise PredicateError(
                f"IN needs a list of values for {self.column!r}, not {self.values!r:.80}",
                reason="not-a-list",
                column=dotted(self.column),
            )
        if not isinstance(self.values, tuple):
            object.__setattr__(self, "values", tuple(self.values))

    def __str__(self) -> str:
        values = ", ".join(render_literal(value) for value in self.values)
        return f"{render_column(self.column)} {'NOT ' if self.negated else ''}IN ({values})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (In, self.column, tuple(map(_pickled, self.values)), self.negated)


@dataclass(frozen=True, slots=True)
class IsNull:
    """``IS NULL``, or ``IS NOT NULL`` when negated. Never NULL itself.

    Attributes:
        column: As in `Comparison`.
        negated: Whether it is IS NOT NULL.
    """

    column: Operand
    negated: bool = False

    def __str__(self) -> str:
        return f"{render_column(self.column)} IS {'NOT ' if self.negated else ''}NULL"


@dataclass(frozen=True, slots=True)
class Like:
    r"""A match of a string column with a pattern: ``%`` is any text, ``_`` is any single character.

    Attributes:
        column: As in `Comparison`; a string column.
        pattern: The pattern, which matches the whole text.
        negated: Whether it is NOT LIKE.
        escape: The character that makes the next ``%``, ``_`` or itself literal. None for the backslash, as
            in Spark, PostgreSQL and Arrow. An empty string for no such character.
        ignore_case: Whether it is an ``ILIKE``: characters are equal if they are equal under Unicode's simple
            case folding, in every locale. So ``k`` equals KELVIN SIGN, and ``ß`` does not equal ``ss``.

    Example:
        >>> str(Like("name", "10!%%", escape="!"))
        "name LIKE '10!%%' ESCAPE '!'"
        >>> str(Like("name", "%error%", ignore_case=True))
        "name ILIKE '%error%'"
    """

    column: Operand
    pattern: str
    negated: bool = False
    escape: str | None = None
    ignore_case: bool = False

    def __str__(self) -> str:
        escape = "" if self.escape is None else f" ESCAPE {render_literal(self.escape)}"
        word = f"{'NOT ' if self.negated else ''}{'ILIKE' if self.ignore_case else 'LIKE'}"
        return f"{render_column(self.column)} {word} {render_literal(self.pattern)}{escape}"


@dataclass(frozen=True, slots=True)
class RegexpLike:
    r"""A search of a string column for a regular expression. ``^`` and ``$`` anchor it.

    The syntax is RE2's (https://github.com/google/re2/wiki/Syntax): matching takes linear time, and there are
    no lookarounds and no backreferences. Flags may be inline: ``(?i)`` is the same as ``ignore_case``, and
    ``(?s)`` makes the dot match newlines.

    Attributes:
        column: As in `Comparison`; a string column.
        regex: The regular expression.
        negated: Whether rows match that do not contain it.
        ignore_case: Whether case is ignored.

    Example:
        >>> str(RegexpLike("line", r"^GET /\w+", negated=True))
        "line NOT RLIKE '^GET /\\w+'"
        >>> str(RegexpLike("line", "error", ignore_case=True))
        "regexp_like(line, 'error', 'i')"
    """

    column: Operand
    regex: str
    negated: bool = False
    ignore_case: bool = False

    def __str__(self) -> str:
        column, regex = render_column(self.column), render_literal(self.regex)
        if self.ignore_case:
            return f"{'NOT ' if self.negated else ''}regexp_like({column}, {regex}, 'i')"
        return f"{column} {'NOT ' if self.negated else ''}RLIKE {regex}"


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL for every row.

    Attributes:
        value: The constant; None for NULL.
    """

    value: bool | None

    def __str__(self) -> str:
        return render_literal(self.value)


Leaf: TypeAlias = Comparison | In | IsNull | Like | RegexpLike | Constant
"""A node without children."""

Predicate: TypeAlias = And | Or | Not | Leaf
"""Any node of an unbound predicate."""

Result = TypeVar("Result")


def has_calls(predicate: Predicate) -> bool:
    """Return whether any condition of a predicate is on a function of a column.

    Example:
        >>> has_calls(And((Comparison("x", "=", 1), Not(IsNull(Call("lower", "s"))))))
        True
    """
    return any(isinstance(leaf.column, Call) for leaf in leaves(predicate) if not isinstance(leaf, Constant))


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """Yield the conditions and constants of a predicate from left to right, including duplicates."""
    pending = [predicate]
    while pending:
        node = pending.pop()
        if isinstance(node, JunctionNode):
            pending += reversed(node.children)
        elif isinstance(node, Not):
            pending.append(node.child)
        else:
            yield node


def fold_nodes(
    predicate: Any,
    leaf: Callable[[Any, bool], Result],
    all_of: Callable[[Sequence[Result]], Result],
    any_of: Callable[[Sequence[Result]], Result],
    *,
    batch: int | None = None,
    max_levels: int | None = None,
) -> Result:
    """Compute a value from the leaves of a predicate upwards. NOT is pushed down to the leaves.

    The work is linear in the nodes, and any depth is allowed. The ANDs of ``a AND (b AND c)`` are one.

    Args:
        predicate: The predicate; also a bound one.
        leaf: Computes the value of a leaf. The second argument is whether the leaf is negated: then the value
            is about the rows for which the leaf is FALSE.
        all_of: Joins the values of the children of an AND.
        any_of: Joins the values of the children of an OR.
        batch: Join as soon as so many values of one node are there, because they are large; None for all.
        max_levels: The maximum number of alternating levels of AND and OR.

    Raises:
        PredicateError: If there are more than ``max_levels`` levels.

    Example:
        >>> tree = Not(And((Comparison("x", "<", 1), Or((IsNull("y"), Not(Constant(True)))))))
        >>> fold_nodes(tree, lambda node, negated: f"{'~' * negated}{node}", " & ".join, " | ".join)
        '~x < 1 | ~y IS NULL & TRUE'
    """
    # for each open AND and OR: whether it is an AND, the nodes that are left (the first one is the last), and
    # the values of the others
    levels: list[tuple[bool | None, list[tuple[Any, bool]], list[Result]]]
    levels = [(None, [(predicate, False)], [])]
    while True:
        is_and, pending, values = levels[-1]
        if not pending:
            levels.pop()
            if is_and is None:
                return values[0]
            levels[-1][2].append((all_of if is_and else any_of)(values))
            continue
        node, negated = pending.pop()
        while isinstance(node, Not):
            node, negated = node.child, not negated
        if isinstance(node, JunctionNode) and (node.is_and is not negated) is is_and:
            pending += zip(reversed(node.children), itertools.repeat(negated))
            continue
        if len(values) == batch:
            values[:] = [(all_of if is_and else any_of)(values)]
        if not isinstance(node, JunctionNode):
            values.append(leaf(node, negated))
            continue
        if len(levels) - 1 == max_levels:
            raise PredicateError(
                f"the predicate is nested too deeply; the limit is {max_levels} levels of AND and OR",
                reason="nested-too-deeply",
            )
        children = list(zip(reversed(node.children), itertools.repeat(negated)))
        levels.append((node.is_and is not negated, children, []))


def contains(column: Operand, text: str) -> Like:
    r"""Return a condition that matches strings that contain a text.

    Args:
        column: A string column.
        text: The text. ``%``, ``_`` and the backslash have no special meaning.

    Example:
        >>> str(contains("discount", "50%"))
        "discount LIKE '%50\\%%'"
    """
    return Like(column, f"%{escaped(text)}%")


def starts_with(column: Operand, text: str) -> Like:
    """Return a condition that matches strings that start with a text.

    Args:
        column: A string column.
        text: The text. ``%``, ``_`` and the backslash have no special meaning.

    Example:
        >>> str(starts_with("tailnum", "N10"))
        "tailnum LIKE 'N10%'"
    """
    return Like(column, f"{escaped(text)}%")


def ends_with(column: Operand, text: str) -> Like:
    """Return a condition that matches strings that end with a text.

    Args:
        column: A string column.
        text: The text. ``%``, ``_`` and the backslash have no special meaning.

    Example:
        >>> str(ends_with("path", ".json"))
        "path LIKE '%.json'"
    """
    return Like(column, f"%{escaped(text)}")


def escaped(text: str) -> str:
    """Return the LIKE pattern that matches only ``text``, with the backslash as the escape character."""
    if not isinstance(text, str):
        raise PredicateError(f"the text is {text!r:.80}; it must be of type str", reason="not-a-pattern")
    return re.sub(r"([\\%_])", r"\\\1", text)


def _rendered(node: Any, parts_of: Callable[[Any], Iterable[Any]]) -> str:
    """Join the texts of a node and those below it."""
    texts: list[str] = []
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            texts.append(part)
        else:
            pending += reversed([*parts_of(part)])
    return "".join(texts)


def _sql_parts(node: Predicate) -> Iterator[Predicate | str]:
    if isinstance(node, Not):
        yield from ("NOT (", node.child, ")")
    elif not isinstance(node, JunctionNode):
        yield str(node)
    elif not node.children:
        yield "TRUE" if node.is_and else "FALSE"
    else:
        for ordinal, child in enumerate(node.children):
            if ordinal:
                yield " AND " if node.is_and else " OR "
            yield from ("(", child, ")") if isinstance(child, JunctionNode) else (child,)


def _repr_parts(node: Predicate) -> Iterator[Predicate | str]:
    if isinstance(node, Not):
        yield from ("Not(child=", node.child, ")")
    elif not isinstance(node, JunctionNode):
        yield repr(node)
    else:
        yield f"{type(node).__name__}(children=("
        for ordinal, child in enumerate(node.children):
            yield from (", ", child) if ordinal else (child,)
        yield ",))" if len(node.children) == 1 else "))"


def dotted(column: Operand) -> str:
    """Return the name of a column for messages, with the parts of a path joined by dots.

    Example:
        >>> dotted(("a", "b")), dotted("c"), dotted(Call("lower", "c"))
        ('a.b', 'c', 'c')
    """
    column = innermost(column)
    return ".".join(column) if isinstance(column, tuple) else column


def innermost(operand: Operand) -> ColumnName:
    """Return the column to which the functions of an operand are applied.

    Example:
        >>> innermost(Call("lower", Call("substr", "s", (1, 3))))
        's'
    """
    while isinstance(operand, Call):
        operand = operand.operand
    return operand


def render_column(column: Operand) -> str:
    """Render a column name or a call as SQL text, quoted if necessary.

    Example:
        >>> render_column("a.b"), render_column(("a.b", "c d")), render_column(Call("date", "t"))
        ('a.b', '"a.b"."c d"', 'date(t)')
    """
    if isinstance(column, Call):
        return str(column)
    if isinstance(column, tuple):
        return ".".join(_quoted(part) for part in column)
    if not isinstance(column, str):  # refused when it is bound
        return repr(column)
    parts = column.split(".")
    plain = all(_PLAIN_NAME.fullmatch(part) and part.lower() not in RESERVED for part in parts)
    return column if plain else _quoted(column)


def render_call(call: Call, operand: str) -> str:
    """Render a call as SQL text, given the text of its operand.

    Example:
        >>> render_call(Call("date_trunc", "t", ("month",)), "t")
        "date_trunc('month', t)"
    """
    if call.function in ARITHMETIC:
        return f"({operand} {call.function} {', '.join(map(render_literal, call.arguments))})"
    if call.function == "cast":
        return f"CAST({operand} AS {', '.join(map(str, call.arguments))})"
    texts = list(map(render_literal, call.arguments))
    arguments = [*texts, operand] if call.function == "date_trunc" else [operand, *texts]
    return f"{call.function}({', '.join(arguments)})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
