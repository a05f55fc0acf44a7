"""Rows that own their buffers, for every type: their size, their values, and readers that accept them."""

import decimal

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.arrow.owned_rows import by_key, own_rows
from tests.counting import calls

N = 2000


def text(number):
    return f"{number:06d}" * 20


def maybe(values):
    return [None if number % 7 == 3 else value for number, value in enumerate(values)]


def list_of(items, kind=pa.ListArray):
    return kind.from_arrays(pa.array(range(len(items) + 1), pa.int32()), items)


TEXTS = pa.array(maybe(map(text, range(N))))
VIEWS = TEXTS.cast(pa.string_view())
STRUCTS = pa.array(maybe({"x": {"y": number}, "s": text(number)} for number in range(N)))
PAIRS = pa.FixedSizeListArray.from_arrays(STRUCTS, 2)
STORED = pa.array(f'{{"a": "{text(number)}"}}' for number in range(N))

ARRAYS = {
    "int64": pa.array(maybe(range(N))),
    "decimal": pa.array([decimal.Decimal(number) for number in range(N)], pa.decimal128(20, 2)),
    "string": TEXTS,
    "large_string": TEXTS.cast(pa.large_string()),
    "fixed_size_binary": pa.array([text(number).encode() for number in range(N)], pa.binary(120)),
    "string_view": VIEWS,
    "binary_view": TEXTS.cast(pa.binary()).cast(pa.binary_view()),
    "short string_view": pa.array(maybe(map(str, range(N))), pa.string_view()),
    "string_view that is not UTF-8": pa.array([b"\xff" * 99] * N, pa.binary_view()).view(pa.string_view()),
    "dictionary": TEXTS.dictionary_encode(),
    "dictionary of views": pa.DictionaryArray.from_arrays(pa.array(range(N), pa.int32()), VIEWS),
    "small dictionary": pa.array([text(number % 3) for number in range(N)]).dictionary_encode(),
    "ordered dictionary": pa.DictionaryArray.from_arrays(
        pa.array(range(N - 1, -1, -1), pa.int16()), TEXTS, ordered=True
    ),
    "list": pa.array(maybe([number, None] for number in range(N))),
    "large_list": pa.array(maybe([text(number)] for number in range(N)), pa.large_list(pa.string())),
    "list_view": pa.array(maybe([text(number)] for number in range(N)), pa.list_view(pa.string())),
    "large_list_view": pa.array([[text(number)] for number in range(N)], pa.large_list_view(pa.string())),
    "fixed_size_list": pa.array(maybe([number, None] for number in range(N)), pa.list_(pa.int64(), 2)),
    "map": pa.array(maybe([(text(number), number)] for number in range(N)), pa.map_(pa.string(), pa.int64())),
    "struct": STRUCTS,
    "struct without fields": pa.array(maybe({} for _ in range(N)), pa.struct([])),
    "struct with required fields": pa.StructArray.from_arrays(
        [pa.array(range(N)), TEXTS.fill_null("")],
        fields=[pa.field("a", pa.int64(), False, {b"k": b"v"}), pa.field("b", pa.string(), False)],
    ),
    "struct of views": pa.StructArray.from_arrays([VIEWS], ["v"]),
    "struct of dictionaries": pa.StructArray.from_arrays([TEXTS.dictionary_encode()], ["d"]),
    "struct of pairs": pa.StructArray.from_arrays([PAIRS], ["q"]),
    "struct at zero of structs at an offset": pa.StructArray.from_arrays([STRUCTS.slice(9)], ["q"]),
    "list of structs": list_of(STRUCTS),
    "list of views": list_of(VIEWS),
    "list of structs at an offset": list_of(STRUCTS.slice(9)),
    "list_view of views": pa.ListViewArray.from_arrays(
        pa.array(range(N), pa.int32()), pa.array([1] * N, pa.int32()), VIEWS
    ),
    "list of pairs": list_of(PAIRS),
    "pairs": PAIRS,
    "map to structs": pa.MapArray.from_arrays(
        pa.array(range(N + 1), pa.int32()), pa.array(range(N)), STRUCTS
    ),
    "run-end encoded": pa.RunEndEncodedArray.from_arrays(pa.array(range(1, N + 1), pa.int32()), TEXTS),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * N, pa.binary(16))),
    "json": pa.ExtensionArray.from_storage(pa.json_(), STORED),
    "json in views": pa.ExtensionArray.from_storage(
        pa.json_(pa.string_view()), STORED.cast(pa.string_view())
    ),
}

