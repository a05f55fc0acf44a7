"""The sqlglot dialect for predicates, and the messages for text that it cannot parse."""

from __future__ import annotations

import functools
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
