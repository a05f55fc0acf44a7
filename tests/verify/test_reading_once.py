"""`verify` holds every rule against a file in one pass: no byte of a page or an index is read twice."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.check import verification
from intarsia.check.verification.following import Follower
from intarsia.embed.column_data import FileColumns
from intarsia.file import REMOTE_TAIL_BYTES
from intarsia.storage import ByteRange, CountedSource, LocalFile
from intarsia.write import write_table

ROWS, GROUPS = 12_000, 3

EVERY_INDEX = [
    *(ia.PageIndex(), ia.Statistics(), ia.Bloom("id"), ia.Bloom("word")),
    *(ia.RowMap("id"), ia.BloomGranule("id"), ia.Hll("id"), ia.Distinct("country"), ia.ZoneMap("amount")),
    *(ia.Histogram("amount"), ia.Ngram("word", max_grams=2000), ia.Sample(100)),
    *(ia.Distinct("s.x", granularity="row_group"), ia.ZoneMap("id", granularity=1000)),
]


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A file with everything that is verified."""
    random = np.random.default_rng(7)
    numbers = random.permutation(ROWS)
    table = pa.table(
        {
            "day": np.sort(random.integers(0, 400, ROWS)),
            "id": numbers,
            "amount": random.random(ROWS),
            "country": [f"country {number % 50}" for number in numbers.tolist()],
            "word": [f"{number:x} and more" for number in numbers.tolist()],
            "s": [{"x": number % 7} for number in numbers.tolist()],
            "l": [[number, None] for number in numbers.tolist()],
        }
    )
    path = tmp_path_factory.mktemp("once") / "full.parquet"
    write_table(table, path, indexes=EVERY_INDEX, row_group_size=ROWS // GROUPS, sort_by=["day"])
    return path


class Recorded(LocalFile):
    """A file, and what was read of it."""

    def __init__(self, path):
        super().__init__(path)
        self.places = []

    def read_ranges(self, ranges):
        self.places += ranges
        return super().read_ranges(ranges)


@pytest.fixture
def opened(monkeypatch):
    """The files that `verify` opens; the counts are those of requests to the storage."""
    found = []

    def open_source(path):
        recorded = Recorded(path)
        found.append((recorded, CountedSource(recorded)))
        return found[-1][1]

    monkeypatch.setattr(verification, "open_source", open_source)
    return found


def test_each_byte_is_read_once(full, opened):
    report = verification.verify(full)
    assert report.findings == ()
    embedded = [index for index in EVERY_INDEX if hasattr(index, "columns")]
    assert report.checked["embedded_indexes"] == report.checked["embedded_rebuilt"] == len(embedded)
    assert report.checked["sorting_orders"] == GROUPS
    assert report.checked["bloom_filters"] == 2 * GROUPS
    ((recorded, counted),) = opened
    assert counted.counts.bytes <= 1.1 * recorded.size()
    assert max(readings(recorded.places, chunks(full)).values()) == 1


def test_each_byte_is_read_once_of_a_remote_file(full, opened, monkeypatch):
    """On a storage that fetches adjacent ranges in one request."""
    monkeypatch.setattr(Recorded, "coalesce_bytes", 1 << 20)
    assert verification.verify(full).findings == ()
    ((recorded, counted),) = opened
    assert counted.counts.bytes - REMOTE_TAIL_BYTES <= 1.1 * recorded.size()  # read for the footer


def test_an_index_that_is_another_one_has_its_column_read_again(full, opened, monkeypatch):
    real = ia.ZoneMap.build
    monkeypatch.setattr(ia.ZoneMap, "build", lambda self, chunk: real(self, chunk) + b"\0")
    rules = {finding.rule for finding in verification.verify(full).findings}
    assert rules == {"index-not-reproduced"}
    ((recorded, _),) = opened
    again = readings(recorded.places, chunks(full))
    assert {name for (_, name), count in again.items() if count > 1} == {"amount", "id"}


def test_indexes_that_are_too_large_to_be_held_are_compared_one_by_one(full, opened, monkeypatch):
    monkeypatch.setattr(verification, "_FOLLOWING_BYTES", 0)
    assert verification.verify(full).findings == ()
    ((recorded, counted),) = opened
    assert counted.counts.bytes > 1.5 * recorded.size()


def test_one_column_is_in_memory_at_a_time(tmp_path, opened, monkeypatch):
    """Columns are released after their last use; shared ones after their row group."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": range(4000), "b": range(4000)}), path, row_group_size=1000)
    ia.attach(path, ia.Distinct("b", granularity="row_group"))
    held = []
    real = verification.check_row_group_size

    def look(footer, row_group, findings):
        (source,) = sources
        held.append(len(source._held))
        return real(footer, row_group, findings)

    sources = []
    make = verification.HeldBytes
    monkeypatch.setattr(verification, "HeldBytes", lambda source: sources.append(make(source)) or sources[-1])
    monkeypatch.setattr(verification, "check_row_group_size", look)
    assert verification.verify(path).ok
    assert len(set(held)) == 1
    assert len(held) == 4


def test_an_error_of_the_storage_ends_all_that_follows(full, opened, monkeypatch):
    """It is raised as it is, and no thread is left behind."""
    before = threading.active_count()
    real = Recorded.read_ranges

    def fails_late(self, ranges):
        if len(self.places) > 60:  # about the middle of the data
            raise ia.ObjectStoreError("gone", reason="gone")
        return real(self, ranges)

    monkeypatch.setattr(Recorded, "read_ranges", fails_late)
    with pytest.raises(ia.ObjectStoreError) as caught:
        verification.verify(full)
    assert caught.value.reason == "gone"
    assert threading.active_count() == before


def test_an_error_within_a_follower_is_raised_by_the_pass(full, monkeypatch):
    before = threading.active_count()
    real = FileColumns._read_columns

    def fails(self, row_group, leaves, **options):
        if row_group == GROUPS - 1:
            self._before_row_group(row_group)
            raise ia.ReplacedWhileReadError("replaced")
        return real(self, row_group, leaves, **options)

    monkeypatch.setattr(FileColumns, "_read_columns", fails)
    with pytest.raises(ia.ReplacedWhileReadError):
        verification.verify(full)
    assert threading.active_count() == before


def test_work_that_catches_everything_is_left_all_the_same():
    def stubborn(wait_for):
        for row_group in range(5):
            try:
                wait_for(row_group)
            except Exception:  # noqa: BLE001 - as a third-party index may do
                continue
        return "done"

    before = threading.active_count()
    follower = Follower(stubborn)
    follower.follow(1)
    follower.leave()
    assert threading.active_count() == before
    unused = Follower(stubborn)
    unused.leave()
    assert Follower(stubborn).finish() == "done"


def chunks(path):
    """Return the locations of the chunks of a file, by row group and column."""
    metadata = pq.read_metadata(path)
    found = {}
    for row_group in range(metadata.num_row_groups):
        for ordinal in range(metadata.num_columns):
            chunk = metadata.row_group(row_group).column(ordinal)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            place = ByteRange(start, start + chunk.total_compressed_size)
            found[row_group, chunk.path_in_schema] = place
    return found


def readings(places, chunks):
    """Return the number of reads of each chunk."""
    return {
        key: sum(place.start < chunk.stop and place.stop > chunk.start for place in places)
        for key, chunk in chunks.items()
    }
