"""Arguments of several subcommands."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from intarsia.cli.failures import UsageError

if TYPE_CHECKING:
    from intarsia.predicate import Predicate

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH",
        help="Files, folders or globs; local paths or URLs. The prefix delta+ selects a Delta table.",
        show_default=False,
    ),
]
WhereTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        "-w",
        metavar="SQL",
        help="Select rows, for example \"user = 42 AND city LIKE 'Ber%'\". Repeatable: rows must match all.",
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
        help="Maximum time of the query, including all its requests; no limit by default.",
    ),
]
StorageOptionTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="NAME=VALUE",
        help="An option of the store of a URL, such as deadline_seconds=20 or aws_region=eu-central-1; "
        "repeatable. Keep secrets in the environment.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


#: Options of stores that are numbers.
_NUMBERS: dict[str, type[int] | type[float]] = {
    "deadline_seconds": float,
    "timeout_seconds": float,
    "max_retries": int,
}


def parse_storage_options(given: Sequence[str] | None) -> dict[str, str | float | int] | None:
    """Parse options of a store from texts like ``max_retries=3``; those that are numbers become numbers.

    Args:
        given: The values of ``--storage-option``.

    Example:
        >>> parse_storage_options(["aws_region=eu-central-1", "max_retries=3"])
        {'aws_region': 'eu-central-1', 'max_retries': 3}

    Raises:
        UsageError: If an option has no name, is set twice, or is not a number where it has to be one.
    """
    if not given:
        return None
    found: dict[str, str | float | int] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().lower()
        if not name or not equals:
            raise UsageError(
                f"--storage-option {text}: it has no name or no value; write it as in max_retries=3",
                reason="invalid-storage-option",
            )
        if name in found:
            raise UsageError(
                f"--storage-option {text}: {name} is set twice; omit one", reason="invalid-storage-option"
            )
        try:
            found[name] = _NUMBERS[name](value) if name in _NUMBERS else value
        except ValueError:
            raise UsageError(
                f"--storage-option {text}: {value!r} is not a number", reason="invalid-storage-option"
            ) from None
    return found


def parse_where(given: Sequence[str] | None) -> str | Predicate | None:
    """Return the predicate of repeated options, which are joined by AND.

    Args:
        given: The values of ``--where``.

    Raises:
        PredicateError: If one of several cannot be parsed.
    """
    if not given or len(given) == 1:
        return given[0] if given else None
    from intarsia.predicate import And, parse_sql

    return And(tuple(map(parse_sql, given)))


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
