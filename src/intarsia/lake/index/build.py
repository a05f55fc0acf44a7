"""Build a lake index, or add new files to it, from footers and payloads."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import xxhash

from intarsia.ahead import ahead
from intarsia.amounts import part, some
from intarsia.errors import IntarsiaError
from intarsia.file import ParquetInput
from intarsia.file.schema import FileSchema
from intarsia.indexes.base import GatheredPart
from intarsia.indexes.filter_matrix import gather_filters
from intarsia.indexes.granules import batch_to_bytes
from intarsia.indexes.proof import call_index
from intarsia.lake.data_file import FILE_ERRORS, DataFile, FileFailure, ShowDone
from intarsia.lake.index.facts import FileFacts, GatheredKey, index_of, read_facts
from intarsia.lake.index.segment import (
    BLOOM_KIND,
    DIRECTORIES,
    FILE_COLUMNS,
    MAX_FAMILIES,
    MAX_SEGMENT_BYTES,
    MAX_SEGMENT_FILES,
    SEGMENT_VERSION,
    batch_of_rows,
    serialize_bounds,
)
from intarsia.read.report import warn_caller
from intarsia.records import dataclass
from intarsia.rows.values import JsonObject
from intarsia.storage.local import is_utf8, not_utf8
from intarsia.storage.sections import MAX_READ_BYTES, ContentsTooLargeError, Section, serialize_sections


def serialize_segment(facts: Mapping[str, FileFacts]) -> bytes:
    """Serialize the facts of files of at most `MAX_FAMILIES` families."""
    families: dict[bytes, list[tuple[str, FileFacts]]] = {}
    for path, found in facts.items():
        families.setdefault(found.family, []).append((path, found))
    rows, footers, directories, offset = [], [], [], 0
    sections: list[Section] = []
    about: list[dict[str, Any]] = []
    for ordinal, files in enumerate(families.values()):
        for path, found in files:
            raw = found.footer
            numbers = found.num_rows, found.num_row_groups, found.footer_start, offset, len(raw)
            rows.append((path, *found.stamp, ordinal, *numbers, xxhash.xxh3_64_intdigest(raw)))
            footers.append(raw)
            directories.append(found.has_directory)
            offset += len(raw)
        mine = [found for _, found in files]
        schema = mine[0].schema
        for leaf in mine[0].columns:
            data = serialize_bounds(
                [found.columns[leaf] for found in mine], schema.ordering(schema.leaves[leaf])
            )
            sections.append(Section(f"{ordinal}/bounds/{leaf}", data))
        gathered, parts = _gathered_sections(ordinal, mine, schema)
        sections += parts
        about.append({"gathered": gathered})
    batch = batch_of_rows(rows, FILE_COLUMNS)
    of_files = [Section("files", batch_to_bytes(batch)), Section("footers", b"".join(footers))]
    of_files.append(Section(DIRECTORIES, bytes(directories)))
    return serialize_sections([*of_files, *sections], {"segment_version": SEGMENT_VERSION, "families": about})


def _gathered_sections(
    family: int, files: Sequence[FileFacts], schema: FileSchema
) -> tuple[list[dict[str, Any]], list[Section]]:
    about: list[dict[str, Any]] = []
    sections: list[Section] = []

    def add(entry: dict[str, Any], ordinals: Sequence[int], parts: Iterable[GatheredPart]) -> None:
        prefix = f"{family}/gathered/{len(about)}"
        sections.append(Section(prefix, np.array(ordinals, dtype="<u4").tobytes()))
        sections.extend(Section(f"{prefix}/{name}", data, piece) for name, data, piece in parts)
        about.append(entry)

    leaves = schema.leaves
    for ordinal in sorted({ordinal for found in files for ordinal in found.filters}):
        positions = [position for position, found in enumerate(files) if ordinal in found.filters]
        filters = [
            (at, bits) for at, position in enumerate(positions) for bits in files[position].filters[ordinal]
        ]
        add({"kind": BLOOM_KIND, "columns": [list(leaves[ordinal].path)]}, positions, gather_filters(filters))
    for key in sorted({key for found in files for key in found.digests}):
        positions = [position for position, found in enumerate(files) if key in found.digests]
        parts = _gather(key, [files[position].digests[key] for position in positions])
        if parts is not None:
            add({**key._asdict(), "parameters": json.loads(key.parameters)}, positions, parts)
    return about, sections


def _gather(key: GatheredKey, digests: Sequence[bytes]) -> Sequence[GatheredPart] | None:
    """Gather digests; None, with a warning, if the class fails, which may come from any package."""
    index = index_of(key)
    if index is None:
        return None

    def gather() -> Sequence[GatheredPart] | None:
        parts = index.gather(digests)
        if parts is not None:
            found = [Section(*part) for part in parts]
            num_bytes = len(serialize_sections(found, {}))  # checks the parts
            if num_bytes > MAX_READ_BYTES:
                raise ValueError(f"its structure has {num_bytes:,} bytes; the limit is {MAX_READ_BYTES:,}")
        return parts

    try:
        return call_index(gather)
    except (IntarsiaError, OSError) as error:
        warn_caller(f"{key.name} is left out of the lake index: {error}; results are still correct")
        return None


@dataclass(frozen=True)
class LakeIndexReport(JsonObject):
    """The result of building a lake index.

    Attributes:
        folder: The folder of the lake index.
        files_total: The number of files of the table.
        files_known: The number of files that it already contained.
        files_added: The number of files that were added.
        files_recent: Paths of files that were left out because they may still change: they were written in
            the last two seconds, or their store has no ETags.
        failed: The files that could not be read.
        num_bytes: Size of the new segments in bytes.
        seconds: Time taken.
    """

    JSON_KEYS = (
        "folder files.total files.known files.added recent=files_recent failed bytes=num_bytes seconds"
    )

    folder: str
    files_total: int
    files_known: int
    files_added: int
    files_recent: tuple[str, ...] = ()
    failed: tuple[FileFailure, ...] = ()
    num_bytes: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return "\n".join([self.summary(), *(f"{failure.path}: {failure.reason}" for failure in self.failed)])

    def summary(self) -> str:
        """Return the text of ``str()`` with the number of failed files instead of their errors."""
        added = part(self.files_added, self.files_total, "file")
        first = f"lake index: {added} added in {self.seconds:.1f} s"
        first += f" ({self.num_bytes:,} bytes)" if self.num_bytes else ""
        first += f"; {self.files_known:,} were up to date" if self.files_known else ""
        first += f"; {len(self.failed):,} failed" if self.failed else ""
        lines = [first, f"stored in {self.folder}"]
        if self.files_recent:
            lines.append(f"left out, because they may still change: {some(self.files_recent)}")
        return "\n".join(lines)


#: What is read of a file: its facts, None if it may still change, or why it cannot be read.
Outcome: TypeAlias = "FileFacts | Exception | None"

#: Reads files, calls a function with the number of files that are done, and yields the outcomes in order.
FactsReader: TypeAlias = "Callable[[Sequence[DataFile], ShowDone], Iterator[Outcome]]"


def reader_of(
    open_file: Callable[[DataFile], ParquetInput], at_once: int, max_bytes: int | None = None
) -> FactsReader:
    """Return a reader with threads of this process.

    Args:
        at_once: Number of files to open concurrently.
        max_bytes: Files with larger payloads are left out; None for no limit.
    """

    def outcome(file: DataFile) -> Outcome:
        try:
            return read_facts(open_file(file), max_bytes)
        except FILE_ERRORS as error:
            return error

    def read(files: Sequence[DataFile], show: ShowDone) -> Iterator[Outcome]:
        facts = ahead(outcome, files, at_once)
        with contextlib.closing(facts):
            for done, (_, future) in enumerate(facts, 1):
                yield future.result()
                show(done)

    return read


class SegmentBuilder:
    """Reads the facts of files, and arranges them in segments.

    Args:
        files: The files, by their paths relative to the root of the lake.
        show: Called with the number of files that are done.

    Attributes:
        recent: Paths of the files that may still change.
        failed: The files that could not be read, and those whose paths are not text.
        num_bytes: Size of the segments.
    """

    def __init__(
        self, files: Mapping[str, DataFile], read: FactsReader, show: ShowDone = lambda _: None
    ) -> None:
        self._files = {path: file for path, file in files.items() if is_utf8(path)}
        self._read = read
        self._show = show
        self.recent: list[str] = []
        self.failed = [
            FileFailure(file.path, not_utf8(file.path)) for path, file in files.items() if not is_utf8(path)
        ]
        self.num_bytes = 0

    def segments(self) -> Iterator[bytes]:
        """Yield each segment when its files have been read, so that memory is bounded by one segment."""
        pending: dict[str, FileFacts] = {}
        num_bytes = 0
        outcomes = self._read(list(self._files.values()), self._show)
        for (path, file), outcome in zip(self._files.items(), outcomes, strict=True):
            if isinstance(outcome, Exception):
                self.failed.append(FileFailure(file.path, outcome))
                continue
            if outcome is None:
                self.recent.append(file.path)
                continue
            pending[path] = outcome
            num_bytes += outcome.num_bytes
            if num_bytes >= MAX_SEGMENT_BYTES or len(pending) >= MAX_SEGMENT_FILES:
                yield from self._counted(pending)
                pending, num_bytes = {}, 0
        if pending:
            yield from self._counted(pending)

    def _counted(self, facts: Mapping[str, FileFacts]) -> Iterator[bytes]:
        ordinals: dict[bytes, int] = defaultdict(count().__next__)
        parts: dict[int, dict[str, FileFacts]] = defaultdict(dict)
        for path, found in facts.items():
            parts[ordinals[found.family] // MAX_FAMILIES][path] = found
        for part_of_facts in parts.values():
            for data in _serialized(part_of_facts):
                self.num_bytes += len(data)
                yield data


def _serialized(facts: Mapping[str, FileFacts]) -> list[bytes]:
    """Serialize a segment, or several if its table of contents would be too large."""
    try:
        return [serialize_segment(facts)]
    except ContentsTooLargeError:
        if len(facts) == 1:  # the file is planned without a lake index
            return []
    files = list(facts.items())
    half = len(files) // 2
    return [data for part in (files[:half], files[half:]) for data in _serialized(dict(part))]
