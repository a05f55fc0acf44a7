"""Checks of an index in a real file (attach, scans, verify, detach), and with damaged payloads.

With damaged payloads, an index may raise `IndexPayloadError`, and no other error.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.check.verification import verify
from intarsia.embed import attach, detach
from intarsia.errors import IndexPayloadError, IntarsiaWarning
from intarsia.indexes.base import Index, PayloadBytes, PayloadSource, defines
from intarsia.indexes.registry import find_index_class
from intarsia.lake.opening import open as open_table
from intarsia.lake.table import Table
from intarsia.predicate import Predicate, bind, evaluate
from intarsia.storage import ByteRange
from intarsia.testing.checks import (
    ContractError,
    Expected,
    Values,
    check_opened,
    conditions_about,
    query,
    rows_of,
    some_of,
    variants,
    with_matches,
)
from intarsia.testing.memory import Case, fixed_cases, questions

#: Ordinals of rows.
Ordinals: TypeAlias = "npt.NDArray[np.intp]"

#: The number of predicates per file.
NUM_PREDICATES = 40

_ROW = "row number"


def check_registered(index: Index) -> None:
    """Check that the package is installed and registers the kind, so that readers find the class."""
    cls = type(index)
    index_class = find_index_class(index.kind)
    if index_class is not cls:
        raise ContractError(
            f"the class registered for kind {index.kind!r} is "
            + (f"{index_class!r}" if index_class is not None else "missing")
            + "; register it in pyproject.toml, and install the package again:\n"
            + '  [project.entry-points."intarsia.indexes"]\n'
            + f'  {index.kind} = "{cls.__module__}:{cls.__qualname__}"',
            reason="not-registered",
        )


def check_file(index: Index, values: Values) -> None:
    """Check at each granularity that scans equal a filtered full read, and that detach restores the file.

    The predicates are divided among the granularities; `check_layouts` checks all of them at each
    granularity.
    """
    check_registered(index)
    table = _enlarged(rows_of(index, values))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "checked.parquet"
        rows = -(-table.num_rows // 3)
        # no statistics and no dictionaries, so that scans use only this index
        pq.write_table(
            table,
            path,
            row_group_size=rows,
            data_page_size=256,
            write_batch_size=16,
            use_dictionary=False,
            write_statistics=False,
            compression="none",
        )
        requested = {predicate: _matching(predicate, table) for predicate in _predicates(index, table)}
        built = variants(index, values)
        for ordinal, variant in enumerate(built):
            _check_attached(path, variant, dict(islice(requested.items(), ordinal, None, len(built))))


def _check_attached(path: Path, index: Index, requested: Mapping[Predicate, Ordinals]) -> None:
    before = path.read_bytes()
    attach(path, [index])
    attached = path.read_bytes()
    attach(path, [index])
    if path.read_bytes() != attached:
        raise ContractError(
            f"attaching {index!r} twice changes the file; check that JSON preserves its parameters",
            reason="attach-not-idempotent",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", IntarsiaWarning)
        opened = open_table(path)
        for predicate, expected in requested.items():
            _check_scan(opened, index, predicate, expected)
    report = verify(path)
    if report.findings:
        found = "\n  ".join(map(str, report.findings))
        raise ContractError(f"intarsia.verify reports faults in {index!r}:\n  {found}", reason="not-verified")
    detach(path)
    if path.read_bytes() != before:
        raise ContractError(
            f"detach does not restore the file to which {index!r} was attached", reason="detach-differs"
        )


def _matching(predicate: Predicate, table: pa.Table) -> Ordinals:
    bound = bind(predicate, table.schema)
    columns = {path: table.column(".".join(path)) for path in bound.paths()}
    return np.flatnonzero(evaluate(bound, columns, table.num_rows).to_numpy(zero_copy_only=False))


def _check_scan(opened: Table, index: Index, predicate: Predicate, expected: Ordinals) -> None:
    try:
        found = opened.scan(where=predicate, columns=[_ROW]).to_arrow().column(_ROW).to_numpy()
    except IntarsiaWarning as warning:
        raise ContractError(f"{index!r} is ignored for {predicate}: {warning}", reason="ignored") from warning
    if not np.array_equal(found, expected):
        lost = np.setdiff1d(expected, found)
        raise ContractError(
            f"a scan with {index!r} and {predicate} returns {len(found)} rows, but a full read with a filter "
            f"returns {len(expected)}; missing rows: {lost[:5].tolist()}",
            reason="scan-differs",
        )


def _predicates(index: Index, table: pa.Table) -> list[Predicate]:
    found = [
        predicate
        for name in index.columns
        for predicate in questions(name, table.column(name).combine_chunks())
    ]
    return some_of(found, NUM_PREDICATES)


def _enlarged(rows: pa.Table) -> pa.Table:
    """Repeat the rows, number them, and make them wide enough that reading an index saves bytes."""
    times = max(1, 600 // rows.num_rows)
    table = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), times)))
    padding = [f"{row:04} " * 100 for row in range(table.num_rows)]
    return table.append_column(_ROW, pa.array(range(table.num_rows))).append_column("padding", [padding])


#: The number of predicates per damaged payload.
NUM_DAMAGED_PREDICATES = 16

#: The number of offsets at which a payload is damaged, one at a time.
DAMAGED_OFFSETS = 64

_DAMAGE_RULE = "open() and the open index may only raise IndexPayloadError; a scan then ignores the index"


def check_damage(index: Index, values: Values) -> None:
    """Check that a damaged payload raises nothing but IndexPayloadError.

    A scan verifies the checksum of a payload before it opens it. An index may therefore return anything if
    bytes are changed. A truncated payload must be refused or give correct results.
    """
    case, expected = _case(index, values)
    for variant in variants(index, values):
        for name, damaged, is_truncated in _damaged(variant.build(case.columns)):
            with damage(f"{variant!r} with its payload {name}", _DAMAGE_RULE):
                opened = variant.open(damaged, case.columns.layout_when_opened)
                if is_truncated:
                    check_opened(opened, variant, case, expected)
                else:
                    for leaf, _ in expected:
                        query(opened, variant, leaf)


def check_probed_damage(index: Index, values: Values) -> None:
    """Check that a probed index detects all damage, or gives correct results despite it.

    A scan reads only parts of the payload, so it cannot verify the checksum of the whole.
    """
    if not defines(index, "open_source"):
        return
    case, expected = _case(index, values)
    for variant in variants(index, values):
        payload = variant.build(case.columns)
        sources: list[tuple[str, PayloadSource]] = [
            (f"{name} and probed", PayloadBytes(damaged)) for name, damaged, _ in _damaged(payload)
        ]
        sources += [(f"lost after {reads} reads", _LostSource(payload, reads)) for reads in range(4)]
        for name, source in sources:
            with damage(f"{variant!r} with its payload {name}", _DAMAGE_RULE):
                opened = variant.open_source(source, case.columns.layout_when_opened)
                check_opened(opened, variant, case, expected)


def _case(index: Index, values: Values) -> tuple[Case, list[Expected]]:
    """Return rows in a layout; and IS NULL, IS NOT NULL, and some of the other conditions."""
    case = next(fixed_cases(rows_of(index, values)))
    leaves = conditions_about(index, case.columns)
    chosen = [*leaves[:2], *some_of(leaves[2:], NUM_DAMAGED_PREDICATES)]
    return case, with_matches(chosen, case.columns)


def _damaged(payload: bytes) -> Iterator[tuple[str, bytes, bool]]:
    """Yield descriptions, damaged payloads, and whether they are truncated or else changed."""
    num_bytes = len(payload)
    spread = np.linspace(0, max(0, num_bytes - 1), DAMAGED_OFFSETS).astype(np.int64).tolist()
    near_ends = (*range(8), *range(num_bytes - 8, num_bytes))
    offsets = sorted({offset for offset in (*spread, *near_ends) if 0 <= offset < num_bytes})
    for length in offsets:
        yield f"truncated to {length} of {num_bytes} bytes", payload[:length], True
    for offset, flip, damaged in flipped(payload, offsets):
        yield f"byte {offset} of {num_bytes} changed by {flip:#04x}", damaged, False


def flipped(data: bytes, offsets: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
    """Yield damaged copies of bytes: for each offset, one with a byte flipped, and one with a bit flipped.

    Args:
        offsets: The offsets to damage, one at a time.
    """
    for offset in offsets:
        for flip in (0xFF, 1 << offset % 8):
            damaged = bytearray(data)
            damaged[offset] ^= flip
            yield offset, flip, bytes(damaged)


@contextmanager
def damage(
    about: str, rule: str, allowed: tuple[type[Exception], ...] = (IndexPayloadError, pa.ArrowException)
) -> Iterator[None]:
    """Suppress the errors that damage may cause, and report others as failures of the contract.

    Args:
        about: The index and the damage, for messages.
        rule: The rule that another error breaks, for messages.
        allowed: The errors to suppress. Arrow may refuse damaged values; a scan ignores the index then, too.
    """
    try:
        yield
    except allowed:
        return
    except ContractError as error:
        raise ContractError(f"{about}: {error}", reason=error.reason) from error
    except Exception as error:
        message = f"{about}: {type(error).__name__}: {error}\n  {rule}"
        raise ContractError(message, reason="damage-raises") from error


class _LostSource:
    """A payload that fails after some reads, as if its file had been replaced."""

    def __init__(self, payload: bytes, reads: int) -> None:
        self._payload = PayloadBytes(payload)
        self._reads = reads
        self.num_bytes = len(payload)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        if self._reads == 0:
            raise IndexPayloadError("the payload is gone", reason="payload-gone")
        self._reads -= 1
        return self._payload.read_ranges(ranges)
