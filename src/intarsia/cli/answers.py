"""The results of `intarsia query`: the rows that match, a sample, or one row of aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from intarsia.arrow.comparison import comparison_type
from intarsia.cli.terminal import UsageError
from intarsia.errors import IntarsiaError, PredicateError
from intarsia.indexes.distinct_counter import is_counted
from intarsia.indexes.summaries import sum_type
from intarsia.lake.query_run import OnError
from intarsia.lake.scan import Scan
from intarsia.lake.table import Table
from intarsia.predicate import Predicate, find_column
from intarsia.read import aggregate as aggregates
from intarsia.read.aggregate import (
    APPROX_DISTINCT,
    AVERAGE_DIGITS,
    ROWS,
    AggregateCall,
    questions,
)
from intarsia.read.output_columns import OutputColumn, output_columns
from intarsia.read.report import ScanReport
from intarsia.records import dataclass


@dataclass(frozen=True)
class PrintedRows:
    """Rows to print.

    Attributes:
        schema: Their schema.
        batches: The rows.
        reports: Returns a report for each pass over the files, after all rows were taken.
    """

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    reports: Callable[[], list[ScanReport]]


def parse_calls(texts: Sequence[str]) -> list[AggregateCall]:
    """Parse the values of ``--aggregate``: ``count(*), sum(distance) AS far``.

    Raises:
        UsageError: If a text contains anything but aggregates, or an unknown function.
    """
    try:
        return aggregates.parse_calls(texts)
    except PredicateError as error:
        raise UsageError(f"--aggregate: {error.message}", reason=error.reason) from error


def renamed(scan: Scan, names: list[str] | None, batches: Iterable[pa.RecordBatch]) -> PrintedRows:
    """Return the batches, with struct fields named by their whole path if their names are not unique."""
    schema = scan.schema
    if names is not None and len(set(schema.names)) < len(schema):
        schema = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
    return PrintedRows(
        schema, (batch.rename_columns(schema.names) for batch in batches), lambda: [scan.report]
    )


def aggregated(
    table: Table, where: str | Predicate | None, calls: Sequence[AggregateCall], on_error: OnError = "raise"
) -> PrintedRows:
    """Return one row with the aggregates of the rows that match.

    The exact functions take one pass over the files, and each ``approx_distinct`` another one.

    Raises:
        UsageError: If a function is not defined for its column.
    """
    requested = [(call, _column_of(table.schema, call)) for call in calls]
    exact: dict[str, list[str]] = {}
    for call, column in requested:
        if call.function != APPROX_DISTINCT and call.function not in exact.setdefault(_key(column), []):
            exact[_key(column)].append(call.function)
    _check(exact, requested)
    scan = table.scan(where, [], on_error=on_error)
    found: dict[tuple[str, str], Any] = {}
    reports = []
    if exact:
        totals = scan.aggregate(exact)
        found |= {(name, function): value for name in totals for function, value in totals[name].items()}
        reports.append(totals.report)
    for call, column in requested:
        if call.function == APPROX_DISTINCT:
            count = scan.approx_distinct(_key(column))
            found[_key(column), call.function] = int(count)
            reports.append(count.report)
    values = [found[_key(column), call.function] for call, column in requested]
    arrays = [
        pa.array([value], _type_of(call.function, column, value))
        for (call, column), value in zip(requested, values, strict=True)
    ]
    row = pa.RecordBatch.from_arrays(arrays, names=[call.name for call in calls])
    return PrintedRows(row.schema, [row], lambda: reports)


def _column_of(schema: pa.Schema, call: AggregateCall) -> OutputColumn | None:
    """Return the column of a call under its name in the library."""
    if call.column is None:
        return None
    name = call.column if isinstance(call.column, str) else ".".join(find_column(schema, call.column)[0])
    (column,) = output_columns(schema, [name])
    is_other = isinstance(call.column, tuple) and column.path != call.column
    if is_other or name == ROWS:
        raise UsageError(
            f"--aggregate: the column of {call.name} is ambiguous: another one is named {name!r}",
            reason="ambiguous-column",
            column=name,
        )
    return OutputColumn(name, column.path, column.type)


def _key(column: OutputColumn | None) -> str:
    return ROWS if column is None else column.name


def _check(
    exact: dict[str, list[str]], requested: Sequence[tuple[AggregateCall, OutputColumn | None]]
) -> None:
    """Check that the functions are defined for their columns, before anything is read."""
    columns = {column.name: column for _, column in requested if column is not None}
    try:
        questions(exact, [columns[name] for name in exact if name != ROWS])
    except IntarsiaError:
        raise
    except ValueError as error:
        raise UsageError(f"--aggregate: {error}", reason="invalid-aggregate") from None
    for call, column in requested:
        if call.function == APPROX_DISTINCT and column and not is_counted(comparison_type(column.type)):
            raise UsageError(
                f"--aggregate: {call.name} is not defined for a column of type {column.type}",
                reason="unsupported-type",
                column=column.name,
            )


def _type_of(function: str, column: OutputColumn | None, value: Any) -> pa.DataType:
    """Return the type of a result; sums of integers are ``int64``, or a decimal if they overflow."""
    if column is None or function in ("count", APPROX_DISTINCT):
        return pa.int64()
    data_type = comparison_type(column.type)
    if function in ("min", "max"):
        return column.type if isinstance(column.type, pa.BaseExtensionType) else data_type
    if function == "sum" and pa.types.is_integer(data_type):
        return pa.int64() if value is None or -(2**63) <= value < 2**63 else sum_type(data_type)
    if function == "avg" and pa.types.is_decimal(data_type):
        precision, scale = data_type.precision + AVERAGE_DIGITS, data_type.scale + AVERAGE_DIGITS
        return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    return sum_type(data_type) if function == "sum" else pa.float64()
