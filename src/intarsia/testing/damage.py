"""Checks with damaged payloads: an index may raise `IndexPayloadError`, and no other error.

A check raises `ContractError` with a description of the fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from intarsia.errors import IndexPayloadError
from intarsia.indexes.base import Index, PayloadBytes, PayloadSource, defines
from intarsia.storage import ByteRange
from intarsia.testing.checks import (
    ContractError,
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
    for variant in variants(index, values):
        for name, damaged, is_truncated in _damaged(variant.build(case.columns)):
            with damage(f"{variant!r} with its payload {name}", _DAMAGE_RULE):
                opened = variant.open(damaged, case.columns.layout_when_opened)
                if is_truncated:
                    check_opened(opened, variant, case, expected)
                else:
                    for leaf, _ in expected:
                        query(opened, variant, leaf)


def check_probed_damage(index: Index, values: Values) -> None:
    """Check that a probed index detects all damage, or gives correct results despite it.

    A scan reads only parts of the payload, so it cannot verify the checksum of the whole.
    """
    if not defines(index, "open_source"):
        return
    case, expected = _case(index, values)
    for variant in variants(index, values):
        payload = variant.build(case.columns)
        sources: list[tuple[str, PayloadSource]] = [
            (f"{name} and probed", PayloadBytes(damaged)) for name, damaged, _ in _damaged(payload)
        ]
        sources += [(f"lost after {reads} reads", _LostSource(payload, reads)) for reads in range(4)]
        for name, source in sources:
            with damage(f"{variant!r} with its payload {name}", _DAMAGE_RULE):
                opened = variant.open_source(source, case.columns.layout_when_opened)
                check_opened(opened, variant, case, expected)


def _case(index: Index, values: Values) -> tuple[Case, list[Expected]]:
    """Return rows in a layout; and IS NULL, IS NOT NULL, and some of the other conditions."""
    case = next(fixed_cases(rows_of(index, values)))
    leaves = conditions_about(index, case.columns)
    chosen = [*leaves[:2], *some_of(leaves[2:], NUM_PREDICATES)]
    return case, with_matches(chosen, case.columns)


def _damaged(payload: bytes) -> Iterator[tuple[str, bytes, bool]]:
    """Yield descriptions, damaged payloads, and whether they are truncated or else changed."""
    num_bytes = len(payload)
    spread = np.linspace(0, max(0, num_bytes - 1), DAMAGED_OFFSETS).astype(np.int64).tolist()
    near_ends = (*range(8), *range(num_bytes - 8, num_bytes))
    offsets = sorted({offset for offset in (*spread, *near_ends) if 0 <= offset < num_bytes})
    for length in offsets:
        yield f"truncated to {length} of {num_bytes} bytes", payload[:length], True
    for offset, flip, damaged in flipped(payload, offsets):
        yield f"byte {offset} of {num_bytes} changed by {flip:#04x}", damaged, False


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


@contextmanager
def damage(
    about: str, rule: str, allowed: tuple[type[Exception], ...] = (IndexPayloadError, pa.ArrowException)
) -> Iterator[None]:
    """Suppress the errors that damage may cause, and report others as failures of the contract.

    Args:
        about: The index and the damage, for messages.
        rule: The rule that another error breaks, for messages.
        allowed: The errors to suppress. Arrow may refuse damaged values; a scan ignores the index then, too.
    """
    try:
        yield
    except allowed:
        return
    except ContractError as error:
        raise ContractError(f"{about}: {error}", reason=error.reason) from error
    except Exception as error:
        message = f"{about}: {type(error).__name__}: {error}\n  {rule}"
        raise ContractError(message, reason="damage-raises") from error


class _LostSource:
    """A payload that fails after some reads, as if its file had been replaced."""

    def __init__(self, payload: bytes, reads: int) -> None:
        self._payload = PayloadBytes(payload)
        self._reads = reads
        self.num_bytes = len(payload)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        if self._reads == 0:
            raise IndexPayloadError("the payload is gone", reason="payload-gone")
        self._reads -= 1
        return self._payload.read_ranges(ranges)
