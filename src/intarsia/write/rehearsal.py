"""What can be told before a row is written: a file of the same schema without rows, indexed as asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.embed.attach import Attachable, attach_to
from intarsia.errors import WriteError
from intarsia.file import ParquetInput
from intarsia.storage import ByteSource, MemorySource


def rehearse(
    schema: pa.Schema, path: str, indexes: Iterable[Attachable], compression: str, level: int | None
) -> ParquetInput:
    """Write a file without rows in memory, and index it.

    Args:
        schema: The schema.
        path: The name to show.
        indexes: What is to be inlaid.
        compression: The codec.
        level: Its level.

    Returns:
        The file, without the indexes.

    Raises:
        WriteError: If the schema cannot be written, or there is no such codec.
        IndexBuildError: If an index cannot be built on these columns.
        ColumnNotFoundError: If there is no such column.
    """
    _refuse_repeated(schema, path)
    sink = pa.BufferOutputStream()
    try:
        pq.ParquetWriter(sink, schema, compression=compression, compression_level=level).close()
    except (pa.ArrowException, ValueError, OSError) as error:
        raise WriteError(
            f"{path}: no file can be written with this schema and compression: {error}; "
            "cast or drop the column, or choose another codec"
        ) from error
    source = MemorySource(sink.getvalue().to_pybytes(), path)
    asked = list(indexes)
    if asked:
        attach_to(_Nowhere(path, source.size(), source), asked)
    return ParquetInput(source)


def _refuse_repeated(schema: pa.Schema, path: str) -> None:
    for name, count in Counter(schema.names).items():
        if count > 1:
            raise WriteError(f"{path}: {count} columns are called {name!r}; give them names that are unique")


@dataclass
class _Nowhere:
    """A target to which nothing is written; implements `intarsia.storage.target.Target`."""

    path: str
    size: int
    source: MemorySource

    def open(self) -> ByteSource:
        return self.source

    def replace_tail(self, keep_bytes: int, tail: Sequence[bytes]) -> None:
        """Nobody wants it."""
