"""A forged lake index is ignored with a note, without large allocations and without a wrong answer."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash

import intarsia as ia
from intarsia.storage import CountedSource, LocalFile, MemorySource
from intarsia.storage.sections import Section, Sections, serialize_sections
from tests.effort import examples
from tests.lake.index.lakes import INDEXES, rows, rows_of_day, write

HEAD = struct.pack("<8sI4x", b"INTLAKE1", 1)

CONDITIONS = (
    "user = 620",
    "id IN (7919, 1, 2)",
    "country = 'country 7'",
    "url LIKE '%/001/1%'",
    "amount > 6 OR day = 0",
    "user IS NULL",
)
TOTALS = {"amount": ["sum", "min", "max", "count"], "country": ["min", "max"], "*": "count"}

#: More than every plan of this lake takes.
MOST_BYTES = 40 << 20


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A lake, and the bytes of its segment."""
    lake = tmp_path_factory.mktemp("hostile") / "lake"
    for day in range(3):
        write(lake / f"{day}.parquet", rows_of_day(day, 20), INDEXES, row_group_size=10)
    ia.open(lake).build_lake_index("beside")
    (segment,) = (lake / "_intarsia").iterdir()
    data = segment.read_bytes()
    shutil.rmtree(lake / "_intarsia")
    return lake, data


@pytest.fixture(scope="module")
def answers(made):
    lake, _ = made
    return ask(lake)[0]


