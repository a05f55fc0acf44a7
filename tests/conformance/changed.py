"""Small files that were changed after they were indexed: what a reader uses of them, and what it ignores."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

import intarsia as ia
from intarsia.format import thrift, thrift_tree
from intarsia.format.directory import KEY
from intarsia.format.structs import KeyValue
from tests.reading.surgery import Patient

ROWS, GROUP_ROWS = 48, 16
KEY_VALUES, LOGICAL_TYPE = 5, 10

DISTINCT, ZONES = "distinct(word):row_group", "zone_map(id):row_group"
ROW_MAP, BLOOM = "row_map(id):file", "bloom_granule(word):row_group"

WORDS = [hashlib.sha256(bytes([row])).hexdigest() for row in range(ROWS)]

QUERIES = [
    [["word", "=", WORDS[21]]],
    [["word", "=", "absent"]],
    [["id", "=", 21 * 3]],
    [["id", "<", 10]],
]


def indexes() -> list[object]:
    return [
        ia.Distinct("word", granularity="row_group"),
        ia.ZoneMap("id", granularity="row_group"),
        ia.RowMap("id"),
        ia.BloomGranule("word", granularity="row_group"),
    ]


def table() -> pa.Table:
    return pa.table({"id": [3 * row for row in range(ROWS)], "word": WORDS, "other": WORDS})


def write_indexed(path: Path, change: Callable[[Patient], None] | None = None) -> None:
    """Write the file that all cases begin with; ``change`` is made before it is indexed."""
    pq.write_table(table(), path, row_group_size=GROUP_ROWS, compression="none")
    if change is not None:
        patient = Patient.read(path)
        change(patient)
        patient.write(path)
    ia.attach(path, indexes())


@dataclass
class Changed:
    """An indexed file, its directory as JSON, and its footer."""

    patient: Patient
    document: dict[str, Any]

    def entry(self, name: str) -> dict[str, Any]:
        return next(entry for entry in self.document["entries"] if entry["name"] == name)

    def payload(self, name: str) -> bytes:
        entry = self.entry(name)
        if "payload" in entry:
            return base64.b64decode(entry["payload"])
        return bytes(self.patient.body[entry["offset"] + 48 : entry["offset"] + entry["length"]])

    def put_payload(self, name: str, payload: bytes) -> None:
        """Replace a payload, with the right checksum, in the directory."""
        entry = self.entry(name)
        for field in ("offset", "length"):
            entry.pop(field, None)
        entry["payload"] = base64.b64encode(payload).decode()
        entry["xxh3"] = xxhash.xxh3_64_hexdigest(payload)

    def put_batch(self, name: str, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Replace the record batch of a payload."""
        with pa.ipc.open_stream(self.payload(name)) as reader:
            batch = change(reader.read_next_batch())
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        self.put_payload(name, sink.getvalue().to_pybytes())

    def flip(self, offset: int) -> None:
        self.patient.body[self.entry(DISTINCT)["offset"] + offset] ^= 1

    def keys(self) -> list[Any]:
        return self.patient.footer.get(KEY_VALUES).items


