"""``intarsia explain``: what a query would read, and why."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from intarsia.cli.arguments import (
    AsJson,
    ColumnNames,
    Paths,
    StorageOptionTexts,
    Timeout,
    WhereTexts,
    parse_storage_options,
    parse_where,
    split_names,
)
from intarsia.cli.terminal import command_line, line, print_json, show

EXAMPLES = """
intarsia explain lake/ --where "dest = 'LEX'"
intarsia explain flights.parquet --where "time_hour >= '2013-07-01' AND dest = 'LEX'" --columns tailnum
intarsia explain lake/ --where "dest = 'LEX' AND month = 11" --analyze
intarsia explain lake/ --where "dest = 'LEX'" --json | jq .pruned_by
"""


def explain(
    path: Paths,
    where: WhereTexts = None,
    columns: ColumnNames = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Also run the query, and show what it read.")
    ] = False,
    timeout: Timeout = None,
    storage_option: StorageOptionTexts = None,
    json: AsJson = False,
) -> None:
    """Show what a query would read and what each index excludes, without reading data pages."""
    import intarsia

    options = parse_storage_options(storage_option)
    table = intarsia.open(path, storage_options=options, query_timeout_seconds=timeout)
    condition = parse_where(where)
    report = table.explain(condition, split_names(columns), analyze=analyze)
    if json:
        print_json(report.to_dict())
        return
    from intarsia.cli.report_view import tables

    show(tables(report, planned=not analyze))
    if report.advice is not None:
        show([line(), line(f"advice: {report.advice.text}", style="yellow")])
        command = ["intarsia", "lake-index", *path]
        if report.advice.code == "run-advise":
            command = ["intarsia", "advise", *path, "--where", str(condition or ""), *_options(columns)]
        show([command_line(f"  {shlex.join(command)}")])


def _options(columns: list[str] | None) -> list[str]:
    return [text for value in columns or () for text in ("--columns", value)]
