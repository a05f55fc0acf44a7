"""``array_contains`` skips by statistics, page indexes, Bloom filters and dictionary pages."""

import datetime as dt
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

#: For each column, the type of its elements, an element of a row, and a literal of it.
COLUMNS = {
    "tags": (pa.string(), lambda n: f"t{n // 40}", lambda n: f"'t{n // 40}'"),
    "ids": (pa.int32(), lambda n: n * 7919 % 10_007, lambda n: str(n * 7919 % 10_007)),
    "big": (pa.int64(), lambda n: n << 33, lambda n: f"{n << 33}L"),
    "price": (pa.decimal128(9, 2), lambda n: Decimal(n) / 4, lambda n: f"{n / 4:.2f}BD"),
    "days": (
        pa.date32(),
        lambda n: dt.date(2020, 1, 1) + dt.timedelta(n),
        lambda n: f"DATE'{dt.date(2020, 1, 1) + dt.timedelta(n)}'",
    ),
    "doubles": (pa.float64(), lambda n: n / 8 if n % 5 else float("nan"), lambda n: f"{n / 8}D"),
    "moments": (
        pa.timestamp("us", "UTC"),
        lambda n: dt.datetime(2020, 1, 1) + dt.timedelta(hours=n),
        lambda n: f"TIMESTAMP'{dt.datetime(2020, 1, 1) + dt.timedelta(hours=n)}'",
    ),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("arrays"), random.Random("arrays")
    for ordinal in range(FILES):
        rows = range(ordinal * ROWS, (ordinal + 1) * ROWS)
        columns = {
            name: pa.array([items(rng, element, row) for row in rows], pa.list_(kind))
            for name, (kind, element, _) in COLUMNS.items()
        }
        columns["ids"] = pa.array(
            [[COLUMNS["ids"][1](row)] * (row % 3) for row in rows], pa.list_(pa.int32())
        )
        way = {"use_dictionary": ordinal % 2 == 0, "max_rows_per_page": 7, "row_group_size": 15}
        write(folder / f"{ordinal:02}.parquet", pa.table(columns), [ia.PageIndex(), ia.Bloom("ids")], **way)
    return str(folder)


def items(rng, element, row):
    if rng.random() < 0.1:
        return None
    return [None if rng.random() < 0.2 else element(row) for _ in range(rng.choice([0, 1, 1, 3]))]


def condition(rng):
    name = rng.choice(list(COLUMNS))
    literal = COLUMNS[name][2](rng.randrange(-9, FILES * ROWS + 9))
    found = rng.choice(
        [f"array_contains({name}, {literal})"] * 4
        + [f"NOT array_contains({name}, {literal})", f"array_contains({name}, {literal}) IS NULL"]
        + [f"coalesce(array_contains({name}, {literal}), true)", f"array_contains({name}, CAST(NULL AS INT))"]
    )
    if rng.random() < 0.3:
        found = f"{found} {rng.choice(['AND', 'OR'])} array_contains(tags, 't{rng.randrange(12)}')"
    return found


def test_random_conditions(enabled, lake):
    rng = random.Random("array_contains")
    check_predicates(enabled.read.parquet(lake), rng, examples(198, deep=2_000), draw=condition, files=FILES)


@pytest.mark.parametrize(
    "where",
    ["array_contains(tags, 't3')", "array_contains(ids, 0)", "array_contains(days, DATE'2020-03-01')"],
)
def test_files_are_skipped(enabled, lake, where):
    assert compare(enabled, lambda: enabled.read.parquet(lake).where(where)).files < FILES / 2
    assert ias.explain(enabled, lake, where=where).files_read < FILES / 2
