"""Parse SQL text into predicate nodes, with sqlglot if `sql_simple` declines it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import re
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from intarsia.errors import PredicateError
from intarsia.predicate.literals import Temporal, plain
from intarsia.predicate.nodes import (
    MIRRORED,
    And,
    Call,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Op,
    Operand,
    Or,
    Predicate,
    RegexpLike,
    contains,
    dotted,
    ends_with,
    starts_with,
)
from intarsia.predicate.sql_dialect import (
    COMPARISONS,
    column_name,
    dialect,
    fragment,
    short,
    syntax_error,
    unsupported,
)
from intarsia.predicate.sql_literals import (
    Parameters,
    attach_lists,
    attach_parameters,
    attached_list,
    cut_lists,
    literal,
    literal_or_none,
    ordered_values,
)
from intarsia.predicate.sql_simple import read_simple

if TYPE_CHECKING:
    from collections.abc import Callable


#: The maximum number of tokens that sqlglot parses: names, keywords, literals and signs.
MAX_SQL_TOKENS: Final = 250_000

_WORD: Final = re.compile(r"'[^']*'|\d[\w.]*|\w+|[^\w\s]")

# Functions by their class in sqlglot, or by their name; which ones have a class depends on sqlglot's version.

_SEARCHES: Final[dict[str, Callable[[Any, str], Like]]] = {
    **dict.fromkeys(("Contains", "contains"), contains),
    **dict.fromkeys(("StartsWith", "starts_with", "startswith"), starts_with),
    **dict.fromkeys(("EndsWith", "ends_with", "endswith"), ends_with),
}
_LIST_SEARCHES: Final = ("ArrayContains", "array_contains", "list_contains", "array_has", "list_has")
_REGEXES: Final = ("RegexpLike", "RegexpILike", "regexp_like", "regexp_matches", "regexp", "rlike")
_SIMPLE: Final = {
    **dict.fromkeys(("lower", "lcase"), "lower"),
    **dict.fromkeys(("upper", "ucase"), "upper"),
    **dict.fromkeys(("length", "len", "char_length", "character_length"), "length"),
    **{name: name for name in ("abs", "year", "quarter", "month", "day", "hour", "minute", "date")},
    "dayofmonth": "day",
}
_OPERATORS: Final = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%"}
_PARTS: Final = ("year", "quarter", "month", "day", "hour", "minute")

#: Details of a parsed function that do not change its meaning.
_DETAILS: Final = ("typed", "safe", "unabbreviate", "binary", "encoding", "negate")


#: Predicates of up to this many characters are cached.
_MAX_CACHED_CHARACTERS = 1000


def parse_sql(text: str, parameters: Parameters | None = None) -> Predicate:
    """Parse the condition of a WHERE clause.

    Column names may be plain, in double quotes or in backticks; a dot separates the fields of structs.
    Literals are numbers (exact decimals if they have a point), 'text', TRUE, FALSE, NULL, DATE '…', TIME '…',
    TIMESTAMP '…', INTERVAL '1' HOUR, X'0aff', and CAST(literal AS type). NaN is CAST('NaN' AS DOUBLE). A
    backslash in 'text' is a plain character. In a LIKE pattern it is the escape character, unless ESCAPE
    names another one.

    Instead of a column, a condition may use a function of one column: ``lower``, ``upper``, ``length``,
    ``substr``, ``abs``, ``year``, ``quarter``, ``month``, ``day``, ``hour``, ``minute``, ``date``,
    ``date_trunc``, CAST, and ``+``, ``-``, ``*``, ``/`` and ``%`` with a number. ``array_contains(column,
    value)``, or ``list_contains``, searches a list. ``column['key']``, or ``element_at``, looks up a key in a
    map.

    Text searches are LIKE, ILIKE, ``contains(column, 'text')``, ``starts_with`` and ``ends_with``. Searches
    by RE2 regular expressions are ``column RLIKE 're'``, ``column REGEXP 're'``, ``column ~ 're'`` and
    ``regexp_like(column, 're')``. ``column ~* 're'`` and ``regexp_like(column, 're', 'i')`` ignore case.

    A parameter can replace a literal: ``?`` by position, ``:name`` by name. ``IN ?`` takes a list.

    Args:
        parameters: The values of the parameters: a list for ``?``, a mapping for ``:name``; None if there are
            none.

    Raises:
        PredicateError: If the text is not a predicate, is not supported, has other parameters, or has more
            than `MAX_SQL_TOKENS` tokens, not counting lists of 16 or more plain numbers or texts.

    Example:
        >>> parse_sql("5 < delay")
        Comparison(column='delay', op='>', value=5)
        >>> str(parse_sql("dest in ('BOS', 'LAX') and not delay between 1 and 2"))
        "dest IN ('BOS', 'LAX') AND NOT (delay >= 1 AND delay <= 2)"
        >>> str(parse_sql("extract(year from ts) = 2024 and 10 - x > 3"))
        'year(ts) = 2024 AND ((x * -1) + 10) > 3'
        >>> str(parse_sql("dest IN :hubs AND delay > :least", {"hubs": ["BOS", "LAX"], "least": 5}))
        "dest IN ('BOS', 'LAX') AND delay > 5"
    """
    return parse_template(text).bind(parameters)


def parse_template(text: str) -> SqlTemplate:
    """Parse a condition whose parameters get values later; see `parse_sql`.

    Raises:
        PredicateError: If the text cannot be parsed, or has too many tokens.
    """
    return _cached_template(text) if len(text) <= _MAX_CACHED_CHARACTERS else SqlTemplate(text)


class SqlTemplate:
    """The parsed condition of a WHERE clause, for many values of its parameters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._simple = read_simple(text) if len(text) <= _MAX_CACHED_CHARACTERS else None
        self._tree: Any = parse_text(text) if self._simple is None else None
        self._without_parameters: Predicate | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_template, (self.text,)

    def bind(self, parameters: Parameters | None = None) -> Predicate:
        """Return the predicate with these values of its parameters.

        Args:
            parameters: A list for ``?``, a mapping for ``:name``; None if there are none.

        Raises:
            PredicateError: If the text is not supported, or has other parameters.

        Example:
            >>> str(SqlTemplate("id = ? AND lower(s) = 'a'").bind([7]))
            "id = 7 AND lower(s) = 'a'"
        """
        if parameters is None and self._without_parameters is not None:
            return self._without_parameters
        if self._simple is not None:
            values = ordered_values(self._simple.names, parameters, self.text)
            predicate = self._simple.bind(values) if values else self._simple.predicate
        else:
            tree = self._tree
            if parameters is not None:
                tree = tree.copy()
                attach_parameters(tree, parameters, self.text)
            predicate = cast("Predicate", _explained(self.text, _predicate, tree))
        if parameters is None:
            self._without_parameters = predicate
        return predicate


