"""Delta tables with hand-written logs, for features that deltalake reads but does not write."""

from __future__ import annotations

import json
import os
import struct
import uuid
import zlib
from urllib.parse import quote

import pyarrow.parquet as pq
from pyroaring import BitMap

#: The digits of Z85, in which the log stores bytes.
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def column(name, kind, physical=None, field_id=None):
    """Return a field of a schema; with a physical name, for a table with column mapping."""
    metadata = {}
    if physical is not None:
        metadata = {"delta.columnMapping.id": field_id, "delta.columnMapping.physicalName": physical}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def struct_of(*fields):
    """Return the type of a struct, or of a table."""
    return {"type": "struct", "fields": list(fields)}


def list_of(kind):
    """Return the type of a list."""
    return {"type": "array", "elementType": kind, "containsNull": True}


def write_log(
    folder, schema, files, *, features=(), partition_by=(), mode="none", version=0, statistics=None
):
    """Write a commit that defines a table.

    Args:
        folder: The folder of the table.
        schema: The schema.
        files: For each file its path, the rows, the partition values, and the deletion vector or None.
        features: The features that readers need.
        partition_by: The partition columns.
        mode: The mode of column mapping.
        version: The version.
        statistics: Statistics of files by path, in addition to their number of rows.
    """
    actions = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": list(features),
                "writerFeatures": list(features),
            }
        },
        {
            "metaData": {
                "id": str(uuid.uuid5(uuid.NAMESPACE_URL, str(folder))),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": list(partition_by),
                "configuration": {} if mode == "none" else {"delta.columnMapping.mode": mode},
                "createdTime": 0,
            }
        },
    ]
    for path, rows, partition, vector in files:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, file, row_group_size=4, write_page_index=True, data_page_size=1)
        add = {
            "path": quote(path),
            "partitionValues": partition,
            "size": os.path.getsize(file),
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows.num_rows, **(statistics or {}).get(path, {})}),
        }
        if vector is not None:
            add["deletionVector"] = vector
        actions.append({"add": add})
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (log / f"{version:020}.json").write_text(text)


def _bitmap(rows):
    """Serialize row numbers of fewer than 32 bits as Delta does."""
    return struct.pack("<IQI", 1681511377, 1, 0) + BitMap(rows).serialize()


def inline_vector(rows):
    """Return a deletion vector that is in the log."""
    data = _bitmap(rows)
    padded = data + bytes(-len(data) % 4)
    digits = []
    for (number,) in struct.iter_unpack(">I", padded):
        digits += [_Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return {
        "storageType": "i",
        "pathOrInlineDv": "".join(digits),
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def vector_in_a_file(folder, rows):
    """Write a deletion vector to a separate file."""
    data = _bitmap(rows)
    path = folder / "deletion_vector.bin"
    path.write_bytes(b"\1" + struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data)))
    return {
        "storageType": "p",
        "pathOrInlineDv": path.as_uri(),
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }
