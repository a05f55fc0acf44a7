"""Lists of many literals in SQL text, which are parsed without sqlglot.

sqlglot creates several objects for each literal, which takes 50 µs. So a long list of plain numbers or texts
is cut out of the text, which sqlglot then parses with one marker in its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from intarsia.predicate.literals import parse_number

#: Shorter lists are parsed by sqlglot.
_MIN_LITERALS: Final = 16

#: The name under which the values of a list are kept in the node that sqlglot parsed.
_VALUES: Final = "values of a long list"

# digits are limited because Python refuses to convert thousands of them
_NUMBER: Final = re.compile(r"\s*(-?\d{1,40}(?:\.\d{1,40})?)\s*([,)])")
_TEXT: Final = re.compile(r"\s*'([^']*(?:''[^']*)*)'\s*([,)])")

# quoted text, quoted names and comments come first, so that no list is found inside them
_QUOTED_OR_IN: Final = re.compile(
    r"""'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?(?:\*/|\Z)|(?P<list>\bIN\s*\(\s*)""",
    re.IGNORECASE | re.DOTALL,
)


class CutText(NamedTuple):
    """SQL text without its long lists.

    Attributes:
        text: The text, with a marker in place of the literals of each long list.
        lists: The values of the lists, by marker.
    """

    text: str
    lists: Mapping[str, tuple[object, ...]]


def cut_lists(text: str) -> CutText:
    """Replace the literals of each long list of plain numbers or texts by one marker.

    Args:
        text: SQL text, valid or not.

    Example:
        >>> cut = cut_lists(f"x > 1 AND y IN ({', '.join(map(str, range(100)))})")
        >>> cut.text, [len(values) for values in cut.lists.values()]
        ("x > 1 AND y IN ('list 1, of 100 literals')", [100])
    """
    lists: dict[str, tuple[object, ...]] = {}
    parts: list[str] = []
    kept, position = 0, 0  # where the part that is not yet in `parts` starts, and where to search
    while found := _QUOTED_OR_IN.search(text, position):
        position = found.end()
        literals, stop = _read_list(text, position) if found["list"] else ((), position)
        if len(literals) >= _MIN_LITERALS:
            marker = f"list {len(lists) + 1}, of {len(literals)} literals"
            lists[marker] = literals
            parts += [text[kept : found.start()], f"IN ('{marker}')"]
            kept = position = stop
    return CutText("".join(parts) + text[kept:], lists)


def _read_list(text: str, position: int) -> tuple[tuple[object, ...], int]:
    """Read a list of literals of one kind from behind its opening parenthesis.

    A regular expression for the whole list would take 400 bytes of memory for each literal.

    Returns:
        The values, empty if it is another list, and the position behind the closing parenthesis.
    """
    start, is_text = position, text.startswith("'", position)
    match_literal = (_TEXT if is_text else _NUMBER).match
    written: list[str] = []
    while found := match_literal(text, position):
        written.append(found[1])
        position = found.end()
        if found[2] == ")":
            convert = _text if is_text else parse_number if "." in text[start:position] else int
            return tuple(map(convert, written)), position
    return (), position


def _text(written: str) -> str:
    return written.replace("''", "'")


def attach_lists(tree: Any, lists: Mapping[str, tuple[object, ...]]) -> bool:
    """Attach the values of lists to the nodes that have their markers.

    Args:
        tree: The parsed text of `CutText`.
        lists: Its lists.

    Returns:
        Whether each marker is the only value of exactly one list. If not, the whole text has to be parsed.
    """
    missing = dict(lists)
    for node in tree.walk():
        if type(node).__name__ != "In" or len(node.expressions) != 1:
            continue
        only = node.expressions[0]
        if type(only).__name__ == "Literal" and only.is_string and only.this in lists:
            values = missing.pop(only.this, None)
            if values is None:
                return False
            node.meta[_VALUES] = values
    return not missing


def attached_values(node: Any) -> tuple[object, ...] | None:
    """Return the values of a list that `attach_lists` attached to it."""
    found: tuple[object, ...] | None = node.meta.get(_VALUES)
    return found
