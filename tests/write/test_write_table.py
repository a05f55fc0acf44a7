"""`write_table` stores the same rows as pyarrow, and builds the same indexes as `attach`."""

import os
import shutil
import warnings
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.embed.chunk_statistics import Bloom, Statistics
from intarsia.embed.page_index import PageIndex
from intarsia.file import ChunkKey, ParquetInput
from intarsia.indexes.distinct import Distinct
from intarsia.indexes.zonemap import ZoneMap
from tests.effort import examples
from tests.lake.report_lakes import recorded_preads
from tests.predicate import oracle
from tests.predicate import strategies as flat
from tests.reading import tables
from tests.reading.exact import assert_same_rows, leaf_at
from tests.reading.pages import layout_of, open_recorded, sorted_table, touched


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.parquet"


def distinct(names):
    return [ia.Distinct(name, granularity="page") for name in names]


@st.composite
def ways(draw):
    """Keyword arguments of `write_table`."""
    return {
        "rows_per_page": draw(st.integers(1, 30)),
        "row_group_size": draw(st.none() | st.integers(1, 50)),
        "dictionary": draw(st.sampled_from([None, None, True, False])),
        "compression": draw(st.sampled_from(["zstd", "snappy", "none"])),
    }


def is_plain(kind):
    return "_view" not in str(kind) and "dictionary" not in str(kind)


def flat_fields(table):
    return [field for field in table.schema if not pa.types.is_nested(field.type)]


