"""Parse LIKE patterns into literal text and wildcards."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from intarsia.errors import PredicateError
from intarsia.predicate.nodes import Like, dotted, escaped
from intarsia.predicate.skeleton import Item, Mark, Skeleton, letters

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
        return (
            "".join(str(part) for part in self.parts) if all(isinstance(p, str) for p in self.parts) else None
        )

    @property
    def prefix(self) -> str:
        """The prefix of every match."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    @property
    def is_prefix(self) -> bool:
        """Whether the pattern is a prefix followed by any text. An empty prefix matches every text."""
        return self.parts in ((None,), (self.prefix, None))

    def regex(self, *, ignore_case: bool) -> str:
        """Return a regular expression for an RE2 search, in which a dot also matches newlines."""
        pieces = []
        for part in self.parts:
            if part is None:
                pieces.append(".*")
            else:
                pieces.append(re.escape(part) if isinstance(part, str) else "." * part)
        # a leading or trailing % is dropped rather than anchored, so that RE2 can search for the text
        pieces[:1] = [""] if self.parts[0] is None else [r"\A", pieces[0]]
        pieces[-1:] = [""] if self.parts[-1] is None else [pieces[-1], r"\z"]
        return f"(?{'is' if ignore_case else 's'}){''.join(pieces)}"

    def skeleton(self, *, ignore_case: bool) -> Skeleton:
        """Return the text common to all matches."""
        items: list[Item] = [Mark.START]
        for part in self.parts:
            items += letters(part, ignore_case=ignore_case) if isinstance(part, str) else [Mark.GAP]
        return Skeleton(tuple(items))

    def __str__(self) -> str:
        pieces = []
        for part in self.parts:
            if part is None:
                pieces.append("%")
            else:
                pieces.append(escaped(part) if isinstance(part, str) else "_" * part)
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
            column=dotted(like.column),
        )
    if len(like.pattern) > MAX_PATTERN_CHARACTERS:
        raise PredicateError(
            f"the pattern {like.pattern[:60]!r}… has {len(like.pattern):,} characters, and the limit is "
            f"{MAX_PATTERN_CHARACTERS:,}; compare a text without wildcards by =, and split other patterns "
            "into several conditions joined by AND",
            reason="pattern-too-long",
            column=dotted(like.column),
        )
    escape = "\\" if like.escape is None else like.escape
    if len(escape) > 1:
        raise PredicateError(
            f"ESCAPE {escape!r} in {like} must be one character, or empty for none",
            reason="invalid-escape",
            column=dotted(like.column),
        )
    parts: list[str | int | None] = []
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
                    column=dotted(like.column),
                )
            _append_text(parts, character)
        elif character == "%":
            if not parts or parts[-1] is not None:
                parts.append(None)
        elif character == "_":
            if parts and isinstance(parts[-1], int):
                parts[-1] += 1
            else:
                parts.append(1)
        else:
            _append_text(parts, character)
    return Pattern(tuple(parts))


def _append_text(parts: list[str | int | None], character: str) -> None:
    if parts and isinstance(parts[-1], str):
        parts[-1] += character
    else:
        parts.append(character)
