"""One function attaches, computes a dry run, and proves from the footer that nothing is to be done."""

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed.attach import attach_in, checked_indexes, unchanged_report
from intarsia.file import ParquetInput
from intarsia.storage import LocalFile


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "t.parquet")
    rows = {
        "s": [str(n % 7) for n in range(500)],
        "x": range(500),
        "t": pa.array(range(500), pa.timestamp("ns")),
    }
    pq.write_table(pa.table(rows), path, row_group_size=200, use_deprecated_int96_timestamps=True)
    return path


def timeless(report):
    return dataclasses.replace(report, seconds=0)


@pytest.mark.parametrize("index", [ia.PageIndex(), ia.Statistics(), ia.Bloom("s"), ia.Distinct("s")], ids=str)
def test_a_dry_run_reports_the_run_and_writes_nothing(path, index):
    before = Path(path).read_bytes()
    with ParquetInput(LocalFile(path)) as file:
        dry = attach_in(file, checked_indexes(index))
    assert Path(path).read_bytes() == before
    assert timeless(dry) == timeless(ia.attach(path, index))
    assert dry.bytes_after > dry.bytes_before


def test_the_footer_shows_that_nothing_is_to_be_done(path):
    indexes = checked_indexes([ia.PageIndex(), ia.Statistics(), ia.Distinct("s")])
    with ParquetInput(LocalFile(path)) as file:
        assert unchanged_report(file, indexes) is None
    ia.attach(path, indexes)
    with ParquetInput(LocalFile(path)) as file:
        assert file.footer.num_rows == 500
        requests = file.source.counts.requests
        found = unchanged_report(file, indexes)
        assert file.source.counts.requests == requests
    assert found is not None
    again = ia.attach(path, indexes)
    assert not again.changed
    assert timeless(found) == timeless(again)


@pytest.mark.parametrize(
    "index", [ia.Bloom("s"), ia.PageIndex(int96="order"), ia.Statistics(), ia.ZoneMap("x")], ids=str
)
def test_what_is_missing_has_to_be_built(path, index):
    ia.attach(path, [ia.PageIndex(), ia.Distinct("s")])
    with ParquetInput(LocalFile(path)) as file:
        assert unchanged_report(file, checked_indexes(index)) is None
