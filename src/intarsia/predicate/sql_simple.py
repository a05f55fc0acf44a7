"""Read the most common SQL conditions without sqlglot, which takes 0.1 s to load and 0.3 ms for a condition.

These are comparisons of a column with a literal, IN, BETWEEN and IS NULL, joined by AND, OR and NOT. Other
text is declined, wrong text included: sqlglot reads it, and explains its errors.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from intarsia.predicate.literals import parse_number
from intarsia.predicate.nodes import (
    MIRRORED,
    RESERVED,
    And,
    ColumnName,
    Comparison,
    In,
    IsNull,
    Not,
    Op,
    Or,
    Predicate,
)
from intarsia.predicate.sql_literals import FROM_TEXT, list_of, negative, value_of

_NAME: Final = r"""(?:[A-Za-z_]\w*|"[^"]+"|`[^`]+`)"""
_TOKEN: Final = re.compile(
    rf"""[ \t\r\n]*(?:
    (?P<number> -?\d{{1,40}}(?:\.\d{{1,40}})?) (?![\w.])
    | (?P<text> '[^']*(?:''[^']*)*') (?![\w'"`])
    | (?P<name> {_NAME}(?:\.{_NAME})*) (?![.'"`])
    | (?P<parameter> \?|:[A-Za-z_]\w*) (?![\w?])
    | (?P<sign> <=|>=|<>|!=|==|[=<>(),])
    )""",
    re.ASCII | re.VERBOSE,
)
_OPS: Final[dict[str, Op]] = {**{op: op for op in MIRRORED}, "==": "=", "!=": "<>"}
#: The last four are columns only where no statement can begin, such as in parentheses.
_KEYWORDS: Final = RESERVED.union(("connect_by_root", "describe", "table", "values"))
_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}
_TYPED: Final = ("DATE", "TIME", "TIMESTAMP")

#: The maximum depth of parentheses and NOT.
_MAX_LEVELS: Final = 20


class _Parameter(NamedTuple):
    """The place of a parameter in a predicate.

    Attributes:
        ordinal: Its ordinal in the text.
        is_list: Whether it is the whole list of an IN.
    """

    ordinal: int
    is_list: bool = False


class SimpleSql(NamedTuple):
    """A predicate that may have parameters.

    Attributes:
        predicate: The predicate, with a `_Parameter` in place of each value.
        names: The names of the parameters in the order of the text; None for ``?``.
    """

    predicate: Predicate
    names: Sequence[str | None]

    def bind(self, values: Sequence[object]) -> Predicate:
        """Return the predicate with the values of its parameters, in the order of the text.

        Raises:
            PredicateError: If a list is given for one literal, or the reverse.
        """

        def literals(item: object) -> Sequence[object]:
            if not isinstance(item, _Parameter):
                return (item,)
            value, name = values[item.ordinal], self.names[item.ordinal]
            return list_of(value, name) if item.is_list else (value_of(value, name),)

        def bound(node: Predicate) -> Predicate:
            if isinstance(node, (And, Or)):
                return type(node)(tuple(map(bound, node.children)))
            if isinstance(node, Not):
                return Not(bound(node.child))
            if isinstance(node, Comparison):
                return Comparison(node.column, node.op, *literals(node.value))
            if isinstance(node, In):
                return In(node.column, tuple(chain.from_iterable(map(literals, node.values))), node.negated)
            return node

        return bound(self.predicate)


def read_simple(text: str) -> SimpleSql | None:
    """Read a condition if it is simple.

    Returns:
        The predicate that sqlglot's tree would become; None if the text is declined.

    Example:
        >>> str(read_simple("id = ? AND NOT (day >= DATE '2024-02-29' OR b IS NULL)").bind([7]))
        "id = 7 AND NOT (day >= DATE '2024-02-29' OR b IS NULL)"
        >>> read_simple("lower(s) = 'a'") is None, read_simple("id =") is None
        (True, True)
    """
    reader = _Reader(text)
    try:
        predicate = reader.alternatives(0)
    except _DeclinedError:
        return None
    return SimpleSql(predicate, tuple(reader.names)) if reader.kind == "end" else None


class _DeclinedError(Exception):
    """The text is not simple."""


