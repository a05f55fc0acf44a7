"""Random columns of every flat type, and predicates whose literals fit the type, nearly fit, or do not."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from intarsia.predicate import And, Call, Comparison, Constant, In, IsNull, Like, Not, Or, RegexpLike

UTC = dt.timezone.utc
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [
    pa.decimal32(5, 2),
    pa.decimal64(15, 0),
    pa.decimal128(20, 5),
    pa.decimal256(60, 10),
]
DATES = [pa.date32(), pa.date64()]
TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
UNITS = ["s", "ms", "us", "ns"]
NAIVE = [pa.timestamp(unit) for unit in UNITS]
AWARE = [pa.timestamp(unit, zone) for unit in UNITS for zone in ("UTC", "Europe/Zurich")]
DURATIONS = [pa.duration(unit) for unit in UNITS]
TEXT = [pa.string(), pa.large_string(), pa.string_view(), pa.json_()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)]
DICTIONARIES = [
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
    pa.dictionary(pa.int32(), pa.float64()),
    pa.dictionary(pa.uint8(), pa.timestamp("us", "UTC")),
]
TYPES = [
    *INTEGERS,
    *FLOATS,
    *DECIMALS,
    *DATES,
    *TIMES,
    *NAIVE,
    *AWARE,
    *DURATIONS,
    *TEXT,
    *BYTES,
    *DICTIONARIES,
    pa.bool_(),
    pa.uuid(),
]

WORDS = [
    "",
    "a",
    "ab",
    "abc",
    "aB",
    "b",
    "a%b",
    "a_b",
    "a\\b",
    "a\nb",
    "é",
    "éa",
    "\U0001f600",
    "z",
    "a.b",
    "(a",
    "AB",
    "É",
    "\u212a",
    "a\n",
    "a\0b",
]
INSTANTS = [
    dt.datetime(1970, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(2020, 2, 29),
    dt.datetime(2020, 2, 29, 12, 0, 0, 1),
    dt.datetime(2020, 2, 29, 12, 0, 0, 1000),
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
]
CLOCKS = [
    dt.time(0),
    dt.time(12, 0, 0, 1),
    dt.time(12, 0, 0, 1000),
    dt.time(12),
    dt.time(23, 59, 59, 999_999),
]
UUIDS = [
    uuid.UUID(int=0),
    uuid.UUID(int=1),
    uuid.UUID("123e4567-e89b-12d3-a456-426614174000"),
    uuid.UUID(int=2**128 - 1),
]
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
EPOCH = dt.datetime(1970, 1, 1)


def values(type_):
    """Draw Python values (integers for temporal types) that convert to a column of this type."""
    if pa.types.is_boolean(type_):
        return st.booleans()
    if pa.types.is_integer(type_):
        bits = type_.bit_width
        low, high = (
            (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            if pa.types.is_signed_integer(type_)
            else (0, 2**bits - 1)
        )
        few = [v for v in (-2, -1, 0, 1, 2, 2**53, 2**53 + 1) if low <= v <= high]
        return st.sampled_from([*few, low, low + 1, high - 1, high]) | st.integers(low, high)
    if pa.types.is_floating(type_):
        few = [0.0, -0.0, 1.0, 1.5, -1.5, 0.1, math.nan, math.inf, -math.inf, 65504.0]
        width = type_.bit_width
        fitting = [v for v in few if width == 64 or v != 0.1]
        return st.sampled_from(fitting) | st.floats(width=width)
    if pa.types.is_decimal(type_):
        limit = 10**type_.precision - 1
        units = st.sampled_from([0, 1, -1, 10, limit, -limit]) | st.integers(
            -min(limit, 300), min(limit, 300)
        )
        return units.map(lambda u: Decimal((int(u < 0), tuple(map(int, str(abs(u)))), -type_.scale)))
    if pa.types.is_date32(type_):
        return st.sampled_from([(v - EPOCH).days for v in INSTANTS] + [2**31 - 1, -(2**31)])
    if pa.types.is_date64(type_):
        return st.sampled_from([(v - EPOCH).days * 86_400_000 for v in INSTANTS])
    if pa.types.is_time(type_):
        return st.sampled_from([_clock_ns(v) // NANOS[type_.unit] for v in CLOCKS])
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        unit = NANOS[type_.unit]
        near = [_micros(v - EPOCH) * 1000 // unit + step for v in INSTANTS for step in (-1, 0, 1)]
        return st.sampled_from([v for v in near if -(2**63) <= v < 2**63] + [2**63 - 1, -(2**63), 0, 3600])
    if isinstance(type_, pa.UuidType):
        return st.sampled_from([v.bytes for v in UUIDS])
    if pa.types.is_fixed_size_binary(type_):
        return st.sampled_from([b"\0\0\0", b"abc", b"ab\0", b"abd", b"\xff\xff\xff"])
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
        return st.sampled_from([word.encode() for word in WORDS] + [b"\xff", b"\0"])
    return st.sampled_from(WORDS) | st.text("ab%_\\é", max_size=4)


def make_array(type_, items):
    """Return an array of any type of :data:`TYPES`. Temporal values are given as integers."""
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(make_array(type_.storage_type, items))
    if pa.types.is_dictionary(type_):
        plain = make_array(type_.value_type, items)
        distinct = make_array(type_.value_type, list(dict.fromkeys(items)))  # may contain NULL
        ordinals = {id_: n for n, id_ in enumerate(dict.fromkeys(items))}
        indices = pa.array(
            [ordinals[item] if n % 2 or item is not None else None for n, item in enumerate(items)]
        )
        assert len(plain) == len(indices)
        return pa.DictionaryArray.from_arrays(indices.cast(type_.index_type), distinct)
    if pa.types.is_temporal(type_):
        bits = pa.int32() if type_.bit_width == 32 else pa.int64()
        return pa.array(items, bits).view(type_)
    return pa.array(items, type_)


@st.composite
def arrays(draw, type_, num_rows):
    """Draw a column, which may be chunked or a slice of a longer one."""
    base = type_.value_type if pa.types.is_dictionary(type_) else type_
    items = draw(st.lists(st.none() | values(base), min_size=num_rows + 1, max_size=num_rows + 1))
    array = make_array(type_, items)[1:]
    if draw(st.booleans()):
        return array
    cut = draw(st.integers(0, num_rows))
    return pa.chunked_array([array[:cut], array[cut:]], type_)


def literals(type_):
    """Draw literals that can be compared with a column of this type, including values outside the type."""
    if pa.types.is_dictionary(type_):
        return literals(type_.value_type)
    if pa.types.is_boolean(type_):
        return st.booleans()
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        odd = [
            1.5,
            -0.5,
            Decimal("0.1"),
            Decimal("-0.5"),
            0.1,
            2**53,
            2**53 + 1,
            2**63,
            2**64,
            -(2**63) - 1,
            300,
            -129,
        ]
        wild = [math.nan, math.inf, -math.inf, 1e300, Decimal("1E+500"), Decimal("-1E-500"), 10**400, -0.0]
        if pa.types.is_floating(type_):
            wild = [w for w in wild if not isinstance(w, Decimal)]
        return st.sampled_from(odd) | st.sampled_from(wild) | values(type_) | values(type_).map(lambda v: -v)
    if pa.types.is_decimal(type_):
        odd = [
            0,
            1,
            0.1,
            1.5,
            -1.005,
            Decimal("0.001"),
            Decimal("0.0000000000001"),
            10**80,
            -(10**5),
            math.nan,
            math.inf,
        ]
        return st.sampled_from([*odd, "1.5", "-0.001", "7"]) | values(type_)
    if pa.types.is_duration(type_):
        return st.sampled_from([v - EPOCH for v in INSTANTS] + [dt.timedelta(hours=1)])
    if pa.types.is_time(type_):
        exact = [pa.scalar(v, pa.time64("ns")) for v in (1, 43_200_000_000_001)]
        return st.sampled_from([*CLOCKS, *exact, *(v.isoformat() for v in CLOCKS)])
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        plain = [
            *INSTANTS,
            *(v.date() for v in INSTANTS),
            *(v.isoformat(sep=" ") for v in INSTANTS),
            "2020-02-29",
        ]
        plain += [pa.scalar(v, pa.timestamp("ns")) for v in (1, -1, 1_582_934_400_000_000_001)]
        if pa.types.is_timestamp(type_) and type_.tz is not None:
            zone = dt.timezone(dt.timedelta(hours=-5, minutes=-30))
            inner = [v for v in INSTANTS if 1 < v.year < 9999]
            plain += [v.replace(tzinfo=UTC) for v in INSTANTS] + [v.replace(tzinfo=zone) for v in inner]
            plain += [v.replace(tzinfo=zone).isoformat() for v in inner]
        return st.sampled_from(plain)
    if isinstance(type_, pa.UuidType):
        return st.sampled_from([*UUIDS, *map(str, UUIDS), *(v.bytes for v in UUIDS)])
    if pa.types.is_fixed_size_binary(type_):
        return st.sampled_from([b"", b"ab", b"abc", b"ab\0", b"abcd", b"abc\0", b"\xff\xff\xff\xff", "abc"])
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
        return values(type_) | st.sampled_from(WORDS)
    return values(type_)


def is_text(type_):
    """Whether LIKE applies."""
    return type_ in TEXT or (pa.types.is_dictionary(type_) and type_.value_type in TEXT)


def is_list(type_):
    """Whether ``array_contains`` applies if the elements are not nested."""
    return any(
        is_type(type_) for is_type in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )


def is_searched(type_):
    """Whether conditions can be on the elements of a list, or on the value of a key in a map."""
    if pa.types.is_map(type_):
        return not pa.types.is_nested(type_.key_type) and not pa.types.is_nested(type_.item_type)
    return is_list(type_) and not pa.types.is_nested(type_.value_type)


def regexes():
    """Draw regular expressions with the same meaning in RE2 and, through the oracle, in Python."""
    atoms = [
        "a",
        "b",
        "B",
        "é",
        "k",
        r"\.",
        r"\(",
        "%",
        ".",
        "[ab]",
        "[^a]",
        "[.]",
        r"\n",
        r"\x61",
        "(?i:ab)",
    ]
    quantified = st.tuples(
        st.sampled_from(atoms), st.sampled_from(["", "", "", "*", "+?", "?", "{2}", "{0,1}"])
    )
    run = st.lists(quantified.map("".join), max_size=3).map("".join)
    group = st.lists(run, min_size=1, max_size=3).map(lambda runs: f"(?:{'|'.join(runs)})")
    body = st.lists(run | group, max_size=3).map("".join)
    return st.tuples(st.sampled_from(["", "", "^", r"\A"]), body, st.sampled_from(["", "", "$", r"\z"])).map(
        "".join
    )


@st.composite
def leaves(draw, types):
    """Draw a predicate on one of the columns."""
    column = draw(st.sampled_from(sorted(types)))
    type_ = types[column]
    if pa.types.is_map(type_):
        column = Call("element_at", column, (draw(st.none() | literals(type_.key_type)),))
        type_ = type_.item_type
    if is_list(type_):
        has = Call("array_contains", column, (draw(st.none() | literals(type_.value_type)),))
        if draw(st.integers(0, 4)) == 0:
            return IsNull(has, draw(st.booleans()))
        return Comparison(has, draw(st.sampled_from(["=", "=", "<>"])), draw(st.booleans()))
    kind = draw(st.sampled_from(["compare", "compare", "in", "null", "constant", "like", "regexp"]))
    if kind == "like" and is_text(type_):
        escape = draw(st.sampled_from([None, "", "!"]))
        pieces = ["a", "b", "%", "_", "é", "\n", "."] + {
            None: ["\\%", "\\_", "\\\\"],
            "!": ["!%", "!_", "!!"],
            "": ["\\"],
        }[escape]
        pattern = "".join(draw(st.lists(st.sampled_from(pieces), max_size=5)))
        return Like(column, pattern, draw(st.booleans()), escape, draw(st.booleans()))
    if kind == "regexp" and is_text(type_):
        return RegexpLike(column, draw(regexes()), draw(st.booleans()), draw(st.booleans()))
    if kind == "in":
        items = draw(st.lists(literals(type_), max_size=4))
        if draw(st.integers(0, 4)) == 0:
            items.append(None)
        return In(column, tuple(items), draw(st.booleans()))
    if kind == "null":
        return IsNull(column, draw(st.booleans()))
    if kind == "constant":
        return Constant(draw(st.sampled_from([True, False, None])))
    op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    value = None if draw(st.integers(0, 9)) == 0 else draw(literals(type_))
    return Comparison(column, op, value)


def predicates(types):
    """Draw AND, OR and NOT over :func:`leaves`."""
    return st.recursive(
        leaves(types),
        lambda inner: (
            inner.map(Not)
            | st.lists(inner, max_size=3).map(lambda c: And(tuple(c)))
            | st.lists(inner, max_size=3).map(lambda c: Or(tuple(c)))
        ),
        max_leaves=6,
    )


def _micros(delta):
    return delta // dt.timedelta(microseconds=1)


def _clock_ns(clock):
    return _micros(dt.datetime.combine(EPOCH.date(), clock) - EPOCH) * 1000
