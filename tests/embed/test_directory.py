"""The directory: round trips, damage is refused, and the directory of another file is detected."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia as ia
from intarsia.errors import IndexPayloadError, NewerDirectoryError
from intarsia.file import ParquetInput
from intarsia.format.blob import checksum, frame, unframe
from intarsia.format.directory import (
    KEY,
    Directory,
    Entry,
    FooterHead,
    belongs,
    find_directory,
    layout_fingerprint,
    parse_directory,
)
from intarsia.format.structs import KeyValue
from intarsia.format.thrift_tree import parse_tree
from tests.counting import calls

FINGERPRINT = "0123456789abcdef" * 2
ENTRY = Entry("zones(a):page", "zones", 2, (("a",),), "page", {"column": "a", "n": 3}, 104, 80, "0" * 16)
DIRECTORY = Directory(1, 100, FINGERPRINT, 200, (ENTRY,), head=FooterHead(90, FINGERPRINT))


def document(**changes):
    return json.dumps({**json.loads(DIRECTORY.to_json()), **changes}).encode()


def entry_document(**changes):
    entry = {**json.loads(DIRECTORY.to_json())["entries"][0], **changes}
    return document(entries=[entry])


def test_round_trip():
    assert parse_directory(DIRECTORY.to_json()) == DIRECTORY


def test_fields_of_a_later_version_are_ignored():
    assert parse_directory(document(colour="blue")) == DIRECTORY
    for head in (None, 7, {}, {"length": "90", "xxh3": FINGERPRINT}, {"length": 90, "sha256": FINGERPRINT}):
        assert parse_directory(document(head=head)) == replace(DIRECTORY, head=None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        document(version=0),
        document(version=True),
        document(original_length=-1),
        document(original_length="100"),
        document(original_length=1e3),
        document(original_length=1 << 63),
        document(original_length=201),
        document(fingerprint="xyz"),
        document(fingerprint="A" * 32),
        document(region_stop=None),
        document(entries={}),
        document(entries=[1]),
        document(entries=[json.loads(DIRECTORY.to_json())["entries"][0]] * 2),
        document(entries=[{}] * 10_001),
        entry_document(offset=96),
        entry_document(offset=105),
        entry_document(length=1),
        entry_document(length=97),
        entry_document(columns="a"),
        entry_document(columns=[1]),
        entry_document(granularity=0),
        entry_document(granularity=None),
        entry_document(granularity=True),
        entry_document(parameters=[]),
        entry_document(kind=7),
        entry_document(kind_version=-1),
        entry_document(xxh3="0"),
        DIRECTORY.to_json().replace(b'"n":3', b'"n":NaN'),
        DIRECTORY.to_json().replace(b'"n":3', b'"n":' + b"9" * 10_000),
    ],
)
def test_damage_is_refused(data):
    with pytest.raises(IndexPayloadError):
        parse_directory(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data):
    with pytest.raises(IndexPayloadError):
        parse_directory(data)


def test_a_later_version_is_refused():
    with pytest.raises(NewerDirectoryError) as caught:
        parse_directory(document(version=2))
    assert caught.value.reason == "newer-directory"


def test_parameters_without_json_form():
    with pytest.raises(IndexPayloadError):
        Directory(
            1, 100, FINGERPRINT, 200, (Entry("n", "k", 1, (), "file", {"x": object()}, 0, 0, ""),)
        ).to_json()


@given(st.binary(max_size=100))
def test_blob_round_trip(payload):
    blob = frame(payload, FINGERPRINT)
    assert unframe(blob, FINGERPRINT) == payload
    assert len(blob) == 48 + len(payload)


def test_every_damaged_byte_of_a_blob_is_detected():
    blob = frame(b"payload", FINGERPRINT)
    for place in range(len(blob)):
        if 12 <= place < 16:
            continue  # reserved
        damaged = bytearray(blob)
        damaged[place] ^= 1
        with pytest.raises(IndexPayloadError):
            unframe(bytes(damaged), FINGERPRINT)
        with pytest.raises(IndexPayloadError):
            unframe(blob[:place], FINGERPRINT)


def test_another_blob_in_its_place_is_detected():
    mine = checksum(b"mine")
    assert unframe(frame(b"mine", FINGERPRINT), FINGERPRINT, mine) == b"mine"
    with pytest.raises(IndexPayloadError):
        unframe(frame(b"other", FINGERPRINT), FINGERPRINT, mine)


# --- belonging -------------------------------------------------------------------------------------


def footer_of(path):
    with ParquetInput.open(path) as file:
        return file.footer


@pytest.fixture
def footer(tmp_path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]}), path, row_group_size=2)
    return footer_of(path)


def with_key(footer, value):
    metadata = footer.metadata._replace(key_value_metadata=[KeyValue(KEY, value)])
    return replace(footer, metadata=metadata)


def directory_of(footer, **changes):
    known = {
        "version": 1,
        "original_length": footer.start - 4,
        "fingerprint": layout_fingerprint(footer.metadata),
        "region_stop": footer.start,
    }
    return Directory(**{**known, **changes})


def test_belongs(footer):
    assert belongs(directory_of(footer), footer) is None


def test_a_footer_with_the_same_head_belongs_without_its_fingerprint(footer):
    head = FooterHead.of(footer.raw[:-1])
    same = directory_of(footer, head=head)
    unread = replace(footer, metadata=None)
    assert belongs(same, unread) is None
    other = replace(footer, raw=footer.raw[:9] + b"?" + footer.raw[10:])
    assert belongs(same, other) is None
    assert "layout" in belongs(directory_of(footer, head=head, fingerprint="0" * 32), other)


def test_attach_states_the_head_of_the_new_footer(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]}), path, row_group_size=2)
    ia.attach(path, [ia.PageIndex(), ia.Distinct("b")])
    footer = footer_of(str(path))
    head = find_directory(footer).directory.head
    assert head.is_of(footer.raw)
    assert parse_tree(footer.raw[: head.length] + b"\0")[0].fields.keys() == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fingerprint": "0" * 32}, "layout"),
        ({"original_length": 10_000_000, "region_stop": 10_000_000}, "only"),
        ({"region_stop": 10_000_000}, "another writer"),
    ],
)
def test_does_not_belong(footer, change, reason):
    assert reason in belongs(directory_of(footer, **change), footer)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, None),
        ({"version": 2}, "newer"),
        ({"original_length": -1}, "damaged"),
        ({"fingerprint": "0" * 32}, "foreign"),
        ({"fingerprint": "0" * 32, "region_stop": 10_000_000}, "foreign"),
        ({"region_stop": 10_000_000}, "stale"),
    ],
)
def test_find_directory(footer, change, fault):
    directory = directory_of(footer, **change)
    found = find_directory(with_key(footer, directory.to_json()))
    assert found.fault == fault
    assert (found.reason is None) == (fault is None)
    assert found.directory == (None if fault in ("newer", "damaged") else directory)


def test_a_missing_directory_is_not_a_fault(footer):
    assert find_directory(footer) is None


def test_fingerprint_changes_with_the_layout_and_nothing_else(tmp_path):
    def fingerprint(table, **options):
        pq.write_table(table, tmp_path / "f.parquet", **options)
        return layout_fingerprint(footer_of(str(tmp_path / "f.parquet")).metadata)

    table = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
    base = fingerprint(table)
    assert fingerprint(table.replace_schema_metadata({"k": "v"})) == base
    others = [
        fingerprint(table.rename_columns(["b"])),
        fingerprint(table.cast(pa.schema([pa.field("a", pa.uint64())]))),
        fingerprint(table.cast(pa.schema([pa.field("a", pa.int64(), nullable=False)]))),
        fingerprint(table, row_group_size=2),
        fingerprint(table, compression="zstd"),
        fingerprint(table, use_dictionary=False),
        fingerprint(table.slice(1)),
        fingerprint(table.cast(pa.schema([pa.field("a", pa.timestamp("us"))]))),
        fingerprint(table.cast(pa.schema([pa.field("a", pa.timestamp("ns"))]))),
        fingerprint(table.cast(pa.schema([pa.field("a", pa.timestamp("us", "UTC"))]))),
    ]
    assert len({base, *others}) == 11


def test_fingerprint_of_a_wide_file_takes_few_calls(footer):
    group = footer.metadata.row_groups[0]
    num_columns = len(group.columns) * 250
    wide = footer.metadata._replace(
        schema=footer.metadata.schema * 170,
        row_groups=[group._replace(columns=list(group.columns) * 250)] * 50,
    )
    assert calls(lambda: layout_fingerprint(wide)) <= 6 * 50 * num_columns
