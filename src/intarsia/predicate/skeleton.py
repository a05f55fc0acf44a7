"""The characters that every match of a pattern contains, in order, with gaps between them."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

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
        ignores_case = self.ignores_case
        pieces: list[str | None] = []
        for item in self.items:
            if isinstance(item, Mark):
                pieces.append(None)
            elif ignores_case:
                folded = fold_text(item.text)
                pieces.append(folded if folded.isascii() or not item.folds else None)
            else:
                pieces.append(item.text)
        runs = [""]
        for piece in pieces:
            if piece is None:
                runs.append("")
            else:
                runs[-1] += piece
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
