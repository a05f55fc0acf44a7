"""Small files that are read together: the same columns of several files are decoded and compared at once.

Reading a single file takes at least about a thousand function calls. So small files with the same columns are
joined into one file, as for planning, and their row groups are read as one run. The pages of objects have
been read before, 32 objects at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from intarsia.errors import IntarsiaError
from intarsia.file.joined import JoinedInput, JoinedMetadata
from intarsia.lake.data_file import DataFile
from intarsia.lake.snapshot import TableCache
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import Piece
from intarsia.read.pages_read import PagesRead
from intarsia.read.row_group import RowReader
from intarsia.read.row_group_run import RowGroupRun, RowGroupRuns, RunColumns
from intarsia.rows.selection import RowSelection


class PlannedFile(NamedTuple):
    """An open file and its plan."""

    entry: DataFile
    query: FileQuery
    plan: FilePlan


def can_be_together(query: FileQuery, plan: FilePlan) -> bool:
    """Return whether all matching rows of a file could be read together with those of other files."""
    try:
        return bool(RowGroupRuns(query, plan, plan.candidates).can_be_joined.all())
    except (IntarsiaError, OSError):  # reading the file raises it
        return False


def read_together(files: Sequence[PlannedFile], joined: TableCache) -> dict[int, list[Piece]]:
    """Read the matching rows of files with the same columns, if each needs only whole row groups of one page.

    Args:
        files: The files, which are small.
        joined: The cache for their joined metadata.

    Returns:
        The matching rows of some of the files, by position in ``files``. The others are read separately:
        files with pages to skip, and all files if one of them is damaged, so that the error names it.
    """
    families: dict[Hashable, list[int]] = {}
    for position, file in enumerate(files):
        if not file.plan.candidates.is_empty:
            families.setdefault(_family_of(file.query), []).append(position)
    found: dict[int, list[Piece]] = {}
    for ordinals in families.values():
        if len(ordinals) > 1:
            try:
                pieces = _read_family([files[at] for at in ordinals], joined)
            except (IntarsiaError, OSError):
                continue
            found |= {ordinals[ordinal]: of_file for ordinal, of_file in pieces.items()}
    return found


def _family_of(query: FileQuery) -> Hashable:
    """Return a key that is equal for files that can be read together."""
    predicate, constants = query.predicate, query.constants
    assert predicate is not None
    values = tuple((path, constants[path]) for path in sorted(predicate.paths()) if path in constants)
    return query.file.schema, predicate, values, tuple(column.path for column in query.columns)


def _read_family(files: Sequence[PlannedFile], cache: TableCache) -> dict[int, list[Piece]]:
    """Read files of one family; see `read_together`."""
    inputs = [file.query.file for file in files]
    joined = cache.join(
        [
            file.entry.joined_part(one.metadata, one.source.identity)
            for one, file in zip(inputs, files, strict=True)
        ]
    )
    input_ = JoinedInput(joined, [one.source for one in inputs])
    query = replace(files[0].query, file=input_, deleted=RowSelection.none(), pages=PagesRead())
    plan = _joined_plan([file.plan for file in files], joined)
    runs = RowGroupRuns(query, plan, plan.candidates)
    file_of_group = np.searchsorted(joined.group_edges, runs.groups, side="right") - 1
    alone = np.unique(file_of_group[~runs.can_be_joined])
    if len(alone):
        edges = joined.row_edges
        rest = plan.candidates - RowSelection.union_of(edges[alone], edges[alone + 1])
        runs = RowGroupRuns(query, plan, rest)
    pieces: dict[int, list[Piece]] = {}
    if len(np.unique(file_of_group)) - len(alone) > 1:
        for run in runs:
            for ordinal, piece in _read_run(query, plan, run, joined):
                pieces.setdefault(ordinal, []).append(piece)
    for ordinal in pieces:
        start, stop = joined.group_edges[ordinal : ordinal + 2].tolist()
        files[ordinal].query.pages.add_of_groups(query.pages, start, stop)
    return pieces


def _joined_plan(plans: Sequence[FilePlan], joined: JoinedMetadata) -> FilePlan:
    """Return the plans of files as that of the joined file."""
    edges = joined.row_edges[:-1].tolist()

    def join(parts: Iterator[RowSelection]) -> RowSelection:
        shifted = [part.shift(start) for part, start in zip(parts, edges, strict=True)]
        starts, stops = ([getattr(part, name) for part in shifted] for name in ("starts", "stops"))
        return RowSelection.union_of(np.concatenate(starts), np.concatenate(stops))

    return FilePlan(
        join(plan.candidates for plan in plans),
        join(plan.certain for plan in plans),
        join(plan.proven for plan in plans),
        plans[0].stages,
        dictionary_pages={
            start + offset: page
            for plan, start in zip(plans, joined.starts, strict=False)
            for offset, page in plan.dictionary_pages.items()
        },
    )


def _read_run(
    query: FileQuery, plan: FilePlan, run: RowGroupRun, joined: JoinedMetadata
) -> Iterator[tuple[int, Piece]]:
    """Read a run, and yield the piece of each file that it contains."""
    columns = RunColumns(query, run.groups, plan.dictionary_pages)
    stages = () if run.is_proven else plan.stages
    rows, _, matches = RowReader(query, columns).read([RowSelection.all(columns.num_rows)], stages)
    numbers = columns.row_numbers(matches)
    group_positions = np.searchsorted(run.groups, joined.group_edges)
    sizes = np.diff(query.file.footer.row_group_starts)
    row_positions = np.concatenate([[0], np.cumsum(numbers.count_between(joined.row_edges))])
    for ordinal in np.flatnonzero(np.diff(group_positions)).tolist():
        start, stop = int(group_positions[ordinal]), int(group_positions[ordinal + 1])
        first, last = int(row_positions[ordinal]), int(row_positions[ordinal + 1])
        counts = replace(
            columns.counts_of(start, stop),
            rows_candidate=int(sizes[run.groups[start:stop]].sum()),
            rows_matched=last - first,
        )
        edge = int(joined.row_edges[ordinal])
        own = numbers.clip(edge, int(joined.row_edges[ordinal + 1])).shift(-edge)
        yield ordinal, Piece(rows.slice(first, last - first), counts, own)
