"""LIKE patterns: what is literal, what is a wildcard."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from intarsia.errors import PredicateError
from intarsia.predicate.nodes import Like, escaped
from intarsia.predicate.skeleton import Item, Mark, Skeleton, letters

#: A longer pattern is refused.
MAX_PATTERN_CHARACTERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Pattern:
    """A LIKE pattern taken apart.

    Attributes:
        parts: Literal text as strings, wildcards as ``None`` (any text) or a number (so many characters).
    """

    parts: tuple[str | int | None, ...]

    @property
    def literal(self) -> str | None:
        """The one text that matches, if there is no wildcard."""
        return (
            "".join(str(part) for part in self.parts) if all(isinstance(p, str) for p in self.parts) else None
        )

    @property
    def prefix(self) -> str:
        """What every match starts with."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    @property
    def is_prefix(self) -> bool:
        """Whether the pattern says only how a text starts; with an empty prefix it matches every text."""
        return self.parts in ((None,), (self.prefix, None))

    def regex(self, *, ignore_case: bool) -> str:
        """The pattern for RE2, which searches for it; a dot matches newlines too."""
        pieces = []
        for part in self.parts:
            if part is None:
                pieces.append(".*")
            else:
                pieces.append(re.escape(part) if isinstance(part, str) else "." * part)
        # a wildcard at an end is left out instead of anchored: RE2 then looks for the text at once
        pieces[:1] = [""] if self.parts[0] is None else [r"\A", pieces[0]]
        pieces[-1:] = [""] if self.parts[-1] is None else [pieces[-1], r"\z"]
        return f"(?{'is' if ignore_case else 's'}){''.join(pieces)}"

    def skeleton(self, *, ignore_case: bool) -> Skeleton:
        """What every text that matches has."""
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
    r"""Takes the pattern of a LIKE apart, honouring its escape.

    Example:
        >>> from intarsia.predicate import Like
        >>> parse_pattern(Like("name", r"10\%_%%")).parts
        ('10%', 1, None)

    Raises:
        PredicateError: The pattern is longer than `MAX_PATTERN_CHARACTERS`; the escape is longer than a
            character, or escapes something that needs none.
    """
    if len(like.pattern) > MAX_PATTERN_CHARACTERS:
        raise PredicateError(
            f"the pattern {like.pattern[:60]!r}… has {len(like.pattern):,} characters; the most is "
            f"{MAX_PATTERN_CHARACTERS:,}. Compare with a text without wildcards by =, and ask for parts of a "
            "longer one by several conditions joined by AND"
        )
    escape = "\\" if like.escape is None else like.escape
    if len(escape) > 1:
        raise PredicateError(f"ESCAPE {escape!r} in {like} must be one character, or empty for none")
    parts: list[str | int | None] = []
    characters = iter(like.pattern)
    for character in characters:
        if character == escape:
            character = next(characters, "")
            if character not in ("%", "_", escape):
                raise PredicateError(
                    f"in {like} the escape character {escape} stands before {character or 'the end'!r}; "
                    "it may stand before %, _ and itself only. To match it literally, double it, or choose "
                    "another with ESCAPE"
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
