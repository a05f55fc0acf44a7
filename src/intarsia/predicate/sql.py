"""Parse SQL text into predicate nodes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, cast

from intarsia.errors import PredicateError
from intarsia.predicate.nodes import (
    MIRRORED,
    RESERVED,
    And,
    Call,
    ColumnName,
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
from intarsia.predicate.sql_literals import Parameters, SqlLiterals, ordered_values
from intarsia.predicate.sql_parser import (
    Parsed,
    Token,
    Tree,
    column_name,
    parse_condition,
    parse_tokens,
    short,
    tokenize,
)

_SEARCHES: Final[dict[str, Callable[[Any, str], Like]]] = {
    "contains": contains,
    **dict.fromkeys(("starts_with", "startswith"), starts_with),
    **dict.fromkeys(("ends_with", "endswith"), ends_with),
}
_REGEXES: Final = ("regexp_like", "regexp_ilike", "regexp_matches", "regexp", "rlike")
_SIMPLE: Final = {
    **dict.fromkeys(("lower", "lcase"), "lower"),
    **dict.fromkeys(("upper", "ucase"), "upper"),
    **dict.fromkeys(("length", "len", "char_length", "character_length"), "length"),
    **{name: name for name in ("abs", "year", "quarter", "month", "day", "hour", "minute", "date")},
    **dict.fromkeys(("dayofmonth", "day_of_month"), "day"),
}
_PARTS: Final = ("year", "quarter", "month", "day", "hour", "minute")
_TRUNCATIONS: Final = ("date_trunc", "timestamp_trunc")
_UNITS: Final = {
    "d": "day",
    "h": "hour",
    "m": "minute",
    "q": "quarter",
    "s": "second",
    "w": "week",
    "y": "year",
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
        parameters: The values of the parameters: a list for ``?``, a mapping for ``:name``; None if there are
            none.

    Raises:
        PredicateError: If the text is not a predicate, is not supported, has other parameters, or has more
            than `MAX_SQL_TOKENS` tokens, not counting lists of plain numbers or texts.

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
        self._parsed = parse_condition(text)
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
        if parameters is not None:
            return predicate_of(self.text, self._parsed, parameters)
        if self._without_parameters is None:
            self._without_parameters = predicate_of(self.text, self._parsed)
        return self._without_parameters


_cached_template = lru_cache(maxsize=128)(SqlTemplate)


def predicate_of(
    text: str, parsed: Parsed, parameters: Parameters | None = None, tables: Collection[str] = ()
) -> Predicate:
    """Convert a parsed condition.

    Args:
        text: The text.
        parsed: What was parsed from it.
        parameters: The values of its parameters; None if there are none.
        tables: Names of the table, which columns may have in front.

    Raises:
        PredicateError: If the condition is not supported, or has other parameters.
    """
    literals = SqlLiterals(text, ordered_values(parsed.names, parameters, text))
    return _Converter(literals, tables).predicate(parsed.tree)


class _Converter:
    """Converts trees to nodes."""

    def __init__(self, literals: SqlLiterals, tables: Collection[str]) -> None:
        self._literals = literals
        self._tables = tables

    def predicate(self, tree: Tree) -> Predicate:
        """Convert a condition."""
        kind, parts, literals = tree.kind, tree.parts, self._literals
        if kind in MIRRORED:
            return self._comparison(tree, kind)
        if kind in ("and", "or"):
            children = tuple(map(self.predicate, parts))
            return And(children) if kind == "and" else Or(children)
        if kind == "paren":
            return self.predicate(parts[0])
        if kind == "not":
            child = self.predicate(parts[0])
            # x NOT IN (…) is read as NOT around a test; the two become one node
            if parts[0].kind not in ("paren", "not") and isinstance(child, (IsNull, In, Like, RegexpLike)):
                return dataclasses.replace(child, negated=not child.negated)
            return Not(child)
        if kind == "<=>":
            equal = self._comparison(tree, "=")
            if not isinstance(equal, Comparison):
                raise literals.unsupported(tree)
            return IsNull(equal.column) if equal.value is None else _never_null(equal)
        if kind == "in":
            return In(self._operand(parts[0]), literals.listed(parts[1]))
        if kind == "between":
            column, low, high = self._operand(parts[0]), literals.value(parts[1]), literals.value(parts[2])
            return And((Comparison(column, ">=", low), Comparison(column, "<=", high)))
        if kind == "is" and parts[1].kind == "constant":
            operand, (value,) = self._operand(parts[0]), parts[1].parts
            return IsNull(operand) if value is None else _never_null(Comparison(operand, "=", value))
        if kind in ("like", "ilike"):
            return self._like(tree)
        if kind in ("rlike", "irlike") and len(parts) == 2:
            return self._regexp_like(tree, parts, ignore_case=kind == "irlike")
        if kind == "constant":
            return Constant(parts[0])
        if kind == "column":
            return Comparison(self._operand(tree), "=", True)
        if kind == "call":
            name, *arguments = parts
            if name in _SEARCHES:
                if len(arguments) != 2:
                    raise _wrong_arguments(tree, self._literals.fragment(tree))
                text = literals.value(arguments[1])
                if isinstance(text, str):
                    return _SEARCHES[name](self._operand(arguments[0]), text)
            if name in _REGEXES and 2 <= len(arguments) <= 3:
                return self._regexp_like(tree, arguments, ignore_case=name == "regexp_ilike")
        raise literals.unsupported(tree)

    def _comparison(self, tree: Tree, op: Op) -> Predicate:
        first, second = tree.parts
        left, right = self._literals.value_or_none(first), self._literals.value_or_none(second)
        if left is None and right is not None:
            return Comparison(self._operand(first), op, right[0])
        if right is None and left is not None:
            return Comparison(self._operand(second), MIRRORED[op], left[0])
        if left is None or right is None:
            raise self._literals.unsupported(tree)
        one: Any = left[0]
        other: Any = right[0]
        if one is None or other is None:
            return Constant(None)
        numbers = type(one) in (int, Decimal) and type(other) in (int, Decimal)
        if not numbers and not (isinstance(one, str) and isinstance(other, str)):
            raise self._literals.unsupported(tree)
        less, equal = one < other, one == other
        is_true = {"=": equal, "<>": not equal, "<": less, "<=": less or equal, ">": not (less or equal)}
        return Constant(is_true.get(op, not less))

    def _like(self, tree: Tree) -> Predicate:
        pattern, *others = map(self._literals.value, tree.parts[1:])
        escape = others[0] if others else None
        if not isinstance(pattern, str) or not isinstance(escape, (str, type(None))):
            raise self._literals.unsupported(tree)
        return Like(self._operand(tree.parts[0]), pattern, False, escape, ignore_case=tree.kind == "ilike")

    def _regexp_like(self, tree: Tree, arguments: Sequence[Tree], *, ignore_case: bool) -> Predicate:
        regex, flags = [*map(self._literals.value, arguments[1:]), ""][:2]
        if not isinstance(regex, str) or not isinstance(flags, str):
            raise self._literals.unsupported(tree)
        column = self._operand(arguments[0])
        for flag in flags:
            if flag not in "ic":
                raise PredicateError(
                    f"unknown flag {flag!r} in {self._literals.fragment(tree)}; use 'i' to ignore case "
                    "or 'c' to respect it, and write other flags inline, such as (?s)",
                    reason="unknown-regex-flag",
                    column=dotted(column),
                )
            ignore_case = flag == "i"
        return RegexpLike(column, regex, False, ignore_case)

    def _operand(self, tree: Tree) -> Operand:
        """Return the column, or the function of a column, that an expression is.

        Raises:
            PredicateError: If the expression is neither.
        """
        kind, parts = tree.kind, tree.parts
        if kind == "column":
            if len(parts[0]) > 1 and parts[0][0] in self._tables:
                tree = tree._replace(parts=(parts[0][1:], parts[1]))
            return cast(ColumnName, column_name(tree))
        if kind == "paren":
            return self._operand(parts[0])
        if kind in ("+", "-", "*", "/", "%"):
            return self._arithmetic(tree, kind, *parts)
        if kind == "negative":
            return Call("*", self._operand(parts[0]), (-1,))
        if kind == "cast":
            inner, name, sizes = parts
            if name == "DATE":
                return Call("date", self._operand(inner))
            target = f"{name}({', '.join(map(str, sizes))})" if sizes else name
            return Call("cast", self._operand(inner), (target,))
        if kind == "call":
            found = self._called(tree, *parts)
            if found is not None:
                return found
        raise self._literals.unsupported(tree)

    def _called(self, tree: Tree, name: str, *arguments: Tree) -> Call | None:
        """Return a function of a column; None if it is unknown."""
        if name in _SIMPLE and len(arguments) == 1:
            return Call(_SIMPLE[name], self._operand(arguments[0]))
        if name in ("substr", "substring") and len(arguments) in (2, 3):
            numbers = tuple(self._constant(tree, number) for number in arguments[1:])
            return Call("substr", self._operand(arguments[0]), numbers)
        if len(arguments) != 2:
            return None
        first, second = arguments
        if name == "left":
            return Call("substr", self._operand(first), (1, self._constant(tree, second)))
        if name == "mod":
            return self._arithmetic(tree, "%", first, second)
        if name in ("extract", "date_part"):
            part = str(self._constant(tree, first)).lower()
            return Call(part, self._operand(second)) if part in _PARTS else None
        if name in _TRUNCATIONS:
            unit, moment = arguments if name == "date_trunc" else (second, first)
            word = self._constant(tree, unit)
            if isinstance(word, str):
                word = _UNITS.get(word.lower(), word.lower())
                return Call("date_trunc", self._operand(moment), (word,))
        return None

    def _arithmetic(self, tree: Tree, sign: str, first: Tree, second: Tree) -> Call:
        left, right = self._literals.value_or_none(first), self._literals.value_or_none(second)
        number = (right or left or (None,))[0]
        if isinstance(number, bool) or not isinstance(number, (int, float, Decimal)) or (left and right):
            raise self._literals.unsupported(tree)
        if right is not None:
            return Call(sign, self._operand(first), (number,))
        if sign not in ("+", "-", "*"):
            raise self._literals.unsupported(tree)
        column = self._operand(second)
        if sign == "-":
            return Call("+", Call("*", column, (-1,)), (number,))
        return Call(sign, column, (number,))

    def _constant(self, tree: Tree, value: Tree) -> object:
        if value.kind == "column" and len(value.parts[0]) == 1:
            return value.parts[0][0]
        constant = self._literals.value_or_none(value)
        if constant is None:
            raise self._literals.unsupported(tree)
        return constant[0]


def _never_null(equal: Comparison) -> Predicate:
    """Return ``=`` as FALSE instead of NULL, so that its negation is correct."""
    return And((equal, IsNull(equal.column, negated=True)))


def _wrong_arguments(tree: Tree, fragment: str) -> PredicateError:
    return PredicateError(
        f"cannot parse {fragment}: the function has two arguments, a column and a text",
        reason="syntax-error",
        near=fragment,
        position=tree.start,
    )


_SELECT: Final = re.compile(r"\s*(SELECT|WITH|FROM)\s", re.IGNORECASE)
_CLAUSES: Final = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET")
_REFUSED: Final = frozenset(("JOIN", "UNION", "INTERSECT", "EXCEPT", "QUALIFY", "WINDOW", "WITH", "LATERAL"))

#: Names in expressions that are not columns.
_WORDS: Final = RESERVED.union(
    ("asc", "by", "desc", "first", "group", "last", "nulls", "over", "partition", "range", "rows")
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
    *tokens, end = tokenize(text)
    clauses: dict[str, list[Token]] = {}
    words = [token.word for token in tokens]
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.word, 0)
        if depth == 0 and token.word in _CLAUSES and token.word not in clauses:
            clauses[token.word] = []
        elif clauses:
            clauses[list(clauses)[-1]].append(token)
    source = clauses.get("FROM", ())
    if words.count("SELECT") > 1:
        raise _refused(text, "it has a subquery")
    if not source and "FROM" in clauses:
        parse_tokens(text, [*tokens[words.index("FROM") :], end])  # raises the error at this place
    if not source or not _REFUSED.isdisjoint(words) or any(token.word == "," for token in source):
        raise _refused(text, "it does not select from one table, without joins and subqueries")
    tables = {str(token.value) for token in source if token.kind in ("name", "quoted")}
    predicate = None
    if "WHERE" in clauses:
        where = clauses["WHERE"]
        stop = Token("end", "", "", end.start, end.stop)
        predicate = predicate_of(text, parse_tokens(text, [*where, stop]), None, tables)
    selected = clauses.get("SELECT", ())
    if not selected or any(_is_star(selected, at) for at in range(len(selected))):
        return predicate, None
    columns: dict[str, None] = {}
    aliases: set[str] = set()
    for clause in ("SELECT", "GROUP", "HAVING", "ORDER"):
        found, named = _columns_of(clauses.get(clause, ()), tables)
        columns |= dict.fromkeys(found)
        aliases |= named if clause == "SELECT" else set()
    return predicate, tuple(name for name in columns if name not in aliases)


def _is_star(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a token is a ``*`` that stands for all columns."""
    before = tokens[at - 1].word if at else ","
    return tokens[at].word == "*" and before in (",", ".", "DISTINCT")


