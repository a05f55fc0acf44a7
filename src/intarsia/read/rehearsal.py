"""A rehearsal of reading: every page that a scan would fetch is fetched, and counted.

The rows that match each part of the predicate have to be known. So the cost of a query with other indexes is
exact, and takes no longer than copying the pages.
"""

from __future__ import annotations

from collections.abc import Callable

from intarsia.predicate import Bound
from intarsia.predicate.bound import conjoin
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import PlanReader
from intarsia.rows.selection import RowSelection


def rehearse(query: FileQuery, plan: FilePlan, matching: Callable[[Bound], RowSelection]) -> ReadCounts:
    """Fetch the pages that `read_rows` fetches, as the source of the file counts them.

    Args:
        query: The query.
        plan: The plan of the query.
        matching: A function that returns the rows of the file that match a predicate.

    Returns:
        The counts of the row groups and rows. The pages are added to those of the query.
    """
    matches = [matching(conjoin(plan.stages[: number + 1])) for number in range(len(plan.stages))]
    pieces = PlanReader(query, plan, matches=matches).pieces(plan.candidates)
    return sum((piece.counts for piece in pieces), ReadCounts())