@settings(max_examples=examples(80))
@given(st.data())
def test_every_type(tmp_path_factory, data):
    """Compare the rows, the payloads of indexes, `verify` and a scan with the oracle."""
    made = data.draw(tables.tables(), label="table")
    options = data.draw(ways(), label="options")
    folder = tmp_path_factory.mktemp("types", numbered=True)
    plain, path, again = (folder / f"{name}.parquet" for name in ("plain", "written", "again"))
    try:
        pq.write_table(made.table, plain)
        full = pq.read_table(plain)
    except (pa.ArrowException, OSError):
        reject()
    indexes = distinct(made.comparable)
    report = ia.write_table(made.table, path, indexes=indexes, **options)
    found = pq.read_table(path)
    # views and dictionaries within structs and lists are written and read back as plain types
    kept = [field for field in full.schema if field in flat_fields(full) or is_plain(field.type)]
    assert [found.schema.field(field.name) for field in kept] == kept
    assert_same_rows(found.replace_schema_metadata(), full.replace_schema_metadata().cast(found.schema))
    assert report.num_rows == full.num_rows
    assert len(report.built) == len(indexes)
    # the smallest int64 is a valid time, but NumPy, with which `verify` prints it, shows it as NaT
    findings = [note for note in ia.verify(path).findings if "NaT" not in note.message]
    assert not [note for note in findings if note.severity == "error"]

    # the payloads equal those built from the file
    shutil.copy(path, again)
    ia.detach(again)
    ia.attach(again, indexes)
    assert again.read_bytes() == path.read_bytes()

    columns = {name: leaf_at(full, name) for name in made.comparable}
    node = data.draw(flat.predicates({name: column.type for name, column in columns.items()}), label="where")
    keep = oracle.selected(node, columns, full.num_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = ia.open(path).scan(node).to_arrow()
    assert rows.num_rows == sum(keep)
    shutil.rmtree(folder)


@pytest.fixture
def columns_read():
    """A function that returns the columns of a file whose data pages were read from disk."""
    with recorded_preads() as reads:

        def columns_read(path):
            found = list(reads)
            return {
                name
                for name, pages in layout_of(path).pages.items()
                for page in pages
                if any(start < page.place.stop and page.place.start < stop for _, start, stop in found)
            }

        yield columns_read


def test_indexes_are_built_from_memory(path, columns_read):
    """If Parquet preserves the types, no data page is read."""
    table = pa.table(
        {
            "word": pa.array(["a", "b", None] * 100).dictionary_encode(),
            "number": range(300),
            "s": [{"x": row % 5} if row % 7 else None for row in range(300)],
        }
    )
    report = ia.write_table(table, path, indexes=distinct(["word", "number", "s.x"]))
    assert report.built == ("distinct(word):page", "distinct(number):page", "distinct(s.x):page")
    assert columns_read(path) == set()


@pytest.mark.parametrize("kind", [pa.date64(), pa.timestamp("s"), pa.time32("s")])
def test_values_that_parquet_changes_are_read_back(path, kind):
    """A date64 loses its time of day, so the index must contain the value without it."""
    table = pa.table({"d": pa.array([86_400_005, None, 5], pa.int64()).cast(pa.int64())})
    step = 1 if kind == pa.date64() else 10_000
    values = [None if value is None else value // step for value in table["d"].to_pylist()]
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    column = pa.array(values, width).view(kind)
    if kind == pa.date64():
        assert column[0].value == 86_400_005
    ia.write_table(pa.table({"d": column}), path, indexes=distinct("d"))
    before = path.read_bytes()
    ia.detach(path)
    ia.attach(path, distinct("d"))
    assert path.read_bytes() == before


def test_only_types_that_parquet_changes_are_read_back(path, columns_read):
    table = pa.table({"day": pa.array([1], pa.date64()), "number": [1]})
    ia.write_table(table, path, indexes=distinct(["day", "number"]))
    assert columns_read(path) == {"day"}


@pytest.mark.parametrize(
    "index",
    [
        PageIndex(),
        Statistics(),
        Bloom("number"),
        Distinct("word"),
        Distinct("number", granularity=7),
        ZoneMap("number"),
    ],
    ids=repr,
)
def test_every_kind_of_index(path, index):
    """The file has the same bytes as after `attach`."""
    words = [f"word {row % 7}" if row % 5 else None for row in range(200)]
    table = pa.table({"number": range(200), "word": words})
    ia.write_table(table, path, indexes=[index], rows_per_page=20, row_group_size=90)
    written = path.read_bytes()
    assert not ia.attach(path, [index]).changed
    ia.detach(path)
    ia.attach(path, [index])
    assert path.read_bytes() == written
    assert ia.verify(path).ok
    assert ia.open(path).scan("number = 77 AND word = 'word 0'").to_arrow().num_rows == 1


# --- layout ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 499, 500, 2999, 3000, 5999])
def test_lookup_reads_one_page_of_the_requested_size(path, row):
    table = sorted_table()
    ia.write_table(table, path, rows_per_page=500, row_group_size=3000)
    layout = layout_of(path)
    for pages in layout.pages.values():
        assert [page.stop_row - page.first_row for page in pages] == [500] * 12
    opened, ranges = open_recorded(path)
    assert opened.scan(f"key = {2 * row}").to_arrow().equals(table.slice(row, 1))
    assert touched(layout, ranges).pages == {name: [row // 500] for name in table.column_names}


def test_row_groups(path):
    ia.write_table(pa.table({"a": range(25)}), path, row_group_size=10)
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(group).num_rows for group in range(3)] == [10, 10, 5]


def test_row_groups_are_bounded_in_bytes(path):
    ia.write_table(pa.table({"a": np.arange(300_000)}), path, row_group_bytes=1 << 20)
    assert pq.read_metadata(path).num_row_groups == 3


def test_dictionaries_where_values_repeat(path):
    rows = 200_000
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "few": random.integers(0, 1000, rows),
            "unique": random.permutation(rows),
            "runs": np.repeat(np.arange(rows // 2), 2),  # repeats in a contiguous sample, not in a random one
            "nothing": pa.nulls(rows, pa.int64()),
            "list": pa.array([["x", str(row)] for row in range(rows)]),
            "s": pa.array([{"a": row % 3, "b": f"text {row}"} for row in range(rows)]),
        }
    )
    report = ia.write_table(table, path)
    assert report.dictionary == ("few", "nothing", "s.a")
    group = pq.read_metadata(path).row_group(0)
    made = [group.column(ordinal).has_dictionary_page for ordinal in range(group.num_columns)]
    names = [group.column(ordinal).path_in_schema for ordinal in range(group.num_columns)]
    assert [name for name, has in zip(names, made, strict=True) if has and name != "nothing"] == [
        "few",
        "s.a",
    ]


@pytest.mark.parametrize(("requested", "expected"), [(True, ["a", "b"]), (False, []), (["b"], ["b"])])
def test_requested_dictionaries(path, requested, expected):
    ia.write_table(pa.table({"a": range(10), "b": [1] * 10}), path, dictionary=requested)
    group = pq.read_metadata(path).row_group(0)
    found = [name for ordinal, name in enumerate("ab") if group.column(ordinal).has_dictionary_page]
    assert found == expected


def test_compression(path):
    ia.write_table(pa.table({"a": range(10)}), path)
    assert pq.read_metadata(path).row_group(0).column(0).compression == "ZSTD"
    ia.write_table(pa.table({"a": range(10)}), path, compression="gzip", compression_level=1)
    assert pq.read_metadata(path).row_group(0).column(0).compression == "GZIP"


# --- bounds ----------------------------------------------------------------------------------------


def column_index(path, leaf, row_group=0):
    with ParquetInput.open(path) as file:
        key = ChunkKey(row_group, leaf)
        file.load_page_index([key], [key])
        assert not file.ignored
        assert file.locations(key) is not None
        return file.column_index(key)


@pytest.mark.parametrize("length", [64, 65, 1000, 5000])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_long_bounds_are_truncated(path, length, kind):
    """Also beyond 4096 bytes, where pyarrow writes no bounds."""
    values = [f"{row:04}".ljust(length, "é") for row in range(100)]
    table = pa.table({"n": range(100), "text": pa.array(values).cast(kind), "after": range(100)})
    report = ia.write_table(table, path, rows_per_page=10, row_group_size=50)
    assert report.notes == ()
    for row_group in range(2):
        index = column_index(path, 1, row_group)
        assert len(index.min_values) == 5
        assert max(map(len, [*index.min_values, *index.max_values])) <= 64
        assert index.boundary_order == 1
    assert ia.verify(path).ok
    assert pq.read_table(path).equals(table)
    opened, ranges = open_recorded(path)
    where = ia_equal("text", table["text"][33])
    assert opened.scan(where).to_arrow().equals(table.slice(33, 1))
    assert touched(layout_of(path), ranges).pages["text"] == [3]


def ia_equal(name, scalar):
    from intarsia.predicate import Comparison

    return Comparison(name, "=", scalar.as_py())


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_chunks_with_nan_have_no_bounds(path, kind):
    """Readers that sort NaN above every number would skip it; `PageIndex` and `Statistics` do the same."""
    values = np.arange(40, dtype=kind.to_pandas_dtype())
    values[25] = np.nan
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values), 1)
    table = pa.table({"x": values, "l": lists, "n": range(40)})
    report = ia.write_table(table, path, rows_per_page=5, row_group_size=20)
    assert [column_index(path, 0, group) is None for group in range(2)] == [False, True]
    assert [column_index(path, 1, group) is None for group in range(2)] == [False, True]
    assert column_index(path, 2, 1) is not None
    groups = [pq.read_metadata(path).row_group(group) for group in range(2)]
    for ordinal, has_bounds in ((0, [False, False]), (1, [False, False]), (2, [True, True])):
        statistics = [group.column(ordinal).statistics for group in groups]
        assert [found.has_min_max for found in statistics] == has_bounds
        assert [found.null_count for found in statistics] == [0, 0]
    assert [(note.column, note.row_group) for note in report.notes] == [("x", 1), ("l.list.element", 1)]
    before = path.read_bytes()
    assert not ia.attach(path, [ia.PageIndex(), ia.Statistics()]).changed
    assert path.read_bytes() == before
    assert ia.verify(path).ok


def test_page_index_is_complete_by_default(path):
    ia.write_table(sorted_table(), path, indexes=[ia.PageIndex()])
    group = pq.read_metadata(path).row_group(0)
    assert all(group.column(ordinal).has_column_index for ordinal in range(group.num_columns))
    assert not ia.attach(path, [ia.PageIndex()]).changed


# --- order -----------------------------------------------------------------------------------------


def test_sorted(path):
    random = np.random.default_rng(5)
    keys = pa.array([None if key == 7 else int(key) for key in random.integers(0, 10, 200)])
    table = pa.table({"s": [{"x": 1, "y": 2}] * 200, "a": keys, "b": random.permutation(200)})
    ia.write_table(
        table, path, sort_by=["a", ("b", "descending")], row_group_size=60, indexes=distinct(["a", "s.y"])
    )
    rows = list(zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True))
    rows.sort(key=lambda row: (row[0] is None, row[0] or 0, -row[1]))
    found = pq.read_table(path)
    assert list(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)) == rows
    metadata = pq.read_metadata(path)
    for group in range(metadata.num_row_groups):
        assert metadata.row_group(group).sorting_columns == (
            pq.SortingColumn(2, descending=False, nulls_first=False),
            pq.SortingColumn(3, descending=True, nulls_first=False),
        )
    before = path.read_bytes()
    ia.detach(path)
    ia.attach(path, distinct(["a", "s.y"]))
    assert path.read_bytes() == before


