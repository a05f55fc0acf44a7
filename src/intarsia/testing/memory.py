"""Columns in memory, divided into row groups and pages like those of a file, and predicates on them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_array, comparison_type, sortable_type
from intarsia.arrow.owned_rows import take_rows
from intarsia.errors import ColumnNotFoundError, PredicateError
from intarsia.indexes.layout import Layout
from intarsia.predicate import (
    Call,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Op,
    Predicate,
    RegexpLike,
    bind,
    contains,
    ends_with,
    starts_with,
)
from intarsia.rows.selection import Rows

#: A function that returns an integer between two inclusive bounds, at random or chosen by Hypothesis.
Draw: TypeAlias = Callable[[int, int], int]


class MemoryColumns:
    """Columns in memory; implements `intarsia.indexes.ColumnData`, so that an index can be built.

    Args:
        table: The columns.
        row_group_edges: First row of each row group, and the number of rows at the end.
        page_edges: For each column, the first row of each of its pages, and the number of rows at the end.
            By default, each row group is one page.
        batch_rows: The maximum number of rows per batch.

    Example:
        >>> columns = MemoryColumns(pa.table({"x": [1, 2, 3]}), [0, 2, 3])
        >>> [(first_row, piece.to_pylist()) for first_row, piece in columns.batches("x")]
        [(0, [1, 2]), (2, [3])]
    """

    def __init__(
        self,
        table: pa.Table,
        row_group_edges: Sequence[int] | Rows,
        page_edges: Mapping[str, Sequence[int] | Rows] | None = None,
        batch_rows: int = 1 << 30,
    ) -> None:
        self.table = table.combine_chunks()
        self._batch_rows = batch_rows
        pages = {name: _edges(row_group_edges) for name in table.column_names}
        pages.update({name: _edges(edges) for name, edges in (page_edges or {}).items()})
        self.layout = Layout(table.num_rows, _edges(row_group_edges), pages)

    @property
    def layout_when_opened(self) -> Layout:
        """The layout for opening an index, without pages, because a footer lists only row groups."""
        return Layout(self.layout.num_rows, self.layout.row_group_edges, {})

    @property
    def schema(self) -> pa.Schema:
        """The schema of the columns."""
        return self.table.schema

    def rows(self, ordinals: Rows) -> pa.Table:
        """Return some rows with all columns."""
        return take_rows(self.table, ordinals)

    def values(self, column: str) -> pa.Array:
        """Return all values of a column.

        Raises:
            ColumnNotFoundError: If the column does not exist.
        """
        if column not in self.table.column_names:
            raise ColumnNotFoundError(column, self.table.column_names)
        chunks = self.table.column(column).chunks
        return chunks[0] if chunks else pa.array([], self.schema.field(column).type)

    def type_of(self, column: str) -> pa.DataType:
        """Return the Arrow type of a column."""
        return self.values(column).type

    def batches(self, column: str) -> Iterator[tuple[int, pa.Array]]:
        """Yield the values of a column in order, at most one row group at a time."""
        values = self.values(column)
        edges = self.layout.row_group_edges.tolist()
        for start, stop in pairwise(edges):
            for row in range(start, stop, self._batch_rows):
                yield row, values.slice(row, min(self._batch_rows, stop - row))

    encoded_batches = batches


class Case(NamedTuple):
    """Columns, and a description of their layout."""

    name: str
    columns: MemoryColumns


def fixed_cases(table: pa.Table) -> Iterator[Case]:
    """Yield layouts that are special cases for indexes.

    Args:
        table: The rows; the first case has all of them, unchanged.
    """
    num_rows = table.num_rows
    groups = _evenly(num_rows, 3)
    pages = {
        name: np.union1d(groups, _evenly(num_rows, 8 + 3 * ordinal))
        for ordinal, name in enumerate(table.column_names)
    }
    yield Case("three row groups of several pages", MemoryColumns(table, groups, pages))
    yield Case("the same in small batches", MemoryColumns(table, groups, pages, batch_rows=3))
    yield Case("one row group of one page", MemoryColumns(table, [0, num_rows]))
    yield Case("one row in each row group", MemoryColumns(table, range(num_rows + 1)))
    yield Case("a row group without rows", MemoryColumns(table, [0, num_rows // 2, num_rows // 2, num_rows]))
    yield Case("no rows", MemoryColumns(table.slice(0, 0), [0, 0]))
    yield Case("no row groups", MemoryColumns(table.slice(0, 0), [0]))
    for row in {0, num_rows - 1} if num_rows else ():
        yield Case(f"a single row, number {row}", MemoryColumns(table.slice(row, 1), [0, 1]))
    empty = pa.table({field.name: pa.nulls(num_rows, field.type) for field in table.schema})
    yield Case("every value null", MemoryColumns(empty, groups, pages))
    for field in table.schema:
        one = table.set_column(table.column_names.index(field.name), field, empty.column(field.name))
        if len(table.schema) > 1:
            yield Case(f"every value of {field.name!r} null", MemoryColumns(one, groups, pages))


def random_case(table: pa.Table, draw: Draw) -> Case:
    """Return a random choice of the rows in random order, in a random layout."""
    num_rows = draw(0, min(24, 2 * table.num_rows)) if table.num_rows else 0
    chosen = [draw(0, table.num_rows - 1) for _ in range(num_rows)]
    groups = _cuts(num_rows, draw, [0, num_rows])
    pages = {name: _cuts(num_rows, draw, groups) for name in table.column_names}
    rows = table.take(pa.array(chosen, pa.int64()))
    return Case(f"row groups {groups}, pages {pages}", MemoryColumns(rows, groups, pages, draw(1, 30)))


def _cuts(num_rows: int, draw: Draw, edges: Sequence[int]) -> list[int]:
    return sorted({*edges, *(draw(0, num_rows) for _ in range(draw(0, 4)))})


def _evenly(num_rows: int, parts: int) -> npt.NDArray[np.int64]:
    return np.unique(np.linspace(0, num_rows, parts + 1).astype(np.int64)) if num_rows else _edges([0, 0])


def _edges(edges: Sequence[int] | Rows) -> Rows:
    return np.asarray(edges, dtype=np.int64)


#: The number of distinct values of a column that predicates contain.
SAMPLED_VALUES = 10

_OPERATORS: tuple[Op, ...] = ("=", "<>", "<", "<=", ">", ">=")

# Empty; white space; LIKE's special characters; quotes; a letter composed and decomposed; letters with
# irregular case mappings; outside the basic plane; NUL; the last characters; long.
_TEXTS = (
    "", " ", "a", "A", "a%b_c", "50\\%", "it's", '"', "\u00e9", "e\u0301", "stra\u00dfe", "STRASSE",
    "\u212a", "\u017f", "\u0130", "\u65e5\u672c\u8a9e", "\U0001f600", "a\0b", "a\nb", "\uffff", "\U0010ffff",
    "long " * 60,
)  # fmt: skip


def awkward_values(data_type: pa.DataType) -> pa.Array:
    """Return edge cases of a type that indexes often handle incorrectly, and a null.

    Args:
        data_type: Any type; for unsupported types the result is only the null.

    Example:
        >>> awkward_values(pa.int8()).to_pylist()
        [0, 1, -1, -128, 127, None]
    """
    plain = stored = comparison_type(data_type)
    if pa.types.is_temporal(plain) and not pa.types.is_interval(plain):  # edge cases are integers
        stored = pa.int32() if plain.bit_width == 32 else pa.int64()
    values = pa.array([*_awkward(plain), None], stored)
    values = values.view(plain) if values.type != plain else values
    if not pa.types.is_dictionary(data_type):
        return values.cast(data_type)
    encoded = values.dictionary_encode()
    codes = encoded.indices.cast(data_type.index_type)
    return pa.DictionaryArray.from_arrays(codes, encoded.dictionary.cast(data_type.value_type))


def _awkward(plain: pa.DataType) -> list[Any]:
    if pa.types.is_boolean(plain):
        return [True, False]
    if pa.types.is_integer(plain):
        bits = plain.bit_width
        if pa.types.is_signed_integer(plain):
            return [0, 1, -1, -(1 << bits - 1), (1 << bits - 1) - 1]
        return [0, 1, (1 << bits) - 1]
    if pa.types.is_floating(plain):
        return [0.0, -0.0, 1.0, -1.5, 65504.0, math.nan, math.inf, -math.inf]
    if pa.types.is_decimal(plain):
        nines = 10**plain.precision - 1
        return [Decimal((units < 0, _digits(units), -plain.scale)) for units in (0, 1, -1, nines, -nines)]
    if pa.types.is_string(plain):
        return list(_TEXTS)
    if pa.types.is_binary(plain):
        return [b"", b"\0", b"\0\0", b"\xff\xff", b"\x80abc", *(text.encode() for text in _TEXTS[2:5])]
    if pa.types.is_fixed_size_binary(plain):
        width = plain.byte_width
        return [b"\0" * width, b"\xff" * width, b"\x80" * width, b"a" * width]
    if pa.types.is_time(plain):
        return [0, 1, 86_399]
    if pa.types.is_date64(plain):
        return [0, -86_400_000, 86_400_000 * 20_000]
    if pa.types.is_temporal(plain) and not pa.types.is_interval(plain):
        return [0, 1, -1, 1_600_000_000, -1_600_000_000]
    return []


def _digits(units: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(units)))


def questions(column: str, values: pa.Array) -> Iterator[Predicate]:
    """Yield every kind of predicate on a column, with values that occur in it and others.

    Args:
        column: The name of the column.
        values: The values of the column.

    Yields:
        Predicates that can be bound to the column.

    Example:
        >>> [str(predicate) for predicate in questions("x", pa.array([7]))][:5]
        ['x IS NULL', 'x IS NOT NULL', 'x = 7', 'x <> 7', 'x < 7']
    """
    schema = pa.schema([pa.field(column, values.type)])
    for predicate in unchecked_questions(column, values):
        try:
            bind(predicate, schema)
        except PredicateError:  # values of this type cannot be compared
            continue
        yield predicate


def unchecked_questions(column: str, values: pa.Array) -> Iterator[Predicate]:
    """Yield the predicates of `questions` without binding them; some of them cannot be bound."""
    yield IsNull(column)
    yield IsNull(column, negated=True)
    data_type = comparison_type(values.type)
    there = _sample(comparison_array(values, data_type))
    others = [value for value in awkward_values(data_type) if value.is_valid]
    tested = [*there, *others]
    for value in tested:
        for op in _OPERATORS:
            yield Comparison(column, op, value)
            if pa.types.is_floating(data_type):
                yield Not(Comparison(column, op, value))
    for several in (tuple(there[:1] + others[:1]), tuple(there[::2]), tuple(others), tuple(tested)):
        if several:
            yield In(column, several)
            yield In(column, several, negated=True)
    if pa.types.is_string(data_type):
        for text in dict.fromkeys(value.as_py() for value in tested):
            yield from _text_questions(column, text)


def _sample(values: pa.Array) -> list[pa.Scalar]:
    """Return some distinct values, spread over the rows, without nulls."""
    if pa.types.is_nested(values.type):
        return []
    distinct = pc.unique(values.cast(sortable_type(values.type))).drop_null()
    positions = np.linspace(0, len(distinct) - 1, min(SAMPLED_VALUES, len(distinct))).astype(np.int64)
    return list(distinct.take(pa.array(positions)).cast(values.type))


def _text_questions(column: str, text: str) -> Iterator[Predicate]:
    """Yield patterns that a string matches or almost matches."""
    middle = len(text) // 2
    for part in (text[:1], text[: middle + 1], text):
        yield starts_with(column, part)
    for part in (text[middle : middle + 3], text):
        yield contains(column, part)
    for part in (text[-3:], text):
        yield ends_with(column, part)
    yield Not(starts_with(column, text[:2]))
    yield Not(contains(column, text[middle : middle + 3]))
    yield Like(column, f"%{text[1:4].swapcase()}%", escape="", ignore_case=True)
    yield Like(column, f"{text[:2]}_{text[3:5]}%", escape="")
    yield Like(column, f"{text[:1]}%{text[-1:]}", escape="")
    yield Comparison(Call("lower", column), "=", text.lower())
    plain = re.sub(r"\W", ".", text)[:40]
    yield RegexpLike(column, f"^{plain[:3]}")
    yield RegexpLike(column, f"{plain[1:5]}.*$", ignore_case=True)
    yield RegexpLike(column, f"({plain[:2]}|{plain[-2:]})+")
    yield RegexpLike(column, plain, negated=True)
