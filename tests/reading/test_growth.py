"""Costs in Python of files with many row groups and columns: calls are counted, time is not.

Each limit is the number of calls for each row group or column that was reached, plus a fifth. A cost that
grows faster than the file exceeds it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.counting import calls, python_calls

ROWS_PER_GROUP = 4


@pytest.fixture(scope="module")
def files_of_row_groups(tmp_path_factory):
    """Writes files of tiny row groups and four columns, one for each number of row groups."""
    folder = tmp_path_factory.mktemp("growth")

    def write(row_groups, page_index):
        path = folder / f"{row_groups}-{page_index}.parquet"
        if not path.exists():
            ids = np.arange(row_groups * ROWS_PER_GROUP)
            table = pa.table(
                {
                    "id": ids,
                    "digit": ids % 10,
                    "text": pa.array([f"text {number % 7}" for number in ids]),
                    "amount": ids / 4,
                }
            )
            pq.write_table(table, path, row_group_size=ROWS_PER_GROUP, write_page_index=page_index)
        return str(path)

    return write


@pytest.fixture(scope="module")
def files_of_columns(tmp_path_factory):
    """Writes files of two row groups, one for each number of columns."""
    folder = tmp_path_factory.mktemp("growth")

    def write(columns, page_index):
        path = folder / f"{columns}-columns-{page_index}.parquet"
        if not path.exists():
            values = pa.array(np.arange(20))
            table = pa.table({f"c{ordinal}": values for ordinal in range(columns)})
            pq.write_table(table, path, row_group_size=10, write_page_index=page_index)
        return str(path)

    return write


def calls_of(run, path):
    """Return the number of Python calls of ``run``, without those of imports and cold caches."""
    run(path)
    return python_calls(lambda: run(path))[1]


def calls_for_each(run, write, few, page_index):
    """Calls for each row group or column that a file has more than another."""
    counts = [calls_of(run, write(number, page_index)) for number in (few, 2 * few)]
    return (counts[1] - counts[0]) / few


def count_rows(path):
    assert ia.open(path).count() > 0


def find_one(path):
    assert ia.open(path).scan("id = 77").to_arrow().num_rows == 1


def find_nowhere(path):
    assert ia.open(path).scan("id = -1").to_arrow().num_rows == 0


def find_everywhere(path):
    assert ia.open(path).scan("digit < 3 OR digit = 4").to_arrow().num_rows > 0


def read_everything(path):
    assert ia.open(path).scan().to_arrow().num_rows > 0


def add_up(path):
    assert ia.open(path).aggregate({"amount": "sum"}, "digit < 3 OR digit = 4")["amount"]["sum"] > 0


def plan_everywhere(path):
    assert ia.open(path).plan("digit < 3 OR digit = 4", split_bytes=10_000)


def filter_by_column(path):
    assert ia.open(path).scan("c9 = 5", columns=["c7"]).to_arrow().num_rows == 1


def inspect_columns(path):
    assert ia.inspect(path).row_groups


def read_all_columns(path):
    assert ia.open(path).scan("c9 = 5").to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("run", "page_index", "most"),
    [
        (count_rows, False, 22),
        (find_one, False, 40),
        (find_one, True, 40),
        (find_nowhere, False, 34),
        (find_everywhere, False, 104),
        (find_everywhere, True, 104),
        (read_everything, False, 86),
        (read_everything, True, 86),
        (add_up, True, 75),
        (plan_everywhere, True, 56),
    ],
)
def test_calls_for_each_row_group(files_of_row_groups, run, page_index, most):
    assert calls_for_each(run, files_of_row_groups, 300, page_index) <= most


@pytest.mark.parametrize("query", [{"where": "c0 = 77"}, {"order_by": "c0", "limit": 1}], ids=str)
def test_columns_that_are_only_returned_cost_nothing_in_excluded_row_groups(tmp_path, query):
    """Their chunks are not parsed."""

    def calls_of_query(num_columns, num_groups):
        path = tmp_path / f"{num_columns}-{num_groups}.parquet"
        values = pa.array(np.arange(num_groups * ROWS_PER_GROUP))
        table = pa.table({f"c{number}": values for number in range(num_columns)})
        pq.write_table(table, path, row_group_size=ROWS_PER_GROUP, write_page_index=True)
        table = ia.open(path)
        return calls(lambda: table.scan(**query).to_arrow())

    calls_of_query(40, 100)  # loads the modules
    few, many = (calls_of_query(40, groups) - calls_of_query(4, groups) for groups in (100, 400))
    assert many - few < 36 * 300 / 10  # the chunks of these columns in further row groups


@pytest.mark.parametrize(
    ("run", "page_index", "most"),
    [
        (count_rows, True, 3),
        (filter_by_column, True, 1),
        (inspect_columns, True, 375),
        (read_all_columns, False, 71),
        (read_all_columns, True, 74),
    ],
)
def test_calls_for_each_column(files_of_columns, run, page_index, most):
    assert calls_for_each(run, files_of_columns, 200, page_index) <= most


def test_calls_for_each_column_of_an_indexed_file(files_of_columns):
    """The fingerprint of the layout, which is of all chunks, is not computed to open the file."""

    def write(columns, page_index):
        path = files_of_columns(columns, page_index)
        ia.attach(path, [ia.Distinct("c9")])
        return path

    try:
        assert calls_for_each(filter_by_column, write, 200, True) <= 21
    finally:
        ia.detach([files_of_columns(columns, True) for columns in (200, 400)])


def test_calls_of_attach_for_each_column(files_of_columns):
    """Chunks that do not change are copied."""

    def attach_and_detach(path):
        ia.attach(path, [ia.Distinct("c9")])
        ia.detach(path)

    assert calls_for_each(attach_and_detach, files_of_columns, 200, True) <= 302


def test_embedded_indexes_are_detached_without_a_look_at_chunks(files_of_columns):
    """The chunks of both footers were parsed to find the structures that were added to them."""

    def calls_of_detach(columns):
        path = files_of_columns(columns, True)
        ia.attach(path, [ia.Distinct("c9")])
        report, number = python_calls(lambda: ia.detach(path))
        assert (report.detached, report.removed) == (True, ("distinct(c9):page",))
        return number

    calls_of_detach(30)  # loads the modules
    assert calls_of_detach(300) <= calls_of_detach(30) + 27


def test_attaching_again_parses_the_chunks_of_one_footer(files_of_columns):
    def attach_twice(path, second):
        try:
            ia.attach(path, [ia.Distinct("c9")])
            return python_calls(lambda: ia.attach(path, [ia.Distinct(second)]))[1]
        finally:
            ia.detach(path)

    attach_twice(files_of_columns(30, True), "c8")  # loads the modules
    counts = [attach_twice(files_of_columns(columns, True), "c8") for columns in (200, 400)]
    assert (counts[1] - counts[0]) / 200 <= 132


def test_an_attached_index_costs_no_calls_for_the_other_columns(files_of_columns):
    def calls_of_ten_more(columns):
        path = files_of_columns(columns, True)

        def calls(indexes):
            kinds = [ia.Distinct(f"c{ordinal}") for ordinal in range(indexes)]
            try:
                return python_calls(lambda: ia.attach(path, kinds))[1]
            finally:
                ia.detach(path)

        calls(1)  # loads the modules
        return calls(20) - calls(10)

    few, many = calls_of_ten_more(30), calls_of_ten_more(300)
    assert 0 < many < few * 1.05


TEXTS = pa.array(["a", None, "a text of more than twelve bytes"])
VIEWS = TEXTS.cast(pa.string_view())


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, 3]),
        TEXTS,
        VIEWS,
        TEXTS.cast(pa.binary()).cast(pa.binary_view()),
        TEXTS.dictionary_encode(),
        pa.ListArray.from_arrays([0, 2, 2, 3], TEXTS),
        pa.ListArray.from_arrays([0, 2, 2, 3], VIEWS),
        pa.StructArray.from_arrays([VIEWS], ["text"]),
        pa.array([[("k", 1)], None, []], pa.map_(pa.string_view(), pa.int8())),
        pa.ExtensionArray.from_storage(
            pa.json_(pa.string_view()), pa.array(["1", None, "2"], pa.string_view())
        ),
    ],
    ids=lambda values: str(values.type)[:40],
)
def test_scattered_rows_cost_no_calls(tmp_path, values):
    """Selecting every tenth row takes as many calls as selecting few of them."""

    def calls_with(repetitions):
        path = tmp_path / f"{repetitions}.parquet"
        column = pa.concat_arrays([values] * repetitions)
        numbers = np.arange(len(column))
        table = pa.table({"digit": numbers % 10, "values": column})
        pq.write_table(table, path, write_batch_size=len(column))  # pyarrow has no slices of nested views

        def scan():
            found = ia.open(path).scan("digit = 3", columns=["values"]).to_arrow()
            assert found["values"].type == column.type
            assert found["values"].to_pylist() == column.to_pylist()[3::10]

        scan()
        return calls(lambda: ia.open(path).scan("digit = 3", columns=["values"]).to_arrow())

    assert calls_with(3000) <= 1.1 * calls_with(300)


def test_row_groups_with_scattered_rows_are_read_together(tmp_path):
    """The pages of each of them are planned, but they are decoded in one call and filtered in another."""

    def calls_with(num_groups):
        path = tmp_path / f"{num_groups}.parquet"
        numbers = np.random.default_rng(5).permutation(num_groups * 10_000)
        table = pa.table({"digit": numbers % 10, "number": numbers, "amount": numbers / 7})
        options = {"write_page_index": True, "max_rows_per_page": 1_000, "use_dictionary": ["digit"]}
        pq.write_table(table, path, row_group_size=10_000, **options)

        def scan():
            return ia.open(path).scan("digit = 3", columns=["number", "amount"])

        assert scan().to_arrow().equals(table.filter(pc.equal(table["digit"], 3)).select([1, 2]))
        assert len(list(scan())) == num_groups  # an iterator reads no further than it is taken
        return calls(lambda: scan().to_arrow())

    few, many = calls_with(16), calls_with(32)
    assert many - few <= 16 * 760


def test_few_rows_of_large_row_groups_are_read_together(tmp_path):
    """Only the pages that are read limit how many row groups are a run."""
    path = tmp_path / "f.parquet"
    random = np.random.default_rng(5)
    num_rows = 1_200_000
    table = pa.table({"id": np.arange(num_rows), "a": random.random(num_rows), "b": random.random(num_rows)})
    options = {"write_page_index": True, "max_rows_per_page": 1_000, "use_dictionary": False}
    pq.write_table(table, path, row_group_size=100_000, **options)
    opened = ia.open(path)

    def scan(num_groups):
        wanted = [100_000 * group + 77_777 for group in range(num_groups)]
        found = opened.scan(f"id IN ({', '.join(map(str, wanted))})").to_arrow()
        assert found.equals(table.take(wanted))

    scan(12)
    few, many = calls(lambda: scan(2)), calls(lambda: scan(12))
    assert many - few <= 10 * 850


def test_calls_of_verify_for_each_row_group_of_a_histogram(tmp_path):
    """Each row group was queried for its estimates, which add up those of all row groups."""

    def calls_of_verify(row_groups):
        path = tmp_path / f"{row_groups}.parquet"
        values = pa.array(np.arange(row_groups * 8192))
        pq.write_table(pa.table({"id": values}), path, row_group_size=8192, use_dictionary=False)
        ia.attach(path, [ia.Histogram("id")])
        report, number = python_calls(lambda: ia.verify(path))
        assert report.findings == ()
        return number

    calls_of_verify(1)  # loads the modules
    few, more, many = map(calls_of_verify, (8, 16, 32))
    assert many - more <= 2.2 * (more - few)
