"""The error that a failed check of an index raises."""

from __future__ import annotations


class ContractError(AssertionError):
    """An index violates its contract.

    Args:
        message: The violation, with the index, the predicate and the rows; then a remedy.
        reason: A code in kebab case, such as ``"excludes-matching-rows"``.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def require(condition: bool, reason: str, message: str) -> None:
    """Raise `ContractError` unless a condition is true."""
    if not condition:
        raise ContractError(message, reason=reason)
