"""INT96 timestamps: instants for Spark, nanoseconds that may overflow for Arrow."""

import datetime as dt
import functools
import operator
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed.attach import attach_to
from intarsia.embed.column_data import FileColumns
from intarsia.file import ParquetInput
from intarsia.predicate import And, Comparison, Constant, In, IsNull, bind, evaluate
from intarsia.spark.binding import as_nanoseconds
from intarsia.storage import LocalFile
from intarsia.storage.target import find_target
from tests.spark.comparing import compared, rows, settings

MOMENT = dt.datetime(2024, 3, 10, 7, 30)
FAR = dt.datetime(9999, 12, 31)
EPOCH = dt.datetime(1970, 1, 1)
JULIAN_DAY_OF_EPOCH = 2_440_588

LITERALS = [
    "TIMESTAMP '2024-03-10 07:30:00'",
    "TIMESTAMP '2024-03-10 07:30:00.000001'",
    "TIMESTAMP '2024-03-10 02:30:00 America/New_York'",
    "'2024-03-10 03:30:00'",
    "DATE '2024-03-10'",
    "TIMESTAMP_NTZ '2024-03-10 07:30:00'",
    "TIMESTAMP '2261-12-31 00:00:00'",
    "TIMESTAMP '2300-01-01 00:00:00'",
    "TIMESTAMP '1700-01-01 00:00:00'",
]
SIGNS_OF_SPARK = ("=", "<>", "<", "<=", ">", ">=", "<=>")
#: Every sign with the literals at the bounds of files, and some signs with the other literals.
PREDICATES = [f"ts {sign} {literal}" for literal in LITERALS[:2] for sign in SIGNS_OF_SPARK]
PREDICATES += [f"ts {sign} {literal}" for literal in LITERALS[2:] for sign in ("=", "<", ">=")]
PREDICATES += [
    f"ts IN ({', '.join(LITERALS[:2])})",
    f"ts NOT IN ({', '.join(LITERALS[:2])})",
    f"NOT (ts <=> {LITERALS[0]})",
    "ts IS NULL",
    f"ts BETWEEN {LITERALS[0]} AND {LITERALS[1]}",
]


def write(path, values, unit="us", **options):
    path.parent.mkdir(exist_ok=True)
    # an index that is larger than the data it could exclude is not read
    much = [os.urandom(7000) for _ in values]
    pq.write_table(
        pa.table({"ts": pa.array(values, pa.timestamp(unit)), "much": much}),
        path,
        use_deprecated_int96_timestamps=True,
        **options,
    )
    assert pq.ParquetFile(path).schema.column(0).physical_type == "INT96"
    return path


def microseconds(moment):
    return (moment - EPOCH) // dt.timedelta(microseconds=1)


def nanoseconds(moment, more=0):
    return microseconds(moment) * 1000 + more


#: Values that overflow to the queried instant in Arrow, plus or minus a microsecond.
OVER = microseconds(MOMENT) + 2**64 // 1000

