"""Random tables of every type, and random ways of writing them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from tests.predicate import strategies as flat

#: Lists that conditions can search.
LISTS = (pa.list_(pa.int32()), pa.large_list(pa.string()), pa.list_(pa.float64(), 2))

#: Maps in which conditions can look up a key.
MAPS = (pa.map_(pa.string(), pa.int16()), pa.map_(pa.int32(), pa.string()), pa.map_(pa.bool_(), pa.float64()))

NESTED = [
    *LISTS,
    pa.list_(pa.list_(pa.int64())),
    pa.list_(pa.struct([("p", pa.int64()), ("q", pa.string())])),
    *MAPS,
    pa.map_(pa.string(), pa.struct([("t", pa.int8()), ("u", pa.string())])),
    pa.struct([("flag", pa.bool_()), ("items", pa.list_(pa.struct([("r", pa.date32())])))]),
]

CODECS = ["none", "snappy", "zstd", "gzip", "brotli", "lz4"]


def storable(type_):
    """Values that Parquet can store: it has no seconds, and milliseconds have a smaller range."""
    if pa.types.is_dictionary(type_):
        return storable(type_.value_type)
    if pa.types.is_timestamp(type_) and type_.unit == "s":
        return flat.values(type_).filter(lambda value: abs(value) < 2**63 // 1000)
    return flat.values(type_)


def arranged(pool, num_rows, order, seed):
    """``count`` values from a pool: shuffled, in runs, or sorted."""
    rng = random.Random(seed)
    items = [rng.choice(pool) for _ in range(num_rows)]
    if order == "shuffled":
        return items
    items.sort(key=_sort_key)
    return items if order == "ascending" else items[::-1]


def _sort_key(value):
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None, is_nan, 0 if value is None or is_nan else value


@st.composite
def columns(draw, type_, num_rows, *, nullable=True):
    """A column of a flat type."""
    values = storable(type_)
    pool = draw(st.lists(st.none() | values if nullable else values, min_size=1, max_size=8))
    order = draw(st.sampled_from(["shuffled", "ascending", "descending"]))
    items = arranged(pool, num_rows, order, draw(st.integers(0, 2**16)))
    if pa.types.is_dictionary(type_):  # without a null among its values, which writers refuse
        encoded = flat.make_array(type_.value_type, items).dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(type_.index_type), encoded.dictionary)
    return flat.make_array(type_, items)


def nested_values(type_):
    """Python values of a nested type."""
    if pa.types.is_struct(type_):
        fields = [type_.field(ordinal) for ordinal in range(type_.num_fields)]
        return st.fixed_dictionaries({field.name: st.none() | nested_values(field.type) for field in fields})
    if pa.types.is_map(type_):
        pairs = st.tuples(nested_values(type_.key_type), st.none() | nested_values(type_.item_type))
        return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])  # DuckDB refuses duplicate keys
    if pa.types.is_fixed_size_list(type_):
        size = type_.list_size
        return st.lists(st.none() | nested_values(type_.value_type), min_size=size, max_size=size)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return st.lists(st.none() | nested_values(type_.value_type), max_size=3)
    return flat.values(type_)


@st.composite
def nested_columns(draw, type_, num_rows):
    """A column of a nested type."""
    pool = draw(st.lists(st.none() | nested_values(type_), min_size=1, max_size=5))
    rng = random.Random(draw(st.integers(0, 2**16)))
    return pa.array([rng.choice(pool) for _ in range(num_rows)], type_)


@dataclass(frozen=True)
class Made:
    """A table, and the columns that predicates can use."""

    table: pa.Table
    comparable: tuple[str, ...]


@st.composite
def tables(draw, types=tuple(flat.TYPES), nested=tuple(NESTED), max_rows=60):
    """Flat columns ``a`` and ``b``, a struct ``s`` of flat leaves, and optionally a nested column ``n``."""
    num_rows = draw(st.integers(0, max_rows))
    one = st.sampled_from(types)
    arrays = {name: draw(columns(draw(one), num_rows)) for name in "ab"}
    fields = [pa.field(name, arrays[name].type) for name in "ab"]
    comparable = ["a", "b"]
    if draw(st.booleans()):
        arrays["c"] = draw(columns(draw(one), num_rows, nullable=False))
        fields.append(pa.field("c", arrays["c"].type, nullable=False))
        comparable.append("c")
    if draw(st.booleans()):
        leaves = [draw(columns(draw(one), num_rows)) for _ in range(2)]
        rng = random.Random(draw(st.integers(0, 2**16)))
        mask = pa.array([rng.random() < 0.2 for _ in range(num_rows)], pa.bool_())
        arrays["s"] = pa.StructArray.from_arrays(leaves, ["x", "y"], mask=mask)
        fields.append(pa.field("s", arrays["s"].type))
        comparable += ["s.x", "s.y"]
    if nested and draw(st.booleans()):
        arrays["n"] = draw(nested_columns(draw(st.sampled_from(nested)), num_rows))
        fields.append(pa.field("n", arrays["n"].type))
    order = draw(st.permutations(range(len(fields))))
    fields = [fields[place] for place in order]
    table = pa.table([arrays[field.name] for field in fields], schema=pa.schema(fields))
    return Made(table, tuple(comparable))


@st.composite
def pyarrow_options(draw, made: Made):
    """Keyword arguments of `pyarrow.parquet.write_table` for many small pages."""
    flag = st.booleans()
    options = {
        "row_group_size": draw(st.integers(1, 50)),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "compression": draw(st.sampled_from(CODECS)),
        "use_dictionary": draw(flag),
        "write_page_index": draw(st.sampled_from([True, True, True, False])),
        "data_page_size": draw(st.sampled_from([1, 16, 100, 1 << 20])),
        "write_batch_size": draw(st.integers(1, 9)),
        "max_rows_per_page": draw(st.none() | st.integers(1, 20)),
        "write_statistics": draw(st.sampled_from([True, True, False])),
        "store_schema": draw(st.sampled_from([True, True, False])),
        "store_decimal_as_integer": draw(flag),
        "use_deprecated_int96_timestamps": draw(st.sampled_from([False, False, True])),
        "write_page_checksum": draw(flag),
    }
    if options["use_dictionary"]:
        options["dictionary_pagesize_limit"] = draw(st.sampled_from([None, 8, 40]))
    probed = draw(st.lists(st.sampled_from([*made.comparable]), unique=True))
    filters = {name: {"ndv": 8, "fpp": 0.01} for name in probed if _may_have_filter(made.table, name)}
    if filters:
        options["bloom_filter_options"] = filters
    return options


def _may_have_filter(table, name):
    kind = pa.struct(list(table.schema))
    for part in name.split("."):
        kind = kind.field(kind.get_field_index(part)).type
    return not pa.types.is_boolean(kind)
