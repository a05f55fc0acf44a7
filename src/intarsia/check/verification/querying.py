"""Query an embedded index like a scan, for values in the data.

Its candidate rows must include every row that matches in the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.amounts import some
from intarsia.arrow.comparison import comparison_array, comparison_type, sortable_type
from intarsia.check.verification.findings import Findings
from intarsia.embed.column_data import FileColumns
from intarsia.errors import (
    ColumnNotFoundError,
    FormatError,
    IndexBuildError,
    IndexPayloadError,
    PredicateError,
)
from intarsia.file import ParquetInput
from intarsia.format.directory import Entry
from intarsia.indexes.base import Index, OpenIndex, checked_rows, defines
from intarsia.indexes.proof import call_index, split_batches
from intarsia.once import cached_property
from intarsia.predicate import Like, Not, Predicate, RegexpLike, bind, contains, ends_with
from intarsia.predicate.bound import (
    BoundCompare,
    BoundIn,
    BoundNull,
    BoundPrefix,
    Condition,
    Path,
)
from intarsia.predicate.evaluate import condition_mask
from intarsia.predicate.nodes import escaped
from intarsia.records import dataclass
from intarsia.rows.selection import RowSelection

#: Number of queried values if the rebuilt index differs.
_DOUBTED_VALUES = 500

#: Row groups smaller than this are queried together, so that thousands of them do not take minutes.
_ROWS_AT_ONCE = 8192
_BYTES_AT_ONCE = 16 << 20

#: The first row of a piece of a column, and its values.
_Piece: TypeAlias = tuple[int, pa.Array]


@dataclass(frozen=True)
class OpenedEntry:
    """An open entry.

    Attributes:
        ways: The index, opened from its whole payload, and for probing in the file.
        num_rows: Number of rows in the file.
        rebuilt: The rebuilt index, if its payload differs.
    """

    entry: Entry
    index: Index
    payload: bytes
    ways: Sequence[OpenIndex]
    num_rows: int
    rebuilt: OpenIndex | None = None

    def uses_for(self, predicate: Condition) -> tuple[bool, bool]:
        """Return whether a scan would prune with it, and whether it would estimate with it."""
        return bool(self.index.can_prune(predicate)), bool(self.index.can_estimate(predicate))


def check_columns(file: ParquetInput, opened: OpenedEntry, columns: FileColumns, findings: Findings) -> int:
    """Query each column; return the number of queries for which the rebuilt index keeps fewer rows."""
    paths, max_batches = opened.entry.columns, None
    if not paths:  # an index of whole rows serves every column; some rows of each suffice
        leaves = file.schema.leaves_by_path.items() if defines(opened.index, "can_estimate") else ()
        paths, max_batches = tuple(path for path, leaf in leaves if leaf.ordinal in file.leaf_types), 1
    return sum(_check_column(file, opened, path, columns, findings, max_batches) for path in paths)


def _check_column(
    file: ParquetInput,
    opened: OpenedEntry,
    path: Path,
    columns: FileColumns,
    findings: Findings,
    max_batches: int | None,
) -> int:
    """Query the index for one column; return the same number as `check_columns`."""
    starts = file.footer.row_group_starts
    name = ".".join(path)
    kept_more = 0
    try:
        leaf = columns.leaf(path)
        for pieces in split_batches(islice(columns.batches(path), max_batches), _weight, 1):
            if opened.rebuilt is None and len(pieces) > 1 and _is_faultless(opened, path, pieces, findings):
                continue
            for first_row, values in pieces:
                row_group = int(np.searchsorted(starts, first_row, side="right")) - 1
                chunk_findings = findings.at(row_group, leaf.name)
                kept_more += _check_values(opened, leaf.path, first_row, values, chunk_findings)
    except (ColumnNotFoundError, IndexBuildError) as error:
        findings.add("index-column", str(error), index=opened.entry.name)
    except FormatError as error:
        findings.at(None, name).add("unreadable-pages", error.message, index=opened.entry.name)
    except (pa.ArrowException, ValueError) as error:  # invalid UTF-8, or times beyond midnight
        message = f"values of the column cannot be compared: {error}"
        findings.at(None, name).add("unchecked", message, index=opened.entry.name)
    return kept_more


def _weight(piece: _Piece) -> float:
    """Return the part of what is queried together that a piece takes."""
    return float(max(len(piece[1]) / _ROWS_AT_ONCE, piece[1].nbytes / _BYTES_AT_ONCE))


def _is_faultless(opened: OpenedEntry, path: Path, pieces: list[_Piece], findings: Findings) -> bool:
    """Return whether one query for all pieces finds no fault. Faults are not recorded."""
    trial = Findings(findings.file)
    data_type = comparison_type(pieces[0][1].type)
    values = pa.concat_arrays([comparison_array(values, data_type) for _, values in pieces])
    if _check_values(opened, path, pieces[0][0], values, trial) or trial.found:
        return False
    findings.add_all(trial)
    return True


def _check_values(
    opened: OpenedEntry, path: Path, first_row: int, values: pa.Array, findings: Findings
) -> int:
    """Query an index for the values of rows from ``first_row`` on."""
    data_type = comparison_type(values.type)
    matches = _Matches(comparison_array(values, data_type), first_row)
    findings.count_checked("embedded_rows", len(values))
    answers = _Answers(opened, first_row, len(values))
    max_values = SAMPLED_VALUES if opened.rebuilt is None else _DOUBTED_VALUES
    # an estimate adds up all granules, so asking in each row group would take the square of the time
    asks_estimates = first_row == 0 or opened.rebuilt is not None
    try:
        for predicate in questions(path, data_type, matches.values, max_values):
            prunes, estimates = call_index(partial(opened.uses_for, predicate))
            estimates = estimates and asks_estimates
            if prunes or estimates:
                found = matches.of(predicate)
                for way in opened.ways:
                    call_index(partial(answers.judge, way, predicate, found, prunes, estimates))
    except IndexPayloadError as error:
        findings.add("index-damaged", str(error), index=opened.entry.name)
        return 0
    for rule, does, wrong in (
        ("index-loses-rows", "it excludes", list(answers.lost)),
        ("index-claims-rows", "its certain rows include", list(answers.claimed)),
        ("index-estimate", "it estimates", list(answers.estimates)),
    ):
        if wrong:
            findings.add(rule, f"{does} {some(wrong, 3, '; ')}", index=opened.entry.name)
    return answers.kept_more


class _Answers:
    """The wrong results of an index for rows from ``first_row`` on."""

    def __init__(self, opened: OpenedEntry, first_row: int, num_rows: int) -> None:
        self.lost: dict[str, None] = {}  # ordered sets, because both ways may return the same
        self.claimed: dict[str, None] = {}
        self.estimates: dict[str, None] = {}
        self.kept_more = 0
        self._opened = opened
        self._rows = first_row, first_row + num_rows

    def judge(
        self, way: OpenIndex, predicate: Condition, found: RowSelection, prunes: bool, estimates: bool
    ) -> None:
        """Query like a scan, and compare with the rows that match."""
        if prunes:
            candidates = checked_rows(way.candidate_rows(predicate))
            certain = checked_rows(way.certain_rows(predicate))
            if candidates is not None and not (missing := found - candidates).is_empty:
                self.lost[f"{missing.num_rows} of {found.num_rows} rows where {predicate}"] = None
            if certain is not None and not (extra := certain.clip(*self._rows) - found).is_empty:
                self.claimed[f"{extra.num_rows} rows that do not match {predicate}"] = None
            self.kept_more += self._keeps_more(candidates, predicate)
        if estimates:
            estimate = way.estimated_rows(predicate)
            most = self._opened.num_rows
            if estimate is not None and not (math.isfinite(estimate) and 0 <= estimate <= most):
                self.estimates[f"{estimate:g} of {most} rows where {predicate}"] = None

    def _keeps_more(self, candidates: RowSelection | None, predicate: Condition) -> bool:
        rebuilt = self._opened.rebuilt
        fewest = None if rebuilt is None else rebuilt.candidate_rows(predicate)
        if fewest is None:
            return False
        kept = RowSelection.from_ranges([self._rows]) if candidates is None else candidates.clip(*self._rows)
        return not (kept - fewest).is_empty


class _Matches:
    """The rows that match, found in the values.

    Most conditions are on one value. Its rows are looked up in the rows sorted by value, because comparing
    all values for each condition would take most of the time.
    """

    def __init__(self, values: pa.Array, first_row: int) -> None:
        self.values = values
        with suppress(pa.ArrowNotImplementedError):  # so that each distinct value is compared once
            self.values = pc.dictionary_encode(values)
        self._first_row = first_row
        # both zeros are equal, and a dictionary in a file may repeat a value
        self._is_sortable = (
            pa.types.is_dictionary(self.values.type)
            and not pa.types.is_dictionary(values.type)
            and not pa.types.is_floating(values.type)
        )

    def of(self, predicate: Condition) -> RowSelection:
        """Return the rows that match a condition, numbered as in the file."""
        rows = self._rows_of_value(predicate)
        if rows is None:
            mask = condition_mask(predicate, self.values).to_numpy(zero_copy_only=False)
            return RowSelection.from_mask(np.asarray(mask, dtype=bool), self._first_row)
        return RowSelection.from_rows(rows + self._first_row)

    def _rows_of_value(self, predicate: Condition) -> npt.NDArray[np.int64] | None:
        if not self._is_sortable or not isinstance(predicate, BoundCompare) or predicate.op != "=":
            return None
        try:
            code = pc.index(self.values.dictionary, predicate.value).as_py()
        except pa.ArrowNotImplementedError:
            return None
        codes, rows = self._sorted
        if code < 0:  # which is the code of null here
            return rows[:0]
        return rows[np.searchsorted(codes, code) : np.searchsorted(codes, code, side="right")]

    @cached_property
    def _sorted(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The codes of all values in ascending order, and their rows; -1 is null."""
        codes = self.values.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        rows = np.argsort(codes, kind="stable")
        return codes[rows], rows


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
            if isinstance(leaf, Condition):
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
