"""Scans of one table share its metadata: a page index that one scan finds wrong is ignored by all."""

from __future__ import annotations

import os
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.format.structs import OffsetIndex
from intarsia.predicate import bind, parse_sql
from intarsia.read.file_plan import WrongPageIndexError, plan_file
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import read_known_rows, read_rows
from intarsia.read.output_columns import output_columns
from intarsia.storage import LocalFile
from tests.lake.test_metadata_cache import settle
from tests.reading.surgery import Patient

NUM_ROWS, PER_GROUP = 3000, 1000


@pytest.fixture
def lying(tmp_path):
    """A file whose OffsetIndex shifts the pages of both columns by seven rows."""
    path = tmp_path / "x.parquet"
    values = pa.array(range(NUM_ROWS), pa.int64())
    form = {"use_dictionary": False, "data_page_size": 800, "write_batch_size": 100}
    table = pa.table({"a": values, "b": values})
    pq.write_table(table, path, row_group_size=PER_GROUP, write_page_index=True, **form)
    patient = Patient.read(path)
    for group in range(NUM_ROWS // PER_GROUP):
        for leaf in range(2):
            patient.change_index(OffsetIndex, group, leaf, shifted)
    patient.write(path)
    settle(path)
    return path


def shifted(index):
    first, *others = index.page_locations
    moved = [place._replace(first_row_index=place.first_row_index + 7) for place in others]
    return index._replace(page_locations=[first, *moved])


WHERE = "a >= 205 AND a < 1450"
MATCHING = list(range(205, 1450))


class Telling(LocalFile):
    """A file that lets something happen when it is read next."""

    def __init__(self, path):
        super().__init__(str(path))
        self.happens = lambda: None

    def read_ranges(self, ranges):
        self.happens()
        return super().read_ranges(ranges)


def planned(path):
    """Return the source of an open file, its query, and the plan."""
    source = Telling(path)
    file = ParquetInput(source)
    schema = file.arrow_schema
    query = FileQuery.of(file, bind(parse_sql(WHERE), schema), output_columns(schema, ["b"]))
    return source, query, plan_file(query)


def distrust_when_pages_are_fetched(source, query):
    """Let another scan find the page index wrong while pages are fetched."""
    metadata = query.file.metadata
    source.happens = lambda: metadata.distrust_page_index(0, "another scan found it wrong")


def test_the_wrong_index_would_change_the_result(lying):
    """Otherwise the tests below would prove nothing."""
    _, query, plan = planned(lying)
    assert plan.candidates.num_rows < NUM_ROWS
    query.file.metadata.distrust_page_index(0, "known")
    assert plan_file(query).candidates.rows()[0] != plan.candidates.rows()[0]


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_an_index_that_another_scan_finds_wrong(lying, moment):
    source, query, plan = planned(lying)
    if moment == "before":
        query.file.metadata.distrust_page_index(0, "another scan found it wrong")
    else:
        distrust_when_pages_are_fetched(source, query)
    rows = [value for piece in read_rows(query, plan) for value in piece.rows["b"].to_pylist()]
    assert rows == MATCHING
    notes = [note.index for note in query.file.ignored]
    assert notes == ["page index, row group 0", "page index, row group 1"]


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_a_scan_with_rows_from_an_index_starts_again(lying, moment):
    """Reading the whole row group would count rows twice that an index has already answered."""
    source, query, plan = planned(lying)
    if moment == "before":
        query.file.metadata.distrust_page_index(0, "another scan found it wrong")
    else:
        distrust_when_pages_are_fetched(source, query)
    with pytest.raises(WrongPageIndexError) as caught:
        list(read_known_rows(query, plan, plan.candidates))
    assert caught.value.row_group == 0


def test_a_scan_that_was_planned_before_another_found_the_index_wrong(lying, tmp_path):
    ia.open(lying)
    pq.write_table(pa.table({"a": [205], "b": [205]}), tmp_path / "0.parquet")
    settle(tmp_path / "0.parquet")
    table = ia.open([tmp_path / "0.parquet", lying])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        batches = iter(table.scan(WHERE, ["b"]))
        found = next(batches).column(0).to_pylist()
        assert table.count(WHERE) == 1 + len(MATCHING)
        found += [value for batch in batches for value in batch.column(0).to_pylist()]
    assert found == [205, *MATCHING]


def test_every_result_warns(lying):
    """The second result ignores the index from the start, and warns, too."""
    table = ia.open(lying)
    for _ in range(2):
        with pytest.warns(ia.IntarsiaWarning, match="row group 0"):
            assert table.scan(WHERE, ["b"]).to_arrow()["b"].to_pylist() == MATCHING


def test_one_warning_per_file_even_if_a_scan_stops_early(lying):
    for ordinal in range(3):
        shutil.copy2(lying, lying.with_name(f"{ordinal}.parquet"))
    names = ["0.parquet", "1.parquet", "2.parquet", "x.parquet"]
    table = ia.open(lying.parent)
    with pytest.warns(ia.IntarsiaWarning) as caught:
        table.scan(WHERE, ["b"]).to_arrow()
    assert [os.path.basename(str(warning.message).split(":")[0]) for warning in caught] == names
    assert {warning.filename for warning in caught} == {__file__}
    batches = iter(table.scan(WHERE, ["b"]))
    next(batches)
    with pytest.warns(ia.IntarsiaWarning) as caught:
        batches.close()
    assert [os.path.basename(str(warning.message).split(":")[0]) for warning in caught] == names[:1]


def test_many_threads(lying):
    for _ in range(5):
        table = ia.open(lying)

        def answer(ordinal, table=table):
            if ordinal % 3 == 0:
                return table.scan(WHERE, ["b"]).to_arrow()["b"].to_pylist() == MATCHING
            if ordinal % 3 == 1:
                return table.aggregate({"b": ["sum"]}, WHERE)["b"]["sum"] == sum(MATCHING)
            return table.sample(700, seed=ordinal).num_rows == 700

        with warnings.catch_warnings(), ThreadPoolExecutor(8) as pool:
            warnings.simplefilter("ignore", ia.IntarsiaWarning)
            assert all(pool.map(answer, range(24)))
