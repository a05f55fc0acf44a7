"""INT96 under ``INT96_TIMESTAMP_ORDER``: written by ``PageIndex(int96="order")``, used, and verified."""

import datetime as dt
import struct
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.format import thrift, thrift_tree
from intarsia.format.structs import ColumnIndex
from tests.embed.tables import page_indexes
from tests.verify.damage import Damage

DAY = 86_400 * 10**9
START = 1_700_000_000 * 10**9
ORDER = ia.PageIndex(int96="order")


def write(path, nanoseconds, **options):
    """A file with INT96 timestamps ``t`` and row numbers ``row``, ten rows a page."""
    times = pa.array(nanoseconds, pa.int64()).cast(pa.timestamp("ns"))
    pq.write_table(
        pa.table({"t": times, "row": np.arange(len(times))}),
        path,
        **{"row_group_size": 100, "max_rows_per_page": 10, "write_batch_size": 10, **options},
        use_deprecated_int96_timestamps=True,
        use_dictionary=False,
    )
    return str(path)


def write_parts(path, parts):
    """A file of one page whose INT96 values have these days since 1970 and nanoseconds."""
    write(path, [0] * len(parts), compression="none")
    raw = bytearray(path.read_bytes())
    zero = struct.pack("<qi", 0, 2_440_588)
    start = raw.index(zero * len(parts))
    raw[start : start + 12 * len(parts)] = b"".join(
        struct.pack("<qi", ns, day + 2_440_588) for day, ns in parts
    )
    path.write_bytes(raw)
    return str(path)


def rising(count=300):
    return [START + row * 3600 * 10**9 if row % 7 else None for row in range(count)]


def order_of(path):
    raw = Path(path).read_bytes()
    length = int.from_bytes(raw[-8:-4], "little")
    tree, _ = thrift_tree.parse_tree(raw[-8 - length : -8])
    return [set(order.fields) for order in tree.get(7).items]


def literal(nanoseconds):
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
    return f"'{moment.isoformat(' ')}.{rest:09d}'"


def assert_oracle(path, moments):
    """Compare scans with the full read, filtered, by the nanoseconds that Arrow has."""
    values = pq.read_table(path)["t"].cast(pa.int64()).to_pylist()
    for moment in moments:
        for op, matches in (
            ("=", lambda value, wanted: value == wanted),
            ("<", lambda value, wanted: value < wanted),
            (">=", lambda value, wanted: value >= wanted),
        ):
            where = f"t {op} {literal(moment)}"
            expected = [
                row for row, value in enumerate(values) if value is not None and matches(value, moment)
            ]
            assert ia.open(path).scan(where, ["row"]).to_arrow()["row"].to_pylist() == expected, where


def test_bounds_and_order(tmp_path):
    path = write(tmp_path / "a.parquet", rising())
    before = Path(path).read_bytes()
    report = ia.attach(path, ORDER)
    assert report.notes == ()
    assert order_of(path) == [{3}, {1}]
    found, footer = page_indexes(path)
    index = found[1, 0][0]
    values = rising()[100:200]
    assert len(index.min_values) == 10
    for page, (low, high) in enumerate(zip(index.min_values, index.max_values, strict=True)):
        present = [value for value in values[page * 10 : page * 10 + 10] if value is not None]
        for bound, value in ((low, min(present)), (high, max(present))):
            nanoseconds, day = struct.unpack("<qi", bound)
            assert (day - 2_440_588) * DAY + nanoseconds == value
    statistics = footer.metadata.row_groups[1].columns[0].meta_data.statistics
    assert (statistics.min_value, statistics.max_value) == (index.min_values[0], index.max_values[-1])
    assert statistics.null_count == sum(value is None for value in values)
    assert ia.verify(path).findings == ()
    assert not ia.attach(path, ORDER).changed
    assert not ia.attach(path, ia.PageIndex()).changed
    ia.attach(path, ia.Distinct("row"))
    assert order_of(path) == [{3}, {1}]
    assert ia.verify(path).findings == ()
    ia.detach(path)
    assert Path(path).read_bytes() == before


