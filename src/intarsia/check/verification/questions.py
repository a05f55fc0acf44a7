"""Predicates for querying embedded indexes, generated from values in the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import sortable_type
from intarsia.errors import PredicateError
from intarsia.predicate import Like, Not, Predicate, RegexpLike, bind, contains, ends_with
from intarsia.predicate.bound import (
    CONDITION_TYPES,
    BoundCompare,
    BoundIn,
    BoundNull,
    BoundPrefix,
    Condition,
    Path,
)
from intarsia.predicate.nodes import escaped

#: Number of queried distinct values of a row group, spread over all of them.
SAMPLED_VALUES = 100


def questions(
    path: Path, data_type: pa.DataType, values: pa.Array, max_values: int = SAMPLED_VALUES
) -> Iterator[Condition]:
    """Yield predicates on values in the data.

    Args:
        path: The column.
        data_type: The type in which its values are compared.
        values: Values of some rows, which may be dictionary-encoded.
        max_values: Maximum number of distinct values.

    Yields:
        Equality for each sampled value, and every other kind of condition for some of them.
    """
    yield BoundNull(path, data_type)
    yield BoundNull(path, data_type, negated=True)
    sample = _sample(values, data_type, max_values)
    is_float = pa.types.is_floating(data_type)
    for value in sample:
        yield BoundCompare(path, data_type, "=", value)
    few = [sample[ordinal] for ordinal in sorted({0, len(sample) // 2, len(sample) - 1})] if sample else []
    operators: tuple[Literal["<>", "<", "<=", ">", ">="], ...] = ("<>", "<", "<=", ">", ">=")
    for value in few:
        for op in operators:
            yield BoundCompare(path, data_type, op, value, or_nan=is_float and op == "<>")
        if is_float:  # NOT (x < value)
            yield BoundCompare(path, data_type, ">=", value, or_nan=True)
        if pa.types.is_string(data_type) and (prefix := value.as_py()[:1].encode()):
            yield BoundPrefix(path, data_type, prefix)
            yield BoundPrefix(path, data_type, prefix, negated=True)
    if len(few) > 1:
        yield BoundIn(path, data_type, pa.array(few, data_type))
        yield BoundIn(path, data_type, pa.array(few, data_type), negated=True)
    if pa.types.is_string(data_type):
        yield from _text_questions(path, data_type, _some_texts(sample))


def _text_questions(path: Path, data_type: pa.DataType, texts: list[str]) -> Iterator[Condition]:
    """Yield patterns other than prefixes; each string matches the patterns made from it."""
    schema = pa.schema([pa.field("c", data_type)])
    for text in texts:
        for pattern in _patterns(text):
            try:
                leaf = bind(pattern, schema)
            except PredicateError:  # a string that patterns cannot contain
                continue
            if isinstance(leaf, CONDITION_TYPES):
                yield replace(leaf, path=path)


def _patterns(text: str) -> Iterator[Predicate]:
    middle = len(text) // 2
    inner, head, tail = text[max(0, middle - 2) : middle + 3], text[:2], text[-3:]
    yield contains("c", inner)
    yield Not(contains("c", inner))
    yield ends_with("c", tail)
    yield Like("c", f"%{escaped(inner.swapcase())}%", ignore_case=True)
    yield Like("c", f"%{escaped(tail.swapcase())}", ignore_case=True)
    yield Like("c", f"{escaped(head)}%{escaped(tail)}")
    plain = "".join(char if char.isascii() and char.isalnum() else "." for char in inner)
    yield RegexpLike("c", plain)
    yield RegexpLike("c", plain.swapcase(), ignore_case=True)


def _some_texts(sample: list[pa.Scalar]) -> list[str]:
    """Return the first, middle, last and longest string."""
    texts = [text for value in sample if (text := value.as_py())]
    if not texts:
        return []
    return list(dict.fromkeys((texts[0], texts[len(texts) // 2], texts[-1], max(texts, key=len))))


def _sample(values: pa.Array, data_type: pa.DataType, max_values: int) -> list[pa.Scalar]:
    """Return distinct values in ascending order, evenly sampled, without null, NaN and minus zero."""
    distinct = values.dictionary if pa.types.is_dictionary(values.type) else values
    distinct = pc.unique(distinct.cast(sortable_type(distinct.type))).drop_null()
    if pa.types.is_floating(data_type):
        numbers = distinct.to_numpy(zero_copy_only=False)
        distinct = pa.array(np.unique(numbers[~np.isnan(numbers)] + numbers.dtype.type(0)))
    else:
        distinct = distinct.take(pc.array_sort_indices(distinct))
    if not len(distinct):
        return []
    positions = np.linspace(0, len(distinct) - 1, min(max_values, len(distinct))).astype(np.int64)
    return list(distinct.take(pa.array(positions)).cast(data_type))
