"""Bytes that were read in several ranges are given back as they were read, or in one part."""

import contextlib

import pytest

from intarsia.file.fetch import PageCache
from intarsia.storage import ByteRange, CountedSource, LocalFile

DATA = bytes(range(200))


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(DATA)
    with contextlib.closing(CountedSource(LocalFile(str(path)))) as file:
        yield file


def test_ranges_that_were_read_apart_are_not_copied(source):
    cache = PageCache(source)
    pages = cache.fetch([ByteRange(50, 90)]).parts[0]
    found = cache.fetch([ByteRange(20, 50), ByteRange(50, 90), ByteRange(100, 110)], join=False)
    assert found.parts == [DATA[20:50], DATA[50:90], DATA[100:110]]
    assert found.parts[1] is pages
    assert source.counts.bytes == 40 + 30 + 10


def test_positions_of_several_parts(source):
    cache = PageCache(source)
    cache.fetch([ByteRange(50, 90)])
    found = cache.fetch([ByteRange(20, 90)], join=False)
    start, stop = found.position(20), found.position(89) + 1
    assert found.part(start) == (DATA[20:50], 0)
    assert found.part(found.position(60)) == (DATA[50:90], 10)
    assert found.between(found.position(60), stop) == (DATA[50:90], 10)
    assert found.between(start, stop) == (DATA[20:90], 0)
    assert [found.offset(at) for at in (start, found.position(60))] == [20, 60]


def test_one_part(source):
    cache = PageCache(source)
    cache.fetch([ByteRange(50, 90)])
    found = cache.fetch([ByteRange(20, 60), ByteRange(150, 160)])
    assert found.parts == [DATA[20:60] + DATA[150:160]]
    assert cache.fetch([ByteRange(155, 160)]).parts == [DATA[155:160]]
    assert source.counts.bytes == 40 + 30 + 10


def test_bytes_of_a_leaf_in_three_parts(source):
    """With a limit, the pages of a column are read in several parts."""
    cache = PageCache(source)
    cache.fetch([ByteRange(50, 60)])
    cache.fetch([ByteRange(70, 80)])
    found = cache.fetch([ByteRange(55, 90)], join=False)
    assert found.parts == [DATA[55:60], DATA[60:70], DATA[70:80], DATA[80:90]]
    assert found.between(2, 33) == (DATA[57:88], 0)
