"""``intarsia map``: a picture of the pages that a query reads and skips."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path

from intarsia.cli.failures import UsageError
from intarsia.cli.options import ColumnNames, Count, Timeout, parse_storage_options, parse_where
from intarsia.cli.terminal import line, show


def map(
    path: list[str],
    where: list[str] | None = None,
    columns: ColumnNames = None,
    limit: Count = None,
    order_by: str | None = None,
    aggregate: list[str] | None = None,
    output: str = "map.html",
    open: bool = False,
    timeout: Timeout = None,
    storage_option: list[str] | None = None,
) -> None:
    """Run a query, and draw which pages it read and which index skipped the others.

    Options:
        --limit -n N: Maximum number of rows.
        --order-by COLUMNS: The first rows in an order, such as 'amount DESC, day'; needs --limit.
        --aggregate -a SQL: Compute aggregates instead of reading the rows: count(*), or count, sum, min, max,
            avg of columns. Repeatable.
        --output -o FILE: The page to write; it needs no network. A name that ends in .svg is a picture.
        --open: Show the page in the browser.

    Examples:
        intarsia map flights.parquet --where "dest = 'LEX'" -o map.html
        intarsia map lake/ --where "dest = 'LEX'" --columns flight,tailnum --output map.svg
        intarsia map flights.parquet --where "distance > 2000" --aggregate "count(*), max(arr_delay)"
    """
    import intarsia
    from intarsia.cli import answers

    if os.path.splitext(output)[1].lower() not in (".html", ".svg"):
        raise UsageError(
            f"{output}: a map is a page or a picture; write it to a name that ends in .html or .svg",
            reason="unknown-format",
            path=output,
        )
    calls = answers.parse_calls(aggregate) if aggregate else []
    table = intarsia.open(
        path, storage_options=parse_storage_options(storage_option), query_timeout_seconds=timeout
    )
    scan = table.scan(parse_where(where), [] if calls else columns, limit, order_by)
    found = scan.map(aggregate if calls else None)
    found.save(output)
    show([line(f"{output}: {found.summary}")])
    if open:
        webbrowser.open(Path(output).resolve().as_uri())
