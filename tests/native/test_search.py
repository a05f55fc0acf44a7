"""Values are found in compressed pages as a search of the decompressed bytes finds them."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia import native
from intarsia.format.enums import CompressionCodec
from tests.effort import examples

pytestmark = pytest.mark.skipif(native.load() is None, reason="needs `make native`")

CODECS = {
    CompressionCodec.UNCOMPRESSED: None,
    CompressionCodec.SNAPPY: "snappy",
    CompressionCodec.GZIP: "gzip",
    CompressionCodec.LZ4: "lz4_hadoop",
    CompressionCodec.ZSTD: "zstd",
    CompressionCodec.LZ4_RAW: "lz4_raw",
}
codec = pytest.mark.parametrize("codec", CODECS)


def compress(values, codec):
    if not CODECS[codec] or not values:
        return values
    if codec != CompressionCodec.LZ4:
        return pa.compress(values, CODECS[codec], asbytes=True)
    # as Hadoop writes it: blocks, before each of which are its sizes
    blocks = [values[at : at + (1 << 16)] for at in range(0, len(values), 1 << 16)]
    bodies = [pa.compress(block, "lz4_raw", asbytes=True) for block in blocks]
    sizes = [struct.pack(">II", len(block), len(body)) for block, body in zip(blocks, bodies, strict=True)]
    return b"".join(part for pair in zip(sizes, bodies, strict=True) for part in pair)


def lacking(body, codec, raw_bytes, width, sought, before=b"", after=b""):
    place = len(before), len(before) + len(body)
    return native.load().lacking(before + body + after, place, codec, raw_bytes, width, sought)


@codec
@settings(max_examples=examples(50))
@given(st.data())
def test_numbers(codec, data):
    width = data.draw(st.sampled_from([4, 8]))
    numbers = data.draw(st.lists(st.integers(0, 300), max_size=400))
    needles = data.draw(st.lists(st.integers(0, 300), min_size=1, max_size=8))
    values = b"".join(number.to_bytes(width, "little") for number in numbers)
    sought = tuple((needle.to_bytes(width, "little"),) for needle in needles)
    body = compress(values, codec)
    expected = not set(numbers) & set(needles)
    found = lacking(body, codec, len(values), width, [sought, None, ()], b"head", b"tail")
    assert found == [expected, False, True]


@codec
@settings(max_examples=examples(50))
@given(st.lists(st.text("ab", max_size=6), max_size=30), st.lists(st.text("ab", max_size=4), max_size=3))
def test_texts(codec, texts, needles):
    values = b"".join(struct.pack("<I", len(text)) + text.encode() for text in texts)
    together = tuple(needle.encode() for needle in needles)
    whole = tuple((struct.pack("<I", len(needle)) + needle.encode(),) for needle in needles)
    expected = [not all(needle in values for needle in together), not any(one in values for (one,) in whole)]
    assert lacking(compress(values, codec), codec, len(values), None, [(together,), whole]) == expected


@codec
def test_damaged_pages_are_refused(codec):
    extension = native.load()
    choice = random.Random(1)
    values = b"".join(choice.randrange(1000).to_bytes(8, "little") for _ in range(2000))
    body, absent = compress(values, codec), [((b"\xff" * 8,),)]
    assert lacking(body, codec, len(values), 8, absent) == [True]
    for raw_bytes in (len(values) - 1, len(values) + 1, -1, 1 << 31, (1 << 63) - 1):
        with pytest.raises(extension.Refused):
            lacking(body, codec, raw_bytes, 8, absent)
    for stop in [*range(0, len(body), 97), len(body) - 1]:
        with pytest.raises(extension.Refused):
            lacking(body[:stop], codec, len(values), 8, absent)
    for _ in range(200):  # sound by chance, or refused
        damaged = bytearray(body)
        damaged[choice.randrange(len(body))] = choice.randrange(256)
        try:
            assert lacking(bytes(damaged), codec, len(values), 8, absent) in ([True], [False])
        except extension.Refused:
            continue


@pytest.mark.parametrize("codec", [one for one in CODECS if CODECS[one]])
def test_bombs_are_refused(codec):
    """A page may not expand to more than it claims, and may not claim more than its bytes can expand to."""
    extension = native.load()
    bomb = compress(bytes(1 << 26), codec)
    for raw_bytes in (1, 100, 1 << 20, (1 << 26) - 1):
        with pytest.raises(extension.Refused):
            lacking(bomb, codec, raw_bytes, None, [((b"x",),)])
    with pytest.raises(extension.Refused):
        lacking(bomb[:100], codec, 1 << 30, None, [((b"x",),)])


def test_other_codecs_are_refused():
    for codec in set(CompressionCodec) - set(CODECS):
        with pytest.raises(native.load().Refused):
            lacking(b"body", codec, 4, None, [((b"x",),)])


def test_places_outside_the_bytes_are_refused():
    for place in [(0, 5), (3, 2), (5, 5)]:
        with pytest.raises(native.load().Refused):
            native.load().lacking(b"body", place, 0, 4, None, [None])
