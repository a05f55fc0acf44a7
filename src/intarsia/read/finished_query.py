"""What a monitoring hook is told about a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from intarsia.read.report import ScanReport
from intarsia.records import dataclass


@dataclass(frozen=True, slots=True)
class FinishedQuery:
    """A query of a table that has ended, for monitoring; see ``on_report`` of `intarsia.open`.

    Attributes:
        table: The path of the file, the folder or the table.
        where: The predicate as SQL text, with its values; None for all rows.
        columns: The dotted names of the columns of the result and of the predicate.
        report: What was read and skipped, and why. Complete.
        error: The error that ended the query; None if it was answered, or if the caller took only a part of
            the rows.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"x": range(1000)}), path)
        >>> queries = []
        >>> ia.open(path, on_report=queries.append).count("x < 3")
        3
        >>> queries[0].where, queries[0].report.rows_matched, queries[0].error
        ('x < 3', 3, None)
    """

    table: str
    where: str | None
    columns: tuple[str, ...]
    report: ScanReport
    error: Exception | None


#: Called with each query of a table when it has ended, by the thread that ended it.
OnReport: TypeAlias = Callable[[FinishedQuery], object]
