"""The facts of one file of a traced query."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from intarsia.file import ParquetInput
from intarsia.lake.file_parts import file_parts, merged
from intarsia.lake.lanes import Lanes, TracedRows, joined_steps
from intarsia.picture.facts import (
    FilePages,
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
    reads = merged(pages.reads)
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
        candidates=_flat(traced.candidates),
        num_candidates=traced.candidates.num_rows,
        certain=_flat(traced.certain),
        num_certain=traced.certain.num_rows,
        matches=None if traced.matches is None else _some(traced.matches),
        num_matches=traced.num_matches,
        lanes=lanes,
        parts=file_parts(
            file, [leaf for leaf in file.footer.leaves if leaf.ordinal in pages.with_parts], reads
        ),
        reads=_flat(RowSelection(*reads.T)),
        num_read=int((reads[:, 1] - reads[:, 0]).sum()),
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
        _flat(gone),
    )


def _flat(rows: RowSelection) -> list[int]:
    """Return rows as a flat list of ranges; the closest ranges are joined if there are too many."""
    starts, stops = rows.starts, rows.stops
    if len(starts) > MAX_MARKS:
        gaps = starts[1:] - stops[:-1]
        keep = np.sort(np.argsort(gaps)[::-1][: MAX_MARKS - 1])
        starts, stops = np.r_[starts[:1], starts[1:][keep]], np.r_[stops[:-1][keep], stops[-1:]]
    found: list[int] = np.stack([starts, stops], axis=1).ravel().tolist()
    return found


def _some(rows: RowSelection) -> list[int]:
    """Return some of the rows, evenly chosen if there are many."""
    numbers = np.linspace(0, rows.num_rows - 1, min(rows.num_rows, MAX_MARKS)).astype(np.int64)
    before = np.r_[0, np.cumsum(rows.stops - rows.starts)]
    ranges = np.searchsorted(before, numbers, side="right") - 1
    found: list[int] = (rows.starts[ranges] + numbers - before[ranges]).tolist() if len(numbers) else []
    return found
