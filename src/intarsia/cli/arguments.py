"""Arguments that several subcommands take."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Annotated

import typer

from intarsia.cli.failures import UsageError

Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH", help="Files, folders or globs; local, or a URL.", show_default=False),
]
WhereText = Annotated[
    str | None,
    typer.Option(
        "--where", "-w", metavar="SQL", help="Which rows, such as \"user = 42 AND city LIKE 'Ber%'\"."
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option("--columns", "-c", metavar="A,B", help="Columns of the result; all, if not given."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout, for programs.")]


def split_names(given: Sequence[str] | None) -> list[str] | None:
    """Column names from ``a,b``, which may be given more than once; ``"x,y"`` is a name with a comma.

    Example:
        >>> split_names(["a,b", '"x,y"'])
        ['a', 'b', 'x,y']

    Raises:
        UsageError: If the option is given, and names no column.
    """
    if not given:
        return None
    rows = csv.reader(given, skipinitialspace=True)
    names = [name.strip() for row in rows for name in row if name.strip()]
    if not names:
        raise UsageError("--columns: the name of a column is empty; leave the option out for all columns")
    return names
