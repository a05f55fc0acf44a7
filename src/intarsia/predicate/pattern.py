"""LIKE patterns and RE2 regular expressions, and the characters that every match contains, in order.

The scanner of regular expressions does not cover all of the syntax. An unsupported construct becomes a gap,
or the scanner gives up. Then no text is required, and a search reads all rows. The scanner only runs on
expressions that RE2 accepts, so it need not handle lookarounds, backreferences or repeated repetition.

Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import enum
import re
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import PredicateError
from intarsia.predicate.nodes import Like, RegexpLike, dotted, escaped
from intarsia.records import dataclass

# Characters without another case, in any version of Unicode: ASCII other than letters, and the whole blocks
# of Hebrew to Myanmar, the East Asian scripts and Hangul. They are not another case of any character either.
_CASELESS: Final = re.compile("[^A-Za-z\u0080-\U0010ffff]|[\u0590-\u109f\u2e80-\ua4cf\uac00-\ud7af]")

_FOLDED: Final = str.maketrans(
    {upper: upper.lower() for upper in map(chr, range(0x41, 0x5B))} | {"\u017f": "s", "\u212a": "k"}
)


class Mark(enum.Enum):
    """An item of a skeleton other than a character."""

    START = "start"
    """The start of the value."""
    GAP = "gap"
    """Any text, or unknown text."""


class Letter(NamedTuple):
    """One character of the value. If ``folds`` is true, the value may have it in another case."""

    text: str
    folds: bool


Item: TypeAlias = Letter | Mark


def letters(text: str, *, ignore_case: bool) -> list[Item]:
    """Return the characters of a text as items of a skeleton.

    Example:
        >>> letters("a1", ignore_case=True)
        [Letter(text='a', folds=True), Letter(text='1', folds=False)]
    """
    return [Letter(char, ignore_case and not _CASELESS.fullmatch(char)) for char in text]


def fold_text(text: str) -> str:
    """Convert A to Z, the Kelvin sign and the long s to lower case, and no other character.

    Example:
        >>> fold_text("\u212aÉ")
        'kÉ'
    """
    return text.translate(_FOLDED)


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The characters that every matching value contains, in this order. Without a gap they are adjacent.

    Example:
        >>> skeleton = Skeleton((Mark.START, *letters("ab", ignore_case=False), Mark.GAP, Letter("c", False)))
        >>> skeleton.texts, skeleton.prefix
        (('ab', 'c'), 'ab')
    """

    items: tuple[Item, ...]

    @property
    def ignores_case(self) -> bool:
        """Whether any letter may have another case in the value."""
        return any(isinstance(item, Letter) and item.folds for item in self.items)

    @property
    def texts(self) -> tuple[str, ...]:
        """The distinct runs of adjacent characters, folded by :func:`fold_text` if case is ignored.

        If case is ignored, a non-ASCII letter that has cases ends a run, because its other cases depend on
        the version of Unicode.
        """
        ignores_case, runs = self.ignores_case, [""]
        for item in self.items:
            if isinstance(item, Mark) or (item.folds and not fold_text(item.text).isascii()):
                runs.append("")
            else:
                runs[-1] += fold_text(item.text) if ignores_case else item.text
        return tuple(dict.fromkeys(run for run in runs if run))

    @property
    def prefix(self) -> str:
        """The case-sensitive prefix of every matching value. May be empty."""
        if not self.items or self.items[0] is not Mark.START:
            return ""
        text = ""
        for item in self.items[1:]:
            if isinstance(item, Mark) or item.folds:
                break
            text += item.text
        return text

    @property
    def is_prefix(self) -> bool:
        """Whether a *search* for the pattern succeeds if and only if the value starts with ``prefix``."""
        return not self.items or (self.items[0] is Mark.START and len(self.prefix) == len(self.items) - 1)


#: The wildcards of LIKE, as parts of a `Pattern`.
_WILDCARDS: Final[dict[str, int | None]] = {"%": None, "_": 1}

