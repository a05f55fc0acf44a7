"""Parse SQL text into predicate nodes with sqlglot, which is loaded on first use."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import operator
import re
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from intarsia.errors import PredicateError
from intarsia.predicate.nodes import (
    And,
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
    operands,
    short,
    syntax_error,
    unsupported,
)
from intarsia.predicate.sql_functions import operand
from intarsia.predicate.sql_literals import (
    Parameters,
    attach_lists,
    attach_parameters,
    attached_list,
    attached_values,
    cut_lists,
    literal,
    literal_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Callable


#: The maximum number of tokens that sqlglot parses: names, keywords, literals and signs.
MAX_SQL_TOKENS: Final = 250_000

_WORD: Final = re.compile(r"'[^']*'|\d[\w.]*|\w+|[^\w\s]")
_MIRRORED: Final[dict[Op, Op]] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FOLD: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_TEXT_SEARCH: Final[dict[str, Callable[[Any, str], Like]]] = {
    "Contains": contains,
    "StartsWith": starts_with,
    "EndsWith": ends_with,
}
_FUNCTIONS: Final = {
    "contains": "Contains",
    "starts_with": "StartsWith",
    "startswith": "StartsWith",
    "ends_with": "EndsWith",
    "endswith": "EndsWith",
    "regexp_like": "RegexpLike",
    "regexp_matches": "RegexpLike",
    "regexp": "RegexpLike",
    "rlike": "RegexpLike",
}


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
    ``date_trunc``, CAST, and ``+``, ``-``, ``*``, ``/`` and ``%`` with a number.

    Text searches are LIKE, ILIKE, ``contains(column, 'text')``, ``starts_with`` and ``ends_with``. Searches
    by RE2 regular expressions are ``column RLIKE 're'``, ``column REGEXP 're'``, ``column ~ 're'`` and
    ``regexp_like(column, 're')``. ``column ~* 're'`` and ``regexp_like(column, 're', 'i')`` ignore case.

    A parameter can replace a literal: ``?`` by position, ``:name`` by name. ``IN ?`` takes a list.

    Args:
        text: The predicate.
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
    is_cached = len(text) <= _MAX_CACHED_CHARACTERS
    if parameters is None:
        return _parse_cached(text) if is_cached else parse_condition(_tree(text), text)
    tree = _tree_cached(text).copy() if is_cached else _tree(text)
    attach_parameters(tree, parameters, text)
    return parse_condition(tree, text)


@lru_cache(maxsize=128)
def _parse_cached(text: str) -> Predicate:
    """Parse with a cache: predicates are immutable and often repeated."""
    return parse_condition(_tree(text), text)


@lru_cache(maxsize=128)
def _tree_cached(text: str) -> Any:
    """Parse with a cache: text with parameters is repeated with other values."""
    return _tree(text)


def _tree(text: str) -> Any:
    if not text.strip():
        raise PredicateError("the predicate is empty; omit it to select every row", reason="empty-predicate")
    return parse_text(text)


def parse_text(text: str, *, is_condition: bool = True) -> Any:
    """Parse SQL text to a tree of sqlglot.

    Args:
        text: The text.
        is_condition: Whether it is a condition; otherwise it is a statement.

    Raises:
        PredicateError: If the text cannot be parsed, or has more tokens than `MAX_SQL_TOKENS` without its
            long lists.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    into = exp.Condition if is_condition else None
    cut = cut_lists(text)
    _check_size(cut.text)
    if cut.lists:
        # text that cannot be parsed without its lists is parsed as a whole, so that errors have its positions
        with contextlib.suppress(SqlglotError, RecursionError):
            tree = sqlglot.parse_one(cut.text, dialect=dialect(), into=into)
            if attach_lists(tree, cut.lists):
                return tree
        _check_size(text)
    try:
        return sqlglot.parse_one(text, dialect=dialect(), into=into)
    except SqlglotError as error:
        raise syntax_error(text, error) from None
    except RecursionError:
        raise _nested_too_deeply(text) from None


