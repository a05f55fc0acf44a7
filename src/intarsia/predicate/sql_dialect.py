"""The sqlglot dialect for predicates, and the messages for text that it cannot parse."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from intarsia.errors import PredicateError
from intarsia.predicate.nodes import ColumnName, Op

if TYPE_CHECKING:
    from sqlglot.dialects.dialect import Dialect


COMPARISONS: Final[dict[str, Op]] = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
"""The comparison operators by their class names in sqlglot."""

_SUPPORTED: Final = (
    "compare a column, or a function of one column (lower, upper, length, substr, abs, year to minute, date, "
    "date_trunc, CAST, or + - * / % with a number), with a literal; or use IN, BETWEEN, IS NULL or text "
    "search (LIKE, RLIKE, contains, starts_with, ends_with), combined by AND, OR and NOT"
)


@functools.cache
def dialect() -> type[Dialect]:
    """Return neutral SQL with backticks for names, X'…' for bytes and ~ for regular expressions."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.tokens import Tokenizer as NeutralTokenizer

    class IntarsiaPredicate(Dialect):
        class Tokenizer(NeutralTokenizer):
            IDENTIFIERS: ClassVar = ['"', "`"]
            HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]
            KEYWORDS: ClassVar = NeutralTokenizer.KEYWORDS | {"~": NeutralTokenizer.KEYWORDS["RLIKE"]}

    return IntarsiaPredicate


def column_name(node: Any) -> ColumnName | None:
    """Return the column that an expression names, or None if it is not a column."""
    if type(node).__name__ not in ("Column", "Dot"):
        return None
    parts = node.parts
    if any(type(part).__name__ != "Identifier" for part in parts):
        return None
    names = tuple(part.name for part in parts)
    quoted = any(part.args.get("quoted") for part in parts)
    if quoted and (len(names) > 1 or "." in names[0]):
        return names
    return ".".join(names)


def unsupported(node: Any) -> PredicateError:
    """Return the error for an expression that parses but is not supported in a predicate."""
    if type(node).__name__ in COMPARISONS:
        if all(type(side).__name__ == "Column" for side in (node.this, node.expression)):
            text = node.expression.name
            return PredicateError(
                f"two columns cannot be compared, as in {fragment(node)}; if {text!r} is text, put it in "
                "single quotes",
                reason="two-columns",
            )
        return PredicateError(
            f"cannot use {fragment(node)}: a comparison needs one column and one literal; {_SUPPORTED}",
            reason="unsupported-expression",
        )
    return PredicateError(
        f"cannot use {fragment(node)} in a predicate; {_SUPPORTED}", reason="unsupported-expression"
    )


def fragment(node: Any) -> str:
    """Render an expression as short SQL text for a message."""
    try:
        return short(node.sql(dialect=dialect()))
    except Exception:  # noqa: BLE001  only a message is at stake, so an expression that sqlglot cannot render is named
        return type(node).__name__


def short(text: str) -> str:
    """Shorten text to one line of at most 80 characters."""
    text = one_line(text)
    return f"{text[:79]}…" if len(text) > 80 else text


def one_line(text: str) -> str:
    """Join the lines of a text."""
    return " ".join(text.split())


def operands(node: Any, class_name: str) -> list[Any]:
    """Return the operands of a AND b AND c …, without recursion, because there may be many thousands."""
    found: list[Any] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if type(current).__name__ == class_name:
            pending += [current.expression, current.this]
        else:
            found.append(current)
    return found


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
