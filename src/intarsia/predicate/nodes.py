"""The predicate as it was written: immutable nodes that know no schema.

Nodes follow SQL's three-valued logic: a predicate is TRUE, FALSE or NULL for a row, and only TRUE selects it.
``BETWEEN`` has no node of its own, it is an :class:`And` of two comparisons. Literals are plain Python values
(or pyarrow scalars where Python has no exact counterpart, such as nanoseconds); what they mean for a column
is decided by :func:`intarsia.predicate.bind`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from intarsia.errors import PredicateError
from intarsia.predicate.rendering import render_literal

Op: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
"""The comparison operators."""

ColumnName: TypeAlias = str | tuple[str, ...]
"""A name that may be dotted (``"a.b"``: a column of that name, else a path), or an exact path of parts."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_WORDS = """
    all alter and any as between call case cast create cross current_catalog current_date
    current_time current_timestamp current_user distinct drop else end escape except execute exists
    explain false fetch for from glob grant having if ilike in inner insert intersect interval into
    is join lateral like localtime localtimestamp not notnull null on optimize or order outer
    partitioned_by prepare qualify regexp rename returning revoke rlike rollback select session_user
    show straight_join tablesample then true uncache union using vacuum when where with xor
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())


@dataclass(frozen=True, slots=True)
class And:
    """TRUE where every child is TRUE; without children it is TRUE."""

    children: tuple[Predicate, ...]

    def __str__(self) -> str:
        return (
            " AND ".join(_operand(child, (And, Or)) for child in self.children) if self.children else "TRUE"
        )


@dataclass(frozen=True, slots=True)
class Or:
    """TRUE where at least one child is TRUE; without children it is FALSE."""

    children: tuple[Predicate, ...]

    def __str__(self) -> str:
        return (
            " OR ".join(_operand(child, (And, Or)) for child in self.children) if self.children else "FALSE"
        )


@dataclass(frozen=True, slots=True)
class Not:
    """TRUE where the child is FALSE; NULL where it is NULL."""

    child: Predicate

    def __str__(self) -> str:
        return f"NOT ({self.child})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column against a literal; NULL where either is NULL.

    Example:
        >>> str(Comparison("a.b", ">=", 3))
        'a.b >= 3'
    """

    column: ColumnName
    op: Op
    value: object

    def __str__(self) -> str:
        return f"{render_column(self.column)} {self.op} {render_literal(self.value)}"


@dataclass(frozen=True, slots=True)
class In:
    """A column against a list, the same as ``=`` joined by OR: NaN is in no list, and -0.0 equals 0.0.

    A NULL in the list of a negated ``In`` makes it NULL or FALSE for every row, as SQL has it. An empty list
    holds nothing: then ``In`` is FALSE, and TRUE when negated, for NULL rows too.

    A list, a set, a NumPy or an Arrow array is taken as well, and becomes a tuple.

    Example:
        >>> str(In("dest", ("BOS", "LAX"), negated=True))
        "dest NOT IN ('BOS', 'LAX')"
    """

    column: ColumnName
    values: tuple[object, ...]
    negated: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.values, (str, bytes)):
            raise PredicateError(f"IN needs a list of values for {self.column!r}, not {self.values!r:.80}")
        if not isinstance(self.values, tuple):
            object.__setattr__(self, "values", tuple(self.values))

    def __str__(self) -> str:
        values = ", ".join(render_literal(value) for value in self.values)
        return f"{render_column(self.column)} {'NOT ' if self.negated else ''}IN ({values})"


@dataclass(frozen=True, slots=True)
class IsNull:
    """``IS NULL``, or ``IS NOT NULL`` when negated; never NULL itself."""

    column: ColumnName
    negated: bool = False

    def __str__(self) -> str:
        return f"{render_column(self.column)} IS {'NOT ' if self.negated else ''}NULL"


@dataclass(frozen=True, slots=True)
class Like:
    r"""A string column against a pattern, where ``%`` is any text and ``_`` is any one character.

    ``escape`` is the character that makes the next ``%``, ``_`` or itself literal. ``None`` is the
    backslash, as in Spark, PostgreSQL and Arrow; an empty string is no escape at all.

    ``ignore_case`` makes it ``ILIKE``: characters are the same if they are under Unicode's simple case
    folding (so ``k`` is also KELVIN SIGN, and ``ß`` is not ``ss``), whatever the locale.

    Example:
        >>> str(Like("name", "10!%%", escape="!"))
        "name LIKE '10!%%' ESCAPE '!'"
        >>> str(Like("name", "%error%", ignore_case=True))
        "name ILIKE '%error%'"
    """

    column: ColumnName
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
    r"""A string column in which a regular expression is found: anywhere, unless ``^`` or ``$`` say where.

    The syntax is RE2's (https://github.com/google/re2/wiki/Syntax), so time is linear in the text, and there
    is neither lookaround nor reference back. Flags may stand inside: ``(?i)`` is the same as
    ``ignore_case``, ``(?s)`` has the dot match newlines.

    Example:
        >>> str(RegexpLike("line", r"^GET /\w+", negated=True))
        "line NOT RLIKE '^GET /\\w+'"
        >>> str(RegexpLike("line", "error", ignore_case=True))
        "regexp_like(line, 'error', 'i')"
    """

    column: ColumnName
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
    """TRUE, FALSE or (``None``) NULL for every row."""

    value: bool | None

    def __str__(self) -> str:
        return render_literal(self.value)


Predicate: TypeAlias = And | Or | Not | Comparison | In | IsNull | Like | RegexpLike | Constant
"""Any node of an unbound predicate."""

NODE_TYPES = (And, Or, Not, Comparison, In, IsNull, Like, RegexpLike, Constant)


def contains(column: ColumnName, text: str) -> Like:
    r"""A string column that has a text in it.

    Example:
        >>> str(contains("discount", "50%"))
        "discount LIKE '%50\\%%'"
    """
    return Like(column, f"%{escaped(text)}%")


def starts_with(column: ColumnName, text: str) -> Like:
    """A string column that starts with a text.

    Example:
        >>> str(starts_with("tailnum", "N10"))
        "tailnum LIKE 'N10%'"
    """
    return Like(column, f"{escaped(text)}%")


def ends_with(column: ColumnName, text: str) -> Like:
    """A string column that ends with a text.

    Example:
        >>> str(ends_with("path", ".json"))
        "path LIKE '%.json'"
    """
    return Like(column, f"%{escaped(text)}")


def escaped(text: str) -> str:
    """A text as the LIKE pattern that only it matches, with the backslash as escape."""
    return re.sub(r"([\\%_])", r"\\\1", text)


def _operand(child: Predicate, weaker: tuple[type, ...]) -> str:
    """The text of a child, in parentheses where it is itself a list of operands."""
    return f"({child})" if isinstance(child, weaker) else str(child)


def render_column(column: ColumnName) -> str:
    """A column as SQL text, quoted where it has to be.

    Example:
        >>> render_column("a.b"), render_column(("a.b", "c d"))
        ('a.b', '"a.b"."c d"')
    """
    if isinstance(column, tuple):
        return ".".join(_quoted(part) for part in column)
    parts = column.split(".")
    plain = all(_PLAIN_NAME.fullmatch(part) and part.lower() not in _RESERVED for part in parts)
    return column if plain else _quoted(column)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