class _Reader:
    """A recursive descent through the text. The current token is `kind` and `word`."""

    def __init__(self, text: str) -> None:
        self.names: list[str | None] = []
        self._text = text.rstrip(" \t\r\n")
        self._position = 0
        self.advance()

    def advance(self) -> None:
        if self._position == len(self._text):
            self.kind, self.word = "end", ""
            return
        found = _TOKEN.match(self._text, self._position)
        self.kind = "unknown" if found is None else str(found.lastgroup)
        self.word = "" if found is None else found[self.kind]
        self._position = self._position if found is None else found.end()
        if self.kind == "name" and self.word.lower() in _KEYWORDS:
            self.kind, self.word = "word", self.word.upper()

    def accept(self, *words: str) -> str | None:
        """Step over a keyword or a sign, if it is next."""
        found = self.word if self.kind in ("word", "sign") and self.word in words else None
        if found is not None:
            self.advance()
        return found

    def expect(self, word: str) -> None:
        if self.accept(word) is None:
            raise _DeclinedError

    def alternatives(self, level: int) -> Predicate:
        children = [self._conjunction(level)]
        while self.accept("OR"):
            children.append(self._conjunction(level))
        return children[0] if len(children) == 1 else Or(tuple(children))

    def _conjunction(self, level: int) -> Predicate:
        children = [self._negation(level)]
        while self.accept("AND"):
            children.append(self._negation(level))
        return children[0] if len(children) == 1 else And(tuple(children))

    def _negation(self, level: int) -> Predicate:
        if level > _MAX_LEVELS:
            raise _DeclinedError
        if self.accept("("):
            inner = self.alternatives(level + 1)
            self.expect(")")
            return inner
        if not self.accept("NOT"):
            return self._condition()[0]
        if self.kind == "sign" or self.word == "NOT":
            return Not(self._negation(level + 1))
        return _negated(*self._condition())

    def _condition(self) -> tuple[Predicate, bool]:
        """Read a condition on a column. Also return whether it has a NOT of its own."""
        if self.kind != "name":
            value, op = self._value(), self._op()
            return Comparison(self._column(), MIRRORED[op], value), False
        column = self._column()
        if self.accept("IS"):
            negated = self.accept("NOT") is not None
            self.expect("NULL")
            # sqlglot parses IS NOT NULL as NOT around a test, as it does with NOT IN
            return IsNull(column, negated), negated
        negated = self.accept("NOT") is not None
        test: Predicate
        if self.accept("IN"):
            test = In(column, self._list())
        elif self.accept("BETWEEN"):
            low = self._value()
            self.expect("AND")
            test = And((Comparison(column, ">=", low), Comparison(column, "<=", self._value())))
        elif negated:
            raise _DeclinedError
        else:
            test = Comparison(column, self._op(), self._value())
        return (_negated(test, False) if negated else test), negated

    def _op(self) -> Op:
        op = self.accept(*_OPS)
        if op is None:
            raise _DeclinedError
        return _OPS[op]

    def _column(self) -> ColumnName:
        if self.kind != "name":
            raise _DeclinedError
        word = self.word
        self.advance()
        if '"' not in word and "`" not in word:
            if "." in word and not _KEYWORDS.isdisjoint(word.lower().split(".")):
                raise _DeclinedError
            return word
        parts = re.findall(_NAME, word, re.ASCII)
        if any(part.lower() in _KEYWORDS for part in parts):
            raise _DeclinedError
        names = tuple([part[1:-1] if part[0] in '"`' else part for part in parts])
        return names if len(names) > 1 or "." in names[0] else names[0]

    def _list(self) -> tuple[object, ...]:
        if self.kind == "parameter":
            return (self._parameter(is_list=True),)
        self.expect("(")
        found = [self._value()]
        while self.accept(","):
            found.append(self._value())
        self.expect(")")
        return tuple(found)

    def _value(self) -> object:
        kind, word = self.kind, self.word
        if kind == "parameter":
            return self._parameter()
        self.advance()
        if kind == "text":
            return _unquoted(word)
        if kind == "number":
            number: Any = parse_number(word.lstrip("-"))
            return negative(number) if word[0] == "-" else number
        if kind == "word" and word in _CONSTANTS:
            return _CONSTANTS[word]
        if kind != "name" or word.upper() not in _TYPED or self.kind != "text":
            raise _DeclinedError
        try:
            value = FROM_TEXT[word.upper()](_unquoted(self.word))
        except (ValueError, OverflowError):
            raise _DeclinedError from None
        self.advance()
        return value

    def _parameter(self, *, is_list: bool = False) -> _Parameter:
        name = self.word[1:] or None
        if name is not None and name.lower() in _KEYWORDS:
            raise _DeclinedError
        self.names.append(name)
        self.advance()
        return _Parameter(len(self.names) - 1, is_list)


def _negated(test: Predicate, has_not: bool) -> Predicate:
    """Return NOT and a test; NOT and IN become one node, unless the test has a NOT of its own."""
    if isinstance(test, (In, IsNull)) and not has_not:
        return dataclasses.replace(test, negated=not test.negated)
    return Not(test)


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")
