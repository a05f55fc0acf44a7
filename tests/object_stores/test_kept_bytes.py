"""Bytes of a remote file that are read once and kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from intarsia.storage import ByteRange, CountedSource, MemorySource

DATA = bytes(range(256)) * 4


class FarSource(MemorySource):
    """Bytes that coalesce, as in an object store."""

    coalesce_bytes = 20


places = st.tuples(st.integers(0, len(DATA)), st.integers(0, 200)).map(
    lambda found: ByteRange(found[0], min(len(DATA), found[0] + found[1]))
)


@given(
    st.lists(st.tuples(st.sampled_from(["read", "keep", "zone"]), st.lists(places, max_size=4)), max_size=8)
)
def test_reads_return_the_bytes_of_the_file(steps):
    source = CountedSource(FarSource(DATA))
    for step, ranges in steps:
        if step == "keep":
            source.keep(ranges)
        elif step == "zone" and ranges:
            source.keep_when_read(ranges[0])
        else:
            assert source.read_ranges(ranges) == [DATA[start:stop] for start, stop in ranges]


@given(st.lists(places, min_size=1, max_size=5))
def test_kept_ranges_are_not_requested_again(ranges):
    source = CountedSource(FarSource(DATA))
    source.keep(ranges)
    before = source.counts.requests
    source.read_ranges(ranges)
    source.keep(ranges)
    assert source.counts.requests == before


def test_a_zone_is_read_with_the_other_ranges():
    source = CountedSource(FarSource(DATA))
    source.keep_when_read(ByteRange(500, 600))
    source.read_ranges([ByteRange(0, 10)])
    assert (source.counts.requests, source.counts.bytes) == (1, 10)
    source.read_ranges([ByteRange(100, 110), ByteRange(550, 560)])
    assert (source.counts.requests, source.counts.bytes) == (3, 120)
    source.read_ranges([ByteRange(500, 510), ByteRange(590, 600)])
    assert source.counts.requests == 3


def test_bytes_between_ranges_are_kept_for_the_next_read():
    source = CountedSource(FarSource(DATA))
    source.read_ranges([ByteRange(0, 10), ByteRange(25, 30)])
    source.read_ranges([ByteRange(5, 28)])
    assert (source.counts.requests, source.counts.bytes) == (1, 30)


def test_a_local_file_keeps_nothing():
    source = CountedSource(MemorySource(DATA))
    source.read_ranges([ByteRange(0, 10), ByteRange(25, 30)])
    source.read_ranges([ByteRange(0, 10)])
    assert source.counts.requests == 3
