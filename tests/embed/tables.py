"""Hypothesis strategies for tables, and the page index that each table must get."""

import decimal
import math
import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from intarsia.file import ParquetInput
from intarsia.format import thrift, thrift_tree
from intarsia.format.structs import ColumnIndex, OffsetIndex
from tests.predicate.strategies import make_array

floats = st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]), st.floats(width=16))
texts = st.one_of(st.text(max_size=6), st.sampled_from(["", "é" * 40, "\U0010ffff" * 20, "a" * 80]))
binaries = st.one_of(st.binary(max_size=6), st.sampled_from([b"", b"\xff" * 80, b"\xff" * 63 + b"\x01\x02"]))


def _ints(bits, signed=True):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1]))


def _decimals(precision, scale):
    top = 10**precision - 1
    context = decimal.Context(prec=80)
    return st.one_of(st.integers(-top, top), st.sampled_from([0, -1, 1, top, -top])).map(
        lambda unscaled: decimal.Decimal(unscaled).scaleb(-scale, context)
    )


#: Flat types: the strategy for their values (numbers for temporal types), and the stored form of a bound.
FLAT = {
    pa.bool_(): (st.booleans(), lambda v: bytes([v])),
    pa.int8(): (_ints(8), lambda v: struct.pack("<i", v)),
    pa.int16(): (_ints(16), lambda v: struct.pack("<i", v)),
    pa.int32(): (_ints(32), lambda v: struct.pack("<i", v)),
    pa.int64(): (_ints(64), lambda v: struct.pack("<q", v)),
    pa.uint8(): (_ints(8, signed=False), lambda v: struct.pack("<I", v)),
    pa.uint16(): (_ints(16, signed=False), lambda v: struct.pack("<I", v)),
    pa.uint32(): (_ints(32, signed=False), lambda v: struct.pack("<I", v)),
    pa.uint64(): (_ints(64, signed=False), lambda v: struct.pack("<Q", v)),
    pa.float16(): (floats, lambda v: struct.pack("<e", v)),
    pa.float32(): (floats, lambda v: struct.pack("<f", v)),
    pa.float64(): (floats, lambda v: struct.pack("<d", v)),
    pa.date32(): (_ints(31), lambda v: struct.pack("<i", v)),
    pa.time32("ms"): (st.integers(0, 86_399_999), lambda v: struct.pack("<i", v)),
    pa.time64("us"): (st.integers(0, 86_399_999_999), lambda v: struct.pack("<q", v)),
    pa.timestamp("ms"): (_ints(64), lambda v: struct.pack("<q", v)),
    pa.timestamp("us", "UTC"): (_ints(64), lambda v: struct.pack("<q", v)),
    pa.timestamp("ns"): (_ints(64), lambda v: struct.pack("<q", v)),
    pa.duration("us"): (_ints(64), lambda v: struct.pack("<q", v)),
    pa.decimal128(7, 2): (_decimals(7, 2), lambda v: _unscaled(v, 2).to_bytes(4, "big", signed=True)),
    pa.decimal128(30, 5): (_decimals(30, 5), lambda v: _unscaled(v, 5).to_bytes(13, "big", signed=True)),
    pa.decimal256(60, 0): (_decimals(60, 0), lambda v: _unscaled(v, 0).to_bytes(26, "big", signed=True)),
    pa.string(): (texts, lambda v: v.encode()),
    pa.large_string(): (texts, lambda v: v.encode()),
    pa.binary(): (binaries, lambda v: v),
    pa.binary(4): (st.binary(min_size=4, max_size=4), lambda v: v),
    pa.binary(80): (st.binary(min_size=80, max_size=80), lambda v: v),
}

NESTED = [
    pa.list_(pa.int32()),
    pa.list_(pa.field("element", pa.string(), nullable=False)),
    pa.struct({"a": pa.int32(), "b": pa.string()}),
    pa.struct([pa.field("a", pa.struct({"b": pa.float64()}), nullable=False)]),
    pa.map_(pa.string(), pa.int32()),
    pa.list_(pa.struct({"a": pa.int32(), "b": pa.list_(pa.float64())})),
]


def _unscaled(value, scale):
    return int(value.scaleb(scale, decimal.Context(prec=80)))


def values_of(kind, nullable=True):
    """Return a strategy for values of a type, including None if it is nullable."""
    if kind in FLAT:
        drawn = FLAT[kind][0]
    elif pa.types.is_map(kind):
        drawn = st.lists(st.tuples(texts, values_of(kind.item_type)), max_size=3)
    elif pa.types.is_list(kind):
        drawn = st.lists(values_of(kind.value_type, kind.value_field.nullable), max_size=4)
    else:
        drawn = st.fixed_dictionaries({f.name: values_of(f.type, f.nullable) for f in kind})
    return st.one_of(st.none(), drawn) if nullable else drawn


def as_array(values, kind):
    if pa.types.is_float16(kind):
        values = [None if value is None else np.float16(value) for value in values]
    return make_array(kind, values)


@dataclass
class Drawn:
    """A table, its values, and the options to write it with."""

    table: pa.Table
    values: dict
    options: dict

    def write(self, path, **more):
        pq.write_table(self.table, path, **{**self.options, **more})


