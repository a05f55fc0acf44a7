"""The JavaScript reader: its own tests, and random conditions on every type, compared with pyarrow."""

from __future__ import annotations

import random
import subprocess
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format import thrift
from intarsia.format.structs import ColumnIndex
from tests.clients.reader import CLIENT, answers, literal, what_is_missing
from tests.conformance.questions import matching_rows
from tests.reading.surgery import Patient
from tests.reading.test_contradictory_bounds import CASES, make_rows, write

if missing := what_is_missing():
    pytest.skip(missing, allow_module_level=True)

ROWS = 600


def test_its_own_tests():
    found = subprocess.run(
        ["node", "--test", "--test-reporter=tap", *sorted(map(str, CLIENT.glob("test/*.test.js")))],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-5_000:] + found.stderr
    assert "# pass 0" not in found.stdout


def test_types_of_the_source():
    """The JSDoc types of the reader, of the example that uses its declared types, and of the drawing code."""
    found = subprocess.run(
        [CLIENT / "node_modules" / ".bin" / "tsc", "-p", CLIENT],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-5_000:]


#: The types of columns, each with a function from a small integer to a value, in order.
TYPES = {
    **{
        f"{sign}int{bits}": (getattr(pa, f"{sign}int{bits}")(), lambda n, base=base: base + n)
        for bits in (8, 16, 32, 64)
        for sign, base in (("", -(1 << bits - 1)), ("u", (1 << bits) - 61))
    },
    "half": (pa.float16(), lambda n: np.float16(n / 4 - 5)),
    "float": (pa.float32(), lambda n: float(np.float32(n / 3 - 5))),
    "double": (pa.float64(), lambda n: n / 3 - 5),
    "narrow": (pa.decimal128(7, 2), lambda n: Decimal(n - 30) / 4),
    "middle": (pa.decimal128(17, 3), lambda n: Decimal(n - 30) * 10**12 / 8),
    "wide": (pa.decimal128(35, 0), lambda n: Decimal((n - 30) * 10**32)),
    "widest": (pa.decimal256(60, 10), lambda n: Decimal(n - 30) / 10**9),
    "day": (pa.date32(), lambda n: date(1969, 12, 1) + timedelta(n)),
    **{
        f"at_{unit}": (
            pa.timestamp(unit, zone),
            lambda n: datetime(1969, 12, 31, 23, 59, 30, 250_000) + timedelta(0, n),  # before and after 1970
        )
        for unit, zone in (("ms", None), ("us", "UTC"), ("ns", None))
    },
    "text": (
        pa.string(),
        lambda n: ("é", "\uffff", "\U0001f600", "a", "")[n % 5] + "x" * (n % 7 * 13) + str(n),
    ),
    "binary": (pa.binary(), lambda n: bytes([n * 4 % 256]) * (n % 5)),
    "fixed": (pa.binary(3), lambda n: bytes([n * 4, 255, 0])),
    "flag": (pa.bool_(), lambda n: n % 2 == 0),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A file with every type, without indexes, and with each kind of index."""
    chosen = random.Random(5)
    columns = {}
    for name, (type_, value) in TYPES.items():
        ordinals = (
            sorted(chosen.choices(range(60), k=ROWS))
            if name in ("int32", "text")
            else chosen.choices(range(60), k=ROWS)
        )
        values = [None if chosen.random() < 0.1 else value(ordinal) for ordinal in ordinals]
        if pa.types.is_floating(type_):
            values[::50] = [type_.to_pandas_dtype()(special) for special in ("nan", "0.0", "-0.0") * 6][
                : len(values[::50])
            ]
        columns[name] = pa.array(values, type_)
    table = pa.table(columns)
    folder = tmp_path_factory.mktemp("js")
    kinds = {
        "plain": [],
        "parquet": [ia.PageIndex(), ia.Statistics(), *(ia.Bloom(name) for name in TYPES if name != "flag")],
        "distinct": [ia.Distinct(name, granularity="page") for name in TYPES],
        "zone_map": [ia.ZoneMap(name, granularity=70) for name in TYPES],
        "bloom_granule": [ia.BloomGranule(name) for name in TYPES if name != "flag"],
        "row_map": [ia.RowMap(name) for name in TYPES if name != "flag"],
        "ngram": [ia.Ngram("text", n=2), ia.Ngram("text", n=3, granularity=40, ignore_case=True)],
    }
    for name, indexes in kinds.items():
        path = folder / f"{name}.parquet"
        pq.write_table(
            table, path, row_group_size=250, compression="snappy", write_batch_size=50, max_rows_per_page=50,
            store_decimal_as_integer=True, write_statistics=name != "plain",
        )  # fmt: skip
        if indexes:
            ia.attach(path, indexes)
    return table, folder, list(kinds)


def conditions(count):
    chosen = random.Random(11)
    for _ in range(count):
        name = chosen.choice([*TYPES, "text", "text"])
        type_, value = TYPES[name]
        one, *more = (literal(value(chosen.randrange(60)), type_) for _ in range(4))
        operators = ["=", "in", "is null"]
        if isinstance(one, bytes):
            operators = ["is null"]
        elif name != "flag":
            operators += ["<", "<=", ">", ">="]
        if name == "text":
            operators += ["starts with", "contains"] * 2
        operator = chosen.choice(operators)
        if operator in ("starts with", "contains"):
            start = 0 if operator == "starts with" else chosen.randrange(len(one))
            one = one[start : start + chosen.randrange(1, 6)]
        yield [name, operator, [one, *more] if operator == "in" else None if operator == "is null" else one]


def test_random_conditions_on_every_type(lake):
    table, folder, names = lake
    wheres = [[condition] for condition in conditions(70)]
    wheres += [[first[0], second[0]] for first, second in pairwise(wheres)]
    expected = [matching_rows(table, where) for where in wheres]
    assert sum(map(bool, expected)) > 50
    asked = [(name, *one) for name in names for one in zip(wheres, expected, strict=True)]
    found = answers({"path": str(folder / f"{name}.parquet"), "where": where} for name, where, _ in asked)
    pruned = {name: set() for name in names}
    for (name, where, rows), answer in zip(asked, found, strict=True):
        assert answer.get("rows") is not None, (name, where, answer)
        ordinals = [row for start, stop in answer["rows"] for row in range(start, stop)]
        assert (ordinals, answer["ignored"]) == (rows, {}), (name, where)
        pruned[name] |= {proof["index"].split("(")[0] for proof in answer["prunedBy"]}
    assert [name for name in names if not pruned[name] - {"statistics"}] == ["plain"]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_a_chunk_of_nulls(tmp_path, codec):
    """Its dictionary page is empty, unlike that of the other row group."""
    path = tmp_path / "nulls.parquet"
    column = pa.array([None] * 5 + ["a"] * 5, pa.string())
    pq.write_table(pa.table({"x": column}), path, row_group_size=5, compression=codec)
    (answer,) = answers([{"path": str(path), "where": [["x", "is null", None]]}])
    assert answer["rows"] == [[0, 5]]


@pytest.mark.parametrize(
    ("writer", "wrong", "where", "is_ignored"),
    [
        ("parquet-mr version 1.17.1 (build 1)", {"null_pages": [True] * 3}, ["x", "=", 7], True),
        ("Polars", {"null_counts": [0] * 3}, ["x", "is null", None], False),
    ],
)
def test_null_pages_and_null_counts_that_are_wrong(tmp_path, writer, wrong, where, is_ignored):
    table = pa.table({"x": [None, *range(29)]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, write_page_index=True, write_batch_size=10, max_rows_per_page=10)
    patient = Patient.read(path)
    patient.footer.set(6, thrift.BINARY, writer.encode())
    patient.change_index(ColumnIndex, 0, 0, lambda index: index._replace(**wrong))
    patient.write(path)
    (answer,) = answers([{"path": str(path), "where": [where]}])
    ((start, stop),) = answer["rows"]
    assert list(range(start, stop)) == matching_rows(table, [where])
    assert bool(answer["ignored"]) == is_ignored


def test_upper_bounds_that_other_texts_begin_with(tmp_path):
    """Polars before 1.37 takes texts as equal if one begins with the other."""
    path = tmp_path / "a.parquet"
    table = pa.table({"x": ["m\u00ff", "m", "m\u00ff~"]})
    pq.write_table(table, path, version="1.0", use_dictionary=False)
    patient = Patient.read(path)
    patient.footer.set(6, thrift.BINARY, b"Polars version 1.36.1")
    patient.chunk(0, 0).get(3).get(12).set(5, thrift.BINARY, "m\u00ff".encode())
    patient.write(path)
    for text, rows in (("m\u00ff~", [[2, 3]]), ("m\u0100", [])):
        (answer,) = answers([{"path": str(path), "where": [["x", "=", text]]}])
        assert answer["rows"] == rows
        assert bool(answer["prunedBy"]) == (not rows)


#: Queries of files whose statistics and page index contradict each other.
CONTRADICTORY = {
    "moved page": [[["id", "=", 160]], [["id", ">=", 140], ["id", "<=", 170]]],
    "narrowed page": [[["id", "=", 480]]],
    "lowered page": [[["id", "=", 3]]],
    "null page": [[["id", "=", 160]]],
    "null counts": [[["some", "is null", None]], [["some", "=", 60]]],
    "statistics of text": [[["text", "=", "text 0042"]], [["text", "=", "text 0442"]]],
    "statistics": [[["id", "=", 30]], [["id", "=", 400]], [["id", "<", 400], ["id", ">", 380]]],
}


@pytest.mark.parametrize("case", CONTRADICTORY)
def test_statistics_and_a_page_index_that_contradict_each_other(tmp_path, case):
    """Neither is used, also in later queries."""
    damage, column, _ = CASES[case]
    path = write(tmp_path / "a.parquet")
    damage(path)
    wheres = CONTRADICTORY[case]
    for where, answer in zip(
        wheres, answers({"path": str(path), "where": where} for where in wheres), strict=True
    ):
        rows = [row for start, stop in answer["rows"] for row in range(start, stop)]
        assert rows == matching_rows(make_rows(), where)
        assert set(answer["ignored"]) == {f"page index({column})", f"statistics({column})"}