_cached_template = lru_cache(maxsize=128)(SqlTemplate)


def parse_text(text: str, *, is_condition: bool = True) -> Any:
    """Parse SQL text to a tree of sqlglot.

    Args:
        is_condition: Whether it is a condition; otherwise it is a statement.

    Raises:
        PredicateError: If the text cannot be parsed, or has more tokens than `MAX_SQL_TOKENS` without its
            long lists.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    parse = functools.partial(
        sqlglot.parse_one, dialect=dialect(), into=exp.Condition if is_condition else None
    )
    cut = cut_lists(text)
    _check_size(cut.text)
    if cut.lists:
        # text that cannot be parsed without its lists is parsed as a whole, so that errors have its positions
        with contextlib.suppress(SqlglotError, RecursionError):
            tree = parse(cut.text)
            if attach_lists(tree, cut.lists):
                return tree
        _check_size(text)
    return _explained(text, parse, text)


def _explained(text: str, parse: Callable[[Any], Any], parsed: Any) -> Any:
    """Parse a text or convert its tree, and explain errors of sqlglot."""
    from sqlglot.errors import SqlglotError

    try:
        return parse(parsed)
    except SqlglotError as error:
        raise syntax_error(text, error) from None
    except RecursionError:
        raise PredicateError(
            f"the predicate {short(text)} is nested too deeply to parse; write it with fewer parentheses, or "
            "build it from ia.And and ia.Or",
            reason="nested-too-deeply",
        ) from None


def _check_size(text: str) -> None:
    """Reject text that would take sqlglot many seconds and gigabytes to parse."""
    counted = itertools.islice(_WORD.finditer(text), MAX_SQL_TOKENS + 1)
    if sum(1 for _ in counted) > MAX_SQL_TOKENS:
        raise PredicateError(
            f"the predicate {short(text[:200])} has more than {MAX_SQL_TOKENS:,} tokens; "
            "pass a long list of values as intarsia.In(column, values), without SQL text",
            reason="predicate-too-long",
        )


def _predicate(node: Any) -> Predicate:
    """Convert a sqlglot expression, identified by its class name, so that sqlglot need not be imported."""
    class_name = type(node).__name__
    if class_name == "Paren":
        return _predicate(node.this)
    if class_name in ("And", "Or"):
        # those of a AND b AND c …, without recursion, because there may be many thousands
        children = tuple(map(_predicate, node.flatten(unnest=False)))
        return And(children) if class_name == "And" else Or(children)
    if class_name == "Not":
        child = _predicate(node.this)
        is_bare = type(node.this).__name__ not in ("Paren", "Not")
        # sqlglot parses x NOT IN (…) as NOT around a test; the two become one node
        if is_bare and isinstance(child, (IsNull, In, Like, RegexpLike)):
            return dataclasses.replace(child, negated=not child.negated)
        return Not(child)
    if class_name in COMPARISONS:
        return _comparison(node, COMPARISONS[class_name])
    if class_name in ("NullSafeEQ", "NullSafeNEQ"):
        equal = _comparison(node, "=")
        if not isinstance(equal, Comparison):
            raise unsupported(node)
        same = IsNull(equal.column) if equal.value is None else _never_null(equal)
        return same if class_name == "NullSafeEQ" else Not(same)
    if class_name == "In":
        return _in(node)
    if class_name == "Between" and not node.args.get("symmetric"):
        low, high = literal(node.args["low"]), literal(node.args["high"])
        return And((_compared(node, node.this, ">=", low), _compared(node, node.this, "<=", high)))
    if class_name == "Is" and type(node.expression).__name__ == "Null":
        return IsNull(_operand(node.this))
    if class_name == "Is" and type(node.expression).__name__ == "Boolean":  # IS TRUE is never NULL
        return _never_null(Comparison(_operand(node.this), "=", bool(node.expression.this)))
    if class_name in ("Like", "ILike", "Escape"):
        return _like(node)
    if class_name == "Boolean":
        return Constant(bool(node.this))
    if class_name == "Null":
        return Constant(None)
    if class_name in ("Column", "Dot", "Coalesce", "Bracket"):
        return _compared(node, node, "=", True)
    name, arguments = _called(node)
    if name in _LIST_SEARCHES:
        return Comparison(_operand(node), "=", True)
    if name in _SEARCHES and len(arguments) == 2:
        text = literal(arguments[1])
        if isinstance(text, str):
            return _SEARCHES[name](_operand(arguments[0]), text)
    if name in _REGEXES and 2 <= len(arguments) <= 3 and not isinstance(arguments[-1], bool):
        return _regexp_like(node, name, arguments)
    raise unsupported(node)


def _never_null(equal: Comparison) -> Predicate:
    """Return ``=`` as FALSE instead of NULL, so that its negation is correct."""
    return And((equal, IsNull(equal.column, negated=True)))


def _comparison(node: Any, op: Op) -> Predicate:
    right = literal_or_none(node.expression)
    if right is not None:
        return _compared(node, node.this, op, right[0])
    left = literal_or_none(node.this)
    if left is None:
        raise unsupported(node)
    return _compared(node, node.expression, MIRRORED[op], left[0])


def _compared(node: Any, side: Any, op: Op, value: object) -> Predicate:
    """Return the comparison of one side of a condition with a literal."""
    if type(side).__name__ == "Coalesce":
        return _coalesced(side, lambda part: _compared(node, part, op, value))
    left = literal_or_none(side)
    return Comparison(_operand(side), op, value) if left is None else _constant_of(node, left[0], op, value)


def _coalesced(node: Any, condition: Callable[[Any], Predicate]) -> Predicate:
    """Return a condition on the first of some operands that is not null; only the last may be a literal."""
    parts: list[Any] = [node.this, *node.expressions]
    found = condition(parts.pop())
    for part in reversed(parts):
        operand = _operand(part)
        here = And((IsNull(operand, negated=True), condition(part)))
        found = Or((here, And((IsNull(operand), found))))
    return found


def _constant_of(node: Any, first: Any, op: Op, second: Any) -> Constant:
    """Return the comparison of two literals."""
    if first is None or second is None:
        return Constant(None)
    first, second = plain(first), plain(second)
    numbers = type(first) in (int, Decimal) and type(second) in (int, Decimal)
    if isinstance(first, Temporal) and isinstance(second, Temporal) and first.form == second.form:
        numbers, first, second = first.aware is second.aware, first.ns, second.ns
    if not numbers and not (type(first) is type(second) and isinstance(first, (str, bool))):
        raise unsupported(node)
    # an operator consists of the signs of the orders for which it is true
    return Constant("<" in op if first < second else ">" in op if first > second else "=" in op)


def _in(node: Any) -> Predicate:
    values = attached_list(node.args.get("field"))
    if values is None:
        if any(node.args.get(other) for other in ("query", "unnest", "field")):
            raise unsupported(node)
        if "expressions" not in node.args:
            raise PredicateError(
                f"a list is missing after {fragment(node.this)} IN; write it in parentheses, as in IN (1, 2)",
                reason="syntax-error",
                near="IN",
            )
        values = tuple(map(literal, node.expressions))
    return _listed(node, node.this, values)


def _listed(node: Any, side: Any, values: tuple[object, ...]) -> Predicate:
    """Return the condition that one side is in a list of literals."""
    if type(side).__name__ == "Coalesce":
        return _coalesced(side, lambda part: _listed(node, part, values))
    left = literal_or_none(side)
    if left is None:
        return In(_operand(side), values)
    return Or(tuple(_constant_of(node, left[0], "=", value) for value in values))


def _like(node: Any) -> Predicate:
    like, escape = (node.this, literal(node.expression)) if type(node).__name__ == "Escape" else (node, None)
    class_name = type(like).__name__
    pattern = literal(like.expression) if class_name in ("Like", "ILike") else None
    if not isinstance(pattern, str) or not isinstance(escape, (str, type(None))):
        raise unsupported(node)
    negated = bool(like.args.get("negate"))
    return Like(_operand(like.this), pattern, negated, escape, ignore_case=class_name == "ILike")


def _regexp_like(node: Any, name: str, arguments: list[Any]) -> Predicate:
    texts = [literal(argument) for argument in arguments[1:]]
    regex, flags = texts[0], texts[1] if len(texts) > 1 else ""
    if not isinstance(regex, str) or not isinstance(flags, str):
        raise unsupported(node)
    column, ignore_case = _operand(arguments[0]), name == "RegexpILike"
    for flag in flags:
        if flag not in "ic":
            raise PredicateError(
                f"unknown flag {flag!r} in {fragment(node)}; use 'i' to ignore case or 'c' to respect it, "
                "and write other flags inline, such as (?s)",
                reason="unknown-regex-flag",
                column=dotted(column),
            )
        ignore_case = flag == "i"
    return RegexpLike(column, regex, bool(node.args.get("negate")), ignore_case)


def _called(node: Any) -> tuple[str, list[Any]]:
    """Return the class or the name of a function, and its arguments in order."""
    if type(node).__name__ == "Anonymous":
        return str(node.this).lower(), list(node.expressions)
    found: list[Any] = []
    for name, value in node.args.items():
        if name not in _DETAILS and value is not None and value is not False and value != []:
            found += value if isinstance(value, list) else [value]
    return type(node).__name__, found


def _operand(node: Any) -> Operand:
    """Return the column, or the function of a column, that a sqlglot expression is.

    Raises:
        PredicateError: If the expression is neither.
    """
    class_name = type(node).__name__
    column = column_name(node)
    if column is not None:
        return column
    if class_name == "Paren":
        return _operand(node.this)
    if class_name in _OPERATORS:
        return _arithmetic(node, _OPERATORS[class_name])
    if class_name == "Neg":
        return Call("*", _operand(node.this), (-1,))
    if class_name == "Cast":
        target = str(node.to.sql()).upper()
        operand = _operand(node.this)
        return Call("date", operand) if target == "DATE" else Call("cast", operand, (target,))
    name, arguments = _called(node)
    if name.lower() in _SIMPLE and len(arguments) == 1:
        return Call(_SIMPLE[name.lower()], _operand(arguments[0]))
    if name in ("Extract", "date_part") and len(arguments) == 2:
        part = str(_constant(node, arguments[0])).lower()
        if part in _PARTS:
            return Call(part, _operand(arguments[1]))
    if name in ("Substring", "substr", "substring") and len(arguments) in (2, 3):
        text, *numbers = arguments
        return Call("substr", _operand(text), tuple(_constant(node, number) for number in numbers))
    if name in ("Left", "left") and len(arguments) == 2:
        return Call("substr", _operand(arguments[0]), (1, _constant(node, arguments[1])))
    if name in _LIST_SEARCHES and len(arguments) == 2:
        return Call("array_contains", _operand(arguments[0]), (literal(arguments[1]),))
    if name in ("Bracket", "element_at") and len(arguments) == 2:
        return Call("element_at", _operand(arguments[0]), (literal(arguments[1]),))
    if name in ("DateTrunc", "TimestampTrunc", "date_trunc") and len(arguments) == 2:
        unit, moment = arguments if name == "date_trunc" else (node.args.get("unit"), node.this)
        word = _constant(node, unit)
        if isinstance(word, str):
            return Call("date_trunc", _operand(moment), (word.lower(),))
    raise unsupported(node)


def _arithmetic(node: Any, sign: str) -> Call:
    left, right = literal_or_none(node.this), literal_or_none(node.expression)
    number = (right or left or (None,))[0]
    if isinstance(number, bool) or not isinstance(number, (int, float, Decimal)) or (left and right):
        raise unsupported(node)
    if right is not None:
        return Call(sign, _operand(node.this), (number,))
    if sign not in ("+", "-", "*"):
        raise unsupported(node)
    column = _operand(node.expression)
    return Call("+", Call("*", column, (-1,)), (number,)) if sign == "-" else Call(sign, column, (number,))


def _constant(node: Any, value: Any) -> object:
    if type(value).__name__ == "Var":
        return value.name
    constant = literal_or_none(value)
    if constant is None:
        raise unsupported(node)
    return constant[0]


_SELECT: Final = re.compile(r"\s*(SELECT|WITH|FROM)\s", re.IGNORECASE)
_ALLOWED: Final = frozenset(
    ("kind", "expressions", "from", "from_", "where", "order", "limit", "offset", "group", "having")
    + ("distinct",)
)


def is_select(text: str) -> bool:
    """Return whether a text is a statement instead of a predicate.

    Example:
        >>> is_select("select 1"), is_select("selected = 1")
        (True, False)
    """
    return _SELECT.match(text) is not None


def parse_select(text: str) -> tuple[Predicate | None, tuple[str, ...] | None]:
    """Return the condition of a SELECT of one table, and the other columns that it reads.

    Args:
        text: ``SELECT … FROM one_table WHERE …``, optionally with GROUP BY, HAVING, ORDER BY and LIMIT.

    Returns:
        The predicate, None without WHERE; and the columns, None for all.

    Raises:
        PredicateError: If the text cannot be parsed, or selects from several tables.

    Example:
        >>> predicate, columns = parse_select("SELECT a, sum(t.b) FROM lake AS t WHERE t.c > 3 GROUP BY a")
        >>> str(predicate), columns
        ('c > 3', ('a', 'b'))
        >>> parse_select("SELECT * FROM lake")
        (None, None)
    """
    tree = parse_text(text, is_condition=False)
    if type(tree).__name__ != "Select":
        raise _refused(text, "it is not a SELECT")
    used = {name for name, value in tree.args.items() if value}
    source = tree.args.get("from_") or tree.args.get("from")
    table: Any = None if source is None else source.this
    if not used <= _ALLOWED or type(table).__name__ != "Table" or table.args.get("joins"):
        raise _refused(text, "it does not select from one table, without joins and subqueries")
    if sum(type(node).__name__ == "Select" for node in tree.walk()) > 1:
        raise _refused(text, "it has a subquery")
    _drop_table_names(tree, {table.alias_or_name, table.name})
    where = tree.args.get("where")
    predicate = None if where is None else _explained("", _predicate, where.this)
    if any(item.is_star for item in tree.expressions):
        return predicate, None
    columns: dict[str, None] = {}
    for name in ("expressions", "group", "having", "order"):
        part = tree.args.get(name)
        for item in part if isinstance(part, list) else [part] if part is not None else []:
            columns |= dict.fromkeys(_columns_of(item))
    aliases = {item.alias for item in tree.expressions if type(item).__name__ == "Alias"}
    return predicate, tuple(name for name in columns if name not in aliases)


def _columns_of(node: Any) -> list[str]:
    """Return the names of the columns in an expression, in order."""
    found = map(column_name, node.dfs(prune=lambda one: column_name(one) is not None))
    return [dotted(name) for name in found if name is not None]


def _drop_table_names(tree: Any, names: set[str]) -> None:
    """Remove the name of the table from columns such as ``t.user``."""
    for node in list(tree.walk()):
        if type(node).__name__ == "Column" and node.parts[0].name in names and len(node.parts) > 1:
            node.set(next(key for key in ("catalog", "db", "table") if node.args.get(key)), None)


def _refused(text: str, why: str) -> PredicateError:
    return PredicateError(
        f"cannot extract a predicate from {short(text)}: {why}; pass only its predicate",
        reason="unsupported-statement",
    )