def test_order_with_nan_is_not_recorded_in_the_footer(path):
    table = pa.table({"a": [2, 1, 1], "x": [1.0, float("nan"), 0.0], "b": [1, 2, 3]})
    ia.write_table(table, path, sort_by=["a", "x", "b"])
    assert pq.read_table(path)["b"].to_pylist() == [3, 2, 1]
    assert pq.read_metadata(path).row_group(0).sorting_columns == (pq.SortingColumn(0, False, False),)
    ia.write_table(table, path, sort_by="x")
    assert pq.read_metadata(path).row_group(0).sorting_columns == ()


def test_sorted_by_a_name_that_starts_with_a_dot(path):
    ia.write_table(pa.table({".a": [3, 1, 2], "a": [1, 2, 3]}), path, sort_by=".a")
    assert pq.read_table(path).to_pylist() == [{".a": 1, "a": 2}, {".a": 2, "a": 3}, {".a": 3, "a": 1}]


NUMBERS = [Decimal("-2.31"), Decimal("0.01"), None, Decimal("-999.99"), Decimal("0.00"), Decimal("999.99")]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(NUMBERS, pa.decimal32(5, 2)),
        pa.array(NUMBERS, pa.decimal64(15, 2)),
        pa.array([b"7" * 16, b"\xff" * 16, None, bytes(16), b"8" * 16, b"7" * 16], pa.uuid()),
    ],
    ids=lambda values: str(values.type)[:30],
)
@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_sorted_by_types_that_pyarrow_sorts_wrongly_or_not_at_all(path, values, direction):
    table = pa.table({"same": [1] * len(values), "a": values})
    ia.write_table(table, path, sort_by=["same", ("a", direction)])
    found = pq.read_table(path)["a"].to_pylist()
    expected = sorted((v for v in values.to_pylist() if v is not None), reverse=direction == "descending")
    assert found == [*expected, None]
    assert ia.verify(path).ok


