"""A kind that prunes a function of its column: it stores lengths and excludes rows for ``length(s) > 30``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.indexes import (
    BoundCompare,
    BoundFunction,
    Index,
    OpenIndex,
    RowSelection,
    condition_mask,
    cut_at_edges,
    parse_granules,
    serialize_granules,
)
from intarsia.testing import IndexContract

SCHEMA = pa.schema([("lengths", pa.list_(pa.int64()))])


@dataclass(frozen=True)
class Lengths(Index):
    """The distinct lengths of the texts in each row group."""

    kind: ClassVar[str] = "lengths"
    version: ClassVar[int] = 1
    column: str

    def build(self, chunk):
        edges = chunk.layout.edges("row_group", self.column)
        found = [set() for _ in edges[1:]]
        for granule, values in cut_at_edges(edges, chunk.batches(self.column)):
            found[granule].update(pc.utf8_length(values.cast(pa.string())).drop_null().to_pylist())
        batch = pa.record_batch([pa.array(map(sorted, found), SCHEMA.types[0])], schema=SCHEMA)
        return serialize_granules(batch, edges, "row_group")

    def open(self, payload, layout):
        granules = parse_granules(payload, layout, "row_group", "Lengths", SCHEMA, has_row_each=True)
        return OpenLengths(granules.edges, granules.batch.column(0))

    def can_prune(self, condition):
        return False  # no condition on the text itself

    def can_prune_function(self, condition):
        return condition.name == "length"


@dataclass(frozen=True)
class OpenLengths(OpenIndex):
    edges: np.ndarray
    lengths: pa.ListArray

    def candidate_rows(self, condition):
        if not isinstance(condition, BoundFunction):
            return None
        matching = condition_mask(condition.condition, self.lengths.flatten())
        granules = self.lengths.value_parent_indices().filter(matching).unique().to_numpy()
        chosen = np.zeros(len(self.lengths), dtype=bool)
        chosen[granules] = True
        return RowSelection.from_mask(np.repeat(chosen, np.diff(self.edges)))


@pytest.fixture(autouse=True)
def announced(announce):
    announce({"lengths": f"{__name__}:Lengths"})


class TestLengths(IndexContract):
    def index(self):
        return Lengths("s")

    def values(self):
        return pa.array(["a" * (row // 8) for row in range(60)])

    def prunes(self):
        return ["length(s) > 6", "length(s) IN (0, 1)"]


WHERES = [
    "length(s) > 30",
    "length(s) <= 4",
    "length(s) = 17",
    "length(s) <> 17",
    "length(s) IN (3, 39)",
    "NOT length(s) < 35",
    "length(s) > 30 AND x % 7 = 0",
    "length(s) > 38 OR x = 3",
    "length(upper(s)) > 30",
    "length(s) > 100",
]


@pytest.mark.parametrize("where", WHERES)
def test_a_pruned_scan_returns_the_rows_of_a_full_read(tmp_path, where):
    texts = [None if row % 11 == 0 else "é" * (row // 50) for row in range(2000)]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(2000), "s": texts}), path, row_group_size=100, use_dictionary=False)
    expected = ia.open(path).scan(where).to_arrow()  # no index: all rows are read and filtered
    ia.attach(path, [Lengths("s")])
    scan = ia.open(path).scan(where)
    assert scan.to_arrow() == expected
    report = scan.report.to_dict()
    assert report["ignored"] == []
    prunes = "upper" not in where and where != "length(s) <> 17"
    assert ("lengths(s):file" in [step["index"] for step in report["pruned_by"]]) == prunes
    if where == "length(s) > 30":
        assert report["row_groups"]["read"] == 5


def test_a_condition_names_its_function():
    from intarsia.predicate import bind, conditions, parse_sql

    schema = pa.schema([("s", pa.string()), ("x", pa.int64()), ("d", pa.date32())])
    seen = {}
    for where in ["length(s) > 30", "substr(s, 2, 3) = 'abc'", "x % 7 = 2", "length(lower(s)) = 2"]:
        for leaf in conditions(bind(parse_sql(where), schema)):
            if isinstance(leaf, BoundFunction):
                assert isinstance(leaf.condition, BoundCompare)
                seen[where] = leaf.name, leaf.arguments, leaf.condition.op, leaf.condition.value.as_py()
    assert list(seen.values()) == [
        ("length", (), ">", 30),
        ("substr", (2, 3), "=", "abc"),
        ("%", (7,), "=", 2),
        (None, (), "=", 2),
    ]
