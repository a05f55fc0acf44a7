"""The embedded indexes of a file: find them in the directory, check, read and open them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa

from intarsia.errors import IndexPayloadError
from intarsia.file import FileMetadata, ParquetInput
from intarsia.file.schema import INDEX_KEYS
from intarsia.format.arrow_stream import ExpansionBudget
from intarsia.format.blob import BLOB_HEADER_BYTES, DATAFUSION_KEY, check_blob_header, check_payload, unframe
from intarsia.format.directory import Directory, Entry
from intarsia.indexes.base import (
    EstimatesRows,
    EstimatingIndex,
    OpenIndex,
    PicksPredicates,
    ProvesWithinBounds,
    prunes_function,
)
from intarsia.indexes.calling import call_or_ignore, evaluate_conditions
from intarsia.indexes.capabilities import (
    EnumeratesValues,
    EnumeratingIndex,
    ListsValues,
    Samples,
    SamplingIndex,
    Sketches,
    SketchingIndex,
    Summarizes,
)
from intarsia.indexes.kept_indexes import KeptIndexes
from intarsia.indexes.layout import Layout
from intarsia.indexes.probing import ProbedIndex
from intarsia.indexes.proof import ProofCost, Savings, Verdict, Wanted
from intarsia.indexes.registry import find_index_class, why_unknown
from intarsia.indexes.statistics import RowGroupStatistics
from intarsia.indexes.value_hash import num_lookup_values
from intarsia.predicate.bound import BoundFunction, Condition, Path
from intarsia.rows.bounds import Bools
from intarsia.storage import ByteRange

#: The approximate cost of a lookup in a `ProbedIndex`, and of each further value.
PROBE_BYTES = 8 * 1024
PROBED_VALUE_BYTES = 1024

#: Testing this many integers takes less time than decoding a row group, which it may save.
TRIED_VALUES_PER_ROW_GROUP = 1 << 15
MAX_TRIED_VALUES = 1 << 20

_HasGranules = TypeVar("_HasGranules", SketchingIndex, EnumeratingIndex)


class EmbeddedIndexes:
    """The embedded indexes of one file.

    Stale, damaged and unknown indexes are ignored, with a note in ``file.ignored`` (contract C2).

    Args:
        file: The file.
        budget: The memory budget of the opened indexes. By default they have a separate one.
        kept: The opened indexes of earlier queries, to which those of this one are added; None for none.
    """

    def __init__(
        self, file: ParquetInput, budget: ExpansionBudget | None = None, kept: KeptIndexes | None = None
    ) -> None:
        self._file = file
        self._kept = kept
        self._budget = ExpansionBudget() if budget is None else budget
        self._parts: list[EmbeddedIndexes] = []
        self._indexes: dict[str, Any] = {}
        self._opened: dict[str, OpenIndex | None] = {}

    def close(self) -> None:
        """Drop the opened indexes and return their memory to the budget."""
        for part in self._parts:
            part.close()
        self._opened.clear()
        self._budget.release()

    @property
    def file(self) -> ParquetInput:
        """The file."""
        return self._file

    def of_part(self, file: ParquetInput) -> EmbeddedIndexes:
        """Return the embedded indexes of one of the files that are joined; they are closed with these."""
        part = EmbeddedIndexes(file, self._budget.sibling(), self._kept)
        self._parts.append(part)
        return part

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of the directory, the cheapest to read first."""
        directory = self._file.directory
        return () if directory is None else tuple(sorted(directory.entries, key=self.cost_bytes))

    def cost_bytes(self, entry: Entry) -> int:
        """Estimate the number of bytes that an evaluation of the index reads."""
        if entry.inline is not None:
            return 0
        return min(entry.length, PROBE_BYTES) if isinstance(self.index(entry), ProbedIndex) else entry.length

    def index(self, entry: Entry) -> Any:
        """Return the attached index object, or None if its kind or version is unknown."""
        if entry.name not in self._indexes:
            lookup = find_index(entry)
            if lookup.reason is not None:
                self._file.distrust(entry.name, lookup.reason, lookup.code)
            self._indexes[entry.name] = lookup.index
        return self._indexes[entry.name]

    def can_prune(self, entry: Entry, predicate: Condition) -> bool:
        """Return whether an index is worth reading for a condition."""
        if predicate.path not in entry.columns:
            return False
        index = self.index(entry)
        if isinstance(predicate, BoundFunction):
            return self._confirms(entry, partial(prunes_function, index, predicate))
        if not isinstance(index, PicksPredicates):
            return index is not None
        return bool(call_or_ignore(self._file, entry.name, partial(index.can_prune, predicate)))

    def lists_values(self, predicate: Condition) -> bool:
        """Return whether an index has all distinct values, so that dictionary pages cannot exclude more."""
        return any(
            isinstance(index, ListsValues) and self._confirms(entry, partial(index.lists_values, predicate))
            for entry, index, _ in self._about(predicate.path)
        )

    def estimators(self, predicate: Condition, max_bytes: int) -> Iterator[tuple[str, EstimatingIndex]]:
        """Open the indexes that estimate matching rows: those of the column first, then those of whole rows.

        Args:
            predicate: The condition.
            max_bytes: The maximum number of bytes to read for an index.

        Yields:
            The name of an entry, and the opened index.
        """
        for entry in sorted(self.entries, key=lambda entry: not entry.columns):
            index = self.index(entry)
            is_about = not entry.columns or (
                predicate.path in entry.columns and not isinstance(predicate, BoundFunction)
            )
            if not is_about or not isinstance(index, EstimatesRows) or self.cost_bytes(entry) > max_bytes:
                continue
            if call_or_ignore(self._file, entry.name, partial(index.can_estimate, predicate)):
                opened = self.open(entry)
                if isinstance(opened, EstimatingIndex):
                    yield entry.name, opened

    def summarizers(self, path: Path) -> Iterator[tuple[Entry, str]]:
        """Yield the indexes with summaries of a column, each with its name of the column."""
        for entry, index, column in self._about(path):
            if isinstance(index, Summarizes) and self._confirms(entry, partial(index.can_summarize, column)):
                yield entry, column

    def enumerators(self, path: Path) -> Iterator[Entry]:
        """Yield the indexes with all distinct values of granules of a column."""
        for entry, index, column in self._about(path):
            if isinstance(index, EnumeratesValues) and self._confirms(
                entry, partial(index.can_enumerate, column)
            ):
                yield entry

    def sketchers(self, path: Path) -> Iterator[Entry]:
        """Yield the indexes with sketches of a column's distinct values."""
        for entry, index, column in self._about(path):
            if isinstance(index, Sketches) and self._confirms(entry, partial(index.can_sketch, column)):
                yield entry

    def sampler(self) -> tuple[Entry, int] | None:
        """Return the index with a sample of rows and the size of the sample, or None."""
        for entry in self.entries:
            index = self.index(entry)
            if isinstance(index, Samples):
                kept = call_or_ignore(self._file, entry.name, partial(_num_sampled, index, self._file))
                if kept is not None:
                    return entry, kept
        return None

    def open_sketches(self, entry: Entry) -> SketchingIndex | None:
        """Open one of `sketchers`, or return None if its sketches are not of this file."""
        index = self.open(entry)
        if not isinstance(index, SketchingIndex):
            return None
        return call_or_ignore(self._file, entry.name, partial(_checked_granules, index, self._file))

    def open_enumeration(self, entry: Entry) -> EnumeratingIndex | None:
        """Open one of `enumerators`, or return None if its values are not of this file."""
        index = self.open(entry)
        if not isinstance(index, EnumeratingIndex):
            return None
        return call_or_ignore(self._file, entry.name, partial(_checked_granules, index, self._file))

    def open_sample(self, entry: Entry) -> SamplingIndex | None:
        """Open the `sampler`, or return None if its sample is not of this file."""
        index = self.open(entry)
        if not isinstance(index, SamplingIndex):
            return None
        return call_or_ignore(self._file, entry.name, partial(_checked_sample, index, self._file))

    def _about(self, path: Path) -> Iterator[tuple[Entry, Any, str]]:
        for entry in self.entries:
            if path in entry.columns:
                yield entry, self.index(entry), entry.column_names[entry.columns.index(path)]

    def _confirms(self, entry: Entry, call: Callable[[], bool]) -> bool:
        return bool(call_or_ignore(self._file, entry.name, call))

    def read(self, entry: Entry) -> bytes:
        """Read the payload of an entry.

        Raises:
            IndexPayloadError: If the bytes are not those that were written.
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
        """Open an entry, or return None if it is not trusted or its kind is unknown."""
        if entry.name not in self._opened:
            kept = None if self._kept is None else self._kept.get(self._file.metadata, entry.name)
            self._opened[entry.name] = self._open(entry) if kept is None else kept
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
            payload = self.read(entry)
            try:
                num_bytes = self._budget.take(payload)
            except ValueError as error:
                raise IndexPayloadError(str(error), reason="over-budget") from error
            found: OpenIndex = index.open(payload, layout)
            if self._kept is not None:
                self._kept.put(self._file.metadata, entry.name, found, num_bytes)
            return found

        return call_or_ignore(self._file, entry.name, opened)


def _num_sampled(index: Samples, file: ParquetInput) -> int:
    return max(0, min(int(index.num_sampled(file.footer.num_rows)), file.footer.num_rows))


def _checked_granules(index: _HasGranules, file: ParquetInput) -> _HasGranules:
    edges = index.edges
    if edges[0] != 0 or edges[-1] != file.footer.num_rows or (np.diff(edges) < 0).any():
        raise IndexPayloadError("its granules are not those of the file", reason="other-rows")
    return index


def _checked_sample(index: SamplingIndex, file: ParquetInput) -> SamplingIndex:
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


class EntryProof:
    """An embedded index as a proof. It is free if its payload is inline in the directory.

    Args:
        file: The file.
        embedded: Its embedded indexes.
        entry: The index.
    """

    def __init__(self, file: ParquetInput, embedded: EmbeddedIndexes, entry: Entry) -> None:
        self._file = file
        self._embedded = embedded
        self._entry = entry
        self.name = entry.name
        #: a probed index finds candidate rows, and rarely proves that rows match
        self.is_lookup = isinstance(embedded.index(entry), ProbedIndex)
        #: page granules are those read at build time, not those of the page index
        self.counts_pages = False

    def reach(self, condition: Condition) -> Bools | None:
        """Return every row group, if the index can evaluate the condition."""
        if not self._embedded.can_prune(self._entry, condition):
            return None
        return np.ones(len(self._file.footer.metadata.row_groups), dtype=bool)

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return the cost of the payload, or of probing it for each value."""
        if self._entry.inline is not None:
            return ProofCost(0, 0)
        if not self.is_lookup:
            return ProofCost(self._entry.length, 1)
        num_values = sum(num_lookup_values(condition) for condition in wanted)
        num_bytes = PROBE_BYTES + PROBED_VALUE_BYTES * (num_values - 1)
        return ProofCost(min(num_bytes, self._entry.length), 2 * num_values)

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:  # noqa: ARG002
        """Open the index, unless it is open, and evaluate conditions with it."""
        index = self._embedded.open(self._entry)
        if index is not None:
            for verdict in evaluate_conditions(self._file, self.name, index, wanted):
                yield self._with_certain_rows(index, verdict)

    def _with_certain_rows(self, index: OpenIndex, verdict: Verdict) -> Verdict:
        """Make the candidates certain if no other value in the column's range is a false positive."""
        possible = verdict.possible
        if possible is None or possible.is_empty or verdict.certain is not None:
            return verdict
        if not pa.types.is_integer(verdict.condition.type) or not isinstance(index, ProvesWithinBounds):
            return verdict
        bounds = RowGroupStatistics(self._file).bounds(verdict.condition)
        if bounds is None or not bounds.known.any() or not (bounds.known | bounds.all_null).all():
            return verdict
        low, high = int(bounds.minima[bounds.known].min()), int(bounds.maxima[bounds.known].max())
        edges = self._file.footer.row_group_starts
        num_groups = int(np.count_nonzero(possible.overlaps(edges[:-1], edges[1:])))
        if high - low >= min(num_groups * TRIED_VALUES_PER_ROW_GROUP, MAX_TRIED_VALUES):
            return verdict
        proves = partial(index.is_certain_within, verdict.condition, low, high)
        return (
            verdict._replace(certain=possible) if call_or_ignore(self._file, self.name, proves) else verdict
        )


