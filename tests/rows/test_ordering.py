"""Keys have the order of the values, bounds decode to their keys, and truncated bounds are still bounds."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.errors import CorruptFileError
from intarsia.format.enums import ConvertedType, Type
from intarsia.format.footer import schema_leaves
from intarsia.format.structs import DecimalType, Empty, GeometryType, LogicalType, SchemaElement, VariantType
from intarsia.rows.ordering import ordering_for, successor, truncate_max, truncate_min
from tests.effort import examples
from tests.leaves import leaf_of, open_table, ordering_of
from tests.predicate import oracle
from tests.predicate import strategies as flat
from tests.reading.tables import storable

#: Types with an order in Parquet. A dictionary has the order of its values.
ORDERED = [type_ for type_ in flat.TYPES if not pa.types.is_dictionary(type_)]
STORED = [
    *(pytest.param(type_, False, id=str(type_)) for type_ in ORDERED),
    *(pytest.param(type_, True, id=f"{type_} as integer") for type_ in flat.DECIMALS[:2]),
    pytest.param(pa.decimal128(18, 3), True, id="decimal128(18, 3) as integer"),
]


def order_of(values):
    """Return the exact values of an array as compared in a file, without NaN and nulls."""
    return [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]


@pytest.mark.parametrize(("type_", "store_decimal_as_integer"), STORED)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_keys_are_ordered_as_the_values(type_, store_decimal_as_integer, data):
    ordering = ordering_of(type_, store_decimal_as_integer=store_decimal_as_integer)
    items = data.draw(st.lists(st.none() | storable(type_), max_size=8))
    read = (
        open_table(
            pa.table({"x": flat.make_array(type_, items)}), store_decimal_as_integer=store_decimal_as_integer
        )
        .arrow_schema.field("x")
        .type
    )
    array = flat.make_array(type_, items)
    if not isinstance(read, pa.BaseExtensionType):
        array = array.cast(read)
    exact = order_of(oracle.exact_values(array))
    keys = ordering.keys(array)
    assert keys.dtype == ordering.dtype
    keys = [key for key in keys.tolist() if key == key]  # noqa: PLR0124 - drops NaN
    assert len(keys) == len(exact)
    for one, key in zip(exact, keys, strict=True):
        for other, other_key in zip(exact, keys, strict=True):
            assert (one < other, one == other) == (key < other_key, key == other_key)


@pytest.mark.parametrize(("type_", "store_decimal_as_integer"), STORED)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_bounds_of_pyarrow_decode_to_the_keys_of_its_values(type_, store_decimal_as_integer, data):
    """The minimum and maximum that pyarrow writes decode to the smallest and largest key, and encode back."""
    items = data.draw(st.lists(storable(type_), min_size=1, max_size=6))
    file = open_table(
        pa.table({"x": flat.make_array(type_, items)}), store_decimal_as_integer=store_decimal_as_integer
    )
    ordering = ordering_for(file.footer.leaves[0], file.leaf_types[0])
    statistics = file.footer.chunk_metadata(0, file.footer.leaves[0]).statistics
    array = flat.make_array(type_, items)
    if not isinstance(ordering.arrow_type, pa.BaseExtensionType):
        array = array.cast(ordering.arrow_type)
    keys = [key for key in ordering.keys(array).tolist() if key == key]  # noqa: PLR0124
    if statistics.min_value is None:
        assert not keys or ordering.is_float
        return
    bounds = [statistics.min_value, statistics.max_value]
    assert ordering.decode(bounds).tolist() == [min(keys), max(keys)]
    for bound, key in zip(bounds, [min(keys), max(keys)], strict=True):
        encoded = ordering.encode(key)
        assert ordering.decode([encoded]).tolist() == [key]
        if not (ordering.is_float and key == 0):  # two zeros, one key
            assert encoded == bound


@pytest.mark.parametrize("type_", ORDERED, ids=str)
def test_scalars_have_the_key_of_their_array(type_):
    _, read = leaf_of(type_)
    ordering = ordering_of(type_)
    items = [Decimal(1) if pa.types.is_decimal(type_) else 0]
    if pa.types.is_boolean(type_):
        items = [True]
    if ordering.is_bytes:
        items = [b"a\0b"[: getattr(type_, "byte_width", 3)] if pa.types.is_fixed_size_binary(type_) else "ab"]
    if isinstance(type_, pa.UuidType):
        items = [bytes(16)]
    array = flat.make_array(type_, items)
    if not isinstance(read, pa.BaseExtensionType):
        array = array.cast(read)
    plain = array.storage if isinstance(array, pa.ExtensionArray) else array
    key = ordering.key(plain[0])
    assert key == ordering.keys(array)[0]
    assert not isinstance(key, np.generic), "a Python number, which NumPy compares exactly"


def test_cells_keep_trailing_zeros():
    ordering = ordering_of(pa.binary())
    keys = ordering.decode([b"a", b"a\0", b"a\0\0"])
    assert (keys == ordering.cell(b"a\0")).tolist() == [False, True, False]
    assert (keys < ordering.cell(b"a\0")).tolist() == [True, False, False]
    assert np.searchsorted(keys, ordering.cell(b"a\0"), side="right") == 2


def test_cells_of_large_unsigned_numbers():
    ordering = ordering_of(pa.uint64())
    keys = ordering.decode([(2**64 - 1).to_bytes(8, "little"), (2**63).to_bytes(8, "little")])
    assert (keys == ordering.cell(2**64 - 1)).tolist() == [True, False]
    assert (keys > ordering.cell(2**64 - 2)).tolist() == [True, False]


@pytest.mark.parametrize(
    ("type_", "bound"),
    [
        (pa.int32(), b""),
        (pa.int32(), b"\0" * 3),
        (pa.int64(), b"\0" * 4),
        (pa.float64(), b"\0" * 9),
        (pa.bool_(), b""),
        (pa.float16(), b"\0"),
        (pa.timestamp("us"), b"\0" * 4),
    ],
)
def test_bounds_of_a_wrong_length(type_, bound):
    ordering = ordering_of(type_)
    with pytest.raises(CorruptFileError) as caught:
        ordering.decode([ordering.encode(0), bound])
    assert (caught.value.reason, caught.value.column) == ("bound-length", ordering.leaf.name)


def leaf_like(**fields):
    """The leaf of a schema of one element."""
    root = SchemaElement("schema", num_children=1)
    return schema_leaves([root, SchemaElement("x", repetition_type=1, **fields)])[0]


@pytest.mark.parametrize(
    ("fields", "type_"),
    [
        ({"type": Type.INT96}, pa.timestamp("ns")),
        (
            {"type": Type.FIXED_LEN_BYTE_ARRAY, "type_length": 12, "converted_type": ConvertedType.INTERVAL},
            pa.binary(12),
        ),
        ({"type": Type.BYTE_ARRAY, "logicalType": LogicalType(VARIANT=VariantType())}, pa.binary()),
        ({"type": Type.BYTE_ARRAY, "logicalType": LogicalType(GEOMETRY=GeometryType())}, pa.binary()),
        ({"type": Type.BYTE_ARRAY, "logicalType": LogicalType(GEOGRAPHY=GeometryType())}, pa.binary()),
        ({"type": Type.INT32, "logicalType": LogicalType(UNKNOWN=Empty())}, pa.int32()),
        ({"type": Type.INT64, "logicalType": LogicalType()}, pa.int64()),
        ({"type": Type.INT64}, pa.timestamp("us")),
        ({"type": Type.INT32}, pa.uint32()),
        (
            {"type": Type.BYTE_ARRAY, "logicalType": LogicalType(DECIMAL=DecimalType(2, 9))},
            pa.decimal128(9, 3),
        ),
        ({"type": Type.BYTE_ARRAY, "logicalType": LogicalType(DECIMAL=DecimalType(2, 9))}, pa.binary()),
    ],
)
def test_leaves_without_an_order(fields, type_):
    assert ordering_for(leaf_like(**fields), type_) is None


@given(st.lists(st.integers(-(10**18) + 1, 10**18 - 1), min_size=1), st.integers(0, 3))
def test_decimals_as_bytes_of_any_length(numbers, padding):
    """BYTE_ARRAY decimals are big-endian two's complement, and may have more bytes than needed."""
    logical = LogicalType(DECIMAL=DecimalType(2, 18))
    ordering = ordering_for(leaf_like(type=Type.BYTE_ARRAY, logicalType=logical), pa.decimal128(18, 2))
    encoded = [n.to_bytes(n.bit_length() // 8 + 1 + padding, "big", signed=True) for n in numbers]
    assert ordering.decode(encoded).tolist() == numbers
    assert ordering.decode([ordering.encode(n) for n in numbers]).tolist() == numbers


def test_decimals_of_more_digits_than_their_type():
    logical = LogicalType(DECIMAL=DecimalType(2, 18))
    ordering = ordering_for(leaf_like(type=Type.BYTE_ARRAY, logicalType=logical), pa.decimal128(18, 2))
    with pytest.raises(CorruptFileError) as caught:
        ordering.decode([b"\x7f" * 20])
    assert (caught.value.reason, caught.value.column) == ("bound-digits", "x")


# --- truncation ---


@pytest.mark.parametrize(
    ("bound", "limit", "text", "least", "greatest"),
    [
        (b"abcdef", 3, True, b"abc", b"abd"),
        ("árvíztűrő".encode(), 9, True, "árvízt".encode(), "árvízu".encode()),
        (bytes.fromhex("fffefdffffff"), 5, False, bytes.fromhex("fffefdffff"), bytes.fromhex("fffefe")),
        (b"\xff" * 6, 5, False, b"\xff" * 5, b"\xff" * 6),
        (b"abc", 3, True, b"abc", b"abc"),
        (b"", 3, True, b"", b""),
        (
            "\U0010ffff\U0010ffffz".encode(),
            8,
            True,
            "\U0010ffff\U0010ffff".encode(),
            "\U0010ffff\U0010ffffz".encode(),
        ),
        ("a\U0010ffffz".encode(), 5, True, "a\U0010ffff".encode(), b"b"),
        ("\ud7ffz".encode(), 3, True, "\ud7ff".encode(), "\ue000".encode()),
        ("éz".encode(), 1, True, b"", "éz".encode()),
        (b"a\x7f\x7f", 2, True, b"a\x7f", b"b"),
    ],
)
def test_truncation_cases(bound, limit, text, least, greatest):
    assert truncate_min(bound, limit, text=text) == least
    assert truncate_max(bound, limit, text=text) == greatest


@settings(max_examples=examples(300))
@given(
    st.binary(max_size=12) | st.lists(st.sampled_from([0, 0x7F, 0xFE, 0xFF]), max_size=8).map(bytes),
    st.integers(1, 10),
)
def test_truncated_bytes_are_still_bounds(bound, limit):
    least, greatest = truncate_min(bound, limit, text=False), truncate_max(bound, limit, text=False)
    assert least <= bound <= greatest
    assert len(least) <= limit
    assert len(greatest) <= limit or (greatest == bound and bound[:limit] == b"\xff" * limit)


CHARACTERS = st.characters(codec="utf-8") | st.sampled_from(
    "aé\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
)


@settings(max_examples=examples(300))
@given(st.text(CHARACTERS, max_size=6), st.integers(1, 10))
def test_truncated_text_is_still_a_bound_and_text(text, limit):
    bound = text.encode()
    least, greatest = truncate_min(bound, limit, text=True), truncate_max(bound, limit, text=True)
    assert least.decode() <= text <= greatest.decode(), "by code points, as UTF-8 compares"
    assert least <= bound <= greatest
    assert bound.startswith(least)
    assert len(least) <= limit
    assert len(greatest) <= limit or greatest == bound


@given(st.binary(max_size=4), st.binary(max_size=3))
def test_successor_is_above_all_that_start_with_it(prefix, more):
    after = successor(prefix)
    if after is None:
        assert set(prefix) <= {0xFF}
    else:
        assert prefix + more < after
        assert not after.startswith(prefix)


def test_successors_ascend():
    known = sorted([b"a", b"a\xff", b"b", b"\xfe\xff", b"\0", b"\0\xff\xff"])
    assert all(successor(one) <= successor(other) for one, other in pairwise(known))