def test_pages_are_skipped_by_them(tmp_path):
    path = write(tmp_path / "a.parquet", rising())
    ia.attach(path, ORDER)
    scan = ia.open(path).scan(f"t = {literal(START + 151 * 3600 * 10**9)}", ["row"])
    assert scan.to_arrow()["row"].to_pylist() == [151]
    report = scan.report.to_dict()
    assert report["row_groups"]["read"] == 1
    assert report["pages"]["by_column"]["t"]["read"] == 1
    assert {proof["index"] for proof in report["pruned_by"]} == {"statistics", "column_index"}
    assert_oracle(path, [START, START + 3600 * 10**9 * 77, START - 1, START + 3600 * 10**9 * 77 + 1])


def test_off_by_default(tmp_path):
    path = write(tmp_path / "a.parquet", rising())
    ia.attach(path, ia.PageIndex())
    assert order_of(path) == [{1}, {1}]
    assert page_indexes(path)[0][0, 0][0] is None
    ia.attach(path, ORDER)
    assert page_indexes(path)[0][0, 0][0] is not None


@pytest.mark.parametrize("value", ["ns", "", True, 1])
def test_other_values_are_refused(value):
    with pytest.raises(ia.IndexBuildError):
        ia.PageIndex(int96=value)


@settings(max_examples=12)
@given(
    values=st.lists(
        st.none()
        | st.sampled_from([START, -1, 0, 1, -(2**63), 2**63 - 1])
        | st.integers(-(2**63), 2**63 - 1),
        min_size=1,
        max_size=40,
    )
)
def test_random_instants(tmp_path_factory, values):
    path = write(
        tmp_path_factory.mktemp("int96") / "a.parquet", values, row_group_size=15, max_rows_per_page=4
    )
    ia.attach(path, ORDER)
    assert ia.verify(path).findings == ()
    assert_oracle(path, [START, 0, -1])


FAR = [(2_932_896, 0), (0, 5), (-800_000, 7), (106_751, DAY - 1), (-106_752, 0)]  # the first is 9999-12-31


def test_instants_beyond_64_bits(tmp_path):
    """Arrow converts them to other times, which bounds of the real ones must not exclude."""
    path = write_parts(tmp_path / "a.parquet", FAR)
    ia.attach(path, ORDER)
    assert ia.verify(path).findings == ()
    index = page_indexes(path)[0][0, 0][0]
    assert struct.unpack("<qi", index.max_values[0]) == (0, 2_932_896 + 2_440_588)
    values = pq.read_table(path)["t"].cast(pa.int64()).to_pylist()
    assert_oracle(path, [*values, 0, 5])


def test_nanoseconds_outside_their_day_get_no_bounds(tmp_path):
    """By the day alone, such values are not in chronological order."""
    path = write_parts(tmp_path / "a.parquet", [(10, 5 * DAY), (12, 0), (11, -1)])
    (note,) = ia.attach(path, ORDER).notes
    assert (note.column, note.index) == ("t", "page_index")
    assert page_indexes(path)[0][0, 0][0] is None
    assert order_of(path)[0] == {1}
    assert_oracle(path, [15 * DAY, 12 * DAY, 11 * DAY - 1])


def test_bounds_without_an_order_get_no_meaning(tmp_path):
    """A chunk with old, wrong bounds loses them when another chunk of the column gives it the order."""
    path = write(tmp_path / "a.parquet", rising(200))
    damage = Damage(path)
    wrong = struct.pack("<qi", 0, 0)
    damage.statistics("t", min_value=wrong, max_value=wrong)
    damage.write()
    ia.attach(path, ORDER)
    assert ia.verify(path).findings == ()
    assert not ia.attach(path, ORDER).changed
    assert_oracle(path, [START + 3600 * 10**9])


def test_all_null_and_lists(tmp_path):
    path = str(tmp_path / "a.parquet")
    times = [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)]
    table = pa.table(
        {
            "none": pa.array([None] * 4, pa.timestamp("ns")),
            "list": pa.array([times, [], None, [None, times[0]]], pa.list_(pa.timestamp("ns"))),
        }
    )
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    ia.attach(path, ORDER)
    assert ia.verify(path).findings == ()
    assert ia.open(path).count("none IS NULL") == 4
    assert ia.open(path).scan().to_arrow().equals(pq.read_table(path))


# --- files of other writers, and damage ---


def damaged(path, low, high, member=3):
    """One page with bounds of the footer's choice, in the form of another writer."""
    write(path, [START + row for row in range(10)])
    damage = Damage(path)
    damage.statistics("t", min_value=low, max_value=high)
    damage.tree.get(7).items[0] = thrift_tree.Struct({member: (thrift.STRUCT, thrift_tree.Struct())})
    damage.write()
    return str(path)