@dataclass(frozen=True)
class FoundIndex:
    """The attached index object, or why it cannot be constructed.

    Attributes:
        index: The object, with the class of the entry's kind and the entry's parameters, or None.
        fault: Why there is no object: the kind is unknown, a later version wrote the entry, or its parameters
            are not valid.
        reason: The same as a sentence fragment.
    """

    index: Any
    fault: Literal["kind-unknown", "newer", "damaged"] | None = None
    reason: str | None = None

    @property
    def code(self) -> str:
        """The fault as a code of `IntarsiaError.reason`."""
        return "unknown-kind" if self.fault == "kind-unknown" else f"{self.fault}-index"


def find_index(entry: Entry) -> FoundIndex:
    """Construct the attached index object from its entry."""
    cls = find_index_class(entry.kind)
    if cls is None:
        return FoundIndex(None, "kind-unknown", why_unknown(entry.kind))
    if entry.kind_version > cls.version:
        detail = f"it has version {entry.kind_version}, and the latest known version is {cls.version}"
        return FoundIndex(None, "newer", detail)
    try:
        index = cls(**entry.parameters)
        names = tuple(index.columns)
        granularity = getattr(index, "granularity", entry.granularity)
    except Exception as error:  # noqa: BLE001 - the class may come from any package
        return FoundIndex(None, "damaged", f"its parameters are not valid for its kind: {error}")
    if names != entry.column_names or granularity != entry.granularity:
        detail = "its parameters name other columns or granules than the directory"
        return FoundIndex(None, "damaged", detail)
    return FoundIndex(index)


