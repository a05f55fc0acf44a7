"""Dates in conditions on partition columns, whose values are text in the names of folders."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from intarsia.errors import PredicateError
from intarsia.lake.data_file import DataFile
from intarsia.predicate import And, Comparison, In, Not, Or, Predicate

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def dates_as_text(
    predicate: Predicate, files: Sequence[DataFile], types: Mapping[str, pa.DataType]
) -> Predicate:
    """Compare partition columns with the text of dates, as in folders named ``day=2024-01-01``.

    The order of such texts is the order of the dates, so the condition has the same meaning.

    Args:
        predicate: A predicate on the table.
        files: The files of the table.
        types: The type of each partition column.

    Raises:
        PredicateError: If a date is compared with a partition column whose values are text, but not dates.

    Example:
        >>> files = [DataFile("lake/day=2024-01-01/a.parquet", 0, (("day", "2024-01-01"),))]
        >>> condition = Comparison("day", ">=", dt.date(2024, 1, 1))
        >>> str(dates_as_text(condition, files, {"day": pa.string()}))
        "day >= '2024-01-01'"
    """
    checked: set[str] = set()

    def as_text(column: object, value: object) -> object:
        name = column if isinstance(column, str) else ".".join(column) if isinstance(column, tuple) else ""
        if not _is_date(value) or name not in types or not pa.types.is_string(types[name]):
            return value
        if name not in checked:
            _check_dates(name, files)
            checked.add(name)
        return value.isoformat()  # type: ignore[attr-defined]

    return _with_literals(predicate, as_text)


def _with_literals(node: Predicate, convert: Callable[[object, object], object]) -> Predicate:
    """The same predicate with other literals; the node itself if no literal changes."""
    if isinstance(node, And | Or):
        children = tuple(_with_literals(child, convert) for child in node.children)
        is_same = all(new is old for new, old in zip(children, node.children, strict=True))
        return node if is_same else dataclasses.replace(node, children=children)
    if isinstance(node, Not):
        child = _with_literals(node.child, convert)
        return node if child is node.child else Not(child)
    if isinstance(node, Comparison):
        value = convert(node.column, node.value)
        return node if value is node.value else dataclasses.replace(node, value=value)
    if isinstance(node, In) and any(map(_is_date, node.values)):
        return dataclasses.replace(node, values=tuple(convert(node.column, value) for value in node.values))
    return node


def _is_date(value: object) -> bool:
    return isinstance(value, dt.date) and not isinstance(value, dt.datetime)


def _check_dates(name: str, files: Sequence[DataFile]) -> None:
    for text in {value for file in files for key, value in file.partition if key == name and value}:
        try:
            if _DATE.fullmatch(text):
                dt.date.fromisoformat(text)
                continue
        except ValueError:
            pass
        raise PredicateError(
            f"partition column {name!r} cannot be compared with a date, because its value {text!r} is not a "
            "date such as 2024-01-01; compare it with text",
            reason="partition-not-date",
            column=name,
        )
