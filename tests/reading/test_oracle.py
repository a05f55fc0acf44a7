"""A scan equals a full read with a filter by row, with identical types and bits (contract C1).

Rows are read by `pyarrow.parquet.read_table` and filtered by the naive oracle of ``tests/predicate``.
"""

from __future__ import annotations

import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st

import intarsia as ia
from tests.effort import examples
from tests.predicate import oracle
from tests.predicate import strategies as flat
from tests.reading import tables, writers
from tests.reading.exact import assert_same_rows, bits, leaf_at


def rows_of(scan):
    """The rows of a scan in batches; no index must be ignored except those that pyarrow 26 writes wrongly.

    With tiny pages, list columns get empty pages with the same first row as the next page.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        rows = pa.Table.from_batches(list(scan), scan.schema)
    for note in scan.report.ignored:
        assert note.index.startswith(("OffsetIndex of n.", "page index, row group")), note
        assert note.code in ("rows-not-ascending", "wrong-page-index"), note
    return rows


def check_scan(data, path, comparable):
    """Scan a file in several ways, each with another predicate."""
    try:
        full = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        # pyarrow 26 writes lists on tiny pages that it cannot read, and lacks some encodings
        event(str(error)[:50])
        with pytest.raises(ia.IntarsiaError):
            rows_of(ia.open(path).scan())
        return
    columns = {name: leaf_at(full, name) for name in comparable}
    node = data.draw(flat.predicates({name: column.type for name, column in columns.items()}), label="where")
    keep = oracle.selected(node, columns, full.num_rows)
    table = ia.open(path)

    assert_same_rows(rows_of(table.scan(node)), full, keep)

    chosen = data.draw(st.lists(st.sampled_from(full.column_names), unique=True), label="columns")
    assert_same_rows(rows_of(table.scan(node, chosen)), full.select(chosen), keep)

    limit = data.draw(st.integers(0, full.num_rows + 1), label="limit")
    kept = [row for row, flag in enumerate(keep) if flag][:limit]
    limited = [row in kept for row in range(full.num_rows)]
    assert_same_rows(rows_of(table.scan(node, chosen, limit)), full.select(chosen), limited)
    head = [row < limit for row in range(full.num_rows)]
    assert_same_rows(rows_of(table.scan(None, chosen, limit)), full.select(chosen), head)

    assert_same_rows(table.scan(columns=chosen).to_arrow(), full.select(chosen))
    leaf = data.draw(st.sampled_from(sorted(columns)), label="leaf")
    alone = rows_of(table.scan(node, [leaf]))
    assert alone.column_names == [leaf.rpartition(".")[2]]
    assert bits(alone.column(0)) == [
        value for value, kept in zip(bits(columns[leaf]), keep, strict=True) if kept
    ]
    assert table.explain(node).rows_candidate >= sum(keep)


@settings(max_examples=examples(300))
@given(st.data())
def test_files_by_pyarrow(tmp_path_factory, data):
    made = data.draw(tables.tables(), label="table")
    options = data.draw(tables.pyarrow_options(made), label="options")
    path = tmp_path_factory.getbasetemp() / "oracle.parquet"
    try:
        pq.write_table(made.table, path, **options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        event(str(error)[:50])
        reject()
    check_scan(data, path, made.comparable)


@pytest.mark.parametrize("name", writers.WRITERS)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_files_by_other_writers(tmp_path_factory, name, data):
    writer = writers.WRITERS[name]
    made = data.draw(tables.tables(writer.types, writer.nested, writer.max_rows), label="table")
    path = tmp_path_factory.getbasetemp() / f"{name}.parquet"
    path.unlink(missing_ok=True)
    writer.write(data.draw, made.table, path)
    check_scan(data, path, made.comparable)