def parse_condition(tree: Any, text: str = "") -> Predicate:
    """Convert a condition that `parse_text` has parsed.

    Args:
        tree: The tree.
        text: Its text, for messages.

    Raises:
        PredicateError: If it is not supported in a predicate.
    """
    from sqlglot.errors import SqlglotError

    try:
        return _predicate(tree)
    except SqlglotError as error:
        raise syntax_error(text, error) from None
    except RecursionError:
        raise _nested_too_deeply(text) from None


def _nested_too_deeply(text: str) -> PredicateError:
    return PredicateError(
        f"the predicate {short(text)} is nested too deeply to parse; write it with fewer parentheses, or "
        "build it from ia.And and ia.Or",
        reason="nested-too-deeply",
    )


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
        children = tuple(_predicate(child) for child in operands(node, class_name))
        return And(children) if class_name == "And" else Or(children)
    if class_name == "Not":
        return _negated(_predicate(node.this), bare=type(node.this).__name__ not in ("Paren", "Not"))
    if class_name in COMPARISONS:
        return _comparison(node, COMPARISONS[class_name])
    if class_name in ("NullSafeEQ", "NullSafeNEQ"):
        column, op, value = _column_and_value(node, "=")
        same = (
            IsNull(column)
            if value is None
            else And((Comparison(column, op, value), IsNull(column, negated=True)))
        )
        return same if class_name == "NullSafeEQ" else Not(same)
    if class_name == "In":
        listed = attached_list(node.args.get("field"))
        if listed is not None:
            return In(operand(node.this), listed)
        if any(node.args.get(other) for other in ("query", "unnest", "field")):
            raise unsupported(node)
        if "expressions" not in node.args:
            raise PredicateError(
                f"a list is missing after {fragment(node.this)} IN; write it in parentheses, as in IN (1, 2)",
                reason="syntax-error",
                near="IN",
            )
        values = attached_values(node)
        if values is None:
            values = tuple(literal(value) for value in node.expressions)
        return In(operand(node.this), values)
    if class_name == "Between" and not node.args.get("symmetric"):
        column = operand(node.this)
        low, high = literal(node.args["low"]), literal(node.args["high"])
        return And((Comparison(column, ">=", low), Comparison(column, "<=", high)))
    if class_name == "Is":
        return _is(node)
    if class_name in ("Like", "ILike", "Escape"):
        return _like(node)
    if class_name == "Anonymous":  # which functions have a class of their own depends on sqlglot's version
        class_name = _FUNCTIONS.get(str(node.this).lower(), class_name)
    if class_name in ("RegexpLike", "RegexpILike"):
        return _regexp_like(node, ignore_case=class_name == "RegexpILike")
    if class_name in _TEXT_SEARCH:
        column, text = _text_arguments(node, max_arguments=2)
        return _TEXT_SEARCH[class_name](column, text)
    if class_name == "Boolean":
        return Constant(bool(node.this))
    if class_name == "Null":
        return Constant(None)
    if class_name in ("Column", "Dot"):
        return Comparison(operand(node), "=", True)
    raise unsupported(node)


def _negated(child: Predicate, *, bare: bool) -> Predicate:
    """Negate a node. sqlglot parses ``x NOT IN (…)`` as NOT around a test; the two become one node."""
    if bare and isinstance(child, IsNull):
        return IsNull(child.column, negated=not child.negated)
    if bare and isinstance(child, In):
        return In(child.column, child.values, negated=not child.negated)
    if bare and isinstance(child, (Like, RegexpLike)):
        return dataclasses.replace(child, negated=not child.negated)
    return Not(child)


