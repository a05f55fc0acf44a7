"""Comparisons of columns with plain literals, joined by AND, which are parsed without sqlglot.

Most lookups are of this form. Loading sqlglot takes a tenth of a second, and parsing with it takes longer
than planning a lookup in a file that is open.
"""

from __future__ import annotations

import re
from typing import Final

from intarsia.predicate.literals import parse_number
from intarsia.predicate.nodes import And, Comparison, Op, Predicate, is_plain_name

_SPACE: Final = r"[ \t\r\n]*"

# digits are limited because Python refuses to convert thousands of them; sqlglot parses escapes
_COMPARISON: Final = re.compile(
    rf"(?P<column>[A-Za-z_][A-Za-z0-9_]*){_SPACE}(?P<op>=|<>|!=|<=|>=|<|>){_SPACE}"
    rf"(?:(?P<number>-?\d{{1,40}}(?:\.\d{{1,40}})?)|'(?P<text>[^'\\]*)')(?=[ \t\r\n]|\Z){_SPACE}",
    re.ASCII,
)
_AND: Final = re.compile(rf"AND(?=[ \t\r\n]){_SPACE}", re.IGNORECASE)
_OPS: Final[dict[str, Op]] = {"!=": "<>", "=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def parse_comparisons(text: str) -> Predicate | None:
    """Parse SQL text that consists of comparisons such as ``x >= 5`` and ``y = 'text'``, joined by AND.

    Args:
        text: SQL text, valid or not.

    Returns:
        The nodes that sqlglot's parser returns; None if the text has another form.

    Example:
        >>> str(parse_comparisons("x >= 5 and y = 'text'"))
        "x >= 5 AND y = 'text'"
        >>> parse_comparisons("x >= 5 or y = 'text'") is None
        True
    """
    parts: list[Comparison] = []
    text = text.strip(" \t\r\n")
    position = 0
    while True:
        found = _COMPARISON.match(text, position)
        if found is None or not is_plain_name(found["column"]):
            return None
        value = found["text"] if found["number"] is None else parse_number(found["number"])
        parts.append(Comparison(found["column"], _OPS[found["op"]], value))
        if found.end() == len(text):
            return parts[0] if len(parts) == 1 else And(tuple(parts))
        joint = _AND.match(text, found.end())
        if joint is None:
            return None
        position = joint.end()
