"""The indexes inlaid in a file: found in its directory, checked, read and opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import pyarrow as pa

from intarsia.errors import FormatError, IndexPayloadError, IntarsiaError
from intarsia.file import ParquetInput
from intarsia.format.blob import BLOB_HEADER_BYTES, check_blob_header, check_payload, unframe
from intarsia.format.directory import Directory, Entry
from intarsia.indexes.base import (
    EstimatesRows,
    EstimatingIndex,
    Layout,
    OpenIndex,
    PicksPredicates,
    ProbedIndex,
)
from intarsia.indexes.registry import find_index_class, why_unknown
from intarsia.predicate.bound import Condition
from intarsia.storage import ByteRange

_Answer = TypeVar("_Answer")

#: About what it costs to probe an index that is not read whole.
PROBE_BYTES = 8 * 1024


class EmbeddedIndexes:
    """The embedded indexes of one file.

    What is stale, damaged or unknown is noted in ``file.ignored`` and is then absent (contract C2).

    Args:
        file: The file.
    """

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self._indexes: dict[str, Any] = {}
        self._opened: dict[str, OpenIndex | None] = {}

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of the directory, those that cost least to read first."""
        directory = self._file.directory
        return () if directory is None else tuple(sorted(directory.entries, key=self.cost_bytes))

    def cost_bytes(self, entry: Entry) -> int:
        """About how many bytes have to be read to ask an index."""
        if entry.inline is not None:
            return 0
        return min(entry.length, PROBE_BYTES) if isinstance(self.index(entry), ProbedIndex) else entry.length

    def index(self, entry: Entry) -> Any:
        """The object that was attached; None if its kind is unknown here, or newer than what is known."""
        if entry.name not in self._indexes:
            found = find_index(entry)
            if found.reason is not None:
                self._file.distrust(entry.name, found.reason)
            self._indexes[entry.name] = found.index
        return self._indexes[entry.name]

    def can_prune(self, entry: Entry, predicate: Condition) -> bool:
        """Whether it is worth reading an index for a predicate."""
        if predicate.path not in entry.columns:
            return False
        index = self.index(entry)
        if not isinstance(index, PicksPredicates):
            return index is not None
        return bool(answer_of(self._file, entry.name, partial(index.can_prune, predicate)))

    def estimators(self, predicate: Condition, most_bytes: int) -> Iterator[tuple[str, EstimatingIndex]]:
        """Indexes that estimate how many rows match: those about its column, then those about none.

        Args:
            predicate: What is asked for.
            most_bytes: An index that takes more than so many bytes to read is left out.

        Yields:
            The name of an entry, and the opened index.
        """
        for entry in sorted(self.entries, key=lambda entry: not entry.columns):
            index = self.index(entry)
            is_about = not entry.columns or predicate.path in entry.columns
            if not is_about or not isinstance(index, EstimatesRows) or self.cost_bytes(entry) > most_bytes:
                continue
            if answer_of(self._file, entry.name, partial(index.can_estimate, predicate)):
                opened = self.open(entry)
                if isinstance(opened, EstimatingIndex):
                    yield entry.name, opened

    def read(self, entry: Entry) -> bytes:
        """The payload of an entry.

        Raises:
            IndexPayloadError: If its bytes are not those that were written.
        """
        if entry.inline is not None:
            check_payload(entry.inline, entry.xxh3)
            return entry.inline
        directory = self._directory
        blob = self._file.source.read_ranges([blob_range(directory, entry)])[0]
        return unframe(blob, directory.fingerprint, entry.xxh3)

    @property
    def _directory(self) -> Directory:
        directory = self._file.directory
        assert directory is not None  # it had the entry
        return directory

    def open(self, entry: Entry) -> OpenIndex | None:
        """An entry as an index that can be asked; None if it cannot be believed or is of an unknown kind."""
        if entry.name not in self._opened:
            self._opened[entry.name] = self._open(entry)
        return self._opened[entry.name]

    def _open(self, entry: Entry) -> OpenIndex | None:
        index = self.index(entry)
        if index is None:
            return None
        footer = self._file.footer
        layout = Layout(footer.num_rows, footer.row_group_starts, {})

        def opened() -> OpenIndex:
            if isinstance(index, ProbedIndex) and entry.inline is None:
                return index.open_source(_ProbedPayload(self._file, self._directory, entry), layout)
            found: OpenIndex = index.open(self.read(entry), layout)
            return found

        return answer_of(self._file, entry.name, opened)


