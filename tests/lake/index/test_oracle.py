"""Answers with a lake index are those without one (contract C1), for random lakes."""

from __future__ import annotations

import shutil
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import event, given, settings
from hypothesis import strategies as st

import intarsia as ia
from tests.effort import examples
from tests.lake.index.lakes import age
from tests.predicate import strategies as flat
from tests.reading import tables
from tests.reading.exact import assert_same_rows, bits, leaf_at

#: Writers cannot write a part of a table with views.
TYPES = tuple(
    kind for kind in flat.TYPES if not (pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))
)

KINDS = (ia.Bloom, ia.Distinct, ia.ZoneMap, ia.Ngram, ia.RowMap)


def plain(totals):
    """Totals as text. Dates beyond the year 9999 are Arrow scalars, which have no text."""
    return {
        (name, function): str(bits(pa.array([value]))) if isinstance(value, pa.Scalar) else repr(value)
        for name, found in totals.items()
        for function, value in found.items()
    }


def attach_some(data, path, columns):
    """Attach random kinds to random columns; kinds that do not support a column are left out."""
    indexes = data.draw(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(columns)), max_size=3))
    for kind, column in dict.fromkeys(indexes):
        try:
            ia.attach(path, [kind(column)])
        except ia.IntarsiaError as error:
            event(error.reason)


def make_lake(data, folder):
    """Write a random table as several files with different options and indexes."""
    made = data.draw(tables.tables(TYPES, nested=(), max_rows=80), label="table")
    edges = sorted(
        data.draw(st.lists(st.integers(0, made.table.num_rows), min_size=1, max_size=5), label="edges")
    )
    parts = zip([0, *edges], [*edges, made.table.num_rows], strict=True)
    by_partition = data.draw(st.booleans(), label="partitions")
    for ordinal, (start, stop) in enumerate(parts):
        path = folder / (f"p={ordinal % 3}" if by_partition else "") / f"{ordinal}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        options = data.draw(tables.pyarrow_options(made), label="options")
        try:
            pq.write_table(made.table.slice(start, stop - start), path, **options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pq.write_table(made.table.slice(start, stop - start), path)
        attach_some(data, path, made.comparable)
        if data.draw(st.integers(0, 4), label="recent"):  # files of the last seconds are not indexed
            age(path)
    return made.comparable, by_partition


@settings(max_examples=examples(100))
@given(st.data())
def test_random_lakes(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "lake-oracle"
    shutil.rmtree(folder, ignore_errors=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        comparable, by_partition = make_lake(data, folder)
        before = ia.open(folder)
        try:
            full = before.scan().to_arrow()
        except ia.IntarsiaError as error:
            event(error.reason)
            return
        columns = {name: leaf_at(full, name).type for name in comparable}
        if by_partition:
            columns["p"] = pa.int32()
        node = data.draw(flat.predicates(columns), label="where")
        asked = {name: ["count", "min", "max"] for name in comparable}
        rows, totals = before.scan(node).to_arrow(), before.aggregate(asked, node)
        alone = before.aggregate(asked)

        report = before.build_lake_index(
            data.draw(st.sampled_from(["cache", "beside"]), label="location"), wait=False
        )
        assert report.failed == ()

        opened = [ia.open(folder)]
        if not by_partition:  # a list of files has no partition columns
            opened.append(ia.open(sorted(map(str, folder.rglob("*.parquet")))))
        for table in opened:
            scan = table.scan(node)
            assert_same_rows(scan.to_arrow(), rows)
            event(f"files not opened: {scan.report.files_total > scan.report.files_opened}")
            assert plain(table.aggregate(asked, node)) == plain(totals)
            assert plain(table.aggregate(asked)) == plain(alone)
            assert table.count(node) == rows.num_rows
            assert table.explain(node).rows_candidate >= rows.num_rows
