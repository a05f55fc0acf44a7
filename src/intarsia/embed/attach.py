"""Add indexes to an existing file without changing its original bytes (contracts C3 and C4).

The new file consists of the whole original file, the blobs of the embedded indexes, the Bloom filters, the
ColumnIndexes and OffsetIndexes, and a new footer. Structures that were attached before are carried over, so
attaching the same indexes again leaves every byte as it was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import xxhash

from intarsia.embed.chunk import Outcome, PagesNeededError
from intarsia.embed.column_data import FileColumns
from intarsia.embed.original import Original, find_original
from intarsia.embed.report import AttachReport, Note, Progress, no_progress, summarize
from intarsia.embed.structures import (
    STANDARD,
    Attachable,
    Attachables,
    StructureCompleter,
    build_blob,
    call_builder,
    carried_blobs,
    check_parameters,
    planned_entry,
    same_index,
)
from intarsia.embed.tail import lay_out
from intarsia.errors import (
    ChangedMeanwhileError,
    ColumnNotFoundError,
    IndexBuildError,
    IntarsiaError,
    ReplacedWhileReadError,
    UnsupportedFeatureError,
)
from intarsia.file import ChunkKey, ParquetInput
from intarsia.indexes.base import Index, PayloadPart
from intarsia.indexes.layout import Layout
from intarsia.predicate.nodes import dotted
from intarsia.records import dataclass
from intarsia.rows.selection import Rows
from intarsia.storage import StorageOptions, local_path
from intarsia.storage.target import LocalTarget, Target, find_target

#: Returns the columns to build indexes on, given the first two arguments of `FileColumns`.
ColumnsOf: TypeAlias = Callable[[ParquetInput, Callable[[ChunkKey], "Rows | None"]], FileColumns]


def attach_file(
    path: str | os.PathLike[str],
    indexes: Attachables,
    *,
    progress: Progress | None = None,
    storage_options: StorageOptions | None = None,
    parts: Sequence[Part] = (),
    find: Callable[[str | os.PathLike[str], StorageOptions | None], Target] = find_target,
) -> AttachReport:
    """Add indexes to one Parquet file; see `intarsia.attach`.

    Args:
        parts: Parts that other processes have built for the same file and indexes.
        find: Returns the target for a path; called a second time if the file is replaced during the run.

    Raises:
        IsADirectoryError: If the path is a folder.
    """
    requested = checked_indexes(indexes)
    try:
        return attach_to(find(path, storage_options), requested, progress=progress, parts=parts)
    except (ChangedMeanwhileError, ReplacedWhileReadError):
        # another run has probably attached the same indexes; the second attempt then changes nothing
        return attach_to(find(path, storage_options), requested, progress=progress)
    except ColumnNotFoundError as error:
        raise partition_error_of(os.fspath(path), error) or error from None


def attach_to(
    target: Target,
    requested: Sequence[Attachable],
    *,
    progress: Progress | None = None,
    columns_of: ColumnsOf = FileColumns,
    parts: Sequence[Part] = (),
) -> AttachReport:
    """Add checked indexes to a target, without the second attempt that `attach_file` makes."""
    with ParquetInput(target.open()) as current, current.named_errors():
        return attach_in(
            current, requested, target=target, progress=progress, columns_of=columns_of, parts=parts
        )


def unchanged_report(current: ParquetInput, requested: Sequence[Attachable]) -> AttachReport | None:
    """Return the report of `attach` if the footer proves that the file has all indexes; otherwise None.

    The indexes themselves are not read, so damage is not detected; `intarsia.verify` finds it. A footer does
    not show the false-positive rate of a Bloom filter, so the result is None for chunks that have one.

    Raises:
        IndexBuildError: If an index cannot be built on its columns.
        ColumnNotFoundError: If the file has no such column.
    """
    try:
        return attach_in(current, requested, footer_only=True)
    except PagesNeededError:
        return None


def attach_in(
    current: ParquetInput,
    requested: Sequence[Attachable],
    *,
    target: Target | None = None,
    progress: Progress | None = None,
    columns_of: ColumnsOf = FileColumns,
    parts: Sequence[Part] = (),
    footer_only: bool = False,
) -> AttachReport:
    """Compute what attaching checked indexes changes in an open file, and write it to a target, if any.

    Args:
        requested: The indexes; see `checked_indexes`.
        target: The same file, which is replaced if it changes; None for a dry run.
        columns_of: Returns the columns to build embedded indexes on.
        parts: Parts that other processes have built.
        footer_only: Whether anything that is not in the footer raises `PagesNeededError`.
    """
    started = time.perf_counter()
    if not current.footer.leaves:
        raise UnsupportedFeatureError(
            "the file has no columns, so there is nothing to index", reason="no-columns"
        )
    if footer_only and current.directory is None:
        raise PagesNeededError
    original = Original(current, current, current.directory) if footer_only else find_original(current)
    before = length = current.footer.file_length
    layout_notes: Sequence[Note] = ()
    copying: AbstractContextManager[Callable[[], None]] = nullcontext(lambda: None)
    if isinstance(target, LocalTarget):
        copying = target.copying_ahead(original.length)
    with copying as begin_copy:
        work = Attachment(
            original,
            requested,
            progress or no_progress,
            columns_of,
            begin_copy,
            parts,
            footer_only=footer_only,
        )
        if work.is_different:
            tail, layout_notes = lay_out(original, work.blobs.values(), work.structures.states)
            length = original.length + sum(map(len, tail))
            if target is not None:
                target.replace_tail(original.length, tail)
    return AttachReport(
        path=current.path if target is None else target.path,
        bytes_original=original.length,
        bytes_before=before,
        bytes_after=length,
        built=tuple(work.added),
        kept=tuple(work.kept),
        notes=summarize(
            [*work.notes, *layout_notes, *heavy_notes(work.added, original.length)],
            [group.num_rows for group in original.file.footer.metadata.row_groups],
        ),
        stale=original.stale,
        seconds=time.perf_counter() - started,
        weights={name: num_bytes for name, (_, num_bytes) in work.added.items()},
    )


class Attachment:
    """The requested indexes that a file lacks, built in memory.

    Args:
        requested: The indexes; see `checked_indexes`.
        progress: Called after each chunk and each embedded index.
        columns_of: Returns the columns to build embedded indexes on.
        begin_copy: Called as soon as an index has to be added, possibly several times.
        parts: Parts that other processes have built; parts of other files are ignored.

    Attributes:
        blobs: The embedded indexes of the new file by `Entry.identity`.
        structures: The standard structures of the new file.
        kept: Names of the indexes that the file already had.
        notes: Missing and incomplete indexes, and why.
        added: The indexes that were built and their sizes in bytes, by name.
        is_different: Whether the new file differs from the current one.
    """

    def __init__(
        self,
        original: Original,
        requested: Sequence[Attachable],
        progress: Progress = no_progress,
        columns_of: ColumnsOf = FileColumns,
        begin_copy: Callable[[], None] = lambda: None,
        parts: Sequence[Part] = (),
        *,
        footer_only: bool = False,
    ) -> None:
        self._footer_only = footer_only
        self._parts = BuiltParts(parts, original)
        self._begin_copy = begin_copy
        self._progress = progress
        self.structures = StructureCompleter(
            original.file,
            original.carried_states(),
            outcomes=self._parts.outcomes,
            footer_only=footer_only,
        )
        states_before = dict(self.structures.states)
        self.blobs, self.notes = carried_blobs(original, footer_only=footer_only)
        blobs_before, lost = dict(self.blobs), list(self.notes)
        self.added: dict[str, tuple[Attachable, int]] = {}
        self.kept: list[str] = []
        self._columns = columns_of(original.file, self.structures.first_rows)
        self._embedded: set[object] = set()
        self._done = 0
        standard = [index for cls in STANDARD for index in requested if isinstance(index, cls)]
        work = self.structures.work(standard)
        self._total = len(work) + len(requested) - len(standard)
        self.structures.run(work, self._advance)
        for structure in standard:
            if structure.name in self.structures.built:
                self.added[structure.name] = structure, self.structures.built[structure.name]
            elif structure.name in self.structures.kept:
                self.kept.append(structure.name)
        shortfalls = [self._embed(index) for index in requested if not isinstance(index, STANDARD)]
        # a damaged index that was requested has been rebuilt, so its note is obsolete
        names = {blob.entry.name for blob in self.blobs.values()}
        self.notes = [note for note in [*lost, *self.structures.notes] if note.index not in names]
        self.notes += [note for note in shortfalls if note is not None]
        self.kept += [blob.entry.name for key, blob in self.blobs.items() if key not in self._embedded]
        self.is_different = (
            bool(lost) or self.blobs != blobs_before or self.structures.states != states_before
        )

    def _advance(self, label: str) -> None:
        self._done += 1
        if self.structures.built:
            self._begin_copy()
        self._progress(self._done, self._total, label)

    def _embed(self, index: Index) -> Note | None:
        """Build an index unless the file has it; return a note if it is of little use."""
        planned = planned_entry(index, self._columns)
        if planned.identity in self._embedded:
            raise _duplicate(index)
        self._embedded.add(planned.identity)
        there, shortfall = self.blobs.get(planned.identity), None
        if there is not None and same_index(planned, there.entry):
            self.kept.append(planned.name)
        elif self._footer_only:
            raise PagesNeededError
        else:
            self._begin_copy()
            blob = build_blob(index, planned, self._columns, self._parts.payload(index, planned.name))
            self.blobs[planned.identity] = blob  # in the place of the one that is replaced
            self.added[planned.name] = index, blob.num_bytes
            reason: Any = call_builder(index, lambda: index.shortfall(blob.payload, self._columns.layout))
            if not isinstance(reason, (str, type(None))):
                raise IndexBuildError(
                    f"{index!r} returned {type(reason).__name__} from shortfall(); it must be text or None",
                    reason="invalid-shortfall",
                )
            if reason is not None:
                shortfall = Note(", ".join(index.columns), None, planned.name, reason, "not-selective")
        self._advance(planned.name)
        return shortfall


def checked_indexes(indexes: Attachables) -> list[Attachable]:
    """Return the indexes as a list without duplicates.

    Raises:
        IndexBuildError: If an element is not an index, cannot be stored, or occurs twice.
    """
    requested: list[Attachable] = []
    seen = set()
    is_one = isinstance(indexes, (*STANDARD, Index, str)) or not isinstance(indexes, Iterable)
    passed: Any = [indexes] if is_one else indexes
    for index in passed:
        if not isinstance(index, (*STANDARD, Index)):
            raise IndexBuildError(
                f"{index!r} is not an index; pass objects like PageIndex() or Distinct('country'), or of a "
                "class that derives from intarsia.indexes.Index",
                reason="not-an-index",
            )
        identity: object = index.name if isinstance(index, STANDARD) else check_parameters(index)
        if identity in seen:
            raise _duplicate(index)
        seen.add(identity)
        requested.append(index)
    return requested


def _duplicate(index: Attachable) -> IndexBuildError:
    return IndexBuildError(
        f"{index!r} is passed twice for the same columns and granularity; pass it once",
        reason="duplicate-index",
    )


def partition_error_of(path: str, error: ColumnNotFoundError) -> IndexBuildError | None:
    """Return the error for a partition column, which files do not contain; None for other columns."""
    folders = path.split("/")[:-1] if "://" in path else os.path.abspath(path).split(os.sep)[:-1]
    if not error.column or not any(folder.startswith(f"{error.column}=") for folder in folders):
        return None
    return IndexBuildError(
        f"column {error.column!r} is a partition column, which needs no index: scans skip files by the names "
        "of their folders; omit the index",
        reason="partition-column",
        path=path,
        column=error.column,
    )


#: An index that takes a larger part of the original file gets a note.
HEAVY_SHARE = 0.1

#: In smaller files, in bytes, no index gets a note: every payload is large relative to them.
MIN_FILE_BYTES = 1_000_000


def heavy_notes(added: Mapping[str, tuple[Attachable, int]], original_bytes: int) -> Iterator[Note]:
    """Yield a note for each index that was built and is larger than a tenth of the original file."""
    for name, (index, num_bytes) in added.items():
        share = num_bytes / original_bytes
        if share > HEAVY_SHARE and original_bytes >= MIN_FILE_BYTES:
            purpose = f"; it is used to {index.purpose}" if index.purpose else ""
            reason = f"it is larger than a tenth of the file{purpose}"
            yield Note(", ".join(map(dotted, index.columns)) or None, None, name, reason, "heavy", share)


# --- one large file, in parts -------------------------------------------------------------------------------
#
# Several processes build the parts, and one of them attaches all. A part has the standard structures of some
# row groups, and payloads. The process that attaches them ignores the parts of another file, and builds what
# is missing or cannot be merged. So a part only saves time, and errors are those of `attach`.


@dataclass(frozen=True)
class Part:
    """The structures and payloads that one process has built.

    Attributes:
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
        pieces = []
        for part in parts:
            edges = self._edges[part.start : part.stop + 1]
            layout = Layout(int(edges[-1] - edges[0]), edges - edges[0], {})
            pieces.append(PayloadPart(part.payloads[name], layout))
        try:
            return index.merge(pieces)
        except (IntarsiaError, pa.ArrowException):  # `attach` builds it and raises the error
            return None


