"""Read the pages of a plan together, from files with slow requests.

Otherwise, an object costs three round trips after planning: the locations of the predicate's pages, these
pages, and the pages of the other columns. A prefetch takes at most two, and several files are prefetched
concurrently.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from intarsia.errors import FormatError
from intarsia.file import ChunkKey
from intarsia.file.chunks import DictionaryUse
from intarsia.format.footer import Leaf
from intarsia.read.file_plan import FilePlan, plan_chunks
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange, IoCounts, ObjectStoreFile, coalesce
from intarsia.tuning import MAX_PREFETCHED_BYTES, MAX_PREFETCHED_CHUNKS


def prefetch(query: FileQuery, plan: FilePlan) -> FilePlan:
    """Read the pages that a plan needs and keep them in the query's file, which is remote, if they are few.

    Pages of columns that the predicate does not use are read although none of their rows may match, if this
    takes less time than another request.

    Returns:
        The plan, with the bytes that were read from the page index.
    """
    file = query.file
    if query.predicate is None or plan.candidates.is_empty:
        return plan
    if len(query.groups_with(plan.candidates)) * len(query.leaves) > MAX_PREFETCHED_CHUNKS:
        return plan
    # count() does not read certain rows, and a scan does not apply the predicate to proven rows
    known = plan.proven if query.output_leaves else plan.certain
    doubtful, of_predicate = plan.candidates - known, leaves_under(file, query.predicate_paths)
    index = IoCounts()
    # damaged metadata is reported, or replaced, when the rows are read
    with contextlib.suppress(FormatError):
        index.add(0, _load_offset_indexes(query, plan.candidates))
        needed = _locations(query, of_predicate, doubtful)
        everything = [*needed, *_locations(query, query.output_leaves, plan.candidates)]
        gap_bytes = file.source.coalesce_bytes
        is_cheap = _num_bytes(everything, 0) <= ObjectStoreFile.coalesce_bytes
        for locations in (everything, needed) if is_cheap else (needed,):
            if _num_bytes(locations, gap_bytes) <= MAX_PREFETCHED_BYTES:
                file.source.keep(locations)
                break
    return replace(plan, index_bytes=plan.index_bytes + index.bytes)


def _load_offset_indexes(query: FileQuery, rows: RowSelection) -> int:
    """Read the OffsetIndexes that some rows need, and return their bytes."""
    outlines = query.file.metadata.outlines(query.leaves)
    return query.file.load_page_index(
        [
            ChunkKey(group, leaf.ordinal)
            for group in query.groups_with(rows)
            for leaf, of_leaf in zip(query.leaves, outlines, strict=True)
            if not of_leaf.pages[group].is_single
        ]
    )


def _num_bytes(locations: Sequence[ByteRange], gap_bytes: int) -> int:
    """Return the bytes of the requests for some ranges."""
    return sum(request.length for request in coalesce(locations, gap_bytes))


def _locations(query: FileQuery, leaves: Sequence[Leaf], rows: RowSelection) -> list[ByteRange]:
    """Return the byte ranges of the pages of some rows."""
    locations: list[ByteRange] = []
    for group, wanted in query.row_groups(rows) if leaves else ():
        plans, _ = plan_chunks(query, group, list(leaves), wanted)
        for plan in plans:
            locations += plan.pages
            if plan.dictionary is not None and plan.dictionary_use is not DictionaryUse.NEVER:
                locations.append(plan.dictionary)
    return locations
