"""What every index has to do, on columns in memory.  A check raises AssertionError, saying what to mend."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from intarsia.errors import IndexBuildError, IntarsiaError, PredicateError
from intarsia.indexes.base import (
    EstimatesRows,
    EstimatingIndex,
    Index,
    OpenIndex,
    PayloadBytes,
    PicksPredicates,
    ProbedIndex,
    SureIndex,
    parameters,
)
from intarsia.predicate import Condition, bind, condition_mask, conditions, parse_sql
from intarsia.rows.selection import RowSelection
from intarsia.testing.memory import Case, Draw, MemoryColumns, fixed_cases, random_case
from intarsia.testing.questions import awkward_values, unchecked_questions

#: The values of an index's one column, or a table with all of its columns.
Values: TypeAlias = "pa.Array | pa.Table"

Item = TypeVar("Item")

#: So many layouts are drawn at random.
RANDOM_LAYOUTS = 50

_GRANULARITIES = ("file", "row_group", "page", 5)


class Expected(NamedTuple):
    """A leaf of a predicate, and the rows that meet it."""

    leaf: Condition
    matching: RowSelection


def check_class(index: Any) -> None:
    """The class is a frozen dataclass with a kind, a version, a line of text, and columns."""
    cls = type(index)
    require(
        dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen,  # type: ignore[attr-defined]
        f"{cls.__name__} is no frozen dataclass, whose fields are parameters: write @dataclass(frozen=True)",
    )
    fields = {field.name for field in dataclasses.fields(index)}
    for name, kind in (("kind", str), ("version", int)):
        value = getattr(cls, name, None)
        require(
            isinstance(value, kind) and bool(value) and name not in fields,
            f"{cls.__name__}.{name} is {value!r}; write `{name}: ClassVar[{kind.__name__}] = ...`",
        )
    require(isinstance(index, Index), f"{cls.__name__} lacks one of: kind, version, columns, build(), open()")
    columns = index.columns
    require(
        isinstance(columns, tuple) and bool(columns) and all(isinstance(name, str) for name in columns),
        f"{index!r}.columns is {columns!r}; it must be a tuple of names, such as (self.column,)",
    )
    text = (cls.__doc__ or "").strip()
    require(
        bool(text) and not text.startswith(f"{cls.__name__}("),
        f"{cls.__name__} has no docstring; its first line is what `intarsia index --list` shows",
    )


def check_parameters(index: Index) -> None:
    """The parameters survive a JSON document, and make an equal index again."""
    try:
        stored = json.loads(json.dumps(parameters(index), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(
            f"the parameters of {index!r} have no JSON form, and the file's directory is JSON: {error}"
        ) from error
    again = type(index)(**stored)
    require(
        again == index,
        f"{index!r} comes back from a file as {again!r}; JSON knows no tuples, for example, so turn "
        "a list into a tuple again in __post_init__",
    )


def check_deterministic(index: Index, values: Values) -> None:
    """The same columns give the same bytes, so that attaching again changes nothing."""
    for variant in variants(index, values):
        for case in fixed_cases(rows_of(index, values)):
            once, twice = variant.build(case.columns), variant.build(case.columns)
            require(type(once) is bytes, f"{variant!r}.build() gave {type(once).__name__}, not bytes")
            require(
                once == twice,
                f"{variant!r} built twice on {case.name} gives different bytes; look for sets, random "
                "numbers without a seed, and times",
            )


def check_layouts(index: Index, values: Values) -> None:
    """No matching row is left out, whatever the granularity, layout and predicate."""
    built = variants(index, values)
    for ordinal, case in enumerate(fixed_cases(rows_of(index, values))):
        # all questions on the first, and the others take turns
        asked = questions_about(index, case.columns, ordinal % 5, 5 if ordinal else 1)
        for variant in built:
            check_case(variant, case, asked)


def check_random_layouts(index: Index, values: Values) -> None:
    """The same for some of the rows in some order, cut somewhere."""
    table = rows_of(index, values)
    built = variants(index, values)

    def check(draw: Draw) -> None:
        case = random_case(table, draw)
        asked = questions_about(index, case.columns, draw(0, 4), 5)
        check_case(built[draw(0, len(built) - 1)], case, asked)

    _for_many(check)


def check_prunes(index: Index, values: Values, wheres: Iterable[str]) -> None:
    """For each predicate (SQL text), some row of the values is left out.

    Args:
        index: The index.
        values: What it is built on: one file, of three row groups of several pages.
        wheres: Predicates that it is made for.
    """
    case = next(fixed_cases(_given(index, values)))
    opened = index.open(index.build(case.columns), case.columns.layout_when_opened)
    for where in wheres:
        for leaf in _leaves(where, case.columns):
            willing = not isinstance(index, PicksPredicates) or index.can_prune(leaf)
            found = opened.candidate_rows(leaf) if willing else None
            require(
                found is not None and found.num_rows < case.columns.layout.num_rows,
                f"{index!r} skips nothing for {leaf}: "
                + ("can_prune() says no" if not willing else f"candidate_rows() gave {found!r}"),
            )


# --- one layout ----------------------------------------------------------------------------------------


def check_case(index: Index, case: Case, asked: Sequence[Expected]) -> None:
    """Build an index on some columns, open it each way there is, and ask it."""
    payload = index.build(case.columns)
    layout = case.columns.layout_when_opened
    try:
        opened = index.open(payload, layout)
        sources = [index.open_source(PayloadBytes(payload), layout)] if isinstance(index, ProbedIndex) else []
    except (IntarsiaError, KeyError) as error:
        raise AssertionError(
            f"{index!r} cannot open what it built itself on {case.name}: {type(error).__name__}: {error}. "
            "(The layout that open() gets has no page edges, since a footer does not tell them: put them "
            "into the payload.)"
        ) from error
    for way in (opened, *sources):
        check_opened(way, index, case, asked)


def check_opened(opened: OpenIndex, index: Index, case: Case, asked: Sequence[Expected]) -> None:
    """Compare what an open index answers with the rows that match."""
    everything = RowSelection.all(case.columns.layout.num_rows)
    for leaf, matching in asked:
        candidates, certain, estimate = ask(opened, index, leaf)
        about = f"{index!r}, asked for {leaf}, on {case.name}"
        for name, found in (("candidate_rows", candidates), ("certain_rows", certain)):
            if found is not None and not (outside := found - everything).is_empty:
                raise AssertionError(
                    f"{about}: {name}() gave {outside!r} of a file of {everything.num_rows} rows"
                )
        if candidates is not None and not (lost := matching - candidates).is_empty:
            raise AssertionError(
                f"{about}: candidate_rows() leaves out {lost.num_rows} of {matching.num_rows} rows that match"
                f"{_described(lost, leaf, index, case.columns)}"
                f"\n  it answered: {candidates!r}"
                f"\n  a row may only be left out if no row like it can match; answer None where {leaf} "
                "cannot be judged"
            )
        if certain is not None and not (wrong := certain - matching).is_empty:
            raise AssertionError(
                f"{about}: certain_rows() gave {wrong.num_rows} rows that do not match"
                f"{_described(wrong, leaf, index, case.columns)}"
                f"\n  it answered: {certain!r}"
            )
        if estimate is not None and not (math.isfinite(estimate) and 0 <= estimate <= everything.num_rows):
            raise AssertionError(
                f"{about}: estimated_rows() gave {estimate!r}; it must lie between 0 and "
                f"{everything.num_rows}, the rows of the file"
            )


def ask(
    opened: OpenIndex, index: Index, leaf: Condition
) -> tuple[RowSelection | None, RowSelection | None, float | None]:
    """What an open index answers, if a scan would ask it."""
    estimate = None
    if isinstance(opened, EstimatingIndex) and isinstance(index, EstimatesRows) and index.can_estimate(leaf):
        estimate = opened.estimated_rows(leaf)
    if isinstance(index, PicksPredicates) and not index.can_prune(leaf):
        return None, None, estimate
    candidates = opened.candidate_rows(leaf)
    certain = opened.certain_rows(leaf) if isinstance(opened, SureIndex) else None
    for name, found in (("candidate_rows", candidates), ("certain_rows", certain)):
        require(
            found is None or isinstance(found, RowSelection),
            f"{index!r}: {name}({leaf}) gave {type(found).__name__}, not a RowSelection or None",
        )
    return candidates, certain, estimate


def _matching(leaf: Condition, columns: MemoryColumns) -> RowSelection:
    values = columns.values(".".join(leaf.path))
    return RowSelection.from_mask(condition_mask(leaf, values).to_numpy(zero_copy_only=False))


def _described(rows: RowSelection, leaf: Condition, index: Index, columns: MemoryColumns) -> str:
    """Which rows, what they hold, and in which granules they lie."""
    ordinals = rows.rows()[:5]
    more = ", …" if rows.num_rows > len(ordinals) else ""
    column = ".".join(leaf.path)
    values = columns.values(column).take(pa.array(ordinals))
    text = f"\n  rows: {', '.join(map(str, ordinals.tolist()))}{more}"
    text += f"\n  values there: {', '.join(repr(value) for value in values.to_pylist())}{more}"
    granularity = getattr(index, "granularity", "file")
    edges = columns.layout.edges(granularity, column)
    granules = np.unique(np.searchsorted(edges, ordinals, side="right") - 1)
    places = (f"{granule} (rows {edges[granule]} to {edges[granule + 1]})" for granule in granules.tolist())
    return f"{text}\n  granules ({granularity}): {', '.join(places)} of {len(edges) - 1}"


# --- what is asked, and of what ------------------------------------------------------------------------


def rows_of(index: Index, values: Values) -> pa.Table:
    """The values that an author gave, then awkward ones of the same type, and nulls."""
    table = _given(index, values)
    awkward = {field.name: awkward_values(field.type) for field in table.schema}
    longest = max(map(len, awkward.values()))
    columns = {}
    for name, few in awkward.items():
        given = table.column(name).combine_chunks()
        given = given.chunk(0) if isinstance(given, pa.ChunkedArray) and given.num_chunks else given
        padded = few.take(pa.array(np.arange(longest) % len(few)))
        nulls = pa.nulls(2, few.type)
        columns[name] = pa.chunked_array([nulls[:1], given, nulls, padded], few.type).combine_chunks()
    return pa.table(columns)


def _given(index: Index, values: Values) -> pa.Table:
    table = values if isinstance(values, pa.Table) else pa.table({index.columns[0]: values})
    missing = set(index.columns) - set(table.column_names)
    require(
        not missing,
        f"values() lacks {', '.join(sorted(missing))}: give a pyarrow.Table with all columns of {index!r}",
    )
    return table


def variants(index: Index, values: Values) -> list[Index]:
    """The index as it is, and at each other granularity at which it can be built."""
    found = [index]
    if any(field.name == "granularity" for field in dataclasses.fields(index)):  # type: ignore[arg-type]
        case = next(fixed_cases(rows_of(index, values)))
        for granularity in _GRANULARITIES:
            try:
                variant: Any = dataclasses.replace(index, granularity=granularity)  # type: ignore[type-var]
                variant.build(case.columns)
            except IndexBuildError:  # it does not know that one
                continue
            if variant not in found:
                found.append(variant)
    return found


def questions_about(index: Index, columns: MemoryColumns, start: int = 0, step: int = 1) -> list[Expected]:
    """What an index may be asked, all or each ``step``-th from ``start`` on, with the right answers."""
    asked = (
        predicate for name in index.columns for predicate in unchecked_questions(name, columns.values(name))
    )
    found: dict[Condition, None] = {}
    for predicate in islice(asked, start, None, step):
        with suppress(PredicateError):  # values of this type do not compare
            found.update(dict.fromkeys(conditions(bind(predicate, columns.schema))))
    return [Expected(leaf, _matching(leaf, columns)) for leaf in found]


def _leaves(where: str, columns: MemoryColumns) -> Iterator[Condition]:
    return conditions(bind(parse_sql(where), columns.schema))


def _for_many(check: Callable[[Draw], None]) -> None:
    """Run a check on many draws: Hypothesis', if it is installed; else random ones from fixed seeds."""
    try:
        import hypothesis
        from hypothesis import strategies
    except ImportError:
        for seed in range(RANDOM_LAYOUTS):
            numbers = np.random.default_rng(seed)
            check(lambda low, high, numbers=numbers: int(numbers.integers(low, high + 1)))  # type: ignore[misc]
        return

    def with_hypothesis(data: Any) -> None:
        check(lambda low, high: data.draw(strategies.integers(low, high)))

    given = hypothesis.given(strategies.data())
    limited = hypothesis.settings(max_examples=RANDOM_LAYOUTS, deadline=None, database=None)
    limited(given(with_hypothesis))()


def some_of(items: Sequence[Item], count: int) -> list[Item]:
    """As many of the items, chosen without a pattern, since what is asked comes in patterns."""
    chosen = np.random.default_rng(0).permutation(len(items))[:count]
    return [items[place] for place in sorted(chosen.tolist())]


def require(holds: bool, message: str) -> None:
    """Fail unless something holds."""
    if not holds:
        raise AssertionError(message)