class PartWork(NamedTuple):
    """The work of one process.

    Attributes:
        start: The first row group.
        stop: The end of the row groups.
        indexes: The positions, in the list of all indexes, of those to build on these row groups.
    """

    start: int
    stop: int
    indexes: tuple[int, ...]


def divide_work(file: ParquetInput, indexes: Sequence[Attachable], part_bytes: int) -> list[PartWork]:
    """Divide the work on a file.

    Args:
        part_bytes: The size of a part in bytes; a part has at least one row group.

    Returns:
        The parts, the slowest first. An index whose payload cannot be merged is a part.
    """
    groups = find_original(file).file.footer.metadata.row_groups
    shared = tuple(
        position
        for position, index in enumerate(indexes)
        if not isinstance(index, Index) or index.can_merge()
    )
    works = [PartWork(0, len(groups), (at,)) for at in range(len(indexes)) if at not in shared]
    start, size = 0, 0
    for ordinal, group in enumerate(groups):
        size += sum(chunk.meta_data.total_compressed_size for chunk in group.columns if chunk.meta_data)
        if shared and (size >= part_bytes or ordinal == len(groups) - 1):
            works.append(PartWork(start, ordinal + 1, shared))
            start, size = ordinal + 1, 0
    return works


def build_part(path: str, indexes: Sequence[Attachable], work: PartWork) -> Part:
    """Build a part; indexes that cannot be built are left out.

    Raises:
        IntarsiaError: If the file cannot be opened.
    """
    with ParquetInput(find_target(path).open()) as current, current.named_errors():
        original = find_original(current)
        version = version_of(original)
        structures = StructureCompleter(original.file, original.carried_states())
        row_groups = range(work.start, work.stop)
        requested = [indexes[ordinal] for ordinal in work.indexes]
        standard = [index for cls in STANDARD for index in requested if isinstance(index, cls)]
        outcomes = {}
        for item in structures.work(standard):
            if item[0].row_group in row_groups:
                outcomes[item[0]] = tuple(structures.complete(item))
                structures.take(item, outcomes[item[0]])
        columns = FileColumns(original.file, structures.first_rows, row_groups=row_groups)
        there = original.directory.entries if original.directory is not None else ()
        payloads = {}
        for index in requested:
            if not isinstance(index, STANDARD):
                with suppress(IntarsiaError, pa.ArrowException, UnicodeDecodeError):  # `attach` raises them
                    planned = planned_entry(index, columns)
                    if not any(same_index(planned, entry) for entry in there):
                        payloads[planned.name] = index.build(columns)
        return Part(version, work.start, work.stop, outcomes, payloads)
