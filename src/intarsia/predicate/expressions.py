"""Translate pyarrow expressions into predicate nodes.

pyarrow pickles an expression as an Arrow record batch: literals and the options of functions are its columns,
and the calls are the keys of its metadata in prefix order. This form loses nothing. Other forms do: the text
abbreviates long lists, and Substrait needs a schema, does not support all types, and drops the null handling
of ``is_in``.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.conforming import metadata_pairs
from intarsia.arrow.nested import field_type
from intarsia.errors import PredicateError
from intarsia.predicate.arrow_lists import Agreement, list_agreement
from intarsia.predicate.expression_functions import call_of
from intarsia.predicate.literals import render_literal
from intarsia.predicate.nodes import (
    And,
    Call,
    ColumnName,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Op,
    Operand,
    Or,
    Predicate,
    RegexpLike,
    contains,
    dotted,
    ends_with,
    starts_with,
)

_COMPARISONS: Final[dict[str, Op]] = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MIRRORED: Final[dict[Op, Op]] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LIKES: Final[dict[str, Callable[[Operand, str], Like]]] = {
    "starts_with": starts_with,
    "ends_with": ends_with,
    "match_substring": contains,
    "match_like": Like,
}
_CHAINS: Final[dict[str, type[And | Or]]] = {"and_kleene": And, "or_kleene": Or}
_NEGATIONS: Final = ("invert", "and_not_kleene")

#: ``null_matching_behavior`` of ``is_in``: null is an element, or null is FALSE.
_MATCH, _SKIP = 0, 1

_DOT_PATH = re.compile(r"(\.[A-Za-z_][A-Za-z0-9_]*)+")

_ARITHMETIC_HINT = "do the arithmetic on the literal, or write the condition as SQL text"
_DEFAULT_HINT = "filter by it after the scan, as in scan.to_arrow().filter(expression)"
_KLEENE_HINT = "combine conditions by the operators &, | and ~"
_HINTS: Final = {
    "and": _KLEENE_HINT,
    "and_": _KLEENE_HINT,
    "or": _KLEENE_HINT,
    "or_": _KLEENE_HINT,
    "and_not": _KLEENE_HINT,
    "xor": _KLEENE_HINT,
    "cast": "compare the column with a literal of the column's type",
    "add": _ARITHMETIC_HINT,
    "add_checked": _ARITHMETIC_HINT,
    "subtract": _ARITHMETIC_HINT,
    "subtract_checked": _ARITHMETIC_HINT,
    "multiply": _ARITHMETIC_HINT,
    "multiply_checked": _ARITHMETIC_HINT,
    "divide": _ARITHMETIC_HINT,
    "divide_checked": _ARITHMETIC_HINT,
    "abs": "use pc.abs_checked",
    "struct_field": "name the field as pc.field('struct', 'field')",
}


@dataclass(frozen=True)
class _Column:
    """A column, or a function of a column."""

    name: Operand


@dataclass(frozen=True)
class _Literal:
    value: object


@dataclass(frozen=True)
class _Part:
    """A call that is not a condition, such as a cast of a column. Using its value raises an error."""

    text: str
    function: str
    column: str | None
    #: A condition that is true in all rows in which the part is true.
    implied: Predicate | None = None


_Value: TypeAlias = "Predicate | _Column | _Literal | _Part"


@dataclass
class _Call:
    """A call that is being read."""

    function: str
    arguments: list[_Value] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def add(self, argument: _Value) -> None:
        """Add an argument that is not a call."""
        self.arguments.append(argument)

    def add_call(self, call: _Call, reduce: Callable[[_Call], _Value]) -> None:
        """Add a call as an argument.

        In a chain such as ``a & b & c``, calls are nested. Their conditions become arguments of one call.
        """
        if call.function != self.function or call.function not in _CHAINS:
            self.arguments.append(reduce(call))
        elif len(self.arguments) < len(call.arguments):  # a long chain is not copied at each level
            call.prepend(self.arguments)
            self.arguments = call.arguments
        else:
            self.arguments.extend(call.arguments)

    def prepend(self, arguments: Sequence[_Value]) -> None:
        """Add arguments before the others."""
        self.arguments[:0] = arguments


def parse_expression(expression: pc.Expression) -> Predicate:
    """Translate a pyarrow expression, which selects the same rows as the predicate.

    Args:
        expression: Comparisons of a column with a literal, ``isin``, ``is_null``, ``is_valid``, ``is_nan``,
            ``starts_with``, ``ends_with``, ``match_like``, ``match_substring``, ``match_substring_regex``, a
            column of booleans, and ``&``, ``|`` and ``~`` of these. Instead of a column, a condition may use
            ``utf8_lower``, ``utf8_upper``, ``utf8_length``, ``utf8_slice_codeunits``, ``year`` to ``minute``,
            ``floor_temporal``, ``abs_checked`` or a cast.

    Raises:
        PredicateError: If a part cannot be translated.

    Example:
        >>> str(parse_expression((pc.field("x") >= 3) & ~pc.field("s").isin(["a", "b"])))
        "x >= 3 AND NOT (s IN ('a', 'b') AND s IS NOT NULL)"
    """
    read = _read_calls(expression, lambda is_negated, call: _reduce(call, is_negated=is_negated))
    found = tuple(_condition(value) for value in read.conjuncts)
    return found[0] if len(found) == 1 else And(found)


@dataclass(frozen=True)
class Conjuncts:
    """The translated part of an expression.

    Attributes:
        predicates: Conditions that are true in all rows in which the expression is true.
        is_complete: Whether they are the whole expression. If not, other rows match them, too.
        columns: The top-level columns of the whole expression; None if they are unknown.
    """

    predicates: tuple[Predicate, ...]
    is_complete: bool
    columns: frozenset[str] | None


def parse_conjuncts(expression: pc.Expression, schema: pa.Schema) -> Conjuncts:
    """Translate the conditions of an expression that can be translated, and leave out the others.

    Complete conditions select the rows that pyarrow selects, even for lists of floats in which pyarrow
    distinguishes values that are equal.

    Args:
        expression: Any expression. Conditions joined by AND are translated one by one.
        schema: The schema of the rows.

    Example:
        >>> schema = pa.schema({"s": pa.string(), "x": pa.float64()})
        >>> found = parse_conjuncts((pc.field("x") >= 3) & (pc.utf8_trim(pc.field("s"), " ") == "a"), schema)
        >>> str(found.predicates[0]), found.is_complete, sorted(found.columns)
        ('x >= 3', False, ['s', 'x'])
    """

    def reduce(is_negated: bool, call: _Call) -> _Value:
        try:
            found = _reduce(call, is_negated=is_negated)
        except PredicateError:
            return _Part(call.function, call.function, None)
        if call.function != "is_in" or isinstance(found, (_Part, _Column, _Literal)):
            return found
        agreement = _agreement(call, schema)
        if agreement == "same":
            return found
        return _Part(call.function, call.function, None, implied=found if agreement == "wider" else None)

    try:
        read = _read_calls(expression, reduce)
    except PredicateError:  # pyarrow cannot serialize it
        return Conjuncts((), False, None)
    conditions: list[Predicate] = []
    implied: list[Predicate] = []
    for value in read.conjuncts:
        if isinstance(value, _Part) and value.implied is not None:
            implied.append(value.implied)
            continue
        with contextlib.suppress(PredicateError):
            conditions.append(_condition(value))
    is_complete = len(conditions) == len(read.conjuncts)
    return Conjuncts((*conditions, *implied), is_complete, frozenset(read.columns))


def _agreement(call: _Call, schema: pa.Schema) -> Agreement:
    column, values = call.arguments[0], call.options["value_set"]
    if not isinstance(column, _Column) or isinstance(column.name, Call):
        return list_agreement(values, None)
    names = (column.name,) if isinstance(column.name, str) else column.name
    return list_agreement(values, field_type(pa.struct(list(schema)), names))


@dataclass(frozen=True)
class _ReadCalls:
    """An expression that was read: the conditions that AND joins, and its top-level columns."""

    conjuncts: list[_Value]
    columns: set[str]


def _read_calls(expression: pc.Expression, reduce: Callable[[bool, _Call], _Value]) -> _ReadCalls:
    calls = [_Call("and_kleene")]  # joins the conditions at the top
    names: list[str] = []
    roots: set[str] = set()
    num_names, num_negations = 1, 0
    columns, tokens = _serialized(expression)
    for token, text in tokens:
        call = calls[-1]
        if token == "call":
            calls.append(_Call(text))
            num_negations += text in _NEGATIONS
        elif token == "nested_field_ref":
            num_names = int(text)
        elif token == "field_ref":
            names.append(text)
            if len(names) == num_names:
                call.add(_Column(_column_name(names)))
                roots.add(names[0])
                names, num_names = [], 1
        elif token == "literal":
            call.add(_Literal(_python_values(columns[int(text)])[0]))
        elif token == "options":
            calls[-1] = replace(call, options=_options(columns[int(text)]))
        elif token == "end":
            calls.pop()
            num_negations -= call.function in _NEGATIONS
            calls[-1].add_call(call, partial(reduce, num_negations > 0))
        else:
            _refuse_form()
    if len(calls) != 1 or not calls[0].arguments:
        _refuse_form()
    return _ReadCalls(calls[0].arguments, roots)


def _serialized(expression: pc.Expression) -> tuple[list[pa.Array], list[tuple[str, str]]]:
    """Return the columns and the calls of an expression as pyarrow pickles it."""
    try:
        _, (stored, *_) = expression.__reduce__()
    except pa.ArrowNotImplementedError as error:
        raise PredicateError(
            f"pyarrow cannot serialize the expression {expression}: {error}; refer to columns by name, such "
            "as pc.field('x')",
            reason="unsupported-expression",
        ) from error
    try:
        batch = pa.ipc.open_file(stored).get_batch(0)
        return batch.columns, [(key.decode(), value.decode()) for key, value in metadata_pairs(batch.schema)]
    except (pa.ArrowException, TypeError):
        _refuse_form()


def _refuse_form() -> NoReturn:
    raise PredicateError(
        f"pyarrow {pa.__version__} serializes expressions in an unknown form; write the predicate as SQL "
        "text, such as \"a = 1 AND b IN ('x', 'y')\"",
        reason="unknown-expression-form",
    )


def _column_name(names: list[str]) -> ColumnName:
    """Return the name of a column: a plain name if it is unambiguous, else an exact path."""
    return names[0] if len(names) == 1 and "." not in names[0] else tuple(names)


def _python_values(values: pa.Array) -> list[Any]:
    """Return literals as Python values, or as scalars if Python has no exact equivalent."""
    if not pa.types.is_temporal(values.type) or pa.types.is_date32(values.type):
        with contextlib.suppress(OverflowError):  # dates after the year 9999
            return list(values.to_pylist())
    return [scalar if scalar.is_valid else None for scalar in values]


def _options(column: pa.StructArray) -> dict[str, Any]:
    """Return the options of a function; the list of ``is_in`` as an array."""
    names = [column.type.field(ordinal).name for ordinal in range(column.type.num_fields)]
    fields = {name: column.field(name) for name in names}
    return {
        name: values[0].values if name == "value_set" else values[0].as_py()
        for name, values in fields.items()
        if name not in ("_type_name", "to_type")
    } | ({"to_type": fields["to_type"].type} if "to_type" in fields else {})


def _reduce(call: _Call, *, is_negated: bool) -> _Value:
    """Return the node of a call, or the part that is not a condition."""
    function, arguments = call.function, call.arguments
    if function in _CHAINS:
        return _CHAINS[function](tuple(map(_condition, arguments)))
    if function == "and_not_kleene":
        return And((_condition(arguments[0]), Not(_condition(arguments[1]))))
    if function == "invert":
        return Not(_condition(arguments[0]))
    if function in _COMPARISONS:
        return _comparison(call)
    if function == "if_else":
        return _null_if_missing(call, is_negated=is_negated)
    column = arguments[0] if arguments else None
    if isinstance(column, _Column):
        if function in ("is_null", "is_valid"):
            missing = IsNull(column.name, negated=function == "is_valid")
            return Or((missing, _is_nan(column))) if call.options.get("nan_is_null") else missing
        if function == "is_nan":
            return _is_nan(column)
        if function == "is_in":
            return _membership(column.name, call, is_negated=is_negated)
        if function in _LIKES or function == "match_substring_regex":
            return _match(column.name, call)
        called = call_of(function, column.name, call.options) if len(arguments) == 1 else None
        if called is not None:
            return _Column(called)
        path = call.options.get("field_ref")
        if function == "struct_field" and isinstance(path, str) and _DOT_PATH.fullmatch(path):
            parts = (column.name,) if isinstance(column.name, str) else column.name
            if isinstance(parts, Call):
                _refuse(_Part(_call_text(call), function, dotted(parts)))
            return _Column((*parts, *path[1:].split(".")))
    return _Part(_call_text(call), function, _column_of(arguments))


def _comparison(call: _Call) -> Predicate:
    left, right = call.arguments
    op = _COMPARISONS[call.function]
    if isinstance(left, _Literal):
        left, op, right = right, _MIRRORED[op], left
    for side in (left, right):
        if isinstance(side, _Part):
            _refuse(side)
    if isinstance(left, _Column) and isinstance(right, _Literal):
        return Comparison(left.name, op, right.value)
    raise PredicateError(
        f"cannot use {_call_text(call)} as a predicate; compare a column with a literal, not with another "
        "column or condition",
        reason="unsupported-expression",
        column=_column_of([left]),
    )


def _null_if_missing(call: _Call, *, is_negated: bool) -> _Value:
    """Return ``if_else(is_valid(x), condition, null)``: SQL's IN as DuckDB writes it."""
    tested, condition, otherwise = call.arguments
    if not isinstance(tested, IsNull) or not tested.negated or otherwise != _Literal(None):
        return _Part(_call_text(call), call.function, _column_of(call.arguments))
    found = _condition(condition)
    if not is_negated:
        return found if isinstance(found, In) and found.column == tested.column else And((tested, found))
    missing = IsNull(tested.column)
    return Or((And((tested, found)), And((missing, Constant(None)))))


