"""In an order, NaN is greater than every number, and bounds ignore it. Reading shows where there is none."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from tests.effort import examples
from tests.lake.index.lakes import age, write

NUM_FILES, NUM_ROWS, WITH_NAN = 30, 100, 17


def make_lake(folder):
    """Write files of random numbers, one of which has NaN."""
    for file in range(NUM_FILES):
        values = [(file * NUM_ROWS + row) * 7919 % 100_003 / 7 for row in range(NUM_ROWS)]
        if file == WITH_NAN:
            values[3] = math.nan
        rows = pa.table({"x": values, "row": range(file * NUM_ROWS, (file + 1) * NUM_ROWS)})
        write(folder / f"{file:02}.parquet", rows)
    return folder


def x_read(scan):
    scan.to_arrow()
    return scan.report.pages["x"].read


def test_the_second_query_reads_what_can_precede(tmp_path):
    table = ia.open(make_lake(tmp_path))
    scans = [table.scan(order_by="x DESC", limit=5) for _ in range(2)]
    assert str(scans[0].to_arrow()) == str(scans[1].to_arrow())
    # the page with NaN, four others, and those with rows of the result again
    assert (x_read(ia.open(tmp_path).scan(order_by="x DESC", limit=5)), x_read(scans[1])) == (NUM_FILES, 6)
    assert scans[1].to_arrow()["row"][0].as_py() == WITH_NAN * NUM_ROWS + 3


def test_a_condition_that_nan_matches_profits(tmp_path):
    table, where = ia.open(make_lake(tmp_path)), "NOT x <= 1e9"
    before = table.scan(where)
    assert (before.to_arrow().num_rows, before.report.files_read) == (1, NUM_FILES)
    table.scan(order_by="x DESC", limit=5).to_arrow()
    after = table.scan(where)
    assert (str(after.to_arrow()), after.report.files_read) == (str(before.to_arrow()), 1)
    assert str(table.scan(f"{where} AND row < 2000").to_arrow()) == str(before.to_arrow())


def test_pages_of_a_row_group(tmp_path):
    """The page index of these files does not count NaN."""
    for file in range(2):
        values = [file * 1000.0 + row for row in range(1000)]
        pq.write_table(
            pa.table({"x": values}),
            tmp_path / f"{file}.parquet",
            write_page_index=True,
            data_page_size=100,
            write_batch_size=50,
            use_dictionary=False,
        )
        age(tmp_path / f"{file}.parquet")
    table = ia.open(tmp_path)
    assert x_read(table.scan("NOT x < 1990")) == 40
    assert table.scan(order_by="x DESC", limit=2000).to_arrow().num_rows == 2000
    assert x_read(table.scan("NOT x < 1990")) == 1


def test_rows_that_were_not_read_prove_nothing(tmp_path):
    """The condition, or an order in which NaN is last, hides the row with NaN."""
    table = ia.open(make_lake(tmp_path))
    table.scan("row >= 0 AND x < 1e9", order_by="x DESC", limit=5).to_arrow()
    table.scan(order_by="x", limit=NUM_ROWS).to_arrow()
    assert table.scan(order_by="x DESC", limit=1).to_arrow()["row"].to_pylist() == [WITH_NAN * NUM_ROWS + 3]
    assert table.count("NOT x <= 1e9") == 1


def test_nulls_that_come_first_hide_nan(tmp_path):
    """The second file is read for its nulls only, as soon as the first one has given one."""
    for file, values in enumerate(([None] * 9, [None, math.nan, 1.0])):
        rows = pa.table(
            {"x": pa.array(values, pa.float64()), "row": range(10 * file, 10 * file + len(values))}
        )
        write(tmp_path / f"{file}.parquet", rows, row_group_size=3)
    for limit in range(1, 11):
        table = ia.open(tmp_path)
        table.scan(order_by="x DESC NULLS FIRST, row", limit=limit).to_arrow()
        assert table.count("NOT x <= 1e9") == 1


def test_a_new_file_in_place_of_one_that_was_read(tmp_path):
    table = ia.open(make_lake(tmp_path))
    table.scan(order_by="x DESC", limit=5).to_arrow()
    write(tmp_path / "03.parquet", pa.table({"x": [1.0, math.nan], "row": [-2, -1]}))
    assert sorted(table.scan("NOT x <= 1e9").to_arrow()["row"].to_pylist()) == [-1, WITH_NAN * NUM_ROWS + 3]
    assert -1 in table.scan(order_by="x DESC", limit=2).to_arrow()["row"].to_pylist()


NUMBERS = st.sampled_from([None, math.nan, -math.inf, -1.5, -0.0, 0.0, 0.5, 3.0, math.inf])
ORDERS = [
    f"x{way}{nulls}{then}"
    for way in ("", " DESC")
    for nulls in ("", " NULLS FIRST")
    for then in ("", ", row")
]
SCANS = st.tuples(
    st.sampled_from([None, None, "x > 0.25", "NOT x <= 0.25", "x <> 3", "x < 0", "x IS NULL", "row >= 5"]),
    st.sampled_from([None, *ORDERS]),
    st.integers(1, 12),
)


@settings(max_examples=examples(100))
@given(
    files=st.lists(st.lists(NUMBERS, max_size=12), min_size=1, max_size=4),
    type_=st.sampled_from([pa.float64(), pa.float32(), pa.float16()]),
    row_group_size=st.sampled_from([3, 100]),
    has_page_index=st.booleans(),
    scans=st.lists(SCANS, min_size=2, max_size=6),
)
def test_random_queries_of_one_table(tmp_path_factory, files, type_, row_group_size, has_page_index, scans):
    """What one query learns changes no answer of the next."""
    folder = tmp_path_factory.mktemp("lake")
    for number, values in enumerate(files):
        rows = pa.table(
            {"x": pa.array(values, type_), "row": range(100 * number, 100 * number + len(values))}
        )
        path = folder / f"{number}.parquet"
        options = {"write_page_index": has_page_index, "data_page_size": 1, "write_batch_size": 2}
        pq.write_table(rows, path, row_group_size=row_group_size, **options)
        age(path)
    table = ia.open(folder)
    for where, order, limit in scans:
        options = {} if order is None else {"order_by": order, "limit": limit}
        # among rows with equal values of the order, the choice is arbitrary
        columns = ["x"] if order is not None and "row" not in order else None
        found, expected = (one.scan(where, columns, **options) for one in (table, ia.open(folder)))
        assert str(found.to_arrow()) == str(expected.to_arrow())


def test_nan_that_another_column_of_the_order_excludes_is_not_forgotten(tmp_path):
    """Once the best row has NaN, the other columns decide, but rows that are read still show NaN."""
    nan = math.nan
    groups = [[(6.0, 9), (5.0, 9)], [(nan, 0), (4.0, 9)], *([(3.0, 9), (2.0, 9)],) * 20, [(nan, 9), (1.0, 9)]]
    rows = [row for group in groups for row in group]
    columns = {"f": [number for number, _ in rows], "y": [other for _, other in rows]}
    pq.write_table(pa.table(columns), tmp_path / "f.parquet", row_group_size=2, write_statistics=["f"])
    age(tmp_path / "f.parquet")
    table = ia.open(tmp_path)
    assert table.scan(order_by="f DESC, y", limit=1).to_arrow()["y"].to_pylist() == [0]
    found = table.scan(order_by="f DESC", limit=3).to_arrow()["f"].to_pylist()
    assert [str(number) for number in found] == ["nan", "nan", "6.0"]
