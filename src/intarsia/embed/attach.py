"""Adding indexes to a file that exists, without touching one of its bytes (contracts C3 and C4).

The new file is the original one, whole; then the blobs of embedded indexes; then ColumnIndexes, OffsetIndexes
and Bloom filters; then a new footer.  What was attached before is carried over, so attaching the same again
changes nothing, byte for byte.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from intarsia.embed.blobs import (
    build_blob,
    carried_blobs,
    check_parameters,
    planned_entry,
    same_index,
    shortfall_of,
)
from intarsia.embed.bloom import Bloom
from intarsia.embed.chunk_state import carried_states
from intarsia.embed.column_data import FileColumns
from intarsia.embed.original import Original, find_original
from intarsia.embed.page_index import PageIndex, trusted_page_index
from intarsia.embed.progress import Progress, no_progress
from intarsia.embed.report import AttachReport, Note, summarize
from intarsia.embed.statistics import Statistics
from intarsia.embed.structures import StructureCompleter
from intarsia.embed.tail import lay_out
from intarsia.errors import (
    ChangedMeanwhileError,
    IndexBuildError,
    ReplacedWhileReadError,
    UnsupportedFeatureError,
)
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.directory import Entry
from intarsia.indexes.base import Index
from intarsia.storage.target import CopiesAhead, Target, find_target

#: What Parquet itself defines, in the order in which it is computed.
STANDARD = (PageIndex, Statistics, Bloom)

#: What can be attached: something standard, or an object that speaks `intarsia.indexes.base.Index`.
Attachable: TypeAlias = "PageIndex | Statistics | Bloom | Index"

#: Several of them; one alone may stand without a list.
Attachables: TypeAlias = "Attachable | Iterable[Attachable]"

#: Makes the columns that indexes are built on, from a file and what is known of its OffsetIndexes.
ColumnsOf: TypeAlias = Callable[[ParquetInput, Callable[[ChunkKey], "bytes | None"]], FileColumns]


def attach(
    path: str | os.PathLike[str], indexes: Attachables, *, progress: Progress | None = None
) -> AttachReport:
    """Add indexes to a Parquet file.

    The original bytes stay as they are, at the start of the file; `detach` brings them back.  The file is
    replaced atomically, and keeps its modification time, since its rows did not change.  Attaching what is
    there already changes nothing; an index of the same kind, columns and granularity replaces the old one.

    Args:
        path: A local file, or the URL of an object whose store knows conditional puts.
        indexes: What to add; one index needs no list.
        progress: Called as ``progress(done_units, total_units, label)``.

    Returns:
        What was built, kept and noted.

    Raises:
        FileNotFoundError: If nothing is there.
        IsADirectoryError: If it is a folder.
        CorruptFileError: If it is no Parquet file, or a damaged one.
        UnsupportedFeatureError: If the file is encrypted, signed or has no columns.
        NewerDirectoryError: If a later version of Intarsia added something to it.
        IndexBuildError: If something in ``indexes`` is no index, is given twice, has parameters that mean
            nothing, or cannot be built on the columns that it names.
        ColumnNotFoundError: If there is no such column; near matches are named.
        ReplaceError: If the new file could not be written, or the object is above 1 GiB.
        ChangedMeanwhileError: If somebody else changed the file, twice in a row.
        ReplacedWhileReadError: The same, while it was read.
        ObjectStoreError: If a store behind a URL cannot be reached, refuses, or is not known.

    In each case the old file is untouched.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"city": ["Bern", "Basel"] * 500}), path)
        >>> report = ia.attach(path, [ia.PageIndex(), ia.Distinct("city")])
        >>> report.built, report.bytes_added > 0
        (('page_index', 'distinct(city):page'), True)
        >>> ia.attach(path, ia.Distinct("city")).kept
        ('distinct(city):page',)
    """
    asked = checked_indexes(indexes)
    try:
        return attach_to(find_target(path), asked, progress=progress)
    except (ChangedMeanwhileError, ReplacedWhileReadError):
        # by another run, most likely: then nothing is left to do
        return attach_to(find_target(path), asked, progress=progress)


def attach_to(
    target: Target,
    indexes: Iterable[Attachable],
    *,
    progress: Progress | None = None,
    columns_of: ColumnsOf = FileColumns,
) -> AttachReport:
    """Add indexes to a target; see `attach`, which also starts over when the file changed meanwhile."""
    started = time.perf_counter()
    asked = checked_indexes(indexes)
    with ParquetInput(target.open()) as current, current.named_errors():
        if not current.footer.leaves:
            raise UnsupportedFeatureError("the file has no columns, so there is nothing to index")
        original = find_original(current)
        length = target.size
        with _copying_ahead(target, original.length) as begin_copy:
            work = _Attachment(original, asked, progress or no_progress, columns_of, begin_copy)
            work.run()
            if work.is_different:
                parts, notes = lay_out(original, work.blobs, work.structures.states)
                work.notes += notes
                length = original.length + sum(map(len, parts))
                target.replace_tail(original.length, parts)
    return AttachReport(
        path=target.path,
        bytes_original=original.length,
        bytes_before=target.size,
        bytes_after=length,
        built=tuple(work.built),
        kept=tuple(work.kept),
        notes=summarize(work.notes, [group.num_rows for group in original.file.footer.metadata.row_groups]),
        stale=original.stale,
        seconds=time.perf_counter() - started,
    )


class _Attachment:
    """One run over one file; `blobs` and `structures.states` are what the file is to have in the end."""

    def __init__(
        self,
        original: Original,
        asked: Sequence[Attachable],
        progress: Progress,
        columns_of: ColumnsOf,
        begin_copy: Callable[[], None],
    ) -> None:
        self._original = original
        self._begin_copy = begin_copy  # called once it is clear that something is added
        self._asked = asked
        self._progress = progress
        self.structures = StructureCompleter(
            original.file, carried_states(original.file.footer, original.current)
        )
        self._states_before = dict(self.structures.states)
        self.blobs, self.notes = carried_blobs(original)
        self._blobs_before = list(self.blobs)
        self._lost = bool(self.notes)
        self.built: list[str] = []
        self.kept: list[str] = []
        self._shortfalls: list[Note] = []
        self._columns = columns_of(original.file, self._known_offset_index)
        self._embedded: set[object] = set()
        self._standard = [index for kind in STANDARD for index in asked if isinstance(index, kind)]
        self._work = self.structures.work(self._standard)
        self._done = 0
        self._total = len(self._work) + len(asked) - len(self._standard)

    def run(self) -> None:
        """Build what was asked for and is not there."""
        self._complete_structures()
        for index in self._asked:
            if not isinstance(index, STANDARD):
                self._embed(index)
        # what was asked for has been built anew where it was damaged
        names = {blob.entry.name for blob in self.blobs}
        self.notes = [note for note in self.notes if note.index not in names] + self._shortfalls
        self.kept += [blob.entry.name for blob in self.blobs if blob.entry.identity not in self._embedded]

    @property
    def is_different(self) -> bool:
        """Whether the file is to have anything that it has not, or not anything that it has."""
        return self._lost or self.blobs != self._blobs_before or self.structures.states != self._states_before

    def _advance(self, label: str) -> None:
        self._done += 1
        if any(self.structures.built.values()):
            self._begin_copy()
        self._progress(self._done, self._total, label)

    def _complete_structures(self) -> None:
        self.structures.run(self._work, self._advance)
        self.notes += self.structures.notes
        for structure in self._standard:
            if self.structures.built[structure.name]:
                self.built.append(structure.name)
            elif self.structures.kept[structure.name]:
                self.kept.append(structure.name)

    def _known_offset_index(self, key: ChunkKey) -> bytes | None:
        """The bytes of a chunk's OffsetIndex, if there is one that can be believed."""
        chunk = self.structures.chunk(key)
        if chunk is None:
            return None
        place = trusted_page_index(chunk, self.structures.states[key]).offset_index
        return None if place is None else chunk.bytes_of(place)

    def _embed(self, index: Index) -> None:
        planned = planned_entry(index, self._columns)
        if planned.identity in self._embedded:
            raise IndexBuildError(f"{index!r} is given twice for the same columns and granularity")
        self._embedded.add(planned.identity)
        place = self._place_of(planned)
        if place < len(self.blobs) and same_index(planned, self.blobs[place].entry):
            self.kept.append(planned.name)
        else:
            self._begin_copy()
            blob = build_blob(index, planned, self._columns)
            self.blobs[place : place + 1] = [blob]
            self.built.append(planned.name)
            shortfall = shortfall_of(index, blob, self._columns)
            self._shortfalls += [] if shortfall is None else [shortfall]
        self._advance(planned.name)

    def _place_of(self, planned: Entry) -> int:
        """Where the blob that this one replaces stands; the end, if there is none."""
        found = (place for place, blob in enumerate(self.blobs) if blob.entry.identity == planned.identity)
        return next(found, len(self.blobs))


def checked_indexes(indexes: Attachables) -> list[Attachable]:
    """The indexes as a list, none of them twice.

    Raises:
        IndexBuildError: If one of them is no index, cannot be stored, or is given twice.
    """
    asked: list[Attachable] = []
    seen = set()
    if isinstance(indexes, (*STANDARD, Index, str)) or not isinstance(indexes, Iterable):
        indexes = [indexes]
    for index in indexes:
        # a class has what its objects have, but is none of them
        if isinstance(index, type) or not isinstance(index, (*STANDARD, Index)):
            raise IndexBuildError(
                f"{index!r} is no index; pass objects such as PageIndex() or Distinct('country')"
            )
        identity: object = index.name if isinstance(index, STANDARD) else check_parameters(index)
        if identity in seen:
            raise IndexBuildError(f"{index!r} is given twice for the same columns and granularity")
        seen.add(identity)
        asked.append(index)
    return asked


def _copying_ahead(target: Target, keep_bytes: int) -> AbstractContextManager[Callable[[], None]]:
    if isinstance(target, CopiesAhead):
        return target.copying_ahead(keep_bytes)
    return nullcontext(lambda: None)
