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
from intarsia.read.file_rows import Piece, PlanReader
from intarsia.read.pages_read import PagesRead
from intarsia.read.runs import Runs
from intarsia.rows.selection import RowSelection


class PlannedFile(NamedTuple):
    """An open file and its plan."""

    entry: DataFile
    query: FileQuery
    plan: FilePlan


def can_be_together(query: FileQuery, plan: FilePlan) -> bool:
    """Return whether all matching rows of a file could be read together with those of other files."""
    try:
        return bool(Runs(query, plan, plan.candidates).can_be_joined.all())
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
    runs = Runs(query, plan, plan.candidates)
    file_of_group = np.searchsorted(joined.group_edges, runs.groups, side="right") - 1
    alone = np.unique(file_of_group[~runs.can_be_joined])
    wanted = plan.candidates
    if len(alone):
        edges = joined.row_edges
        wanted = wanted - RowSelection.union_of(edges[alone], edges[alone + 1])
    pieces: dict[int, list[Piece]] = {}
    if len(np.unique(file_of_group)) - len(alone) > 1:
        for piece in PlanReader(query, plan).pieces(wanted):
            for ordinal, of_file in piece.by_file(joined):
                pieces.setdefault(ordinal, []).append(of_file)
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
