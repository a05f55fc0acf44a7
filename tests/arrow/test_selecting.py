"""Rows of columns of every type are selected, also of types that pyarrow does not support."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from intarsia.arrow.owned_rows import filter_rows, filter_values, take_rows, take_values

TEXT, BYTES = pa.string_view(), pa.binary_view()
LONG = "longer than the bytes that a view stores itself"

VALUES = [
    pa.array(["a", "b", None, LONG], TEXT),
    pa.array([b"a", b"b", None, LONG.encode()], BYTES),
    pa.array(
        [{"x": "a", "y": 1}, None, {"x": None, "y": 2}, {"x": LONG}], pa.struct({"x": TEXT, "y": "int8"})
    ),
    pa.array([["a"], None, [], [None, LONG]], pa.list_(TEXT)),
    pa.array([[b"a"], None, [], [None, b"c"]], pa.large_list(BYTES)),
    pa.array([["a", "b"], None, ["c", None], [LONG, "d"]], pa.list_(TEXT, 2)),
    pytest.param(
        pa.array([[("k", "v")], None, [], [("k", LONG), ("l", None)]], pa.map_(TEXT, TEXT)),
        marks=pytest.mark.skipif(
            int(pa.__version__.split(".")[0]) < 26, reason="a cast of such maps ends the process"
        ),
    ),
    pa.array([[{"x": ["a"]}], None, [], [{"x": [LONG]}]], pa.list_(pa.struct({"x": pa.list_(TEXT)}))),
    pa.array(["{}", None, "1", "2"], pa.json_(TEXT)),
    pa.array([b"%016d" % n for n in range(4)], pa.uuid()),
    pa.array(["a", "b", None, "a"]).dictionary_encode(),
    pa.array([1.5, None, 2.5, 0.0], pa.float16()),
    pa.nulls(4),
]


@pytest.mark.parametrize("values", VALUES, ids=lambda values: str(values.type))
def test_rows_are_selected(values):
    table = pa.table({"x": pa.chunked_array([values[:1], values[1:]]), "n": pa.array(range(4))})
    rows = table.to_pylist()
    for ordinals in ([3, 1, 1, 0], [2], []):
        found = take_rows(table, ordinals)
        found.validate(full=True)
        assert found.schema == table.schema
        assert found.to_pylist() == [rows[ordinal] for ordinal in ordinals]
    for found in (
        take_values(values, pa.array([3, None, 0])),
        take_values(table["x"], pa.array([3, None, 0])),
    ):
        found.validate(full=True)
        assert (type(found), found.type) in ((type(values), values.type), (pa.ChunkedArray, values.type))
        assert found.to_pylist() == [rows[3]["x"], None, rows[0]["x"]]
    for flags in ([True, False, True, True], [False] * 4):
        kept = filter_values(table["x"], pa.array(flags))
        kept.validate(full=True)
        assert kept.type == values.type
        assert kept.to_pylist() == [row["x"] for row, flag in zip(rows, flags, strict=True) if flag]
        assert filter_rows(table, pa.array(flags)).to_pylist() == [
            row for row, flag in zip(rows, flags, strict=True) if flag
        ]


def test_tables_without_columns_or_rows():
    assert take_rows(pa.table({}), []).num_rows == 0
    no_columns = pa.table({"x": [1, 2]}).select([])
    assert filter_rows(no_columns, pa.array([True, False])).num_rows == 1
    empty = pa.table({"x": pa.chunked_array([], TEXT)})
    assert take_rows(empty, []).schema == empty.schema


def large_texts():
    """Return three texts of 1 GiB in three chunks, each after a short text, in memory that is not touched."""
    size = 1 << 30
    text = np.zeros(1 + size, dtype=np.uint8)
    offsets = pa.py_buffer(np.array([0, 1, 1 + size], dtype=np.int32))
    chunk = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(text))
    return pa.chunked_array([chunk] * 3)


@pytest.mark.parametrize("is_struct", [False, True])
def test_rows_of_chunks_that_have_more_than_2_gib_of_text(is_struct):
    """pyarrow joins chunks before it takes from them."""
    column = large_texts()
    if is_struct:
        column = pa.chunked_array([pa.StructArray.from_arrays([chunk], ["x"]) for chunk in column.chunks])
    with pytest.raises(pa.ArrowInvalid):
        column.take([0])
    table = pa.table({"x": column, "n": range(6)})
    found = take_rows(table, [4, 0, 4, 2])
    assert found["n"].to_pylist() == [4, 0, 4, 2]
    assert found["x"].to_pylist() == [column[0].as_py()] * 4
    assert take_values(column, pa.array([2, None])).to_pylist() == [column[0].as_py(), None]


@pytest.mark.slow
def test_the_rows_that_are_taken_may_have_2_gib_of_text():
    found = take_values(large_texts().slice(0, 2), [1, 1])
    assert pc.binary_length(found).to_pylist() == [1 << 30, 1 << 30]
