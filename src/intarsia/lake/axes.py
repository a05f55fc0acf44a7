"""Files of one schema and one writer, planned as one: their footers are read, joined and pruned at once.

Planning a single file takes about a thousand function calls. Most files of a lake have the same columns and
the same writer. So they are laid end to end, and each condition is evaluated once on all of their row groups
and pages. The plan of a file is its part of the plan of all.

The footers of objects are read concurrently, and so are the needed bytes of their Bloom filters and
dictionary pages. If an object is replaced or deleted meanwhile, it is planned separately. If the store fails,
all objects are planned separately, so that the error is raised where the object is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from intarsia.ahead import ahead
from intarsia.errors import FormatError, ObjectStoreError
from intarsia.file.joined import JoinedInput, JoinedMetadata, JoinedPart
from intarsia.format.directory import KEY
from intarsia.format.enums import Type
from intarsia.format.footer import COPIED_WRITERS
from intarsia.indexes.registry import may_index
from intarsia.lake.data_file import DataFile
from intarsia.lake.snapshot import Snapshot
from intarsia.once import cached_property
from intarsia.read.counts import PagesRead
from intarsia.read.file_plan import FilePlan, JoinedRows, without_deleted
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import union
from intarsia.tuning import AXIS_BYTES, AXIS_FILES

#: Files that can be joined, by ordinal in the table.
Members: TypeAlias = "dict[int, JoinedPart]"


# --- footers ------------------------------------------------------------------------------------------


def read_footers(
    snapshot: Snapshot,
    files: Sequence[int],
    at_once: int,
    *,
    makes_requests: bool,
) -> Generator[tuple[int, JoinedPart], None, None]:
    """Yield the footers of files, without damaged ones, whose errors are raised when they are opened.

    Files whose changes might not be detected are left out: the bytes of two reads must not be combined.

    Args:
        files: Ordinals of the files.
        at_once: Maximum number of footers that are read at the same time.
        makes_requests: Whether footers of objects are read, several at a time; else only those that are
            cached are yielded.

    Raises:
        ObjectStoreError: If a store is unreachable or refuses access.
        QueryTimeoutError: If the time limit of the query has passed.
    """
    read, requests = partial(_read, snapshot), snapshot.requested(files)
    with contextlib.ExitStack() as stack:
        if requests and makes_requests:
            footers = stack.enter_context(contextlib.closing(ahead(read, files, at_once)))
            results = ((ordinal, future.result()) for ordinal, future in footers)
        else:
            results = ((ordinal, read(ordinal)) for ordinal in files if ordinal not in requests)
        for ordinal, part in results:
            if isinstance(part, JoinedPart):
                yield ordinal, part
            elif part is None and snapshot.files[ordinal].is_remote:
                return  # its store has no ETags, so no object can be joined


def _read(snapshot: Snapshot, ordinal: int) -> JoinedPart | Exception | None:
    """Return the footer of a file; None if the file cannot be joined; the error if the file is damaged."""
    entry = snapshot.files[ordinal]
    try:
        settled = snapshot.settled(entry)
    except (ObjectStoreError, TimeoutError):
        raise
    except (FormatError, OSError) as error:  # opening the file raises it
        return error
    if settled is None:
        return None
    is_remote = entry.is_remote
    opened = entry.as_opened(settled.identity) if is_remote else entry
    return JoinedPart(settled.metadata, settled.identity, opened.open, is_remote, entry.page_checksums)


def axes(parts: Iterable[tuple[int, JoinedPart]]) -> Iterator[Members]:
    """Collect files that can be joined, a limited number of files at a time.

    Args:
        parts: The files, by ordinal.
    """
    found: dict[Hashable, Members] = {}
    num_files = num_bytes = 0
    for ordinal, part in parts:
        found.setdefault(_key_of(part), {})[ordinal] = part
        num_files, num_bytes = num_files + 1, num_bytes + part.metadata.memory_bytes
        if num_files >= AXIS_FILES or num_bytes >= AXIS_BYTES:
            yield from found.values()
            found, num_files, num_bytes = {}, 0, 0
    yield from found.values()


def _key_of(part: JoinedPart) -> Hashable:
    """Return a key that is equal for files that can be joined, because all of them deserve the same trust."""
    metadata = part.metadata
    struct, keys = metadata.footer.metadata, metadata.footer.key_values
    orders = None if struct.column_orders is None else tuple(struct.column_orders)
    computed = frozenset[int]()
    if b"computed_statistics" in keys.get(KEY, b""):  # few directories have to be parsed for this
        directory = metadata.directory
        computed = computed if directory is None else directory.computed_statistics
    writers = struct.created_by, keys.get(COPIED_WRITERS)
    return part.is_remote, metadata.schema, writers, orders, computed


# --- plans --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AxisPlan:
    """The plan of files that are laid end to end.

    Attributes:
        ordinals: The ordinals of the files in the table, in the order in which they are joined.
        query: The query of the joined file.
        plan: The plan of the joined file, with the dictionary pages that were read.
        is_left: Whether each file might contain rows that match.
    """

    ordinals: npt.NDArray[np.int64]
    query: FileQuery
    plan: FilePlan
    is_left: Bools

    @property
    def joined(self) -> JoinedMetadata:
        """The metadata of the joined file."""
        assert isinstance(self.query.file, JoinedInput)
        return self.query.file.joined

    @cached_property
    def is_planned(self) -> Bools:
        """Whether each file might contain rows that match, and needs no other plan."""
        found, paths = self.is_left.copy(), self.query.predicate_paths
        leaves = leaves_under(self.query.file, paths)
        if not self.plan.has_all:  # unless the page index cannot exclude rows of single row groups
            is_whole = np.ones(int(self.joined.group_edges[-1]), dtype=bool)
            for of_leaf in self.joined.outlines(leaves):
                is_whole &= (of_leaf.data_pages == 1) | ~of_leaf.has_offset_index
            found &= np.logical_and.reduceat(is_whole, self.joined.group_edges[:-1])
        # an index records the unit of its file's INT96 values, which binds more exactly
        elif all(leaf.type != Type.INT96 for leaf in leaves):
            return found
        indexed, parts = frozenset(paths), zip(found.tolist(), self.joined.parts, strict=True)
        found &= ~np.array([is_left and may_index(part.metadata, indexed) for is_left, part in parts])
        return found

    @cached_property
    def read_bytes(self) -> npt.NDArray[np.int64]:
        """The estimated bytes to read of each file."""
        by_group = self.query.estimated_bytes_by_group(self.plan.candidates)
        return np.asarray(np.add.reduceat(by_group, self.joined.group_edges[:-1]))

    @cached_property
    def has_certain(self) -> Bools:
        """Whether rows of each file are certain to match."""
        return self.joined.files_with(self.plan.certain)

    def of_file(self, position: int) -> FilePlan:
        """Return the plan of one of the files, without the deleted rows of the table."""
        start, stop = self.joined.row_edges[position : position + 2].tolist()
        file, plan = JoinedRows(start, stop), self.plan
        return FilePlan(
            file.of(plan.candidates),
            file.of(plan.certain),
            file.of(plan.proven),
            plan.stages,
            file.steps(plan.steps),
            dictionary_pages=self._pages_by_file.get(position, {}),
            contradictions=self.joined.parts[position].metadata.contradictions,
        )

    def of_files(self, among: Bools, entries: Sequence[DataFile]) -> tuple[FileQuery, FilePlan]:
        """Return the query and the plan of some of the files; the rows of the others count as deleted.

        Args:
            among: Which files of the axis are meant.
        """
        edges, deleted = self.joined.row_edges, [self.joined.rows_of(~among)]
        for position, entry in zip(np.flatnonzero(among).tolist(), entries, strict=True):
            if entry.deletes is not None:
                start, stop = edges[position : position + 2].tolist()
                deleted.append(entry.deleted_rows(stop - start).shift(start))
        query = replace(
            self.query, deleted=union(deleted), deleted_by=entries[0].deleted_by, pages=PagesRead()
        )
        return query, without_deleted(query, replace(self.plan, index_bytes=0))

    @cached_property
    def _pages_by_file(self) -> dict[int, dict[int, bytes]]:
        """Return the dictionary pages of each file, by offset in the file."""
        joined = self.joined
        found: dict[int, dict[int, bytes]] = {}
        for offset, page in self.plan.dictionary_pages.items():
            part = joined.part_at(offset)
            found.setdefault(part, {})[offset - joined.starts[part]] = page
        return found
