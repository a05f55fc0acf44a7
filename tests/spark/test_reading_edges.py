"""Values that Spark compares or reads differently from Arrow, each alone in a file."""

import datetime as dt
import math
import os
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed import PageIndex, attach
from tests.spark.comparing import check, settings

LEGACY = {"spark.sql.ansi.enabled": "false"}
ANSI = {"spark.sql.ansi.enabled": "true"}
NEW_YORK = {"spark.sql.session.timeZone": "America/New_York"}
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")

#: type, values, literals, settings
CASES = {
    "a bigint as a double": (
        pa.int64(),
        [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1],
        [
            "9007199254740992D",
            "9007199254740993",
            "9.007199254740993e15",
            "-9007199254740992D",
            "9007199254740992F",
        ],
        ANSI,
    ),
    "an int as a float": (
        pa.int32(),
        [2**24 - 1, 2**24, 2**24 + 1, 2**24 + 2],
        ["16777216F", "16777217F", "16777216D", "16777216.5"],
        LEGACY,
    ),
    "a float beside integers": (
        pa.float32(),
        [2.0**24, 2.0**24 + 2, 0.1, math.nan, math.inf, -0.0],
        [
            "16777217",
            "16777216",
            "0.1",
            "0.1F",
            "0.1D",
            "0",
            "1e300",
            "-1e300",
            "float('NaN')",
            "double('inf')",
        ],
        LEGACY,
    ),
    "a float beside integers, ANSI": (
        pa.float32(),
        [2.0**24, 2.0**24 + 2, 0.1, math.nan],
        ["16777217", "16777216", "0.1", "0.1F", "0.1D", "3e38", "3.5e38"],
        ANSI,
    ),
    "a double beside wide literals": (
        pa.float64(),
        [2.0**53, 2.0**53 + 2, 0.1, math.nan, -math.inf, 0.0],
        [
            "9007199254740993",
            "0.1",
            "0.10000000000000000555",
            "-0.0",
            "1e308",
            "0.1F",
            "CAST('NaN' AS DOUBLE)",
        ],
        ANSI,
    ),
    "a decimal as a double": (
        pa.decimal128(38, 20),
        [Decimal("0.1"), Decimal("0.10000000000000000001"), Decimal("0.2"), Decimal("0.3")],
        ["0.1D", "0.1", "1e-1", "0.10000000000000000001BD", "CAST('0.15' AS DECIMAL(2,1))"],
        ANSI,
    ),
    "a decimal without room": (
        pa.decimal128(38, 0),
        [Decimal(1), Decimal(2), Decimal("9" * 38)],
        ["1.5", "1.00", "2", "1.5BD", "99999999999999.9"],
        LEGACY,
    ),
    "the same, ANSI": (
        pa.decimal128(37, 1),
        [Decimal("1.5"), Decimal("1.6"), Decimal(2)],
        ["1.55", "1.5", "2", "1", "CAST(1 AS DECIMAL(38,0))"],
        ANSI,
    ),
    "unsigned": (pa.uint64(), [0, 5, 2**63, 2**64 - 1], ["5", "9223372036854775808", "0", "5.0", "-1"], ANSI),
    "a date as a string": (
        pa.date32(),
        [dt.date(2020, 3, 11), dt.date(2020, 3, 12), dt.date(2020, 11, 1)],
        ["'2020-03-11'", "'2020-3-11'", "'2020-03-11 12:00:00'", "'2020'", "'2020-11'", "'20200311'", "'x'"],
        LEGACY,
    ),
    "a date as an instant": (
        pa.date32(),
        [dt.date(2020, 3, 11), dt.date(2020, 3, 12)],
        ["TIMESTAMP '2020-03-11 00:00:00'", "TIMESTAMP '2020-03-11 12:00:00'", "TIMESTAMP_NTZ '2020-03-11'"],
        NEW_YORK,
    ),
    "repeated and missing hours": (
        pa.timestamp("us"),
        [
            dt.datetime(2020, 3, 8, 1, 30),
            dt.datetime(2020, 3, 8, 2, 30),
            dt.datetime(2020, 3, 8, 3, 0),
            dt.datetime(2020, 3, 8, 3, 30),
            dt.datetime(2020, 11, 1, 1, 30),
            dt.datetime(2020, 11, 1, 2, 0),
        ],
        [
            "TIMESTAMP '2020-03-08 02:30:00'",
            "TIMESTAMP '2020-03-08 03:30:00'",
            "TIMESTAMP '2020-03-08 03:00:00'",
            "TIMESTAMP '2020-11-01 01:30:00'",
            "'2020-03-08 02:30:00'",
            "TIMESTAMP_NTZ '2020-03-08 02:30:00'",
            "DATE '2020-03-08'",
            "'2020-03-08 02:30:00Z'",
        ],
        NEW_YORK,
    ),
    "naive times as instants": (
        pa.timestamp("us"),
        [dt.datetime(2020, 3, 8, 1, 30), dt.datetime(2020, 3, 8, 6, 30)],
        ["TIMESTAMP '2020-03-08 01:30:00'", "'2020-03-08 01:30:00'"],
        {**NEW_YORK, "spark.sql.parquet.inferTimestampNTZ.enabled": "false"},
    ),
    "TIMESTAMP means no zone": (
        pa.timestamp("ms", tz="UTC"),
        [dt.datetime(2020, 3, 8, 1, 30), dt.datetime(2020, 3, 8, 6, 30)],
        ["TIMESTAMP '2020-03-08 01:30:00'", "'2020-03-08 01:30:00'", "timestamp('2020-03-08 01:30:00')"],
        {**NEW_YORK, "spark.sql.timestampType": "TIMESTAMP_NTZ"},
    ),
    "named instants": (
        pa.timestamp("us", tz="UTC"),
        [dt.datetime(2020, 3, 8), dt.datetime(2030, 3, 8), dt.datetime(1970, 1, 1)],
        ["TIMESTAMP 'epoch'", "TIMESTAMP 'now'", "TIMESTAMP '10:00:00'", "TIMESTAMP '+2020-03-08'"],
        ANSI,
    ),
    "nanoseconds as numbers": (
        pa.timestamp("ns"),
        [dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 1)],
        ["1000000000", "1000000", "0"],
        {"spark.sql.legacy.parquet.nanosAsLong": "true"},
    ),
    "bytes as strings": (
        pa.binary(),
        [b"abc", "é".encode(), b"\xff"],
        ["'abc'", "'é'", "X'616263'", "'ab'"],
        {"spark.sql.parquet.binaryAsString": "true"},
    ),
    "text": (
        pa.string(),
        ["a", "a ", "A", "", "é", "a'b", 'a"b', "\\", "1", "01"],
        [
            "'a'",
            '"a"',
            "'a '",
            "''",
            "'a''b'",
            '"a\'b"',
            "'\\\\'",
            "r'\\'",
            "'a' 'b'",
            "1",
            "'e\u0301'",
            "X'61'",
        ],
        LEGACY,
    ),
    "names in double quotes": (
        pa.string(),
        ["a", "x"],
        ['"x"', "'x'"],
        {**ANSI, "spark.sql.ansi.doubleQuotedIdentifiers": "true"},
    ),
    "truth": (pa.bool_(), [True, False], ["1", "'true'", "true", "0", "'x'"], LEGACY),
}


