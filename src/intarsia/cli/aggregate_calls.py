"""Parse ``--aggregate`` as SQL: ``count(*), sum(distance) AS far``."""

from __future__ import annotations

from collections.abc import Sequence

from intarsia.cli.failures import UsageError
from intarsia.errors import PredicateError
from intarsia.read.aggregate import calls
from intarsia.read.aggregate.calls import APPROX_DISTINCT, AggregateCall

__all__ = ["APPROX_DISTINCT", "AggregateCall", "parse_calls"]


def parse_calls(texts: Sequence[str]) -> list[AggregateCall]:
    """Parse the texts of --aggregate into calls.

    Raises:
        UsageError: If a text contains anything but aggregates, or an unknown function.
    """
    try:
        return calls.parse_calls(texts)
    except PredicateError as error:
        raise UsageError(f"--aggregate: {error.message}", reason=error.reason) from error
