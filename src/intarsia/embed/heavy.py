"""Notes on indexes that are larger than a tenth of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from intarsia.embed.report import Note
from intarsia.indexes.base import HasPurpose
from intarsia.predicate.nodes import dotted

if TYPE_CHECKING:
    from intarsia.embed.attach import Attachable

#: An index that takes a larger part of the original file gets a note.
HEAVY_SHARE = 0.1

#: In smaller files, in bytes, no index gets a note: every payload is large relative to them.
MIN_FILE_BYTES = 1_000_000


def heavy_notes(
    indexes: Mapping[str, Attachable], weights: Mapping[str, int], original_bytes: int
) -> Iterator[Note]:
    """Yield a note for each index that is larger than a tenth of the file.

    Args:
        indexes: The indexes that were built, by name.
        weights: Their size in bytes, by name.
        original_bytes: Length of the original file.
    """
    if original_bytes < MIN_FILE_BYTES:
        return
    for name, num_bytes in weights.items():
        share = num_bytes / original_bytes
        if share > HEAVY_SHARE:
            index = indexes[name]
            purpose = f"; it is used to {index.purpose}" if isinstance(index, HasPurpose) else ""
            reason = f"it is larger than a tenth of the file{purpose}"
            columns = ", ".join(map(dotted, index.columns)) or None
            yield Note(columns, None, name, reason, "heavy", share)
