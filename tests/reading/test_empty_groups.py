"""Groups of the schema without any leaf, whose rows are null, as in pyarrow."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format import thrift, thrift_tree
from intarsia.format.enums import FieldRepetitionType
from intarsia.format.structs import SchemaElement
from tests.reading.surgery import Patient

SCHEMA, ROW_GROUPS, KEY_VALUES = 2, 4, 5
CHILDREN = 5
ROWS = 30


def add_empty_group(patient, position, parent):
    """Insert an optional group with an optional group in it, before an element of the schema."""
    elements = patient.footer.get(SCHEMA).items
    optional = FieldRepetitionType.OPTIONAL
    for name, children in (("inner", 0), ("empty", 1)):
        element = SchemaElement(name, repetition_type=optional, num_children=children)
        elements.insert(position, thrift_tree.parse_tree(thrift.serialize(element))[0])
    elements[parent].set(CHILDREN, thrift.I32, elements[parent].get(CHILDREN) + 1)


@pytest.fixture(params=["made", "found"])
def file(request, tmp_path):
    path = tmp_path / "empty.parquet"
    if request.param == "found":
        found = request.getfixturevalue("large_corpus").rglob("empty_group_test.parquet")
        shutil.copyfile(next(found), path)
        return path, "nested"
    table = pa.table({"id": range(ROWS), "text": [f"v{row}" for row in range(ROWS)]})
    pq.write_table(table, path, row_group_size=10, write_page_index=True)
    patient = Patient.read(path)
    patient.footer.remove(KEY_VALUES)  # the Arrow schema of the writer
    add_empty_group(patient, 2, 0)
    patient.write(path)
    return path, "empty"


def test_all_questions_are_answered_as_by_pyarrow(file):
    path, empty = file
    rows = pq.read_table(path)
    assert rows[empty].null_count == rows.num_rows
    original = path.read_bytes()
    for indexes in ([], [ia.PageIndex(), ia.Statistics()], [ia.Bloom("id"), ia.Distinct("id")]):
        if indexes:
            ia.attach(path, indexes)
        table = ia.open(path)
        assert table.scan().to_arrow().equals(rows)
        assert table.scan("id = 1").to_arrow().equals(rows.filter(pa.compute.field("id") == 1))
        assert table.scan(limit=1).to_arrow().equals(rows.slice(0, 1))
        assert table.scan(columns=[empty]).to_arrow().equals(rows.select([empty]))
        assert table.scan("id = 1", columns=[empty, "id"]).to_arrow().num_rows == 1
        assert table.count("id = 1") == 1
        assert ia.inspect(path).num_rows == rows.num_rows
        assert ia.verify(path).ok
    ia.detach(path)
    assert path.read_bytes() == original
