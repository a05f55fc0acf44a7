"""Small row groups are read together, with the rows, errors and bytes of reading them one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.errors import CorruptFileError
from intarsia.format import thrift
from tests.reading.exact import assert_same_rows
from tests.reading.surgery import Patient

ROWS = 200


def made_table():
    random = np.random.default_rng(7)
    ids = np.arange(ROWS)
    some_nulls = random.random(ROWS) < 0.2
    return pa.table(
        {
            "id": ids,
            "digit": pa.array(random.integers(0, 10, ROWS), mask=some_nulls),
            "text": pa.array([f"text {number}" for number in random.integers(0, 9, ROWS)], mask=some_nulls),
            "view": pa.array([f"view {number}" for number in ids], pa.string_view()),
            "amount": np.where(random.random(ROWS) < 0.1, np.nan, random.random(ROWS)),
            "when": pa.array(ids * 1_000_000, pa.timestamp("us", "UTC")),
            "category": pa.array([f"c{number % 5}" for number in ids]).dictionary_encode(),
            "pair": [{"a": int(number), "b": None if number % 3 else "x"} for number in ids],
            "list": pa.array(
                [[int(number)] * (number % 3) for number in ids], pa.list_(pa.field("element", pa.int64()))
            ),
        }
    )


def matching(table, expression):
    """The rows that meet an expression; pyarrow can neither filter nor take views."""
    view = table.schema.get_field_index("view")
    rows = table.set_column(view, "view", table["view"].cast(pa.string())).filter(expression)
    return rows.set_column(view, "view", rows["view"].cast(pa.string_view()))


FLAT = ["id", "digit", "text", "view", "amount", "when"]


@pytest.fixture(scope="module")
def table():
    return made_table()


@pytest.fixture(scope="module", params=["plain", "indexed", "small pages"])
def path(request, table, tmp_path_factory):
    """Row groups of 1 to 20 rows; in one file of several pages each."""
    path = tmp_path_factory.mktemp("small") / "f.parquet"
    options = {} if request.param == "plain" else {"write_page_index": True}
    if request.param == "small pages":
        options |= {"max_rows_per_page": 4}
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        start = 0
        for size in [1, 2, 20, 3, 3, 3, 15, 1] * 20:
            writer.write_table(table.slice(start, size))
            start += size
            if start >= ROWS:
                break
    return str(path)


QUESTIONS = [
    ("digit = 3", pc.field("digit") == 3),
    ("digit <> 3", pc.field("digit") != 3),
    ("digit > 0", pc.field("digit") > 0),
    ("id >= 70", pc.field("id") >= 70),
    ("id >= 70 AND digit < 4", (pc.field("id") >= 70) & (pc.field("digit") < 4)),
    ("digit IS NULL", pc.field("digit").is_null()),
    ("text = 'text 4' OR amount > 0.9", (pc.field("text") == "text 4") | (pc.field("amount") > 0.9)),
    ("category = 'c3'", pc.field("category") == "c3"),
    ("pair.a < 130", pc.field("pair", "a") < 130),
]


@pytest.mark.parametrize("columns", [None, FLAT, ["id"], []], ids=str)
@pytest.mark.parametrize(("where", "expression"), QUESTIONS, ids=[where for where, _ in QUESTIONS])
def test_the_rows_are_those_of_a_filter(path, table, where, expression, columns):
    expected = matching(table, expression)
    scan = ia.open(path).scan(where, columns)
    found = scan.to_arrow()
    assert found.num_rows == expected.num_rows == scan.report.rows_matched
    if columns != []:
        assert_same_rows(found, expected.select(columns or table.column_names))


@pytest.mark.parametrize(("where", "expression"), QUESTIONS, ids=[where for where, _ in QUESTIONS])
def test_the_totals_are_those_of_a_filter(path, table, where, expression):
    expected = matching(table, expression)
    assert ia.open(path).count(where) == expected.num_rows
    total = ia.open(path).aggregate({"id": ["sum", "count"]}, where)["id"]
    assert total == {"sum": pc.sum(expected["id"]).as_py(), "count": expected.num_rows}


@pytest.mark.parametrize("limit", [1, 2, 50, 199])
@pytest.mark.parametrize("where", [None, "digit > 2"])
def test_a_limit_gives_the_first_rows(path, table, where, limit):
    expected = table if where is None else matching(table, pc.field("digit") > 2)
    found = ia.open(path).scan(where, FLAT, limit=limit).to_arrow()
    assert_same_rows(found, expected.select(FLAT).slice(0, limit))


def test_a_limit_reads_no_row_group_that_it_does_not_need(path):
    scan = ia.open(path).scan("id >= 0 AND digit IS NULL OR digit IS NOT NULL", ["id", "digit"], limit=23)
    assert scan.to_arrow().num_rows == 23
    assert scan.report.row_groups_read == 3  # of 1, 2 and 20 rows


@pytest.mark.parametrize("columns", [FLAT, ["digit"], ["id", "amount"]], ids=str)
def test_each_byte_is_read_at_most_once_and_only_of_the_columns(path, columns):
    table = ia.open(path)
    assert table.schema  # the footer of a new file is not kept, so the scan reads it again
    scan = table.scan("digit IS NULL OR digit IS NOT NULL", columns)
    scan.to_arrow()
    metadata = pq.read_metadata(path)
    leaves = [leaf for leaf in range(6) if FLAT[leaf] in {*columns, "digit"}]
    chunk_bytes = sum(
        metadata.row_group(group).column(leaf).total_compressed_size
        for group in range(metadata.num_row_groups)
        for leaf in leaves
    )
    footer_bytes = metadata.serialized_size + 8 + 8
    assert scan.report.bytes_read - scan.report.bytes_index <= chunk_bytes + footer_bytes


def test_requests_are_not_one_for_each_row_group(tmp_path):
    path = tmp_path / "f.parquet"
    table = pa.table({"x": range(1000), "y": range(1000)})
    pq.write_table(table, path, row_group_size=2, write_page_index=True)
    scan = ia.open(path).scan("x <> 7 AND y <> 8")
    assert scan.to_arrow().num_rows == 998
    assert scan.report.requests <= 20


def test_batches_are_bounded(tmp_path):
    path = tmp_path / "f.parquet"
    values = np.arange(1_200_000) % 1000
    pq.write_table(pa.table({"x": values}), path, row_group_size=1000, use_dictionary=False)
    batches = list(ia.open(path).scan("x > 0"))
    assert sum(batch.num_rows for batch in batches) == (values > 0).sum()
    assert 3 <= len(batches) < 100
    assert max(batch.num_rows for batch in batches) <= 1 << 18


# --- damage ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [7, 40, 900], ids="every {}th".format)
def test_texts_that_repeat(tmp_path, step):
    """Each row group has another dictionary; few of their rows are needed."""
    count, size = 3000, 500
    random = np.random.default_rng(3)
    texts = [f"é{number // size} {digit}" for number, digit in enumerate(random.integers(0, 4, count))]
    nulls = random.random(count) < 0.1
    table = pa.table(
        {
            "id": random.permutation(count),
            "text": pa.array(texts, mask=nulls),
            "large": pa.array(texts, pa.large_string()),
            "code": pa.array([text.encode() for text in texts]),
            "null": pa.nulls(count, pa.string()),
            "same": [""] * count,
        }
    )
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=size)
    wanted = range(0, count, step)
    rows = ia.open(tmp_path / "f.parquet").scan(f"id IN {tuple(wanted)}").to_arrow()
    assert_same_rows(rows, table.filter(pc.field("id").isin(list(wanted))))
    assert rows.schema == table.schema
    rows.validate(full=True)


def plain_file(path, sizes):
    """A file of one required column without encodings or compression, and row groups of some sizes."""
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.int64(), nullable=False)])
    options = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    with pq.ParquetWriter(path, schema, **options) as writer:
        for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
            values = np.arange(start, start + size)
            writer.write_table(pa.table({"x": values, "y": values}, schema=schema))


def test_row_groups_whose_errors_cancel_out(tmp_path):
    """A row is missing in one row group and extra in the next, so that their sum is correct."""
    path = tmp_path / "f.parquet"
    plain_file(path, [4, 3, 5, 4])
    patient = Patient.read(path)
    for group in (1, 2):
        patient.footer.get(4).items[group].set(3, thrift.I64, 4)
        for leaf in (0, 1):
            patient.chunk(group, leaf).get(3).set(5, thrift.I64, 4)
    patient.write(path)
    with pytest.raises(CorruptFileError) as caught:
        ia.open(path).scan("x >= 0").to_arrow()
    assert caught.value.path == str(path)
    with pytest.raises(CorruptFileError):
        ia.open(path).count("x > 1")


def test_a_damaged_page_is_an_error_of_its_row_group(tmp_path):
    path = tmp_path / "f.parquet"
    plain_file(path, [4] * 50)
    metadata = pq.read_metadata(path)
    data = bytearray(path.read_bytes())
    start = metadata.row_group(30).column(1).data_page_offset
    data[start : start + 4] = b"\xff" * 4
    path.write_bytes(data)
    batches, seen = iter(ia.open(path).scan("x >= 0")), []
    with pytest.raises(CorruptFileError) as caught:
        seen.extend(batches)
    assert caught.value.path == str(path)
    assert caught.value.offset is not None
    assert sum(batch.num_rows for batch in seen) == 30 * 4  # those before the damaged row group
    assert ia.open(path).scan("x >= 0", ["x"]).to_arrow().num_rows == 200