@st.composite
def drawn_tables(draw, kinds=(*FLAT, *NESTED), max_rows=150, max_columns=4):
    num_rows = draw(st.integers(0, max_rows))
    fields, arrays, values = [], [], {}
    for number in range(draw(st.integers(1, max_columns))):
        kind = draw(st.sampled_from(kinds))
        nullable = draw(st.booleans())
        # few distinct values produce dictionaries, runs and pages with only nulls
        pool = draw(st.lists(values_of(kind, nullable), min_size=1, max_size=12))
        picks = draw(st.lists(st.integers(0, len(pool) - 1), min_size=num_rows, max_size=num_rows))
        if draw(st.booleans()):
            picks = sorted(picks)
        name = f"c{number}"
        values[name] = [pool[pick] for pick in picks]
        fields.append(pa.field(name, kind, nullable=nullable))
        arrays.append(as_array(values[name], kind))
    options = {
        "row_group_size": draw(st.sampled_from([7, 20, 1000])),
        "data_page_size": draw(st.sampled_from([1, 30, 200, 1 << 20])),
        "write_batch_size": draw(st.sampled_from([1, 3, 8, 1024])),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "use_dictionary": draw(st.booleans()),
        "compression": draw(st.sampled_from(["none", "snappy", "gzip", "zstd", "lz4", "brotli"])),
        "store_decimal_as_integer": False,
    }
    return Drawn(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), values, options)


# --- the actual page index -------------------------------------------------------------------------


def page_indexes(path):
    """Return ``{(row group, leaf): (ColumnIndex or None, OffsetIndex or None)}`` and the footer of a file."""
    found = {}
    with ParquetInput.open(path) as file:
        for ordinal, group in enumerate(file.footer.metadata.row_groups):
            for leaf, chunk in enumerate(group.columns):
                column_index = offset_index = None
                if chunk.column_index_offset:
                    start = chunk.column_index_offset
                    column_index, end = thrift.parse(
                        ColumnIndex, file.source.read(start, start + chunk.column_index_length)
                    )
                    assert end == chunk.column_index_length
                if chunk.offset_index_offset:
                    start = chunk.offset_index_offset
                    offset_index, end = thrift.parse(
                        OffsetIndex, file.source.read(start, start + chunk.offset_index_length)
                    )
                    assert end == chunk.offset_index_length
                found[ordinal, leaf] = column_index, offset_index
        return found, file.footer


def content(path):
    with open(path, "rb") as file:
        return file.read()


def edit_footer(path, change):
    """Change the footer of a file through its generic tree."""
    with open(path, "rb") as file:
        raw = file.read()
    start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    tree, _ = thrift_tree.parse_tree(raw[start:-8])
    change(tree)
    footer = thrift_tree.serialize_tree(tree)
    with open(path, "wb") as file:
        file.write(raw[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return tree


# --- the expected page index -----------------------------------------------------------------------


def shred(value, kind, nullable, path, repetition=0, definition=0, depth=0):
    """Yield ``(repetition level, definition level, value)`` of one leaf, as in the Dremel paper."""
    if nullable:
        if value is None:
            yield repetition, definition, None
            return
        definition += 1
    if pa.types.is_struct(kind):
        field = kind.field(path[0])
        yield from shred(value[path[0]], field.type, field.nullable, path[1:], repetition, definition, depth)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        if pa.types.is_map(kind):
            entry, element_nullable = pa.struct([kind.key_field, kind.item_field]), False
            value = [{kind.key_field.name: k, kind.item_field.name: v} for k, v in value]
        else:
            entry, element_nullable = kind.value_type, kind.value_field.nullable
        if not value:
            yield repetition, definition, None
            return
        for place, item in enumerate(value):
            yield from shred(
                item,
                entry,
                element_nullable,
                path,
                depth + 1 if place else repetition,
                definition + 1,
                depth + 1,
            )
    else:
        yield repetition, definition, value


def leaf_types(kind, prefix=()):
    """Yield the leaves of a type in Parquet's order: the path of struct fields, and the type."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from leaf_types(field.type, (*prefix, field.name))
    elif pa.types.is_map(kind):
        yield from leaf_types(kind.key_type, (*prefix, kind.key_field.name))
        yield from leaf_types(kind.item_type, (*prefix, kind.item_field.name))
    elif pa.types.is_list(kind):
        yield from leaf_types(kind.value_type, prefix)
    else:
        yield prefix, kind


def leaf_columns(table):
    """Yield ``(column name, nullable, type of the column, path in it, type of the leaf)`` of each leaf."""
    for field in table.schema:
        for path, kind in leaf_types(field.type):
            yield field.name, field.nullable, field.type, path, kind


def order_key(value, kind):
    if isinstance(value, str):
        return value.encode()
    return value


def expected_page(rows, nullable, column_kind, path, kind, leaf):
    """Return the null count, NaN count, stored bounds and histograms that a page of these rows must have."""
    entries = [entry for row in rows for entry in shred(row, column_kind, nullable, path)]
    repetitions = [0] * (leaf.max_repetition_level + 1)
    definitions = [0] * (leaf.max_definition_level + 1)
    for repetition, definition, _ in entries:
        repetitions[repetition] += 1
        definitions[definition] += 1
    top = leaf.max_definition_level
    values = [value for _, definition, value in entries if definition == top]
    store = FLAT[kind][1]
    nans = 0
    if pa.types.is_floating(kind):
        nans = sum(math.isnan(value) for value in values)
        numbers = [value for value in values if not math.isnan(value)]
    else:
        numbers = sorted(values, key=lambda value: order_key(value, kind))
    low = high = None
    if numbers:
        low, high = (min(numbers), max(numbers)) if pa.types.is_floating(kind) else (numbers[0], numbers[-1])
        if pa.types.is_floating(kind):
            low, high = (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
        low, high = store(low), store(high)
    return {
        "nulls": len(entries) - len(values),
        "nans": nans,
        "values": len(values),
        "low": low,
        "high": high,
        "repetitions": repetitions,
        "definitions": definitions,
        "bytes": sum(len(store(value)) for value in values),
        "order": [order_key(value, kind) for value in (numbers[:1] + numbers[-1:])],
    }