def _columns_of(tokens: Sequence[Token], tables: Collection[str]) -> tuple[list[str], set[str]]:
    """Return the names of the columns in expressions, in order, and the aliases."""
    found, aliases = [], set[str]()
    at = 0
    while at < len(tokens):
        token, start = tokens[at], at
        before = tokens[at - 1] if at else None
        at += 1
        if token.kind not in ("name", "quoted") or token.word.lower() in _WORDS:
            continue
        names = [str(token.value)]
        while at + 1 < len(tokens) and tokens[at].word == "." and tokens[at + 1].kind in ("name", "quoted"):
            names.append(str(tokens[at + 1].value))
            at += 2
        after = tokens[at] if at < len(tokens) else None
        ends_operand = before is not None and (
            before.kind in ("quoted", "number", "text", "hex")
            or (before.kind == "name" and before.word.lower() not in _WORDS)
            or before.word in (")", "AS", "END")
        )
        if ends_operand and start:
            aliases.add(names[0])
        elif after is None or (after.word not in ("(", "FROM") and (after.kind != "text" or not token.word)):
            found.append(".".join(names[1:] if len(names) > 1 and names[0] in tables else names))
    return found, aliases


def _refused(text: str, why: str) -> PredicateError:
    return PredicateError(
        f"cannot extract a predicate from {short(text)}: {why}; pass only its predicate",
        reason="unsupported-statement",
    )
