"""``intarsia advise``: which indexes to add, and how to rewrite files, measured on a sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from intarsia.amounts import count, size
from intarsia.cli.jobs import one_or_all, run_job
from intarsia.cli.options import ColumnNames, Size, parse_storage_options
from intarsia.cli.terminal import (
    UsageError,
    command_line,
    duration,
    line,
    plain_table,
    print_report,
    progress,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from intarsia.advice.report import Advice

#: Indexes that save less are listed only by ``--json``.
MAX_INDEXES = 12


def advise(
    path: list[str],
    where: list[str] | None = None,
    queries: str | None = None,
    columns: ColumnNames = None,
    sample: Size = 256 << 20,
    spark: str | None = None,
    sample_rows: Annotated[int, {"min": 1}] = 200_000,
    storage_option: list[str] | None = None,
    json: bool = False,
) -> None:
    """Measure what indexes, smaller pages and sorting would save, and print the commands.

    Indexes are built in memory, and rows are written to temporary files; files are not changed. Without
    queries, each column is described.

    Options:
        --where -w SQL: The predicate of a query; repeatable.
        --queries FILE: A file of predicates or SELECT statements, one per line or separated by semicolons.
        --columns -c A,B: Columns that the queries of --where read; all by default.
        --sample SIZE: Maximum total size of the sampled row groups; 256MiB by default.
        --spark [MASTER]: Also measure sort orders and page sizes, on rows that Spark draws from the whole
            lake, and print the command that rewrites it. For the master, see intarsia index --help.
        --sample-rows N: Number of rows to draw with --spark.

    Examples:
        intarsia advise flights.parquet --where "tailnum = 'N14228'"
        intarsia advise lake/ --where "dest = 'LEX'" --where "distance > 4900" --columns tailnum
        intarsia advise lake/ --queries queries.sql
        intarsia advise lake/ --where "dest = 'LEX'" --sample 8MB --json | jq -r .command
        intarsia advise lake/ --queries queries.sql --spark
        intarsia advise flights.parquet
    """
    import intarsia

    if spark is not None:
        if not where and not queries:
            raise UsageError(
                "--spark needs queries; pass --queries FILE or --where SQL", reason="missing-option"
            )
        arranged = run_job(
            spark,
            "advise",
            one_or_all(path),
            where or None,
            queries=queries,
            columns=columns,
            sample_rows=sample_rows,
        )
        print_report(arranged.to_dict(), str(arranged), as_json=json)
        return
    with progress("measuring", 100, "%") as show_done:
        advice = intarsia.advise(
            one_or_all(path),
            where or None,
            queries=queries,
            columns=columns,
            sample_bytes=sample,
            storage_options=parse_storage_options(storage_option),
            show=lambda done, total: show_done(100 * done / max(1, total)),
        )
    print_report(advice.to_dict(), _view(advice), as_json=json)


def _view(advice: Advice) -> Iterator[RenderableType]:
    yield line(f"{advice.sample}, in {duration(advice.seconds)}", style="dim")
    if advice.queries:
        yield line()
        table = plain_table("bytes read by query", ">now", ">advised", ">minimum", ">full scan", "")
        for query in advice.queries:
            costs = (query.now, query.advised, query.least, query.total)
            times = f"{query.count:,} times" if query.count > 1 else ""
            table.add_row(query.where, *(size(cost.bytes) for cost in costs), times)
        yield table
        for query in advice.queries:
            for obstacle in query.obstacles:
                yield line(f"{query.where}: {obstacle.text}", style="yellow")
    if advice.columns:
        yield line()
        table = plain_table("column", ">distinct", "")
        for column in advice.columns:
            table.add_row(column.column, count(column.distinct) if column.rows else "", column.text)
        yield table
    if advice.measured:
        yield line()
        yield _indexes(advice)
    for failed in advice.not_built:
        yield line(f"not possible: {failed.name}: {failed.reason}")
    rewrites = [option for option in advice.options if option.rewrites]
    if rewrites:
        yield line()
        yield line("Writing the rows to new files:")
    for change in rewrites:
        yield line(str(change))
        yield command_line(f"  {change.command}")
    yield line()
    yield command_line(advice.verdict, style="bold")


def _indexes(advice: Advice) -> RenderableType:
    table = plain_table("index", ">size", ">of the files", ">to build", ">saves per query", "")
    shown = [index for index in advice.measured if index.is_advised or index.saved_bytes > 0]
    for index in (shown or advice.measured)[:MAX_INDEXES]:
        table.add_row(
            index.name,
            size(index.bytes),
            f"{index.share:.1%}",
            duration(index.seconds),
            size(index.saved_bytes) if advice.queries else "",
            "advised" if index.is_advised else "",
        )
    return table
