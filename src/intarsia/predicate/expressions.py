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
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Final, Literal, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.nested import field_type, metadata_pairs
from intarsia.errors import PredicateError
from intarsia.predicate.evaluate import KERNELS
from intarsia.predicate.literals import NS_PER_WORD, render_literal
from intarsia.predicate.nodes import (
    MIRRORED,
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
from intarsia.records import dataclass

_COMPARISONS: Final[dict[str, Op]] = {kernel: op for op, kernel in KERNELS.items()}
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

#: ``stop`` of ``utf8_slice_codeunits`` without an end.
_NO_STOP: Final = (1 << 63) - 1

_DOT_PATH = re.compile(r"(\.[A-Za-z_][A-Za-z0-9_]*)+")

#: Functions with one result for each value that have the same name and results in SQL, or another name.
_FUNCTIONS: Final = {
    "utf8_lower": "lower",
    "utf8_upper": "upper",
    "utf8_length": "length",
    "abs_checked": "abs",
    **{part: part for part in ("year", "quarter", "month", "day", "hour", "minute")},
}
#: `CalendarUnit` of pyarrow; SQL does not have the first one.
_UNITS: Final = (*NS_PER_WORD, "month", "quarter", "year")
_SQL_TYPES: Final = {
    pa.string(): "TEXT",
    pa.large_string(): "TEXT",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
}

_DEFAULT_HINT = "filter by it after the scan, as in scan.to_arrow().filter(expression)"
_HINTS: Final = {
    **dict.fromkeys(
        ("and", "and_", "or", "or_", "and_not", "xor"), "combine conditions by the operators &, | and ~"
    ),
    # pyarrow computes in the type of the column, where integers overflow and 32-bit floats are rounded
    **dict.fromkeys(
        (f"{name}{end}" for name in ("add", "subtract", "multiply", "divide") for end in ("", "_checked")),
        "do the arithmetic on the literal, or write the condition as SQL text",
    ),
    "cast": "compare the column with a literal of the column's type",
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

    def add_call(self, call: _Call, reduce: Callable[[_Call, bool], _Value], is_negated: bool) -> None:
        """Add a call as an argument.

        In a chain such as ``a & b & c``, calls are nested. Their conditions become arguments of one call.
        """
        if call.function != self.function or call.function not in _CHAINS:
            self.arguments.append(reduce(call, is_negated))
        elif len(self.arguments) < len(call.arguments):  # a long chain is not copied at each level
            self.arguments = call.prepended(self.arguments)
        else:
            self.arguments.extend(call.arguments)

    def prepended(self, arguments: list[_Value]) -> list[_Value]:
        """Add arguments before the others, and return them."""
        self.arguments[:0] = arguments
        return self.arguments

    def add(self, argument: _Value) -> None:
        """Add an argument that is not a call."""
        self.arguments.append(argument)

    @property
    def part(self) -> _Part:
        """The call as an argument that is not a condition."""
        columns = (_column_of(argument) for argument in self.arguments)
        text = f"{self.function}({', '.join(map(_text, self.arguments))})"
        return _Part(text, self.function, next(filter(None, columns), None))


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
    found = tuple(map(_condition, _read_calls(expression, _reduce)[0]))
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

    Example:
        >>> schema = pa.schema({"s": pa.string(), "x": pa.float64()})
        >>> found = parse_conjuncts((pc.field("x") >= 3) & (pc.utf8_trim(pc.field("s"), " ") == "a"), schema)
        >>> str(found.predicates[0]), found.is_complete, sorted(found.columns)
        ('x >= 3', False, ['s', 'x'])
    """

    def reduce(call: _Call, is_negated: bool) -> _Value:
        try:
            found = _reduce(call, is_negated)
        except PredicateError:
            return _Part(call.function, call.function, None)
        if call.function != "is_in" or isinstance(found, (_Part, _Column, _Literal)):
            return found
        agreement = _list_agreement(call, schema)
        if agreement == "same":
            return found
        return _Part(call.function, call.function, None, implied=found if agreement == "wider" else None)

    try:
        conjuncts, columns = _read_calls(expression, reduce)
    except PredicateError:  # pyarrow cannot serialize it
        return Conjuncts((), False, None)
    conditions: list[Predicate] = []
    implied: list[Predicate] = []
    for value in conjuncts:
        if isinstance(value, _Part) and value.implied is not None:
            implied.append(value.implied)
            continue
        with contextlib.suppress(PredicateError):
            conditions.append(_condition(value))
    is_complete = len(conditions) == len(conjuncts)
    return Conjuncts((*conditions, *implied), is_complete, frozenset(columns))


def _list_agreement(call: _Call, schema: pa.Schema) -> Literal["same", "wider", "other"]:
    """Return whether ``=`` finds the rows that ``is_in`` finds, these and maybe others, or other rows.

    pyarrow converts the list to the type of the column, even if this rounds. It compares the bits of floats,
    so that zeros differ by sign, and NaNs by payload.
    """
    column, of = call.arguments[0], pa.types
    values, has_special, _ = _listed(call.options["value_set"])
    is_number = of.is_integer(values.type) or of.is_floating(values.type) or of.is_decimal(values.type)
    type_ = pa.float64() if is_number else values.type  # numbers of functions fit into doubles
    if isinstance(column, _Column) and not isinstance(column.name, Call):
        names = (column.name,) if isinstance(column.name, str) else column.name
        type_ = field_type(pa.struct(list(schema)), names) or type_
    type_ = type_.value_type if of.is_dictionary(type_) else type_
    if is_number and (of.is_floating(type_) or of.is_floating(values.type)):
        has_special |= bool(pc.any(pc.equal(values, pa.scalar(0, values.type))).as_py())
    if not isinstance(values, pa.ExtensionArray) and values.type != type_:
        with contextlib.suppress(pa.ArrowException):  # pyarrow refuses the comparison
            if not values.cast(type_, safe=False).cast(values.type, safe=False).equals(values):
                return "other"
    return "wider" if has_special else "same"


def _listed(values: pa.Array) -> tuple[pa.Array, bool, bool]:
    """Return the values of a list without NaN and null, and whether it has NaN and null."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    present = numbers = values.drop_null()
    if pa.types.is_floating(present.type):
        numbers = present.filter(pc.invert(pc.is_nan(present)))
    return numbers, len(numbers) < len(present), len(present) < len(values)


def _read_calls(
    expression: pc.Expression, reduce: Callable[[_Call, bool], _Value]
) -> tuple[list[_Value], set[str]]:
    """Return the conditions that AND joins, and the top-level columns.

    Args:
        reduce: Returns the value of a call, given whether it is below a negation.
    """
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
                call.add(_Column(column_name(names)))
                roots.add(names[0])
                names, num_names = [], 1
        elif token == "literal":
            call.add(_Literal(python_values(columns[int(text)])[0]))
        elif token == "options":
            calls[-1] = replace(call, options=_options(columns[int(text)]))
        elif token == "end":
            calls.pop()
            num_negations -= call.function in _NEGATIONS
            calls[-1].add_call(call, reduce, num_negations > 0)
        else:
            _refuse_form()
    if len(calls) != 1 or not calls[0].arguments:
        _refuse_form()
    return calls[0].arguments, roots


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


def column_name(names: list[str]) -> ColumnName:
    """Return the name of a column: a plain name if it is unambiguous, else an exact path."""
    return names[0] if len(names) == 1 and "." not in names[0] else tuple(names)


def python_values(values: pa.Array) -> list[Any]:
    """Return literals as Python values, or as scalars if Python has no exact equivalent."""
    if not pa.types.is_temporal(values.type) or pa.types.is_date32(values.type):
        # dates after the year 9999, and text that is not UTF-8
        with contextlib.suppress(OverflowError, UnicodeDecodeError):
            return list(values.to_pylist())
    return [scalar if scalar.is_valid else None for scalar in values]


def _options(column: pa.StructArray) -> dict[str, Any]:
    """Return the options of a function; the list of ``is_in`` as an array."""
    found: dict[str, Any] = {}
    for ordinal in range(column.type.num_fields):
        name, values = column.type.field(ordinal).name, column.field(ordinal)
        if name == "to_type":
            found[name] = values.type
        elif name != "_type_name":
            found[name] = values[0].values if name == "value_set" else values[0].as_py()
    return found


def _reduce(call: _Call, is_negated: bool) -> _Value:
    """Return the node of a call, or the part that is not a condition."""
    function, arguments, options = call.function, call.arguments, call.options
    if function in _CHAINS:
        return _CHAINS[function](tuple(map(_condition, arguments)))
    if function == "and_not_kleene":
        return And((_condition(arguments[0]), Not(_condition(arguments[1]))))
    if function == "invert":
        return Not(_condition(arguments[0]))
    if function in _COMPARISONS:
        return _comparison(call)
    if function == "if_else":
        return _null_if_missing(call, is_negated)
    column = arguments[0].name if arguments and isinstance(arguments[0], _Column) else None
    if column is None:
        return call.part
    if function in ("is_null", "is_valid"):
        missing = IsNull(column, negated=function == "is_valid")
        return Or((missing, is_nan(column))) if options.get("nan_is_null") else missing
    if function == "is_nan":
        return is_nan(column)
    if function == "is_in":
        return _membership(column, call, is_negated)
    if function in _LIKES or function == "match_substring_regex":
        pattern, ignore_case = options.get("pattern"), bool(options.get("ignore_case"))
        if not isinstance(pattern, str):
            _refuse(call.part)
        if function not in _LIKES:
            return RegexpLike(column, pattern, ignore_case=ignore_case)
        return replace(_LIKES[function](column, pattern), ignore_case=ignore_case)
    called = call_of(function, column, options) if len(arguments) == 1 else None
    return call.part if called is None else _Column(called)


def call_of(function: str, operand: Operand, options: Mapping[str, Any]) -> Operand | None:
    """Return a function of pyarrow as a call, or as a field of a struct; None if it has no equivalent.

    Args:
        function: The name of the function in pyarrow. Its only argument is the operand.

    Example:
        >>> str(call_of("utf8_slice_codeunits", "s", {"start": 0, "stop": 3, "step": 1}))
        'substr(s, 1, 3)'
    """
    if function in _FUNCTIONS:
        return Call(_FUNCTIONS[function], operand)
    if function == "utf8_slice_codeunits" and options.get("step") == 1:
        start, stop = options.get("start"), options.get("stop")
        if isinstance(start, int) and isinstance(stop, int) and 0 <= start <= stop:
            length = () if stop == _NO_STOP else (stop - start,)
            return Call("substr", operand, (start + 1, *length))
    if function == "floor_temporal" and options.get("multiple") == 1 and options.get("week_starts_monday"):
        unit = options.get("unit", 0)
        return Call("date_trunc", operand, (_UNITS[unit],)) if 0 < unit < len(_UNITS) else None
    if function == "cast":
        target = options.get("to_type")
        if target == pa.date32():
            return Call("date", operand)
        wraps = pa.types.is_integer(target) and options.get("allow_int_overflow")
        if target in _SQL_TYPES and not wraps:
            return Call("cast", operand, (_SQL_TYPES[target],))
    path = options.get("field_ref")
    is_path = function == "struct_field" and isinstance(path, str) and _DOT_PATH.fullmatch(path) is not None
    if is_path and not isinstance(operand, Call):
        return (*((operand,) if isinstance(operand, str) else operand), *str(path)[1:].split("."))
    return None


def _comparison(call: _Call) -> Predicate:
    left, right = call.arguments
    op = _COMPARISONS[call.function]
    if isinstance(left, _Literal):
        left, op, right = right, MIRRORED[op], left
    for side in (left, right):
        if isinstance(side, _Part):
            _refuse(side)
    if isinstance(left, _Column) and isinstance(right, _Literal):
        return Comparison(left.name, op, right.value)
    raise PredicateError(
        f"cannot use {call.part.text} as a predicate; compare a column with a literal, not with another "
        "column or condition",
        reason="unsupported-expression",
        column=_column_of(left),
    )


def _null_if_missing(call: _Call, is_negated: bool) -> _Value:
    """Return ``if_else(is_valid(x), condition, null)``: SQL's IN as DuckDB writes it."""
    tested, condition, otherwise = call.arguments
    if not isinstance(tested, IsNull) or not tested.negated or otherwise != _Literal(None):
        return call.part
    found = _condition(condition)
    if not is_negated:
        return found if isinstance(found, In) and found.column == tested.column else And((tested, found))
    return null_if_missing(tested.column, found)


def null_if_missing(column: Operand, condition: Predicate) -> Predicate:
    """Return a condition that is NULL where a column is NULL."""
    present = And((IsNull(column, negated=True), condition))
    return Or((present, And((IsNull(column), Constant(None)))))


def is_nan(column: Operand) -> Predicate:
    """Return the condition that a value is NaN: only NaN is not less than or equal to infinity."""
    return Not(Comparison(column, "<=", math.inf))


def _membership(column: Operand, call: _Call, is_negated: bool) -> Predicate:
    """Return ``is_in``. Unlike SQL's IN it is TRUE or FALSE for null, which matters only under a negation."""
    behavior, values = call.options.get("null_matching_behavior"), call.options.get("value_set")
    if behavior not in (_MATCH, _SKIP) or not isinstance(values, pa.Array):
        _refuse(call.part)
    numbers, has_nan, has_null = _listed(values)
    conditions: list[Predicate] = [In(column, tuple(python_values(numbers)))] if len(numbers) else []
    conditions += [is_nan(column)] if has_nan else []
    if has_null and behavior == _MATCH:
        return Or((*conditions, IsNull(column))) if conditions else IsNull(column)
    if not conditions:
        return Constant(False)
    among = conditions[0] if len(conditions) == 1 else Or(tuple(conditions))
    return And((among, IsNull(column, negated=True))) if is_negated else among


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


def _column_of(value: _Value) -> str | None:
    if isinstance(value, _Column):
        return dotted(value.name)
    return value.column if isinstance(value, _Part) else None


def _text(value: _Value) -> str:
    if isinstance(value, _Column):
        return str(value.name) if isinstance(value.name, Call) else dotted(value.name)
    if isinstance(value, _Literal):
        return render_literal(value.value)
    return value.text if isinstance(value, _Part) else f"({value})"
