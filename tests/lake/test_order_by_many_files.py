"""The first rows of many small files, which are searched together: those of a full sort, from few pages."""

import functools
import math
import random
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from tests.effort import examples
from tests.lake.index.lakes import age, write
from tests.lake.test_order_by import place_in

NUM_FILES, NUM_ROWS, PAGE_ROWS = 16, 48, 8


def rows_of(file):
    """A file has data types, all nulls, no rows or no NaN, depending on its number."""
    chosen = random.Random(file)
    numbers = range(NUM_ROWS if file != 5 else 0)

    def column(value, nulls=0.1):
        nulls = 1 if file == 3 else nulls
        return [None if chosen.random() < nulls else value() for _ in numbers]

    nan = 0.02 if file % 4 == 0 else 0
    middle = chosen.randrange(60)
    columns = {
        "id": pa.array([file * NUM_ROWS + n for n in numbers], pa.int64()),
        "near": pa.array(column(lambda: middle + chosen.randrange(8)), [pa.int64(), pa.int32()][file % 2]),
        "f": pa.array(
            column(
                lambda: (
                    chosen.choice([0.0, -0.0, chosen.random() + middle])
                    if chosen.random() > nan
                    else math.nan
                )
            ),
            pa.float64(),
        ),
        "s": pa.array(column(lambda: "x" * 90 + f"{middle + chosen.randrange(8):03}"), pa.string()),
        "n": pa.array(column(lambda: Decimal(middle + chosen.randrange(5)) / 4), pa.decimal128(25, 2)),
        "few": pa.array(column(lambda: file // 5, 0.3), pa.int8()),
    }
    if file % 7 == 1:
        del columns["n"]
    return pa.table(columns)


@pytest.fixture(scope="module", params=["footers", "page index", "half a lake index"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    for file in range(NUM_FILES):
        indexes = [ia.PageIndex(), ia.ZoneMap("f")] if request.param == "page index" and file % 3 else []
        options = {"write_statistics": False} if file == 9 else {}
        if request.param == "half a lake index" and file == NUM_FILES // 2:
            ia.open(folder).build_lake_index("beside")
        path = folder / f"f{file:02}.parquet"
        write(path, rows_of(file), indexes, row_group_size=24, max_rows_per_page=PAGE_ROWS, **options)
    return folder


@functools.cache
def every_row(folder):
    return ia.open(folder).scan().to_arrow().to_pylist()


CONDITIONS = {
    None: lambda row: True,
    "few = 1": lambda row: row["few"] == 1,
    "near < 30 AND f > 0": lambda row: (
        row["near"] is not None and row["near"] < 30 and row["f"] is not None and row["f"] > 0
    ),
    "s LIKE '%01'": lambda row: row["s"] is not None and row["s"].endswith("01"),
}


@settings(max_examples=examples(40))
@given(
    order=st.lists(
        st.tuples(
            st.sampled_from(["near", "f", "s", "n", "few", "id"]),
            st.sampled_from(["", " DESC", " DESC NULLS FIRST", " NULLS FIRST"]),
        ),
        min_size=1,
        max_size=2,
    ),
    limit=st.sampled_from([1, 2, 7, 40, 200, 900]),
    where=st.sampled_from(list(CONDITIONS)),
)
def test_the_rows_are_the_first_of_a_full_sort(folder, order, limit, where):
    text = ", ".join(column + direction for column, direction in order)
    scan = ia.open(folder).scan(where, order_by=text, limit=limit)
    found = scan.to_arrow().to_pylist()
    matching = [row for row in every_row(folder) if CONDITIONS[where](row)]
    place = place_in(matching, order)
    assert list(map(place, found)) == sorted(map(place, matching))[:limit]
    texts = {row["id"]: repr(row) for row in matching}
    assert [repr(row) for row in found] == [texts[row["id"]] for row in found]
    assert len({row["id"] for row in found}) == len(found)
    report = scan.report
    assert (report.rows_matched, report.files_total) == (len(found), NUM_FILES)
    assert report.rows_total <= len(every_row(folder))


@pytest.mark.parametrize("lake_index", [False, True])
@pytest.mark.parametrize(("direction", "sign"), [("DESC", 1), ("ASC", -1)])
def test_few_pages_are_read_beyond_the_least(tmp_path, lake_index, direction, sign):
    """A page has to be read if its bounds contain a value that precedes the last row of the result."""
    num_files, limit, chosen = 40, 5, random.Random(8)
    values = chosen.sample(range(10**6), num_files * 100)
    least = set()
    last = sorted(values, key=lambda value: -sign * value)[limit - 1]
    for file in range(num_files):
        mine = values[file * 100 : file * 100 + 100]
        pages = [mine[start : start + 10] for start in range(0, 100, 10)]
        least |= {
            (file, page) for page, found in enumerate(pages) if max(sign * v for v in found) >= sign * last
        }
        rows = pa.table({"x": mine, "text": [f"t{value}" for value in mine]})
        write(
            tmp_path / f"{file:02}.parquet", rows, [ia.PageIndex()], row_group_size=50, max_rows_per_page=10
        )
    if lake_index:
        ia.open(tmp_path).build_lake_index("beside")
    table = ia.open(tmp_path)
    scan = table.scan(order_by=f"x {direction}", limit=limit)
    assert (
        sorted(scan.to_arrow()["x"].to_pylist()) == sorted(values, key=lambda v: -sign * v)[:limit][::-sign]
    )
    report = scan.report
    winners = {(place // 100, place % 100 // 10) for place, v in enumerate(values) if sign * v >= sign * last}
    assert report.pages["text"].read == len(winners)
    # the pages of x once to search, and once for the rows
    assert report.pages["x"].read <= len(least) + len(winners) + 1
    assert report.files_read <= len({file for file, _ in least}) + 1


def test_a_wrong_maximum_costs_no_rows(tmp_path):
    """The footers of two files claim larger values than the files have."""
    for file, (claimed, value) in enumerate([(10**6, 50), (9 * 10**5, 60), (500, 500), (70, 70)]):
        path = tmp_path / f"{file}.parquet"
        write(path, pa.table({"x": [value, value, 1]}))
        data = path.read_bytes()
        place = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        footer = data[place:].replace(struct.pack("<q", value), struct.pack("<q", claimed))
        path.write_bytes(data[:place] + footer)
        age(path)
    scan = ia.open(tmp_path).scan(order_by="x DESC", limit=3)
    assert scan.to_arrow()["x"].to_pylist() == [500, 500, 70]
