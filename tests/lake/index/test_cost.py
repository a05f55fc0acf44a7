"""The cost of a plan with a lake index: requests, bytes, opened files and calls, and how they grow."""

from __future__ import annotations

import os

import pytest

import intarsia as ia
from tests.counting import calls
from tests.lake.index.lakes import INDEXES, make_lake, rows_of_day, write


def linked_lake(folder, num_files):
    """Write a lake of the same file under many names."""
    write(folder / "0.parquet", rows_of_day(7), INDEXES, row_group_size=50)
    for ordinal in range(1, num_files):
        os.link(folder / "0.parquet", folder / f"{ordinal}.parquet")
    ia.open(folder).build_lake_index("beside")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = make_lake(tmp_path_factory.mktemp("cost") / "lake", 40)
    ia.open(folder).build_lake_index("beside")
    return folder


@pytest.mark.parametrize(
    ("where", "index", "most_bytes"),
    [
        # the parts that a condition needs: the bounds of a column, and a block of each filter for a value
        ("user = 1", "bloom_filter", 40 * 40 + 5000),
        ("id = 1", "row_map(id):file", 40 * 40 + 5000),
        ("country = 'nowhere 1'", "statistics", 5000),
        ("country = 'country 1000'", "distinct(country):page", 25_000),
        ("url LIKE '%nowhere%'", "ngram(url):page", 5 * 40 * 40 + 5000),
        ("day = 1000", "statistics", 5000),
    ],
)
def test_a_condition_reads_the_parts_of_the_lake_index_that_it_needs(lake, where, index, most_bytes):
    table = ia.open(lake)
    assert table.schema.names  # opens the lake index
    scan = table.scan(where)
    assert scan.to_arrow().num_rows == 0
    report = scan.report
    assert {name for name, _ in report.pruned_by} <= {"statistics", index}
    assert report.files_opened <= 1  # a filter may have a false positive
    if report.files_opened == 0:
        assert report.bytes_read == report.bytes_index <= most_bytes
        assert report.requests <= 6


def test_filters_that_are_unlikely_to_exclude_a_long_list_are_not_read(tmp_path):
    folder = make_lake(tmp_path / "lake", 40, (ia.Bloom("user"),))
    ia.open(folder).build_lake_index("beside")
    users = list(range(0, 40 * 3100, 155))
    found = []
    for where in (f"user IN ({', '.join(map(str, users))})", "user >= 0"):
        table = ia.open(folder)
        assert table.schema.names  # opens the lake index
        scan = table.scan(where, ["user"])
        assert set(users) <= set(scan.to_arrow()["user"].to_pylist())
        found.append(scan.report.bytes_index)
    assert found[0] == found[1]  # the bounds


def test_what_was_read_of_the_lake_index_is_not_read_again(lake):
    table = ia.open(lake)
    first, second = table.scan("day = 1000"), table.scan("day = 1001")
    assert (first.count(), second.count()) == (0, 0)
    assert first.report.bytes_read > 0
    assert (second.report.bytes_read, second.report.requests) == (0, 0)


def test_totals_of_files_in_which_all_rows_match_open_no_file(lake):
    table = ia.open(lake)
    functions = {"amount": ["sum", "min", "max", "count", "avg"], "user": ["min", "max"], "*": "count"}
    assert table.count() == 4000
    answer = table.aggregate(functions)
    assert answer.report.files_opened == 0
    answer = table.aggregate(functions, "day >= 10 AND day < 30")
    assert (answer["*"]["count"], answer.report.files_opened) == (2000, 0)
    assert answer.report.answered_by["zone_map(amount):page", "amount"].files == 20
    assert answer.report.pruned_by["statistics", "day"].files == 20


def test_without_a_predicate_no_index_in_the_lake_index_is_read(lake):
    """It has the footers, too."""
    scan = ia.open(lake).scan(columns=["user"])
    scan.to_arrow()
    assert scan.report.bytes_index == 0


def test_an_opened_file_has_its_footer_from_the_lake_index(lake):
    tables = ia.open(lake), ia.open(str(lake / "day-003.parquet"))
    assert tables[0].schema == tables[1].schema  # opens the lake index
    with_index, alone = (table.scan("user = 9300", ["user"]) for table in tables)
    assert with_index.to_arrow().equals(alone.to_arrow())
    own = with_index.report.requests - alone.report.requests
    assert own <= 5  # the blocks, the bounds and the footer, which was read for the schema of the file alone


@pytest.fixture(scope="module")
def growing(tmp_path_factory):
    """Lakes of 100 and 400 files."""
    folders = [tmp_path_factory.mktemp(f"files-{number}") for number in (100, 400)]
    for folder, number in zip(folders, (100, 400), strict=True):
        linked_lake(folder, number)
    return folders


def test_calls_grow_slowly_with_the_number_of_files(growing):
    counts = []
    for folder in growing:
        table = ia.open(folder)
        assert table.count("user = 1") == 0
        counts.append(calls(lambda table=table: table.count("user = 1")))
    assert (counts[1] - counts[0]) / 300 < 5  # a stat and a comparison for each file


def test_calls_of_opening_grow_slowly_with_the_number_of_files(growing):
    counts = [calls(lambda folder=folder: ia.open(folder).count("user = 1")) for folder in growing]
    assert (counts[1] - counts[0]) / 300 < 50


def test_many_files_that_are_left_are_planned_together(lake):
    table = ia.open(lake)

    def scanned(num_files):
        users = [day * 3100 for day in range(num_files)]
        scan = table.scan(f"user IN ({', '.join(map(str, users))})", ["user"])
        assert sorted(scan.to_arrow()["user"].to_pylist()) == users
        assert scan.report.files_opened == num_files
        return calls(scan.to_arrow)

    few, many = scanned(20), scanned(40)
    assert (many - few) / 20 < 950  # a file that is planned alone takes about 1,500


def test_a_limit_reads_the_footers_of_the_files_that_may_suffice(tmp_path):
    """The footers of all files were read from the lake index, also if the first file had the rows."""
    linked_lake(tmp_path / "lake", 300)
    scans = {limit: ia.open(tmp_path / "lake").scan("user >= 0", limit=limit) for limit in (1, 7000, 30_001)}
    for limit, scan in scans.items():
        assert scan.to_arrow().num_rows == min(limit, 300 * 100)
    assert scans[1].report.requests <= 64 + 15
    assert scans[7000].report.requests <= (64 + 128) + 128 + 15
    assert scans[30_001].report.files_read == 300
