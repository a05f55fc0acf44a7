"""The first rows by a column: only the pages that can contain them are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.lake.index.lakes import age, write

NUM_ROWS = 120


def pages_read(scan):
    return {name: counts.read for name, counts in scan.report.pages.items() if counts.read}


def test_one_page_of_each_column_is_read(tmp_path):
    """The greatest values are in one page; the row group of the other file cannot win."""
    for part in range(3):
        values = [part * 1000 + n * 7919 % 1000 // 10 * 10 + n // 100 for n in range(1000)]
        values.sort(key=lambda value: value % 10)
        rows = pa.table({"x": [part * 1000 + n for n in range(1000)], "text": [f"t{n}" for n in range(1000)]})
        write(tmp_path / f"{part}.parquet", rows, [ia.PageIndex()], row_group_size=500, max_rows_per_page=50)
    for order, expected in ((" DESC", [2999, 2998, 2997]), ("", [0, 1, 2])):
        scan = ia.open(tmp_path).scan(columns=["text", "x"], order_by=f"x{order}", limit=3)
        assert scan.to_arrow()["x"].to_pylist() == expected
        assert pages_read(scan) == {"x": 1, "text": 1}  # the page of x is needed to search, and for the rows
        assert (scan.report.files_read, scan.report.row_groups_read) == (1, 1)


def test_a_lake_index_excludes_files_without_opening_them(tmp_path):
    for part in range(20):
        rows = pa.table({"x": [part * 100 + n for n in range(100)]})
        write(tmp_path / f"{part:02}.parquet", rows, row_group_size=50)
    ia.open(tmp_path).build_lake_index("beside")
    scan = ia.open(tmp_path).scan(order_by="x DESC", limit=2)
    assert scan.to_arrow()["x"].to_pylist() == [1999, 1998]
    assert (scan.report.files_opened, scan.report.files_total) == (1, 20)
    assert scan.report.rows_total == 2000
    where = ia.open(tmp_path).scan("x < 555", order_by="x DESC", limit=2)
    assert where.to_arrow()["x"].to_pylist() == [554, 553]
    assert where.report.files_opened == 1


@pytest.mark.parametrize(("direction", "first"), [("ascending", 0), ("descending", 19)])
def test_partition_values_order_files_without_a_lake_index(tmp_path, direction, first):
    for part in range(20):
        write(tmp_path / f"part={part * 7 % 20}" / "rows.parquet", pa.table({"x": range(100)}))
    scan = ia.open(tmp_path).scan(order_by=[("part", direction), ("x", "descending")], limit=2)
    assert scan.to_pylist() == [{"x": 99, "part": first}, {"x": 98, "part": first}]
    assert (scan.report.files_opened, scan.report.files_read) == (2, 1)  # each file may have one row


def test_only_columns_of_the_result_are_returned(tmp_path):
    for part in range(2):
        rows = pa.table({"id": range(part * NUM_ROWS, (part + 1) * NUM_ROWS), "s": ["text"] * NUM_ROWS})
        write(tmp_path / f"part={part}" / "rows.parquet", rows)
    table = ia.open(tmp_path)
    scan = table.scan("id > 5", ["part"], order_by="id", limit=2)
    assert scan.to_arrow().schema == scan.schema
    assert scan.to_arrow().to_pylist() == [{"part": 0}] * 2
    assert table.scan(None, [], order_by="id", limit=2).to_arrow().num_rows == 2
    assert [batch.num_rows for batch in table.scan(order_by="id", limit=2)] == [2]
    assert scan.to_reader().read_all().num_rows == 2


def test_column_names_may_be_quoted(tmp_path):
    rows = pa.table({"desc": [1, 3, 2], 'a "b"': [2, 3, 1], "": [3, 1, 2]})
    write(tmp_path / "f.parquet", rows)
    age(tmp_path / "f.parquet")
    table = ia.open(tmp_path)
    assert table.scan(order_by="desc desc", limit=1).to_arrow()["desc"].to_pylist() == [3]
    assert table.scan(order_by='"a ""b""" ASC', limit=1).to_arrow()["desc"].to_pylist() == [2]
    assert table.scan(order_by='"" DESC', limit=1).to_arrow()["desc"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("order", "row"),
    [('st.".x" DESC', 1), ('"st".".x" DESC', 1), ('"a"."b"', 2), ("a.b", 0), ('"a.b"', 0), (".z, st.y", 2)],
)
def test_paths_may_be_quoted_in_parts(tmp_path, order, row):
    inner = [{".x": 1, "y": 9}, {".x": 3, "y": 8}, {".x": 2, "y": 7}]
    rows = {"st": inner, "a": [{"b": 9}, {"b": 8}, {"b": 7}], "a.b": [1, 2, 3], ".z": [3, 2, 1]}
    write(tmp_path / "f.parquet", pa.table(rows))
    found = ia.open(tmp_path).scan(order_by=order, limit=1).to_pylist()
    assert found == pa.table(rows).slice(row, 1).to_pylist()