def write_values(folder, kind, values):
    """Write a file for each value, and a copy with indexes."""
    folder.mkdir(exist_ok=True)
    for ordinal, value in enumerate(values):
        # an index that is larger than the data it could exclude is not read
        much = pa.array([os.urandom(5_000), os.urandom(5_000)])
        table = pa.table({"x": pa.array([value, value], kind), "much": much})
        for name in ("plain", "indexed"):
            pq.write_table(table, folder / f"{name}-{ordinal}.parquet")
        attach(str(folder / f"indexed-{ordinal}.parquet"), [PageIndex(), ia.Distinct("x")])
    return str(folder)


@pytest.mark.parametrize("case", CASES)
def test_literals(spark, tmp_path, case):
    kind, values, literals, conf = CASES[case]
    lake = write_values(tmp_path / "lake", kind, values)
    predicates = [f"x {operator} {literal}" for literal in literals for operator in OPERATORS]
    predicates += [
        f"x NOT IN ({', '.join(literals[:2])}, {literals[0]})",
        f"x IN ({', '.join(literals[:3])})",
    ]
    with settings(spark, conf):
        check(spark, lake, predicates)


def test_dates_of_the_julian_calendar(spark, tmp_path):
    days = ["1500-01-01", "1582-10-04", "1582-10-15", "1899-12-31", "1970-01-01"]
    with settings(spark, {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}):
        for day in days:
            frame = spark.sql(f"SELECT DATE '{day}' AS d, TIMESTAMP '{day} 00:00:00' AS t")
            frame = frame.withColumn("t", frame.t.cast("timestamp")).coalesce(1)
            with settings(spark, {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}):
                frame.write.mode("append").parquet(str(tmp_path / "lake"))
    predicates = [
        f"{column} {operator} {kind} '{day}'"
        for day in days
        for operator in OPERATORS
        for column, kind in (("d", "DATE"), ("t", "TIMESTAMP"))
    ]
    excluded, _ = check(spark, str(tmp_path / "lake"), predicates)
    assert excluded