def set_field(column: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    ordinal = column.schema.get_field_index(name)
    return column.set_column(ordinal, column.schema.field(ordinal), values)


def with_unlisted(batch: pa.RecordBatch, value: bytes) -> pa.RecordBatch:
    return batch.replace_schema_metadata({**batch.schema.metadata, b"unlisted_granules": value})


def key_value(value: bytes) -> thrift_tree.Struct:
    return thrift_tree.parse_tree(thrift.serialize(KeyValue(KEY, value)))[0]


def add_entries(changed: Changed) -> None:
    """More entries than a directory may have. They are not objects, so the file is small."""
    changed.document["entries"] = [0] * 10_001


def first_wins(changed: Changed) -> None:
    changed.keys().append(key_value(b'{"version":1}'))


def second_is_ignored(changed: Changed) -> None:
    keys = changed.keys()
    keys.insert(0, key_value(b'{"version":1}'))


def move_footer(changed: Changed) -> None:
    changed.patient.body += bytes(8)


def flip_bits(payload: bytes, offset: int) -> bytes:
    return payload[:offset] + bytes([payload[offset] ^ 1]) + payload[offset + 1 :]


def damage_filters(changed: Changed) -> None:
    """Every block of the filters: their bytes follow the header and the edges."""
    changed.put_payload(BLOOM, flip_bits(changed.payload(BLOOM), 16 + 8 * 4 + 3))


def expand(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A value of 40 MiB, in a payload of a few kilobytes."""
    values = pa.array(["a" * (40 << 20)])
    return pa.record_batch([values, pa.array([[0, 1, 2]], batch.schema.types[1])], schema=batch.schema)


def later_type(patient: Patient) -> None:
    """Declare a logical type that parquet-format does not have yet."""
    later = thrift_tree.Struct({19: (thrift.STRUCT, thrift_tree.Struct({}))})
    patient.element("other").set(LOGICAL_TYPE, thrift.STRUCT, later)


@dataclass(frozen=True)
class Case:
    """A change to an indexed file, and the code of what a reader ignores, by name or ``"directory"``."""

    name: str
    about: str
    change: Callable[[Changed], Any]
    ignored: dict[str, str]
    before: Callable[[Patient], None] | None = None


def _directory(name: str, about: str, fault: str, **fields: Any) -> Case:
    return Case(
        name, about, lambda changed: changed.document.update(fields), {"directory": f"{fault}-directory"}
    )


def _entry(name: str, about: str, index: str, code: str | None, **fields: Any) -> Case:
    ignored = {} if code is None else {index: code}
    return Case(name, about, lambda changed: changed.entry(index).update(fields), ignored)


def _batch(name: str, about: str, index: str, code: str, change: Callable[[pa.RecordBatch], Any]) -> Case:
    return Case(name, about, lambda changed: changed.put_batch(index, change), {index: code})


CASES = [
    Case("unchanged", "everything is used", lambda changed: None, {}),
    Case(
        "unknown-fields",
        "unknown fields are ignored, in the directory and in entries",
        lambda changed: (changed.document.update(later=[1]), changed.entry(ZONES).update(later={"a": None})),
        {},
    ),
    Case("two-keys", "of several entries with the key, the first counts", first_wins, {}),
    Case(
        "two-keys-first-is-damaged",
        "of several entries with the key, the first counts",
        second_is_ignored,
        {"directory": "damaged-directory"},
    ),
    Case(
        "later-logical-type",
        "a later logical type is ? in the fingerprint",
        lambda changed: None,
        {},
        before=later_type,
    ),
    _entry("unknown-kind", "an unknown kind", ZONES, "unknown-kind", kind="later"),
    _entry("newer-kind", "a later version of a known kind", ZONES, "newer-index", kind_version=99),
    _entry(
        "unknown-parameter",
        "an unknown parameter",
        ZONES,
        "damaged-index",
        parameters={"column": "id", "granularity": "row_group", "later": 1},
    ),
    _entry(
        "other-parameters",
        "parameters that name another column",
        ZONES,
        "damaged-index",
        parameters={"column": "word", "granularity": "row_group"},
    ),
    _directory("newer-directory", "a later version of the directory", "newer", version=2),
    _directory("other-fingerprint", "the directory of another layout", "foreign", fingerprint="0" * 32),
    _directory("missing-field", "a required field is null", "damaged", entries=None),
    _directory("upper-case", "hexadecimal digits are in lower case", "damaged", fingerprint="A" * 32),
    _directory(
        "original-length", "the original file is longer than the file", "damaged", original_length=1 << 40
    ),
    Case("too-many-entries", "10,001 entries", add_entries, {"directory": "damaged-directory"}),
    Case(
        "two-entries-of-one-name",
        "names are unique",
        lambda changed: changed.document["entries"].append(dict(changed.entry(ZONES))),
        {"directory": "damaged-directory"},
    ),
    Case(
        "blob-outside",
        "a blob outside of the added region",
        lambda changed: changed.entry(DISTINCT).update(offset=8),
        {"directory": "damaged-directory"},
    ),
    Case(
        "misaligned-blob",
        "the offset of a blob is not a multiple of 8",
        lambda changed: changed.entry(DISTINCT).update(
            offset=changed.entry(DISTINCT)["offset"] + 4, length=changed.entry(DISTINCT)["length"] - 4
        ),
        {"directory": "damaged-directory"},
    ),
    Case("footer-moved", "8 bytes before the footer", move_footer, {"directory": "stale-directory"}),
    Case("wrong-magic", "a blob with another magic", lambda changed: changed.flip(0), {DISTINCT: "no-blob"}),
    Case(
        "newer-blob",
        "a later version of the blob's header",
        lambda changed: changed.flip(8),
        {DISTINCT: "unknown-blob-version"},
    ),
    Case(
        "foreign-blob",
        "the blob of another file",
        lambda changed: changed.flip(20),
        {DISTINCT: "foreign-blob"},
    ),
    Case(
        "wrong-blob-length",
        "the blob has another length",
        lambda changed: changed.flip(32),
        {DISTINCT: "wrong-blob-length"},
    ),
    Case(
        "wrong-blob", "the blob of another entry", lambda changed: changed.flip(40), {DISTINCT: "wrong-blob"}
    ),
    Case(
        "damaged-payload",
        "one bit of a payload is flipped",
        lambda changed: changed.flip(400),
        {DISTINCT: "damaged-payload"},
    ),
    _entry(
        "other-checksum", "the entry has another checksum than the blob", ZONES, "wrong-blob", xxh3="0" * 16
    ),
    Case(
        "damaged-inline-payload",
        "a payload in the directory with another checksum",
        lambda changed: changed.entry(ROW_MAP).update(xxh3="0" * 16),
        {ROW_MAP: "damaged-payload"},
    ),
    Case(
        "truncated-stream",
        "a payload that ends within its record batch",
        lambda changed: changed.put_payload(ZONES, changed.payload(ZONES)[:-100]),
        {ZONES: "damaged-payload"},
    ),
    _batch("expanding-payload", "a payload that expands to 40 MiB", DISTINCT, "damaged-payload", expand),
    _batch(
        "no-such-granule",
        "a value in a granule that does not exist",
        DISTINCT,
        "other-rows",
        lambda batch: set_field(
            batch, "granules", pa.array([[3]] * batch.num_rows, batch.schema.field("granules").type)
        ),
    ),
    _batch(
        "no-such-unlisted-granule",
        "an unlisted granule that does not exist",
        DISTINCT,
        "other-rows",
        lambda batch: with_unlisted(batch, b"[3]"),
    ),
    _batch(
        "unlisted-is-not-a-list",
        "unlisted_granules is not a list of integers",
        DISTINCT,
        "damaged-payload",
        lambda batch: with_unlisted(batch, b"[0.5]"),
    ),
    _batch(
        "unlisted-is-missing",
        "unlisted_granules is missing",
        DISTINCT,
        "damaged-payload",
        lambda batch: batch.replace_schema_metadata(None),
    ),
    _batch(
        "other-num-rows",
        "num_rows differs from the rows of the granules",
        ZONES,
        "damaged-payload",
        lambda batch: set_field(batch, "num_rows", pa.array(np.full(3, GROUP_ROWS - 1))),
    ),
    _batch(
        "bounds-without-values",
        "a granule without values has bounds",
        ZONES,
        "damaged-payload",
        lambda batch: set_field(batch, "null_count", pa.array(np.full(3, GROUP_ROWS))),
    ),
    _batch(
        "missing-granule",
        "fewer summaries than granules",
        ZONES,
        "other-rows",
        lambda batch: batch.slice(0, 2),
    ),
    Case(
        "damaged-bucket",
        "a bucket of a row map with another checksum",
        lambda changed: changed.put_payload(ROW_MAP, flip_bits(changed.payload(ROW_MAP), 8)),
        {ROW_MAP: "damaged-payload"},
    ),
    Case(
        "truncated-row-map",
        "a row map of other rows",
        lambda changed: changed.put_payload(ROW_MAP, changed.payload(ROW_MAP)[:-1]),
        {ROW_MAP: "other-rows"},
    ),
    Case(
        "damaged-edges",
        "the edges of a filter have another checksum",
        lambda changed: changed.put_payload(BLOOM, flip_bits(changed.payload(BLOOM), 24)),
        {BLOOM: "damaged-payload"},
    ),
    Case(
        "truncated-filters",
        "filters of another length",
        lambda changed: changed.put_payload(BLOOM, changed.payload(BLOOM)[:-8]),
        {BLOOM: "damaged-payload"},
    ),
]


def write_case(case: Case, folder: Path) -> Path:
    """Write the file of a case."""
    path = folder / f"{case.name}.parquet"
    write_indexed(path, case.before)
    patient = Patient.read(path)
    *_, own = (item for item in patient.footer.get(KEY_VALUES).items if item.get(1) == KEY)
    changed = Changed(patient, json.loads(own.get(2)))
    case.change(changed)
    own.set(2, thrift.BINARY, json.dumps(changed.document, separators=(",", ":")).encode())
    patient.write(path)
    return path


def write_rewritten(folder: Path, name: str, group_rows: int) -> Path:
    """Write a file as another writer does that copies the footer keys."""
    path = folder / f"{name}.parquet"
    write_indexed(path)
    rows, metadata = pq.read_table(path), pq.read_metadata(path).metadata
    pq.write_table(
        rows.replace_schema_metadata(metadata), path, row_group_size=group_rows, compression="none"
    )
    return path