@pytest.mark.parametrize(
    "order",
    [
        *("", "x SIDEWAYS", "x,", ",x", "x, , y", "x NULLS", "lower(x)", 'x"', "x DESC y"),
        *(
            [],
            (),
            [[("x", "ascending")]],
            [("x", "up")],
            ("x", "y", 7),
            7,
            [None],
            ("x", 1),
            {"x": "descending"},
        ),
    ],
    ids=repr,
)
def test_other_orders_are_refused(tmp_path, order):
    write(tmp_path / "f.parquet", pa.table({"x": [1], "y": [2]}))
    with pytest.raises(ia.PredicateError) as caught:
        ia.open(tmp_path).scan(order_by=order, limit=1)
    assert caught.value.reason == "unsupported-order"


@pytest.mark.parametrize(
    "order",
    [
        "x DESC, y",
        " x desc ,y ASC NULLS LAST",
        "x DESC, y, x ASC",
        ["x DESC", "y"],
        ("x DESC", "y"),
        ["x DESC, y"],
        [("x", "descending"), ("y", "ascending")],
        [("x", "descending"), "y"],
    ],
    ids=repr,
)
def test_every_form_of_an_order(tmp_path, order):
    write(tmp_path / "f.parquet", pa.table({"x": [1, 2, 2, 1], "y": [5, 4, 3, 2]}))
    scan = ia.open(tmp_path).scan(order_by=order, limit=3)
    assert [tuple(row.values()) for row in scan.to_pylist()] == [(2, 3), (2, 4), (1, 2)]
    assert "order_by=['x', 'y']" in repr(scan)


def test_one_column_as_in_pyarrow(tmp_path):
    write(tmp_path / "f.parquet", pa.table({"x": [1, 3, 2]}))
    scan = ia.open(tmp_path).scan(order_by=("x", "descending"), limit=2)
    assert scan.to_arrow()["x"].to_pylist() == [3, 2]


