"""Parameters of indexes, checked when an index is named: once for all files, before any is opened."""

from __future__ import annotations

from typing import Any

from intarsia.errors import IndexBuildError

#: Such a filter takes 41 bits for each value; less than that is out of proportion to what it could save.
_LEAST_FPP = 1e-6


def check_granularity(index: Any, *names: str) -> None:
    """Refuse what is no `intarsia.indexes.base.Granularity`.

    Args:
        index: An index with the attribute ``granularity``.
        names: Those that it knows by name; all, if none are given.

    Raises:
        IndexBuildError: If it is another.
    """
    value = index.granularity
    known = names or ("file", "row_group", "page")
    if value not in known and not _is_integer(value, 1, None):
        raise _refusal(index, "granularity", f"{', '.join(map(repr, known))} or a number of rows")


def check_integer(index: Any, name: str, least: int, most: int | None = None) -> None:
    """Refuse what is no integer in a range.

    Args:
        index: An index.
        name: The parameter.
        least: The least value.
        most: The greatest; None: there is none.

    Raises:
        IndexBuildError: If it is not in the range.
    """
    if not _is_integer(getattr(index, name), least, most):
        end = "or more" if most is None else f"to {most:,}"
        raise _refusal(index, name, f"an integer of {least:,} {end}")


def check_fpp(index: Any) -> None:
    """Refuse a share of false positives, ``fpp``, that no filter has.

    Raises:
        IndexBuildError: If it is no share.
    """
    if not isinstance(index.fpp, float) or not _LEAST_FPP <= index.fpp < 1:
        raise _refusal(index, "fpp", f"a share between {_LEAST_FPP:f} and 1, such as 0.01")


def check_choice(index: Any, name: str, *choices: Any) -> None:
    """Refuse what is none of a few values.

    Raises:
        IndexBuildError: If it is another, or of another type.
    """
    value = getattr(index, name)
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise _refusal(index, name, " or ".join(map(repr, choices)))


def _is_integer(value: Any, least: int, most: int | None) -> bool:
    return type(value) is int and least <= value and (most is None or value <= most)


def _refusal(index: Any, name: str, allowed: str) -> IndexBuildError:
    value = getattr(index, name)
    return IndexBuildError(f"{type(index).__name__}: {name} is {value!r}; use {allowed}")
