"""The queries to advise on: predicates, and files of predicates and SELECT statements."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from intarsia.errors import PredicateError
from intarsia.predicate import Predicate, parse_sql
from intarsia.predicate.sql import is_select, parse_select
from intarsia.records import dataclass

#: A file of queries with more characters is refused.
MAX_CHARACTERS = 4_000_000


@dataclass(frozen=True)
class Query:
    """One query.

    Attributes:
        predicate: The rows to select; None for all.
        columns: The columns that it reads; None for all.
        origin: The file and line of the query, for messages; empty if it was passed as an argument.
        count: The number of times that it occurs.
    """

    predicate: Predicate | None
    columns: tuple[str, ...] | None = None
    origin: str = ""
    count: int = 1

    def __str__(self) -> str:
        return "all rows" if self.predicate is None else str(self.predicate)


def read_queries(path: str | os.PathLike[str]) -> list[Query]:
    """Read a file of queries; see `parse_queries`.

    Raises:
        OSError: If the file cannot be read.
        PredicateError: If it is not UTF-8, is too long, or a query cannot be parsed.
    """
    name = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise PredicateError(
            f"the file is not UTF-8 text: {error.reason}; save it as UTF-8",
            reason="not-utf-8",
            path=name,
        ) from None
    return parse_queries(text, name)


def parse_queries(text: str, name: str = "queries") -> list[Query]:
    r"""Parse queries: predicates, or ``SELECT … FROM … WHERE …`` of one table.

    Queries end with semicolons and may then span lines. Without any semicolon each line is a query. Comments
    are ``-- …`` to the end of the line, and ``/* … */``.

    Args:
        name: The name of the file, for messages.

    Raises:
        PredicateError: If a query cannot be parsed. ``path`` is the name of the file, and ``position`` the
            offset of the wrong word in the file, if it is known, else of the query.

    Example:
        >>> found = parse_queries("user = 42;  -- a lookup\nSELECT sum(amount) FROM t WHERE day > 3;")
        >>> [(str(query), query.columns) for query in found]
        [('user = 42', None), ('day > 3', ('amount',))]
    """
    if len(text) > MAX_CHARACTERS:
        raise PredicateError(
            f"the file has {len(text):,} characters, and the limit is {MAX_CHARACTERS:,}; split it",
            reason="too-many-queries",
            path=name,
        )
    queries: list[Query] = []
    for statement, start in _statements(text):
        line = text.count("\n", 0, start) + 1
        try:
            predicate, columns = (
                parse_select(statement) if is_select(statement) else (parse_sql(statement), None)
            )
        except PredicateError as error:
            position = start + (error.position or 0)
            line = text.count("\n", 0, position) + 1
            raise PredicateError(
                error.message,
                reason=error.reason,
                path=name,
                column=error.column,
                near=error.near,
                position=position,
                line=line,
            ) from None
        queries.append(Query(predicate, columns, f"{name}, line {line}"))
    return queries


#: Quoted texts, comments and semicolons; the last quoted text or comment may not be closed.
_TOKENS = re.compile(r"""'[^']*'?|"[^"]*"?|`[^`]*`?|--[^\n]*|/\*.*?(?:\*/|\Z)|;""", re.DOTALL)


def _statements(text: str) -> Iterator[tuple[str, int]]:
    """Yield the text of each query, in which comments are blank, and its offset in the file."""
    ends: list[int] = []

    def blank(token: re.Match[str]) -> str:
        if token[0] == ";":
            ends.append(token.start())
        return re.sub(r"[^\n]", " ", token[0]) if token[0].startswith(("--", "/*")) else token[0]

    plain = _TOKENS.sub(blank, text)
    if not ends:
        ends += [position for position, character in enumerate(plain) if character == "\n"]
    start = 0
    for end in [*ends, len(plain)]:
        piece = plain[start:end]
        lead = len(piece) - len(piece.lstrip())
        if piece.strip():
            yield piece.strip(), start + lead
        start = end + 1


def merged(queries: Sequence[Query]) -> list[Query]:
    """Merge equal queries, and count them."""
    counts: dict[tuple[str, tuple[str, ...] | None], list[Query]] = {}
    for query in queries:
        counts.setdefault((str(query), query.columns), []).append(query)
    return [Query(same[0].predicate, same[0].columns, same[0].origin, len(same)) for same in counts.values()]