@pytest.mark.parametrize("data_type", [pa.string_view(), pa.binary_view()], ids=str)
@pytest.mark.parametrize("sort_by", ["n", "a"])
def test_views_are_sorted(path, data_type, sort_by):
    texts = pa.array([f"{number:02} and a text of more than 12 bytes" for number in (3, 1, 2)])
    values = (
        texts.cast(pa.binary()).cast(data_type) if data_type == pa.binary_view() else texts.cast(data_type)
    )
    nested = pa.StructArray.from_arrays([values], ["x"])
    ia.write_table(pa.table({"n": [3, 1, 2], "a": values, "s": nested}), path, sort_by=sort_by)
    found = pq.read_table(path)
    assert (found["n"].to_pylist(), found["a"].type) == ([1, 2, 3], data_type)
    assert (
        found["a"].to_pylist() == [row["x"] for row in found["s"].to_pylist()] == sorted(values.to_pylist())
    )


def test_dictionary_of_a_missing_column(path):
    table = pa.table({"a": [1], "tags": [["x"]]})
    for names in (["b"], ["a", "tags"]):
        with pytest.raises(ia.ColumnNotFoundError) as caught:
            ia.write_table(table, path, dictionary=names)
        assert caught.value.column == names[-1]
    assert not path.exists()
    ia.write_table(table, path, dictionary=["tags.list.element"])
    group = pq.read_metadata(path).row_group(0)
    assert [group.column(ordinal).has_dictionary_page for ordinal in range(2)] == [False, True]


