"""Lakes for the Spark tests, in which most predicates match some files but not all."""

import datetime as dt
import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.spark.comparing import settings

FILES = 8

SCHEMA = pa.schema(
    [
        ("by", pa.int8()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("u", pa.uint16()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("dec", pa.decimal128(9, 2)),
        ("wide", pa.decimal128(38, 20)),
        ("s", pa.string()),
        ("cat", pa.dictionary(pa.int32(), pa.string())),
        ("b", pa.binary()),
        ("bo", pa.bool_()),
        ("dt", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("ntz", pa.timestamp("us")),
        ("st", pa.struct([("x", pa.int64()), ("Y", pa.float64())])),
        ("much", pa.binary()),  # an index that is larger than the data it could exclude is not read
    ]
)

# Half an hour before and after the changes to and from daylight saving time in New York.
MOMENTS = [
    dt.datetime(2020, 3, 8, 1, 45),
    dt.datetime(2020, 3, 8, 2, 30),
    dt.datetime(2020, 3, 8, 3, 15),
    dt.datetime(2020, 3, 8, 7, 0),
    dt.datetime(2020, 11, 1, 1, 30),
    dt.datetime(2020, 11, 1, 5, 30),
    dt.datetime(2020, 11, 1, 6, 30),
    dt.datetime(2020, 11, 2, 0, 0),
]


def columns_of_file(ordinal, rows, rng):
    """Return the values of one file: narrow ranges, a few nulls, sometimes NaN and infinities."""
    whole = [ordinal * 10 + rng.randrange(4) for _ in range(rows)]
    fractions = [value + rng.choice([0.0, 0.1, 0.5]) for value in whole]
    doubles = list(fractions)
    if ordinal in (2, 5):
        doubles[0] = math.nan
    if ordinal == 3:
        doubles[0], doubles[1] = math.inf, -math.inf
    if ordinal == 6:
        doubles = [math.nan] * rows
    if ordinal == 0:
        doubles[0] = -0.0
    moments = [MOMENTS[ordinal] + dt.timedelta(minutes=rng.randrange(5)) for _ in range(rows)]
    out = {
        "by": whole,
        "i": [value * 1000 for value in whole],
        "l": [2**53 - 20 + value for value in whole],
        "u": [value * 800 for value in whole],
        "f": [float(np.float32(value)) for value in doubles],
        "d": doubles,
        "dec": [Decimal(value) + Decimal("0.05") for value in whole],
        "wide": [Decimal(value) + Decimal("0.10000000000000000001") for value in whole],
        "s": [f"k{value:02d}" + rng.choice(["", " ", "é", "_x", "%"]) for value in whole],
        "cat": [f"c{value // 10}" for value in whole],
        "b": [bytes([value, 255]) for value in whole],
        "bo": [ordinal % 2 == 0 for _ in whole],
        "dt": [dt.date(2020, 3, 1) + dt.timedelta(days=value) for value in whole],
        "ts": moments,
        "ntz": moments,
        "st": [{"x": value, "Y": float(value)} for value in whole],
        "much": [rng.randbytes(500) for _ in whole],
    }
    for name, values in out.items():
        if ordinal == 7 and name != "i":
            out[name] = [None] * rows
        elif ordinal % 3 == 1:
            values[rng.randrange(2, rows)] = None
    return {name: list(values) for name, values in out.items()}


def tables(seed=1, rows=40):
    """Return one table per file."""
    rng = random.Random(seed)
    return [
        pa.table(
            {name: pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()},
            schema=SCHEMA,
        )
        for columns in (columns_of_file(ordinal, rows, rng) for ordinal in range(FILES))
    ]


def write_with_pyarrow(folder, *, rows=40, **options):
    """Write a lake with pyarrow's defaults: no page index."""
    folder.mkdir(parents=True, exist_ok=True)
    for ordinal, table in enumerate(tables(rows=rows)):
        pq.write_table(table, folder / f"file-{ordinal}.parquet", **options)
    return str(folder)


def write_with_spark(spark, folder, source, *, options=()):
    """Write the same rows with Spark, a file for each file, with INT96 timestamps."""
    with settings(spark, {"spark.sql.files.openCostInBytes": str(1 << 30)}):  # a task for each file
        frame = spark.read.parquet(source)
        assert frame.rdd.getNumPartitions() == FILES
        frame.write.options(**dict(options)).parquet(str(folder))
    return str(folder)


#: Literals for each column: in every notation, near the bounds of files, and absent from all files.
LITERALS = {
    "by": ["10", "13L", "23.0", "22.5", "3e1", "5Y", "300", "-1", "40.000001", "33F", "cast(41 as bigint)"],
    "i": ["10000", "13000", "22000.5", "3.1e4", "42000D", "51000L", "99999999999", "-1"],
    "l": [
        "9007199254740990",
        "9007199254740993",
        "9007199254740992D",
        "9.007199254740993e15",
        "9007199254741000",
        "9007199254740972.5",
        "12",
        "9007199254740992F",
        "99999999999999999999",
    ],
    "u": ["8000", "10400.0", "16800", "24000L", "65536", "-1"],
    "f": [
        "10.1",
        "12.5",
        "0.1F",
        "20.100000381469727",
        "33",
        "-0.0",
        "double('NaN')",
        "float('inf')",
        "40.5D",
        "16777217",
    ],
    "d": [
        "10.1",
        "12.5D",
        "0",
        "-0.0",
        "23",
        "cast('NaN' as double)",
        "double('infinity')",
        "-1e300",
        "41.5",
        "0.1F",
    ],
    "dec": ["10.05", "12.05BD", "20.055", "33", "41.05", "1e1", "99999999", "10.05D", "0.05"],
    "wide": [
        "10.1",
        "10.10000000000000000001BD",
        "22",
        "30.1D",
        "0.5",
        "99999999999999999999999999999999999",
    ],
    "s": ["'k10'", "'k13 '", '"k21"', "'k3'", "''", "'zz'", "'k40é'", "'k51_x'", "'K10'"],
    "cat": ["'c1'", "'c2'", "'c9'", '"c4"'],
    "b": ["X'0aff'", "X'0a'", "X'15ff00'", "X''", "X'ff'"],
    "bo": ["true", "false"],
    "dt": [
        "DATE '2020-03-11'",
        "'2020-03-12'",
        "'2020-3-21'",
        "DATE '2020-04-01'",
        "'2020-04-10 12:00:00'",
        "TIMESTAMP '2020-03-22 00:00:00'",
        "date('2020-04-20')",
        "'2020'",
        "DATE '1500-01-01'",
    ],
    "ts": [
        "TIMESTAMP '2020-03-08 02:30:00'",
        "'2020-03-08 07:00:00'",
        "TIMESTAMP '2020-03-08 01:45:00+00:00'",
        "DATE '2020-11-01'",
        "'2020-11-01 01:30:00'",
        "TIMESTAMP_NTZ '2020-11-01 01:30:00'",
        "TIMESTAMP '2020-11-01 01:31:00 America/New_York'",
        "'2020-11-01'",
        "TIMESTAMP_LTZ '2020-03-08 02:34:00Z'",
    ],
    "ntz": [
        "TIMESTAMP '2020-03-08 02:30:00'",
        "'2020-03-08 03:15:00'",
        "TIMESTAMP_NTZ '2020-03-08 02:31:00'",
        "TIMESTAMP '2020-11-01 01:30:00'",
        "DATE '2020-11-02'",
        "'2020-11-01 05:30:00'",
        "TIMESTAMP '2020-11-01 05:30:00Z'",
        "TIMESTAMP '2020-03-08 07:00:00-05:00'",
    ],
    "st.x": ["10", "23", "41.5", "-1"],
    "ST.y": ["10", "23.5", "double('NaN')"],
}

OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>", "==", "!="]

#: Conditions on functions of columns.
ON_FUNCTIONS = [
    "year(dt) = 2020",
    "to_date(ts) <= DATE '2020-03-08'",
    "date_trunc('DAY', ts) IN (DATE '2020-11-01', DATE '2020-03-08')",
    "date_trunc('HOUR', ntz) > '2020-11-01 01:00:00'",
    "trunc(dt, 'MM') < DATE '2020-04-01'",
    "datediff(DATE '2020-04-20', dt) BETWEEN 10 AND 20",
    "left(s, 2) IN ('k1', 'k4')",
    "month(dt) = 4",
    "year(dt) = 2020 AND month(dt) IN (3, 11)",
    "date_format(ts, 'yyyy-MM') = '2020-03'",
    "ntz LIKE '2020-11%'",
    "coalesce(s, 'k4') = 'k4'",
]
PATTERNS = ["'k1%'", "'k1_'", "'%x'", "'k2%é'", "'k33'", "'%'", "'k__'", "'zz%'", "'k1\\_%'"]


def predicate(rng, depth=2):
    """Return a random predicate in Spark SQL."""
    kind = rng.random()
    if depth and kind < 0.45:
        left, right = predicate(rng, depth - 1), predicate(rng, depth - 1)
        text = f"{left} {rng.choice(['AND', 'OR'])} {right}"
        return f"({text})" if rng.random() < 0.6 else text
    if depth and kind < 0.6:
        return f"{rng.choice(['NOT', '!'])} ({predicate(rng, depth - 1)})"
    column = rng.choice(sorted(LITERALS))
    literals = LITERALS[column]
    name = rng.choice([column, column.upper(), ".".join(f"`{part}`" for part in column.split("."))])
    shape = rng.random()
    if shape < 0.04:
        return rng.choice(ON_FUNCTIONS)
    if shape < 0.08:
        return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
    if shape < 0.2 and column in ("s", "cat"):
        return f"{name} {rng.choice(['', 'NOT '])}LIKE {rng.choice(PATTERNS)}"
    if shape < 0.3:
        values = rng.sample(literals, min(len(literals), rng.randrange(1, 4)))
        if rng.random() < 0.2:
            values.append("NULL")
        return f"{name} {rng.choice(['', 'NOT '])}IN ({', '.join(values)})"
    if shape < 0.4:
        return f"{name} {rng.choice(['', 'NOT '])}BETWEEN {rng.choice(literals)} AND {rng.choice(literals)}"
    if shape < 0.45:
        return f"{rng.choice(['NOT ', ''])}{name} {rng.choice(['<', '>='])} {rng.choice(literals)}"
    if column == "bo":
        return rng.choice([name, f"NOT {name}", f"{name} IS NOT TRUE", f"{name} IS FALSE", f"{name} = true"])
    if shape < 0.5:
        return f"coalesce({name}, {literals[0]}) = {literals[0]}"
    if shape < 0.6:
        return f"{rng.choice(literals)} {rng.choice(OPERATORS)} {name}"
    return f"{name} {rng.choice(OPERATORS)} {rng.choice(literals)}"
