"""Checks of an index in a real file: attach, scans, verify, detach."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
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
from intarsia.errors import IntarsiaWarning
from intarsia.indexes.base import Index
from intarsia.indexes.registry import find_index_class
from intarsia.lake.opening import open as open_table
from intarsia.lake.table import Table
from intarsia.predicate import Predicate, bind, evaluate
from intarsia.testing.checks import ContractError, Values, rows_of, some_of, variants
from intarsia.testing.questions import questions

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