def stored(nanoseconds):
    return struct.pack("<qi", nanoseconds % DAY, nanoseconds // DAY + 2_440_588)


def test_bounds_of_other_writers_are_used(tmp_path):
    path = damaged(tmp_path / "a.parquet", stored(START), stored(START + 9))
    assert ia.verify(path).findings == ()
    scan = ia.open(path).scan(f"t < {literal(START)}")
    assert scan.to_arrow().num_rows == 0
    assert scan.report.to_dict()["row_groups"]["read"] == 0


@pytest.mark.parametrize("member", [1, 2, 9])
def test_bounds_under_another_order_are_not(tmp_path, member):
    path = damaged(tmp_path / "a.parquet", stored(0), stored(0), member)
    assert ia.open(path).count(f"t >= {literal(START)}") == 10


@pytest.mark.parametrize(
    ("low", "high", "rule"),
    [
        (b"", b"", "bound-unreadable"),
        (stored(START)[:11], stored(START + 9), "bound-unreadable"),
        (stored(START + 9), stored(START), "bounds-out-of-order"),
    ],
)
def test_bounds_that_cannot_be_are_not_used(tmp_path, low, high, rule):
    path = damaged(tmp_path / "a.parquet", low, high)
    assert ia.open(path).count(f"t >= {literal(START)}") == 10
    assert rule in {finding.rule for finding in ia.verify(path).findings}


@pytest.mark.parametrize(
    ("low", "high"), [(stored(START + 1), stored(START + 9)), (stored(START), stored(START + 8))]
)
def test_wrong_bounds_are_found(tmp_path, low, high):
    path = damaged(tmp_path / "a.parquet", low, high)
    assert {finding.rule for finding in ia.verify(path).findings} == {"bounds-exclude-values"}


def test_wrong_bounds_of_pages_are_found(tmp_path):
    path = write(tmp_path / "a.parquet", rising(100))
    ia.attach(path, ORDER)
    damage = Damage(path)
    index: ColumnIndex = damage.column_index("t")
    damage.put_column_index("t", index._replace(min_values=list(reversed(index.min_values))))
    damage.write()
    rules = {finding.rule for finding in ia.verify(path).findings}
    assert {"bounds-out-of-order", "bounds-exclude-values", "boundary-order"} & rules


# --- other readers ---


@pytest.mark.skipif(pl.__version__ < "2", reason="Polars before 2.0 does not know the order")
def test_every_reader_reads_the_same_rows(tmp_path):
    path = write(tmp_path / "a.parquet", rising())
    before = pq.read_table(path)
    wanted = START + 151 * 3600 * 10**9
    ia.attach(path, ORDER)
    assert pq.read_table(path).equals(before)
    assert pq.read_table(path, filters=[("t", "=", pa.scalar(wanted, pa.timestamp("ns")))]).num_rows == 1
    text = f"t = TIMESTAMP {literal(wanted)}"
    assert duckdb.sql(f"SELECT row FROM '{path}' WHERE {text}").fetchall() == [(151,)]
    frame = pl.scan_parquet(path)
    moment = pl.lit(wanted).cast(pl.Datetime("ns"))
    assert frame.filter(pl.col("t") == moment).select("row").collect()["row"].to_list() == [151]
    assert frame.collect()["t"].null_count() == before["t"].null_count
    context = SessionContext()
    context.register_parquet("a", path)
    assert context.sql(f"SELECT row FROM a WHERE {text}").to_pydict() == {"row": [151]}
    assert context.sql("SELECT count(t) AS n FROM a").to_pydict() == {"n": [300 - before["t"].null_count]}


def test_readers_of_bounds_beyond_64_bits(tmp_path):
    """DuckDB skips row groups by INT96 bounds; Arrow's readers ignore them."""
    paths = [write_parts(tmp_path / name, FAR) for name in ("plain.parquet", "indexed.parquet")]
    ia.attach(paths[1], ORDER)
    moments = [text for (text,) in duckdb.sql(f"SELECT t::VARCHAR FROM '{paths[0]}'").fetchall()]
    for moment in [*moments, "1600-01-01", "2020-01-01"]:
        for op in ("=", "<", ">"):
            text = "SELECT row FROM '{}' WHERE t {} '{}'::TIMESTAMP ORDER BY row"
            plain, indexed = (duckdb.sql(text.format(path, op, moment)).fetchall() for path in paths)
            assert plain == indexed, (op, moment)
