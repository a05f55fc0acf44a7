"""Indexes built on dictionary arrays equal those built on plain arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.embed.column_data import FileColumns
from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.storage import LocalFile
from intarsia.testing.memory import MemoryColumns
from tests.effort import examples


class Encoded(MemoryColumns):
    """Columns in memory that return dictionary arrays."""

    def __init__(self, plain: MemoryColumns, encoded: pa.DictionaryArray) -> None:
        super().__init__(plain.table, plain.layout.row_group_edges, plain.layout.page_edges)
        self._encoded = encoded

    def encoded_batches(self, column):
        for row, piece in self.batches(column):
            yield row, self._encoded.slice(row, len(piece))


@st.composite
def encodings(draw):
    """Return a dictionary array, whose entries may be null, duplicate or unused."""
    entries = draw(st.lists(st.none() | st.text("ab", max_size=2), min_size=1, max_size=6))
    positions = draw(st.lists(st.none() | st.integers(0, len(entries) - 1), max_size=20))
    return pa.DictionaryArray.from_arrays(pa.array(positions, pa.int32()), pa.array(entries, pa.string()))


@settings(max_examples=examples(100))
@given(
    encodings(),
    st.lists(st.integers(0, 20), max_size=3),
    st.sampled_from(["page", "row_group", "file", 3]),
    st.sampled_from([1, 10_000]),
)
def test_distinct_of_dictionary_arrays(encoded, cuts, granularity, max_values):
    values = encoded.cast(pa.string())
    groups = sorted({0, len(values), *(min(cut, len(values)) for cut in cuts)})
    plain = MemoryColumns(pa.table({"x": values}), groups)
    index = ia.Distinct("x", granularity, max_values=max_values)

    assert index.build(Encoded(plain, encoded)) == index.build(plain)


def columns_of(path):
    return FileColumns(ParquetInput(LocalFile(str(path))), lambda key: None)


TEXTS = ["b", None, "a", "", "b", "árvíz", None, "a"] * 40


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), "dictionary"], ids=str)
def test_a_file_yields_the_same_values_encoded_or_not(tmp_path, kind):
    texts = pa.array(TEXTS)
    values = texts.dictionary_encode() if kind == "dictionary" else texts.cast(kind)
    pq.write_table(pa.table({"x": values}), tmp_path / "t.parquet", row_group_size=100)
    columns = columns_of(tmp_path / "t.parquet")

    encoded = list(columns.encoded_batches("x"))

    assert all(pa.types.is_dictionary(piece.type) for _, piece in encoded)
    assert [row for row, _ in encoded] == [row for row, _ in columns.batches("x")]
    for (_, one), (_, other) in zip(encoded, columns.batches("x"), strict=True):
        assert one.to_pylist() == other.to_pylist()


@pytest.mark.parametrize(
    ("table", "column", "options"),
    [
        (pa.table({"x": TEXTS}), "x", {"use_dictionary": False}),
        (pa.table({"x": [str(i) * 40 for i in range(2_000)]}), "x", {"dictionary_pagesize_limit": 500}),
        (pa.table({"x": [1, 2, 3] * 50}), "x", {}),
        (pa.table({"x": [{"y": text} for text in TEXTS]}), "x.y", {}),
    ],
    ids=["plain pages", "a dictionary that was given up", "numbers", "in a struct"],
)
def test_columns_that_are_not_dictionary_encoded_text_are_plain(tmp_path, table, column, options):
    pq.write_table(table, tmp_path / "t.parquet", **options)
    columns = columns_of(tmp_path / "t.parquet")

    pieces = [piece for _, piece in columns.encoded_batches(column)]

    assert {piece.type for piece in pieces} == {columns.type_of(column)}
    assert [piece for _, piece in columns.batches(column)] == pieces


def test_a_position_outside_the_dictionary_raises(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": ["a", "b", "c"] * 8}), path, compression="none")
    data = bytearray(path.read_bytes())
    meta = pq.read_metadata(path).row_group(0).column(0)
    end = meta.dictionary_page_offset + meta.total_compressed_size
    positions = np.frombuffer(data, np.uint8)[end - 6 : end]
    assert positions[0] == 0b00100100  # entries 0, 1, 2, 0 of two bits each
    positions[:] = 0xFF
    path.write_bytes(data)

    with pytest.raises(CorruptFileError):
        list(columns_of(path).encoded_batches("x"))