def test_sorted_by_a_struct(path):
    """Parquet cannot express that order, so the footer does not record it."""
    table = pa.table({"s": [{"a": 2}, {"a": 1}], "n": [1, 2]})
    ia.write_table(table, path, sort_by="s")
    assert pq.read_table(path)["n"].to_pylist() == [2, 1]
    assert pq.read_metadata(path).row_group(0).sorting_columns == ()


def test_sorted_by_a_dictionary(path):
    table = pa.table({"a": pa.array(["b", "a", None, "b", "a"]).dictionary_encode(), "n": range(5)})
    ia.write_table(table, path, sort_by="a")
    found = pq.read_table(path)
    assert found["n"].to_pylist() == [1, 4, 0, 3, 2]
    assert found.schema == table.schema


@pytest.mark.parametrize(
    ("sort_by", "error", "reason", "column"),
    [
        ("keyy", ia.ColumnNotFoundError, "no-such-column", "keyy"),
        ([("key", "up")], ia.WriteError, "unknown-direction", "key"),
        (["key", ("key", "descending")], ia.WriteError, "duplicate-sort-column", "key"),
        ("list", ia.WriteError, "not-sortable", None),
        (3, ia.WriteError, "invalid-sort-by", None),
        (b"key", ia.WriteError, "invalid-sort-by", None),
        ({"key": "descending"}, ia.WriteError, "invalid-sort-by", None),
        ([None], ia.WriteError, "invalid-sort-by", None),
        (("key", "descending"), ia.WriteError, "invalid-sort-by", None),
        ([("key", "descending", "last")], ia.WriteError, "invalid-sort-by", None),
        ([("key", ["descending"])], ia.WriteError, "unknown-direction", "key"),
    ],
)
def test_invalid_order(path, sort_by, error, reason, column):
    table = pa.table({"key": [1], "list": [[1]]})
    with pytest.raises(error) as caught:
        ia.write_table(table, path, sort_by=sort_by)
    assert (caught.value.reason, caught.value.column) == (reason, column)
    assert not os.listdir(path.parent)


# --- kinds of data ---------------------------------------------------------------------------------


def test_no_rows(path):
    table = pa.table(
        {"a": pa.array([], pa.int64()), "f": pa.array([], pa.float64()), "t": pa.array([], pa.string())}
    )
    report = ia.write_table(table, path, indexes=distinct("aft"), sort_by="a")
    assert (report.num_rows, report.num_row_groups) == (0, 0)
    assert pq.read_table(path).equals(table)
    assert ia.open(path).scan("a = 1").to_arrow().num_rows == 0
    assert ia.verify(path).ok


def test_thousand_columns(path):
    table = pa.table({f"c{ordinal}": [ordinal, ordinal + 1, None] for ordinal in range(1000)})
    ia.write_table(table, path, indexes=distinct(["c0", "c999"]), row_group_size=2)
    assert pq.read_table(path).equals(table)
    assert ia.open(path).scan("c999 = 1000", columns=["c0"]).to_arrow()["c0"].to_pylist() == [1]


def test_chunked_columns(path):
    """Chunks with different boundaries and different dictionaries."""
    chunks = [pa.array(words).dictionary_encode() for words in (["a", "b"] * 30, ["c"], ["b", "d", "d"] * 9)]
    numbers = pa.chunked_array([range(5), range(5, 88)])
    table = pa.table({"word": pa.chunked_array(chunks), "number": numbers})
    ia.write_table(table, path, indexes=distinct(["word", "number"]), row_group_size=37, rows_per_page=10)
    assert pq.read_table(path)["word"].to_pylist() == table["word"].to_pylist()
    before = path.read_bytes()
    ia.detach(path)
    ia.attach(path, distinct(["word", "number"]))
    assert path.read_bytes() == before


