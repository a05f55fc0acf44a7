"""Explain why SQL text cannot be parsed: the word, its position, and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from intarsia.errors import PredicateError
from intarsia.predicate.sql_dialect import dialect, one_line, short

_COMPARISONS: Final = ("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NULLSAFE_EQ")
_OPERATORS: Final = frozenset(
    (*_COMPARISONS, "IN", "IS", "LIKE", "ILIKE", "RLIKE", "IRLIKE", "BETWEEN", "SIMILAR_TO")
)
_STARTS: Final = frozenset(("AND", "OR", "NOT", "L_PAREN"))
_ENDS_OPERAND: Final = frozenset(
    ("VAR", "IDENTIFIER", "STRING", "NUMBER", "R_PAREN", "NULL", "TRUE", "FALSE", "HEX_STRING")
)

#: A message shows this many characters of the text around the word.
_CONTEXT = 30


def syntax_error(text: str, error: Exception) -> PredicateError:
    """Return the error for SQL text that sqlglot cannot parse.

    Args:
        text: The text.
        error: The error that sqlglot raised.

    Returns:
        An error whose ``near`` is the word and whose ``position`` is its offset in the text, in characters.

    Example:
        >>> from sqlglot.errors import ParseError
        >>> found = syntax_error("Case = 3", ParseError("", [{"line": 1, "col": 8, "description": ""}]))
        >>> found.near, found.position
        ('Case', 0)
    """
    tokens = _tokens(text)
    if tokens is None:
        position = _open_quote(text)
        if position is None:
            return _error(text, None, None, one_line(str(error)))
        return _error(
            text,
            text[position],
            position,
            f"the quote is not closed; write {text[position] * 2} for a quote within quotes",
        )
    problems: list[dict[str, Any]] = getattr(error, "errors", None) or [{}]
    problem = problems[0]
    line_and_column = (problem.get("line"), problem.get("col"))
    ordinals = [at for at, token in enumerate(tokens) if (token.line, token.col) == line_and_column]
    at = ordinals[0] if ordinals else len(tokens) - 1
    found, what = _explain(tokens, at, str(problem.get("description")))
    token = tokens[found]
    return _error(text, text[token.start : token.end + 1], token.start, what)


def _explain(tokens: Sequence[Any], at: int, description: str) -> tuple[int, str]:
    """Return the ordinal of the wrong word and the problem, given the position where sqlglot stopped."""
    for ordinal in range(min(at, len(tokens) - 1), max(-1, at - 4), -1):
        if _is_keyword_for_column(tokens, ordinal):
            return ordinal, f'a keyword; quote it as "{tokens[ordinal].text}"'
    unclosed, unopened = _parentheses(tokens)
    if unopened is not None:
        return unopened, "the parenthesis is not opened"
    if unclosed is not None and "Expecting )" in description:
        return unclosed, "the parenthesis is not closed"
    if "number of provided arguments" in description:
        return at, "the function has too many arguments"
    for ordinal, token in enumerate(tokens[: at + 1]):
        before = _token_type(tokens[ordinal - 1]) if ordinal else None
        if _token_type(token) in _OPERATORS and _lacks_operand(before):
            return ordinal, "a column or a value is missing before it"
    if at == len(tokens) - 1 and _token_type(tokens[at]) in (*_OPERATORS, *_STARTS):
        return at, "a column, a value or a condition is missing after it"
    if "Unexpected token" in description:
        if at and _token_type(tokens[at - 1]) in _ENDS_OPERAND:
            return at, "unexpected here; AND, OR or a quote may be missing before it"
        return at, "unexpected here"
    if at == len(tokens) - 1:
        return at, "a column, a value or a condition is missing after it"
    return at, "a column, a value or a condition is missing before it"


def _is_keyword_for_column(tokens: Sequence[Any], ordinal: int) -> bool:
    """Return whether a keyword is where a column should be: first in a condition, or before an operator."""
    token = tokens[ordinal]
    token_type = _token_type(token)
    if token_type in _ENDS_OPERAND or token_type in _STARTS or not token.text.isidentifier():
        return False
    before = _token_type(tokens[ordinal - 1]) if ordinal else None
    after = _token_type(tokens[ordinal + 1]) if ordinal + 1 < len(tokens) else None
    return (before is None or before in _STARTS) and after in (*_OPERATORS, "NOT")


def _lacks_operand(before: str | None) -> bool:
    """Return whether an operator lacks its left operand. NOT may precede LIKE and IN."""
    return before is None or before == "L_PAREN" or before in ("AND", "OR") or before in _COMPARISONS


def _parentheses(tokens: Sequence[Any]) -> tuple[int | None, int | None]:
    """Return the ordinals of the last parenthesis that is not closed, and of the first that is not opened."""
    opened: list[int] = []
    for ordinal, token in enumerate(tokens):
        if _token_type(token) == "L_PAREN":
            opened.append(ordinal)
        elif _token_type(token) == "R_PAREN":
            if not opened:
                return None, ordinal
            opened.pop()
    return (opened[-1] if opened else None), None


def _tokens(text: str) -> list[Any] | None:
    """Return the tokens of a text, or None if a quote is not closed."""
    from sqlglot.errors import SqlglotError

    try:
        return list(dialect()().tokenize(text))
    except SqlglotError:
        return None


def _open_quote(text: str) -> int | None:
    """Return the offset of the quote that is not closed."""
    opened: int | None = None
    for position, character in enumerate(text):
        if opened is None:
            opened = position if character in "'\"`" else None
        elif character == text[opened]:
            opened = None
    return opened


def _token_type(token: Any) -> str:
    return str(token.token_type.name)


def _error(text: str, near: str | None, position: int | None, what: str) -> PredicateError:
    if near is None or position is None:
        message = f"cannot parse the predicate {short(text)}: {what}"
    else:
        line = text.count("\n", 0, position) + 1
        column = position - text.rfind("\n", 0, position)
        shown_at = f"line {line}, column {column}" if "\n" in text.strip() else f"column {column}"
        start, stop = max(0, position - _CONTEXT), position + len(near) + _CONTEXT
        shown = short(near).strip('"')
        message = (
            f'cannot parse the predicate near "{shown}" at {shown_at}: {what} (in: {short(text[start:stop])})'
        )
    return PredicateError(message, reason="syntax-error", near=near, position=position)