def indexed_columns(metadata: FileMetadata) -> frozenset[Path] | None:
    """Return the columns of the embedded indexes of a file; None if some of these cannot be used."""
    return metadata.derived("indexed columns", lambda: _find_indexed_columns(metadata))


def _find_indexed_columns(metadata: FileMetadata) -> frozenset[Path] | None:
    keys = metadata.footer.key_values
    if not any(key in keys for key in INDEX_KEYS):
        return frozenset()
    directory = None if DATAFUSION_KEY in keys else metadata.directory
    if directory is None or any(find_index(entry).index is None for entry in directory.entries):
        return None
    return frozenset(path for entry in directory.entries for path in entry.columns)


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
        locations = [self._in_file(location) for location in ranges]
        if self._is_checked:
            return self._file.source.read_ranges(locations)
        header = ByteRange(self._start - BLOB_HEADER_BYTES, self._start)
        head, *found = self._file.source.read_ranges([header, *locations])
        check_blob_header(head, self._directory.fingerprint, self._entry.length, self._entry.xxh3)
        self._is_checked = True
        return found

    def _in_file(self, location: ByteRange) -> ByteRange:
        if not 0 <= location.start <= location.stop <= self.num_bytes:
            raise IndexPayloadError(
                f"bytes {location.start} to {location.stop} are outside the payload",
                reason="range-outside-payload",
            )
        return ByteRange(location.start + self._start, location.stop + self._start)