def test_pages_that_can_only_hold_worse_rows_are_not_read_for_other_columns_of_the_order(tmp_path):
    """Rows with the last value of the first column may still come first by the second, so they are read."""
    rows = pa.table({"x": [n // 100 for n in range(1000)], "y": [n * 7919 % 1000 for n in range(1000)]})
    write(tmp_path / "f.parquet", rows, [ia.PageIndex()], max_rows_per_page=50)
    scan = ia.open(tmp_path).scan(order_by="x DESC, y", limit=3)
    assert scan.to_arrow().equals(rows.sort_by([("x", "descending"), ("y", "ascending")]).slice(0, 3))
    assert scan.report.rows_candidate == 100
    assert scan.report.pages["y"].read <= 2 + 2  # those with the last x, and those of the result


@pytest.mark.parametrize(
    ("order", "row"), [("x, y", 0), ("x DESC, y", 0), ("x, z, y", 0), ("x, y DESC", 999), ("n, y", 0)]
)
@pytest.mark.parametrize("where", [None, "text = 'a'"])
def test_the_bounds_of_all_columns_of_the_order_skip(tmp_path, order, row, where):
    """If all rows have the same value of the first column, all of them were read."""
    columns = {"x": [7] * 1000, "y": range(1000), "z": ["same"] * 1000, "n": pa.nulls(1000, pa.int8())}
    rows = pa.table(columns | {"text": ["a"] * 1000})
    rows = rows if row == 0 else rows.take(list(reversed(range(1000))))
    write(tmp_path / "f.parquet", rows, [ia.PageIndex()], max_rows_per_page=50)
    scan = ia.open(tmp_path).scan(where, columns=["y"], order_by=order, limit=3)
    assert scan.to_arrow()["y"].to_pylist() == rows["y"].to_pylist()[:3]
    assert scan.report.rows_candidate <= 100
    assert max(pages_read(scan).values()) <= 2


@pytest.mark.parametrize("num_columns", [15, 16, 17, 60, 200])
def test_an_order_of_many_columns(tmp_path, num_columns):
    """The condition on rows that can precede the found ones was nested too deeply from 51 columns on."""
    random = np.random.default_rng(num_columns)
    names = [f"c{ordinal}" for ordinal in range(num_columns)]
    columns = [np.full(40, 7) for _ in names[2:]] + [random.integers(0, 4, 40), random.permutation(40)]
    rows = pa.table(dict(zip(names, columns, strict=True)))
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=10)
    order = [(name, ("ascending", "descending")[place % 2]) for place, name in enumerate(names)]
    found = ia.open(tmp_path).scan(order_by=order, limit=5).to_arrow()
    assert found.equals(rows.sort_by(order).slice(0, 5))


@pytest.mark.parametrize("where", [None, "day = 3"])
def test_a_leading_column_with_one_value_does_not_hide_the_next(tmp_path, where):
    """Its bounds are those of all row groups, so these were read in the order of the file."""
    for part in range(4):
        numbers = range(part * 400, part * 400 + 400)
        days = [3] * 400 if where is None else [3 if number < 1200 else 4 for number in numbers]
        rows = pa.table({"day": days, "y": numbers, "text": ["a"] * 400})
        write(tmp_path / f"{part}.parquet", rows, row_group_size=20)
    last = 1600 if where is None else 1200
    for order in ("day, y DESC", "day DESC, text, y DESC"):
        scan = ia.open(tmp_path).scan(where, ["y"], order_by=order, limit=3)
        assert scan.to_arrow()["y"].to_pylist() == [last - 1, last - 2, last - 3]
        assert scan.report.row_groups_read <= 4


def test_an_order_needs_a_limit_and_a_column_of_values(tmp_path):
    write(tmp_path / "f.parquet", pa.table({"x": [1], "l": [[2]]}))
    table = ia.open(tmp_path)
    with pytest.raises(ValueError, match="limit"):
        table.scan(order_by="x")
    with pytest.raises(ia.ColumnNotFoundError):
        table.scan(order_by="z", limit=1)
    with pytest.raises(ia.PredicateError) as caught:
        table.scan(order_by="l", limit=1)
    assert caught.value.reason == "nested-column"


class SettlingFile(ia.DataFile):
    """A file that was just written: its identity is unknown when its schema is read and it is searched."""

    num_opened = 0

    def open(self, *, fresh=False):
        source = super().open(fresh=fresh)
        if type(self).num_opened < 2:
            source.identity = None
        type(self).num_opened += 1
        return source


def test_a_file_that_was_just_written_is_not_taken_for_another(tmp_path):
    rows = pa.table({"id": range(NUM_ROWS), "s": ["text"] * NUM_ROWS})
    write(tmp_path / "a.parquet", rows)
    path = tmp_path / "a.parquet"

    class One:
        def list_files(self):
            return [SettlingFile(str(path), path.stat().st_size)]

    table = ia.open(One())
    first = table.scan(order_by="id DESC", limit=2, columns=["id", "s"]).to_arrow()
    assert first["id"].to_pylist() == [NUM_ROWS - 1, NUM_ROWS - 2]


@pytest.mark.parametrize("order", ["s", "s DESC", "s DESC, n"])
def test_text_that_is_not_utf8_is_ordered(tmp_path, order):
    texts = [b"b%d" % n for n in range(400)] + [b"\xff%d" % n for n in range(400)]
    rows = pa.table({"s": pa.array(texts, pa.binary()).view(pa.string()), "n": range(800)})
    write(tmp_path / "f.parquet", rows, [ia.PageIndex()], max_rows_per_page=50)
    found = ia.open(tmp_path).scan(order_by=order, limit=3).to_arrow()
    expected = sorted(texts, reverse="DESC" in order)[:3]
    assert found["s"].cast(pa.binary()).to_pylist() == expected


KEYS = {
    "number": pa.array([3, None, 1, 2, 1] * 40),
    "float": pa.array([float("nan"), None, -0.0, 0.0, 2.5, -1.0] * 30 + [7.0] * 20),
    "text": pa.array(["b", "a", None, "", "a longer text"] * 40),
    "flag": pa.array([True, None, False, False, True] * 40),
    "decimal": pa.array([3, None, 1, 2, 1] * 40).cast(pa.decimal128(30, 2)),
    "bytes": pa.array([b"\xff", b"", None, b"a", b"\x00"] * 40),
}


@pytest.mark.parametrize("nulls", ["FIRST", "LAST"])
@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("name", KEYS)
def test_few_rows_are_the_first_of_all_rows(tmp_path, name, direction, nulls):
    """The first rows are selected, and all of them are sorted."""
    table = pa.table({"id": range(200), **KEYS})
    write(tmp_path / "f.parquet", table)
    for order in (
        f"{name} {direction} NULLS {nulls}",
        f"flag, {name} {direction} NULLS {nulls}, number DESC",
    ):
        ids = [
            ia.open(tmp_path).scan(columns=["id"], order_by=order, limit=limit).to_arrow()["id"].to_pylist()
            for limit in (1, 9, 200)
        ]
        assert len(ids[2]) == len(set(ids[2])) == 200
        assert ids[:2] == [ids[2][:1], ids[2][:9]]


def test_the_report_has_what_is_ignored_of_columns_that_are_only_returned(tmp_path):
    """pyarrow writes OffsetIndexes of lists on tiny pages whose rows are not ascending."""
    path = tmp_path / "lists.parquet"
    rows = pa.table({"x": range(12), "list": [["a"], ["b", "c"]] * 6})
    pq.write_table(rows, path, row_group_size=6, write_page_index=True, data_page_size=1, write_batch_size=1)
    scan = ia.open(path).scan(order_by="x DESC", limit=1)
    with pytest.warns(ia.IntarsiaWarning):
        assert scan.to_arrow().to_pylist() == [{"x": 11, "list": ["b", "c"]}]
    assert [(note.index, note.code) for note in scan.report.ignored] == [
        ("OffsetIndex of list.list.element, row group 1", "rows-not-ascending")
    ]
