"""The sqlglot dialect for predicates, and the messages for text that it cannot parse."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from intarsia.amounts import cut
from intarsia.errors import PredicateError
from intarsia.predicate.nodes import ColumnName, Op

if TYPE_CHECKING:
    from sqlglot.dialects.dialect import Dialect


COMPARISONS: Final[dict[str, Op]] = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
"""The comparison operators by their class names in sqlglot."""

_SUPPORTED: Final = (
    "compare a column, or a function of one column (lower, upper, length, substr, abs, year to minute, date, "
    "date_trunc, CAST, + - * / % with a number, or map['key']), with a literal; or use IN, BETWEEN, IS NULL "
    "or text search (LIKE, RLIKE, contains, starts_with, ends_with) or array_contains, combined by AND, OR "
    "and NOT"
)


@functools.cache
def dialect() -> type[Dialect]:
    """Return neutral SQL with backticks for names, X'…' for bytes and ~ for regular expressions.

    It has no statements such as SHOW, so a text may begin with a column that has such a name.
    """
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.parser import Parser as NeutralParser
    from sqlglot.tokens import Tokenizer as NeutralTokenizer

    class IntarsiaPredicate(Dialect):
        class Tokenizer(NeutralTokenizer):
            IDENTIFIERS: ClassVar = ['"', "`"]
            HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]
            KEYWORDS: ClassVar = NeutralTokenizer.KEYWORDS | {"~": NeutralTokenizer.KEYWORDS["RLIKE"]}
            COMMANDS: ClassVar = set[Any]()

        class Parser(NeutralParser):
            NO_PAREN_IF_COMMANDS = False

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
    needs = f" in a predicate; {_SUPPORTED}"
    if type(node).__name__ in COMPARISONS:
        needs = f": a comparison needs one column and one literal; {_SUPPORTED}"
        if all(type(side).__name__ == "Column" for side in (node.this, node.expression)):
            return PredicateError(
                f"two columns cannot be compared, as in {fragment(node)}; if {node.expression.name!r} is "
                "text, put it in single quotes",
                reason="two-columns",
            )
    return PredicateError(f"cannot use {fragment(node)}{needs}", reason="unsupported-expression")


def fragment(node: Any) -> str:
    """Render an expression as short SQL text for a message."""
    try:
        return short(node.sql(dialect=dialect()))
    except Exception:  # noqa: BLE001  only a message is at stake, so an expression that sqlglot cannot render is named
        return type(node).__name__


def short(text: str) -> str:
    """Shorten text to one line of at most 80 characters."""
    return cut(" ".join(text.split()), 80)


_COMPARISONS: Final = frozenset((*COMPARISONS, "NULLSAFE_EQ"))
_OPERATORS: Final = _COMPARISONS.union(
    ("IN", "IS", "LIKE", "ILIKE", "RLIKE", "IRLIKE", "BETWEEN", "SIMILAR_TO")
)
_STARTS: Final = frozenset(("AND", "OR", "NOT", "L_PAREN"))
_ENDS_OPERAND: Final = frozenset(
    ("VAR", "IDENTIFIER", "STRING", "NUMBER", "R_PAREN", "NULL", "TRUE", "FALSE", "HEX_STRING")
)

#: A message shows this many characters of the text around the word.
_CONTEXT = 30


def syntax_error(text: str, error: Exception) -> PredicateError:
    """Return the error for SQL text that sqlglot cannot parse.

    Returns:
        An error whose ``near`` is the word and whose ``position`` is its offset in the text, in characters.

    Example:
        >>> from sqlglot.errors import ParseError
        >>> found = syntax_error("Case = 3", ParseError("", [{"line": 1, "col": 8, "description": ""}]))
        >>> found.near, found.position
        ('Case', 0)
    """
    from sqlglot.errors import SqlglotError

    try:
        tokens = list(dialect()().tokenize(text))
    except SqlglotError:
        return _unclosed_quote(text, error)
    if not tokens:
        return PredicateError("the predicate is empty; omit it to select every row", reason="empty-predicate")
    kinds = [str(token.token_type.name) for token in tokens]
    problem: dict[str, Any] = (getattr(error, "errors", None) or [{}])[0]
    line_and_column = (problem.get("line"), problem.get("col"))
    ordinals = [at for at, token in enumerate(tokens) if (token.line, token.col) == line_and_column]
    at = ordinals[0] if ordinals else len(tokens) - 1
    found, what = _explain(tokens, kinds, at, str(problem.get("description")))
    token = tokens[found]
    return _error(text, text[token.start : token.end + 1], token.start, what)


def _unclosed_quote(text: str, error: Exception) -> PredicateError:
    opened: int | None = None
    for position, character in enumerate(text):
        if opened is None:
            opened = position if character in "'\"`" else None
        elif character == text[opened]:
            opened = None
    if opened is None:
        message = f"cannot parse the predicate {short(text)}: {' '.join(str(error).split())}"
        return PredicateError(message, reason="syntax-error")
    quote = text[opened]
    return _error(
        text, quote, opened, f"the quote is not closed; write {quote * 2} for a quote within quotes"
    )


def _explain(tokens: Sequence[Any], kinds: Sequence[str], at: int, description: str) -> tuple[int, str]:
    """Return the ordinal of the wrong word and the problem, given the position where sqlglot stopped."""
    last = len(tokens) - 1
    for ordinal in range(min(at, last), max(-1, at - 4), -1):
        # where a column should be: first in a condition, and before an operator
        before = kinds[ordinal - 1] if ordinal else "L_PAREN"
        after = kinds[ordinal + 1] if ordinal < last else None
        word, kind = tokens[ordinal].text, kinds[ordinal]
        is_if = kind == "VAR" and word.upper() == "IF"  # a keyword that is a name to the tokenizer
        is_keyword = is_if or (word.isidentifier() and kind not in _ENDS_OPERAND | _STARTS)
        if is_keyword and before in _STARTS and after in _OPERATORS | {"NOT"}:
            return ordinal, f'a keyword; quote it as "{word}"'
    opened: list[int] = []
    for ordinal, kind in enumerate(kinds):
        if kind == "L_PAREN":
            opened.append(ordinal)
        elif kind == "R_PAREN":
            if not opened:
                return ordinal, "the parenthesis is not opened"
            opened.pop()
    if opened and "Expecting )" in description:
        return opened[-1], "the parenthesis is not closed"
    if "number of provided arguments" in description:
        return at, "the function has too many arguments"
    for ordinal, kind in enumerate(kinds[: at + 1]):  # NOT may precede LIKE and IN
        before = kinds[ordinal - 1] if ordinal else "L_PAREN"
        if kind in _OPERATORS and before in _COMPARISONS | {"L_PAREN", "AND", "OR"}:
            return ordinal, "a column or a value is missing before it"
        if kind in ("AND", "OR") and before in ("L_PAREN", "AND", "OR", "NOT"):
            return ordinal, "a condition is missing before it"
    if at == last and (kinds[at] in _OPERATORS | _STARTS or "Unexpected token" not in description):
        return at, "a column, a value or a condition is missing after it"
    if "Unexpected token" not in description:
        return at, "a column, a value or a condition is missing before it"
    if at and kinds[at - 1] in _ENDS_OPERAND:
        return at, "unexpected here; AND, OR or a quote may be missing before it"
    return at, "unexpected here"


def _error(text: str, near: str, position: int, what: str) -> PredicateError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    shown_at = f"line {line}, column {column}" if "\n" in text.strip() else f"column {column}"
    start, stop = max(0, position - _CONTEXT), position + len(near) + _CONTEXT
    shown = short(near).strip('"')
    return PredicateError(
        f'cannot parse the predicate near "{shown}" at {shown_at}: {what} (in: {short(text[start:stop])})',
        reason="syntax-error",
        near=near,
        position=position,
    )