#: The maximum length of a LIKE pattern, in characters.
MAX_PATTERN_CHARACTERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed LIKE pattern.

    Attributes:
        parts: A string is literal text, ``None`` is any text, and a number is this many arbitrary characters.
    """

    parts: tuple[str | int | None, ...]

    @property
    def literal(self) -> str | None:
        """The only text that matches, if the pattern has no wildcard."""
        return "".join(map(str, self.parts)) if all(isinstance(part, str) for part in self.parts) else None

    def regex(self, *, ignore_case: bool) -> str:
        """Return a regular expression for an RE2 search, in which a dot also matches newlines."""
        # a leading or trailing % is dropped rather than anchored, so that RE2 can search for the text
        start = "" if self.parts[:1] == (None,) else r"\A"
        stop = "" if self.parts[-1:] == (None,) else r"\z"
        inner = self.parts[not start : len(self.parts) - (not stop)]
        pieces = (
            re.escape(part) if isinstance(part, str) else "." * part if part else ".*" for part in inner
        )
        return f"(?{'is' if ignore_case else 's'}){start}{''.join(pieces)}{stop}"

    def __str__(self) -> str:
        pieces = (
            escaped(part) if isinstance(part, str) else "_" * part if part else "%" for part in self.parts
        )
        return "".join(pieces)


def parse_pattern(like: Like) -> Pattern:
    r"""Parse the pattern of a LIKE with its escape character.

    Example:
        >>> from intarsia.predicate import Like
        >>> parse_pattern(Like("name", r"10\%_%%")).parts
        ('10%', 1, None)

    Raises:
        PredicateError: If the pattern is not a string, or longer than `MAX_PATTERN_CHARACTERS`; or the escape
            is longer than one character, or it precedes a character that needs no escape.
    """
    if not isinstance(like.pattern, str):
        raise PredicateError(
            f"LIKE needs a pattern of type str for {dotted(like.column)!r}, not {like.pattern!r}",
            reason="not-a-pattern",
        )
    if len(like.pattern) > MAX_PATTERN_CHARACTERS:
        raise PredicateError(
            f"the pattern {like.pattern[:60]!r}… has {len(like.pattern):,} characters, and the limit is "
            f"{MAX_PATTERN_CHARACTERS:,}; compare a text without wildcards by =, and split other patterns "
            "into several conditions joined by AND",
            reason="pattern-too-long",
        )
    escape = "\\" if like.escape is None else like.escape
    if len(escape) > 1:
        raise PredicateError(
            f"ESCAPE {escape!r} in {like} must be one character, or empty for none", reason="invalid-escape"
        )
    found: list[str | int | None] = []
    characters = iter(like.pattern)
    for character in characters:
        if character == escape:
            character = next(characters, "")
            if character not in ("%", "_", escape):
                next_shown = repr(character) if character else "the end of the pattern"
                raise PredicateError(
                    f"in {like}, the escape character {escape} precedes {next_shown}, but it may "
                    "only precede %, _ and itself; double it to match it literally, or choose another "
                    "with ESCAPE",
                    reason="invalid-escape",
                )
            found.append(character)
        else:
            found.append(_WILDCARDS.get(character, character))
    return Pattern(tuple(_joined(kind, [*parts]) for kind, parts in groupby(found, type)))


def _joined(kind: type, parts: list[Any]) -> str | int | None:
    """Return adjacent parts of one kind as one."""
    return "".join(parts) if kind is str else sum(parts) if kind is int else None


_REPETITION: Final = re.compile(r"(?:([*?+])|\{(0|[1-9][0-9]*)(?:,(?:0|[1-9][0-9]*)?)?\})\??")
_LOOKS_REPEATED: Final = re.compile(r"[*?+]|\{[0-9, ]")
_GROUP: Final = re.compile(r"\((?:\?(?:P?<[^>]*>|(?P<flags>[a-zA-Z]*(?:-[a-zA-Z]*)?)(?P<end>[:)])))?")
_ONE_CHARACTER: Final = re.compile(r"\[([^][\\^\x80-\U0010ffff])\]")
# the first character may be a closing bracket
_BRACKETS: Final = re.compile(r"\[\^?\]?(?:\[:.*?:\]|\\.|[^\]\\])*\]", re.DOTALL)
_HEXADECIMAL: Final = re.compile(r"\\x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_CLASS: Final = re.compile(r"\\[dDsSwWC]|\\[pP](?:\{[^}]*\}|.)")
_CONTROL: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

# Up to this many repeated items are written twice into the skeleton: for the first repetition and the last.
_MAX_REPEATED_ITEMS: Final = 64
_MAX_DEPTH: Final = 50

#: The maximum length of a regular expression, in characters.
MAX_REGEX_CHARACTERS: Final = 10_000

_HINTS: Final = {
    "(?=": "RE2 has no lookahead",
    "(?!": "RE2 has no lookahead; negate the whole condition, or write two conditions",
    "(?<": "RE2 has no lookbehind",
    "(?>": "RE2 has no atomic groups and does not need them",
    "(?x": "RE2 has no flag x",
    "\\Z": "the end of the text is \\z",
    "bad repetition operator": "RE2 has no possessive repetition and does not need it",
    "pattern too large": "it repeats too much, or repeats large classes; split it into several conditions",
    "invalid repetition size": "the limit is 1000 repetitions",
}


def check_regex(node: RegexpLike) -> None:
    """Check a regular expression with RE2.

    Raises:
        PredicateError: If the expression is longer than `MAX_REGEX_CHARACTERS`, or RE2 rejects it. The
            message names the character.
    """
    regex = node.regex
    if len(regex) > MAX_REGEX_CHARACTERS:
        raise PredicateError(
            f"the regular expression {regex[:60]!r}… has {len(regex):,} characters, and the limit is "
            f"{MAX_REGEX_CHARACTERS:,}; write alternatives of plain text as an IN list, and split others "
            "into several conditions joined by OR",
            reason="regex-too-long",
        )
    try:
        pc.match_substring_regex(pa.array([""]), regex, ignore_case=node.ignore_case)
    except pa.ArrowInvalid as error:
        detail = str(error).removeprefix("Invalid regular expression: ")
        part = detail.partition(": ")[2]
        where = f" at character {regex.index(part) + 1}" if part != regex and regex.count(part) == 1 else ""
        hint = next((f" ({text})" for sign, text in _HINTS.items() if sign in detail), "")
        if not hint and re.search(r"\\[1-9]$", detail):
            hint = " (RE2 has no backreferences)"
        raise PredicateError(
            f"the regular expression in {str(node)[:200]} is not valid{where}: {detail[:200]}{hint}",
            reason="invalid-regex",
        ) from None


class _UnknownSyntaxError(Exception):
    """The scanner does not support the syntax, so no text is required."""


def skeleton_of(regex: str, *, ignore_case: bool = False) -> Skeleton:
    r"""Return the text that every match of a regular expression contains.

    Args:
        regex: An expression that RE2 accepts.
        ignore_case: Whether the whole expression ignores case, as with ``(?i)``.

    Example:
        >>> skeleton_of(r"^GET /api/\w+\.json").texts
        ('GET /api/', '.json')
        >>> skeleton_of("cat|dog").texts
        ()
    """
    scanner = _Scanner(regex)
    try:
        items = scanner.alternatives(frozenset("i") if ignore_case else frozenset(), depth=0)
        if scanner.position < len(regex):
            raise _UnknownSyntaxError
    except _UnknownSyntaxError:
        items = [Mark.GAP]
    return Skeleton(tuple(items))


class _Scanner:
    def __init__(self, regex: str) -> None:
        self._regex = regex
        self.position = 0

    def alternatives(self, flags: frozenset[str], depth: int) -> list[Item]:
        """Scan to the end of the group or of the expression. Flags set inside apply up to that end."""
        if depth > _MAX_DEPTH:
            raise _UnknownSyntaxError
        items: list[Item] = []
        atom: list[Item] = []  # the last atom, which may still be repeated; earlier ones are in `items`
        several = False
        while self.position < len(self._regex) and self._regex[self.position] != ")":
            if self._regex[self.position] == "|":
                several = True
                self.position += 1
                continue
            if (repetition := _REPETITION.match(self._regex, self.position)) is not None:
                self.position = repetition.end()
                sign, least = repetition.groups()
                is_optional = sign in ("*", "?") or least == "0"
                again = atom if len(atom) <= _MAX_REPEATED_ITEMS else []
                atom = [Mark.GAP] if is_optional else [*atom, Mark.GAP, *again]
                self._refuse_repetition()
                continue
            items += atom
            atom = []
            group = _GROUP.match(self._regex, self.position)
            if group is None:
                atom = self._atom(flags, items)
                continue
            self.position = group.end()
            if (self._regex.startswith("?", self.position)) and group.end() == group.start() + 1:
                raise _UnknownSyntaxError  # an unknown group type
            inner = flags if group["flags"] is None else _with(flags, group["flags"])
            if group["end"] == ")":
                flags = inner
                self._refuse_repetition()
                continue
            atom = self.alternatives(inner, depth + 1)
            if not self._regex.startswith(")", self.position):
                raise _UnknownSyntaxError
            self.position += 1
        return [Mark.GAP] if several else items + atom

    def _refuse_repetition(self) -> None:
        """Give up if the next character may be a repetition of something other than an atom."""
        if _LOOKS_REPEATED.match(self._regex, self.position):
            raise _UnknownSyntaxError

    def _atom(self, flags: frozenset[str], items: list[Item]) -> list[Item]:
        """Scan a character, class or assertion. Quoted text goes to ``items``, except its last character."""
        character = self._regex[self.position]
        ignore_case = "i" in flags
        if character == "\\":
            return self._escape(ignore_case, items)
        if character == "[":
            return self._class(ignore_case)
        if character == "{":
            self.position += 1
            if re.match("[0-9, ]", self._regex[self.position :]):
                raise _UnknownSyntaxError  # RE2 reads it literally; a later version may read a repetition
            return letters("{", ignore_case=ignore_case)
        self.position += 1
        if character == "^" and "m" not in flags:
            return [Mark.START]
        if character in "^$.":
            return [Mark.GAP]
        return letters(character, ignore_case=ignore_case)

    def _escape(self, ignore_case: bool, items: list[Item]) -> list[Item]:
        start = self.position
        escaped = self._regex[start + 1 : start + 2]
        self.position += 2
        if escaped == "Q":
            end = self._regex.find("\\E", self.position)
            text = self._regex[self.position :] if end < 0 else self._regex[self.position : end]
            self.position = len(self._regex) if end < 0 else end + 2
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
            self.position = code.end()
            point = int(code[1] or code[2], 16)
            if point > 0x10FFFF or 0xD800 <= point < 0xE000:
                raise _UnknownSyntaxError
            return letters(chr(point), ignore_case=ignore_case)
        if (named := _CLASS.match(self._regex, start)) is not None:
            self.position = named.end()
            return [Mark.GAP]
        if escaped.isascii() and escaped and not escaped.isalnum():
            return [Letter(escaped, False)]
        raise _UnknownSyntaxError

    def _class(self, ignore_case: bool) -> list[Item]:
        if (single := _ONE_CHARACTER.match(self._regex, self.position)) is not None:
            self.position = single.end()
            return letters(single[1], ignore_case=ignore_case)
        whole = _BRACKETS.match(self._regex, self.position)
        if whole is None:
            raise _UnknownSyntaxError
        self.position = whole.end()
        return [Mark.GAP]


def _with(flags: frozenset[str], change: str) -> frozenset[str]:
    """Apply a change such as ``(?im-s)`` to the flags. U and s do not affect the skeleton."""
    if set(change) - set("imsU-"):
        raise _UnknownSyntaxError
    added, _, removed = change.partition("-")
    return (flags | set(added)) - set(removed)
