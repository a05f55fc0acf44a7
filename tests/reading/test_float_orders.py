"""Floats under IEEE 754's total order, and NaN counts: no row is lost, and pages are skipped by them."""

import math
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.format import thrift, thrift_tree
from tests.conftest import CORPUS
from tests.effort import examples
from tests.embed.tables import edit_footer
from tests.predicate.oracle import OPS
from tests.reading.truth import assert_truth

FILE = CORPUS / "parquet-testing" / "floating_orders_nan_count.parquet"

NAN, NEGATIVE_NAN = (struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8 << 48, 0xFFF8 << 48))

LITERALS = ["-3", "-2", "-0.0", "0.0", "0.5", "5"]


def matching(values, op, literal, *, negated):
    """The rows that match by Arrow's rules: NaN is unequal to all, and no null matches."""
    found = [value is not None and OPS[op](value, float(literal)) is not negated for value in values]
    return [row for row, hit in enumerate(found) if hit]


def assert_every_condition(path, column):
    """Compare scans with a full read and a filter; the table has its row numbers in ``row``."""
    values = pq.read_table(path)[column].to_pylist()
    table = ia.open(path)
    has_rows = "row" in table.schema.names
    for op in OPS:
        for literal in LITERALS:
            for negated in (False, True):
                where = f"{column} {op} {literal}"
                where = f"NOT ({where})" if negated else where
                rows = matching(values, op, literal, negated=negated)
                if has_rows:
                    assert table.scan(where, ["row"]).to_arrow()["row"].to_pylist() == rows, where
                else:
                    assert table.count(where) == len(rows), where


def row_groups_read(path, where):
    scan = ia.open(path).scan(where)
    scan.to_arrow()
    return scan.report.to_dict()["row_groups"]["read"]


def set_order(path, leaf, member):
    """Give a leaf another column order: 1 TYPE_ORDER, 2 IEEE_754_TOTAL_ORDER, 3 INT96_TIMESTAMP_ORDER."""

    def change(tree):
        tree.get(7).items[leaf] = thrift_tree.Struct({member: (thrift.STRUCT, thrift_tree.Struct())})

    edit_footer(path, change)


# --- a file by parquet-java: row groups without NaN, with some, with nothing else, with zero as a bound ---


@pytest.mark.parametrize("order", ["ieee754", "typedef"])
@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_a_file_by_parquet_java(kind, order):
    assert_every_condition(FILE, f"{kind}_{order}")


def test_what_is_trusted_of_it_is_true():
    assert_truth(FILE)


@pytest.mark.parametrize(("order", "without_bounds"), [("ieee754", 0), ("typedef", 1)])
def test_its_row_group_of_nothing_but_nan_is_skipped(order, without_bounds):
    """Under the order of the type, parquet-java leaves the bounds out where some values are NaN."""
    column = f"double_{order}"
    assert row_groups_read(FILE, f"{column} > 4.5") == 2 + without_bounds
    assert row_groups_read(FILE, f"{column} < -4") == 1 + without_bounds
    # NaN matches, and the counts prove that three row groups have none
    assert row_groups_read(FILE, f"NOT ({column} <= 5)") == 2


def test_its_bounds_are_right():
    assert ia.verify(FILE).findings == ()


# --- random tables, indexed under the total order ---

floats = st.sampled_from([0.0, -0.0, NAN, NEGATIVE_NAN, math.inf, -math.inf, -2.0, 0.5, 5.0, None])


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@settings(max_examples=examples(8))
@given(values=st.lists(floats, min_size=1, max_size=40), is_sorted=st.booleans())
def test_random_tables(tmp_path_factory, kind, values, is_sorted):
    if is_sorted:
        values = sorted(values, key=lambda value: (value is None, math.isnan(value or 0), value or 0))
    path = str(tmp_path_factory.mktemp("floats") / "a.parquet")
    table = pa.table({"x": pa.array(values, kind), "row": range(len(values))})
    pq.write_table(
        table,
        path,
        row_group_size=12,
        write_statistics=False,
        max_rows_per_page=3,
        write_batch_size=3,
        use_dictionary=False,
    )
    set_order(path, 0, 2)
    report = ia.attach(path, [ia.PageIndex(), ia.Statistics()])
    assert report.notes == ()
    assert ia.verify(path).findings == ()
    assert_truth(path)
    assert_every_condition(path, "x")


def test_pages_of_nothing_but_nan_are_skipped(tmp_path):
    path = str(tmp_path / "a.parquet")
    values = [1.0] * 10 + [NAN] * 10 + [NAN, None] * 5 + [NAN, 7.0] * 5
    pq.write_table(
        pa.table({"x": values}), path, max_rows_per_page=10, write_batch_size=10, use_dictionary=False
    )
    set_order(path, 0, 2)
    ia.attach(path, ia.PageIndex())
    for op, literal, negated, pages in (
        (">", "0", False, 2),
        ("=", "7", False, 1),
        ("<>", "7", False, 4),
        ("<", "5", True, 3),
    ):
        where = f"NOT (x {op} {literal})" if negated else f"x {op} {literal}"
        scan = ia.open(path).scan(where)
        assert scan.to_arrow().num_rows == len(matching(values, op, literal, negated=negated)), where
        assert scan.report.to_dict()["pages"]["read"] == pages, where


# --- orders and counts that cannot be ---


@pytest.mark.parametrize("members", [(2,), (3,), (1, 2), (1, 3), (9,), ()])
def test_an_order_that_the_type_cannot_have_gives_bounds_no_meaning(tmp_path, members):
    """Bounds that are wrong under any order are not used."""
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": np.arange(100), "row": np.arange(100)}), path, write_page_index=True)

    def change(tree):
        empty = (thrift.STRUCT, thrift_tree.Struct())
        tree.get(7).items[0] = thrift_tree.Struct(dict.fromkeys(members, empty))
        statistics = tree.get(4).items[0].get(1).items[0].get(3).get(12)
        for field in (1, 2):
            statistics.remove(field)
        for field in (5, 6):
            statistics.set(field, thrift.BINARY, bytes(8))

    edit_footer(path, change)
    assert ia.open(path).scan("x = 50").to_arrow()["row"].to_pylist() == [50]
    assert "no-column-order" in {finding.rule for finding in ia.verify(path).findings}


@pytest.mark.parametrize("count", [-1, -(2**63), 101, 2**63 - 1])
def test_nan_counts_that_cannot_be_prove_nothing(tmp_path, count):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1.0] * 50 + [NAN] * 50}), path)
    set_order(path, 0, 2)

    def change(tree):
        statistics = tree.get(4).items[0].get(1).items[0].get(3).get(12)
        statistics.set(9, thrift.I64, count)
        for field in (1, 2, 5, 6, 7, 8):
            statistics.remove(field)

    edit_footer(path, change)
    assert ia.open(path).count("x = 1") == 50
    assert ia.open(path).count("x <> 1") == 50
    assert not ia.verify(path).ok


def test_a_count_of_nothing_but_nan_is_doubted_beside_bounds(tmp_path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1.0] * 50}), path)
    set_order(path, 0, 2)
    edit_footer(
        path,
        lambda tree: tree.get(4).items[0].get(1).items[0].get(3).get(12).set(9, thrift.I64, 50),
    )
    assert ia.open(path).count("x = 1") == 50
