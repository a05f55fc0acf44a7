"""Options that name indexes: ``--add``, ``--distinct`` and ``--bloom``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.failures import UsageError
from intarsia.cli.index_calls import parse_index

if TYPE_CHECKING:
    from intarsia.embed import Bloom
    from intarsia.indexes.distinct import Distinct

IndexCalls = Annotated[
    list[str] | None,
    typer.Option(
        "--add",
        metavar="KIND(COL, NAME=VALUE)",
        help="Add an index of any kind (see intarsia index --list), such as "
        "'distinct(dest, max_values=500)'; repeatable.",
    ),
]
DistinctColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--distinct",
        metavar="COL[:GRANULARITY]",
        help="Add the distinct values of a column per page (default), row_group, file or number of rows; "
        "repeatable.",
    ),
]
BloomColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--bloom",
        metavar="COL[:FPP]",
        help="Add Parquet's Bloom filters of a column with the false-positive rate FPP (default 0.01); "
        "repeatable.",
    ),
]

GRANULARITIES = ("page", "row_group", "file")


def parse_indexes(
    bloom: Sequence[str] | None, distinct: Sequence[str] | None, add: Sequence[str] | None
) -> list[Any]:
    """Parse the values of the three options; None for an option that is not used.

    Example:
        >>> parse_indexes(["user"], None, ["bloom(dest)"])
        [Bloom(column='user', fpp=0.01), Bloom(column='dest', fpp=0.01)]

    Raises:
        UsageError: If a value is invalid.
    """
    found: list[Any] = [parse_bloom(text) for text in bloom or ()]
    found += [parse_distinct(text) for text in distinct or ()]
    return found + [parse_index(text) for text in add or ()]


def parse_distinct(text: str) -> Distinct:
    """Parse a `Distinct` from ``COLUMN`` or ``COLUMN:GRANULARITY``.

    Example:
        >>> parse_distinct("dest:row_group")
        Distinct(column='dest', granularity='row_group', max_values=None, form='granules')

    Raises:
        UsageError: If the granularity is unknown.
    """
    from intarsia.errors import near_matches
    from intarsia.indexes.distinct import Distinct

    column, colon, granularity = text.rpartition(":")
    if not colon:
        return Distinct(text)
    if granularity in GRANULARITIES:
        return Distinct(column, granularity)
    if granularity.isdecimal() and int(granularity):
        return Distinct(column, int(granularity))
    near = near_matches(granularity, GRANULARITIES)
    hint = f"did you mean {near[0]}?" if near else "use page, row_group, file or a number of rows"
    raise UsageError(
        f"--distinct {text}: unknown granularity {granularity!r}; {hint}", reason="unknown-granularity"
    )


def parse_bloom(text: str) -> Bloom:
    """Parse a `Bloom` from ``COLUMN`` or ``COLUMN:FPP``.

    Example:
        >>> parse_bloom("user:0.001")
        Bloom(column='user', fpp=0.001)

    Raises:
        UsageError: If FPP is not a number between 0 and 1.
    """
    from intarsia.embed import Bloom
    from intarsia.errors import IndexBuildError

    column, colon, share = text.rpartition(":")
    if not colon:
        return Bloom(text)
    try:
        return Bloom(column, float(share))
    except (ValueError, IndexBuildError):
        raise UsageError(
            f"--bloom {text}: {share!r} is not a false-positive rate between 0 and 1, such as 0.01",
            reason="invalid-fpp",
        ) from None
