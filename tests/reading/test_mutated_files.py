"""Random changes of a file: each answer is right, an error of Intarsia, or follows from false bounds.

The answers for a changed file are compared with those for a new file that has the rows of a full read, and
no statistics. Bounds that were changed can exclude rows if nothing contradicts them. Changed bytes of a page
are always errors, because its checksum contradicts them.
"""

from __future__ import annotations

import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.file import ChunkKey, ParquetInput
from intarsia.indexes.column_index import ColumnIndexes
from intarsia.storage import MemorySource
from tests.effort import examples
from tests.reading.exact import assert_same_rows
from tests.reading.mutations import WRITERS, make_base, make_rows, mutate
from tests.reading.surgery import table_in_memory

NAME = "mutant.parquet"

WHERES = (
    "id = 151",
    "id < 100 OR id > 1100",
    "id BETWEEN 590 AND 610 AND num > 20",
    "num IS NULL",
    "num > 60",
    "text = 'w13'",
    "text LIKE 'w1%' AND id > 300",
    "text IS NOT NULL AND real > 3",
    "real <= -20",
    "raw > '0120' AND raw <= '0222 raw'",
    "raw IN ('0007 raw', '0399 raw', '0300')",
)

FUNCTIONS = {
    "id": ["count", "min", "max", "sum"],
    "num": ["count", "min", "max"],
    "text": ["count", "min", "max"],
    "real": ["min", "max"],
    "raw": ["min", "max"],
}

QUERIES = {
    "rows": lambda table, where: table.scan(where).to_arrow(),
    "count": lambda table, where: table.count(where),
    "aggregates": lambda table, where: repr(dict(table.aggregate(FUNCTIONS, where))),
    "values": lambda table, where: table.value_counts("text", where),
    "limit": lambda table, where: table.scan(where, ["id", "raw"], limit=3).to_arrow(),
    "first": lambda table, where: table.scan(where, ["id"], order_by="id", limit=3).to_arrow(),
    "last": lambda table, where: table.scan(where, ["num"], order_by="num DESC", limit=5).to_arrow(),
}


class Source(MemorySource):
    """Bytes that do not change, so that a table caches their metadata."""

    identity = NAME


def table_of(data):
    return table_in_memory(Source(data, NAME))


def copy_of(rows):
    """A sound file with rows, without bounds."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, write_statistics=False)
    return table_of(sink.getvalue().to_pybytes())


def answer(table, query, where):
    """The answer of a query, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        try:
            return QUERIES[query](table, where)
        except ia.IntarsiaError as error:
            return error


def read_bounds(file):
    """Everything that an open file claims about the values of its chunks and pages, after it was compared."""
    found = {"directory": file.directory, "writer": file.footer.created_by}
    for group, row_group in enumerate(file.footer.metadata.row_groups):
        for leaf in file.footer.leaves:
            key = ChunkKey(group, leaf.ordinal)
            file.load_page_index([key], [key])
            meta, index = row_group.columns[leaf.ordinal].meta_data, file.column_index(key)
            found["type", key] = file.footer.column_order(leaf), leaf.element
            found[key] = meta and meta.statistics, index
            if leaf.is_flat:
                ColumnIndexes(file).bounds(key)
    return found


def has_hidden_lies(base, mutant, table):
    """Whether bounds or counts were changed, and nothing contradicts them, so that rows may be lost.

    Afterwards, the table has read the whole page index.
    """
    with ParquetInput(MemorySource(base.data, NAME)) as file:
        expected = read_bounds(file)
    try:
        with table.new_snapshot().open(table.files[0]) as file:
            found = read_bounds(file)
            refuted = {ChunkKey(*one) for one in file.metadata.contradictions}
    except ia.IntarsiaError:
        return True
    changed = {key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)}
    return bool(changed - refuted)


@pytest.fixture(scope="module", params=WRITERS)
def base(request, tmp_path_factory):
    return make_base(request.param, tmp_path_factory.mktemp("mutants") / NAME)


def same(found, expected):
    if isinstance(expected, pa.Table) and isinstance(found, pa.Table):
        try:
            assert_same_rows(found, expected)
        except AssertionError:
            return False
        return True
    return type(found) is type(expected) and found == expected


def differences(base, mutant, wheres):
    """Yield the queries with a wrong answer that nothing excuses."""
    table = table_of(mutant.data)
    if mutant.kind == "page":
        reference, is_excused = copy_of(make_rows()), False
    else:
        rows = answer(table_of(mutant.data), "rows", None)
        reference = None if isinstance(rows, ia.IntarsiaError) else copy_of(rows)
        is_excused = has_hidden_lies(base, mutant, table)
    for where in wheres:
        for query in QUERIES:
            found = answer(table, query, where)
            if reference is None or is_excused or isinstance(found, ia.IntarsiaError):
                continue
            expected = answer(reference, query, where)
            if not same(found, expected):
                yield query, where, found, expected


def test_mutants(base):
    for seed in range(examples(60, deep=3_000)):
        mutant = mutate(base, seed)
        wheres = [None, *(WHERES[(seed + step) % len(WHERES)] for step in range(3))]
        for query, where, found, expected in differences(base, mutant, wheres):
            pytest.fail(f"{mutant.what}\n{query} of {where!r}: {found}\nnot {expected}")
