"""What is certain of every text that a pattern matches: characters in their order, with gaps between."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

# No character of these has another case, and none outside is another case of one: Hebrew to Myanmar, the East
# Asian scripts, Hangul. The ranges are whole blocks, so the version of Unicode does not matter.
_CASELESS: Final = re.compile("[^A-Za-z\u0080-\U0010ffff]|[\u0590-\u109f\u2e80-\ua4cf\uac00-\ud7af]")

_FOLDED: Final = str.maketrans(
    {upper: upper.lower() for upper in map(chr, range(0x41, 0x5B))} | {"\u017f": "s", "\u212a": "k"}
)


class Mark(enum.Enum):
    """What stands between characters."""

    START = "start"
    """Here the value starts."""
    GAP = "gap"
    """Here may be anything, or something that is not understood."""


class Letter(NamedTuple):
    """One character of the value; where ``folds`` is true, it may stand there in another case."""

    text: str
    folds: bool


Item: TypeAlias = Letter | Mark


def letters(text: str, *, ignore_case: bool) -> list[Item]:
    """The characters of a text.

    Example:
        >>> letters("a1", ignore_case=True)
        [Letter(text='a', folds=True), Letter(text='1', folds=False)]
    """
    return [Letter(char, ignore_case and not _CASELESS.fullmatch(char)) for char in text]


def fold_text(text: str) -> str:
    """A to Z, the Kelvin sign and the long s in lower case; every other character as it is.

    Example:
        >>> fold_text("\u212aÉ")
        'kÉ'
    """
    return text.translate(_FOLDED)


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A value that matches has all letters, in this order; those with nothing between stand side by side.

    Example:
        >>> skeleton = Skeleton((Mark.START, *letters("ab", ignore_case=False), Mark.GAP, Letter("c", False)))
        >>> skeleton.texts, skeleton.prefix
        (('ab', 'c'), 'ab')
    """

    items: tuple[Item, ...]

    @property
    def ignores_case(self) -> bool:
        """Whether some letter may stand there in another case."""
        return any(isinstance(item, Letter) and item.folds for item in self.items)

    @property
    def texts(self) -> tuple[str, ...]:
        """Runs of letters, each once; under :func:`fold_text` where case is ignored.

        A letter outside ASCII that has cases ends a run where case is ignored: which characters are its
        other cases depends on the version of Unicode.
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
        """What every matching value starts with, in exactly this case; may be empty."""
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
        """Whether a value that was *searched* for this matches exactly if it starts with ``prefix``."""
        return not self.items or (self.items[0] is Mark.START and len(self.prefix) == len(self.items) - 1)