def test_char_is_padded(spark, tmp_path):
    lake = str(tmp_path / "lake")
    spark.sql(f"CREATE TABLE padded (c CHAR(5), v VARCHAR(5)) USING parquet LOCATION '{lake}'")
    try:
        spark.sql("INSERT INTO padded VALUES ('a', 'a')")
        spark.sql("INSERT INTO padded VALUES ('b', 'b')")
        for conf in ({}, {"spark.sql.readSideCharPadding": "false"}):
            with settings(spark, conf):
                check(
                    spark, lake, ["c = 'a'", "c = 'a    '", "v = 'a'", "v = 'a    '", "c IN ('a')", "c < 'a'"]
                )
    finally:
        spark.sql("DROP TABLE padded")


def test_collations_prune_nothing(spark, tmp_path):
    lake = str(tmp_path / "lake")
    for text in ("a", "B"):
        spark.sql(f"SELECT '{text}' COLLATE UTF8_LCASE AS s").write.mode("append").parquet(lake)
    check(spark, lake, ["s = 'A'", "s = 'b'", "s > 'a'", "s LIKE 'A%'", "s IN ('A', 'b')"])


def test_invalid_utf_8(spark, tmp_path):
    """Some operators of Spark read a replacement character, others the bytes."""
    texts = [b"k1", b"k\xff1", b"k\xc3", b"\xc3k1", b"k\xe3\xc3\xa91", "k\ufffd1".encode(), "k\xe91".encode()]
    lake = tmp_path / "lake"
    lake.mkdir()
    much = [os.urandom(10_000), os.urandom(10_000)]  # otherwise a dictionary page is not read
    for kind, index in {"dictionary": None, "ngram": ia.Ngram("x")}.items():
        for ordinal, text in enumerate(texts):
            path = lake / f"{kind}-{ordinal}.parquet"
            values = pa.array([text, text], pa.binary()).view(pa.string())
            pq.write_table(pa.table({"x": values, "much": much}), path, use_dictionary=index is None)
            if index is not None:
                attach(str(path), [index])
    patterns = [
        "k1",
        "k_1",
        "k%1",
        "%k1",
        "k%",
        "%1",
        "_k1",
        "%\ufffd%",
        "k\ufffd1",
        "%\xe9%",
        "k__1",
        "k\xe91",
        "%",
    ]
    predicates = [f"x {negation}LIKE '{text}'" for text in patterns for negation in ("", "NOT ")]
    predicates += [f"x {negation}RLIKE '{text}'" for text in ("k1", "^k", "1") for negation in ("", "NOT ")]
    predicates += [
        f"x {operator} '{text}'" for text in ("k1", "k\ufffd1", "k\xe91") for operator in OPERATORS
    ]
    excluded, excludable = check(spark, str(lake), predicates)
    assert excluded > excludable / 3
