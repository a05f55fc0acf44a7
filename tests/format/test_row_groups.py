"""Row groups whose chunks are parsed on first access equal those that are parsed immediately."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.errors import CorruptFileError
from intarsia.format import thrift, thrift_tree
from intarsia.format.row_groups import ColumnChunks, FooterBytes, outlines_of_chunks, parse_file_metadata
from intarsia.format.structs import ColumnChunk, FileMetaData, OutlineOfChunk, OutlineOfMetaData, RowGroup
from tests.effort import examples
from tests.format.test_thrift import instances


def accept(chunk, row_group):
    """No chunk is refused."""


def footer_bytes(raw):
    return FooterBytes(raw, 100, accept)


def at_once(raw):
    """The footer according to the general codec; None if the bytes are not a footer."""
    try:
        return thrift.parse(FileMetaData, raw)[0]
    except CorruptFileError:
        return None


def one_by_one(columns):
    return [columns[ordinal] for ordinal in reversed(range(len(columns)))][::-1]


def lazily(raw, access=one_by_one):
    """The footer with every chunk parsed on access; None if that is refused."""
    try:
        metadata = parse_file_metadata(footer_bytes(raw))
        return metadata._replace(
            row_groups=[group._replace(columns=access(group.columns)) for group in metadata.row_groups]
        )
    except CorruptFileError:
        return None


def outlines(group):
    """The offsets and counts of all chunks of a row group."""
    found = []
    (chunks,) = outlines_of_chunks([group], range(len(group.columns)))
    for chunk in chunks:
        meta = chunk.meta_data
        found.append([getattr(chunk, name) for name in OutlineOfChunk._fields if name != "meta_data"])
        found.append(None if meta is None else [getattr(meta, name) for name in OutlineOfMetaData._fields])
    return found


@settings(max_examples=examples(60))
@given(instances(FileMetaData))
def test_the_same_as_at_once(metadata):
    raw = thrift.serialize(metadata)
    assert lazily(raw) == lazily(raw, list) == metadata
    found = parse_file_metadata(footer_bytes(raw))
    assert all(isinstance(group.columns, ColumnChunks) for group in found.row_groups)
    unparsed = [outlines(group) for group in found.row_groups]
    assert thrift.serialize(found) == raw
    assert [outlines(group) for group in found.row_groups] == unparsed


@settings(max_examples=examples(150))
@given(instances(FileMetaData), st.data())
def test_damaged_bytes_are_the_same_as_at_once_or_refused(metadata, data):
    """A changed byte may move the end of a chunk; both ways then parse the same structs."""
    raw = bytearray(thrift.serialize(metadata))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    for damaged in (bytes(raw), cut):  # as text, in which NaN equals itself
        assert repr(lazily(damaged)) == repr(lazily(damaged, list)) == repr(at_once(damaged))


def test_fields_in_another_order_and_unknown_ones():
    """Footers in an unusual order are left to the general codec."""
    metadata = FileMetaData(2, [], 0, [RowGroup([ColumnChunk(7)], 1, 0)] * 20, created_by=b"me")
    tree, _ = thrift_tree.parse_tree(thrift.serialize(metadata))
    for place in [tree, tree.structs(4)[0], tree.structs(4)[0].structs(1)[0]]:
        place.set(900, thrift.LIST, thrift_tree.List(thrift.BINARY, [b"unknown"] * 20))
    raw = thrift_tree.serialize_tree(tree)
    found = parse_file_metadata(footer_bytes(raw))
    assert found == metadata
    assert isinstance(found.row_groups[0].columns, ColumnChunks)
    tree.set(0, thrift.I32, 1)  # before the version
    raw = thrift_tree.serialize_tree(tree)
    assert not isinstance(parse_file_metadata(footer_bytes(raw)).row_groups[0].columns, ColumnChunks)
    assert lazily(raw) == metadata


def test_a_number_of_more_than_64_bits():
    """Thrift ignores the bits beyond them."""
    raw = thrift.serialize(FileMetaData(2, [], 1 << 62, []))
    assert b"\x80" * 9 + b"\x01" in raw
    raw = raw.replace(b"\x80\x01", b"\x80\x02")
    assert lazily(raw) == at_once(raw) == FileMetaData(2, [], 0, [])


@pytest.mark.parametrize(
    "raw",
    [
        b"\x15\x02\x19\xfc" + b"\xff" * 8 + b"\x7f",
        b"\x15\x02\x19\x0c\x16\x00\x19\xfc\xff\xff\xff\xff\x7f" + bytes(20),
        b"\x15\x02\x19\x0c\x16\x00\x19\x1c\x19\xfc\xff\xff\xff\xff\x7f" + bytes(20),
        b"\x15\x02\x19\x0c\x16\x00\x19\xfc\x14" + bytes(20),
    ],
    ids=["schema", "row groups", "chunks", "row groups without fields"],
)
def test_impossible_counts(raw):
    with pytest.raises(CorruptFileError):
        parse_file_metadata(footer_bytes(raw))


def test_chunks_are_a_sequence(tmp_path):
    table = pa.table({name: [1, 2, 3] for name in "abcde"})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=2)
    data = (tmp_path / "f.parquet").read_bytes()
    raw = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    for group, expected in zip(
        parse_file_metadata(footer_bytes(raw)).row_groups, at_once(raw).row_groups, strict=True
    ):
        chunks = group.columns
        assert chunks[3] == expected.columns[3]
        assert chunks[3] is chunks[3]
        assert chunks[-1] == expected.columns[-1]
        assert chunks[1:3] == expected.columns[1:3]
        assert chunks == expected.columns
        assert chunks != expected.columns[:-1]
        assert (chunks == 3) is False
        assert list(reversed(chunks)) == expected.columns[::-1]
        with pytest.raises(IndexError):
            chunks[5]
        assert pickle.loads(pickle.dumps(chunks)) == copy.deepcopy(chunks) == chunks
        assert group.num_rows == expected.num_rows


def test_only_accessed_chunks_are_parsed():
    metadata = FileMetaData(2, [], 0, [RowGroup([ColumnChunk(place) for place in range(50)], 1, 0)] * 30)
    raw = thrift.serialize(metadata)
    parsed = []
    found = parse_file_metadata(FooterBytes(raw, 100, lambda chunk, group: parsed.append((chunk, group))))
    assert len(found.row_groups) == 30
    assert len(found.row_groups[3].columns) == 50
    assert parsed == []
    assert found.row_groups[3].columns[7] == ColumnChunk(7)
    assert found.row_groups[3].columns[7] == ColumnChunk(7)
    assert parsed == [(ColumnChunk(7), 3)]


def test_millions_of_elements_without_fields_are_refused_at_the_first():
    """Memory must not be allocated for claimed elements before they are parsed."""
    count = 2_000_000
    head = bytearray(b"\x15\x02\x19\xfc")
    thrift.write_varint(head, count)
    raw = bytes(head) + bytes(count + 10)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFileError):
            parse_file_metadata(footer_bytes(raw))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(raw)
