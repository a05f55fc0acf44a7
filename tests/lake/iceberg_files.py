"""Files of Iceberg tables that pyiceberg reads but does not write."""

from __future__ import annotations

import json
import os
import struct
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap


def commit_file(table, path, *, content=None, file_format=None, num_rows=1, partition=(), bounds=None):
    """Add an existing file with any content to a table."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    file = DataFile.from_args(
        content=content or DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=file_format or FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=num_rows,
        file_size_in_bytes=os.path.getsize(path),
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds=bounds or {},
        upper_bounds=bounds or {},
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = table.spec().spec_id
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)


def with_metadata(table, path, change):
    """Return a table of version 3, which pyiceberg reads but does not write.

    Args:
        table: A table of version 2.
        path: The new file of metadata.
        change: A function that changes the metadata, a JSON object.
    """
    from pyiceberg.table import StaticTable

    with open(table.metadata_location.removeprefix("file://")) as file:
        metadata = json.load(file)
    metadata |= {"format-version": 3, "next-row-id": 0}
    for snapshot in metadata["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 0}
    change(metadata)
    path.write_text(json.dumps(metadata))
    return StaticTable.from_metadata(f"file://{path}")


def commit_position_deletes(table, path, deleted):
    """Delete rows by a position delete file.

    Args:
        table: The table.
        path: The new file.
        deleted: Pairs of the location of a data file and a row number.
    """
    from pyiceberg.manifest import DataFileContent

    rows = sorted(deleted)
    columns = pa.table(
        {"file_path": [one for one, _ in rows], "pos": pa.array([row for _, row in rows], pa.int64())}
    )
    pq.write_table(columns, path)
    commit_file(table, path, content=DataFileContent.POSITION_DELETES, num_rows=len(rows))


def commit_deletion_vectors(table, path, deleted):
    """Delete rows by deletion vectors in a Puffin file.

    Args:
        table: The table.
        path: The new file.
        deleted: The row numbers for the location of each data file.
    """
    from pyiceberg.manifest import DataFileContent, FileFormat

    data, blobs = b"PFA1", []
    for location, rows in deleted.items():
        bitmap = struct.pack("<IQI", 1681511377, 1, 0) + BitMap(rows).serialize()
        blob = struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(data),
                "length": len(blob),
                "properties": {"referenced-data-file": location, "cardinality": str(len(rows))},
            }
        )
        data += blob
    footer = json.dumps({"blobs": blobs}).encode()
    path.write_bytes(data + b"PFA1" + footer + struct.pack("<II", len(footer), 0) + b"PFA1")
    content = DataFileContent.POSITION_DELETES
    commit_file(table, path, content=content, file_format=FileFormat.PUFFIN, num_rows=1)