@pytest.mark.parametrize("ordered", [False, True])
def test_bounds_of_a_dictionary_are_those_of_its_rows(path, ordered):
    """pyarrow takes those of all values if there are as many as different ones in the rows, and null."""
    numbers = pa.array([1, 2, None, 1, 0, None, 1, None], pa.int8())
    words = pa.DictionaryArray.from_arrays(numbers, pa.array(["a", "b", "c" * 70]), ordered=ordered)
    ia.write_table(pa.table({"word": words, "n": range(8)}), path, row_group_size=3, rows_per_page=2)
    groups = [pq.read_metadata(path).row_group(group).column(0).statistics for group in range(3)]
    assert [(group.min, group.max[:2], group.null_count) for group in groups] == [
        ("b", "cc", 1),
        ("a", "b", 1),
        ("b", "b", 1),
    ]
    assert ia.verify(path).findings == ()
    assert duckdb.sql(f"SELECT min(word), max(word) FROM '{path}' WHERE n < 3").fetchall() == [
        ("b", "c" * 70)
    ]
    assert pq.read_table(path)["word"].to_pylist() == words.to_pylist()
    assert ia.open(path).aggregate({"word": ["min", "max"]}) == {"word": {"min": "a", "max": "c" * 70}}


@pytest.mark.parametrize("wrap", ["struct", "list", "map"])
def test_views_within_other_types(path, wrap):
    """As Polars exports them, in arrays that pyarrow cannot write without splitting them."""
    views = pa.array([None if row % 3 else f"text {row}" for row in range(4000)], pa.string_view())
    if wrap == "struct":
        column = pa.StructArray.from_arrays(
            [views], ["x"], mask=pa.array([row % 7 == 0 for row in range(4000)])
        )
    elif wrap == "list":
        column = pa.ListArray.from_arrays(pa.array(range(4001), pa.int32()), views)
    else:
        column = pa.MapArray.from_arrays(pa.array(range(4001), pa.int32()), pa.array(range(4000)), views)
    table = pa.table({"c": column, "v": views})
    ia.write_table(table, path, rows_per_page=100)
    found = pq.read_table(path)
    assert found["c"].to_pylist() == table["c"].to_pylist()
    assert found["v"].type == pa.string_view()
    assert ia.verify(path).ok
    with ia.Writer(path, table.schema, rows_per_page=100) as writer:
        writer.write_table(table)
    assert pq.read_table(path).equals(found)


@pytest.mark.parametrize("nulls", [[], [5, 50]])
def test_dictionaries_within_structs(path, nulls):
    """pyarrow does not count the nulls of a struct around a dictionary, so IS NULL would lose rows."""
    words = pa.array(["a", "b"] * 30).dictionary_encode()
    column = pa.StructArray.from_arrays([words], ["x"], mask=pa.array([row in nulls for row in range(60)]))
    ia.write_table(pa.table({"s": column}), path, rows_per_page=7, indexes=distinct(["s.x"]))
    assert pq.read_metadata(path).row_group(0).column(0).statistics.null_count == len(nulls)
    assert ia.verify(path).ok
    assert ia.open(path).scan("s.x IS NULL").to_arrow().num_rows == len(nulls)


def test_frames(path):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    for frame in (pandas.DataFrame({"a": [1, 2]}), polars.DataFrame({"a": [1, 2]}), {"a": [1, 2]}):
        ia.write_table(frame, path, indexes=distinct("a"))
        assert pq.read_table(path)["a"].to_pylist() == [1, 2]


def test_categories_of_polars(path):
    """Polars passes dictionaries of views, which pyarrow neither writes nor decodes."""
    polars = pytest.importorskip("polars")
    words = ["b", "a", None, "b"]
    kinds = {"c": polars.Categorical, "e": polars.Enum(["a", "b"])}
    frame = polars.DataFrame({name: polars.Series(words, dtype=kind) for name, kind in kinds.items()})
    frame = frame.with_columns(s=polars.struct("c"), l=polars.concat_list("c"))
    for rows in (frame, polars.concat([frame, frame], rechunk=False), frame.clear()):
        ia.write_table(rows, path, sort_by="c", indexes=distinct(["c", "e", "s.c"]))
        assert ia.verify(path).ok
        wanted = rows.sort("c", nulls_last=True).to_dicts()
        assert ia.open(path).scan().to_pylist() == wanted
        assert ia.open(path).count("c = 'a' AND e < 'b'") == sum(row["c"] == "a" for row in wanted)
        with ia.Writer(path, pa.table(rows).schema) as writer:
            writer.write_table(pa.table(rows))
        assert ia.open(path).scan().to_pylist() == rows.to_dicts()


