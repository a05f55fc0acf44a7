"""Translate Polars predicates into nodes. It imports Polars, and is loaded on first use.

A translated condition has the same value as Polars' in every row, even when it is negated. In Polars, NaN
equals NaN and is greater than all numbers, and lists with null are FALSE for other values.

For a scan by Polars, which evaluates its predicates itself, a condition that is not translated only means
that fewer pages are skipped. In a ``where``, it is an error.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars.io.plugins import register_io_source

from intarsia.amounts import cut
from intarsia.arrow.nested import field_type, is_list
from intarsia.arrow.owned_rows import no_rows
from intarsia.errors import ColumnNotFoundError, PredicateError
from intarsia.predicate.expressions import column_name, is_nan, null_if_missing, python_values
from intarsia.predicate.nodes import (
    MIRRORED,
    And,
    Call,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Op,
    Operand,
    Or,
    Predicate,
    contains,
    ends_with,
    starts_with,
)

_COMPARISONS: Final[dict[str, Op]] = {
    "Eq": "=",
    "NotEq": "<>",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
}
_BOTH: Final = ("And", "LogicalAnd")
_EITHER: Final = ("Or", "LogicalOr")
_BOUNDS: Final[dict[str, tuple[Op, Op]]] = {
    "Both": (">=", "<="),
    "Left": (">=", "<"),
    "Right": (">", "<="),
    "None": (">", "<"),
}

#: Integers below this bound are equal to their 64-bit floats.
_EXACT_FLOATS: Final = 2**53

#: The types of floats in JSON.
_FLOATS: Final = {"Float": pa.float64(), "Float64": pa.float64(), "Float32": pa.float32()}

#: The types to which integers are cast to compare them. Polars before 1.42 leaves that of a float open.
_TYPES_OF_FLOATS: Final = ("Float64", {"Unknown": "Float"})
_TYPES_OF_INTEGERS: Final = ("Int16", "Int32", "Int64", "UInt16", "UInt32", "UInt64")

#: A regular expression that matches only its own text.
_PLAIN_TEXT: Final = re.compile(r"[A-Za-z0-9 _/:,;@=-]*")


#: Functions of text and of moments with the results of SQL.
_FUNCTIONS: Final = {
    **{
        ("TemporalExpr", part): (part.lower(), pa.int64())
        for part in ("Year", "Quarter", "Month", "Day", "Hour", "Minute")
    },
    ("TemporalExpr", "Date"): ("date", pa.date32()),
    ("StringExpr", "LenChars"): ("length", pa.int64()),
}
_CLOCK: Final = ("Hour", "Minute")


class _UntranslatableError(Exception):
    """A part of a predicate that is left to Polars.

    Attributes:
        node: The condition that contains it; None if it is not known yet.
    """

    def __init__(self, node: Any = None) -> None:
        super().__init__()
        self.node = node


def parse_polars(predicate: pl.Expr, schema: pa.Schema) -> Predicate:
    """Translate a Polars expression, which selects the same rows as the predicate.

    Args:
        schema: The schema of the rows; dictionaries are categories.

    Raises:
        ColumnNotFoundError: If a column does not exist.
        PredicateError: If a part cannot be translated, or Polars refuses the expression.

    Example:
        >>> str(parse_polars(pl.col("s").is_in(["a", "b"]), pa.schema({"s": pa.string()})))
        "s IN ('a', 'b')"
    """
    if not isinstance(predicate, pl.Expr):
        raise PredicateError(
            f"a predicate must be an expression, not a Polars {type(predicate).__name__}; write it as "
            "polars.col('a') == 1",
            reason="polars-expression",
        )
    try:
        return _Translator(schema).condition(_resolved(predicate, schema))
    except _UntranslatableError as error:
        raise _refusal(_text(predicate) if error.node is None else _text_of_part(error.node)) from None
    except (pl.exceptions.PolarsError, RecursionError, pa.ArrowException) as error:
        raise PredicateError(
            f"Polars cannot evaluate {_text(predicate)}: {error}", reason="polars-expression"
        ) from error
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, (PredicateError, ColumnNotFoundError)):
            raise
        raise _refusal(_text(predicate)) from error  # the form of another version of Polars


def _resolved(predicate: pl.Expr, schema: pa.Schema) -> Any:
    """Return the expression as a query of Polars passes it to a source: with the types of its literals.

    Raises:
        ColumnNotFoundError: If a column does not exist.
        _UntranslatableError: If Polars does not pass the whole expression, because it needs several rows or
            names no columns.
    """
    if predicate.meta.has_multiple_outputs():  # it selects columns
        raise _UntranslatableError
    names = dict.fromkeys(predicate.meta.root_names())
    for name in names:
        if schema.get_field_index(name) < 0:
            raise ColumnNotFoundError(name, schema.names)
    rows = pl.DataFrame(no_rows(schema).select(list(names) or schema.names[:1]))
    passed: list[pl.Expr | None] = []

    def read(
        _columns: list[str] | None, condition: pl.Expr | None, _rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        passed.append(condition)
        yield rows

    query = register_io_source(read, schema=rows.schema).filter(predicate)
    query.collect()
    is_whole = query.explain().startswith("PYTHON SCAN")  # else Polars evaluates a part itself
    if not is_whole or len(passed) != 1 or passed[0] is None:
        raise _UntranslatableError
    return json.loads(passed[0].meta.serialize(format="json"))


def _text(expression: pl.Expr) -> str:
    """Render an expression for a message."""
    return cut(" ".join(str(expression).split()), 120)


def _text_of_part(node: Any) -> str:
    """Render a part of a serialized expression for a message."""
    try:
        return _text(pl.Expr.deserialize(io.StringIO(json.dumps(node)), format="json"))
    except pl.exceptions.PolarsError:  # JSON has no NaN
        return "a condition with NaN or an infinite number"


def _refusal(text: str) -> PredicateError:
    return PredicateError(
        f"cannot translate {text} of a Polars expression; write the condition as SQL text, such as "
        "\"a = 1 AND lower(b) = 'x'\", or use intarsia.polars.scan(path).filter(...)",
        reason="polars-expression",
    )


def necessary_conditions(predicate: pl.Expr, schema: pa.Schema) -> list[Predicate]:
    """Return conditions that are true in all rows in which a predicate is true.

    Returns:
        The conditions that can be translated, of those joined by AND.

    Example:
        >>> schema = pa.schema({"x": pa.int64(), "s": pa.string()})
        >>> predicate = (pl.col("x") > 3) & (pl.col("s").str.to_uppercase() == "A")
        >>> [*map(str, necessary_conditions(predicate, schema))]
        ['x > 3']
    """
    try:
        return _Translator(schema).necessary(json.loads(predicate.meta.serialize(format="json")))
    # it cannot be serialized, is nested too deeply, or has the form of another version of Polars
    except (pl.exceptions.PolarsError, RecursionError, LookupError, TypeError, ValueError):
        return []


class _Translator:
    def __init__(self, schema: pa.Schema) -> None:
        self._rows = pa.struct(list(schema))

    def necessary(self, node: Any) -> list[Predicate]:
        """Return the translatable conditions of those joined by AND at the top."""
        try:
            node_type, body = _parts(node)
            if node_type == "BinaryExpr" and body["op"] in _BOTH:
                return [*self.necessary(body["left"]), *self.necessary(body["right"])]
            return [self.condition(node)]
        except _UntranslatableError:
            return []

    def condition(self, node: Any) -> Predicate:
        """Return a condition with the value of a node in every row.

        Raises:
            _UntranslatableError: If there is none.
        """
        try:
            return self._condition(node)
        except _UntranslatableError as error:
            if error.node is None:
                raise _UntranslatableError(node) from error
            raise

    def _condition(self, node: Any) -> Predicate:
        node_type, body = _parts(node)
        if node_type == "BinaryExpr":
            return self._binary(body)
        if node_type == "Function":
            return self._function(body)
        if node_type == "Ternary":
            return self._ternary(body)
        if node_type == "Literal":
            value = _literal(node)
            if value.is_valid and pa.types.is_boolean(value.type):
                return Constant(value.as_py())
        if node_type == "Column":
            column, data_type = self._column(node)
            if pa.types.is_boolean(data_type):
                return Comparison(column, "=", True)
        raise _UntranslatableError

    def _binary(self, body: Any) -> Predicate:
        op, left, right = body["op"], body["left"], body["right"]
        if op in _BOTH:
            return And((self.condition(left), self.condition(right)))
        if op in _EITHER:
            return Or((self.condition(left), self.condition(right)))
        if op == "EqValidity":
            column, _ = self._column(left)
            return And((self._comparison("=", left, right), IsNull(column, negated=True)))
        if op not in _COMPARISONS:
            raise _UntranslatableError
        if _parts(left)[0] == "Literal":
            return self._comparison(MIRRORED[_COMPARISONS[op]], right, left)
        return self._comparison(_COMPARISONS[op], left, right)

    def _comparison(self, op: Op, left: Any, right: Any) -> Predicate:
        value = _literal(right)
        if not value.is_valid:
            raise _UntranslatableError
        column, data_type = self._number(left, value)
        if pa.types.is_floating(value.type) and not math.isfinite(value.as_py()):
            raise _UntranslatableError
        if pa.types.is_dictionary(data_type) and op not in ("=", "<>"):
            raise _UntranslatableError  # the order of categories may be another one
        found = Comparison(column, op, python_values(pa.repeat(value, 1))[0])
        if pa.types.is_floating(data_type) and op in (">", ">="):
            return Or((found, is_nan(column)))
        return found

    def _number(self, node: Any, value: pa.Scalar) -> tuple[Operand, pa.DataType]:
        """Return a column, or one that is cast without changing its comparison with a value."""
        node_type, body = _parts(node)
        if node_type != "Cast":
            return self._column(node)
        column, data_type = self._column(body["expr"])
        if not _is_exact(data_type, _parts(body["dtype"])[1], value):
            raise _UntranslatableError
        return column, data_type

    def _function(self, body: Any) -> Predicate:
        (family, name), inputs = _function_name(body["function"]), body["input"]
        if family == "Boolean" and isinstance(name, str):
            if name == "Not":
                return Not(self.condition(inputs[0]))
            column, data_type = self._column(inputs[0])
            if name in ("IsNull", "IsNotNull"):
                return IsNull(column, negated=name == "IsNotNull")
            if name == "IsNan" and pa.types.is_floating(data_type):
                return is_nan(column)
        if family == "Boolean" and isinstance(name, dict):
            ((name, options),) = name.items()
            if name == "IsBetween":
                lower, upper = _BOUNDS[options["closed"]]
                return And(
                    (self._comparison(lower, *inputs[:2]), self._comparison(upper, inputs[0], inputs[2]))
                )
            if name == "IsIn" and not options["nulls_equal"]:
                return self._membership(*inputs)
        if family == "StringExpr":
            return self._text(name, *inputs)
        if family == "ListExpr" and isinstance(name, dict) and "Contains" in name:
            return self._list_contains(*inputs)
        column, data_type = self._column({"Function": body})
        if pa.types.is_boolean(data_type):
            return Comparison(column, "=", True)
        raise _UntranslatableError

    def _membership(self, node: Any, values: Any) -> Predicate:
        literal = _literal(values)
        if not literal.is_valid or not pa.types.is_large_list(literal.type):
            raise _UntranslatableError
        found = literal.values.drop_null()
        column, _ = self._number(node, pa.scalar(None, found.type))
        if pa.types.is_floating(found.type) and pc.any(pc.is_nan(found)).as_py():
            raise _UntranslatableError
        if not len(found):
            return null_if_missing(column, Constant(False))  # an empty In is FALSE for null
        return In(column, tuple(python_values(found)))

    def _text(self, name: Any, node: Any, *rest: Any) -> Predicate:
        column, data_type = self._column(node)
        pattern = _literal(rest[0]).as_py() if len(rest) == 1 and _is_text(data_type) else None
        if isinstance(pattern, str):
            if name in ("StartsWith", "EndsWith"):
                return (starts_with if name == "StartsWith" else ends_with)(column, pattern)
            options = name.get("Contains") if isinstance(name, dict) else None
            if options and (options["literal"] or _PLAIN_TEXT.fullmatch(pattern)):
                return contains(column, pattern)
        raise _UntranslatableError

    def _list_contains(self, node: Any, value: Any) -> Predicate:
        column, data_type = self._column(node)
        literal = _literal(value)
        if is_list(data_type) and literal.is_valid:
            for is_alike in (pa.types.is_integer, _is_text):
                if is_alike(data_type.value_type) and is_alike(literal.type):
                    return Comparison(Call("array_contains", column, (literal.as_py(),)), "=", True)
        raise _UntranslatableError

    def _ternary(self, body: Any) -> Predicate:
        """Return ``when(x.is_not_null()).then(FALSE)``, to which Polars simplifies impossible comparisons."""
        node_type, inner = _parts(body["predicate"])
        if node_type == "Function" and inner["function"] == {"Boolean": "IsNotNull"}:
            truthy, falsy = _literal(body["truthy"]), _literal(body["falsy"])
            if truthy.is_valid and pa.types.is_boolean(truthy.type) and not falsy.is_valid:
                column, _ = self._column(inner["input"][0])
                return null_if_missing(column, Constant(truthy.as_py()))
        raise _UntranslatableError

    def _column(self, node: Any) -> tuple[Operand, pa.DataType]:
        """Return a column, a field of a struct or a function of one, and its type."""
        called = self._call(node)
        if called is not None:
            return called
        path: list[str] = []
        node_type, body = _parts(node)
        while node_type == "Function":
            family, name = _function_name(body["function"])
            if family != "StructExpr" or not isinstance(name, dict) or "FieldByName" not in name:
                raise _UntranslatableError
            path.insert(0, name["FieldByName"])
            node_type, body = _parts(body["input"][0])
        data_type = field_type(self._rows, [body, *path]) if node_type == "Column" else None
        if data_type is None:
            raise _UntranslatableError
        return column_name([body, *path]), data_type

    def _call(self, node: Any) -> tuple[Operand, pa.DataType] | None:
        """Return a function of a column and its type; None if the node is another one."""
        node_type, body = _parts(node)
        family, name = _function_name(body["function"]) if node_type == "Function" else ("", None)
        if not isinstance(name, str) or (family, name) not in _FUNCTIONS or len(body["input"]) != 1:
            return None
        column, data_type = self._column(body["input"][0])
        is_moment = pa.types.is_timestamp(data_type) or (pa.types.is_date32(data_type) and name not in _CLOCK)
        if not (is_moment if family == "TemporalExpr" else _is_text(data_type)):
            raise _UntranslatableError
        function, result = _FUNCTIONS[family, name]
        return Call(function, column), result


def _parts(node: Any) -> tuple[str, Any]:
    """Return the type of a node and its contents."""
    if not isinstance(node, dict) or len(node) != 1:
        raise _UntranslatableError
    ((node_type, body),) = node.items()
    return node_type, body


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _is_exact(data_type: pa.DataType, target: Any, value: pa.Scalar) -> bool:
    """Return whether a cast of a column does not change how it compares with a value."""
    if pa.types.is_decimal(data_type) and isinstance(target, dict) and "Decimal" in target:
        precision, scale = target["Decimal"]
        more_digits = precision - scale - (data_type.precision - data_type.scale)
        return bool(scale >= data_type.scale and more_digits >= 0)
    if not pa.types.is_integer(data_type):
        return False
    if pa.types.is_floating(value.type):
        return target in _TYPES_OF_FLOATS and value.is_valid and abs(value.as_py()) < _EXACT_FLOATS
    return target in _TYPES_OF_INTEGERS and np.can_cast(data_type.to_pandas_dtype(), target.lower())


def _function_name(function: Any) -> tuple[str, Any]:
    return _parts(function) if isinstance(function, dict) else ("", function)


def _literal(node: Any) -> pa.Scalar:
    """Return the value of a literal.

    Polars reads floats of its own JSON inexactly, so they are taken from the JSON.

    Raises:
        _UntranslatableError: If the node is not a literal, or JSON does not represent its value, as for NaN.
    """
    node_type, body = _parts(node)
    if node_type != "Literal":
        raise _UntranslatableError
    kind, contents = _parts(_parts(body)[1])
    if kind in _FLOATS:
        return _float(contents, _FLOATS[kind])
    if kind == "Struct":  # its fields may be floats
        raise _UntranslatableError
    try:
        literal = pl.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")
        return pl.select(literal).to_series().to_arrow()[0]
    except pl.exceptions.PolarsError as error:
        raise _UntranslatableError from error


def _float(number: Any, data_type: pa.DataType) -> pa.Scalar:
    if not isinstance(number, float):  # NaN and infinite numbers are null in JSON
        raise _UntranslatableError
    value = pa.scalar(number, data_type)
    if data_type == pa.float32() and float(str(np.float32(number))) != number:
        raise _UntranslatableError  # it was rounded twice: to 64 bits, then to 32
    return value
