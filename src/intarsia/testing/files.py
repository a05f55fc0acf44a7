"""An index in a real file: attached, used by scans, verified, detached."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.check.verification import verify
from intarsia.embed import attach, detach
from intarsia.errors import IntarsiaWarning
from intarsia.indexes.base import Index
from intarsia.indexes.registry import find_index_class
from intarsia.lake.table import Table
from intarsia.lake.table import open as open_table
from intarsia.predicate import Predicate, bind, evaluate
from intarsia.testing.checks import Values, rows_of, some_of, variants
from intarsia.testing.questions import questions

#: So many predicates are asked of each file.
ASKED = 40

_ROW = "row number"


def check_announced(index: Index) -> None:
    """A file that has such an index finds its class: the package is installed and announces the kind."""
    cls = type(index)
    found = find_index_class(index.kind)
    if found is not cls:
        raise AssertionError(
            f"a file with an index of kind {index.kind!r} "
            + (f"finds {found!r}" if found is not None else "finds no class")
            + ": announce it in pyproject.toml, and install the package again:\n"
            + '  [project.entry-points."intarsia.indexes"]\n'
            + f'  {index.kind} = "{cls.__module__}:{cls.__qualname__}"'
        )


def check_file(index: Index, values: Values) -> None:
    """Attach to a file at each granularity: scans give the rows of a full read; detach restores each byte."""
    check_announced(index)
    table = _enlarged(rows_of(index, values))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "checked.parquet"
        rows = -(-table.num_rows // 3)
        # no statistics and no dictionaries, so that this index is asked and no other
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
        asked = _asked(index, table)
        for variant in variants(index, values):
            _check_attached(path, variant, table, asked)


def _check_attached(path: Path, index: Index, table: pa.Table, asked: Sequence[Predicate]) -> None:
    before = path.read_bytes()
    attach(path, [index])
    attached = path.read_bytes()
    attach(path, [index])
    if path.read_bytes() != attached:
        raise AssertionError(
            f"{index!r} attached again changes the file; are its parameters what JSON keeps?"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", IntarsiaWarning)
        opened = open_table(path)
        for predicate in asked:
            _check_scan(opened, index, table, predicate)
    report = verify(path)
    if report.findings:
        found = "\n  ".join(map(str, report.findings))
        raise AssertionError(f"intarsia.verify finds fault with {index!r}:\n  {found}")
    detach(path)
    if path.read_bytes() != before:
        raise AssertionError(f"detach does not bring back the bytes from before {index!r} was attached")


def _check_scan(opened: Table, index: Index, table: pa.Table, predicate: Predicate) -> None:
    bound = bind(predicate, table.schema)
    columns = {path: table.column(".".join(path)) for path in bound.paths()}
    expected = np.flatnonzero(evaluate(bound, columns, table.num_rows).to_numpy(zero_copy_only=False))
    try:
        found = opened.scan(where=predicate, columns=[_ROW]).to_arrow().column(_ROW).to_numpy()
    except IntarsiaWarning as warning:
        raise AssertionError(f"{index!r} is not used for {predicate}: {warning}") from warning
    if not np.array_equal(found, expected):
        lost = np.setdiff1d(expected, found)
        raise AssertionError(
            f"a scan with {index!r} for {predicate} gives {len(found)} rows; reading all and filtering gives "
            f"{len(expected)}; missing are the rows {lost[:5].tolist()}"
        )


def _asked(index: Index, table: pa.Table) -> list[Predicate]:
    found = [
        predicate
        for name in index.columns
        for predicate in questions(name, table.column(name).combine_chunks())
    ]
    return some_of(found, ASKED)


def _enlarged(rows: pa.Table) -> pa.Table:
    """The rows some times over, each with its number, and wide enough that reading an index pays off."""
    times = max(1, 600 // rows.num_rows)
    table = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), times)))
    padding = [f"{row:04} " * 100 for row in range(table.num_rows)]
    return table.append_column(_ROW, pa.array(range(table.num_rows))).append_column("padding", [padding])
