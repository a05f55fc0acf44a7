"""`optimize`: rewrite a lake with Spark, in an order that stores the rows of a query together."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from intarsia.amounts import count, first_lines, size
from intarsia.arrow.nested import with_leaves
from intarsia.embed.attach import checked_indexes
from intarsia.embed.report import Note, Progress, distinct_names
from intarsia.embed.structures import Attachable, Attachables
from intarsia.errors import UnsupportedFeatureError, WriteError
from intarsia.file import ParquetInput
from intarsia.lake.discovery import HIVE_NULL
from intarsia.lake.opening import open as open_table
from intarsia.records import dataclass
from intarsia.rows.values import JsonObject
from intarsia.spark.checksums import (
    Checksums,
    batches_of_counted_rows,
    checksums,
    different_columns,
    likely_row_bytes,
    with_hashes,
)
from intarsia.spark.clustering import Clustering, arranged, check_partition_columns
from intarsia.spark.in_place import States
from intarsia.spark.job import OUTCOME, TaskProgress, collect_rows, named_unreadable_files, reporter
from intarsia.spark.lake_jobs import update_lake_indexes
from intarsia.spark.listing import (
    Source,
    exact_path,
    fixed_folder,
    folder_of_table,
    list_files,
    location_of,
    paths_of,
    python_path,
    refresh,
    refresh_tables,
    refuse_managed_files,
    refuse_managed_folders,
    source_files,
    uncached,
)
from intarsia.spark.part_files import PartOptions, Staging, outcome_of, partition_folder, write_parts
from intarsia.spark.sessions import map_in_arrow
from intarsia.spark.shipping import pack_index
from intarsia.spark.spark_types import quoted, unsupported_type
from intarsia.storage import LocalFile, local_path
from intarsia.write import Writer, WriteReport
from intarsia.write.output import WriteOptions, dry_run
from intarsia.write.rewriting import indexes_of
from intarsia.write.rows import SortBy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class OptimizeReport(JsonObject):
    """The report of `intarsia.spark.optimize`; ``str(report)`` returns a summary.

    Attributes:
        destination: The folder of the new files.
        per_file: The report of each new file, ordered by path.
        num_rows: The number of rows, which equals that of the source.
        verified: The columns whose checksums equal those of the source.
        files_before: The number of files of the source.
        bytes_before: Their total length.
        seconds: Total time taken.

    Example:
        >>> written = WriteReport("out/a.parquet", 1000, 1, 900_000, 900, ("city",), ("page_index",), (), 0.1)
        >>> print(OptimizeReport("out", (written,), 1000, ("city",), 30, 1_000_000, 2.5))
        out: wrote 1,000 rows from 30 files to 1 file in 2.5 s
        1.0 MB became 900 kB, with page_index
        1 column verified against the source
    """

    JSON_KEYS = (
        "destination rows=num_rows verified files.before files.after bytes.before bytes.after built seconds "
        "notes per_file"
    )

    destination: str
    per_file: tuple[WriteReport, ...] = field(repr=False)
    num_rows: int
    verified: tuple[str, ...]
    files_before: int
    bytes_before: int
    seconds: float

    @property
    def files_after(self) -> int:
        """The number of new files."""
        return len(self.per_file)

    @property
    def bytes_after(self) -> int:
        """Total length of the new files, including indexes."""
        return sum(file.num_bytes for file in self.per_file)

    @property
    def built(self) -> tuple[str, ...]:
        """Names of the indexes that were built in at least one file."""
        return distinct_names(file.built for file in self.per_file)

    @property
    def notes(self) -> list[dict[str, Any]]:
        """``path``, ``column``, ``index``, ``reason`` and ``code`` of each note."""
        return [{"path": file.path, **asdict(note)} for file in self.per_file for note in file.notes]

    def __str__(self) -> str:
        built = f", with {', '.join(self.built)}" if self.built else ""
        before, after = count(self.files_before, "file"), count(self.files_after, "file")
        rows = count(self.num_rows, "row")
        lines = [
            f"{self.destination}: wrote {rows} from {before} to {after} in {self.seconds:.1f} s",
            f"{size(self.bytes_before)} became {size(self.bytes_after)}{built}",
            f"{count(len(self.verified), 'column')} verified against the source",
        ]
        files_of: dict[Note, int] = defaultdict(int)
        for file in self.per_file:
            for whole in {Note(note.column, None, note.index, note.reason, note.code) for note in file.notes}:
                files_of[whole] += 1
        notes = [f"note: {note} ({count(files, 'file')})" for note, files in files_of.items()]
        return "\n".join([*lines, *first_lines(notes, "note")])


#: The default size of a file in bytes; a few tasks of Spark read a file of this size.
TARGET_FILE_SIZE = 128 << 20

#: The default number of rows per page: a lookup reads one page of each column.
ROWS_PER_PAGE = 4096

#: Number of files whose indexes a rewrite in place keeps.
_SAMPLED = 16

#: The start of the name that Spark gives to the file of a bucket, whose number is behind the underscore.
_BUCKET = re.compile(r"part-\d{5}-[0-9a-f-]{36}_\d{5}\.")


def optimize(
    spark: SparkSession,
    source: Source,
    destination: str | os.PathLike[str] | None = None,
    *,
    in_place: bool = False,
    sort_by: SortBy | None = None,
    zorder_by: str | Sequence[str] | None = None,
    hilbert_by: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] | None = None,
    target_file_size: int = TARGET_FILE_SIZE,
    rows_per_page: int = ROWS_PER_PAGE,
    compression: str = "zstd",
    indexes: Attachables | None = None,
    progress: Progress | bool = True,
) -> OptimizeReport:
    """Rewrite a lake into a new folder or in place, sorted, with pages sized for lookups, and with indexes.

    Spark sorts the rows. Its tasks write files as `intarsia.Writer` does: with a page index, dictionaries
    only for columns whose values repeat, and timestamps as microseconds in UTC, which have bounds. Before
    the destination appears, the number of rows and a checksum of all columns, as Spark reads them from the
    new files, are compared with those of the rows that were read from the source.
    The source is not changed, unless it is rewritten in place. The destination appears with all of its files,
    or not at all.

    Args:
        spark: The session; classic or Connect. The executors need this package, as for `index`.
        source: A path as for ``spark.read.parquet``, a list of these, or the name of a table in the catalog.
            The rewritten rows have the columns of all files.
        destination: A local folder, or one that all machines share. It is empty or does not exist. Its
            parent folder must be writable, because the files are written beside it first. None with
            ``in_place``.
        in_place: Replace the files of the source, which is one folder, or a table with one, such as to merge
            small files. The rewritten folder is complete beside the old one before the two are exchanged
            atomically, which takes Linux and a local file system. So readers see the old files or the new
            ones; a reader that has listed the old ones fails when it opens them. Other files of the folder
            stay, also those that are written meanwhile. Until the end, it takes space for both.
        sort_by: A column, or several with optional directions, as in ``["a", ("b", "descending")]``. Nulls
            are last. Files have disjoint ranges.
        zorder_by: Columns to cluster by, along a Z-order curve. All of them have the same weight.
        hilbert_by: Columns to cluster by, along a Hilbert curve, which separates values slightly better.
        partition_by: Columns that become folders such as ``month=11``, as in ``DataFrameWriter.partitionBy``.
            By default the partition columns of the source; ``()`` for none.
        target_file_size: The size of a file in bytes, estimated from the size of the source. Files are
            smaller in partitions with few rows.
        rows_per_page: Maximum number of rows per page, the unit that a lookup reads.
        compression: As for `intarsia.Writer`.
        indexes: The indexes to embed, as for `index`. By default none; in place, those of up to 16 files of
            the source.
        progress: Called as ``progress(done, total, label)`` with tasks of the current job; True to print a
            line on stderr if it is a terminal.

    Returns:
        A report of the new files.

    Raises:
        UnsupportedFeatureError: If the source is a Delta, Iceberg, Hudi or Paimon table, or a view, or has a
            column of a type that the files cannot preserve, such as an interval.
        WriteError: If the destination has files or is in the source, if the arguments are invalid, if Spark
            cannot read a file, or if the new files differ from the source, which may have changed. The
            destination is then not created.
        ColumnNotFoundError: If an argument names a column that does not exist.
        IndexBuildError: If an index cannot be built on its columns.
        ValueError: If there is a destination and ``in_place``, or neither.
        AnalysisException: If Spark cannot read the source.

    Example:
        >>> from intarsia import spark as ias
        >>> report = ias.optimize(spark, "lake/", "sorted/", sort_by="tailnum")  # doctest: +SKIP
        >>> report.num_rows, report.files_after  # doctest: +SKIP
        (336776, 1)
    """
    started = time.perf_counter()
    show = reporter(progress, "tasks")
    if (destination is None) is not in_place:
        raise ValueError("pass a destination, or in_place=True")
    target = None if destination is None else _local_destination(destination)
    with named_unreadable_files():
        refresh_tables(spark, source)
        frame, folders, found_partitions = source_rows(spark, source)
    if target is None:
        target = _own_folder(spark, source, frame)
    else:
        _refuse_overlap(target, folders)
    schema = arrow_schema_of(frame)
    clustering = Clustering.of(schema, sort_by, zorder_by, hilbert_by)
    names = [partition_by] if isinstance(partition_by, str) else partition_by
    partitions = tuple(found_partitions if names is None else names)
    check_partition_columns(partitions, schema, clustering)
    if in_place and folder_of_table(spark, source) is not None:
        _check_table(
            spark, str(source), frame, schema, has_same_folders=list(partitions) == list(found_partitions)
        )
        _check_folders(str(source), frame, partitions, target)
    file_schema = pa.schema([field for field in schema if field.name not in partitions])
    if indexes is None:
        indexes = _indexes_of_files(frame, file_schema) if in_place else ()
    requested = checked_indexes(indexes)
    _check_sizes(target_file_size, rows_per_page)
    dry_run(file_schema, target, requested, WriteOptions(compression=compression))
    with named_unreadable_files(), Staging(target, is_replaced=in_place) as staging:
        show(0, 0, "reading")
        files = source_files(spark, frame)
        num_bytes, num_rows = sum(size for size, _ in files.values()), frame.count()
        num_parts = max(1, -(-num_bytes // target_file_size))
        options = PartOptions(
            folder=staging.attempts,
            schema=file_schema,
            partition_by=partitions,
            # range partitioning cannot divide equal values
            rows_per_file=max(1, -(-num_rows // num_parts) * 2),
            rows_per_page=rows_per_page,
            compression=compression,
            sort_by=list(clustering.keys) or None,
            indexes=tuple(map(pack_index, requested)),
        )
        if num_rows:
            rows = arranged(with_hashes(frame), clustering, partitions, num_rows, num_parts)
            with batches_of_counted_rows(spark, likely_row_bytes(frame, num_bytes // num_rows)):
                written, before = _write(spark, rows, options, staging, _phase(show, "writing"))
        else:
            written, before = [_write_empty(schema, staging, options)], Checksums()
        verifying = _phase(show, "verifying")
        after = _written(spark, staging.data, frame, partitions if num_rows else ())
        found = checksums(spark, after, verifying)
        if source_files(spark, frame) != files:  # perhaps only indexes were added
            frame, _, _ = source_rows(spark, source)
            before = checksums(spark, frame, verifying)
            num_rows = before.num_rows
        if (num_rows, found) != (before.num_rows, before):
            same_count = found.num_rows == num_rows
            columns = different_columns(spark, frame, after, verifying) if same_count else []
            raise _differ(num_rows, found.num_rows, target, columns)
        staging.publish(_below(target, files) if in_place else {})
        published = [replace(report, path=staging.published(report.path)) for report in written]
    if in_place:
        refresh(spark, source)
        update_lake_indexes(spark, [target])
    show(1, 1, "done")
    return OptimizeReport(
        target,
        tuple(sorted(published, key=lambda report: report.path)),
        num_rows,
        tuple(frame.columns),
        len(files),
        num_bytes,
        time.perf_counter() - started,
    )


def _phase(show: Progress, label: str) -> TaskProgress:
    """Return the function to call with the tasks of one phase, and report the start of the phase."""
    show(0, 0, label)
    return lambda done, total: show(done, total, label)


def _local_destination(destination: str | os.PathLike[str]) -> str:
    name = os.fspath(destination)
    if not name:
        raise WriteError("the path of the destination is empty; pass a new folder", reason="no-destination")
    local = local_path(python_path(name, decode=False))
    if local is None:
        raise UnsupportedFeatureError(
            "the destination is not a local or shared folder, and object stores cannot rename folders; write "
            "to a local folder, and copy it",
            reason="destination-not-local",
            path=name,
        )
    return os.path.abspath(local)


def source_rows(spark: SparkSession, source: Source) -> tuple[DataFrame, list[str], Sequence[str]]:
    """Return the rows of the source, its local folders, and its partition columns."""
    reader = uncached(spark).option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
    location, paths = folder_of_table(spark, source), paths_of(source)
    names = [python_path(name, decode=False) for name in (paths if location is None else [location])]
    folders = [name for name in map(local_path, names) if name is not None]
    if location is None:
        folders = list(map(fixed_folder, folders))
    refuse_managed_folders(folders)
    if location is not None:
        partitions = [column.name for column in spark.catalog.listColumns(str(source)) if column.isPartition]
        return reader.table(str(source)), folders, partitions
    frame = reader.option("mergeSchema", "true").parquet(*paths)
    refuse_managed_files(source, frame.inputFiles())
    listing = list_files(frame, paths)
    found = {name for file in (listing.files if listing else ()) for name, _ in file.partition}
    return frame, folders, [name for name in frame.columns if name in found]


def _own_folder(spark: SparkSession, source: Source, frame: DataFrame) -> str:
    """Return the folder of a source that is rewritten in place.

    Raises:
        WriteError: If it is not one local folder with all files.
        UnsupportedFeatureError: If its files are the buckets of a table.
    """
    names = [local_path(python_path(location_of(spark, name), decode=False)) for name in paths_of(source)]
    folder = os.path.realpath(names[0] or "") if len(names) == 1 else ""
    if not names or names[0] is None or not os.path.isdir(folder):
        raise WriteError(
            f"{source}: only one local folder can be rewritten in place; pass its path", reason="not-a-folder"
        )
    for uri in frame.inputFiles():
        parent, name = os.path.split(python_path(uri))
        if _BUCKET.match(name):
            raise UnsupportedFeatureError(
                f"{name} is named as a bucket of a table, and Spark could not read the new files as its "
                "buckets; pass a destination",
                reason="bucketed-table",
                path=folder,
            )
        if os.path.commonpath([folder, os.path.realpath(parent)]) != folder:
            raise WriteError(
                f"the file {uri} of the source is in another folder, so the folder cannot be rewritten in "
                "place; pass a destination",
                reason="files-elsewhere",
                path=folder,
            )
    return folder


def _check_table(
    spark: SparkSession, table: str, frame: DataFrame, schema: pa.Schema, *, has_same_folders: bool
) -> None:
    """Raise an error if the catalog describes a table in a way that would not fit its new files.

    Raises:
        UnsupportedFeatureError: If it is bucketed.
        WriteError: If its partition columns would change, or values of its files would be lost.
    """
    if any(column.isBucket for column in spark.catalog.listColumns(table)):
        raise UnsupportedFeatureError(
            "Spark could not read the new files as the buckets of the table; pass a destination",
            reason="bucketed-table",
            path=table,
        )
    if not has_same_folders:
        raise WriteError(
            "the partitions of the table are in the catalog, which would not find the new ones; leave out "
            "partition_by, or pass a destination",
            reason="partitions-of-table",
            path=table,
        )
    known = {name for field in schema for name in _names_in(field.type, field.name)}
    files = [python_path(uri) for uri in frame.inputFiles()]
    fields = open_table(files).schema if files else ()
    lost = [name for field in fields for name in _names_in(field.type, field.name) if name not in known]
    if lost:
        raise WriteError(
            f"the files of the table have the column {lost[0]!r}, which the table lacks, so its values would "
            "be lost; pass the folder instead of the table",
            reason="columns-not-in-table",
            path=table,
            column=lost[0],
        )


def _check_folders(table: str, frame: DataFrame, partitions: Sequence[str], target: str) -> None:
    """Raise an error if the new files of a partition would not be in its folder.

    The catalog may know a partition by another folder than Spark would write: ``month=01``, or ``v2``.

    Raises:
        WriteError: If a file is in another folder.
    """
    if not partitions:
        return
    texts = [frame[quoted(name)].cast("string") for name in partitions]
    path = frame.metadataColumn("_metadata")["file_path"]
    for *values, uri in frame.select(*texts, path).distinct().collect():
        new = [
            partition_folder(name, HIVE_NULL if value is None else value)
            for name, value in zip(partitions, values, strict=True)
        ]
        old = os.path.realpath(os.path.dirname(python_path(uri)))
        if old != os.path.join(target, *new):
            raise WriteError(
                f"{table} has rows of {'/'.join(new)} in the folder {old}, and the catalog would not find "
                "their new files; pass a destination",
                reason="partitions-of-table",
                path=old,
            )


def _names_in(data_type: pa.DataType, name: str) -> Iterator[str]:
    """Yield the name of a column in lower case, and those of the fields in it."""
    yield name.lower()
    if pa.types.is_struct(data_type):
        within = [(field.type, f".{field.name}") for field in data_type]
    elif pa.types.is_map(data_type):
        within = [(data_type.key_type, ".key"), (data_type.item_type, ".value")]
    else:
        within = [(data_type.value_type, ".item")] if pa.types.is_nested(data_type) else []
    for inner, end in within:
        yield from _names_in(inner, name + end)


def _below(target: str, files: States) -> States:
    """Return the states of files by their paths in a folder, instead of by URI."""

    def path(uri: str) -> str:
        folder, name = os.path.split(python_path(uri))
        return os.path.relpath(os.path.join(os.path.realpath(folder), name), target)

    return {path(uri): state for uri, state in files.items()}


def _indexes_of_files(frame: DataFrame, schema: pa.Schema) -> list[Attachable]:
    """Return the indexes of some files of a frame on columns of the new files."""
    uris = sorted(frame.inputFiles())
    found: dict[str, Attachable] = {}
    for uri in uris[:: max(1, len(uris) // _SAMPLED)][:_SAMPLED]:
        with ParquetInput(LocalFile(python_path(uri))) as file:
            for index in indexes_of(file):
                roots = [name if isinstance(name, str) else name[0] for name in index.columns]
                if all(root in schema.names or root.partition(".")[0] in schema.names for root in roots):
                    granularity = getattr(index, "granularity", "")
                    found.setdefault(f"{index.kind} {index.columns} {granularity}", index)
    return list(found.values())


def _refuse_overlap(target: str, folders: Sequence[str]) -> None:
    """Raise an error if the destination is the source, in it, or contains it."""
    path = os.path.realpath(target)
    for folder in folders:
        found = os.path.realpath(folder)
        common = os.path.commonpath([path, found])
        if common in (path, found):
            raise WriteError(
                f"the destination and the source {folder} contain each other; pass a folder beside the "
                "source",
                reason="destination-in-source",
                path=target,
            )


def arrow_schema_of(frame: DataFrame) -> pa.Schema:
    """Return the schema of the files, with timestamps in UTC.

    Raises:
        UnsupportedFeatureError: If the files cannot preserve the type of a column.
    """
    for column in frame.schema:
        found = unsupported_type(column.dataType)
        if found is not None:
            raise UnsupportedFeatureError(
                f"column {column.name!r} has type {found}, which cannot be rewritten; cast it, and write the "
                "result with Spark first",
                reason="unsupported-type",
                column=column.name,
            )
    fields = frame.limit(0).toArrow().schema
    return pa.schema(
        [pa.field(field.name, with_leaves(field.type, _in_utc), field.nullable) for field in fields]
    )


def _in_utc(data_type: pa.DataType) -> pa.DataType:
    has_zone = pa.types.is_timestamp(data_type) and data_type.tz is not None
    return pa.timestamp(data_type.unit, "UTC") if has_zone else data_type


def _check_sizes(target_file_size: int, rows_per_page: int) -> None:
    sizes = ("target_file_size", target_file_size, "bytes"), ("rows_per_page", rows_per_page, "rows")
    for name, number, unit in sizes:
        if type(number) is not int or number < 1:
            raise WriteError(
                f"{name} is {number!r}; use an integer of 1 or more, in {unit}", reason="invalid-size"
            )


def _write(
    spark: SparkSession, rows: DataFrame, options: PartOptions, staging: Staging, show: TaskProgress
) -> tuple[list[WriteReport], Checksums]:
    """Write the rows; return the reports of the files in `Staging.data`, and the checksums of the source.

    Each row takes its hash along, as the last column, from the task that reads it to the one that writes it.
    So the source is not read again for its checksums.
    """
    # unique names, because these may be equal
    columns = [rows[quoted(name)].alias(f"c{ordinal}") for ordinal, name in enumerate(options.schema.names)]
    # Spark formats the values, as it does in the names of its own folders
    texts = [
        rows[quoted(name)].cast("string").alias(f"p{ordinal}")
        for ordinal, name in enumerate(options.partition_by)
    ]

    # a closure, because Spark serializes it; the functions that it calls are imported on the executors
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from write_parts(batches, options, context.partitionId() if context is not None else 0)

    passed = rows.select(*columns, *texts, rows[quoted(rows.columns[-1])].alias("hash"))
    found = [outcome_of(row[0]) for row in collect_rows(spark, map_in_arrow(passed, run, OUTCOME), show)]
    reports = [one for one in found if isinstance(one, WriteReport)]
    read = sum((one for one in found if isinstance(one, Checksums)), Checksums())
    return [replace(report, path=staging.accept(report.path)) for report in reports], read


def _write_empty(schema: pa.Schema, staging: Staging, options: PartOptions) -> WriteReport:
    """Write one file without rows, which has the columns."""
    path = os.path.join(staging.data, f"part-00000-000-{uuid.uuid4().hex[:8]}.parquet")
    with Writer(path, schema, rows_per_page=options.rows_per_page, compression=options.compression) as writer:
        return writer.close()


def _written(spark: SparkSession, folder: str, source: DataFrame, partitions: Sequence[str]) -> DataFrame:
    """Return the rows that were written, as Spark reads them, in the columns of the source.

    Raises:
        WriteError: If Spark reads a column in another type.
    """
    # partition columns as in the source, because Spark infers their types from the names of folders
    reader = uncached(spark).option("mergeSchema", "false")
    found = {field.name: field.dataType for field in reader.parquet(exact_path(folder)).schema}
    for column in source.schema:
        if column.name not in partitions and column.dataType != found.get(column.name):
            raise WriteError(
                f"column {column.name!r} would change its type from {column.dataType.simpleString()} to "
                f"{found[column.name].simpleString() if column.name in found else 'nothing'}; cast it first",
                reason="type-changed",
                column=column.name,
            )
    rows = uncached(spark).schema(source.schema).parquet(exact_path(folder))
    return rows.select(*map(quoted, source.columns))


def _differ(before: int, after: int, target: str, columns: Sequence[str]) -> WriteError:
    if before != after:
        difference = f"{before:,} rows became {after:,}"
    elif columns:
        difference = f"the values of {', '.join(columns)} differ"
    else:
        difference = "values have moved to other rows"
    return WriteError(
        f"the rewritten rows differ from the source: {difference}; the source may have changed during the "
        "job, so run it again",
        reason="verification-failed",
        path=target,
    )
