"""A query whose parameters get their values with each scan."""

from __future__ import annotations

from collections.abc import Callable

from intarsia.lake.scan import Scan
from intarsia.predicate import Parameters, Predicate, SqlTemplate


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

    def __init__(self, where: SqlTemplate, scan: Callable[[Predicate], Scan]) -> None:
        self._where = where
        self._scan = scan

    def __repr__(self) -> str:
        return f"PreparedQuery({self._where.text!r})"

    def scan(self, parameters: Parameters | None = None) -> Scan:
        """Make a scan without running it.

        Args:
            parameters: The values of ``?`` as a list, or those of ``:name`` as a dict. ``IN ?`` takes a list.

        Raises:
            PredicateError: If the query has other parameters, or a value cannot be compared with its column.
        """
        return self._scan(self._where.bind(parameters))
