"""`verify` holds every rule against a file in one pass: no byte of a page or an index is read twice."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.check.verification import verify_source
from intarsia.check.verification.embedded import Follower
from intarsia.file import REMOTE_TAIL_BYTES
from intarsia.indexes import Index
from intarsia.storage import BufferedSource, ByteRange, CountedSource, LocalFile
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


class Remote(Recorded):
    """Ranges that lie close together are fetched in one request."""

    coalesce_bytes = 1 << 20


def verified(path, source=Recorded, **options):
    """Verify a file; return the report, the file, and the counts of what is asked of the storage."""
    recorded = source(path)
    counted = CountedSource(recorded)
    return verify_source(counted, **options), recorded, counted.counts


def test_each_byte_is_read_once(full):
    report, recorded, counts = verified(full)
    assert report.findings == ()
    embedded = [index for index in EVERY_INDEX if hasattr(index, "build")]
    assert report.checked["embedded_indexes"] == report.checked["embedded_rebuilt"] == len(embedded)
    assert report.checked["sorting_orders"] == GROUPS
    assert report.checked["bloom_filters"] == 2 * GROUPS
    assert counts.bytes <= 1.1 * recorded.size()
    assert max(readings(recorded.places, chunks(full)).values()) == 1


def test_each_byte_is_read_once_of_a_remote_file(full):
    report, recorded, counts = verified(full, Remote)
    assert report.findings == ()
    assert counts.bytes - REMOTE_TAIL_BYTES <= 1.1 * recorded.size()  # read for the footer


@dataclass(frozen=True)
class Longer(ia.ZoneMap):
    """A zone map with one more byte."""

    def build(self, chunk):
        return super().build(chunk) + b"\0"


def test_an_index_that_is_another_one_has_its_column_read_again(full, tmp_path):
    path = tmp_path / "full.parquet"
    path.write_bytes(full.read_bytes())
    ia.attach(path, [Longer("day"), Longer("id", granularity=500)])
    report, recorded, _ = verified(path)
    assert {finding.rule for finding in report.findings} == {"index-not-reproduced"}
    again = readings(recorded.places, chunks(path))
    assert {name for (_, name), count in again.items() if count > 1} == {"day", "id"}


def test_indexes_that_are_too_large_to_buffer_are_compared_one_by_one(full):
    report, recorded, counts = verified(full, following_bytes=0)
    assert report.findings == ()
    assert counts.bytes > 1.5 * recorded.size()


def test_the_number_of_threads_does_not_grow_with_that_of_indexes(full):
    before, found = threading.active_count(), set()
    report = verify_source(
        LocalFile(full), following_indexes=3, progress=lambda *_: found.add(threading.active_count() - before)
    )
    assert report.findings == ()
    assert report.checked["embedded_rebuilt"] == sum(isinstance(index, Index) for index in EVERY_INDEX)
    assert 0 < max(found) <= 2 * 3


class Watched(BufferedSource):
    """Counts the pieces that are in memory."""

    num_buffered = 0

    @contextmanager
    def buffering(self):
        before = self.num_buffered
        with super().buffering() as buffer:

            def counted(start, data):
                self.num_buffered += bool(data)
                buffer(start, data)

            yield counted
        self.num_buffered = before


def test_one_column_is_in_memory_at_a_time(tmp_path):
    """Columns are released after their last use; shared ones after their row group."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": range(4000), "b": range(4000)}), path, row_group_size=1000)
    ia.attach(path, ia.Distinct("b", granularity="row_group"))
    source, seen = Watched(LocalFile(path)), []
    report = verify_source(source, progress=lambda _, _all, name: seen.append((name, source.num_buffered)))
    assert report.ok
    assert seen[:8] == [("a", seen[0][1]), ("b", seen[1][1])] * 4
    assert seen[0][1] < seen[1][1]


class FailsLate(Recorded):
    """A file that cannot be read to its end."""

    def read_ranges(self, ranges):
        if len(self.places) > 60:  # about the middle of the data
            raise ia.ObjectStoreError("gone", reason="gone")
        return super().read_ranges(ranges)


def test_an_error_of_the_storage_ends_all_that_follows(full):
    """It is raised as it is, and no thread is left behind."""
    before = threading.active_count()
    with pytest.raises(ia.ObjectStoreError) as caught:
        verified(full, FailsLate)
    assert caught.value.reason == "gone"
    assert threading.active_count() == before


@dataclass(frozen=True)
class FailsAgain(ia.Distinct):
    """An index that finds the file replaced when it is built once more."""

    kind: ClassVar[str] = "fails_again"
    built: ClassVar[list[int]] = []

    def build(self, chunk):
        payload = super().build(chunk)
        self.built.append(1)
        if len(self.built) > 1:
            raise ia.ReplacedWhileReadError("replaced")
        return payload


def test_an_error_within_a_follower_is_raised_by_the_pass(tmp_path, announce_class, monkeypatch):
    monkeypatch.setattr(FailsAgain, "built", [])
    announce_class(FailsAgain)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": range(4000)}), path, row_group_size=1000)
    ia.attach(path, FailsAgain("a"))
    before = threading.active_count()
    with pytest.raises(ia.ReplacedWhileReadError):
        ia.verify(path)
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
    follower.abort()
    assert threading.active_count() == before
    unused = Follower(stubborn)
    unused.abort()
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