KINDS = {"zone_map": ia.ZoneMap, "distinct": ia.Distinct, "row_map": ia.RowMap, "dictionary": None}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Instants that differ by little, by less than a microsecond or by much, and null, in separate files."""
    folder = tmp_path_factory.mktemp("int96") / "lake"
    for kind, index in KINDS.items():
        files = {
            "before": ([MOMENT - dt.timedelta(microseconds=1)] * 3, "us"),
            "there": ([MOMENT] * 3, "us"),
            "after": ([MOMENT + dt.timedelta(microseconds=1)] * 3, "us"),
            "long-before": ([MOMENT - dt.timedelta(days=400)] * 3, "us"),
            **{f"ns{more}": ([nanoseconds(MOMENT, more)] * 3, "ns") for more in (-1, 1, 999, 1000)},
            "far": ([MOMENT, FAR], "us"),
            "over": ([OVER, OVER, OVER], "us"),
            "null": ([None, MOMENT - dt.timedelta(days=2)], "us"),
        }
        for name, (values, unit) in files.items():
            path = write(folder / f"{kind}-{name}.parquet", values, unit)
            if index is not None:
                assert ia.attach(path, [index("ts")]).built
    return str(folder)


@pytest.mark.spark
def test_no_file_with_a_match_is_excluded(spark, lake):
    excluded, excludable = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    with settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):  # UTC is in test_kinds
        for text, names, expected, kept in compared(spark, lake, PREDICATES):
            assert expected <= kept, f"{text}: {sorted(expected - kept)} excluded"
            for kind in KINDS:
                excluded[kind] += sum(name.startswith(kind) for name in names - kept)
                excludable[kind] += sum(name.startswith(kind) for name in names - expected)
    for kind in ("zone_map", "distinct"):
        assert excluded[kind] > excludable[kind] / 2
    for kind in ("row_map", "dictionary"):
        assert excluded[kind] > 0


@pytest.mark.spark
def test_spark_reads_the_same_rows_under_the_new_order(spark, tmp_path):
    """Spark ignores bounds of INT96, whose order it does not know, and uses those of other columns."""
    moments = [MOMENT + dt.timedelta(hours=number) for number in range(-250, 250)]
    path = tmp_path / "a.parquet"
    table = pa.table({"ts": pa.array([*moments, None, FAR], pa.timestamp("us")), "n": range(502)})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, data_page_size=200, write_batch_size=10)
    literal = LITERALS[0]
    predicates = [f"ts {sign} {literal}" for sign in ("=", "<", ">=")] + ["ts IS NULL", "n >= 500"]

    def found():
        """The rows of each predicate; filters of a union are pushed into each scan."""
        frames = [
            spark.read.parquet(str(path)).where(text).selectExpr(f"{number} AS predicate", "n", "ts")
            for number, text in enumerate(predicates)
        ]
        return rows(functools.reduce(lambda whole, frame: whole.union(frame), frames))

    before = found()
    assert len(before) == 1 + 250 + 251 + 1 + 2
    assert ia.attach(path, ia.PageIndex(int96="order")).built
    assert pq.read_metadata(path).row_group(0).column(0).has_column_index
    for vectorized in ("true", "false"):
        with settings(spark, {"spark.sql.parquet.enableVectorizedReader": vectorized}):
            assert found() == before


@pytest.mark.spark
def test_instants_that_spark_adjusts_prune_nothing(spark, lake):
    """With this setting, Spark reads INT96 of other writers in its session's time zone."""
    conf = {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.parquet.int96TimestampConversion": "true",
    }
    predicates = [f"ts {sign} {LITERALS[0]}" for sign in ("=", "<", ">")] + ["ts IS NULL"]
    with settings(spark, conf):
        for text, names, expected, kept in compared(spark, lake, predicates):
            assert expected <= kept
            assert (kept == names) is (text != "ts IS NULL")


SIGNS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(predicate, values, schema):
    """Return whether each value matches a predicate of `as_nanoseconds`."""
    if isinstance(predicate, And):
        return np.logical_and.reduce([holds(child, values, schema) for child in predicate.children])
    if isinstance(predicate, Constant):
        return np.full(len(values), predicate.value)
    return evaluate(bind(predicate, schema), {("ts",): values}, len(values)).to_numpy(zero_copy_only=False)


