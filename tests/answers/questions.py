"""All kinds of questions to a table, and their answers by plain Python on the rows of a full read."""

from __future__ import annotations

import bisect
import itertools
import math
import pickle
from collections import Counter
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

import intarsia as ia
from intarsia.lake.shared_aggregate import SharedAggregate
from tests.answers.sources import Source
from tests.answers.totals import expect, functions_of
from tests.predicate import oracle
from tests.reading.exact import assert_same_rows, bits, leaf_at


@dataclass(frozen=True)
class Asked:
    """A condition on a table.

    Attributes:
        source: The table.
        table: The open table, which has answered earlier questions.
        where: The condition.
        full: All rows.
        places: The file and the number of each row.
        keep: Whether each row is in the answer.
        numbers: The rows to which the scan is restricted.
    """

    source: Source
    table: ia.Table
    where: Any
    full: pa.Table
    places: list[tuple[str, int]]
    keep: list[bool]
    numbers: Any = None

    def scan(self, columns=None, limit=None, **options):
        return self.table.scan(self.where, columns, limit, rows=self.numbers, **options)

    @property
    def count(self):
        return sum(self.keep)

    @property
    def leaves(self):
        return [*self.source.comparable, *(["p"] if self.source.partitions else [])]

    def kept(self, values):
        return [value for value, kept in zip(values, self.keep, strict=True) if kept]

    def rows(self, columns=None):
        """The rows of the answer as tuples that are equal only if their bits are."""
        if columns == []:
            return [()] * self.count
        return self.kept(tuples(self.full if columns is None else self.full.select(columns)))


def tuples(table):
    return list(zip(*map(bits, table.columns), strict=True)) if table.num_columns else [()] * table.num_rows


def rows_of(scan, how):
    """The rows of a scan, which has ignored no index."""
    rows = pa.Table.from_batches(list(scan), scan.schema) if how == "batches" else scan.to_arrow()
    expect_no_ignored(scan.report)
    return rows


def expect_no_ignored(report):
    """No index must be ignored except those that pyarrow 26 writes wrongly, here or in an earlier query.

    With tiny pages, list columns get empty pages with the same first row as the next page.
    """
    for note in report.ignored:
        assert note.index.startswith(("OffsetIndex of n.", "page index, row group")), note
        assert note.code in ("rows-not-ascending", "wrong-page-index"), note


ways = st.sampled_from(["table", "batches"])


def columns(draw, asked):
    return draw(st.none() | st.lists(st.sampled_from(asked.full.column_names), unique=True))


# --- questions ----------------------------------------------------------------------------------------------


def all_rows(draw, asked):
    scan = asked.scan()
    assert_same_rows(rows_of(scan, draw(ways)), asked.full, asked.keep)
    assert scan.report.rows_matched == asked.count


def reports(draw, asked):
    """Files that are read together have the report of files that are read one after the other.

    Only the order of the indexes differs: it is that of their first use, in the first file or in all.
    """
    chosen = columns(draw, asked)
    found = []
    for how in ("table", "batches"):
        scan = replace(asked, table=asked.source.open()).scan(chosen)
        rows_of(scan, how)
        found.append(scan.report.to_dict())
        del found[-1]["seconds"], found[-1]["requests"]
        found[-1]["pruned_by"].sort(key=itemgetter("index", "column"))
    different = {k: (found[0][k], found[1][k]) for k in found[0] if found[0][k] != found[1][k]}
    assert found[0] == found[1], str(different)


def some_columns(draw, asked):
    chosen = columns(draw, asked)
    expected = asked.full if chosen is None else asked.full.select(chosen)
    assert_same_rows(rows_of(asked.scan(chosen), draw(ways)), expected, asked.keep)


def a_leaf(draw, asked):
    leaf = draw(st.sampled_from(asked.leaves))
    alone = rows_of(asked.scan([leaf]), draw(ways))
    assert alone.column_names == [leaf.rpartition(".")[2]]
    assert bits(alone.column(0)) == asked.kept(bits(leaf_at(asked.full, leaf)))


