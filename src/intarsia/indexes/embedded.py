"""The embedded indexes of a file: find them in the directory, check, read and open them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from intarsia.errors import IndexPayloadError
from intarsia.file import FileMetadata, ParquetInput
from intarsia.format.arrow_stream import ExpansionBudget
from intarsia.format.blob import BLOB_HEADER_BYTES, check_blob_header, check_payload, unframe
from intarsia.format.directory import Directory, Entry
from intarsia.indexes.base import Index, OpenIndex, checked_opened, defines, prunes
from intarsia.indexes.layout import Layout
from intarsia.indexes.proof import call_or_ignore
from intarsia.indexes.registry import find_index
from intarsia.once import cached_property
from intarsia.predicate.bound import BoundFunction, Condition, Path
from intarsia.storage import ByteRange
from intarsia.tuning import PROBE_BYTES

_KIND = "index"


class Cache(Protocol):
    """A cache in memory, whose values are each valid for one identity."""

    def get(self, kind: str, key: Hashable, identity: Hashable | None) -> Any:
        """Return a value; None if there is none, or if its identity has changed."""
        ...

    def put(self, kind: str, key: Hashable, identity: Hashable | None, value: Any, num_bytes: int) -> None:
        """Store a value in place of the one with the same key."""
        ...


class KeptIndexes:
    """The opened indexes in a cache, each of which is valid only for the metadata of its file.

    The metadata of a file is replaced if the file changes, and then its indexes are opened again.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def get(self, metadata: FileMetadata, name: str) -> OpenIndex | None:
        """Return an index of a file by its name in the directory; None if it is not kept."""
        found: OpenIndex | None = self._cache.get(_KIND, (metadata.path, name), weakref.ref(metadata))
        return found

    def put(self, metadata: FileMetadata, name: str, index: OpenIndex, num_bytes: int) -> None:
        """Keep an index of a file, in place of the one with the same name.

        Args:
            name: The name of the index in the directory.
            index: The index, which is used by several queries, possibly at the same time.
            num_bytes: Its approximate memory.
        """
        self._cache.put(_KIND, (metadata.path, name), weakref.ref(metadata), index, num_bytes)


