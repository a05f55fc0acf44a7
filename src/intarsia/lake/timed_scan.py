"""Scans whose runs have a time limit."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import cast

import pyarrow as pa

from intarsia.lake.file_runs import OnError
from intarsia.lake.order_by import OrderBy
from intarsia.lake.scan import Scan
from intarsia.lake.split import Split
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Predicate
from intarsia.read.aggregate import Totals
from intarsia.read.aggregate.calls import Requested
from intarsia.read.approximate import ApproximateCount
from intarsia.read.report import ScanReport
from intarsia.storage.deadline import Deadline, applied


def new_scan(
    table: TableFiles,
    predicate: Predicate | None,
    columns: Sequence[str] | None,
    limit: int | None,
    order_by: OrderBy | None = None,
    on_error: OnError = "raise",
) -> Scan:
    """Make a scan of a table, with a deadline if the table has one; see `Scan`."""
    scan_class = Scan if table.query_timeout_seconds is None else TimedScan
    return scan_class(table, predicate, columns, limit, order_by, on_error)


class TimedScan(Scan):
    """A scan whose runs have a time limit; see ``query_timeout_seconds`` of `intarsia.open`.

    Its first run includes the requests for the schema of the table, which are made before it.
    """

    def __init__(
        self,
        table: TableFiles,
        predicate: Predicate | None,
        columns: Sequence[str] | None,
        limit: int | None,
        order_by: OrderBy | None = None,
        on_error: OnError = "raise",
    ) -> None:
        self._of_next_run = table.new_deadline()
        with applied(self._of_next_run):
            super().__init__(table, predicate, columns, limit, order_by, on_error)

    def _new_run(self) -> Deadline | None:
        deadline, self._of_next_run = self._of_next_run, self._table.new_deadline()
        return deadline

    def to_arrow(self) -> pa.Table:
        """See `Scan.to_arrow`."""
        with applied(self._new_run()):
            return super().to_arrow()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """See `Scan.__iter__`; the time that the caller takes between two batches does not count."""
        return self._timed(super().__iter__())

    def read_ahead(self) -> Generator[pa.RecordBatch, None, None]:
        """See `Scan.read_ahead`; the time that the caller takes between two batches does not count."""
        return self._timed(super().read_ahead())

    def _timed(self, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
        deadline = self._new_run()
        with contextlib.closing(cast("Generator[pa.RecordBatch, None, None]", batches)):
            while True:
                with applied(deadline):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch

    def explain(self, *, analyze: bool = False) -> ScanReport:
        """See `Scan.explain`."""
        with applied(self._new_run()):
            return super().explain(analyze=analyze)

    def plan(self, split_bytes: int | None = None) -> list[Split]:
        """See `Scan.plan`."""
        with applied(self._new_run()):
            return super().plan(split_bytes)

    def totals(self, requested: Requested) -> Totals:
        """See `Scan.totals`; counts and aggregates are computed from them."""
        with applied(self._new_run()):
            return super().totals(requested)

    def locate(self, column: str | None = None) -> pa.Table:
        """See `Scan.locate`."""
        with applied(self._new_run()):
            return super().locate(column)

    def approx_distinct(self, column: str) -> ApproximateCount:
        """See `Scan.approx_distinct`."""
        with applied(self._new_run()):
            return super().approx_distinct(column)

    def count_distinct(self, column: str) -> int:
        """See `Scan.count_distinct`."""
        with applied(self._new_run()):
            return super().count_distinct(column)

    def value_counts(self, column: str, limit: int | None = None) -> pa.Table:
        """See `Scan.value_counts`."""
        with applied(self._new_run()):
            return super().value_counts(column, limit)

    def sketches(self, column: str, lg_config_k: int = 12) -> pa.Table:
        """See `Scan.sketches`."""
        with applied(self._new_run()):
            return super().sketches(column, lg_config_k)

    def sample(self, n: int | None = None, seed: int | None = None) -> pa.Table:
        """See `Scan.sample`."""
        with applied(self._new_run()):
            return super().sample(n, seed)
