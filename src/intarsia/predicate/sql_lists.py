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
_NUMBER: Final = r"-?\d{1,40}(?:\.\d{1,40})?"
_TEXT: Final = r"'[^']*(?:''[^']*)*'"


def _list_of(literal: str) -> str:
    return rf"{literal}(?:\s*,\s*{literal}){{{_MIN_LITERALS - 1},}}"


# quoted text, quoted names and comments come first, so that no list is found inside them
_QUOTED_OR_LIST: Final = re.compile(
    r"""'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?(?:\*/|\Z)"""
    rf"|\bIN\s*\(\s*(?:(?P<numbers>{_list_of(_NUMBER)})|(?P<texts>{_list_of(_TEXT)}))\s*\)",
    re.IGNORECASE | re.DOTALL,
)
_NUMBERS: Final = re.compile(_NUMBER)
_TEXTS: Final = re.compile(_TEXT)


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

    def cut(match: re.Match[str]) -> str:
        numbers, texts = match["numbers"], match["texts"]
        if numbers is None and texts is None:
            return match[0]
        values: tuple[object, ...]
        if numbers is not None:
            values = tuple(map(int if "." not in numbers else parse_number, _NUMBERS.findall(numbers)))
        else:
            values = tuple(value[1:-1].replace("''", "'") for value in _TEXTS.findall(texts))
        marker = f"list {len(lists) + 1}, of {len(values)} literals"
        lists[marker] = values
        return f"IN ('{marker}')"

    return CutText(_QUOTED_OR_LIST.sub(cut, text), lists)


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
