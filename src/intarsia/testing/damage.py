"""Damaged payloads: an index tells so, or answers; it never raises anything else.

Each check raises AssertionError, saying what to mend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from intarsia.errors import IndexPayloadError
from intarsia.indexes.base import Index, PayloadBytes, ProbedIndex
from intarsia.storage import ByteRange
from intarsia.testing.checks import (
    Expected,
    Values,
    ask,
    check_opened,
    questions_about,
    require,
    rows_of,
    some_of,
    variants,
)
from intarsia.testing.memory import Case, fixed_cases

#: So many predicates are asked of each damaged payload.
ASKED = 16

#: So many places of a payload are damaged, one after the other.
DAMAGED_PLACES = 64

_DAMAGE_RULE = "open() and the open index may raise IndexPayloadError, which a scan takes as 'no index'"


def check_damage(index: Index, values: Values) -> None:
    """A damaged payload gives IndexPayloadError or answers, and no other exception.

    A payload is compared with its checksum before it is opened, so flipped bytes may change what an index
    answers, but one that is cut short has to be refused, or to be as sound as it was.
    """
    for variant, case, payload in _damage_cases(index, values):
        layout = case.columns.layout_when_opened
        asked = _asked(variant, case)
        for length in _places(len(payload)):
            with _Damage(variant, f"cut to {length} of {len(payload)} bytes"):
                opened = variant.open(payload[:length], layout)
                check_opened(opened, variant, case, asked)
        for name, damaged in _flipped(payload):
            with _Damage(variant, name):
                opened = variant.open(damaged, layout)
                for leaf, _ in asked:
                    ask(opened, variant, leaf)


def check_probed_damage(index: Index, values: Values) -> None:
    """An index that is probed is not compared with a checksum: it tells itself that what it read is damaged.

    Whatever is damaged, it gives IndexPayloadError or is as sound as it was.
    """
    if not isinstance(index, ProbedIndex):
        return
    for variant, case, payload in _damage_cases(index, values):
        assert isinstance(variant, ProbedIndex)
        layout = case.columns.layout_when_opened
        asked = _asked(variant, case)
        cut = ((f"cut to {length} bytes", payload[:length]) for length in _places(len(payload)))
        for name, damaged in (*cut, *_flipped(payload)):
            with _Damage(variant, f"{name}, and probed"):
                opened = variant.open_source(PayloadBytes(damaged), layout)
                check_opened(opened, variant, case, asked)
        for failing in range(4):
            source = _LostSource(payload, failing)
            with _Damage(variant, f"lost after {failing} reads"):
                check_opened(variant.open_source(source, layout), variant, case, asked)


def _damage_cases(index: Index, values: Values) -> Iterator[tuple[Index, Case, bytes]]:
    case = next(fixed_cases(rows_of(index, values)))
    for variant in variants(index, values):
        yield variant, case, variant.build(case.columns)


def _asked(index: Index, case: Case) -> list[Expected]:
    """IS NULL, IS NOT NULL, and some of the others."""
    asked = questions_about(index, case.columns)
    return [*asked[:2], *some_of(asked[2:], ASKED)]


def _places(length: int) -> list[int]:
    """Places spread over a payload, and those near its ends."""
    spread = np.linspace(0, max(0, length - 1), DAMAGED_PLACES).astype(np.int64).tolist()
    return sorted(
        {place for place in (*spread, *range(8), *range(length - 8, length)) if 0 <= place < length}
    )


def _flipped(payload: bytes) -> Iterator[tuple[str, bytes]]:
    for place in _places(len(payload)):
        for flip in (0xFF, 1 << place % 8):
            damaged = bytearray(payload)
            damaged[place] ^= flip
            yield f"byte {place} of {len(payload)} changed by {flip:#04x}", bytes(damaged)


class _Damage:
    """What damage may raise passes; other exceptions become a failure that says what to mend."""

    def __init__(self, index: Index, damage: str) -> None:
        self._about = f"{index!r}, its payload {damage}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> bool:
        # values that do not compare any more: a scan takes that as "no index", too
        if isinstance(error, IndexPayloadError | pa.ArrowException):
            return True
        require(
            not isinstance(error, Exception),
            f"{self._about}: {type(error).__name__}: {error}\n  {_DAMAGE_RULE}; nothing else",
        )
        return False


class _LostSource(PayloadBytes):
    """A payload that after some reads is no longer there, as when its file was replaced."""

    def __init__(self, payload: bytes, reads: int) -> None:
        super().__init__(payload)
        object.__setattr__(self, "_reads", reads)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        left: int = getattr(self, "_reads")  # noqa: B009
        if left == 0:
            raise IndexPayloadError("this is no longer the payload")
        object.__setattr__(self, "_reads", left - 1)
        return super().read_ranges(ranges)