def test_schema_metadata_is_kept_except_for_index_keys(path, tmp_path):
    """A table that was read from an indexed file has its metadata key, which must not reach a new file."""
    table = pa.table({"a": range(10)}).replace_schema_metadata({"mine": "kept"})
    ia.write_table(table, path, indexes=distinct("a"))
    read = pq.read_table(path)
    assert read.schema.metadata[b"mine"] == b"kept"
    again = tmp_path / "again.parquet"
    ia.write_table(read, again)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ia.open(again).scan("a = 3").to_arrow().num_rows == 1
    assert b"intarsia" not in (pq.read_metadata(again).metadata or {})


def test_progress(path):
    calls = []
    ia.write_table(
        {"a": [1], "b": [2]}, path, indexes=distinct("ab"), progress=lambda *call: calls.append(call)
    )
    assert calls == [(1, 2, "distinct(a):page"), (2, 2, "distinct(b):page")]


@pytest.mark.parametrize(
    ("table", "options", "error", "reason"),
    [
        (pa.table([[1], [2]], ["a", "a"]), {}, ia.WriteError, "duplicate-column"),
        ({"a": [1]}, {"rows_per_page": 0}, ia.WriteError, "invalid-row-count"),
        ({"a": [1]}, {"rows_per_page": True}, ia.WriteError, "invalid-row-count"),
        ({"a": [1]}, {"row_group_size": -1}, ia.WriteError, "invalid-row-count"),
        ({"a": [1]}, {"row_group_size": 1 << 63}, ia.WriteError, "invalid-row-count"),
        ({"a": [1]}, {"row_group_bytes": 0}, ia.WriteError, "invalid-size"),
        ({"a": [1]}, {"row_group_bytes": None}, ia.WriteError, "invalid-size"),
        ({"a": [1]}, {"compression": "zip"}, ia.WriteError, "schema-not-writable"),
        ({"a": [1]}, {"compression": 7}, ia.WriteError, "invalid-codec"),
        ({"a": [1]}, {"compression_level": "9"}, ia.WriteError, "invalid-codec"),
        ({"a": [1]}, {"compression_level": 1 << 40}, ia.WriteError, "invalid-codec"),
        ({"a": [1]}, {"dictionary": 1}, ia.WriteError, "invalid-dictionary"),
        ({"a": [1]}, {"dictionary": "a"}, ia.WriteError, "invalid-dictionary"),
        ({"a": [1]}, {"dictionary": [None]}, ia.WriteError, "invalid-dictionary"),
        ({"a": [1]}, {"indexes": distinct(["b"])}, ia.ColumnNotFoundError, "no-such-column"),
        (pa.table({"a": pa.array([{}], pa.struct([]))}), {}, ia.WriteError, "schema-not-writable"),
        (
            pa.table(
                {"a": pa.array([1, None])}, schema=pa.schema([pa.field("a", pa.int64(), nullable=False)])
            ),
            {},
            ia.WriteError,
            "rows-not-writable",
        ),
    ],
)
def test_invalid_arguments(path, table, options, error, reason):
    path.write_bytes(b"old")
    with pytest.raises(error) as caught:
        ia.write_table(table, path, **options)
    assert caught.value.reason == reason
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["t.parquet"]


@pytest.mark.parametrize("is_nested", [False, True])
def test_decimals_with_more_digits_than_their_type(path, is_nested):
    """Deephaven writes such files; pyarrow would write the last byte of each value."""
    numbers = b"".join(number.to_bytes(16, "little") for number in (9, 1234, 0))
    column = pa.Array.from_buffers(pa.decimal128(1, 0), 3, [pa.py_buffer(b"\x03"), pa.py_buffer(numbers)])
    if is_nested:
        column = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), column)
    with pytest.raises(ia.WriteError) as caught:
        ia.write_table({"a": column}, path)
    assert caught.value.reason == "rows-not-writable"
    assert os.listdir(path.parent) == []
    ia.write_table({"a": column[:1]}, path)
    assert pq.read_table(path)["a"].to_pylist() == column[:1].to_pylist()