class EmbeddedIndexes:
    """The embedded indexes of one file.

    Stale, damaged and unknown indexes are ignored, with a note in ``file.ignored`` (contract C2).

    Args:
        budget: The memory budget of the opened indexes. By default they have a separate one.
        kept: The opened indexes of earlier queries, to which those of this one are added; None for none.
    """

    def __init__(
        self, file: ParquetInput, budget: ExpansionBudget | None = None, kept: KeptIndexes | None = None
    ) -> None:
        self.file = file
        self._kept = kept
        self._budget = ExpansionBudget() if budget is None else budget
        self._parts: list[EmbeddedIndexes] = []
        self._indexes: dict[str, Index | None] = {}
        self._opened: dict[str, OpenIndex | None] = {}

    def close(self) -> None:
        """Drop the opened indexes and return their memory to the budget."""
        for part in self._parts:
            part.close()
        self._opened.clear()
        self._budget.release()

    def of_part(self, file: ParquetInput) -> EmbeddedIndexes:
        """Return the embedded indexes of one of the files that are joined; they are closed with these."""
        part = EmbeddedIndexes(file, self._budget.sibling(), self._kept)
        self._parts.append(part)
        return part

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of the directory, the cheapest to read first."""
        directory = self.file.directory
        return () if directory is None else tuple(sorted(directory.entries, key=self.cost_bytes))

    def cost_bytes(self, entry: Entry) -> int:
        """Estimate the number of bytes that an evaluation of the index reads."""
        if entry.inline is not None:
            return 0
        # a smaller one need not be constructed for this
        return PROBE_BYTES if entry.length > PROBE_BYTES and self.is_probed(entry) else entry.length

    def is_probed(self, entry: Entry) -> bool:
        """Return whether the payload of an index is read in parts."""
        return defines(self.index(entry), "open_source")

    def index(self, entry: Entry) -> Index | None:
        """Return the attached index object, or None if its kind or version is unknown."""
        if entry.name not in self._indexes:
            lookup = find_index(entry)
            if lookup.reason is not None:
                self.file.distrust(entry.name, lookup.reason, lookup.code)
            self._indexes[entry.name] = lookup.index
        return self._indexes[entry.name]

    def can_prune(self, entry: Entry, condition: Condition) -> bool:
        """Return whether an index is worth reading for a condition."""
        index = self.index(entry) if condition.path in entry.columns else None
        return index is not None and self._confirms(entry, partial(prunes, index, condition))

    def lists_values(self, condition: Condition) -> bool:
        """Return whether an index has all distinct values, so that dictionary pages cannot exclude more."""
        return any(self.capable(condition.path, lambda index, _: index.lists_values(condition)))

    def estimators(self, condition: Condition, max_bytes: int) -> Iterator[tuple[str, OpenIndex]]:
        """Open the indexes that estimate matching rows: those of the column first, then those of whole rows.

        Args:
            max_bytes: The maximum number of bytes to read for an index.

        Yields:
            The name of an entry, and the opened index.
        """
        for entry in sorted(self.entries, key=lambda entry: not entry.columns):
            index = self.index(entry)
            is_about = not entry.columns or (
                condition.path in entry.columns and not isinstance(condition, BoundFunction)
            )
            if index is None or not is_about or self.cost_bytes(entry) > max_bytes:
                continue
            if self._confirms(entry, partial(index.can_estimate, condition)):
                opened = self.open(entry)
                if opened is not None:
                    yield entry.name, opened

    def capable(self, path: Path, can: Callable[[Index, str], bool]) -> Iterator[tuple[Entry, str]]:
        """Yield the indexes on a column with a capability, each with its name of the column."""
        for entry in self.entries:
            if path in entry.columns and (index := self.index(entry)) is not None:
                column = entry.column_names[entry.columns.index(path)]
                if self._confirms(entry, partial(can, index, column)):
                    yield entry, column

    def _confirms(self, entry: Entry, call: Callable[[], bool]) -> bool:
        return bool(call_or_ignore(self.file, entry.name, call))

    def sampler(self) -> tuple[Entry, int] | None:
        """Return the index with a sample of rows and the size of the sample, or None."""
        num_rows = self.file.footer.num_rows
        for entry in self.entries:
            index = self.index(entry)
            if index is not None:
                num_sampled = call_or_ignore(self.file, entry.name, partial(_num_sampled, index, num_rows))
                if num_sampled is not None:
                    return entry, num_sampled
        return None

    def open_checked(
        self, entry: Entry, check: Callable[[OpenIndex, ParquetInput], OpenIndex]
    ) -> OpenIndex | None:
        """Open an index, or return None if `check_granules` or `check_sample` refuses it."""
        index = self.open(entry)
        if index is None:
            return None
        return call_or_ignore(self.file, entry.name, partial(check, index, self.file))

    def is_open(self, entry: Entry) -> bool:
        """Return whether an index is in memory."""
        return self._opened.get(entry.name) is not None or self._is_kept(self.file.metadata, entry)

    def keeps(self, metadata: FileMetadata, paths: frozenset[Path]) -> bool:
        """Return whether the cache has the indexes of some columns of a joined file."""
        if "directory" not in metadata.__dict__:
            return False
        entries = () if metadata.directory is None else metadata.directory.entries
        return all(self._is_kept(metadata, one) for one in entries if not paths.isdisjoint(one.columns))

    def _is_kept(self, metadata: FileMetadata, entry: Entry) -> bool:
        return self._kept is not None and self._kept.get(metadata, entry.name) is not None

    def read(self, entry: Entry) -> bytes:
        """Read the payload of an entry.

        Raises:
            IndexPayloadError: If the bytes are not those that were written.
        """
        if entry.inline is not None:
            check_payload(entry.inline, entry.xxh3)
            return entry.inline
        directory = self._directory
        blob = self.file.source.read_ranges([blob_range(directory, entry)])[0]
        return unframe(blob, directory.fingerprint, entry.xxh3)

    @property
    def _directory(self) -> Directory:
        directory = self.file.directory
        assert directory is not None  # it had the entry
        return directory

    def open(self, entry: Entry) -> OpenIndex | None:
        """Open an entry, or return None if it is not trusted or its kind is unknown."""
        if entry.name not in self._opened:
            kept = None if self._kept is None else self._kept.get(self.file.metadata, entry.name)
            index = self.index(entry)
            if kept is None and index is not None:
                kept = call_or_ignore(self.file, entry.name, partial(self._open, entry, index))
            self._opened[entry.name] = kept
        return self._opened[entry.name]

    def _open(self, entry: Entry, index: Index) -> OpenIndex:
        layout = Layout(self.file.footer.num_rows, self.file.footer.row_group_starts, {})
        if entry.inline is None and self.is_probed(entry):
            source = _ProbedPayload(self.file, self._directory, entry)
            return checked_opened(index, index.open_source(source, layout))
        payload = self.read(entry)
        try:
            num_bytes = self._budget.take(payload)
        except ValueError as error:
            raise IndexPayloadError(str(error), reason="over-budget") from error
        found = checked_opened(index, index.open(payload, layout))
        if self._kept is not None:
            self._kept.put(self.file.metadata, entry.name, found, num_bytes)
        return found


def _num_sampled(index: Index, num_rows: int) -> int | None:
    found = index.num_sampled(num_rows)
    return None if found is None else max(0, min(int(found), num_rows))


def check_granules(index: OpenIndex, file: ParquetInput) -> OpenIndex:
    """Return an index whose granules are those of a file.

    Raises:
        IndexPayloadError: If they are not.
    """
    edges = index.edges
    if edges[0] != 0 or edges[-1] != file.footer.num_rows or (np.diff(edges) < 0).any():
        raise IndexPayloadError("its granules are not those of the file", reason="other-rows")
    return index


def check_sample(index: OpenIndex, file: ParquetInput) -> OpenIndex:
    """Return an index whose sample is one of rows of a file.

    Raises:
        IndexPayloadError: If it is not.
    """
    ordinals, rows = index.ordinals, index.rows
    is_ascending = len(ordinals) == len(rows) and bool((np.diff(ordinals) > 0).all())
    if not is_ascending or (len(rows) and not 0 <= ordinals[0] <= ordinals[-1] < file.footer.num_rows):
        raise IndexPayloadError("its rows are not those of the file", reason="other-rows")
    here = file.arrow_schema
    if (here.names, here.types) != (rows.schema.names, rows.schema.types):
        raise IndexPayloadError(
            "its columns, or their types, are not those of the file", reason="other-columns"
        )
    return index


def blob_range(directory: Directory, entry: Entry) -> ByteRange:
    """Return the location of a blob.

    Raises:
        IndexPayloadError: If the location is outside the bytes that `attach` added.
    """
    stop = entry.offset + entry.length
    if not directory.original_length <= entry.offset < stop <= directory.region_stop:
        raise IndexPayloadError(
            f"bytes {entry.offset} to {stop} are outside the file's indexes", reason="range-outside-indexes"
        )
    return ByteRange(entry.offset, stop)


class _ProbedPayload:
    """A payload that is read in parts. The first read also reads and checks the preceding header."""

    def __init__(self, file: ParquetInput, directory: Directory, entry: Entry) -> None:
        self._file = file
        self._directory = directory
        self._entry = entry
        self._start = blob_range(directory, entry).start + BLOB_HEADER_BYTES
        self._is_checked = False
        self.num_bytes = entry.payload_bytes

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Read ranges, relative to the payload's first byte."""
        locations = []
        for start, stop in ranges:
            if not 0 <= start <= stop <= self.num_bytes:
                raise IndexPayloadError(
                    f"bytes {start} to {stop} are outside the payload", reason="range-outside-payload"
                )
            locations.append(ByteRange(start + self._start, stop + self._start))
        if self._is_checked:
            return self._file.source.read_ranges(locations)
        header = ByteRange(self._start - BLOB_HEADER_BYTES, self._start)
        head, *found = self._file.source.read_ranges([header, *locations])
        check_blob_header(head, self._directory.fingerprint, self._entry.length, self._entry.xxh3)
        self._is_checked = True
        return found
