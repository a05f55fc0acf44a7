"""Find the rows of a lake that match, and erase them from the files that have them.

The driver gets the ordinals of the rows by file, compressed, with the length and the time of each file in
which they were found, or the ETag of an object: they are the ordinals of no other file.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from intarsia.arrow.owned_rows import by_key
from intarsia.errors import ChangedMeanwhileError
from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile
from intarsia.records import dataclass
from intarsia.rows.selection import Rows
from intarsia.spark.job import collect_rows
from intarsia.spark.lake_files import list_lake
from intarsia.spark.listing import Source, location_of, paths_of, python_path
from intarsia.spark.reading import read
from intarsia.spark.rules import obstacle_to_rules
from intarsia.spark.sessions import changed_setting, map_in_arrow
from intarsia.storage import LocalFile, local_path
from intarsia.storage.hadoop_files import check_sink_log
from intarsia.storage.object_target import open_object_target
from intarsia.storage.objects import quoted
from intarsia.storage.replace import FileIdentity, remove_file
from intarsia.write.rewriting import rewrite_without

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

#: The code of a file that was replaced after its rows were found.
CHANGED: Final = "changed-meanwhile"

#: The rows that match, as tasks return them: compressed ordinals by file.
_FOUND: Final = "uri string, size bigint, modified bigint, rows binary"

#: Spark's own bounds exclude NaN, so filters that Spark pushes down lose rows.
_PUSHDOWN: Final = "spark.sql.parquet.filterPushdown"


@dataclass(frozen=True)
class ErasedFile:
    """A file that had rows that match.

    Attributes:
        path: The file.
        is_removed: Whether it was removed, because it had no other rows.
        rows_before: The number of its rows before.
        rows_deleted: The number of rows that were deleted.
        bytes_before: Its length before.
        bytes_after: Its length now; 0 if it was removed.
        built: Names of the indexes that were built again.
        seconds: Time taken.
    """

    path: str
    is_removed: bool
    rows_before: int
    rows_deleted: int
    bytes_before: int
    bytes_after: int
    built: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def rows_left(self) -> int:
        """The number of rows that it has now."""
        return self.rows_before - self.rows_deleted


@dataclass(frozen=True)
class Matches:
    """The rows of a file that match.

    Attributes:
        uri: The name of the file in Spark.
        size: The length of the file in which they were found.
        modified: Its modification time in milliseconds since 1970.
        pieces: The ordinals of the rows, compressed.
        e_tag: The ETag of an object when it was listed, before its rows were searched; None for local files.
    """

    uri: str
    size: int
    modified: int
    pieces: Sequence[bytes]
    e_tag: str | None = None

    @property
    def rows(self) -> Rows:
        """The ordinals, ascending."""
        parts = [np.cumsum(np.frombuffer(zlib.decompress(piece), np.int64)) for piece in self.pieces]
        return np.unique(np.concatenate(parts))

    def as_erased(self, path: str) -> ErasedFile:
        """Return the outcome of a dry run."""
        with ParquetInput(DataFile(path, self.size).open()) as file:
            return ErasedFile(path, False, file.footer.num_rows, len(self.rows), self.size, self.size)

    def as_done(self, path: str) -> ErasedFile:
        """Return the outcome of an attempt that Spark has not reported, such as one that died at the end."""
        num_rows = len(self.rows)
        try:
            with ParquetInput(DataFile(path, 0).open()) as file:
                num_rows_left, num_bytes = file.footer.num_rows, file.source.size()
        except FileNotFoundError:
            return ErasedFile(path, True, num_rows, num_rows, self.size, 0)
        return ErasedFile(path, False, num_rows_left + num_rows, num_rows, self.size, num_bytes)

    def erase(self, path: str, *, keeps_file: bool) -> ErasedFile:
        """Rewrite or remove the file, on an executor.

        Args:
            path: The file.
            keeps_file: Whether the file stays if all of its rows match.

        Raises:
            ChangedMeanwhileError: If it is not the file in which the rows were found.
            ReplaceError: If a log lists it.
        """
        if local_path(path) is None:
            return self._erase_in_store(path)
        started = time.perf_counter()
        check_sink_log(path, 0)  # whose lengths Spark takes for those of the files
        try:
            identity = FileIdentity.of(path)
        except FileNotFoundError:
            raise _changed(path) from None
        if (identity.size, identity.mtime_ns // 1_000_000) != (self.size, self.modified):
            raise _changed(path)
        rows = self.rows
        with ParquetInput(LocalFile(path)) as file:
            num_rows = file.footer.num_rows
        num_bytes, built = 0, tuple[str, ...]()
        # a link to a removed file would break the lake
        is_removed = len(rows) == num_rows and not keeps_file and not os.path.islink(path)
        if is_removed:
            remove_file(path, identity)
        else:
            new = rewrite_without(path, rows, identity)
            num_bytes, built = new.num_bytes, new.built
        seconds = time.perf_counter() - started
        return ErasedFile(path, is_removed, num_rows, len(rows), identity.size, num_bytes, built, seconds)

    def _erase_in_store(self, path: str) -> ErasedFile:
        """Replace an object by a copy without the rows.

        It stays if it has no other rows, because stores have no conditional deletion.
        """
        started = time.perf_counter()
        target = open_object_target(path)
        source = target.open()
        with tempfile.TemporaryDirectory(prefix="intarsia-") as folder:
            if self.e_tag is None or source.e_tag != self.e_tag:
                raise _changed(path)
            copy = os.path.join(folder, path.rpartition("/")[2])
            target.copy_to(copy)
            rows = self.rows
            new = rewrite_without(copy, rows, FileIdentity.of(copy))
            with open(copy, "rb") as written, mmap.mmap(written.fileno(), 0, access=mmap.ACCESS_READ) as data:
                target.replace_tail(0, [data])
        seconds = time.perf_counter() - started
        num_rows = new.num_rows + len(rows)
        return ErasedFile(path, False, num_rows, len(rows), target.size, new.num_bytes, new.built, seconds)


def _changed(path: str) -> ChangedMeanwhileError:
    return ChangedMeanwhileError(
        "the file was replaced or removed after its rows were found; run again", reason=CHANGED, path=path
    )


def find_rows(spark: SparkSession, table: Source, where: str | Column) -> dict[str, Matches]:
    """Return the rows that match, by the path of their file.

    Args:
        spark: The session.
        table: The lake.
        where: The predicate, in Spark SQL or as a ``Column``.
    """
    import pyspark.sql.functions as sf

    # a replacement is detected by ETags from before the search, because Spark's rows have none
    has_objects = any(local_path(python_path(location_of(spark, name))) is None for name in paths_of(table))
    listed = list_lake(spark, table).files if has_objects else {}

    # the mode in which single rows are skipped, if the session supports it
    frame = read(spark, table, where, mode="native" if obstacle_to_rules(spark) is None else "files")
    about = frame.metadataColumn("_metadata")
    places = frame.select(
        about["file_path"].alias("uri"),
        about["file_size"].alias("size"),
        sf.unix_millis(about["file_modification_time"]).alias("modified"),
        about["row_index"].alias("row"),
    )
    with without_pushdown(spark):
        rows = collect_rows(spark, map_in_arrow(places, _pack, _FOUND), lambda *_: None)
    pieces: dict[tuple[Any, ...], list[bytes]] = defaultdict(list)
    for *about, piece in rows:
        pieces[tuple(about)].append(bytes(piece))
    # of a file that was replaced between two listings, one state remains; another round finds the other
    matches = {}
    for (uri, num_bytes, modified), packed in pieces.items():
        path = python_path(uri)
        path = path if local_path(path) is None else os.path.abspath(path)
        e_tag = quoted(listed[path].e_tag) if path in listed else None
        matches[path] = Matches(uri, num_bytes, modified, packed, e_tag)
    return matches


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compress the rows of each file, on an executor."""
    found: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for batch in batches:
        *about, rows = batch.columns
        ordinals = rows.to_numpy(zero_copy_only=False)
        for here in by_key(about[0], np.arange(len(ordinals))).values():
            found[tuple(column[int(here[0])].as_py() for column in about)].append(ordinals[here])
    for (uri, num_bytes, modified), parts in found.items():
        ordinals = np.sort(np.concatenate(parts)).astype(np.int64)
        packed = zlib.compress(np.diff(ordinals, prepend=np.int64(0)).tobytes())
        yield pa.record_batch({"uri": [uri], "size": [num_bytes], "modified": [modified], "rows": [packed]})


def without_pushdown(spark: SparkSession) -> contextlib.AbstractContextManager[None]:
    """Let Spark evaluate conditions on all rows that it reads within the block."""
    return changed_setting(spark, _PUSHDOWN, "false")
