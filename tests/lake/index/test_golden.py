"""The lake index of ``tests/golden/lake`` is written as before; ``docs/format.md`` suffices to read it."""

from __future__ import annotations

import json
import os
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.lake.index.build import serialize_segment
from intarsia.lake.index.facts import read_facts
from intarsia.storage import LocalFile
from tests.lake.index.lakes import opened_files, rows

GOLDEN = Path(__file__).parents[2] / "golden" / "lake"
SEGMENT = GOLDEN / "segment.lake"

#: The same segment as an earlier version wrote it, without a section.
EARLIER = GOLDEN / "segment-without-directories.lake"

#: Modification times of the files, in seconds since 1970.
TIMES = {"a.parquet": 1_600_000_000, "b.parquet": 1_600_000_010, "c.parquet": 1_600_000_020}


@pytest.fixture
def lake(tmp_path):
    """The files with their golden times, without a lake index."""
    for name, seconds in TIMES.items():
        shutil.copy(GOLDEN / name, tmp_path / name)
        os.utime(tmp_path / name, (seconds, seconds))
    return tmp_path


def facts_of(lake):
    """The facts of the files, without change times, which no program can set."""
    found = {name: read_facts(ParquetInput(LocalFile(lake / name))) for name in TIMES}
    return {name: replace(facts, stamp=facts.stamp._replace(changed_ns=0)) for name, facts in found.items()}


def test_the_same_files_give_the_golden_segment(lake):
    assert serialize_segment(facts_of(lake)) == SEGMENT.read_bytes()


@pytest.mark.parametrize("segment", [SEGMENT, EARLIER], ids=lambda path: path.stem)
def test_the_golden_segment_is_used(lake, segment):
    (lake / "_intarsia").mkdir()
    shutil.copy(segment, lake / "_intarsia" / SEGMENT.name)
    files = [str(lake / name) for name in ("a.parquet", "b.parquet")]
    expected = {
        "id = 2": (1, 1),
        "id = 100": (0, 0),
        "word = 'boat'": (1, 1),
        "word LIKE '%nvi%'": (1, 1),
        "word IS NULL": (2, 2),
        "price > 11": (1, 2),
        "price >= 0": (2, 10),
    }
    for where, (num_files, num_rows) in expected.items():
        table = ia.open(files)
        assert (opened_files(table, where), len(rows(table, where))) == (num_files, num_rows), where
    scan = ia.open(files).scan("id = 100")
    scan.to_arrow()
    assert not scan.report.ignored
    totals = {"price": ["sum", "min", "max", "count"], "*": "count"}
    answered = ia.open(files).aggregate(totals)
    assert answered.report.files_opened == 0
    assert dict(answered)["price"] == {"sum": 61.0, "min": 0.0, "max": 12.5, "count": 10}


# --- a reader written from the specification ---------------------------------------------------------


class Container:
    """The sections of a container."""

    def __init__(self, data):
        assert data[:16] == b"INTLAKE1" + struct.pack("<I4x", 1)
        length, checksum, magic = struct.unpack("<QQ8s", data[-24:])
        assert magic == b"INTLAKE1"
        contents = data[-24 - length : -24]
        assert xxhash.xxh3_64_intdigest(contents) == checksum
        document = json.loads(contents)
        self.about, self.places = document["about"], document["sections"]
        self.data = data
        self.names = set(self.places)

    def parts(self, name):
        self.names.discard(name)
        offset, num_parts, part_bytes = self.places[name]
        seed = xxhash.xxh3_64_intdigest(name.encode())
        found = []
        for part in range(num_parts):
            start = offset + part * (part_bytes + 8)
            data = self.data[start : start + part_bytes]
            (checksum,) = struct.unpack_from("<Q", self.data, start + part_bytes)
            assert checksum == xxhash.xxh3_64_intdigest(data, (seed + part) % 2**64)
            found.append(data)
        return found

    def read(self, name):
        return b"".join(self.parts(name))

    def rows(self, name):
        with pa.ipc.open_stream(self.read(name)) as reader:
            return reader.read_all().to_pylist()

    def numbers(self, name):
        return np.frombuffer(self.read(name), "<u4").tolist()


