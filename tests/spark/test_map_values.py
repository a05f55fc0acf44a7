"""Conditions on the value of a key in a map skip by keys and by values, with all indexes of these."""

import datetime as dt
import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest

import intarsia as ia
from intarsia import spark as ias
from tests.effort import examples
from tests.lake.index.lakes import write
from tests.spark.random_queries import check_predicates
from tests.spark.skipping import compare

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

FILES, ROWS = 16, 30

#: What identifies a row: maps cannot be hashed.
ROW = ("_metadata.file_name AS f", "_metadata.row_index AS r", "CAST(tags AS STRING) AS h")

#: For each column, its type, and the keys and values of a row with their literals.
COLUMNS = {
    "tags": (pa.map_(pa.string(), pa.string()), lambda n: (f"k{n % 7}", f"Value {n // 40}")),
    "counts": (pa.map_(pa.string(), pa.int32()), lambda n: (f"c{n // 60}", n * 7919 % 10_007)),
    "prices": (pa.map_(pa.int32(), pa.decimal128(9, 2)), lambda n: (n // 50, Decimal(n) / 4)),
    "days": (pa.map_(pa.string(), pa.date32()), lambda n: ("a", dt.date(2020, 1, 1) + dt.timedelta(n))),
    "ids": (pa.map_(pa.date32(), pa.int64()), lambda n: (dt.date(2020, 1, 1) + dt.timedelta(n // 30), n)),
    "flags": (pa.map_(pa.string(), pa.bool_()), lambda n: (f"f{n // 100}", n % 3 == 0)),
    "floats": (pa.map_(pa.string(), pa.float64()), lambda n: ("x", n / 8 if n % 5 else float("nan"))),
    "nested": (pa.map_(pa.string(), pa.list_(pa.int32())), lambda n: (f"n{n}", [n])),
}


def literal(value):
    if isinstance(value, float):
        return "double('NaN')" if math.isnan(value) else f"{value}D"
    if isinstance(value, (dt.date, str)):
        return f"DATE'{value}'" if isinstance(value, dt.date) else f"'{value}'"
    return f"{value:.2f}BD" if isinstance(value, Decimal) else str(value)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("maps"), random.Random("maps")
    for ordinal in range(FILES):
        rows = range(ordinal * ROWS, (ordinal + 1) * ROWS)
        columns = {
            name: pa.array([entries(rng, entry, row) for row in rows], kind)
            for name, (kind, entry) in COLUMNS.items()
        }
        way = {"use_dictionary": ordinal % 2 == 0, "max_rows_per_page": 7, "row_group_size": 15}
        indexes = [ia.PageIndex(), ia.Bloom("counts.key_value.value"), ia.Bloom("tags.key_value.key")]
        write(folder / f"{ordinal:02}.parquet", pa.table(columns), indexes, **way)
    return str(folder)


def entries(rng, entry, row):
    if rng.random() < 0.1:
        return None
    found = dict(entry(row + step) for step in range(rng.choice([0, 1, 1, 3])))
    return [(key, None if rng.random() < 0.2 else value) for key, value in found.items()]


def condition(rng):
    name = rng.choice(list(COLUMNS)[:-1])
    (key, value), (other, _) = (COLUMNS[name][1](rng.randrange(-9, FILES * ROWS + 9)) for _ in "12")
    item = rng.choice([f"{name}[{literal(key)}]", f"element_at({name}, {literal(key)})"])
    value = literal(value)
    found = rng.choice(
        [f"{item} {op} {value}" for op in ("=", "=", "=", "<", ">=", "<>", "<=>")]
        + [f"NOT ({item} = {value})", f"{item} IS NULL", f"{item} IS NOT NULL", f"NOT ({item} <=> {value})"]
        + [f"{item} IN ({value}, {value})", f"coalesce({item}, {value}) = {value}", f"{item} = NULL"]
        + [f"{name}[{literal(other)}] = {value}", f"map_contains_key({name}, {literal(key)})"]
        + [f"nested['n{rng.randrange(FILES * ROWS)}'] IS NOT NULL", f"size({name}) = 2"]
    )
    if name == "tags":
        found = rng.choice(
            [found, f"{item} LIKE 'Val%{rng.randrange(9)}'", f"lower({item}) = lower({value})"]
        )
    if rng.random() < 0.3:
        found = f"{found} {rng.choice(['AND', 'OR'])} counts['c{rng.randrange(9)}'] > 5000"
    return found


def test_random_conditions(enabled, lake):
    rng = random.Random("map values")
    whole = enabled.read.parquet(lake)
    check_predicates(whole, rng, examples(264, deep=2_000), row=ROW, draw=condition, files=FILES)


@pytest.mark.parametrize(
    "where",
    [
        "tags['k3'] = 'Value 3'",
        "tags['k9'] IS NOT NULL",
        "counts['c1'] = 7919",
        "element_at(prices, 3) > 30",
        "lower(tags['k1']) LIKE 'value 1%'",
        "flags['f1']",
    ],
)
def test_files_are_skipped(enabled, lake, where):
    assert compare(enabled, lambda: enabled.read.parquet(lake).where(where)).files < FILES * 0.7
    assert ias.explain(enabled, lake, where=where).files_read < FILES * 0.7
