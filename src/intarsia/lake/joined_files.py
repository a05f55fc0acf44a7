"""Files without a lake index, planned together: files with the same columns are pruned as one file.

Planning a single file takes about a thousand function calls. Most files of a lake have the same columns and
the same writer, so their footers are joined, and each condition is evaluated once on all of their row groups.
Files that are excluded are not planned again, and the plans of the others start from the facts that are
already known.

The footers of objects are read concurrently, and so are the needed bytes of their Bloom filters and
dictionary pages. If an object is replaced or deleted meanwhile, it is planned separately. If the store fails,
all objects are planned separately, so that the error is raised where the object is read.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import FormatError, ObjectStoreError, PredicateError, QueryTimeoutError
from intarsia.file import FileMetadata
from intarsia.file.joined import JoinedInput, JoinedMetadata, JoinedPart
from intarsia.file.parquet_file import REMOTE_INDEX_BYTES
from intarsia.file.schema import FileSchema
from intarsia.indexes.embedded import indexed_columns
from intarsia.lake.families import families, read_footers
from intarsia.lake.planning import Binder, KnownFile
from intarsia.lake.snapshot import Snapshot
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Bound, Path
from intarsia.read.file_plan import FilePlan, stages_of
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.read.known import JoinedRows, Known
from intarsia.read.prune import prune_joined
from intarsia.read.report import ScanReport
from intarsia.rows.bounds import Bools
from intarsia.storage import ObjectStoreFile

#: The maximum number of bytes of dictionary pages to keep for reading the files that are left.
MAX_MEMORY_BYTES = 64 << 20

#: The indexes of fewer objects are not read together. This would take an additional round trip, because the
#: remaining objects are read separately afterwards, and save fewer bytes than are transferred in that time.
_MIN_OBJECTS = ObjectStoreFile.coalesce_bytes // REMOTE_INDEX_BYTES

#: A damaged file is left out, and the others are tried again, at most this many times.
_MAX_TRIES = 4


class FamilyBinder(Binder, Protocol):
    """An object that binds one query to each file, and to many files with the same columns."""

    def bind_family(
        self, schema: FileSchema, path: str, files: npt.NDArray[np.int64]
    ) -> tuple[Bound | None, dict[Path, pa.Array]]:
        """See `intarsia.lake.binding.TableBinder.bind_family`."""
        ...


@dataclass(frozen=True, eq=False)
class PlannedFamily:
    """Files with the same columns that were planned as one file.

    Attributes:
        parts: The files, by ordinal in the table, in the order in which they are joined.
        constants: The columns that have one value in each file: for each of them, a value per file.
        query: The query of the joined file; its constants are those of the first file.
        predicate: The predicate.
        plan: The plan of the joined file, with the dictionary pages that were read.
        known: The facts about its rows.
        is_left: Whether each file might contain rows that match.
        is_whole: Whether the page index of each file cannot exclude rows of single row groups.
        has_all: Whether all Bloom filters and dictionary pages that are worth reading have been used.
    """

    parts: Mapping[int, JoinedPart]
    constants: Mapping[Path, pa.Array]
    query: FileQuery
    predicate: Bound
    plan: FilePlan
    known: Known
    is_left: Bools
    is_whole: Bools
    has_all: bool

    @property
    def joined(self) -> JoinedMetadata:
        """The metadata of the joined file."""
        assert isinstance(self.query.file, JoinedInput)
        return self.query.file.joined

    @cached_property
    def ordinals(self) -> npt.NDArray[np.int64]:
        """The ordinals of the files."""
        return np.fromiter(self.parts, dtype=np.int64)

    def has_indexes(self, among: Bools) -> Bools:
        """Return which files have embedded indexes of the predicate's columns, or any that cannot be used.

        Args:
            among: The files that matter, because parsing a directory takes time.
        """
        paths = self.query.predicate_paths
        parts = zip(among.tolist(), self.parts.values(), strict=True)
        return np.array([matters and _has_indexes(part.metadata, paths) for matters, part in parts])

    def facts(self, is_planned: Bools, others: Set[int]) -> Iterator[tuple[int, KnownFile]]:
        """Yield the facts about each file that is left.

        Args:
            is_planned: Whether the plan of each file is final, because its own indexes exclude nothing more.
            others: The ordinals of files whose facts are not needed.
        """
        joined, pages = self.joined, _by_file(self.known, self.joined)
        edges = joined.row_edges.tolist()
        for position, (ordinal, part) in enumerate(self.parts.items()):
            if self.is_left[position] and ordinal not in others:
                rows = JoinedRows(edges[position], edges[position + 1], pages.get(position, {}))
                if is_planned[position]:
                    yield ordinal, KnownFile(part.metadata, plan=self.plan.of_file(rows))
                else:
                    yield ordinal, KnownFile(part.metadata, self.known.of_file(rows))


class KnownFacts:
    """The facts about files that were planned together.

    Args:
        table: The table.

    Attributes:
        by_path: The facts about each file.
    """

    def __init__(self, table: TableFiles) -> None:
        self.by_path: dict[str, KnownFile] = {}
        self._table = table
        self._memory_bytes = 0

    def add(self, family: PlannedFamily, others: Set[int] = frozenset()) -> None:
        """Add the facts about the files of a family that are left.

        Args:
            family: The family.
            others: The ordinals of files whose facts are not needed.
        """
        is_planned = family.is_whole & family.is_left & ~self._table.has_deletes[family.ordinals]
        is_planned &= family.has_all & ~np.isin(family.ordinals, list(others))
        is_planned &= ~family.has_indexes(is_planned)
        for ordinal, found in family.facts(is_planned, others):
            self._memory_bytes += sum(map(len, found.dictionary_pages.values()))
            is_kept = self._memory_bytes <= MAX_MEMORY_BYTES  # the rest is read again
            path = self._table.files[ordinal].path
            self.by_path[path] = found if is_kept else found.without_dictionary_pages()


def exclude_joined(
    table: TableFiles,
    binder: FamilyBinder,
    report: ScanReport,
    files: Sequence[int],
    *,
    reads: bool,
    snapshot: Snapshot,
) -> tuple[list[int], dict[str, KnownFile]]:
    """Exclude files by their footers, and by their Bloom filters and dictionary pages.

    Args:
        table: The table.
        binder: The query, which has a predicate.
        report: The report.
        files: Ordinals of the files, ascending.
        reads: Whether Bloom filters and dictionary pages are read; else only the footers are used.
        snapshot: The run of the query.

    Returns:
        The files that are left, in the same order, and the facts about them by path. Damaged files are
        left, and opening them raises their errors.
    """
    left, facts = set(files), KnownFacts(table)
    for family in plan_together(table, binder, report, files, reads=reads, snapshot=snapshot):
        left.difference_update(family.ordinals[~family.is_left].tolist())
        facts.add(family)
    return [ordinal for ordinal in files if ordinal in left], facts.by_path


def plan_together(
    table: TableFiles,
    binder: FamilyBinder,
    report: ScanReport,
    files: Sequence[int],
    *,
    reads: bool,
    snapshot: Snapshot,
    footers: Mapping[int, JoinedPart] | None = None,
) -> Iterator[PlannedFamily]:
    """Plan files with the same columns as one file, and add those that are excluded to the report.

    Args:
        table: The table.
        binder: The query, which has a predicate.
        report: The report.
        files: Ordinals of the files.
        reads: See `exclude_joined`.
        snapshot: The run of the query.
        footers: Footers that have been read in the same run, by ordinal of the file.

    Yields:
        Families. Files that are in none of them have not been planned.
    """
    if len(files) < 2:
        return
    known = footers or {}
    settled = {file: known[file] for file in files if file in known and known[file].identity is not None}
    others = [file for file in files if file not in settled]
    # without reads, the first files may suffice
    read = read_footers(snapshot, others, table.files_at_once, makes_requests=reads)
    with contextlib.suppress(ObjectStoreError), contextlib.closing(read):  # raised when objects are read
        for family in families(itertools.chain(settled.items(), read)):
            yield from _pruned(table, binder, report, family, reads=reads, snapshot=snapshot)
    table.cache.drop_tails()


def _pruned(
    table: TableFiles,
    binder: FamilyBinder,
    report: ScanReport,
    family: Mapping[int, JoinedPart],
    *,
    reads: bool,
    snapshot: Snapshot,
) -> Iterator[PlannedFamily]:
    """Plan a family, without the files that have no rows, are damaged or were replaced."""
    members = {ordinal: one for ordinal, one in family.items() if one.metadata.footer.num_rows}
    remote = {ordinal: one for ordinal, one in members.items() if one.is_remote}
    tails = {
        ordinal: table.cache.take_tail(one.metadata.path, one.identity) for ordinal, one in remote.items()
    }
    for _ in range(_MAX_TRIES):
        if len(members) < 2:
            return
        file: JoinedInput | None = None
        try:
            file = JoinedInput(table.cache.join(list(members.values())))
            ends = enumerate(map(tails.get, members))
            file.keep_known({position: tail for position, tail in ends if tail is not None})
            planned = _pruned_once(table, binder, report, members, file, reads=reads)
        except (ObjectStoreError, QueryTimeoutError):
            raise
        except (FormatError, OSError) as error:
            path = getattr(error, "path", None) or getattr(error, "filename", None)
            lost = frozenset[int]() if file is None else file.lost_parts
            rest = {
                ordinal: one
                for position, (ordinal, one) in enumerate(members.items())
                if one.metadata.path != path and position not in lost
            }
            if len(rest) == len(members):
                return
            # they may have been replaced: their identities are not used when they are opened
            snapshot.forget(one.metadata.path for ordinal, one in members.items() if ordinal not in rest)
            members = rest
        except PredicateError:  # opening the files raises it
            return
        else:
            if planned is not None:
                yield planned
            return


def _pruned_once(
    table: TableFiles,
    binder: FamilyBinder,
    report: ScanReport,
    family: Mapping[int, JoinedPart],
    file: JoinedInput,
    *,
    reads: bool,
) -> PlannedFamily | None:
    joined, first = file.joined, table.files[next(iter(family))]
    ordinals = np.fromiter(family, dtype=np.int64)
    predicate, constants = binder.bind_family(joined.schema, first.path, ordinals)
    if predicate is None:
        return None
    query = binder.query(replace(first, deletes=None), file)
    pruned, known, has_all = prune_joined(
        file,
        predicate,
        constants,
        query.estimated_bytes_by_group,
        reads=reads,
        min_files=_MIN_OBJECTS if joined.is_remote else 1,
    )
    edges = joined.row_edges
    keep = pruned.candidates.overlaps(edges[:-1], edges[1:])
    report.add_excluded_together(query, joined, known, ~keep)
    report.add_index_bytes(file.source.counts.bytes)
    if joined.ignored:  # the files' own plans record it
        known = replace(known, used=frozenset({"statistics"}))
    is_whole = _needs_no_pages(query, joined)
    if joined.ignored or query.predicate is None:
        is_whole[:] = False
    plan = FilePlan(
        pruned.candidates,
        pruned.certain,
        pruned.proven,
        stages_of(query, predicate, pruned.candidates) if is_whole.any() else (),
        pruned.steps,
        dictionary_pages=known.dictionary_pages,
    )
    return PlannedFamily(dict(family), constants, query, predicate, plan, known, keep, is_whole, has_all)


def _needs_no_pages(query: FileQuery, joined: JoinedMetadata) -> Bools:
    """Return for each file whether its page index cannot exclude rows of single row groups."""
    is_whole = np.ones(int(joined.group_edges[-1]), dtype=bool)
    for of_leaf in joined.outlines(leaves_under(query.file, query.predicate_paths)):
        is_whole &= (of_leaf.data_pages == 1) | ~of_leaf.has_offset_index
    needs_no_pages: Bools = np.logical_and.reduceat(is_whole, joined.group_edges[:-1])
    return needs_no_pages


def _has_indexes(metadata: FileMetadata, paths: Sequence[Path]) -> bool:
    """Return whether a file has embedded indexes of some columns, or any that cannot be used."""
    indexed = indexed_columns(metadata)
    return indexed is None or not indexed.isdisjoint(paths)


def _by_file(known: Known, joined: JoinedMetadata) -> dict[int, dict[int, bytes]]:
    """Return the dictionary pages of each file, by offset in the file."""
    found: dict[int, dict[int, bytes]] = {}
    for offset, page in known.dictionary_pages.items():
        part = joined.part_at(offset)
        found.setdefault(part, {})[offset - joined.starts[part]] = page
    return found
