"""Invalid parameters in a file's directory: the index is ignored, and the file is read without it."""

import warnings
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.verify.damage import change_directory

ROWS = 300
INDEXES = [
    ia.Ngram("text", granularity=50),
    ia.Sample(20),
    ia.Histogram("text"),
    ia.Distinct("text"),
    ia.Hll("text"),
    ia.ZoneMap("text"),
    ia.RowMap("text"),
    ia.BloomGranule("text"),
]
WRONG = [
    (ia.Ngram("text", granularity=50), {"n": 10**9}),  # would take minutes
    (ia.Ngram("text", granularity=50), {"n": "3"}),
    (ia.Sample(20), {"n": []}),
    (ia.Sample(20), {"seed": -1}),
    (ia.Distinct("text"), {"granularity": {}}),
    *(
        (index, {"column": wrong})
        for index in INDEXES
        if index.columns
        for wrong in (7, None, ["text"], "other")
    ),
]


@pytest.mark.parametrize(("index", "wrong"), WRONG, ids=str)
def test_it_is_ignored(tmp_path, index, wrong):
    path = tmp_path / "t.parquet"
    table = pa.table({"text": [f"item {row // 3}" for row in range(ROWS)], "other": ["x"] * ROWS})
    pq.write_table(table, path, row_group_size=100)
    ia.attach(path, [index])

    def change(directory):
        (entry,) = directory.entries
        return replace(directory, entries=(replace(entry, parameters={**entry.parameters, **wrong}),))

    change_directory(path, change)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        lake = ia.open(path)
        for where in ("text = 'item 7'", "text LIKE '%em 7%'", "text > 'item 98' AND other = 'x'"):
            scan = lake.scan(where)
            assert scan.to_arrow().num_rows == lake.count(where) > 0
            assert len(scan.report.ignored) <= 1
        assert round(lake.approx_distinct("text").estimate) == 100
        assert lake.sample(5, seed=1).num_rows == 5
    assert [finding.rule for finding in ia.verify(path).findings] == ["index-damaged"]
    ia.attach(path, [ia.PageIndex()])


@pytest.mark.parametrize("index", [ia.RowMap(("text",)), ia.Distinct(("text",))], ids=str)
def test_a_column_is_named_by_text(tmp_path, index):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": ["a"]}), path)
    with pytest.raises(ia.IndexBuildError) as caught:
        ia.attach(path, [index])
    assert caught.value.reason == "invalid-column-name"