#: Types that DataFusion does not support.
NOT_DATAFUSIONS = {"string_view that is not UTF-8"}


def structs_at_an_offset(array):
    """Return whether any array has an offset in the C data interface, at any depth."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return structs_at_an_offset(array.storage)
    if pa.types.is_struct(kind):
        fields = [array.field(place) for place in range(kind.num_fields)]
        return kind.num_fields > 0 and (array.offset > 0 or any(map(structs_at_an_offset, fields)))
    if pa.types.is_map(kind):
        return structs_at_an_offset(array.keys) or structs_at_an_offset(array.items)
    if pa.types.is_nested(kind):
        if pa.types.is_fixed_size_list(kind) and array.offset:
            return structs_at_an_offset(array.values) or pa.types.is_struct(kind.value_type)
        return structs_at_an_offset(array.values)
    return False


def values(array):
    """Return the values of an array, including text that is not UTF-8."""
    if pa.types.is_string_view(array.type):
        array = array.view(pa.binary_view())
    return array.to_pylist()


@pytest.mark.parametrize("name", ARRAYS)
def test_a_few_rows_use_little_memory(name):
    array = ARRAYS[name]
    for rows in (array.slice(1000, 5), array.slice(3, 1), array.slice(10, 0), array[len(array) - 4 :]):
        owned = own_rows(rows)
        owned.validate(full=not name.endswith("UTF-8"))
        assert owned.type == rows.type
        assert values(owned) == values(rows)
        assert not structs_at_an_offset(owned)
        assert owned.get_total_buffer_size() < 5000
        if "dictionary" not in name and "dictionaries" not in name:
            assert owned.equals(rows)


@pytest.mark.parametrize("name", ARRAYS)
def test_whole_arrays_are_not_copied(name):
    array = ARRAYS[name]
    if not structs_at_an_offset(array):
        assert own_rows(array) is array


@pytest.mark.parametrize("name", ARRAYS)
def test_most_of_an_array_is_not_copied(name):
    rows = ARRAYS[name].slice(5, len(ARRAYS[name]) - 9)
    owned = own_rows(rows)
    owned.validate(full=not name.endswith("UTF-8"))
    assert owned.type == rows.type
    assert values(owned) == values(rows)
    assert not structs_at_an_offset(owned)
    if not pa.types.is_nested(rows.type):
        assert owned is rows


@pytest.mark.parametrize("name", sorted(ARRAYS.keys() - NOT_DATAFUSIONS))
@pytest.mark.parametrize("rows", [slice(500, 503), slice(5, -4)])
def test_datafusion_reads_them(name, rows):
    table = own_rows(pa.table({"x": ARRAYS[name][rows]}))
    taken = datafusion.SessionContext().from_arrow(table).to_arrow_table()
    assert taken["x"].to_pylist() == table["x"].to_pylist()
    stream = pa.RecordBatchReader.from_batches(table.schema, map(own_rows, table.to_batches()))
    assert datafusion.SessionContext().from_arrow(stream).to_arrow_table().equals(taken)


def test_rows_of_decoded_pages(tmp_path):
    """A regression: a few wide values of a large row group kept all of its pages in memory."""
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({"wide": [text(number) * 50 for number in range(N)]}), path)
    whole = pq.read_table(path)
    few = whole.slice(700, 20)
    assert few.get_total_buffer_size() > 10_000_000
    assert own_rows(few).get_total_buffer_size() < 20 * 6100
    assert own_rows(few).equals(few)


def test_views_that_share_their_bytes():
    """A copy of a thousand views of the same bytes would be larger than their shared buffer."""
    view, one = VIEWS.slice(1, 1), VIEWS.buffers()[2:]
    views = pa.py_buffer(view.buffers()[1][16:32].to_pybytes() * 1000)
    rows = pa.Array.from_buffers(pa.string_view(), 1000, [None, views, *one])
    assert rows.to_pylist() == [text(1)] * 1000
    assert own_rows(rows.slice(3)).get_total_buffer_size() <= rows.get_total_buffer_size()
    assert own_rows(rows).equals(rows)


class TestContainers:
    def test_chunks_that_are_slices_of_the_same_buffers_are_judged_together(self):
        chunks = [TEXTS.slice(first, 100) for first in range(0, N, 100)]
        column = pa.chunked_array(chunks)
        assert own_rows(column) is column
        few = pa.chunked_array([chunk.slice(7, 2) for chunk in chunks])
        owned = own_rows(few)
        assert owned.equals(few)
        assert owned.num_chunks == few.num_chunks
        assert owned.get_total_buffer_size() < 3 * few.nbytes

    def test_only_the_columns_that_hold_much(self):
        schema = pa.schema(
            [pa.field("few", pa.string(), metadata={"a": "b"}), pa.field("all", pa.string(), False)],
            metadata={"k": "v"},
        )
        whole = pa.array([text(number) for number in range(5)])
        table = pa.table([TEXTS.slice(8, 5), whole], schema=schema)
        for rows in (table, table.to_batches()[0]):
            owned = own_rows(rows)
            assert type(owned) is type(rows)
            assert owned.equals(rows, check_metadata=True)
            assert owned.get_total_buffer_size() < 2 * rows.nbytes
        kept = own_rows(table)["all"].chunk(0)
        assert kept.buffers()[2].address == whole.buffers()[2].address

    def test_what_needs_no_copy_is_handed_back(self):
        for rows in (
            pa.table({"x": TEXTS, "y": STRUCTS}),
            pa.record_batch({"x": TEXTS}),
            pa.table({}),
            pa.table({"x": TEXTS}).select([]),
            pa.table({"x": pa.nulls(5)}),
            pa.chunked_array([], pa.string()),
        ):
            assert own_rows(rows) is rows

    def test_rows_without_columns_stay_as_many(self):
        rows = pa.table({"x": TEXTS}).slice(3, 7).select([])
        assert own_rows(rows).num_rows == rows.num_rows


def test_unions_are_not_copied():
    """Parquet has no unions, so they are not copied."""
    union = pa.UnionArray.from_sparse(pa.array([0] * N, pa.int8()), [TEXTS])
    rows = union.slice(5, 2)
    assert own_rows(rows) is rows


def test_large_dictionaries_shrink_and_small_ones_do_not():
    large = ARRAYS["ordered dictionary"].slice(1000, 5)
    owned = own_rows(large)
    assert owned.dictionary.to_pylist() == TEXTS.slice(995, 5).to_pylist()
    assert owned.type.ordered
    small = own_rows(ARRAYS["small dictionary"].slice(1000, 5))
    assert small.dictionary.equals(ARRAYS["small dictionary"].dictionary)


def test_values_are_grouped_without_a_search_for_each_key():
    """The rows of each path of a table were searched among all rows."""

    def grouped(num_keys):
        keys = [f"key {number * 7 % num_keys}" for number in range(3 * num_keys)]
        halves = pa.chunked_array([keys[:num_keys], keys[num_keys:]])
        found = by_key(halves, np.arange(3 * num_keys))
        assert {key: values.tolist() for key, values in found.items()} == {
            f"key {first * 7 % num_keys}": [first, first + num_keys, first + 2 * num_keys]
            for first in range(num_keys)
        }
        return calls(lambda: by_key(halves, np.arange(3 * num_keys)))

    grouped(10)
    assert grouped(1000) < grouped(10) + 20


def test_no_values_have_no_keys():
    assert by_key(pa.chunked_array([], pa.string()), np.empty(0, dtype=np.int64)) == {}
