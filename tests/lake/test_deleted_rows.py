"""Rows that a source of files reports as deleted are in no result, even if indexes contain them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format.structs import OffsetIndex
from intarsia.rows.selection import RowSelection
from tests.lake.answers import assert_answers
from tests.lake.index.lakes import age
from tests.reading.surgery import Patient, shift_first_rows

NUM_ROWS = 300
TABLE = pa.table(
    {
        "id": pa.array(np.arange(NUM_ROWS), pa.int64()),
        "kind": [f"k{row // 10 % 7}" for row in range(NUM_ROWS)],
        "nested": [None if row % 6 == 5 else {"value": row % 50} for row in range(NUM_ROWS)],
    }
)
CONDITIONS = [
    ("id BETWEEN 95 AND 214", lambda row: 95 <= row["id"] <= 214),
    ("kind = 'k3' AND id <> 33", lambda row: row["kind"] == "k3" and row["id"] != 33),
    ("nested.value = 7 OR id > 290", lambda row: (row["nested"] or {}).get("value") == 7 or row["id"] > 290),
    ("nested.value IS NULL", lambda row: row["nested"] is None),
    ("id < 0", lambda row: False),
]
INDEXES = [ia.ZoneMap("id"), ia.Distinct("kind"), ia.Hll("id", 20), ia.Sample(40), ia.RowMap("kind")]


@dataclass(frozen=True)
class Gone:
    """Deleted rows."""

    numbers: tuple[int, ...]

    def rows(self):
        return RowSelection.from_rows(np.array(self.numbers, dtype=np.int64))


@dataclass(frozen=True)
class Source:
    """The files of a table, some of whose rows are deleted."""

    deleted: dict

    def list_files(self):
        return [
            ia.DataFile(str(path), path.stat().st_size, deletes=Gone(tuple(rows)) if rows else None)
            for path, rows in self.deleted.items()
        ]


def write(path):
    options = {
        "write_page_index": True,
        "max_rows_per_page": 20,
        "write_batch_size": 5,
        "use_dictionary": False,
    }
    pq.write_table(TABLE, path, row_group_size=100, **options)
    age(path)
    return path


def present(deleted):
    """Return the rows that are left."""
    return [
        row for rows in deleted.values() for number, row in enumerate(TABLE.to_pylist()) if number not in rows
    ]


DELETED = {
    "some": [0, 7, 20, 21, 99, 100, 150, 299],
    "a page": list(range(20, 40)),
    "a row group": list(range(100, 200)),
    "all but two": [row for row in range(NUM_ROWS) if row not in (33, 210)],
    "all": list(range(NUM_ROWS)),
    "beyond the end": [5, NUM_ROWS, NUM_ROWS + 3],
}


@pytest.mark.parametrize("rows", DELETED.values(), ids=DELETED)
@pytest.mark.parametrize("is_indexed", [False, True])
def test_every_answer(tmp_path, rows, is_indexed):
    path = write(tmp_path / "a.parquet")
    if is_indexed:
        ia.attach(path, INDEXES)
    assert_answers(ia.open(Source({path: rows})), present({path: rows}), CONDITIONS)


def test_a_lake_index_answers_only_for_files_without_deleted_rows(tmp_path):
    first, second = write(tmp_path / "a.parquet"), write(tmp_path / "b.parquet")
    for path in (first, second):
        ia.attach(path, INDEXES)
        age(path)
    ia.open(str(tmp_path)).build_lake_index("beside")
    table = ia.open(Source({first: [0, 7], second: []}))
    answer = table.aggregate({"id": ["sum", "count"], "*": "count"})
    every = sum(range(NUM_ROWS))
    assert answer["id"] == {"sum": 2 * every - 7, "count": 2 * NUM_ROWS - 2}
    assert answer["*"]["count"] == 2 * NUM_ROWS - 2
    assert answer.report.files_opened == 1


@pytest.mark.parametrize("leaf", [0, 1, 2])
@pytest.mark.parametrize("rows", [DELETED["some"], DELETED["a page"], DELETED["a row group"]])
def test_a_wrong_page_index_brings_no_deleted_row_back(tmp_path, leaf, rows):
    path = write(tmp_path / "a.parquet")
    patient = Patient.read(path)
    for group in range(3):
        patient.change_index(OffsetIndex, group, leaf, shift_first_rows)
    patient.write(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        # conditions whose pages include one with a wrong number of rows, which reveals the page index
        for where, matches in [(None, lambda row: True), CONDITIONS[0], CONDITIONS[2]]:
            expected = [row for row in present({path: rows}) if matches(row)]
            # a new table each time, because an open one remembers the wrong page index
            splits = ia.open(Source({path: rows})).plan(where)
            found = [
                ia.open(Source({path: rows})).scan(where).to_arrow().to_pylist(),
                [row for split in splits for row in split.to_arrow().to_pylist()],
                ia.open(Source({path: rows})).scan(where, limit=1000).to_arrow().to_pylist(),
            ]
            assert found == [expected] * 3, where
            assert ia.open(Source({path: rows})).count(where) == len(expected), where
            places = ia.open(Source({path: rows})).locate(where)["row"].to_pylist()
            assert places == [row["id"] for row in expected], where


def test_deleted_rows_are_in_the_report(tmp_path):
    path = write(tmp_path / "a.parquet")
    table = ia.open(Source({path: DELETED["a row group"]}))
    scan = table.scan("id >= 150", ["kind"])
    assert scan.to_arrow().num_rows == 100
    steps = {step.index: step for step in scan.report.pruned_by.values()}
    assert steps["deletes"].rows == 60  # the column index keeps the page from row 140
    assert scan.report.row_groups_read == 1