def ask(lake, conditions=CONDITIONS):
    """Ask everything; return the answers, and the reasons for which parts of the lake index are ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        table = ia.open(lake)
        found, reasons = [], set()
        for where in conditions:
            scan = table.scan(where)
            found.append(scan.to_arrow().to_pylist())
            notes = scan.report.ignored
            assert {note.index for note in notes} <= {"lake index"}
            reasons |= {note.code for note in notes}
        totals = [dict(table.aggregate(TOTALS)), dict(table.aggregate(TOTALS, "day < 2"))]
    return (found, totals), reasons


@pytest.fixture
def forged(made, answers):
    """Asks a lake with a forged segment, checks its answers, and returns the reasons for ignoring it."""
    lake, _ = made

    def ask_forged(data, *, is_ignored):
        """With a segment that is ignored as a whole, all conditions take the same path, so two are asked."""
        folder = lake / "_intarsia"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "forged.lake").write_bytes(data)
        if not is_ignored:  # counting memory takes most of the time
            found, reasons = ask(lake)
            assert found == answers
            return reasons
        tracemalloc.start()
        try:
            (found, totals), reasons = ask(lake, CONDITIONS[:2])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (found, totals) == (answers[0][:2], answers[1])
        assert peak < MOST_BYTES
        return reasons

    yield ask_forged
    shutil.rmtree(lake / "_intarsia", ignore_errors=True)


# --- the container -------------------------------------------------------------------------------------


def container(contents, body=bytes(1000)):
    """A container with any table of contents, which has the right checksum."""
    if not isinstance(contents, bytes):
        contents = json.dumps(contents).encode()
    tail = struct.pack("<QQ8s", len(contents), xxhash.xxh3_64_intdigest(contents), b"INTLAKE1")
    return HEAD + body + contents + tail


def with_place(*place):
    return container({"about": {}, "sections": {"files": list(place)}})


CONTAINERS = {
    "nothing": b"",
    "only zeros": bytes(100),
    "huge contents": HEAD + struct.pack("<QQ8s", 1 << 62, 0, b"INTLAKE1"),
    "contents of 2^64 - 1 bytes": HEAD + struct.pack("<QQ8s", (1 << 64) - 1, 0, b"INTLAKE1"),
    "contents that overlap the head": HEAD + struct.pack("<QQ8s", 17, 0, b"INTLAKE1"),
    "not JSON": container(b"\xff\xfe{"),
    "deep JSON": container(b"[" * 1_000_000),
    "deep objects": container(b'{"a":' * 1_000_000),
    "a million digits": container(b'{"about":{},"sections":{"files":[' + b"9" * 1_000_000 + b",1,1]}}"),
    "an array": container([]),
    "no sections": container({"about": {}}),
    "about is a text": container({"about": "segment_version", "sections": {}}),
    "sections are an array": container({"about": {}, "sections": [["files", 16, 1, 1]]}),
    "a name twice": container(b'{"about":{},"sections":{"files":[16,1,1],"files":[32,1,1]}}'),
    "about twice": container(b'{"about":{},"about":{},"sections":{}}'),
    "a place of two numbers": with_place(16, 1),
    "a place of four numbers": with_place(16, 1, 1, 1),
    "a place of texts": with_place("16", "1", "1"),
    "a place of fractions": with_place(16.0, 1.0, 1.5),
    "a place of booleans": with_place(True, True, True),
    "a place of nulls": with_place(None, None, None),
    "a place of NaN": container(b'{"about":{},"sections":{"files":[NaN,Infinity,1]}}'),
    "a negative offset": with_place(-16, 1, 8),
    "a negative length": with_place(16, 1, -8),
    "a negative number of parts": with_place(16, -1, 8),
    "a section in the head": with_place(0, 1, 8),
    "a section behind the end": with_place(1 << 40, 1, 8),
    "a section over the table of contents": with_place(16, 1, 1000),
    "a huge section": with_place(16, 1, 1 << 60),
    "a billion parts": with_place(16, 10**9, 8),
    "a billion empty parts": with_place(16, 10**9, 0),
    "numbers beyond 64 bits": with_place(1 << 70, 1 << 70, 1 << 70),
    "overlapping sections": container({"about": {}, "sections": {"a": [16, 1, 100], "b": [50, 1, 100]}}),
    "the same place twice": container({"about": {}, "sections": {"a": [16, 1, 100], "b": [16, 1, 100]}}),
}  # fmt: skip


@pytest.mark.parametrize("data", CONTAINERS.values(), ids=CONTAINERS.keys())
def test_containers(forged, data):
    (reason,) = forged(data, is_ignored=True)
    assert reason in {"container-too-small", "container-magic", "container-contents"}


def test_contents_of_many_small_objects(forged, made):
    """The table of contents has a limit, because parsed JSON takes more memory than its text."""
    contents = b'{"about":{},"sections":{"a":[' + b"[]," * (6 << 20) + b"0]}}"
    assert forged(container(contents), is_ignored=True) == {"container-contents"}


def test_a_section_in_a_hole_is_not_read(tmp_path):
    """A sparse file has any length. A section of it is not read at once."""
    size = 1 << 42
    contents = json.dumps(
        {"about": {}, "sections": {"a": [16, 1, size], "b": [16 + size + 8, 1 << 17, 1 << 20]}}
    )
    tail = container(contents.encode(), b"")[len(HEAD) :]
    path = tmp_path / "hole.lake"
    with open(path, "wb") as file:
        file.write(HEAD)
        try:
            file.seek(16 + size + 8 + (1 << 17) * ((1 << 20) + 8))
            file.write(tail)
        except OSError as error:
            pytest.skip(f"no sparse file of this length: {error}")
    sections = Sections(CountedSource(LocalFile(path)))
    calls = [
        lambda: sections.read("a"),
        lambda: sections.read_range("a", 0, size),
        lambda: sections.read("b"),
        lambda: sections.read_parts("b", range(1000)),
    ]
    for call in calls:
        with pytest.raises(ia.CorruptFileError) as caught:
            call()
        assert caught.value.reason == "container-limit"
    with pytest.raises(ia.CorruptFileError) as caught:
        sections.read_parts("b", [5])
    assert caught.value.reason == "container-part"
    os.unlink(path)


def test_a_pipe_and_a_folder_are_not_opened(made, answers):
    lake, _ = made
    folder = lake / "_intarsia"
    (folder / "folder.lake").mkdir(parents=True)
    os.mkfifo(folder / "pipe.lake")
    try:
        assert ask(lake) == (answers, {"not-a-file"})
    finally:
        shutil.rmtree(folder)


# --- the sections of a segment -------------------------------------------------------------------------


class Parsed:
    """The sections of a segment, to be changed and written again with right checksums."""

    def __init__(self, data):
        found = Sections(CountedSource(MemorySource(data)))
        length = int.from_bytes(data[-24:-16], "little")
        places = json.loads(data[-24 - length : -24])["sections"]
        self.about = found.about
        self.data = {name: found.read(name) for name in found.names()}
        self.part_bytes = {name: place[2] if place[1] != 1 else None for name, place in places.items()}

    def to_bytes(self):
        sections = [Section(name, data, self.part_bytes.get(name)) for name, data in self.data.items()]
        return serialize_sections(sections, self.about)

    def files(self, **columns):
        """Replace columns of the table of files."""
        with pa.ipc.open_stream(self.data["files"]) as reader:
            table = reader.read_all()
        for name, values in columns.items():
            place = table.column_names.index(name)
            values = values if isinstance(values, pa.Array) else pa.array(values, table.schema.types[place])
            table = table.set_column(place, name, values)
        self.data["files"] = stream(table.combine_chunks().to_batches()[0])

    def structure(self, kind):
        """The name of the section of a structure."""
        kinds = [entry["kind"] for entry in self.about["families"][0]["gathered"]]
        return f"0/gathered/{kinds.index(kind)}"


def stream(batch, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def bomb(name):
    """256 MiB of zeros in a few kilobytes, which are compressed when a test needs them."""
    return lambda _: stream(pa.record_batch({name: np.zeros(1 << 25, np.int64)}), compression="zstd")


def huge_null():
    """2^30 rows without a buffer."""
    return stream(pa.record_batch({"value": pa.Array.from_buffers(pa.null(), 1 << 30, [None])}))


def huge_buffer(data):
    """A stream, in which the lengths of buffers are replaced by huge ones."""
    found = bytearray(data)
    for place in range(0, len(found) - 8, 8):
        (number,) = struct.unpack_from("<q", found, place)
        if 0 < number < 1 << 20:
            struct.pack_into("<q", found, place, 1 << 61)
    return bytes(found)


def owners(*ordinals):
    return np.array(ordinals, dtype="<u4").tobytes()


LARGE = owners(2**31 - 1)


def change_about(**changes):
    def change(parsed):
        parsed.about.update(changes)

    return change


def change_family(**changes):
    def change(parsed):
        parsed.about["families"][0].update(changes)

    return change


def change_entries(**changes):
    def change(parsed):
        for entry in parsed.about["families"][0]["gathered"]:
            entry.update(changes)

    return change


def change_files(**columns):
    return lambda parsed: parsed.files(**columns)


def change_section(name, data):
    def change(parsed):
        parsed.data[name] = data(parsed.data[name]) if callable(data) else data

    return change


#: The whole segment is ignored.
SEGMENTS = {
    "families are a number": change_about(families=7),
    "families are a text": change_about(families="0"),
    "families are missing": lambda parsed: parsed.about.pop("families"),
    "families are an object": change_about(families={"0": {}}),
    "a family is a text": change_about(families=["gathered"]),
    "families without files": lambda parsed: parsed.about["families"].append({"gathered": []}),
    "many families": lambda parsed: parsed.about["families"].extend([{"gathered": []}] * 100_000),
    "structures are a text": change_family(gathered="zone_map"),
    "structures are an object": change_family(gathered={"kind": "zone_map"}),
    "structures are numbers": change_family(gathered=[1, 2]),
    "structures are arrays of pairs": change_family(gathered=[[["kind", "zone_map"]]]),
    "too many structures": change_family(gathered=[{"columns": [["id"]]}] * 20_000),
    "files are missing": lambda parsed: parsed.data.pop("files"),
    "files are not a stream": change_section("files", b"files"),
    "files are empty": change_section("files", b""),
    "files are compressed": change_section("files", bomb("path")),
    "files without buffers": change_section("files", huge_null()),
    "files with huge buffers": change_section("files", huge_buffer),
    "files have other columns": change_section("files", stream(pa.record_batch({"path": ["0.parquet"]}))),
    "a path is null": change_files(path=["0.parquet", None, "2.parquet"]),
    "a path is not UTF-8": change_files(
        path=pa.StringArray.from_buffers(3, pa.py_buffer(owners(0, 1, 2, 3)), pa.py_buffer(b"\xff\xfe\xfd"))
    ),
    "a negative family": change_files(family=[-1, 0, 0]),
    "a family that does not exist": change_files(family=[0, 0, 2**31 - 1]),
    "a negative number of rows": change_files(num_rows=[20, 20, -20]),
    "too many rows": change_files(num_rows=[1 << 62, 1 << 62, 1 << 62]),
    "a negative number of row groups": change_files(num_row_groups=[2, 2, -2]),
}


@pytest.mark.parametrize("change", SEGMENTS.values(), ids=SEGMENTS.keys())
def test_segments(forged, made, change):
    parsed = Parsed(made[1])
    change(parsed)
    (reason,) = forged(parsed.to_bytes(), is_ignored=True)
    assert reason in {"segment-damaged", "container-section"}


#: A part is ignored, or the files are read as if they were not known.
PARTS = {
    "no structures": change_family(gathered=[]),
    "structures of other kinds": change_entries(kind="unknown"),
    "structures of no kind": lambda parsed: [
        entry.pop("kind") for entry in parsed.about["families"][0]["gathered"]
    ],
    "kinds are numbers": change_entries(kind=7),
    "kinds are arrays": change_entries(kind=[["zone_map"]]),
    "versions are texts": change_entries(kind_version="1"),
    "versions are huge": change_entries(kind_version=10**30),
    "names are numbers": change_entries(name=7),
    "names are arrays": change_entries(name=["zone_map"]),
    "columns are a text": change_entries(columns="id"),
    "columns do not exist": change_entries(columns=[["nowhere"]]),
    "parameters are an array": change_entries(parameters=["id"]),
    "parameters are unknown": change_entries(parameters={"colour": "red"}),
    "parameters are those of another column": change_entries(parameters={"column": "nowhere"}),
    "granularities are objects": change_entries(granularity={}),
    "unknown fields": change_entries(colour="red"),
    "no footers": lambda parsed: parsed.data.pop("footers"),
    "empty footers": change_section("footers", b""),
    "footers that are zeros": change_section("footers", lambda data: bytes(len(data))),
    "footers at negative offsets": change_files(footer_offset=[-1, -1, -1]),
    "huge footers": change_files(footer_bytes=[2**62, 2**62, 2**62]),
    "footers of negative length": change_files(footer_bytes=[-1, -1, -1]),
    "footers that are other bytes": lambda parsed: (
        parsed.data.update(footers=bytes(300)),
        parsed.files(
            footer_offset=[0, 100, 200],
            footer_bytes=[100] * 3,
            footer_xxh3=[xxhash.xxh3_64_intdigest(bytes(100))] * 3,
        ),
    ),
    "files of negative length": change_files(size_bytes=[-1, -1, -1]),
    "the same path": change_files(path=["0.parquet"] * 3),
    "paths that lead outside": change_files(path=["../0.parquet", "/etc/passwd", ""]),
}
STREAMS = {
    "empty": b"",
    "not a stream": b"ARROW1",
    "compressed": bomb("low"),
    "without buffers": huge_null(),
    "of another type": stream(pa.record_batch({"low": ["a"], "high": ["b"]})),
}


def change_bounds(data):
    def change(parsed):
        for leaf in range(6):
            change_section(f"0/bounds/{leaf}", data)(parsed)

    return change


PARTS |= {f"bounds {name}": change_bounds(data) for name, data in STREAMS.items()}
PARTS["bounds with huge buffers"] = change_bounds(huge_buffer)


def change_part(kind, part, data):
    """Change a part of a structure, or the list of its files if the name is empty."""

    def change(parsed):
        name = parsed.structure(kind) + (f"/{part}" if part else "")
        assert name in parsed.data
        parsed.data[name] = data(parsed.data[name]) if callable(data) else data

    return change


def drop_part(kind, part):
    def change(parsed):
        del parsed.data[parsed.structure(kind) + (f"/{part}" if part else "")]

    return change


KINDS = ("bloom_filter", "distinct", "zone_map", "ngram", "row_map")


def change_covered(data):
    """Change the lists of files that structures cover."""

    def change(parsed):
        for kind in KINDS:
            change_part(kind, "", data)(parsed)

    return change


def drop_covered(parsed):
    for kind in KINDS:
        drop_part(kind, "")(parsed)


PARTS |= {
    "structures without files": drop_covered,
    "structures of files out of range": change_covered(owners(0, 1, 3)),
    "structures of the same file": change_covered(owners(1, 1, 1)),
    "structures of files in another order": change_covered(owners(2, 1, 0)),
    "structures of fewer files": change_covered(owners(0, 1)),
    "structures of no files": change_covered(b""),
    "structures of a fraction of a file": change_covered(b"\0\0\0\0\1"),
}
for part_name, data in STREAMS.items():
    PARTS[f"distinct values {part_name}"] = change_part("distinct", "values", data)
    PARTS[f"zone map {part_name}"] = change_part("zone_map", "summaries", data)
PARTS |= {
    "distinct values with huge buffers": change_part("distinct", "values", huge_buffer),
    "zone map with huge buffers": change_part("zone_map", "summaries", huge_buffer),
    "distinct offsets that decrease": change_part("distinct", "offsets", lambda data: data[::-1]),
    "distinct offsets below zero": change_part("distinct", "offsets", lambda data: b"\xff" * 4 + data[4:]),
    "distinct offsets beyond the end": change_part("distinct", "offsets", lambda data: data[:-4] + LARGE),
    "distinct offsets of odd length": change_part("distinct", "offsets", lambda data: data[:-1]),
    "distinct files out of range": change_part("distinct", "files", lambda data: data[:-4] + LARGE),
    "distinct files of odd length": change_part("distinct", "files", lambda data: data[:-1]),
    "distinct without a part": drop_part("distinct", "offsets"),
    "a zone map without its part": drop_part("zone_map", "summaries"),
}  # fmt: skip


def each_matrix(change):
    """Call a function for each list of files of a matrix, with the name of its bits."""

    def apply(parsed):
        for kind in ("bloom_filter", "ngram", "row_map"):
            start = f"{parsed.structure(kind)}/"
            lists = [name for name in parsed.data if name.startswith(start) and "/files-" in name]
            assert lists
            for name in lists:
                change(parsed, name, name.replace("files-", "bits-"))

    return apply


def replace_owners(data):
    return each_matrix(lambda parsed, files, _: parsed.data.update({files: data(parsed.data[files])}))


def rename_size(suffix):
    def change(parsed, files, bits):
        for name, start in ((files, "files-"), (bits, "bits-")):
            renamed = f"{name.rpartition('/')[0]}/{start}{suffix}"
            parsed.data[renamed] = parsed.data.pop(name)
            parsed.part_bytes[renamed] = parsed.part_bytes.get(name)

    return each_matrix(change)


def odd_bits(parsed, _, bits):
    parsed.data[bits], parsed.part_bytes[bits] = bytes(7), None


PARTS |= {
    "owners out of range": replace_owners(lambda data: owners(*[2**32 - 1] * (len(data) // 4))),
    "owners of odd length": replace_owners(lambda data: data + b"\0"),
    "no owners": replace_owners(lambda _: b""),
    "too many owners": replace_owners(lambda data: data * 1000),
    "one owner of all": replace_owners(lambda data: data[:4]),
    "matrices of size zero": rename_size("0"),
    "matrices of negative size": rename_size("-1"),
    "huge matrices": rename_size("9" * 8),
    "a size of 5,000 digits": rename_size("9" * 5000),
    "a size that is a text": rename_size("big"),
    "a size in other digits": rename_size("\u0661"),
    "matrices without lists of files": each_matrix(lambda parsed, files, _: parsed.data.pop(files)),
    "matrices without bits": each_matrix(lambda parsed, _, bits: parsed.data.pop(bits)),
    "bits of odd length": each_matrix(odd_bits),
}


@pytest.mark.parametrize("change", PARTS.values(), ids=PARTS.keys())
def test_parts(forged, made, change):
    parsed = Parsed(made[1])
    change(parsed)
    forged(parsed.to_bytes(), is_ignored=False)


@pytest.mark.parametrize("seed", range(examples(16)))
def test_random_damage_with_right_checksums(made, seed):
    """No error other than our own, and no other warning, whatever the bytes of a section are."""
    lake, data = made
    rng = random.Random(seed)
    parsed = Parsed(data)
    for name in rng.sample(sorted(parsed.data), 6):
        changed = bytearray(parsed.data[name])
        for _ in range(rng.randrange(1, 4) if changed else 0):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        parsed.data[name] = bytes(changed)
    folder = lake / "_intarsia"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    Path(folder / "forged.lake").write_bytes(parsed.to_bytes())
    try:
        for where in CONDITIONS:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", ia.IntarsiaWarning)
                try:
                    rows(ia.open(lake), where)
                    ia.open(lake).aggregate(TOTALS, where)
                except ia.IntarsiaError:
                    pass
    finally:
        shutil.rmtree(folder)