def _is_nan(column: _Column) -> Predicate:
    """Return the condition that a value is NaN: only NaN is not less than or equal to infinity."""
    return Not(Comparison(column.name, "<=", math.inf))


def _membership(column: Operand, call: _Call, *, is_negated: bool) -> Predicate:
    """Return ``is_in``. Unlike SQL's IN it is TRUE or FALSE for null, which matters only under a negation."""
    behavior, values = call.options.get("null_matching_behavior"), call.options.get("value_set")
    if behavior not in (_MATCH, _SKIP) or not isinstance(values, pa.Array):
        _refuse(_Part(_call_text(call), call.function, dotted(column)))
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    present = values.drop_null()
    has_null, has_nan = len(present) < len(values), False
    if pa.types.is_floating(present.type):
        numbers = present.filter(pc.invert(pc.is_nan(present)))
        has_nan, present = len(numbers) < len(present), numbers
    literals = _python_values(present)
    conditions: list[Predicate] = [In(column, tuple(literals))] if literals else []
    conditions += [_is_nan(_Column(column))] if has_nan else []
    among = (
        conditions[0] if len(conditions) == 1 else Or(tuple(conditions)) if conditions else Constant(False)
    )
    if has_null and behavior == _MATCH:
        return Or((*conditions, IsNull(column))) if conditions else IsNull(column)
    return And((among, IsNull(column, negated=True))) if is_negated and conditions else among


