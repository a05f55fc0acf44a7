"""Texts with few distinct values, which are decoded to dictionaries."""

import random
from collections import Counter
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.tuning import REPEATED_TEXTS

ROWS = 4 * REPEATED_TEXTS
TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]


@pytest.fixture(scope="module")
def texts():
    chosen = random.Random(5).choices(["a" * 1000, "b" * 1000, "", None], k=ROWS)
    return pa.array(chosen, pa.string())


@pytest.fixture(scope="module")
def files(texts, tmp_path_factory):
    """For each type and form of page the file, and its rows."""
    folder = tmp_path_factory.mktemp("texts")

    def file(data_type, **options):
        is_text = data_type in (pa.string(), pa.large_string(), pa.string_view())
        column = texts.cast(data_type) if is_text else texts.cast(pa.binary()).cast(data_type)
        table = pa.table({"id": pa.array(range(ROWS)), "text": column})
        path = folder / f"{data_type}-{options}.parquet"
        if not path.exists():
            pq.write_table(table, path, **options)
        return str(path), table

    return file


def rows_of(table, ordinals):
    """Rows as pyarrow gives them in text; it cannot take views."""
    plain = pa.large_binary()
    column = (
        table["text"].cast(pa.binary()).cast(plain)
        if table["text"].type == pa.binary_view()
        else table["text"]
    )
    return table.set_column(1, "text", column.cast(plain)).take(ordinals).to_pylist()


@pytest.mark.parametrize(
    "options", [{}, {"write_page_index": True, "data_page_size": 2000}, {"row_group_size": 9000}]
)
@pytest.mark.parametrize("data_type", TYPES, ids=str)
def test_rows_and_types_are_those_of_text(files, texts, data_type, options):
    path, table = files(data_type, **options)
    literal = "a" * 1000
    wanted = [ordinal for ordinal, text in enumerate(texts.to_pylist()) if text == literal]
    missing = [ordinal for ordinal, text in enumerate(texts.to_pylist()) if text is None]
    is_text = (
        pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or data_type == pa.string_view()
    )
    where = f"text = '{literal}'" if is_text else f"text = X'{literal.encode().hex()}'"
    for condition, ordinals in ((where, wanted), ("text IS NULL", missing), (None, list(range(ROWS)))):
        found = ia.open(path).scan(condition).to_arrow()
        assert found.schema == table.schema
        assert rows_of(found, list(range(found.num_rows))) == rows_of(table, ordinals)


@contextmanager
def memory():
    """The memory pool of Arrow in the block, which all its arrays have to be deleted in."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


@pytest.mark.parametrize("data_type", [pa.string(), pa.string_view()], ids=str)
def test_a_condition_does_not_expand_them(files, data_type):
    """Expanded, the column takes 32 MB."""
    path, _ = files(data_type)
    with memory() as pool:
        assert ia.open(path).scan("text >= 'b'", columns=["id"]).to_arrow().num_rows > 0
    assert pool.max_memory() < 4_000_000


@pytest.mark.parametrize("data_type", TYPES, ids=str)
def test_counting_does_not_expand_them(files, texts, data_type):
    path, _ = files(data_type)
    with memory() as pool:
        found = ia.open(path).value_counts("text")
        found_type, rows = found.schema.field("value").type, found.to_pylist()
        del found  # nothing may outlive the pool
    assert pool.max_memory() < 4_000_000
    assert found_type == data_type
    counts = {row["value"]: row["count"] for row in rows}
    assert {
        value.decode() if isinstance(value, bytes) else value: count for value, count in counts.items()
    } == Counter(texts.to_pylist())


@pytest.mark.parametrize("repeated", ["the third", "the final"])
def test_dictionary_pages_with_values_that_repeat(tmp_path, repeated):
    """pyarrow drops one of the values, so that the codes of the next ones mean others, or none."""
    names = ["the first", "the other", "the third", "the final"]
    texts = random.Random(6).choices([*names, None], k=ROWS)
    path = tmp_path / "a.parquet"
    options = {"compression": "none", "write_statistics": False, "row_group_size": ROWS // 2}
    pq.write_table(pa.table({"id": range(ROWS), "x": texts}), path, **options)
    path.write_bytes(path.read_bytes().replace(repeated.encode(), b"the first"))
    expected = ["the first" if text == repeated else text for text in texts]
    table = ia.open(path)
    assert table.scan().to_arrow()["x"].to_pylist() == expected
    for text in names:
        wanted = [row for row, one in enumerate(expected) if one == text]
        assert table.scan(f"x = '{text}'").to_arrow()["id"].to_pylist() == wanted
    found = table.value_counts("x").to_pydict()
    assert dict(zip(found["value"], found["count"], strict=True)) == Counter(expected)
