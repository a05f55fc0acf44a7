"""A query whose parameters get their values with each scan."""

from __future__ import annotations

from collections.abc import Sequence

from intarsia.lake.query_run import OnError
from intarsia.lake.scan import Scan
from intarsia.lake.scan_arguments import OrderBy
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Parameters, SqlTemplate


class PreparedQuery:
    """A query of a table that is parsed once, made by `Table.prepare`.

    It can be used by several threads, and pickled.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"id": range(1000), "name": ["a", "b"] * 500}), path)
        >>> by_id = ia.open(path).prepare("id = ?", columns=["name"])
        >>> [by_id.scan([id]).to_pylist() for id in (7, 8)]
        [[{'name': 'b'}], [{'name': 'a'}]]
    """

    def __init__(
        self,
        table: TableFiles,
        where: SqlTemplate,
        columns: Sequence[str] | None,
        limit: int | None,
        order_by: OrderBy | None,
        on_error: OnError,
    ) -> None:
        self._table = table
        self._where = where
        self._columns = columns
        self._limit = limit
        self._order_by = order_by
        self._on_error: OnError = on_error

    def __repr__(self) -> str:
        return f"PreparedQuery({self._where.text!r})"

    def scan(self, parameters: Parameters | None = None) -> Scan:
        """Make a scan without running it.

        Args:
            parameters: The values of ``?`` as a list, or those of ``:name`` as a dict. ``IN ?`` takes a list.

        Raises:
            PredicateError: If the query has other parameters, or a value cannot be compared with its column.
        """
        predicate = self._where.bind(parameters)
        return Scan(self._table, predicate, self._columns, self._limit, self._order_by, self._on_error)
