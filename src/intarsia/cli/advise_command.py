"""``intarsia advise``: which indexes to add, and how to rewrite files, measured on a sample."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.arguments import AsJson, Paths, StorageOptionTexts, parse_storage_options, split_names
from intarsia.cli.failures import UsageError
from intarsia.cli.spark_jobs import refuse_storage_options, run_job
from intarsia.cli.terminal import (
    command_line,
    duration,
    line,
    plain_table,
    print_json,
    printable,
    progress,
    show,
)
from intarsia.read.amounts import count, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from intarsia.advice import Advice, QueryAdvice
    from intarsia.spark.advising import ArrangementAdvice

EXAMPLES = """
intarsia advise flights.parquet --where "tailnum = 'N14228'"
intarsia advise lake/ --where "dest = 'LEX'" --where "distance > 4900" --columns tailnum
intarsia advise lake/ --queries queries.sql
intarsia advise lake/ --where "dest = 'LEX'" --sample 8MB --json | jq -r .command
intarsia advise lake/ --queries queries.sql --spark
intarsia advise flights.parquet
"""

#: Indexes that save less are listed only by ``--json``.
MAX_INDEXES = 12

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?|)b?", re.IGNORECASE)


def parse_size(text: str, option: str = "--sample") -> int:
    """Parse a number of bytes.

    Example:
        >>> parse_size("8MB"), parse_size("1.5 gb"), parse_size("4096"), parse_size("2KiB")
        (8000000, 1500000000, 4096, 2048)

    Raises:
        UsageError: If it is not a positive size.
    """
    match = _SIZE.fullmatch(text.strip())
    num_bytes = int(float(match[1]) * _UNITS[match[2].lower()]) if match else 0
    if num_bytes < 1:
        raise UsageError(f"{option} {text}: it must be a size, such as 64MB", reason="invalid-size")
    return num_bytes


def advise(
    path: Paths,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", "-w", metavar="SQL", help="The predicate of a query; repeatable."),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            "--queries",
            metavar="FILE",
            help="A file of predicates or SELECT statements, one per line or separated by semicolons.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns", "-c", metavar="A,B", help="Columns that the queries of --where read; all by default."
        ),
    ] = None,
    sample: Annotated[
        str, typer.Option("--sample", metavar="SIZE", help="Maximum total size of the sampled row groups.")
    ] = "256MiB",
    spark: Annotated[
        str | None,
        typer.Option(
            "--spark",
            metavar="[MASTER]",
            help="Measure sort orders and page sizes, too, on rows that Spark draws from the whole lake, and "
            "print the command that rewrites it. For the master, see intarsia index --help.",
        ),
    ] = None,
    sample_rows: Annotated[
        int, typer.Option("--sample-rows", metavar="N", min=1, help="Number of rows to draw with --spark.")
    ] = 200_000,
    storage_option: StorageOptionTexts = None,
    json: AsJson = False,
) -> None:
    """Measure what indexes, smaller pages and sorting would save, and print the commands.

    Indexes are built in memory, and rows are written to temporary files; files are not changed. Without
    queries, each column is described.
    """
    import intarsia

    options = parse_storage_options(storage_option)
    refuse_storage_options(options, spark)
    if spark is not None:
        _advise_with_spark(
            spark,
            path,
            {"where": where, "queries": queries, "columns": split_names(columns), "sample_rows": sample_rows},
            as_json=json,
        )
        return

    num_bytes = parse_size(sample)
    with progress("measuring", 100, "%") as show_done:
        advice = intarsia.advise(
            path[0] if len(path) == 1 else path,
            where or None,
            queries=queries,
            columns=split_names(columns),
            sample_bytes=num_bytes,
            storage_options=options,
            show=lambda done, total: show_done(100 * done / max(1, total)),
        )
    if json:
        print_json(advice.to_dict())
    else:
        show(_view(advice))


def _advise_with_spark(master: str, path: list[str], options: dict[str, Any], *, as_json: bool) -> None:
    def job(session: Any) -> ArrangementAdvice:
        from intarsia.spark.advising import advise as advise_with_spark

        return advise_with_spark(session, path[0] if len(path) == 1 else path, **options)

    if not options["where"] and not options["queries"]:
        raise UsageError("--spark needs queries; pass --queries FILE or --where SQL", reason="missing-option")
    advice = run_job(master, job)
    if as_json:
        print_json(advice.to_dict())
    else:
        print("\n".join(map(printable, str(advice).splitlines())))


def _view(advice: Advice) -> Iterator[RenderableType]:
    yield line(f"{advice.sample}, in {duration(advice.seconds)}", style="dim")
    if advice.queries:
        yield line()
        yield _queries(advice)
        for query in advice.queries:
            yield from _obstacles(query)
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
    for option in rewrites:
        yield line(str(option))
        yield command_line(f"  {option.command}")
    yield line()
    yield command_line(advice.verdict, style="bold")


def _queries(advice: Advice) -> RenderableType:
    table = plain_table("bytes read by query", ">now", ">advised", ">minimum", ">full scan", "")
    for query in advice.queries:
        costs = (query.now, query.advised, query.least, query.total)
        times = f"{query.count:,} times" if query.count > 1 else ""
        table.add_row(query.where, *(size(cost.bytes) for cost in costs), times)
    return table


def _obstacles(query: QueryAdvice) -> Iterator[RenderableType]:
    for obstacle in query.obstacles:
        yield line(f"{query.where}: {obstacle.text}", style="yellow")


def _indexes(advice: Advice) -> RenderableType:
    table = plain_table("index", ">size", ">of the files", ">to build", ">saves per query", "")
    shown = [index for index in advice.measured if index.is_advised or index.saved_bytes > 0]
    for index in (shown or advice.measured)[:MAX_INDEXES]:
        saved = f"{'-' if index.saved_bytes < 0 else ''}{size(abs(index.saved_bytes))}"
        table.add_row(
            index.name,
            size(index.bytes),
            f"{index.share:.1%}",
            duration(index.seconds),
            saved if advice.queries else "",
            "advised" if index.is_advised else "",
        )
    return table
