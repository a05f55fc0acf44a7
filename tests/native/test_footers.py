"""The native reader of footers: the structs of the Python reader, or a refusal."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia import native
from intarsia.errors import CorruptFileError, FormatError
from intarsia.file.chunks import ChunkOutlines
from intarsia.file.decode import outlines_of
from intarsia.format import structs, thrift
from intarsia.format.footer import footer_start
from intarsia.format.row_groups import FooterBytes, chunks_of_leaf, outlines_of_chunks, parse_file_metadata
from intarsia.format.structs import FileMetaData
from tests.conftest import CORPUS, SHARED
from tests.effort import examples
from tests.format.test_thrift import instances

pytestmark = pytest.mark.skipif(native.load() is None, reason="needs `make native`")

#: Footers that the extension leaves to Python, and why. The last one is damaged.
LEFT_TO_PYTHON = {
    "encrypt_columns_plaintext_footer.parquet.encrypted": "a column is encrypted",
    "geospatial.parquet": "a column has geospatial statistics",
    "geospatial-with-nan.parquet": "a column has geospatial statistics",
    "fuzz-4550303804620800.parquet": "a name is not UTF-8",
}


def all_footers():
    """The bytes of the footers of the corpus, by the name of the file."""
    found = {}
    for folder in (CORPUS, SHARED / "corpus"):
        for path in sorted(folder.rglob("*.parquet*")):
            data = path.read_bytes()
            try:
                found[path.name] = data[footer_start(data[-8:], len(data)) : -8]
            except FormatError:
                continue
    return found


FOOTERS = all_footers()


def accept(chunk, row_group):
    """No chunk is refused."""


def row_groups(raw):
    """The row groups, whose chunks are parsed on access; None if the footer is refused."""
    try:
        return parse_file_metadata(FooterBytes(raw, 0, accept)).row_groups
    except CorruptFileError:
        return None


def chunks_by_python(raw, ordinal):
    return [group.columns[ordinal] for group in row_groups(raw)]


def outlines(groups, leaves):
    """The outlines of row groups as lists."""
    return [
        [as_lists(getattr(of_leaf, field.name)) for field in fields(ChunkOutlines)]
        for of_leaf in outlines_of(groups, leaves, 1 << 20)
    ]


def as_lists(values):
    if isinstance(values, np.ndarray):
        return values.tolist()
    return [[*one[:-1], list(one.encodings)] for one in values]


def outlines_by_python(raw, leaves):
    """The outlines of structs that Python has parsed, as the native reader is used for unparsed ones only."""
    ordinals = [leaf.ordinal for leaf in leaves]
    parsed = outlines_of_chunks(row_groups(raw), ordinals)
    groups = [
        group._replace(columns=dict(zip(ordinals, chunks, strict=True)))
        for group, chunks in zip(row_groups(raw), parsed, strict=True)
    ]
    return outlines(groups, leaves)


def result(call, *args):
    """The result as text, in which NaN equals itself, or the type of the error."""
    try:
        return repr(call(*args))
    except CorruptFileError as error:
        return type(error)


def leaves_of(groups):
    return [
        SimpleNamespace(ordinal=ordinal) for ordinal in range(min(len(group.columns) for group in groups))
    ]


@pytest.mark.parametrize("name", FOOTERS)
def test_footers_of_writers(name):
    raw = FOOTERS[name]
    groups = row_groups(raw)
    if not groups:
        return
    native.refusals.clear()
    leaves = leaves_of(groups)
    for leaf in leaves[:40]:
        assert chunks_of_leaf(row_groups(raw), leaf.ordinal) == chunks_by_python(raw, leaf.ordinal)
    for some in (leaves, leaves[-1:], leaves[::3], leaves[:2][::-1]):
        assert outlines(row_groups(raw), some) == outlines_by_python(raw, some)
    assert set(native.refusals) == ({LEFT_TO_PYTHON[name]} if name in LEFT_TO_PYTHON else set())


@settings(max_examples=examples(60))
@given(instances(FileMetaData))
def test_any_footer(metadata):
    check(thrift.serialize(metadata))


@settings(max_examples=examples(200))
@given(st.sampled_from(sorted(FOOTERS)) | instances(FileMetaData), st.data())
def test_damaged_footers_are_read_alike_or_refused(footer, data):
    raw = bytearray(FOOTERS[footer] if isinstance(footer, str) else thrift.serialize(footer))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(raw))


def check(raw):
    groups = row_groups(raw)
    if not groups:
        return
    leaves = leaves_of(groups)[:8]
    for some in (leaves, leaves[-1:]):
        assert result(outlines, row_groups(raw), some) == result(outlines_by_python, raw, some)
    for leaf in leaves:
        assert result(chunks_of_leaf, row_groups(raw), leaf.ordinal) == result(
            chunks_by_python, raw, leaf.ordinal
        )


def test_refused_arguments():
    extension = native.load()
    raw = thrift.serialize(structs.ColumnChunk(7))
    assert extension.chunks([(raw, 0, 1)], 0, structs) == [structs.ColumnChunk(7)]
    for place, ordinal in [
        ((raw, 0, 1), 1),
        ((raw, len(raw), 1), 0),
        ((raw, len(raw) + 1, 1), 0),
        ((b"", 0, 1), 0),
    ]:
        with pytest.raises(extension.Refused):
            extension.chunks([place], ordinal, structs)
        with pytest.raises(extension.Refused):
            extension.outlines([place], [ordinal])
    with pytest.raises(OverflowError):
        extension.chunks([(raw, -1, 1)], 0, structs)
    with pytest.raises(TypeError):
        extension.chunks([("text", 0, 1)], 0, structs)


#: Reads hostile footers in a process that can allocate only 32 MiB more than before.
HOSTILE = """
import resource, random, sys
from intarsia import native
from intarsia.format import structs

extension = native.load()
with open("/proc/self/statm") as statm:
    used_bytes = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used_bytes + (32 << 20),) * 2)
seed = bytes.fromhex(sys.argv[1])
choice = random.Random(3)
huge = [b"\\xff" * 4 + b"\\x0f", b"\\xff" * 9 + b"\\x01", b"\\xf9" + b"\\xff" * 4 + b"\\x07"]
refused = 0
for turn in range(20_000):
    raw = bytearray(seed)
    for _ in range(choice.randrange(1, 4)):
        place = choice.randrange(len(raw))
        raw[place : place + choice.randrange(2)] = choice.choice([bytes([choice.randrange(256)]), *huge])
    place = [(bytes(raw), 0, 1 << 62)]
    for call in (lambda: extension.outlines(place, [0]), lambda: extension.chunks(place, 0, structs)):
        try:
            call()
        except extension.Refused:
            refused += 1
print(refused)
"""


def test_hostile_bytes_in_little_memory():
    statistics = structs.Statistics(b"z", b"a", 3, 4, b"z", b"a", True, False, 1)
    counts, sizes = [structs.PageEncodingStats(0, 2, 1)] * 20, structs.SizeStatistics(3, [1] * 20, [2] * 20)
    numbers = 1, [0, 3], 1, 10, 100, 90, 4, 4
    meta = structs.ColumnMetaData(*numbers, statistics, counts, 5, 6, sizes, None, ["a"])
    raw = thrift.serialize(structs.ColumnChunk(4, b"", meta, 5, 6, 7, 8))
    assert native.load().chunks([(raw, 0, 1)], 0, structs)
    found = subprocess.run(
        [sys.executable, "-c", HOSTILE, raw.hex()], capture_output=True, text=True, check=True
    )
    assert 10_000 < int(found.stdout) < 40_000