def first_rows(draw, asked):
    """The first ones in the order of the files."""
    chosen, limit = columns(draw, asked), draw(st.integers(0, asked.full.num_rows + 1))
    places = [place for place, kept in enumerate(asked.keep) if kept][:limit]
    expected = asked.full if chosen is None else asked.full.select(chosen)
    scan = asked.scan(chosen, limit)
    first = set(places)
    assert_same_rows(rows_of(scan, draw(ways)), expected, [n in first for n in range(len(asked.keep))])
    assert scan.report.rows_matched == len(places)


directions = st.sampled_from(["", " ASC", " desc", " DESC NULLS FIRST", " NULLS FIRST", " DESC NULLS LAST"])


def first_rows_in_an_order(draw, asked):
    """Those of a full sort: the values of the order, and rows of the table, each at most once."""
    keys = st.tuples(st.sampled_from(asked.leaves), directions)
    order = draw(st.lists(keys, min_size=1, max_size=3))
    limit = draw(st.sampled_from([0, 1, 2, 7, 40, 1000]))
    text = ", ".join(name + direction for name, direction in order)
    scan = asked.scan(None, limit, order_by=text)
    found = scan.to_arrow()
    assert found.schema.equals(asked.full.schema)
    assert sort_keys(found, order) == sorted(asked.kept(sort_keys(asked.full, order)))[:limit], text
    assert Counter(tuples(found)) <= Counter(asked.rows())
    report = scan.report
    assert report.rows_matched == found.num_rows
    assert report.row_groups_read <= report.row_groups_total
    if asked.numbers is None:
        assert report.files_total == len(asked.source.files)


def sort_keys(table, order):
    """A key for each row, as in SQL: NaN is greater than every number, and nulls are at one end."""
    parts = []
    for name, direction in order:
        values = oracle.exact_values(leaf_at(table, name))
        sign = Descending if "desc" in direction.lower() else lambda value: value
        nulls = -1 if "FIRST" in direction else 3
        nan = 0 if sign is Descending else 2
        parts.append(
            [
                (nulls, 0) if value is None else (nan, 0) if is_nan(value) else (1, sign(value))
                for value in values
            ]
        )
    return list(zip(*parts, strict=True))


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


@dataclass(frozen=True)
class Descending:
    """A value that precedes the lesser ones."""

    value: Any

    def __lt__(self, other):
        return other.value < self.value


def count(draw, asked):
    assert asked.scan().count() == asked.count
    if asked.numbers is None:
        assert asked.table.count(asked.where) == asked.count


def totals(draw, asked):
    """COUNT, SUM, MIN, MAX and AVG."""
    requested = {
        name: draw(
            st.lists(st.sampled_from(functions_of(leaf_at(asked.full, name).type)), min_size=1, unique=True)
        )
        for name in draw(st.lists(st.sampled_from(asked.source.comparable), unique=True))
    }
    answer = asked.scan().aggregate({"*": ["count"], **requested})
    expect_no_ignored(answer.report)
    assert answer.report.rows_matched == asked.count
    expect_totals(answer, asked, requested)
    if asked.numbers is None:
        right_by_other_processes(asked, requested)


def expect_totals(answer, asked, requested):
    assert answer["*"] == {"count": asked.count}
    for name, functions in requested.items():
        assert list(answer[name]) == functions
        for function in functions:
            expect(answer[name][function], function, leaf_at(asked.full, name), asked.keep)


def right_by_other_processes(asked, requested):
    """Each file is aggregated after a copy to another process, so that floats are added in another order."""
    functions = {"*": ["count"], **requested}
    expected = asked.source.open().aggregate(functions, asked.where)
    shared = SharedAggregate(asked.source.open(), functions, asked.where)
    files = pickle.loads(pickle.dumps(shared.files))
    for path in files.ordinals:
        shared.add(pickle.loads(pickle.dumps(files.run(path))))
    found = shared.result()
    expect_totals(found, asked, requested)
    facts = [answer.report.to_dict() for answer in (found, expected)]
    for name, key in (("files", "opened"), ("row_groups", "total"), ("rows", "total"), ("rows", "matched")):
        assert facts[0][name][key] == facts[1][name][key]
    if facts[0]["rows"] == facts[1]["rows"]:  # files that are planned together may not pay for an index
        answered = [
            sorted((one["index"], one["column"], one["rows"]) for one in fact["answered_by"])
            for fact in facts
        ]
        assert answered[0] == answered[1]
        assert (facts[0]["files"], facts[0]["row_groups"]) == (facts[1]["files"], facts[1]["row_groups"])


