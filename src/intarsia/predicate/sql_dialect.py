"""How sqlglot is set up for predicates, and how what it could not do is told."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, Final

from intarsia.errors import PredicateError
from intarsia.predicate.nodes import ColumnName, Op

if TYPE_CHECKING:
    from sqlglot.dialects.dialect import Dialect

COMPARISONS: Final[dict[str, Op]] = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
"""sqlglot's class names of the comparisons."""

_SUPPORTED: Final = (
    "supported are column = <> < <= > >= literal, IS [NOT] DISTINCT FROM, [NOT] IN (…), [NOT] BETWEEN, "
    "[NOT] LIKE, [NOT] ILIKE, [NOT] RLIKE, regexp_like(), contains(), starts_with(), ends_with(), "
    "IS [NOT] NULL, IS [NOT] TRUE/FALSE, AND, OR, NOT"
)


@functools.cache
def dialect() -> type[Dialect]:
    """A neutral SQL, with backticks for names, X'…' for bytes and ~ for regular expressions."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.tokens import Tokenizer as NeutralTokenizer

    class IntarsiaPredicate(Dialect):
        class Tokenizer(NeutralTokenizer):
            IDENTIFIERS: ClassVar = ['"', "`"]
            HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]
            KEYWORDS: ClassVar = NeutralTokenizer.KEYWORDS | {"~": NeutralTokenizer.KEYWORDS["RLIKE"]}

    return IntarsiaPredicate


def column_name(node: Any) -> ColumnName | None:
    """The column that an expression is; None if it is none."""
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
    """The error for an expression that parses but is no predicate here."""
    if type(node).__name__ in COMPARISONS:
        if all(type(side).__name__ == "Column" for side in (node.this, node.expression)):
            text = node.expression.name
            return PredicateError(
                f"cannot compare two columns, as in {fragment(node)}; if {text!r} is meant as text, "
                f"put it in single quotes"
            )
        return PredicateError(
            f"cannot use {fragment(node)}: a comparison needs one column and one literal; {_SUPPORTED}"
        )
    return PredicateError(f"cannot use {fragment(node)} in a predicate; {_SUPPORTED}")


def fragment(node: Any) -> str:
    """An expression as short SQL text, for a message."""
    try:
        return short(node.sql(dialect=dialect()))
    except Exception:  # noqa: BLE001  only for a message: whatever sqlglot cannot print is named instead
        return type(node).__name__


def syntax_message(text: str, errors: list[dict[str, Any]]) -> str:
    """What to say about text that does not parse, given sqlglot's account of it."""
    if not errors:
        return f"cannot read the predicate {short(text)}; {_SUPPORTED}"
    error = errors[0]
    place = f"{error.get('highlight') or ''}{error.get('end_context') or ''}".strip()
    told = str(error.get("description"))
    if "Unexpected token" in told:
        description = "unexpected text"
    else:
        description = (
            "a parenthesis is not closed" if told.startswith("Expecting )") else "something is missing"
        )
    return f"cannot read the predicate {short(text)}: {description} at {short(place)}; {_SUPPORTED}"


def short(text: str) -> str:
    """Text on one line of at most 80 characters."""
    text = one_line(text)
    return f"{text[:79]}…" if len(text) > 80 else text


def one_line(text: str) -> str:
    """Text on one line."""
    return " ".join(text.split())


def operands(node: Any, kind: str) -> list[Any]:
    """The operands of a AND b AND c …, without recursion: there may be many thousands."""
    found: list[Any] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if type(current).__name__ == kind:
            pending += [current.expression, current.this]
        else:
            found.append(current)
    return found
