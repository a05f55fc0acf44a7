"""The facts of one file of a traced query: its pages, its other parts, and how much of each was read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from intarsia.file import ParquetInput
from intarsia.format.footer import MAGIC, TRAILER_BYTES, Leaf
from intarsia.lake.lanes import Lanes, TracedRows, joined_steps
from intarsia.picture.facts import (
    FilePages,
    FilePart,
    Look,
    Step,
    look_of,
    name_of,
)
from intarsia.read.pruner import PruneStep
from intarsia.rows.selection import RowSelection

Int64s = npt.NDArray[np.int64]

#: The most matching rows and ranges of rows that a picture shows one by one.
MAX_MARKS = 2_000


def file_facts(file: ParquetInput, name: str, traced: TracedRows, num_lanes: int) -> FilePages:
    """Return the facts of a file.

    Args:
        file: The open file, with the metadata that the query used.
        traced: What the query learnt about it.
        num_lanes: The number of lanes of all files in the picture.
    """
    pages = Lanes(file, traced, num_lanes)
    lanes = [pages.lane(leaf) for leaf in file.footer.leaves]
    reads = RowSelection(*merged(pages.reads).T)
    directory = file.metadata.directory
    num_rows = file.footer.num_rows
    return FilePages(
        path=name,
        num_bytes=file.footer.file_length,
        num_rows=num_rows,
        writer=file.footer.created_by or "an unknown writer",
        edges=file.footer.row_group_starts.tolist(),
        states=pages.states,
        steps=[_step(one) for one in pages.steps],
        answered=[_step(one) for one in joined_steps(traced.answered)],
        candidates=traced.candidates.flat(MAX_MARKS),
        num_candidates=traced.candidates.num_rows,
        certain=traced.certain.flat(MAX_MARKS),
        num_certain=traced.certain.num_rows,
        matches=None if traced.matches is None else _some(traced.matches),
        num_matches=traced.num_matches,
        lanes=lanes,
        parts=file_parts(
            file, [leaf for leaf in file.footer.leaves if leaf.ordinal in pages.with_parts], reads
        ),
        reads=reads.flat(MAX_MARKS),
        num_read=reads.num_rows,
        num_requests=0 if traced.reads is None else len(traced.reads),
        original_bytes=None if directory is None else directory.original_length,
        least_bytes=pages.least_bytes,
        columns_bytes=sum(lane.num_bytes or 0 for lane in lanes if lane.role),
    )


def _step(step: PruneStep) -> Step:
    gone = step.before - step.after
    return Step(
        step.index,
        step.column,
        name_of(step.index),
        look_of(step.index),
        gone.num_rows,
        step.after.num_rows,
        gone.flat(MAX_MARKS),
    )


def _some(rows: RowSelection) -> list[int]:
    """Return some of the rows, evenly chosen if there are many."""
    numbers = np.linspace(0, rows.num_rows - 1, min(rows.num_rows, MAX_MARKS)).astype(np.int64)
    before = np.r_[0, np.cumsum(rows.stops - rows.starts)]
    ranges = np.searchsorted(before, numbers, side="right") - 1
    found: list[int] = (rows.starts[ranges] + numbers - before[ranges]).tolist() if len(numbers) else []
    return found


# --- the parts that are not data pages --------------------------------------------------------------


#: The most parts of a file that a picture shows one by one.
_MAX_PARTS = 500


def merged(ranges: Int64s) -> Int64s:
    """Return ranges as ascending ranges that neither touch nor overlap.

    Example:
        >>> merged(np.array([[8, 9], [0, 4], [2, 6], [6, 7]])).tolist()
        [[0, 7], [8, 9]]
    """
    rows = RowSelection.union_of(*ranges.T)
    return np.stack([rows.starts, rows.stops], axis=1)


def file_parts(file: ParquetInput, leaves: Sequence[Leaf], reads: RowSelection) -> list[FilePart]:
    """Return the parts of a file that are not data pages, and how much of each was read.

    Args:
        leaves: The columns whose page indexes and Bloom filters are included.
        reads: The bytes that were read.
    """
    found: list[tuple[int, int, Look, str]] = []
    for of_leaf in file.metadata.outlines.of(leaves):
        for begins, lengths, label in (
            (of_leaf.offset_indexes, of_leaf.offset_index_bytes, "OffsetIndexes"),
            (of_leaf.column_indexes, of_leaf.column_index_bytes, "ColumnIndexes"),
        ):
            has = (begins > 0) & (lengths > 0)
            for start, length in zip(begins[has].tolist(), lengths[has].tolist(), strict=True):
                found.append((start, start + length, "page_index", label))
    for leaf in leaves:
        for chunk in file.metadata.chunks_of(leaf):
            meta = chunk.meta_data
            if meta is not None and meta.bloom_filter_offset and meta.bloom_filter_length:
                start = meta.bloom_filter_offset
                found.append((start, start + meta.bloom_filter_length, "bloom", "Bloom filters"))
    end, directory = file.footer.file_length, file.metadata.directory
    found += [
        (entry.offset, entry.offset + entry.length, "embedded", entry.name)
        for entry in (() if directory is None else directory.entries)
        if entry.inline is None
    ]
    found.append((file.footer.start, end, "footer", "footer"))
    if directory is not None:
        stop = directory.original_length
        trailer = file.source.read(stop - TRAILER_BYTES, stop)
        if trailer[4:] == MAGIC:
            num_bytes = int.from_bytes(trailer[:4], "little") + TRAILER_BYTES
            found.append((stop - num_bytes, stop, "footer", "footer of the original file"))
    gap, joined = 64, _joined_parts(found, 64)
    while len(joined) > _MAX_PARTS and gap < end:
        gap *= 8
        joined = _joined_parts(joined, gap)
    return [FilePart(*part, reads.clip(part[0], part[1]).num_rows) for part in joined]


def _joined_parts(parts: Sequence[tuple[int, int, Look, str]], gap: int) -> list[tuple[int, int, Look, str]]:
    """Return parts in order; neighbours of one kind with less than a number of bytes between them are one."""
    joined: list[tuple[int, int, Look, str]] = []
    for start, stop, look, label in sorted(parts):
        if joined and joined[-1][2:] == (look, label) and start - joined[-1][1] < gap:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]), look, label)
        else:
            joined.append((start, stop, look, label))
    return joined
