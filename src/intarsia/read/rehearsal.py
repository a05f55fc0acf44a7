"""The reads of a plan without decoding: every page that a scan would fetch is fetched, and counted.

The rows that match each part of the predicate have to be known. So the cost of a query with other indexes is
exact, and takes no longer than copying the pages.
"""

from __future__ import annotations

from collections.abc import Callable

from intarsia.file.decode import PageDecoder
from intarsia.format.footer import chunk_range
from intarsia.predicate import Bound, Path
from intarsia.predicate.bound import conjoin
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.read.file_rows import FileReader
from intarsia.read.row_group import RowGroupColumns
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange


def rehearse(query: FileQuery, plan: FilePlan, matching: Callable[[Bound], RowSelection]) -> ReadCounts:
    """Fetch the pages that `read_rows` fetches, as the source of the file counts them.

    Args:
        query: The query.
        plan: The plan of the query.
        matching: A function that returns the rows of the file that match a predicate.

    Returns:
        The counts of the row groups and rows. The pages are added to those of the query.
    """
    reader, decoder = FileReader(query, plan), PageDecoder(query.file)
    matches = [matching(conjoin(plan.stages[: number + 1])) for number in range(len(plan.stages))]
    edges = query.file.footer.row_group_starts
    counts = ReadCounts(rows_candidate=plan.candidates.num_rows)
    for group, wanted in query.row_groups(plan.candidates):
        start, stop = int(edges[group]), int(edges[group + 1])
        is_proven = reader.is_proven(group, wanted)
        if is_proven and wanted.num_rows == stop - start:
            counts += _fetch_whole(query, group)
            continue
        columns = RowGroupColumns(query, plan, decoder, group)
        found = [] if is_proven else [rows.clip(start, stop).shift(-start) for rows in matches]
        _fetch_phases(query, plan.stages, columns, wanted, found)
        counts += columns.counts()
    return counts


def _fetch_phases(
    query: FileQuery,
    stages: tuple[Bound, ...],
    columns: RowGroupColumns,
    rows: RowSelection,
    matches: list[RowSelection],
) -> None:
    """Fetch the columns of each stage for the rows that are left, then the other columns."""
    known: set[Path] = set()
    for stage, found in zip(stages, matches, strict=False):  # no matches if the rows are proven to match
        needed = [path for path in query.predicate_paths if path in stage.paths() - known]
        columns.fetch(leaves_under(query.file, needed), rows)
        known.update(needed)
        rows = rows & found
        if rows.is_empty:
            return
    missing = [column.path for column in query.columns if column.path not in known]
    columns.fetch(leaves_under(query.file, missing), rows)


def _fetch_whole(query: FileQuery, group: int) -> ReadCounts:
    """Fetch all columns of a row group without their page index."""
    file = query.file
    ranges = [chunk_range(file.footer.chunk_metadata(group, leaf)) for leaf in query.output_leaves]
    file.source.read_ranges([ByteRange(*found) for found in ranges])
    for leaf in query.output_leaves:
        query.pages.add_chunks(leaf.ordinal, [group])
    return ReadCounts(row_groups=1)
