"""A check of all arguments before any row is written, by writing and indexing an empty file in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.embed.attach import Attachable, attach_in
from intarsia.errors import WriteError
from intarsia.file import ParquetInput
from intarsia.storage import MemorySource


def dry_run(
    schema: pa.Schema, path: str, indexes: Iterable[Attachable], compression: str, level: int | None
) -> ParquetInput:
    """Write and index a file without rows in memory.

    Args:
        schema: The schema.
        path: The name in messages.
        indexes: The indexes to embed.
        compression: The codec.
        level: The codec's level.

    Returns:
        The file, without the indexes.

    Raises:
        WriteError: If the schema cannot be written, or the codec is unknown.
        IndexBuildError: If an index cannot be built on its columns.
        ColumnNotFoundError: If an index names a column that does not exist.
    """
    _refuse_duplicates(schema, path)
    sink = pa.BufferOutputStream()
    try:
        pq.ParquetWriter(sink, schema, compression=compression, compression_level=level).close()
    except (pa.ArrowException, ValueError, OSError) as error:
        raise WriteError(
            f"{path}: pyarrow cannot write this schema with this compression: {error}; "
            "cast or drop the column, or choose another codec",
            reason="schema-not-writable",
            path=path,
        ) from error
    file = ParquetInput(MemorySource(sink.getvalue().to_pybytes(), path))
    requested = list(indexes)
    if requested:
        with file.named_errors():
            attach_in(file, requested)
    return file


def _refuse_duplicates(schema: pa.Schema, path: str) -> None:
    for name, count in Counter(schema.names).items():
        if count > 1:
            raise WriteError(
                f"{path}: {count} columns are named {name!r}; give them unique names",
                reason="duplicate-column",
                path=path,
                column=name,
            )
