"""Arguments of several subcommands."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Annotated

import typer

from intarsia.cli.failures import UsageError

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH",
        help="Files, folders or globs; local paths or URLs. delta+URL is a Delta table.",
        show_default=False,
    ),
]
WhereText = Annotated[
    str | None,
    typer.Option(
        "--where", "-w", metavar="SQL", help="Select rows, for example \"user = 42 AND city LIKE 'Ber%'\"."
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option("--columns", "-c", metavar="A,B", help="Columns of the result; all by default."),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.001,
        help="Maximum time that the query may take, with all its requests; no limit by default.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def split_names(given: Sequence[str] | None, option: str = "--columns") -> list[str] | None:
    """Parse column names from repeated options like ``a,b``; ``"x,y"`` is a name with a comma.

    Args:
        given: The values of the option.
        option: Its name, for the error.

    Example:
        >>> split_names(["a,b", '"x,y"'])
        ['a', 'b', 'x,y']

    Raises:
        UsageError: If a name is empty.
    """
    if not given:
        return None
    rows = csv.reader(given, skipinitialspace=True)
    names = [name.strip() for row in rows for name in row if name.strip()]
    if not names:
        raise UsageError(
            f"{option}: the name of a column is empty; name a column, or omit the option",
            reason="empty-column-name",
        )
    return names