def _comparison(node: Any, op: Op) -> Predicate:
    left, right = literal_or_none(node.this), literal_or_none(node.expression)
    if left is None or right is None:
        return Comparison(*_column_and_value(node, op))
    (first,), (second,) = left, right
    if first is None or second is None:
        return Constant(None)
    numbers = type(first) in (int, Decimal) and type(second) in (int, Decimal)
    if not numbers and not (isinstance(first, str) and isinstance(second, str)):
        raise unsupported(node)
    return Constant(_FOLD[op](first, second))


def _column_and_value(node: Any, op: Op) -> tuple[Operand, Op, object]:
    value = literal_or_none(node.expression)
    if value is not None:
        return operand(node.this), op, value[0]
    value = literal_or_none(node.this)
    if value is not None:
        return operand(node.expression), _MIRRORED[op], value[0]
    raise unsupported(node)


def _is(node: Any) -> Predicate:
    column = operand(node.this)
    node_type = type(node.expression).__name__
    if node_type == "Null":
        return IsNull(column)
    if node_type == "Boolean":  # IS TRUE is never NULL; the IS NOT NULL makes its negation correct
        return And((Comparison(column, "=", bool(node.expression.this)), IsNull(column, negated=True)))
    raise unsupported(node)


def _like(node: Any) -> Predicate:
    escape = None
    like = node
    if type(node).__name__ == "Escape":
        like = node.this
        escape = literal(node.expression)
    pattern = literal(like.expression) if type(like).__name__ in ("Like", "ILike") else None
    if not isinstance(pattern, str) or not isinstance(escape, (str, type(None))):
        raise unsupported(node)
    ignore_case = type(like).__name__ == "ILike"
    return Like(operand(like.this), pattern, bool(like.args.get("negate")), escape, ignore_case)


def _regexp_like(node: Any, *, ignore_case: bool) -> Predicate:
    column, regex, *flags = _text_arguments(node, max_arguments=3)
    for flag in "".join(flags):
        if flag not in "ic":
            raise PredicateError(
                f"unknown flag {flag!r} in {fragment(node)}; use 'i' to ignore case or 'c' to respect it, "
                "and write other flags inline, such as (?s)",
                reason="unknown-regex-flag",
                column=dotted(column),
            )
        ignore_case = flag == "i"
    return RegexpLike(column, regex, bool(node.args.get("negate")), ignore_case)


def _text_arguments(node: Any, *, max_arguments: int) -> tuple[Any, ...]:
    """Return the arguments of a function: a column and one to ``max_arguments - 1`` texts."""
    if type(node).__name__ == "Anonymous":
        arguments = list(node.expressions)
    else:
        arguments = [value for name, value in node.args.items() if value is not None and name != "negate"]
    if not 2 <= len(arguments) <= max_arguments or isinstance(arguments[-1], bool):
        raise unsupported(node)
    texts = [literal(argument) for argument in arguments[1:]]
    if not all(isinstance(text, str) for text in texts):
        raise unsupported(node)
    return operand(arguments[0]), *texts


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
    predicate = None if where is None else parse_condition(where.this)
    if any(type(item).__name__ == "Star" for item in tree.expressions):
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
    found = []
    inside: set[int] = set()
    for one in node.walk(bfs=False):
        if id(one) in inside:
            continue
        name = column_name(one)
        if name is not None:
            inside |= {id(part) for part in one.walk()}
            found.append(name if isinstance(name, str) else ".".join(name))
    return found


def _drop_table_names(tree: Any, names: set[str]) -> None:
    """Remove the name of the table from columns such as ``t.user``."""
    for node in list(tree.walk()):
        if type(node).__name__ == "Column" and node.parts[0].name in names and len(node.parts) > 1:
            first = next(key for key in ("catalog", "db", "table") if node.args.get(key))
            node.set(first, None)


def _refused(text: str, why: str) -> PredicateError:
    return PredicateError(
        f"cannot extract a predicate from {short(text)}: {why}; pass only its predicate",
        reason="unsupported-statement",
    )
