"""The parameters of an index, which are checked when it is constructed, before any file is opened."""

from __future__ import annotations

import dataclasses
from typing import Any

from intarsia.errors import IndexBuildError

#: A filter with this rate takes 41 bits per value. A lower rate would cost more than it could save.
_MIN_FPP = 1e-6


def check_granularity(index: Any, *names: str) -> None:
    """Check that ``granularity`` is a `intarsia.indexes.layout.Granularity`.

    Args:
        index: An index with the attribute ``granularity``.
        names: The allowed names. By default all are allowed.

    Raises:
        IndexBuildError: If the granularity is not allowed.
    """
    value = index.granularity
    known = names or ("file", "row_group", "page")
    if value not in known and not _is_integer(value, 1, None):
        raise _invalid(index, "granularity", f"{', '.join(map(repr, known))} or a number of rows")


def check_integer(index: Any, name: str, least: int, greatest: int | None = None) -> None:
    """Check that a parameter is an integer in a range.

    Args:
        index: An index.
        name: The name of the parameter.
        least: The minimum.
        greatest: The maximum, or None.

    Raises:
        IndexBuildError: If the parameter is not an integer in the range.
    """
    if not _is_integer(getattr(index, name), least, greatest):
        end = "or more" if greatest is None else f"to {greatest:,}"
        raise _invalid(index, name, f"an integer of {least:,} {end}")


def check_fpp(index: Any) -> None:
    """Check the false-positive rate ``fpp``.

    Raises:
        IndexBuildError: If the rate is not a float in the valid range.
    """
    if not isinstance(index.fpp, float) or not _MIN_FPP <= index.fpp < 1:
        raise _invalid(index, "fpp", f"a rate between {_MIN_FPP:f} and 1, such as 0.01")


def check_choice(index: Any, name: str, *choices: Any) -> None:
    """Check that a parameter is one of the given values.

    Raises:
        IndexBuildError: If the parameter has another value, or another type.
    """
    value = getattr(index, name)
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise _invalid(index, name, " or ".join(map(repr, choices)))


def _is_integer(value: Any, least: int, greatest: int | None) -> bool:
    return type(value) is int and least <= value and (greatest is None or value <= greatest)


def _invalid(index: Any, name: str, allowed: str) -> IndexBuildError:
    value = getattr(index, name)
    return IndexBuildError(
        f"{type(index).__name__}: {name} is {value!r}; use {allowed}",
        reason=f"invalid-{name.replace('_', '-')}",
    )


def parameters(index: Any) -> dict[str, Any]:
    """Return an index's parameters, such that ``type(index)(**parameters)`` equals the index."""
    return dataclasses.asdict(index)
