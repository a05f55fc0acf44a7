"""Checks with damaged payloads: an index may raise `IndexPayloadError`, and no other error.

A check raises `ContractError` with a description of the fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from intarsia.errors import IndexPayloadError
from intarsia.indexes.base import Index, PayloadBytes, defines
from intarsia.storage import ByteRange
from intarsia.testing.checks import (
    Expected,
    Values,
    check_opened,
    conditions_about,
    query,
    rows_of,
    some_of,
    variants,
    with_matches,
)
from intarsia.testing.contract_error import ContractError, require
from intarsia.testing.memory import Case, fixed_cases

#: The number of predicates per damaged payload.
NUM_PREDICATES = 16

#: The number of offsets at which a payload is damaged, one at a time.
DAMAGED_OFFSETS = 64

_DAMAGE_RULE = "open() and the open index may only raise IndexPayloadError; a scan then ignores the index"


def check_damage(index: Index, values: Values) -> None:
    """Check that a damaged payload raises nothing but IndexPayloadError.

    A scan verifies the checksum of a payload before it opens it. An index may therefore return anything if
    bytes are changed. A truncated payload must be refused or give correct results.
    """
    case, expected = _case(index, values)
    layout = case.columns.layout_when_opened
    for variant in variants(index, values):
        payload = variant.build(case.columns)
        for length in _offsets(len(payload)):
            with _damage(variant, f"truncated to {length} of {len(payload)} bytes"):
                opened = variant.open(payload[:length], layout)
                check_opened(opened, variant, case, expected)
        for name, damaged in _flipped(payload):
            with _damage(variant, name):
                opened = variant.open(damaged, layout)
                for leaf, _ in expected:
                    query(opened, variant, leaf)


def check_probed_damage(index: Index, values: Values) -> None:
    """Check that a probed index detects all damage, or gives correct results despite it.

    A scan reads only parts of the payload, so it cannot verify the checksum of the whole.
    """
    if not defines(index, "open_source"):
        return
    case, expected = _case(index, values)
    layout = case.columns.layout_when_opened
    for variant in variants(index, values):
        payload = variant.build(case.columns)
        truncated = ((f"truncated to {length} bytes", payload[:length]) for length in _offsets(len(payload)))
        for name, damaged in (*truncated, *_flipped(payload)):
            with _damage(variant, f"{name} and probed"):
                opened = variant.open_source(PayloadBytes(damaged), layout)
                check_opened(opened, variant, case, expected)
        for failing in range(4):
            source = _LostSource(payload, failing)
            with _damage(variant, f"lost after {failing} reads"):
                check_opened(variant.open_source(source, layout), variant, case, expected)


def _case(index: Index, values: Values) -> tuple[Case, list[Expected]]:
    """Return rows in a layout; and IS NULL, IS NOT NULL, and some of the other conditions."""
    case = next(fixed_cases(rows_of(index, values)))
    leaves = conditions_about(index, case.columns)
    chosen = [*leaves[:2], *some_of(leaves[2:], NUM_PREDICATES)]
    return case, with_matches(chosen, case.columns)


def _offsets(length: int) -> list[int]:
    """Return offsets that are spread over a payload, and those near its ends."""
    spread = np.linspace(0, max(0, length - 1), DAMAGED_OFFSETS).astype(np.int64).tolist()
    return sorted(
        {offset for offset in (*spread, *range(8), *range(length - 8, length)) if 0 <= offset < length}
    )


def _flipped(payload: bytes) -> Iterator[tuple[str, bytes]]:
    for offset, flip, damaged in flipped(payload, _offsets(len(payload))):
        yield f"byte {offset} of {len(payload)} changed by {flip:#04x}", damaged


def flipped(data: bytes, offsets: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
    """Yield damaged copies of bytes: for each offset, one with a byte flipped, and one with a bit flipped.

    Args:
        data: The bytes.
        offsets: The offsets to damage, one at a time.

    Yields:
        The offset, the flipped bits, and the damaged bytes.
    """
    for offset in offsets:
        for flip in (0xFF, 1 << offset % 8):
            damaged = bytearray(data)
            damaged[offset] ^= flip
            yield offset, flip, bytes(damaged)


class Damage:
    """Suppress the errors that damage may cause, and report others as failures of the contract.

    Args:
        about: The index and the damage, for messages.
        rule: The rule that another error breaks, for messages.
        allowed: The errors to suppress. Arrow may refuse damaged values; a scan ignores the index then, too.
    """

    def __init__(
        self,
        about: str,
        rule: str,
        allowed: tuple[type[Exception], ...] = (IndexPayloadError, pa.ArrowException),
    ) -> None:
        self._about = about
        self._rule = rule
        self._allowed = allowed

    def __enter__(self) -> None:
        pass

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, _: Any) -> bool:
        if isinstance(error, self._allowed):
            return True
        if isinstance(error, ContractError):
            raise ContractError(f"{self._about}: {error}", reason=error.reason) from error
        require(
            not isinstance(error, Exception),
            "damage-raises",
            f"{self._about}: {type(error).__name__}: {error}\n  {self._rule}",
        )
        return False


def _damage(index: Index, damage: str) -> Damage:
    return Damage(f"{index!r} with its payload {damage}", _DAMAGE_RULE)


class _LostSource(PayloadBytes):
    """A payload that fails after some reads, as if its file had been replaced."""

    def __init__(self, payload: bytes, reads: int) -> None:
        super().__init__(payload)
        object.__setattr__(self, "_reads", reads)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        left: int = getattr(self, "_reads")  # noqa: B009
        if left == 0:
            raise IndexPayloadError("the payload is gone", reason="payload-gone")
        object.__setattr__(self, "_reads", left - 1)
        return super().read_ranges(ranges)
