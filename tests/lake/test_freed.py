"""The memory of a table is freed with the last reference to it, without a collection of garbage."""

import gc
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.file.metadata import FileMetadata
from intarsia.lake.index.segment import Segment
from tests.lake.index.lakes import age


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    for ordinal in range(5):
        path = folder / f"{ordinal}.parquet"
        numbers = range(1000 * ordinal, 1000 * ordinal + 1000)
        rows = pa.table({"n": numbers, "word": [f"word {number % 7}" for number in numbers]})
        pq.write_table(rows, path, row_group_size=250, write_page_index=True)
        ia.attach(path, [ia.Distinct("word"), ia.ZoneMap("n")])
        age(path)
    return folder


QUERIES = {
    "rows": lambda table: table.scan("n < 1500 AND word = 'word 3'").to_arrow(),
    "batches": lambda table: list(table.scan("n < 1500")),
    "first rows": lambda table: table.scan("word = 'word 3'", order_by="n DESC", limit=3).to_arrow(),
    "report": lambda table: table.scan("n < 1500").report.to_dict(),
    "explain": lambda table: table.explain("n < 1500", analyze=True),
    "map": lambda table: table.scan("n < 1500").map(),
    "plan": lambda table: table.plan("n < 1500"),
    "count": lambda table: table.count("word = 'word 3'"),
    "aggregate": lambda table: table.aggregate({"n": ["sum", "max"]}, where="n > 1500"),
    "value counts": lambda table: table.value_counts("word"),
    "sample": lambda table: table.sample(3),
    "dataset": lambda table: table.dataset().to_table(),
    "prepared": lambda table: table.prepare("n = ?").scan([7]).to_arrow(),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("of", ["lake", "file"])
def test_no_footer_stays(lake, name, of):
    source = lake if of == "lake" else lake / "1.parquet"
    assert footers_left(source, QUERIES[name]) == 0


@pytest.mark.parametrize("name", QUERIES)
def test_no_segment_stays(lake, tmp_path, name):
    """Segments and their families referred to each other."""
    folder = shutil.copytree(lake, tmp_path / "lake")
    ia.open(folder).build_lake_index()
    assert num_left(Segment, folder, QUERIES[name]) == 0


def test_a_table_that_is_used_keeps_its_footers(lake):
    kept = []
    assert footers_left(lake, lambda table: kept.append((table, table.count("n < 10")))) >= 5


def test_footers_of_replaced_files_are_dropped(tmp_path):
    """Those of files that were joined stayed with the joined footers, up to the limit of the cache."""
    paths = [tmp_path / f"{ordinal}.parquet" for ordinal in range(5)]

    def replace(path, number):
        pq.write_table(pa.table({"n": [number, number + 1]}), path)
        age(path)

    for path in paths:
        replace(path, 0)
    table = ia.open(tmp_path)
    gc.collect()
    before = num_objects(FileMetadata)
    for number in range(20):
        replace(paths[number % 5], number)
        assert table.count(f"n = {number}") >= 1
    gc.collect()
    assert num_objects(FileMetadata) - before <= 2 * len(paths)


def footers_left(source, query):
    """Run a query of a new table, and return how many more footers are in memory afterwards."""
    return num_left(FileMetadata, source, query)


def num_left(of, source, query):
    gc.collect()
    before = num_objects(of)
    gc.disable()
    try:
        query(ia.open(source))
        return num_objects(of) - before
    finally:
        gc.enable()


def num_objects(of):
    return sum(isinstance(one, of) for one in gc.get_objects())
