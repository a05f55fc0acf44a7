"""A lake of moments around changes of clocks, and random conditions on functions of them."""

import datetime as dt

import pyarrow as pa

from tests.lake.index.lakes import write

FILES = 48
ROWS = 24

#: Zones whose clocks are set back over midnight, or change by half an hour, a day, or not at all.
ZONES = (
    "UTC",
    "Europe/London",
    "America/St_Johns",
    "America/Havana",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "+05:45",
)

#: The first moments of runs of files: changes of clocks in the zones above, and the start of a year.
STARTS = [
    dt.datetime(2006, 10, 28),
    dt.datetime(2011, 3, 12),
    dt.datetime(2011, 12, 29),
    dt.datetime(2019, 12, 31),
    dt.datetime(2023, 11, 4),
    dt.datetime(2024, 4, 6),
]

MOMENT = pa.timestamp("us", "UTC")

_EPOCH = dt.datetime(1970, 1, 1)
_SECOND = dt.timedelta(seconds=1)


def make_lake(folder):
    """Write files of 6 hours with a row every 15 minutes, which differ by a microsecond from the quarters."""
    for ordinal in range(FILES):
        start = STARTS[ordinal * len(STARTS) // FILES] + dt.timedelta(hours=6) * (ordinal % 8)
        moments = [start + dt.timedelta(minutes=15 * row, microseconds=row % 3 - 1) for row in range(ROWS)]
        seconds = [(moment - _EPOCH) // _SECOND for moment in moments]
        columns = {
            "t": pa.array(moments, MOMENT),
            "w": pa.array(moments, pa.timestamp("us")),
            "d": pa.array([moment.date() for moment in moments], pa.date32()),
            "ms": pa.array([second * 1000 + 999 for second in seconds], pa.int64()),
            "sec": pa.array(seconds, pa.int32()),
            "st": pa.array([{"t": moment} for moment in moments], pa.struct({"t": MOMENT})),
            "k": pa.array(map(str, moments)),
            "half": pa.array([None if row % 2 else moments[row] for row in range(ROWS)], MOMENT),
        }
        write(folder / f"{ordinal:02}.parquet", pa.table(columns), (), row_group_size=ROWS)
    return folder


def _functions(rng):
    """Return a function of a column, and the type of its result."""
    moment = rng.choice(["t", "st.t", "half", "timestamp_millis(ms)", "timestamp_seconds(sec)", "w"])
    if moment != "w" and rng.random() < 0.2:
        function = rng.choice(
            ["unix_seconds({})", "unix_millis({})", "unix_micros({})", "CAST({} AS BIGINT)"]
        )
        return function.format(moment), function
    if rng.random() < 0.4:
        unit = rng.choice(["HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "MINUTE"])
        return f"date_trunc('{unit}', {moment})", "timestamp"
    if rng.random() < 0.3:
        return _text(rng, moment), "text"
    date = rng.choice([f"to_date({moment})", f"CAST({moment} AS DATE)", "d"])
    function = rng.choice(
        [
            "{}",
            "date_add({}, 40)",
            "date_sub({}, 1)",
            "add_months({}, 1)",
            "last_day({})",
            "trunc({}, 'MM')",
            "trunc({}, 'WEEK')",
            "trunc({}, 'YEAR')",
        ]
    )
    number = rng.choice(
        ["year({})", "extract(YEAR FROM {})", "datediff({}, DATE '2020-01-01')", "unix_date({})"]
        + ["datediff(DATE '2020-01-01', {})"]
    )
    found = function.format(date)
    return (number.format(found), number) if rng.random() < 0.5 else (found, "date")


def _text(rng, moment):
    """Return a text of a moment with the longest unit first."""
    length = rng.choice([0, 4, 7, 10, 13, 40])
    pattern = rng.choice(["yyyy", "yyyy-MM", "yyyy-MM-dd", "yyyy-MM-dd HH", "yyyy-MM-dd HH:mm", "yyyyMMdd"])
    return rng.choice(
        [
            f"substring(k, 1, {length})",
            f"left(CAST({moment} AS STRING), {length})",
            f"CAST(to_date({moment}) AS STRING)",
            f"CAST({moment} AS STRING)",
            f"date_format({moment}, '{pattern}')",
            f"date_format(d, '{pattern}')",
            f"from_unixtime(sec, '{pattern}')",
            "from_unixtime(sec)",
        ]
    )


def _days_of_year(rng):
    """Return a condition on the parts of dates in a year."""
    date = rng.choice(["t", "w", "d", "half"])
    year, month = rng.choice([2006, 2011, 2019, 2020, 2023, 2024]), rng.choice([1, 3, 4, 10, 11, 12, 13])
    parts = [
        f"year({date}) = {year}" if rng.random() < 0.8 else f"year({date}) IN ({year}, 2011, NULL)",
        rng.choice(
            [
                f"month({date}) = {month}",
                f"month({date}) IN ({month}, 12, NULL)",
                f"(month({date}) < {month} OR NOT day({date}) = 12)",
                f"quarter({date}) = {1 + month // 4}",
                f"dayofyear({date}) >= {month * 30}",
            ]
        ),
        rng.choice(["TRUE", f"day({date}) <= {rng.choice([3, 12, 31])}", "dayofweek(d) = 1", "ms > 0"]),
    ]
    rng.shuffle(parts)
    return " AND ".join(parts)


def _literal(rng, kind):
    moment = rng.choice(STARTS) + dt.timedelta(minutes=rng.choice([0, 1, 15, 30, 60]) * rng.randrange(96))
    if rng.random() < 0.4:
        moment = moment.replace(hour=0, minute=0)
    if kind == "timestamp":
        return f"TIMESTAMP '{moment}'"
    if kind == "text":
        text = str(moment)[: rng.choice([0, 3, 4, 7, 8, 10, 13, 40])]
        return f"'{text if rng.random() < 0.8 else text.replace('-', '')}'"
    date = moment.date()
    if kind == "date":
        return f"DATE '{date}'"
    if "YEAR" in kind.upper():
        return str(date.year)
    if kind.startswith("datediff("):
        days = (date - dt.date(2020, 1, 1)).days
        return str(-days if kind.endswith("{})") else days)
    if kind.startswith("unix_date"):
        return str((date - _EPOCH.date()).days)
    factor = {"unix_millis({})": 1_000, "unix_micros({})": 1_000_000}.get(kind, 1)
    return str((moment - _EPOCH) // _SECOND * factor + rng.choice([0, 0, 1, -1]))


def condition(rng):
    """Return a random condition on a function of a column."""
    if rng.random() < 0.15:
        text = _days_of_year(rng)
        return f"NOT ({text})" if rng.random() < 0.3 else text
    function, kind = _functions(rng)
    if rng.random() < 0.2:
        function = f"coalesce({function}, {_literal(rng, kind)})"
    if kind == "text" and rng.random() < 0.3:
        text = f"{function} {rng.choice(['', 'NOT '])}LIKE {_literal(rng, kind)[:-1]}%'"
    elif rng.random() < 0.25:
        items = ", ".join(_literal(rng, kind) for _ in range(rng.choice([1, 2, 3, 12])))
        text = f"{function} IN ({items}{', NULL' if rng.random() < 0.2 else ''})"
    elif rng.random() < 0.2:
        text = f"{function} BETWEEN {_literal(rng, kind)} AND {_literal(rng, kind)}"
    else:
        sides = [function, _literal(rng, kind)]
        rng.shuffle(sides)
        text = f"{sides[0]} {rng.choice(['=', '=', '<', '<=', '>', '>=', '<>', '<=>'])} {sides[1]}"
    return f"NOT ({text})" if rng.random() < 0.3 else text
