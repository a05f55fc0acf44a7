"""The contract of an index, checked on columns in memory.

A check raises `ContractError` with a description of the fault.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from intarsia.errors import IndexBuildError, IntarsiaError, PredicateError
from intarsia.indexes.base import Index, OpenIndex, PayloadBytes, defines, prunes
from intarsia.indexes.layout import parameters
from intarsia.predicate import BoundFunction, Condition, bind, condition_mask, conditions, parse_sql
from intarsia.rows.selection import RowSelection
from intarsia.testing.memory import (
    Case,
    Draw,
    MemoryColumns,
    awkward_values,
    fixed_cases,
    random_case,
    unchecked_questions,
)

#: The values of an index's one column, or a table with all of its columns.
Values: TypeAlias = "pa.Array | pa.Table"

Item = TypeVar("Item")

#: The number of random layouts. Hypothesis profiles with more or fewer examples than usual change it.
RANDOM_LAYOUTS = 50

_GRANULARITIES = ("file", "row_group", "page", 5)


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


class Answers(NamedTuple):
    """The results of an open index for a condition; None for results that it does not return."""

    candidates: RowSelection | None
    certain: RowSelection | None
    estimate: float | None


class Expected(NamedTuple):
    """A condition and the rows that match it."""

    leaf: Condition
    matching: RowSelection


def check_class(index: Any) -> None:
    """Check that the class is a frozen dataclass with a kind, a version, a docstring, and columns."""
    cls = type(index)
    require(
        dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen,  # type: ignore[attr-defined]
        "not-a-frozen-dataclass",
        f"{cls.__name__} is not a frozen dataclass with its parameters as fields; write "
        "@dataclass(frozen=True)",
    )
    fields = {field.name for field in dataclasses.fields(index)}
    for name, expected in (("kind", str), ("version", int)):
        value = getattr(cls, name, None)
        require(
            isinstance(value, expected) and bool(value) and name not in fields,
            f"invalid-{name}",
            f"{cls.__name__}.{name} is {value!r}; write `{name}: ClassVar[{expected.__name__}] = ...`",
        )
    require(
        isinstance(index, Index),
        "not-an-index",
        f"{cls.__name__} does not derive from intarsia.indexes.Index",
    )
    columns = index.columns
    require(
        isinstance(columns, tuple) and bool(columns) and all(isinstance(name, str) for name in columns),
        "invalid-columns",
        f"{index!r}.columns is {columns!r}; return a tuple of names, such as (self.column,)",
    )
    text = (cls.__doc__ or "").strip()
    require(
        bool(text) and not text.startswith(f"{cls.__name__}("),
        "no-docstring",
        f"{cls.__name__} has no docstring; `intarsia index --list` shows its first line",
    )


def check_parameters(index: Index) -> None:
    """Check that the parameters can be stored as JSON and restore an equal index."""
    try:
        stored = json.loads(json.dumps(parameters(index), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ContractError(
            f"the parameters of {index!r} cannot be stored in a file's directory, which is JSON: {error}",
            reason="parameters-not-json",
        ) from error
    restored = type(index)(**stored)
    require(
        restored == index,
        "parameters-change",
        f"{index!r} is restored from a file as {restored!r}; if JSON has converted a tuple to a list, "
        "convert it back in __post_init__",
    )


def check_deterministic(index: Index, values: Values) -> None:
    """Check that the same columns give the same bytes, so that attaching twice changes nothing."""
    for variant in variants(index, values):
        for case in fixed_cases(rows_of(index, values)):
            once, twice = variant.build(case.columns), variant.build(case.columns)
            require(
                type(once) is bytes,
                "payload-not-bytes",
                f"{variant!r}.build() returned {type(once).__name__}, not bytes",
            )
            require(
                once == twice,
                "not-deterministic",
                f"{variant!r} built twice on {case.name} gives different bytes; check for iteration over "
                "sets, random numbers without a seed, and timestamps",
            )


def check_layouts(index: Index, values: Values) -> None:
    """Check that no matching row is excluded, for all granularities, layouts and predicates."""
    built = variants(index, values)
    for ordinal, case in enumerate(fixed_cases(rows_of(index, values))):
        # all predicates on the first layout, and each fifth on the others
        expected = questions_about(index, case.columns, ordinal % 5, 5 if ordinal else 1)
        for variant in built:
            check_case(variant, case, expected)


def check_random_layouts(index: Index, values: Values) -> None:
    """Check that no matching row is excluded, for random rows in random layouts."""
    table = rows_of(index, values)
    built = variants(index, values)

    def check(draw: Draw) -> None:
        case = random_case(table, draw)
        expected = questions_about(index, case.columns, draw(0, 4), 5)
        check_case(built[draw(0, len(built) - 1)], case, expected)

    run_many(check, RANDOM_LAYOUTS)


def check_prunes(index: Index, values: Values, wheres: Iterable[str]) -> None:
    """Check that the index excludes at least one row for each predicate.

    Args:
        index: The index.
        values: The rows of one file, which has three row groups of several pages.
        wheres: Predicates, as SQL text, for which the index is intended.
    """
    case = next(fixed_cases(_given(index, values)))
    opened = index.open(index.build(case.columns), case.columns.layout_when_opened)
    for where in wheres:
        for leaf in conditions(bind(parse_sql(where), case.columns.schema)):
            can_prune = prunes(index, leaf)
            found = opened.candidate_rows(leaf) if can_prune else None
            require(
                found is not None and found.num_rows < case.columns.layout.num_rows,
                "excludes-nothing",
                f"{index!r} excludes no row for {leaf}: "
                + (f"candidate_rows() returned {found!r}" if can_prune else "can_prune() returned False"),
            )


# --- one layout ----------------------------------------------------------------------------------------


def check_case(index: Index, case: Case, expected: Sequence[Expected]) -> None:
    """Build an index on some columns, open it in each supported way, and check its results."""
    payload = index.build(case.columns)
    layout = case.columns.layout_when_opened
    try:
        opened = index.open(payload, layout)
        sources = [index.open_source(PayloadBytes(payload), layout)] if defines(index, "open_source") else []
    except (IntarsiaError, KeyError) as error:
        raise ContractError(
            f"{index!r} cannot open its own payload, built on {case.name}: {type(error).__name__}: {error}. "
            "(The layout that open() gets has no page edges, because a footer does not contain them. Store "
            "them in the payload.)",
            reason="cannot-open",
        ) from error
    for way in (opened, *sources):
        check_derived(way, index, "open")
        check_opened(way, index, case, expected)


def check_derived(opened: object, index: Index, method: str) -> None:
    """Check that the class of an opened object derives from `OpenIndex`."""
    require(
        isinstance(opened, OpenIndex),
        "not-an-open-index",
        f"{index!r}: {method}() returned {type(opened).__name__}, whose class does not derive from "
        "intarsia.indexes.OpenIndex",
    )


def check_opened(opened: OpenIndex, index: Index, case: Case, expected: Sequence[Expected]) -> None:
    """Compare the results of an open index with the rows that match."""
    everything = RowSelection.all(case.columns.layout.num_rows)
    for leaf, matching in expected:
        candidates, certain, estimate = query(opened, index, leaf)
        for name, found in (("candidate_rows", candidates), ("certain_rows", certain)):
            if found is not None and not (outside := found - everything).is_empty:
                raise ContractError(
                    f"{_about(index, leaf, case)}: {name}() returned {outside!r} for a file of "
                    f"{everything.num_rows} rows",
                    reason="rows-outside-file",
                )
        if candidates is not None and not (lost := matching - candidates).is_empty:
            raise ContractError(
                f"{_about(index, leaf, case)}: candidate_rows() excludes {lost.num_rows} of "
                f"{matching.num_rows} matching rows"
                f"{_described(lost, leaf, index, case.columns)}"
                f"\n  it returned: {candidates!r}"
                "\n  an index may exclude a row only if it proves that the row does not match; return None "
                f"where {leaf} cannot be evaluated",
                reason="excludes-matching-rows",
            )
        if certain is not None and not (wrong := certain - matching).is_empty:
            raise ContractError(
                f"{_about(index, leaf, case)}: certain_rows() returned {wrong.num_rows} rows that do not "
                "match"
                f"{_described(wrong, leaf, index, case.columns)}"
                f"\n  it returned: {certain!r}",
                reason="certain-rows-do-not-match",
            )
        if estimate is not None and not (math.isfinite(estimate) and 0 <= estimate <= everything.num_rows):
            raise ContractError(
                f"{_about(index, leaf, case)}: estimated_rows() returned {estimate!r}; it must be between 0 "
                f"and {everything.num_rows}, the number of rows in the file",
                reason="impossible-estimate",
            )


def _about(index: Index, leaf: Condition, case: Case) -> str:
    return f"{index!r} with {leaf} on {case.name}"


def query(opened: OpenIndex, index: Index, leaf: Condition) -> Answers:
    """Query an open index as a scan would."""
    estimate = opened.estimated_rows(leaf) if index.can_estimate(leaf) else None
    if not prunes(index, leaf):
        return Answers(None, None, estimate)
    candidates, certain = opened.candidate_rows(leaf), opened.certain_rows(leaf)
    for name, found in (("candidate_rows", candidates), ("certain_rows", certain)):
        if found is not None and not isinstance(found, RowSelection):  # a message takes longer than a query
            raise ContractError(
                f"{index!r}: {name}({leaf}) returned {type(found).__name__}, not a RowSelection or None",
                reason="not-a-row-selection",
            )
    return Answers(candidates, certain, estimate)


def _matching(leaf: Condition, columns: MemoryColumns) -> RowSelection:
    values = columns.values(".".join(leaf.path))
    return RowSelection.from_mask(condition_mask(leaf, values).to_numpy(zero_copy_only=False))


def _described(rows: RowSelection, leaf: Condition, index: Index, columns: MemoryColumns) -> str:
    """Describe some rows: their numbers, values and granules."""
    ordinals = rows.rows()[:5]
    more = ", …" if rows.num_rows > len(ordinals) else ""
    column = ".".join(leaf.path)
    values = columns.values(column).take(pa.array(ordinals))
    text = f"\n  rows: {', '.join(map(str, ordinals.tolist()))}{more}"
    text += f"\n  values: {', '.join(repr(value) for value in values.to_pylist())}{more}"
    granularity = getattr(index, "granularity", "file")
    edges = columns.layout.edges(granularity, column)
    granules = np.unique(np.searchsorted(edges, ordinals, side="right") - 1)
    described = (
        f"{granule} (rows {edges[granule]} to {edges[granule + 1]})" for granule in granules.tolist()
    )
    return f"{text}\n  granules ({granularity}): {', '.join(described)} of {len(edges) - 1}"


# --- rows, variants of an index, and predicates ---------------------------------------------------------


def rows_of(index: Index, values: Values) -> pa.Table:
    """Return the values from the author, awkward values of the same type, and nulls."""
    table = _given(index, values)
    awkward = {field.name: awkward_values(field.type) for field in table.schema}
    longest = max(map(len, awkward.values()))
    columns = {}
    for name, few in awkward.items():
        given = table.column(name).combine_chunks()
        padded = few.take(pa.array(np.arange(longest) % len(few)))
        nulls = pa.nulls(2, few.type)
        columns[name] = pa.concat_arrays([nulls[:1], given, nulls, padded])
    return pa.table(columns)


def _given(index: Index, values: Values) -> pa.Table:
    table = values if isinstance(values, pa.Table) else pa.table({index.columns[0]: values})
    missing = set(index.columns) - set(table.column_names)
    require(
        not missing,
        "missing-values",
        f"values() lacks {', '.join(sorted(missing))}; return a pyarrow.Table with all columns of {index!r}",
    )
    return table


def variants(index: Index, values: Values) -> list[Index]:
    """Return the index, and a copy with each other granularity that it supports."""
    found = [index]
    if any(field.name == "granularity" for field in dataclasses.fields(index)):  # type: ignore[arg-type]
        case = next(fixed_cases(rows_of(index, values)))
        for granularity in _GRANULARITIES:
            try:
                variant: Any = dataclasses.replace(index, granularity=granularity)  # type: ignore[type-var]
                variant.build(case.columns)
            except IndexBuildError:  # it does not support this granularity
                continue
            if variant not in found:
                found.append(variant)
    return found


def questions_about(index: Index, columns: MemoryColumns, start: int = 0, step: int = 1) -> list[Expected]:
    """Return conditions on the columns of an index, all or each ``step``-th, with the rows that match."""
    return with_matches(conditions_about(index, columns, start, step), columns)


def conditions_about(index: Index, columns: MemoryColumns, start: int = 0, step: int = 1) -> list[Condition]:
    """Return conditions on the columns of an index, all or each ``step``-th."""
    predicates = (
        predicate for name in index.columns for predicate in unchecked_questions(name, columns.values(name))
    )
    found: dict[Condition, None] = {}
    for predicate in islice(predicates, start, None, step):
        with suppress(PredicateError):  # values of this type cannot be compared
            found.update(dict.fromkeys(conditions(bind(predicate, columns.schema))))
    return [leaf for leaf in found if not isinstance(leaf, BoundFunction) or prunes(index, leaf)]


def with_matches(leaves: Iterable[Condition], columns: MemoryColumns) -> list[Expected]:
    """Return conditions with the rows that match."""
    return [Expected(leaf, _matching(leaf, columns)) for leaf in leaves]


def run_many(check: Callable[[Draw], None], number: int) -> None:
    """Run a check on many draws, from Hypothesis if it is installed, or else from fixed seeds."""
    hypothesis = _hypothesis()
    if hypothesis is None:
        for seed in range(number):
            numbers = np.random.default_rng(seed)
            check(lambda low, high, numbers=numbers: int(numbers.integers(low, high + 1)))  # type: ignore[misc]
        return

    def with_hypothesis(data: Any) -> None:
        check(lambda low, high: data.draw(hypothesis.strategies.integers(low, high)))

    given = hypothesis.given(hypothesis.strategies.data())
    usual = hypothesis.settings.get_profile("default").max_examples
    count = max(number // 5, number * hypothesis.settings().max_examples // usual)
    hypothesis.settings(max_examples=count, deadline=None, database=None)(given(with_hypothesis))()


def _hypothesis() -> Any:
    """Return Hypothesis; None if it is not installed."""
    # not around the checks: a failed one would show this error, too
    try:
        import hypothesis
        import hypothesis.strategies
    except ImportError:
        return None
    return hypothesis


def some_of(items: Sequence[Item], count: int) -> list[Item]:
    """Choose ``count`` of the items at random, because generated predicates follow a regular pattern."""
    chosen = np.random.default_rng(0).permutation(len(items))[:count]
    return [items[ordinal] for ordinal in sorted(chosen.tolist())]
