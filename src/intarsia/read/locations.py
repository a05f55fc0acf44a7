"""The locations of the rows that match: their row groups, pages and row numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from intarsia.file import ChunkKey
from intarsia.format.footer import Leaf
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan, current_plan, retry_without_wrong_index
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.read.file_rows import read_known_rows
from intarsia.read.output_columns import OutputColumn
from intarsia.read.report import FileOutcome
from intarsia.rows.selection import Rows, RowSelection

#: The columns of the result of `locate_rows`.
LOCATIONS = pa.schema(
    [
        ("path", pa.string()),
        ("row_group", pa.int32()),
        ("page", pa.int32()),
        ("row", pa.int64()),
    ]
)


def locate_rows(query: FileQuery, plan: FilePlan, column: OutputColumn) -> tuple[pa.Table, FileOutcome]:
    """Locate the rows of a file that match.

    Args:
        query: The query, without columns.
        column: The column whose pages are numbered; if it is nested, those of its first leaf.

    Returns:
        A row of `LOCATIONS` for each row, and the outcome of the query.
    """
    file = query.file
    rows, outcome = matching_rows(query, plan)
    numbers = rows.rows()
    edges = file.footer.row_group_starts
    groups = np.searchsorted(edges, numbers, side="right") - 1
    leaves = leaves_under(file, [query.own(column).path])
    with file.named_errors():
        pages = _page_numbers(query, leaves[0], numbers, groups) if leaves else np.full(len(numbers), -1)
    arrays = [
        pa.repeat(file.path, len(numbers)),
        pa.array(groups, pa.int32()),
        pa.array(pages, pa.int32(), mask=pages < 0),
        pa.array(numbers, pa.int64()),
    ]
    return pa.Table.from_arrays(arrays, schema=LOCATIONS), outcome


def matching_rows(query: FileQuery, plan: FilePlan) -> tuple[RowSelection, FileOutcome]:
    """Return the rows of a file that match, and the outcome; rows that are proven to match are not read.

    Args:
        query: The query, without columns.
    """
    return retry_without_wrong_index(query.file, lambda: _matching_rows(query, current_plan(query, plan)))


def _matching_rows(query: FileQuery, plan: FilePlan) -> tuple[RowSelection, FileOutcome]:
    known = plan.proven & plan.candidates
    query.check_row_counts(known)
    counts = ReadCounts(rows_candidate=known.num_rows, rows_matched=known.num_rows)
    found = known
    for piece in read_known_rows(query, plan, plan.candidates - known):
        found = found | piece.numbers
        counts += piece.counts
    return found, FileOutcome(plan, counts)


def _page_numbers(query: FileQuery, leaf: Leaf, numbers: Rows, groups: Rows) -> Rows:
    """Return the ordinal of the page of a leaf that contains each row; -1 without an OffsetIndex."""
    file = query.file
    pages = np.full(len(numbers), -1, dtype=np.int64)
    touched = np.unique(groups).tolist()
    file.load_page_index([ChunkKey(group, leaf.ordinal) for group in touched])
    for group in touched:
        locations = file.locations(ChunkKey(group, leaf.ordinal))
        if locations is not None:
            here = slice(*np.searchsorted(groups, [group, group + 1]))
            within = numbers[here] - int(file.footer.row_group_starts[group])
            pages[here] = np.searchsorted(locations.rows.starts, within, side="right") - 1
    return pages
