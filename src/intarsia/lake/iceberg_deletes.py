"""Rows that an Iceberg table has deleted without rewriting files: position deletes and deletion vectors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from intarsia.errors import UnsupportedFeatureError
from intarsia.lake.data_file import DataFile
from intarsia.lake.library_errors import translated_errors
from intarsia.lake.scan import Scan
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Comparison
from intarsia.rows.selection import Rows, RowSelection
from intarsia.storage import ByteRange


@dataclass(frozen=True)
class DeletedPositions:
    """The deleted rows of one data file, read from delete files on first use.

    Attributes:
        location: The location of the data file, as in delete files.
        delete_files: The delete files that may have rows of the data file.
    """

    location: str
    delete_files: tuple[DeleteFile, ...]

    @cached_property
    def _rows(self) -> RowSelection:
        found = [delete_file.rows_of(self.location) for delete_file in self.delete_files]
        return RowSelection.from_rows(np.concatenate(found))

    def rows(self) -> RowSelection:
        """Return the deleted rows, as row numbers of the file.

        Raises:
            CorruptFileError: If a delete file is damaged.
            FileNotFoundError: If a delete file does not exist.
        """
        return self._rows


class DeleteFile:
    """A file with rows that are deleted from data files.

    Args:
        file: The file.
        file_format: Its format, as in manifests.

    Raises:
        UnsupportedFeatureError: If its format is neither Parquet nor Puffin.
    """

    def __init__(self, file: DataFile, file_format: str) -> None:
        self._file = file
        self._has_vectors = file_format == "PUFFIN"
        if file_format not in ("PARQUET", "PUFFIN"):
            raise UnsupportedFeatureError(
                f"the delete file is {file_format}, and Intarsia reads only Parquet and Puffin; rewrite the "
                "data files of the table",
                reason="not-parquet",
                path=file.path,
            )

    @cached_property
    def _table(self) -> TableFiles:
        return TableFiles([self._file])

    def rows_of(self, location: str) -> Rows:
        """Return the numbers of the deleted rows of a data file, which may repeat.

        Args:
            location: The location of the data file.

        Raises:
            CorruptFileError: If the delete file is damaged.
        """
        if self._has_vectors:
            return self._vectors.get(location, np.array([], dtype=np.int64))
        scan = Scan(self._table, Comparison("file_path", "=", location), ["pos"], None)
        return np.asarray(scan.to_arrow()["pos"].to_numpy(), dtype=np.int64)

    @cached_property
    def _vectors(self) -> dict[str, Rows]:
        """The deleted rows of all data files in a Puffin file, by location."""
        from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
        from pyiceberg.table.puffin import PuffinFile

        with contextlib.closing(self._file.open()) as source:
            (data,) = source.read_ranges([ByteRange(0, source.size())])
        with translated_errors("pyiceberg", "the deletion vectors", self._file.path, "damaged-deletes"):
            vectors: Iterable[Any] = deletion_vectors_from_puffin_file(PuffinFile(data))
            return {one.referenced_data_file: one.to_vector().to_numpy() for one in vectors}
