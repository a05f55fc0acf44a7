"""The files of ``tests/golden``: `attach` produces them, and ``docs/format.md`` suffices to read them."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq
import pytest
import xxhash

from intarsia.embed import PageIndex, attach, detach
from intarsia.format.thrift_tree import Struct, parse_tree
from intarsia.indexes import Index

GOLDEN = Path(__file__).parents[1] / "golden"


@dataclass(frozen=True)
class Letters(Index):
    """An index whose payload does not depend on the version of any library."""

    kind: ClassVar[str] = "letters"
    version: ClassVar[int] = 1

    column: str
    granularity: str = "row_group"
    times: int = 1

    def build(self, chunk):
        letters = {
            value[0] for _, piece in chunk.batches(self.column) for value in piece.to_pylist() if value
        }
        return "".join(sorted(letters)).encode() * self.times

    def open(self, payload, layout):
        raise NotImplementedError


# the first payload is small enough to be inline
INDEXES = [PageIndex(), Letters("word"), Letters("word", "file", times=200), Letters("word", 7, times=201)]


def test_attach_produces_the_golden_file(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes((GOLDEN / "original.parquet").read_bytes())
    attach(path, INDEXES)
    assert path.read_bytes() == (GOLDEN / "retrofitted.parquet").read_bytes()


# the second one is of earlier versions, which did not write the `head` of the directory
@pytest.mark.parametrize("name", ["retrofitted.parquet", "retrofitted-without-head.parquet"])
def test_detach_restores_the_original(tmp_path, name):
    path = tmp_path / "a.parquet"
    path.write_bytes((GOLDEN / name).read_bytes())
    assert detach(path).removed == (
        "page_index",
        "letters(word):row_group",
        "letters(word):file",
        "letters(word):7",
    )
    assert path.read_bytes() == (GOLDEN / "original.parquet").read_bytes()


def test_pyarrow_reads_the_same_rows():
    original, retrofitted = (
        pq.read_table(GOLDEN / name) for name in ("original.parquet", "retrofitted.parquet")
    )
    assert str(original.to_pylist()) == str(retrofitted.to_pylist())


# --- a reader written from the specification ---------------------------------------------------------

LOGICAL = [
    None, "STRING", "MAP", "LIST", "ENUM", "DECIMAL", "DATE", "TIME", "TIMESTAMP", None, "INTEGER", "UNKNOWN",
    "JSON", "BSON", "UUID", "FLOAT16", "VARIANT", "GEOMETRY", "GEOGRAPHY",
]  # fmt: skip


def integer(*numbers):
    return b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)


def text(data):
    return integer(len(data)) + data


def logical(union):
    if union is None:
        return text(b"") + integer(0)
    if not union.fields or max(union.fields) >= len(LOGICAL):
        return text(b"?") + integer(0)
    ((member, (_, value)),) = union.fields.items()
    name, numbers = LOGICAL[member], ()
    if name == "DECIMAL":
        numbers = value.get(1), value.get(2)
    elif name in ("TIME", "TIMESTAMP"):
        numbers = int(value.get(1)), next(iter(value.get(2).fields), 0)
    elif name == "INTEGER":
        numbers = value.get(1), int(value.get(2))
    return text(name.encode()) + integer(len(numbers), *numbers)


def fingerprint(footer: Struct):
    out = integer(len(footer.get(2).items))
    for element in footer.get(2).items:
        out += text(element.get(4)) + integer(*(element.get(field, -1) for field in (1, 2, 3, 5, 6, 7, 8)))
        out += logical(element.get(10))
    out += integer(len(footer.get(4).items))
    for group in footer.get(4).items:
        out += integer(group.get(3), len(group.get(1).items))
        paths = b""
        for chunk in group.get(1).items:
            meta = chunk.get(3)
            encodings = meta.get(2).items
            out += integer(
                meta.get(1), meta.get(4), meta.get(5), meta.get(9), meta.get(11, 0), meta.get(7), meta.get(6),
                len(encodings), *encodings,
            )  # fmt: skip
            paths += integer(len(meta.get(3).items)) + b"".join(map(text, meta.get(3).items))
        out += paths
    return xxhash.xxh3_128_hexdigest(out)


def footer_of(data):
    assert data[-4:] == b"PAR1"
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return parse_tree(data[start:-8])[0], start


def test_the_golden_file_follows_the_specification():
    data = (GOLDEN / "retrofitted.parquet").read_bytes()
    footer, start = footer_of(data)
    entries = [(entry.get(1), entry.get(2)) for entry in footer.get(5).items]
    assert entries[-1][0] == b"intarsia"
    directory = json.loads(entries[-1][1])
    assert directory["version"] == 1
    assert directory["region_stop"] == start
    assert directory["fingerprint"] == fingerprint(footer)
    head = data[start : start + directory["head"]["length"]]
    assert xxhash.xxh3_128_hexdigest(head) == directory["head"]["xxh3"]
    assert parse_tree(head + b"\0")[0] == Struct({key: footer.fields[key] for key in (1, 2, 3, 4)})
    original = data[: directory["original_length"]]
    assert original == (GOLDEN / "original.parquet").read_bytes()
    assert fingerprint(footer_of(original)[0]) == directory["fingerprint"]
    payloads = {}
    position = directory["original_length"]
    for entry in directory["entries"]:
        assert entry["columns"] == [["word"]]
        if "payload" in entry:
            payloads[entry["name"]] = base64.b64decode(entry["payload"])
            assert xxhash.xxh3_64_hexdigest(payloads[entry["name"]]) == entry["xxh3"]
            continue
        assert entry["offset"] % 8 == 0
        blob = data[entry["offset"] : entry["offset"] + entry["length"]]
        assert blob[:16] == b"INTARSIA" + (1).to_bytes(4, "little") + bytes(4)
        assert blob[16:32].hex() == directory["fingerprint"]
        payload = blob[48:]
        assert int.from_bytes(blob[32:40], "little") == len(payload)
        assert f"{int.from_bytes(blob[40:48], 'little'):016x}" == entry["xxh3"]
        assert xxhash.xxh3_64_hexdigest(payload) == entry["xxh3"]
        payloads[entry["name"]] = payload
        assert not any(data[position : entry["offset"]])
        position = entry["offset"] + entry["length"]
    assert payloads == {
        "letters(word):row_group": b"abcdez",
        "letters(word):file": b"abcdez" * 200,
        "letters(word):7": b"abcdez" * 201,
    }
    chunks = [chunk for group in footer.get(4).items for chunk in group.get(1).items]
    for offset, length in ((6, 7), (4, 5)):  # all ColumnIndexes, then all OffsetIndexes, without gaps
        for chunk in chunks:
            if chunk.get(offset) is not None:
                assert chunk.get(offset) == position
                position += chunk.get(length)
    assert position == start