def _match(column: Operand, call: _Call) -> Predicate:
    pattern, ignore_case = call.options.get("pattern"), bool(call.options.get("ignore_case"))
    if not isinstance(pattern, str):
        _refuse(_Part(_call_text(call), call.function, dotted(column)))
    if call.function == "match_substring_regex":
        return RegexpLike(column, pattern, ignore_case=ignore_case)
    like = _LIKES[call.function](column, pattern)
    return Like(column, like.pattern, ignore_case=ignore_case)


def _condition(value: _Value) -> Predicate:
    """Return a value as a condition: a boolean column is compared with TRUE."""
    if isinstance(value, _Column):
        return Comparison(value.name, "=", True)
    if isinstance(value, _Literal):
        if value.value is None or isinstance(value.value, bool):
            return Constant(value.value)
        raise PredicateError(
            f"the literal {render_literal(value.value)} is not a condition; compare a column with it",
            reason="unsupported-expression",
        )
    if isinstance(value, _Part):
        _refuse(value)
    return value


def _refuse(part: _Part) -> NoReturn:
    raise PredicateError(
        f"cannot use {part.text} in a predicate; {_HINTS.get(part.function, _DEFAULT_HINT)}",
        reason="unsupported-expression",
        column=part.column,
    )


def _column_of(arguments: list[_Value]) -> str | None:
    """Return the column of the first argument that has one."""
    for argument in arguments:
        if isinstance(argument, _Column):
            return dotted(argument.name)
        if isinstance(argument, _Part) and argument.column is not None:
            return argument.column
    return None


def _call_text(call: _Call) -> str:
    return f"{call.function}({', '.join(_text(argument) for argument in call.arguments)})"


def _text(value: _Value) -> str:
    if isinstance(value, _Column):
        return str(value.name) if isinstance(value.name, Call) else dotted(value.name)
    if isinstance(value, _Literal):
        return render_literal(value.value)
    return value.text if isinstance(value, _Part) else f"({value})"