def files_with(container, prefix, num_blocks, hashed):
    """The files of a matrix whose filters contain a hash."""
    hashed = xxhash.xxh64_intdigest(hashed)
    row = container.parts(f"{prefix}bits-{num_blocks}")[(hashed >> 32) * num_blocks >> 32]
    owners = container.numbers(f"{prefix}files-{num_blocks}")
    words = np.frombuffer(row, "<u4").reshape(len(owners), 8).tolist()
    salts = (
        0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31,
    )  # fmt: skip
    bits = [(hashed & 0xFFFFFFFF) * salt % 2**32 >> 27 for salt in salts]
    return {
        owner
        for owner, block in zip(owners, words, strict=True)
        if all(word >> bit & 1 for word, bit in zip(block, bits, strict=True))
    }


def test_the_specification_suffices_to_read_it():
    segment = Container(SEGMENT.read_bytes())
    assert segment.about["segment_version"] == 1
    assert [len(family["gathered"]) for family in segment.about["families"]] == [5, 0]

    assert segment.read("directories") == bytes([1, 1, 0])
    footers = segment.read("footers")
    for found in segment.rows("files"):
        data = (GOLDEN / found["path"]).read_bytes()
        footer = data[found["footer_start"] : -8]
        start = found["footer_offset"]
        assert found["size_bytes"] == len(data)
        assert found["modified_ns"] == TIMES[found["path"]] * 10**9
        assert (found["changed_ns"], found["e_tag"]) == (0, "")
        assert footers[start : start + found["footer_bytes"]] == footer
        assert found["footer_xxh3"] == xxhash.xxh3_64_intdigest(footer)
        metadata = pq.read_metadata(GOLDEN / found["path"])
        assert (found["num_rows"], found["num_row_groups"]) == (metadata.num_rows, metadata.num_row_groups)
        assert found["family"] == (found["path"] == "c.parquet")

    exact = {"null_count": 0, "nan_count": 0, "all_null": False, "exact": True}
    assert segment.rows("0/bounds/0") == [{"low": 0, "high": 5} | exact, {"low": 10, "high": 15} | exact]
    words = segment.rows("0/bounds/1")
    assert [(row["low"], row["high"]) for row in words] == [(b"ant", b"arc"), (b"bat", b"bolt")]
    assert [row["null_count"] for row in words] == [1, 1]
    prices = segment.rows("0/bounds/2")
    assert [(row["low"], row["high"]) for row in prices] == [(0.0, 2.5), (10.0, 12.5)]
    assert segment.rows("1/bounds/0")[0]["low"] == b"c"
    assert segment.rows("1/bounds/1")[0]["low"] == 1

    entries = {
        entry["kind"]: ordinal for ordinal, entry in enumerate(segment.about["families"][0]["gathered"])
    }
    places = {kind: f"0/gathered/{ordinal}" for kind, ordinal in entries.items()}
    assert all(segment.numbers(place) == [0, 1] for place in places.values())

    distinct = places["distinct"]
    values = [row["value"] for row in segment.rows(f"{distinct}/values")]
    offsets, files = segment.numbers(f"{distinct}/offsets"), segment.numbers(f"{distinct}/files")
    listed = {value: files[offsets[place] : offsets[place + 1]] for place, value in enumerate(values)}
    assert (listed["apple"], listed["bee"], listed[None]) == ([0], [1], [0, 1])
    assert values == [*sorted(value for value in listed if value is not None), None]

    (first, second) = segment.rows(f"{places['zone_map']}/summaries")
    assert (first["min"], first["max"], first["sum"], first["num_rows"]) == (0.0, 2.5, 5.5, 6)
    assert (second["null_count"], second["nan_count"], second["exact"]) == (1, 0, True)

    bloom = f"{places['bloom_filter']}/"
    assert files_with(segment, bloom, sizes(segment, bloom), struct.pack("<q", 3)) == {0}
    assert segment.numbers(f"{bloom}files-{sizes(segment, bloom)}") == [0, 0, 1, 1]  # one for each row group

    ngram = f"{places['ngram']}/"
    gram = int.from_bytes(b"boa", "big")
    assert files_with(segment, ngram, sizes(segment, ngram), struct.pack("<Q", gram)) == {1}

    row_map = f"{places['row_map']}/"
    hash_bits = int(
        next(name for name in segment.places if name.startswith(row_map))[len(row_map) :].split("/")[0]
    )
    prefix = xxhash.xxh64_intdigest(b"arc") >> 64 - hash_bits
    matrix = f"{row_map}{hash_bits}/"
    assert files_with(segment, matrix, sizes(segment, matrix), struct.pack("<Q", prefix)) == {0}

    assert segment.names == set()


def sizes(segment, prefix):
    """The number of blocks of the filters of the only matrix."""
    (size,) = (int(name.rpartition("-")[2]) for name in segment.places if name.startswith(f"{prefix}files-"))
    return size
