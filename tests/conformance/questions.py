"""The conditions of the conformance suite: their form in JSON, in SQL, and what they mean, by pyarrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

#: A condition: column, operator and value, as in ``cases.json``. The conditions of a query are joined by AND.
Condition = list


def sql_of(where: list[Condition]) -> str:
    """Return the conditions as SQL."""
    return " AND ".join(map(_sql, where))


def _sql(condition: Condition) -> str:
    column, operator, value = condition
    if operator == "in":
        return f"{column} IN ({', '.join(map(_literal, value))})"
    if operator in ("starts with", "contains"):
        return f"{column} LIKE '{'%' if operator == 'contains' else ''}{value}%'"
    return f"{column} IS NULL" if operator == "is null" else f"{column} {operator} {_literal(value)}"


def _literal(value: object) -> str:
    return str(value).upper() if isinstance(value, bool | int | float) else f"'{value}'"


def matching_rows(table: pa.Table, where: list[Condition]) -> list[int]:
    """Return the ordinals of the rows that match, by pyarrow's own functions."""
    keep = pa.chunked_array([pa.array([True] * table.num_rows)])
    for column, operator, value in where:
        keep = pc.and_(keep, pc.fill_null(_matches(table[column], operator, value), False))
    return pc.indices_nonzero(keep).to_pylist()


def _matches(values: pa.ChunkedArray, operator: str, value: object) -> pa.ChunkedArray:
    if operator == "is null":
        return pc.is_null(values)
    if pa.types.is_float16(values.type):  # Arrow does not compare them
        values = values.cast(pa.float32())
    if operator == "starts with":
        return pc.starts_with(values, value)
    if operator == "contains":
        return pc.match_substring(values, value)
    if operator == "in":
        found = [pc.equal(values, _scalar(one, values.type)) for one in value]
        matches = found[0]
        for more in found[1:]:
            matches = pc.or_(matches, more)
        return matches
    functions = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
    return functions[operator](values, _scalar(value, values.type))


def _scalar(value: object, type_: pa.DataType) -> pa.Scalar:
    if isinstance(value, str):  # the text of a date, a timestamp or a decimal
        return pa.scalar(value).cast(type_)
    return pa.scalar(value, pa.float64() if pa.types.is_floating(type_) else type_)
