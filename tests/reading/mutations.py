"""Files with one random change: a page, a structure of the page index, statistics, or the footer."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.format import thrift_tree
from intarsia.format.footer import chunk_range
from intarsia.format.pages import walk_pages
from intarsia.format.structs import ColumnIndex, OffsetIndex
from intarsia.storage import MemorySource
from tests.reading.surgery import PLACES, Patient

ROWS = 400
GROUP = 200
PAGE = 25

_OPTIONS = {
    "row_group_size": GROUP,
    "max_rows_per_page": PAGE,
    "write_batch_size": PAGE,
    "write_page_index": True,
    "write_page_checksum": True,
    "use_dictionary": ["text"],
}

#: How the files are written. All of their pages have checksums.
WRITERS = {
    "v1": {"compression": "none"},
    "v2": {"compression": "none", "data_page_version": "2.0"},
    "zstd": {"compression": "zstd"},
    "bloom": {
        "compression": "snappy",
        "write_page_index": False,
        "bloom_filter_options": {"id": {"ndv": 100}, "raw": {"ndv": 100}},
    },
    "attached": {"compression": "none", "write_page_index": False},
}


class Base(NamedTuple):
    """A sound file.

    Attributes:
        data: Its bytes.
        bodies: Start and stop of the body of each page that has a checksum.
        headers: Start and stop of each page header.
        chunks: Row group and leaf of each column chunk.
    """

    data: bytes
    bodies: list[tuple[int, int]]
    headers: list[tuple[int, int]]
    chunks: list[tuple[int, int]]


def make_rows() -> pa.Table:
    numbers = np.arange(ROWS)
    return pa.table(
        {
            "id": pa.array(numbers * 3 + 1),
            "num": pa.array([None if row % 7 == 0 else row * 37 % 101 for row in range(ROWS)], pa.int32()),
            "text": [None if row % 11 == 0 else f"w{row * 13 % 40:02}" for row in range(ROWS)],
            "real": [float("nan") if row % 50 == 49 else (row - 100) / 4 for row in range(ROWS)],
            "raw": [f"{row:04} raw" for row in range(ROWS)],
            "list": [[row] * (row % 3) for row in range(ROWS)],
        }
    )


def make_base(writer: str, path) -> Base:
    """Write a sound file."""
    pq.write_table(make_rows(), path, **{**_OPTIONS, **WRITERS[writer]})
    if writer == "attached":
        ia.attach(path, [ia.PageIndex(), ia.Distinct("text"), ia.ZoneMap("num"), ia.Bloom("id")])
    data = path.read_bytes()
    bodies, headers = [], []
    with ParquetInput(MemorySource(data, str(path))) as file:
        footer = file.footer
    chunks = [(group, leaf.ordinal) for group in range(ROWS // GROUP) for leaf in footer.leaves]
    for group, leaf in chunks:
        chunk = footer.chunk_metadata(group, footer.leaves[leaf])
        start, stop = chunk_range(chunk)
        for page in walk_pages(data[start:stop], chunk.num_values):
            assert page.header.crc is not None
            headers.append((start + page.start, start + page.body_start))
            bodies.append((start + page.body_start, start + page.stop))
    return Base(data, bodies, headers, chunks)


class Mutant(NamedTuple):
    """A changed file.

    Attributes:
        data: Its bytes.
        kind: What was changed.
        what: A description for the message of a failed test.
    """

    data: bytes
    kind: str
    what: str


def mutate(base: Base, seed: int) -> Mutant:
    """Return a changed copy of a file; the same seed makes the same change."""
    draw = random.Random(seed)
    kind = draw.choice(sorted(_KINDS))
    data, what = _KINDS[kind](base, draw)
    return Mutant(data, kind, f"seed {seed}, {kind}: {what}")


def _spoil(data: bytes, start: int, stop: int, draw: random.Random) -> tuple[bytes, str]:
    """Change up to three bytes of a range."""
    changed = bytearray(data)
    offsets = [draw.randrange(start, stop) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
    for offset in offsets:
        changed[offset] ^= draw.choice((1, 2, 4, 8, 16, 32, 64, 128, 255))
    return bytes(changed), f"bytes {offsets} in {start} to {stop}"


def _page(base: Base, draw: random.Random) -> tuple[bytes, str]:
    start, stop = draw.choice([body for body in base.bodies if body[0] < body[1]])
    return _spoil(base.data, start, stop, draw)


def _header(base: Base, draw: random.Random) -> tuple[bytes, str]:
    return _spoil(base.data, *draw.choice(base.headers), draw)


def _footer_bytes(base: Base, draw: random.Random) -> tuple[bytes, str]:
    return _spoil(base.data, Patient(base.data).footer_start, len(base.data) - 8, draw)


def _index_bytes(base: Base, draw: random.Random) -> tuple[bytes, str]:
    patient = Patient(base.data)
    cls = draw.choice((OffsetIndex, ColumnIndex))
    group, leaf = draw.choice(base.chunks)
    start, length = (patient.chunk(group, leaf).get(field) for field in PLACES[cls])
    if not start:
        return _footer_bytes(base, draw)
    return _spoil(base.data, start, start + length, draw)


def _footer_field(base: Base, draw: random.Random) -> tuple[bytes, str]:
    """Change one value in the tree of the footer."""
    patient = Patient(base.data)
    what = _change_field(patient.footer, draw)
    return patient.bytes(), what


def _statistics(base: Base, draw: random.Random) -> tuple[bytes, str]:
    patient = Patient(base.data)
    group, leaf = draw.choice(base.chunks)
    statistics = patient.chunk(group, leaf).get(3).get(12)
    if statistics is None:
        return _footer_field(base, draw)
    what = f"group {group}, leaf {leaf}: {_change_field(statistics, draw)}"
    return patient.bytes(), what


def _offsets(base: Base, draw: random.Random) -> tuple[bytes, str]:
    return _index_field(base, draw, OffsetIndex)


def _bounds(base: Base, draw: random.Random) -> tuple[bytes, str]:
    return _index_field(base, draw, ColumnIndex)


def _index_field(base: Base, draw: random.Random, cls: type) -> tuple[bytes, str]:
    patient = Patient(base.data)
    group, leaf = draw.choice(base.chunks)
    if not patient.chunk(group, leaf).get(PLACES[cls][0]):
        return _footer_field(base, draw)
    tree, _ = thrift_tree.parse_tree(patient.index_bytes(cls, group, leaf))
    what = _change_field(tree, draw)
    patient.put_index(cls, group, leaf, thrift_tree.serialize_tree(tree))
    return patient.bytes(), f"{cls.__name__}, group {group}, leaf {leaf}: {what}"


def _change_field(tree: thrift_tree.Struct, draw: random.Random) -> str:
    """Change or remove one value below a struct."""
    places = list(_places(tree, ()))
    holder, key, path = draw.choice(places)
    if isinstance(holder, thrift_tree.Struct) and draw.random() < 0.1:
        holder.remove(key)
        return f"{path} removed"
    old = holder.get(key) if isinstance(holder, thrift_tree.Struct) else holder.items[key]
    others = [found for found in places if found[2][:-1] == path[:-1]]
    if draw.random() < 0.3 and len(others) > 1:  # the value of a sibling
        other = draw.choice(others)
        new = other[0].get(other[1]) if isinstance(other[0], thrift_tree.Struct) else other[0].items[other[1]]
        if type(new) is not type(old):
            new = _other_value(old, draw)
    else:
        new = _other_value(old, draw)
    if isinstance(holder, thrift_tree.Struct):
        holder.fields[key] = (holder.fields[key][0], new)
    else:
        holder.items[key] = new
    return f"{path}: {old!r} -> {new!r}"


def _places(node: Any, path: tuple) -> Any:
    """Yield the containers of simple values below a node, their keys, and their paths."""
    if isinstance(node, thrift_tree.Struct):
        entries = [(key, value) for key, (_, value) in node.fields.items()]
    else:
        entries = list(enumerate(node.items))
    for key, value in entries:
        if isinstance(value, (thrift_tree.Struct, thrift_tree.List)):
            yield from _places(value, (*path, key))
        else:
            yield node, key, (*path, key)


def _other_value(old: Any, draw: random.Random) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return draw.choice((old + 1, old - 1, 0, old + PAGE, old * 2, draw.randrange(ROWS), -1))
    if isinstance(old, bytes) and old:
        if draw.random() < 0.3:
            return draw.choice((b"", old[:-1], old + b"\0", bytes(reversed(old))))
        position = draw.randrange(len(old))
        return old[:position] + bytes([old[position] ^ 1 << draw.randrange(8)]) + old[position + 1 :]
    return old


_KINDS = {
    "page": _page,
    "header": _header,
    "footer": _footer_bytes,
    "index": _index_bytes,
    "footer field": _footer_field,
    "statistics": _statistics,
    "offsets": _offsets,
    "bounds": _bounds,
}
