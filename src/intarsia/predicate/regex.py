"""Regular expressions in RE2's syntax -> what is certain of every text in which they are found.

The scanner need not understand everything. What it does not know for sure becomes a gap, or it gives up; then
nothing is certain, and a search reads all rows. It is only asked about expressions that RE2 accepts, so what
RE2 refuses (lookaround, references back, repeated repetition) needs no care here.

Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import PredicateError
from intarsia.predicate.nodes import RegexpLike
from intarsia.predicate.skeleton import Item, Letter, Mark, Skeleton, letters

_REPETITION: Final = re.compile(r"(?:([*?+])|\{(0|[1-9][0-9]*)(?:,(?:0|[1-9][0-9]*)?)?\})\??")
_LOOKS_REPEATED: Final = re.compile(r"[*?+]|\{[0-9, ]")
_GROUP: Final = re.compile(r"\((?:\?(?:P?<[^>]*>|(?P<flags>[a-zA-Z]*(?:-[a-zA-Z]*)?)(?P<end>[:)])))?")
_ONE_CHARACTER: Final = re.compile(r"\[([^][\\^\x80-\U0010ffff])\]")
_HEXADECIMAL: Final = re.compile(r"\\x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_CLASS: Final = re.compile(r"\\[dDsSwWC]|\\[pP](?:\{[^}]*\}|.)")
_CONTROL: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

# What is repeated is written twice into the skeleton, for how it starts and how it ends, if it is no longer.
_MOST_REPEATED_ITEMS: Final = 64
_DEEPEST: Final = 50

#: A longer regular expression is refused.
MAX_REGEX_CHARACTERS: Final = 10_000

_HINTS: Final = {
    "(?=": "RE2 has no lookahead",
    "(?!": "RE2 has no lookahead; negate the whole condition instead, or ask for two",
    "(?<": "RE2 has no lookbehind",
    "(?>": "RE2 has no atomic groups, and needs none",
    "(?x": "RE2 has no flag x",
    "\\Z": "the end of the text is \\z",
    "bad repetition operator": "RE2 has no possessive repetition, and needs none",
    "pattern too large": "it repeats too much, or large classes too often; split it into several conditions",
    "invalid repetition size": "the most is 1000 times",
}


def check_regex(node: RegexpLike) -> None:
    """Has RE2 read a regular expression.

    Raises:
        PredicateError: It is longer than `MAX_REGEX_CHARACTERS`, or RE2 refuses it; says where.
    """
    regex = node.regex
    if len(regex) > MAX_REGEX_CHARACTERS:
        raise PredicateError(
            f"the regular expression {regex[:60]!r}… has {len(regex):,} characters; the most is "
            f"{MAX_REGEX_CHARACTERS:,}. Write alternatives that are plain text as a list, by IN, and split "
            "others into several conditions joined by OR"
        )
    try:
        pc.match_substring_regex(pa.array([""]), regex, ignore_case=node.ignore_case)
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        part = reason.partition(": ")[2]
        where = f" at character {regex.index(part) + 1}" if part != regex and regex.count(part) == 1 else ""
        hint = next((f" ({text})" for sign, text in _HINTS.items() if sign in reason), "")
        if not hint and re.search(r"\\[1-9]$", reason):
            hint = " (RE2 has no references back)"
        raise PredicateError(
            f"the regular expression in {str(node)[:200]} is not valid{where}: {reason[:200]}{hint}"
        ) from None


class _NotUnderstoodError(Exception):
    """Nothing is certain."""


def skeleton_of(regex: str, *, ignore_case: bool = False) -> Skeleton:
    r"""What every value has in which a regular expression is found.

    Args:
        regex: An expression that RE2 accepts.
        ignore_case: Whether the whole is matched without regard to case, as by ``(?i)``.

    Example:
        >>> skeleton_of(r"^GET /api/\w+\.json").texts
        ('GET /api/', '.json')
        >>> skeleton_of("cat|dog").texts
        ()
    """
    scanner = _Scanner(regex)
    try:
        items = scanner.alternatives(frozenset("i") if ignore_case else frozenset(), depth=0)
        if scanner.place < len(regex):
            raise _NotUnderstoodError
    except _NotUnderstoodError:
        items = [Mark.GAP]
    return Skeleton(tuple(items))


class _Scanner:
    def __init__(self, regex: str) -> None:
        self._regex = regex
        self.place = 0

    def alternatives(self, flags: frozenset[str], depth: int) -> list[Item]:
        """Up to the end of the group, or of everything; flags that are set inside end with it."""
        if depth > _DEEPEST:
            raise _NotUnderstoodError
        items: list[Item] = []
        atom: list[Item] = []  # the last one, still to be repeated; the others are in `items`
        several = False
        while self.place < len(self._regex) and self._regex[self.place] != ")":
            if self._regex[self.place] == "|":
                several = True
                self.place += 1
                continue
            if (repetition := _REPETITION.match(self._regex, self.place)) is not None:
                self.place = repetition.end()
                sign, least = repetition.groups()
                atom = _repeated(atom, optional=sign in ("*", "?") or least == "0")
                self._refuse_repetition()
                continue
            items += atom
            atom = []
            group = _GROUP.match(self._regex, self.place)
            if group is None:
                atom = self._atom(flags, items)
                continue
            self.place = group.end()
            if (self._regex.startswith("?", self.place)) and group.end() == group.start() + 1:
                raise _NotUnderstoodError  # a kind of group that is not known
            inner = flags if group["flags"] is None else _with(flags, group["flags"])
            if group["end"] == ")":
                flags = inner
                self._refuse_repetition()
                continue
            atom = self.alternatives(inner, depth + 1)
            if not self._regex.startswith(")", self.place):
                raise _NotUnderstoodError
            self.place += 1
        return [Mark.GAP] if several else items + atom

    def _refuse_repetition(self) -> None:
        """Where it would not be clear what is repeated."""
        if _LOOKS_REPEATED.match(self._regex, self.place):
            raise _NotUnderstoodError

    def _atom(self, flags: frozenset[str], items: list[Item]) -> list[Item]:
        """One character, class or assertion; of quoted text the last character, the rest go to ``items``."""
        character = self._regex[self.place]
        ignore_case = "i" in flags
        if character == "\\":
            return self._escape(ignore_case, items)
        if character == "[":
            return self._class(ignore_case)
        if character == "{":
            self.place += 1
            if re.match("[0-9, ]", self._regex[self.place :]):
                raise _NotUnderstoodError  # no repetition for RE2, it may be one for the next version
            return letters("{", ignore_case=ignore_case)
        self.place += 1
        if character == "^" and "m" not in flags:
            return [Mark.START]
        if character in "^$.":
            return [Mark.GAP]
        return letters(character, ignore_case=ignore_case)

    def _escape(self, ignore_case: bool, items: list[Item]) -> list[Item]:
        start = self.place
        escaped = self._regex[start + 1 : start + 2]
        self.place += 2
        if escaped == "Q":
            end = self._regex.find("\\E", self.place)
            text = self._regex[self.place :] if end < 0 else self._regex[self.place : end]
            self.place = len(self._regex) if end < 0 else end + 2
            if not text:
                self._refuse_repetition()
            quoted = letters(text, ignore_case=ignore_case)
            items += quoted[:-1]
            return quoted[-1:]
        if escaped == "A":
            return [Mark.START]
        if escaped and escaped in "bBz":
            return [Mark.GAP]
        if escaped in _CONTROL:
            return [Letter(_CONTROL[escaped], False)]
        if (code := _HEXADECIMAL.match(self._regex, start)) is not None:
            self.place = code.end()
            point = int(code[1] or code[2], 16)
            if point > 0x10FFFF or 0xD800 <= point < 0xE000:
                raise _NotUnderstoodError
            return letters(chr(point), ignore_case=ignore_case)
        if (named := _CLASS.match(self._regex, start)) is not None:
            self.place = named.end()
            return [Mark.GAP]
        if escaped.isascii() and escaped and not escaped.isalnum():
            return [Letter(escaped, False)]
        raise _NotUnderstoodError

    def _class(self, ignore_case: bool) -> list[Item]:
        if (single := _ONE_CHARACTER.match(self._regex, self.place)) is not None:
            self.place = single.end()
            return letters(single[1], ignore_case=ignore_case)
        self.place += 2 if self._regex.startswith("[^", self.place) else 1
        first = True
        while self.place < len(self._regex):
            character = self._regex[self.place]
            if character == "]" and not first:
                self.place += 1
                return [Mark.GAP]
            first = False
            named = self._regex.find(":]", self.place + 2) if character == "[" else -1
            if named >= 0 and self._regex.startswith("[:", self.place):
                self.place = named + 2
            else:
                self.place += 2 if character == "\\" else 1
        raise _NotUnderstoodError


def _repeated(atom: list[Item], *, optional: bool) -> list[Item]:
    if optional:
        return [Mark.GAP]
    return [*atom, Mark.GAP, *(atom if len(atom) <= _MOST_REPEATED_ITEMS else ())]


def _with(flags: frozenset[str], change: str) -> frozenset[str]:
    """Flags after ``(?im-s)``; U and s change nothing that matters here."""
    if set(change) - set("imsU-"):
        raise _NotUnderstoodError
    added, _, removed = change.partition("-")
    return (flags | set(added)) - set(removed)
