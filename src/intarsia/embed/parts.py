"""Indexes of one large file, built in parts by several processes; one of them attaches all.

A part has the standard structures of some row groups, and payloads. The process that attaches them ignores
the parts of another file, and builds what is missing or cannot be merged. So a part only saves time, and
errors are those of `attach`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import xxhash

from intarsia.embed.original import Original
from intarsia.embed.structures import Outcome
from intarsia.errors import IntarsiaError
from intarsia.file import ChunkKey
from intarsia.indexes.base import Index
from intarsia.indexes.layout import Layout
from intarsia.indexes.merging import MergesParts, PayloadPart
from intarsia.storage import local_path


@dataclass(frozen=True)
class Part:
    """The structures and payloads that one process has built.

    Attributes:
        version: The version of the file.
        start: The first row group.
        stop: The end of the row groups.
        outcomes: The outcomes of the standard structures of each chunk.
        payloads: The payloads of embedded indexes on these row groups, by index name.
    """

    version: str
    start: int
    stop: int
    outcomes: dict[ChunkKey, tuple[Outcome, ...]]
    payloads: dict[str, bytes]


def version_of(original: Original) -> str:
    """Return a string that changes if the file is replaced by one with other rows."""
    current = original.current
    local = local_path(current.path)
    changed: object = current.source.identity if local is None else os.stat(local).st_mtime_ns
    footer = xxhash.xxh3_128_hexdigest(current.footer.raw)
    return f"{footer} {current.footer.file_length} {original.length} {changed}"


class BuiltParts:
    """The parts of one file.

    Args:
        parts: The parts in any order. Parts of other files are ignored. A part may occur twice, because a
            task can run twice.
        original: The file.

    Attributes:
        outcomes: The outcomes of the standard structures of each chunk.
    """

    outcomes: Mapping[ChunkKey, Sequence[Outcome]]

    def __init__(self, parts: Sequence[Part], original: Original) -> None:
        version = version_of(original) if parts else ""
        chosen = {(part.start, part.stop, *part.payloads): part for part in parts if part.version == version}
        self._parts = sorted(chosen.values(), key=lambda part: part.start)
        self._edges = original.file.footer.row_group_starts
        self.outcomes = {key: found for part in self._parts for key, found in part.outcomes.items()}

    def payload(self, index: Index, name: str) -> bytes | None:
        """Return the payload of an index on the whole file; None if it has to be built."""
        parts = [part for part in self._parts if name in part.payloads]
        stops = [0, *(part.stop for part in parts)]
        if not parts or [part.start for part in parts] != stops[:-1] or stops[-1] != len(self._edges) - 1:
            return None
        if len(parts) == 1:
            return parts[0].payloads[name]
        if not isinstance(index, MergesParts):
            return None
        pieces = [PayloadPart(part.payloads[name], self._layout_of(part)) for part in parts]
        try:
            return index.merge(pieces)
        except (IntarsiaError, pa.ArrowException):  # `attach` builds it and raises the error
            return None

    def _layout_of(self, part: Part) -> Layout:
        edges = self._edges[part.start : part.stop + 1]
        return Layout(int(edges[-1] - edges[0]), edges - edges[0], {})
