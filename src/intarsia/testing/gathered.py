"""Checks of a kind whose payloads in many files become one structure of a lake index.

A check raises `ContractError` with a description of the fault. Indexes that do not define
``digest`` pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.comparison import comparison_array, comparison_type
from intarsia.errors import CorruptFileError, IndexPayloadError
from intarsia.indexes.base import GatheredPart, GatheredParts, Index, OpenIndex, defines
from intarsia.indexes.summaries import summarize, summary_schema
from intarsia.predicate import Condition
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import Rows
from intarsia.testing.checks import (
    ContractError,
    Values,
    check_derived,
    conditions_about,
    require,
    rows_of,
    run_many,
    some_of,
    variants,
    with_matches,
)
from intarsia.testing.files import damage, flipped
from intarsia.testing.memory import Case, Draw, MemoryColumns, fixed_cases, random_case

#: The number of files of a random lake.
MAX_FILES = 4

#: The number of random lakes; see `intarsia.testing.checks.RANDOM_LAYOUTS`.
RANDOM_LAKES = 8

#: The number of files of one row.
MAX_SMALL_FILES = 16

#: The number of predicates per damaged structure.
NUM_PREDICATES = 8

#: The number of offsets at which a part is damaged, one at a time.
DAMAGED_OFFSETS = 8

_LOST = "the part is damaged"

_ALLOWED = (CorruptFileError, IndexPayloadError, pa.ArrowException)

_DAMAGE_RULE = (
    "open_gathered() and the structure may only raise CorruptFileError and IndexPayloadError; a plan then "
    "ignores the structure"
)


def check_gathered(index: Index, values: Values) -> None:
    """Check that a gathered structure excludes no file with a matching row, for fixed and random lakes.

    Also checks that all rows of the files in ``certain_files`` match, that ``file_summaries`` are correct,
    and that digests and structures are the same if they are built twice.
    """
    if not defines(index, "digest"):
        return
    table = rows_of(index, values)
    built = variants(index, values)
    layouts = _Files.of(index, "files with special layouts", list(fixed_cases(table)), 0, 5)
    # few rows in each file, so that most files can be excluded
    rows = np.linspace(0, len(table) - 1, min(len(table), MAX_SMALL_FILES)).astype(np.int64).tolist()
    small = [Case(f"row {row}", MemoryColumns(table.slice(row, 1), [0, 1])) for row in dict.fromkeys(rows)]
    for variant in built:
        _check_lake(variant, layouts)
    _check_lake(index, _Files.of(index, "files of one row", small, 0, 2), is_selective=True)

    def check(draw: Draw) -> None:
        files = [random_case(table, draw) for _ in range(draw(1, MAX_FILES))]
        name = f"{len(files)} files with the rows {[file.columns.table.to_pylist() for file in files]}"
        _check_lake(built[draw(0, len(built) - 1)], _Files.of(index, name, files, draw(0, 9), 10))

    run_many(check, RANDOM_LAKES)


def check_gathered_damage(index: Index, values: Values) -> None:
    """Check that damaged parts of a structure are refused, or do not change a result.

    A part whose checksum is wrong cannot be read, so the results remain correct. A truncated part is refused
    or gives correct results. Changed bytes with a new checksum may give any result, but raise nothing other
    than CorruptFileError and IndexPayloadError.
    """
    if not defines(index, "digest"):
        return
    cases = list(fixed_cases(rows_of(index, values)))
    lake = _gather(index, _Files.of(index, "files with special layouts", cases, 0, 1, NUM_PREDICATES))
    if lake is None:
        return
    for name, part in lake.parts.items():
        rest = {other: found for other, found in lake.parts.items() if other != name}
        damaged = [
            (f"the damaged part {name!r}", replace(lake, lost=name), True),
            (f"without the part {name!r}", replace(lake, parts=rest), True),
        ]
        damaged += [
            (f"the part {name!r} {about}", replace(lake, parts={**lake.parts, name: changed}), is_right)
            for about, changed, is_right in _damaged(part)
        ]
        for about, changed_lake, is_right in damaged:
            with damage(f"{index!r} with {about}", _DAMAGE_RULE, _ALLOWED):
                _check_answers(changed_lake, is_right=is_right)


# --- a lake --------------------------------------------------------------------------------------------


class _Files(NamedTuple):
    """Files, and conditions with the number of matching rows in each file."""

    name: str
    cases: list[Case]
    expected: list[tuple[Condition, Rows]]

    @classmethod
    def of(
        cls, index: Index, name: str, cases: list[Case], start: int, step: int, most: int | None = None
    ) -> _Files:
        """Return files and each ``step``-th condition, or at most ``most``."""
        table = pa.concat_tables([case.columns.table for case in cases])
        edges = np.cumsum([0, *(len(case.columns.table) for case in cases)])
        columns = MemoryColumns(table, [0, len(table)])
        leaves = conditions_about(index, columns, start, step)
        chosen = leaves if most is None else some_of(leaves, most)
        found = with_matches(chosen, columns)
        return cls(name, cases, [(leaf, rows.count_between(edges)) for leaf, rows in found])

    def take(self, ordinals: list[int]) -> _Files:
        expected = [(leaf, counts[ordinals]) for leaf, counts in self.expected]
        return self._replace(cases=[self.cases[ordinal] for ordinal in ordinals], expected=expected)


@dataclass(frozen=True)
class _Lake:
    """The files that a structure covers, and its parts; one of them may be lost."""

    index: Index
    files: _Files
    parts: Mapping[str, GatheredPart]
    lost: str | None = None

    def open(self) -> OpenIndex:
        found = self.index.open_gathered(_MemoryParts(self.parts, self.lost), len(self.files.cases))
        check_derived(found, self.index, "open_gathered")
        return found


class _MemoryParts(GatheredParts):
    """Parts in memory."""

    def __init__(self, parts: Mapping[str, GatheredPart], lost: str | None) -> None:
        self._parts = parts
        self._lost = lost

    def names(self) -> list[str]:
        return list(self._parts)

    def num_bytes(self, name: str) -> int:
        return len(self._part(name).data)

    def read(self, name: str) -> bytes:
        found = self._part(name)
        if name == self._lost:
            raise CorruptFileError(_LOST, reason="container-part")
        return found.data

    def read_pieces(self, name: str, ordinals: Sequence[int]) -> list[bytes]:
        data = self.read(name)
        width = self._part(name).piece_bytes or len(data)
        if any(not 0 <= ordinal < len(data) // max(width, 1) for ordinal in ordinals):
            raise CorruptFileError(f"part {name!r} has no such piece", reason="container-part")
        return [data[ordinal * width : (ordinal + 1) * width] for ordinal in ordinals]

    def _part(self, name: str) -> GatheredPart:
        if name not in self._parts:
            raise CorruptFileError(f"part {name!r} is missing", reason="container-section")
        return self._parts[name]


def _check_lake(index: Index, files: _Files, *, is_selective: bool = False) -> None:
    lake = _gather(index, files)
    if lake is None:
        return
    opened = _check_answers(lake)
    if is_selective and all(opened.file_summaries(column) is None for column in index.columns):
        found = [opened.candidate_files(leaf) for leaf, _ in files.expected]
        require(
            any(possible is not None and not possible.all() for possible in found),
            "excludes-nothing",
            f"{index!r}: candidate_files() excludes no file of {files.name} for any of {len(found)} "
            "conditions; return None from digest(), or exclude files",
        )


def _gather(index: Index, files: _Files) -> _Lake | None:
    covered, digests = [], []
    for ordinal, file in enumerate(files.cases):
        layout = file.columns.layout_when_opened
        once, twice = (index.digest(index.build(file.columns), layout) for _ in range(2))
        require(
            once is None or type(once) is bytes,
            "digest-not-bytes",
            f"{index!r}: digest() returned {type(once).__name__}, not bytes or None",
        )
        require(
            once == twice,
            "not-deterministic",
            f"{index!r}: digest() of the payload built twice on {file.name} returns different bytes",
        )
        if once is not None:
            covered.append(ordinal)
            digests.append(once)
    if not digests:
        return None
    gathered, again = (index.gather(digests) for _ in range(2))
    if gathered is None:
        return None
    parts = [GatheredPart(*part) for part in gathered]
    require(
        again is not None and parts == [GatheredPart(*part) for part in again],
        "not-deterministic",
        f"{index!r}: gather() of the same digests returns different parts",
    )
    by_name = {part.name: part for part in parts}
    require(
        len(by_name) == len(parts) and all(type(part.data) is bytes for part in parts),
        "invalid-parts",
        f"{index!r}: gather() returned the parts {[*by_name]}; names must be unique and data must be bytes",
    )
    for part in parts:
        require(
            part.piece_bytes is None or (part.piece_bytes > 0 and not len(part.data) % part.piece_bytes),
            "invalid-parts",
            f"{index!r}: part {part.name!r} of {len(part.data)} bytes has pieces of {part.piece_bytes} bytes",
        )
    return _Lake(index, files.take(covered), by_name)


# --- answers -------------------------------------------------------------------------------------------


def _check_answers(lake: _Lake, *, is_right: bool = True) -> OpenIndex:
    """Open a structure, and compare its results with the matching rows, or check only their form."""
    opened = lake.open()
    lengths = np.array([len(case.columns.table) for case in lake.files.cases])
    for leaf, num_matching in lake.files.expected:
        about = f"{lake.index!r} with {leaf} on {lake.files.name}"
        cost = opened.cost_bytes(leaf)
        require(cost >= 0, "invalid-cost", f"{about}: cost_bytes() returned {cost!r}")
        possible = _mask(opened.candidate_files(leaf), "candidate_files", about, len(lengths))
        if is_right and possible is not None and (lost := ~possible & (num_matching > 0)).any():
            raise ContractError(
                f"{about}: candidate_files() excludes {_described(lake, lost)}, with {num_matching[lost][0]} "
                f"matching rows of {lengths[lost][0]}; return None where {leaf} cannot be evaluated",
                reason="excludes-matching-files",
            )
        certain = _mask(opened.certain_files(leaf), "certain_files", about, len(lengths))
        if is_right and certain is not None and (wrong := certain & (num_matching < lengths)).any():
            raise ContractError(
                f"{about}: certain_files() contains {_described(lake, wrong)}, with only "
                f"{num_matching[wrong][0]} matching rows of {lengths[wrong][0]}",
                reason="certain-files-do-not-match",
            )
    for column in lake.index.columns:
        _check_summaries(opened.file_summaries(column), column, lake, is_right)
    return opened


def _mask(found: object, name: str, about: str, num_files: int) -> Bools | None:
    require(
        found is None
        or (isinstance(found, np.ndarray) and found.dtype == np.bool_ and found.shape == (num_files,)),
        "not-a-boolean-per-file",
        f"{about}: {name}() returned {found!r}; it must be None, or an array of {num_files} booleans",
    )
    return found  # type: ignore[return-value]


def _described(lake: _Lake, files: npt.NDArray[np.bool_]) -> str:
    ordinal = int(np.flatnonzero(files)[0])
    return f"file {ordinal} ({lake.files.cases[ordinal].name})"


def _check_summaries(found: tuple[pa.Table, Bools] | None, column: str, lake: _Lake, is_right: bool) -> None:
    if found is None:
        return
    table, exact = found
    cases = lake.files.cases
    about = f"{lake.index!r}: file_summaries({column!r}) of {lake.files.name}"
    data_type = comparison_type(cases[0].columns.schema.field(column).type)
    require(
        table.schema == summary_schema(data_type) and len(table) == len(exact) == len(cases),
        "invalid-summaries",
        f"{about} has {len(table)} rows of {table.schema.to_string()}",
    )
    if not is_right:
        return
    for file, row, is_exact in zip(cases, table.to_pylist(), exact.tolist(), strict=True):
        values = comparison_array(file.columns.values(column), data_type)
        if not len(values):
            continue
        (expected,) = summarize(values, np.zeros(1, dtype=np.int64)).to_pylist()
        for name, value in expected.items():
            require(
                _agrees(name, row[name], value, is_exact=is_exact),
                "wrong-summary",
                f"{about}: {name} of {file.name} is {row[name]!r}, and that of its values is {value!r}",
            )


def _agrees(name: str, stated: Any, value: Any, *, is_exact: bool) -> bool:
    """Return whether a summary is that of the values, or for inexact bounds, whether it includes them."""
    if name in ("min", "max") and not is_exact:
        if stated is None or value is None:
            return stated is value
        return bool(stated <= value if name == "min" else stated >= value)
    if isinstance(stated, float) and isinstance(value, float):  # sums differ by their order
        return math.isclose(stated, value, rel_tol=1e-9) or (math.isnan(stated) and math.isnan(value))
    return bool(stated == value)


# --- damage --------------------------------------------------------------------------------------------


def _damaged(part: GatheredPart) -> Iterator[tuple[str, GatheredPart, bool]]:
    """Yield descriptions, damaged parts, and whether results must be correct."""
    data, width = part.data, part.piece_bytes
    positions = sorted(set(np.linspace(0, max(0, len(data) - 1), DAMAGED_OFFSETS).astype(np.int64).tolist()))
    for length in {offset // (width or 1) * (width or 1) for offset in positions}:
        if length < len(data):
            yield f"truncated to {length} bytes", part._replace(data=data[:length]), True
    for offset, flip, changed in flipped(data, positions if data else []):
        yield f"changed in byte {offset} by {flip:#04x}", part._replace(data=changed), False
