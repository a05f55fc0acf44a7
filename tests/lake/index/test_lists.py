"""A lake index excludes files by conditions on the elements of lists."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.lake.index.lakes import age

FILES, ROWS = 20, 60


def lists_of(file):
    """Return the lists of a file: ascending numbers by file, and texts that are spread over all files."""
    numbers = [[None, row + ROWS * file, ROWS * file][: row % 4] for row in range(ROWS)]
    texts = [None if row % 5 == 0 else [f"u{(row + ROWS * file) * 7919 % 100_003}"] for row in range(ROWS)]
    return numbers, texts


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lists")
    for file in range(FILES):
        numbers, texts = lists_of(file)
        path = folder / f"{file:02}.parquet"
        table = pa.table(
            {
                "file": pa.repeat(file, ROWS),
                "numbers": numbers,
                "texts": texts,
                "same": [[7] * (row % 2) for row in range(ROWS)],
            }
        )
        pq.write_table(table, path, row_group_size=25)
        ia.attach(path, [ia.Bloom("texts")])
        age(path)
    ia.open(folder).build_lake_index("beside")
    return folder


def has(column, value):
    return ia.Comparison(ia.Call("array_contains", column, (value,)), "=", True)


@pytest.mark.parametrize(
    ("column", "value", "index"),
    [
        ("numbers", 5 * ROWS + 2, "statistics"),
        ("numbers", -1, "statistics"),
        ("texts", f"u{(7 * ROWS + 1) * 7919 % 100_003}", "bloom_filter"),
        ("texts", "u50000x", "bloom_filter"),
    ],
)
def test_only_files_that_can_have_the_element_are_opened(lake, column, value, index):
    scan = ia.open(lake).scan(has(column, value), ["file"])
    lists = [(file, lists_of(file)[column == "texts"]) for file in range(FILES)]
    expected = [file for file, values in lists for one in values if value in (one or ())]
    assert scan.to_arrow()["file"].to_pylist() == expected
    assert scan.report.files_opened <= len(set(expected)) + 1  # a filter may have a false positive
    assert (index, column) in scan.report.pruned_by


def test_bounds_of_elements_prove_no_match_of_rows(lake):
    """Each element is 7, but half of the lists are empty."""
    table = ia.open(lake)
    assert table.count(has("same", 7)) == FILES * ROWS // 2
    assert table.scan(has("same", 7), ["same"]).to_arrow()["same"].to_pylist() == [[7]] * (FILES * ROWS // 2)
    assert table.count(has("same", 8)) == 0