def answer_of(file: ParquetInput, name: str, ask: Callable[[], _Answer]) -> _Answer | None:
    """What an index answers; None if it fails, which is noted: it is not believed then (contract C2).

    Args:
        file: The file.
        name: The name of the index.
        ask: Asks it.
    """
    try:
        return ask_index(ask)
    except IndexPayloadError as error:
        file.distrust(name, str(error))
        return None


def ask_index(ask: Callable[[], _Answer]) -> _Answer:
    """What an index answers.

    Args:
        ask: Asks it.

    Raises:
        IndexPayloadError: If it fails: its class may be anybody's, and its payload anything.
        FormatError: As it is, of the file, and so is OSError.
    """
    try:
        return ask()
    except (IndexPayloadError, FormatError, OSError):
        raise
    except (IntarsiaError, pa.ArrowException) as error:  # such as values that do not compare
        raise IndexPayloadError(str(error)) from error
    except Exception as error:
        raise IndexPayloadError(f"it fails when it is asked: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class FoundIndex:
    """The object that was attached, or what keeps it from being made.

    Attributes:
        index: The object, of the class of the entry's kind and with its parameters; None if it cannot be.
        fault: Why there is none: nobody knows its kind, a later version wrote it, or its parameters are none.
        reason: The same in words.
    """

    index: Any
    fault: Literal["kind-unknown", "newer", "damaged"] | None = None
    reason: str | None = None


def find_index(entry: Entry) -> FoundIndex:
    """The object that was attached, out of its entry."""
    cls = find_index_class(entry.kind)
    if cls is None:
        return FoundIndex(None, "kind-unknown", why_unknown(entry.kind))
    if entry.kind_version > cls.version:
        return FoundIndex(None, "newer", f"it has version {entry.kind_version}, known is {cls.version}")
    try:
        index = cls(**entry.parameters)
        names = tuple(index.columns)
        granularity = getattr(index, "granularity", entry.granularity)
    except Exception as error:  # noqa: BLE001 - the class may be anybody's
        return FoundIndex(None, "damaged", f"its parameters are not those of its kind: {error}")
    if names != entry.column_names or granularity != entry.granularity:
        reason = "its parameters are about other columns or granules than the directory says"
        return FoundIndex(None, "damaged", reason)
    return FoundIndex(index)


def blob_range(directory: Directory, entry: Entry) -> ByteRange:
    """Where a blob lies.

    Raises:
        IndexPayloadError: If that is not among the bytes that were added.
    """
    stop = entry.offset + entry.length
    if not directory.original_length <= entry.offset < stop <= directory.region_stop:
        raise IndexPayloadError(f"bytes {entry.offset} to {stop} lie outside the file's indexes")
    return ByteRange(entry.offset, stop)


class _ProbedPayload:
    """A payload in its file; the header before it is checked along with the first ranges that are read."""

    def __init__(self, file: ParquetInput, directory: Directory, entry: Entry) -> None:
        self._file = file
        self._directory = directory
        self._entry = entry
        self._start = blob_range(directory, entry).start + BLOB_HEADER_BYTES
        self._is_checked = False
        self.num_bytes = entry.payload_bytes

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, counted from the payload's first byte."""
        places = [self._in_file(place) for place in ranges]
        if self._is_checked:
            return self._file.source.read_ranges(places)
        header = ByteRange(self._start - BLOB_HEADER_BYTES, self._start)
        head, *found = self._file.source.read_ranges([header, *places])
        check_blob_header(head, self._directory.fingerprint, self._entry.length, self._entry.xxh3)
        self._is_checked = True
        return found

    def _in_file(self, place: ByteRange) -> ByteRange:
        if not 0 <= place.start <= place.stop <= self.num_bytes:
            raise IndexPayloadError(f"bytes {place.start} to {place.stop} lie outside the payload")
        return ByteRange(place.start + self._start, place.stop + self._start)
