"""Fetching of planned pages, with as few requests as possible and each byte once."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence

from intarsia.file import ParquetInput
from intarsia.file.chunk_plan import ChunkPlan, DictionaryUse
from intarsia.file.decode import FetchedPages, pages_use_dictionary
from intarsia.storage import ByteRange


class PageCache:
    """The pages of one row group that have been read, so that later phases do not read them again.

    Args:
        file: The file.
        dictionaries: Dictionary pages that were read while planning, by offset.
    """

    def __init__(self, file: ParquetInput, dictionaries: Mapping[int, bytes] | None = None) -> None:
        self._file = file
        self._known_dictionaries = dictionaries or {}
        self._bytes: dict[ByteRange, bytes] = {}
        self._held: list[ByteRange] = []
        self._dictionaries = 0

    def is_new(self, plan: ChunkPlan) -> bool:
        """Return whether some data pages of a plan have not been read."""
        return any(map(self._gaps, plan.pages))

    @property
    def dictionary_count(self) -> int:
        """Number of dictionary pages read so far."""
        return self._dictionaries

    def fetch(self, plans: Sequence[ChunkPlan]) -> list[FetchedPages]:
        """Fetch data pages and the dictionary pages that they need, together with them if possible."""
        at_once = {plan.dictionary for plan in plans if plan.pages and self._is_read_at_once(plan)}
        self._read([location for plan in plans for location in plan.pages], at_once)
        data = {id(plan): self._joined(plan.pages) for plan in plans}
        needed: dict[int, ByteRange | None] = {}
        for plan in plans:
            uses = plan.dictionary in at_once
            if plan.dictionary_use is DictionaryUse.SOME_PAGES:
                uses = pages_use_dictionary(plan, data[id(plan)])
            needed[id(plan)] = plan.dictionary if uses else None
        self._read([], {location for location in needed.values() if location is not None})
        return [
            FetchedPages(
                plan,
                data[id(plan)],
                self._joined([location]) if (location := needed[id(plan)]) is not None else b"",
            )
            for plan in plans
        ]

    def _is_read_at_once(self, plan: ChunkPlan) -> bool:
        """Return whether a dictionary page is read before it is known that the data pages need it."""
        if plan.dictionary is None or plan.dictionary_use is DictionaryUse.NEVER:
            return False
        # writers limit dictionaries to 1 MiB, and in an object store, another request takes about as long
        is_small = plan.dictionary.length <= 2 * self._file.source.coalesce_bytes
        return plan.dictionary_use is DictionaryUse.ALWAYS or is_small

    def _read(self, data: Sequence[ByteRange], dictionaries: set[ByteRange | None]) -> None:
        fresh = self._missing(location for location in dictionaries if location is not None)
        missing = [*fresh, *self._missing(data)]
        if missing:
            # pruning may have read a dictionary page, with which a whole chunk starts
            heads, rest = [b""] * len(missing), missing
            if self._known_dictionaries:
                heads = [self._known_head(location) for location in missing]
                rest = [
                    ByteRange(location.start + len(head), location.stop)
                    for location, head in zip(missing, heads, strict=True)
                ]
            self._dictionaries += sum(location.length > 0 for location in rest[: len(fresh)])
            for location, head, tail in zip(missing, heads, self._file.source.read_ranges(rest), strict=True):
                self._bytes[location] = head + tail if head else tail
            self._held = sorted(self._bytes)

    def _known_head(self, location: ByteRange) -> bytes:
        head = self._known_dictionaries.get(location.start, b"")
        return head if len(head) <= location.length else b""

    def _missing(self, locations: Iterable[ByteRange]) -> list[ByteRange]:
        """Return the parts of some ranges that have not been read."""
        wanted = dict.fromkeys(locations)
        return [gap for location in wanted for gap in self._gaps(location)] if self._held else list(wanted)

    def _gaps(self, location: ByteRange) -> list[ByteRange]:
        """Return the parts of a range that have not been read."""
        gaps, position = [], location.start
        for held in self._overlapping(location):
            if position < held.start:
                gaps.append(ByteRange(position, held.start))
            position = max(position, held.stop)
        if position < location.stop:
            gaps.append(ByteRange(position, location.stop))
        return gaps

    def _overlapping(self, location: ByteRange) -> list[ByteRange]:
        """Return the ranges that were read and overlap a range, in order."""
        first = max(0, bisect.bisect_right(self._held, location.start, key=_start) - 1)
        stop = bisect.bisect_left(self._held, location.stop, key=_start)
        return [held for held in self._held[first:stop] if held.stop > location.start]

    def _joined(self, locations: Sequence[ByteRange]) -> bytes:
        """Return the bytes of some ranges; a single range that was read as such is not copied."""
        whole = self._bytes.get(locations[0]) if len(locations) == 1 else None
        if whole is not None:
            return whole
        return b"".join(part for location in locations for part in self._cut(location))

    def _cut(self, location: ByteRange) -> Iterator[memoryview]:
        """Yield the bytes of a range, which have been read in one range or in several."""
        position = location.start
        for held in self._overlapping(location):
            stop = min(held.stop, location.stop)
            if position < stop:
                yield memoryview(self._bytes[held])[position - held.start : stop - held.start]
                position = stop


def _start(location: ByteRange) -> int:
    return location.start