def values(draw, asked):
    """The distinct values, and how often each occurs."""
    name = draw(st.sampled_from(asked.source.comparable))
    column = leaf_at(asked.full, name)
    wanted = Counter(asked.kept(value_keys(column)))
    assert asked.scan().count_distinct(name) == len(wanted) - (None in wanted)
    found = asked.scan().value_counts(name)
    assert found["count"].to_pylist() == sorted(wanted.values(), reverse=True)
    assert dict(zip(value_keys(found["value"]), found["count"].to_pylist(), strict=True)) == dict(wanted)
    assert found.schema.field("value").type == getattr(column.type, "value_type", column.type)
    first = asked.scan().value_counts(name, limit=1)
    assert tuples(first) == tuples(found.slice(0, 1))


def value_keys(column):
    return ["NaN" if is_nan(value) else value for value in oracle.exact_values(column)]


def places(draw, asked):
    found = asked.scan().locate()
    places = list(zip(found["path"].to_pylist(), found["row"].to_pylist(), strict=True))
    assert places == asked.kept(asked.places)
    edges = {path: row_group_edges(path) for path, _ in places}
    groups = [bisect.bisect_right(edges[path], row) - 1 for path, row in places]
    assert found["row_group"].to_pylist() == groups


def row_group_edges(path):
    """The number of the first row of each row group, and the number of rows."""
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return [0, *itertools.accumulate(sizes)]


def splits(draw, asked):
    """Copies in other processes have the rows together; no row group is in two of them."""
    chosen = columns(draw, asked)
    split_bytes = draw(st.none() | st.integers(1, 2000))
    found = asked.scan(chosen).plan(split_bytes)
    copies = pickle.loads(pickle.dumps(found))
    parts = [split.to_arrow() for split in copies]
    schema = asked.scan(chosen).schema
    assert all(part.schema == schema for part in parts)
    assert sum(part.num_rows for part in parts) == asked.count
    assert [row for part in parts for row in tuples(part)] == asked.rows(chosen)
    groups = [(split.path, group) for split in found for group in split.row_groups]
    assert len(groups) == len(set(groups))
    for split in found:
        edges = row_group_edges(split.path)
        for start, stop in split.row_ranges:
            assert start < stop
            assert any(edges[group] < stop and start < edges[group + 1] for group in split.row_groups)


def sample(draw, asked):
    """One of more rows than the table has contains each row once."""
    found = asked.table.sample(asked.full.num_rows + 5, seed=1)
    assert Counter(tuples(found)) == Counter(tuples(asked.full))


def explanation(draw, asked):
    """It excludes no row of the answer; its totals do not depend on what is planned together."""
    report = asked.scan().explain()
    assert report.rows_candidate >= asked.count
    if asked.numbers is not None:  # of the files of these rows
        return
    assert report.files_total == len(asked.source.files)
    if asked.source.alone is not None:
        alone = asked.source.alone().explain(asked.where).to_dict()
        for name in ("files", "row_groups", "rows", "pages", "bytes"):
            assert report.to_dict()[name]["total"] == alone[name]["total"], name
        assert alone["rows"]["candidates"] >= asked.count


QUESTIONS = [
    all_rows,
    reports,
    some_columns,
    a_leaf,
    first_rows,
    first_rows_in_an_order,
    count,
    totals,
    values,
    places,
    splits,
    sample,
    explanation,
]


def restricted(draw, asked):
    """The same condition on rows that are chosen by their numbers or places."""
    table = asked.table.locate()
    limit = len(asked.places)
    chosen = draw(st.lists(st.integers(0, max(0, limit - 1)), max_size=30 if limit else 0))
    numbers = table.take(pa.array(chosen, pa.int64()))
    if not asked.source.deleted and draw(st.booleans()):
        numbers = chosen
    keep = [kept and number in set(chosen) for number, kept in enumerate(asked.keep)]
    return replace(asked, numbers=numbers, keep=keep)
