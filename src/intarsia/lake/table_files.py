"""The files of a table, and the schema that they have together."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa

from intarsia.file import ParquetInput
from intarsia.lake.discovery import TableFile, partition_types
from intarsia.storage import ObjectStoreFile


class TableFiles:
    """Parquet files with one schema: that of the first, with the partition columns at its end.

    Args:
        files: The files, at least one.
    """

    def __init__(self, files: Sequence[TableFile]) -> None:
        self.files = tuple(files)
        # the first file and its ETag, for whoever is first to read it
        self._still_open: list[tuple[ParquetInput, str]] = []

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_still_open": []}  # a copy opens its files itself

    def open_file(self, entry: TableFile) -> ParquetInput:
        """Open one of the files.

        The first one, if it is an object, is open since its schema was asked for: its footer need not be
        fetched again, if it still is that object.
        """
        source = entry.open()
        if entry is self.files[0] and isinstance(source, ObjectStoreFile):
            with contextlib.suppress(IndexError):
                first, e_tag = self._still_open.pop()
                if e_tag == source.e_tag:
                    return first
        return ParquetInput(source)

    @cached_property
    def partition_types(self) -> dict[str, pa.DataType]:
        """Type of each partition column."""
        return partition_types(self.files)

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema; reads the first file's footer."""
        source = self.files[0].open()
        first = ParquetInput(source)
        schema = first.arrow_schema
        if isinstance(source, ObjectStoreFile) and source.e_tag is not None:
            self._still_open.append((first, source.e_tag))
        else:  # a local file is soon opened again, holds a descriptor, and may be overwritten until the scan
            first.close()
        for name, kind in self.partition_types.items():
            field = pa.field(name, pa.dictionary(pa.int32(), kind))
            place = schema.get_field_index(name)
            schema = schema.append(field) if place < 0 else schema.set(place, field)
        return schema