@pytest.mark.parametrize(
    ("unit", "moments"),
    [
        ("us", [nanoseconds(MOMENT, 1000 * more) for more in (-2, -1, 0, 1, 2)]),
        ("ns", [nanoseconds(MOMENT, more) for more in range(-2001, 2002, 77)]),
        ("ns", [nanoseconds(dt.datetime(1930, 1, 1), more) for more in (-1001, -1000, -999, -1, 0, 1, 999)]),
        (None, [1000 * OVER, 1000 * (OVER + 1), nanoseconds(MOMENT), nanoseconds(FAR)]),
    ],
)
def test_rows_that_match_in_spark_match_in_nanoseconds(tmp_path, unit, moments):
    """Spark truncates to microseconds; Arrow keeps the lowest 64 bits of the nanoseconds."""
    coarse = [moment // 1000 for moment in moments]
    path = write(
        tmp_path / "lake" / "a.parquet", moments if unit == "ns" else coarse, "ns" if unit == "ns" else "us"
    )
    ia.attach(path, [ia.ZoneMap("ts")])
    values = pq.read_table(path)["ts"]
    assert values.type == pa.timestamp("ns")
    asked = sorted({base + more for base in (*coarse, microseconds(FAR)) for more in (-1, 0, 1)})
    denied = 0
    with ParquetInput(LocalFile(str(path))) as file:
        for moment in asked:
            literal = pa.scalar(moment, pa.timestamp("us", "UTC"))
            leaves = {Comparison(("ts",), sign, literal): test for sign, test in SIGNS.items()}
            leaves[In(("ts",), (literal,))] = operator.eq
            leaves[In(("ts",), (literal,), negated=True)] = operator.ne
            for leaf, test in leaves.items():
                matches = np.array([test(value, moment) for value in coarse])
                found = holds(as_nanoseconds(leaf, file.schema, file), values, file.arrow_schema)
                assert not (matches & ~found).any(), (leaf, moment)
                if unit == "us" and moment < 2**63 // 1000 - 1:
                    assert (matches == found).all(), (leaf, moment)
                denied += int((~found).sum())
        for leaf in (IsNull(("ts",)), IsNull(("ts",), negated=True)):
            assert as_nanoseconds(leaf, file.schema, file) == leaf
    assert denied > 0


def units(path):
    with ParquetInput(LocalFile(str(path))) as file:
        return {entry.kind: entry.int96_unit for entry in file.directory.entries}


@pytest.mark.parametrize(
    ("unit", "values", "written"),
    [
        ("us", [MOMENT, None, dt.datetime(1700, 1, 1)], "us"),
        ("us", [None, None], "us"),
        ("ns", [nanoseconds(MOMENT), nanoseconds(MOMENT, 1)], "ns"),
        (None, [MOMENT, FAR], "us"),
        (None, [nanoseconds(dt.datetime(1, 1, 1)) // 1000, microseconds(MOMENT)], "us"),
        (None, [OVER], "us"),
    ],
)
def test_an_index_records_the_unit_of_its_column(tmp_path, unit, values, written):
    path = write(tmp_path / "lake" / "a.parquet", values, written, row_group_size=1)
    ia.attach(path, [ia.ZoneMap("ts"), ia.Distinct("ts"), ia.RowMap("much"), ia.Sample(2)])
    assert units(path) == {"zone_map": unit, "distinct": unit, "row_map": None, "sample": None}
    ia.attach(path, [ia.Hll("ts")])  # existing indexes are carried over
    assert units(path)["zone_map"] == units(path)["hll"] == unit


def test_a_day_that_overflows_to_an_instant(tmp_path):
    """INT96 has 32 bits for days, which overflow 64 bits in microseconds and in nanoseconds."""
    path = write(
        tmp_path / "lake" / "a.parquet", [EPOCH], use_dictionary=False, compression="none", store_schema=False
    )
    data = path.read_bytes()
    there = bytes(8) + JULIAN_DAY_OF_EPOCH.to_bytes(4, "little")
    assert data.count(there) == 1

    micros_of_day = 86_400_000_000
    day = JULIAN_DAY_OF_EPOCH + round(11 * 2**64 / micros_of_day)
    assert day > 2**31  # negative for Spark
    path.write_bytes(data.replace(there, bytes(8) + day.to_bytes(4, "little")))
    assert abs(pq.read_table(path)["ts"][0].value) < 1000 * micros_of_day  # of 1970 or 1969
    ia.attach(path, [ia.ZoneMap("ts")])
    assert units(path) == {"zone_map": None}


def test_a_column_is_inspected_once(tmp_path):
    """And columns of other types are not inspected."""
    path = write(tmp_path / "lake" / "a.parquet", [MOMENT, MOMENT])
    plain = str(tmp_path / "lake" / "plain.parquet")
    pq.write_table(pa.table({"ts": pa.array([MOMENT, MOMENT], pa.timestamp("us"))}), plain)
    indexes = [ia.ZoneMap("ts"), ia.Distinct("ts"), ia.ZoneMap("ts", granularity="file")]
    reads = {file: row_groups_read(file, indexes) for file in (path, plain)}
    assert len(reads[path]) == len(reads[plain]) + 2  # in nanoseconds and in seconds


def row_groups_read(path, indexes):
    """Attach indexes, and return the row groups whose values were read for them."""
    read = []

    def columns(file, offset_index):
        return FileColumns(file, offset_index, before_row_group=read.append)

    attach_to(find_target(path), indexes, columns_of=columns)
    return read