@pytest.mark.parametrize(
    ("values", "indexes"), [([[1]], distinct("a")), ([1], distinct("aa")), ([1], ["a"])], ids=str
)
def test_invalid_indexes(path, values, indexes):
    path.write_bytes(b"old")
    with pytest.raises(ia.IndexBuildError):
        ia.write_table({"a": values}, path, indexes=indexes)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["t.parquet"]


def test_errors_come_before_any_row_is_written(path, monkeypatch):
    def refuse(*rest):
        pytest.fail("rows were written")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", refuse)
    with pytest.raises(ia.ColumnNotFoundError):
        ia.write_table({"a": [1]}, path, indexes=distinct(["b"]))


@pytest.mark.parametrize(
    ("nest", "deepest"),
    [
        (lambda kind: pa.struct({"a": kind}), 98),
        (pa.list_, 49),
        (lambda kind: pa.map_(pa.string(), kind), 49),
    ],
    ids=["struct", "list", "map"],
)
def test_only_columns_that_readers_can_decode_are_written(path, nest, deepest):
    """pyarrow writes deeper columns, too, and then cannot read them."""

    def nested(depth):
        kind = pa.int64()
        for _ in range(depth):
            kind = nest(kind)
        return pa.table({"x": pa.nulls(2, kind)})

    ia.write_table(nested(deepest), path)
    assert pq.read_table(path).equals(nested(deepest))
    for depth in (deepest + 1, 1_200):
        with pytest.raises(ia.WriteError) as raised:
            ia.write_table(nested(depth), path)
        assert (raised.value.reason, raised.value.column) == ("nested-too-deeply", "x")
        pq.write_table(nested(depth), path)
        with pytest.raises(OSError, match="nested"):
            pq.read_table(path)


def test_a_scan_that_skips_damaged_files_is_written(tmp_path):
    """Its files are checked for logical types that would be lost; that raises no other error."""
    for part in range(3):
        pq.write_table(pa.table({"x": [part] * 5}), tmp_path / f"{part}.parquet")
    damaged = tmp_path / "1.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    with pytest.warns(ia.IntarsiaWarning):
        report = ia.write_table(ia.open(tmp_path).scan(on_error="skip"), tmp_path / "new")
    assert report.num_rows == 10


@pytest.mark.parametrize("ordered", [False, True])
def test_small_row_groups_do_not_repeat_a_large_dictionary(path, ordered):
    """pyarrow writes all values of a dictionary into each row group; the first one keeps unused values."""
    words = pa.array([f"{number:04}" * 50 for number in range(400)])
    numbers = pa.array([None if number == 7 else number for number in range(399)], pa.int16())
    column = pa.DictionaryArray.from_arrays(numbers, words, ordered=ordered)
    table = pa.table({"word": column, "few": pa.array(["a", "b", "a"] * 133).dictionary_encode()})
    ia.write_table(table, path, row_group_size=1, compression="none", rows_per_page=1)
    assert path.stat().st_size < 10 * 400 * 200
    for found in (pq.read_table(path), ia.open(path).scan().to_arrow()):
        assert found.schema.equals(table.schema)
        assert found.to_pylist() == table.to_pylist()
        assert set(found["word"].unify_dictionaries().chunk(0).dictionary.to_pylist()) == set(
            words.to_pylist()
        )
    assert ia.verify(path).ok


def test_the_report_of_a_scan_that_is_written_has_all_of_its_reads(tmp_path):
    """Those for the schema, and for the check of logical types, belong to the run of the rows."""
    for part in range(3):
        pq.write_table(pa.table({"x": range(5)}), tmp_path / f"{part}.parquet")
        os.utime(tmp_path / f"{part}.parquet", (1_700_000_000, 1_700_000_000))
    read, written = ia.open(tmp_path).scan(), ia.open(tmp_path).scan()
    read.to_reader().read_all()
    ia.write_table(written, tmp_path / "new")
    assert written.report.requests == read.report.requests > 3
    assert written.report.bytes_read == read.report.bytes_read
