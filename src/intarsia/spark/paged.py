"""Rows of single pages, read by Python in the tasks of Spark: for `ias.read`, and as a source of data.

`ias.read` has the values that Spark would read. So only files in which every column certainly has the same
values in Spark are read this way, and Spark reads the others. The source, ``spark.read.format("intarsia")``,
has those of Intarsia. Its predicate is an option: Spark's own pushdown to sources in Python is not used,
because it loses rows if one frame is filtered twice, as of Spark 4.3.
"""

from __future__ import annotations

import difflib
import json
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from intarsia.arrow.nested import children, with_children
from intarsia.errors import UnsupportedFeatureError, WriteError
from intarsia.file import ParquetInput
from intarsia.format.enums import Type
from intarsia.indexes.proof import split_batches
from intarsia.lake.opening import log_of_folder
from intarsia.lake.opening import open as open_table
from intarsia.lake.scan import Scan
from intarsia.lake.split import Split, SplitQuery, file_identity, make_splits
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Path
from intarsia.read.file_query import FileQuery
from intarsia.read.output_columns import OutputColumn
from intarsia.rows.selection import RowSelection
from intarsia.spark.listing import Listing, exact_path, python_path, rows_of_files, selected
from intarsia.spark.planning import RemainingFile
from intarsia.spark.sessions import is_on, map_tasks, setting, using_worker_python
from intarsia.spark.spark_types import arrow_type_of, quoted, reads_as_is, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: The bytes that a task reads, approximately.
_TASK_BYTES: Final = 32 << 20

#: Opening a file takes as long as reading this many bytes.
_OPEN_BYTES: Final = 1 << 20

#: The bytes that Python has to save for the mode "auto" to choose it: it decodes more slowly than Spark.
_MIN_SAVED: Final = "spark.intarsia.minSavedBytes"
_DEFAULT_MIN_SAVED: Final = 64 << 20

_CALENDAR_TYPES: Final = ("date", "timestamp", "timestamp_ntz")
_SPARK_VERSION: Final = b"org.apache.spark.version"

#: Keys of files whose dates and times are in another calendar.
_LEGACY_KEYS: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


def read_pages(
    spark: SparkSession,
    whole: DataFrame,
    listing: Listing,
    table: TableFiles,
    planned: Sequence[RemainingFile],
    wanted: Sequence[str],
    where: str | Column,
    *,
    required: bool,
) -> tuple[DataFrame | None, str | None]:
    """Return the matching rows, with single pages read by Python where possible; None if nowhere."""
    if "_metadata" in str(where).lower():
        return None, "the Python reader has no metadata columns"
    if any(is_on(spark, f"spark.sql.files.ignore{what}Files") for what in ("Corrupt", "Missing")):
        return None, "the Python reader does not skip damaged and missing files"
    by_name = {field.name: field for field in whole.schema}
    schema = type(whole.schema)([by_name[name] for name in wanted])
    partition = {name.lower() for file in listing.files for name, _ in file.partition}
    of_folders = [name for name in wanted if name.lower() in partition]
    splits, others, saved_bytes = plan_pages(
        table,
        planned,
        schema,
        of_folders,
        case_sensitive=is_on(spark, "spark.sql.caseSensitive"),
        keeps_dates=setting(spark, "spark.sql.parquet.datetimeRebaseModeInRead") == "CORRECTED",
    )
    if not splits:
        return None, "the Python reader cannot skip pages of the remaining files"
    if not required:
        least = setting(spark, _MIN_SAVED)
        if saved_bytes < (int(least) if least.isdigit() else _DEFAULT_MIN_SAVED):
            return None, f"the Python reader would save less than {_MIN_SAVED}"
        if not can_read_pages(spark, splits[0]):
            return None, "the executors cannot read the files with Python"
    frame = pages_frame(spark, splits, schema, of_folders)
    why = None
    if others:
        left = rows_of_files(spark, whole, listing, [exact_path(one.file.uri) for one in others])
        frame = frame.union(left.select(*selected(whole, wanted)))
        why = f"Spark reads {len(others)} of {len(planned)} files"
    try:
        frame = frame.where(where)
        frame.schema  # noqa: B018  a Connect session resolves names only then
    except Exception as error:  # noqa: BLE001  such as a name that is qualified with that of the table
        return None, f"Spark cannot resolve the condition: {error}"
    return frame, why


def plan_pages(
    table: TableFiles,
    planned: Sequence[RemainingFile],
    schema: StructType,
    partition_columns: Sequence[str],
    *,
    case_sensitive: bool,
    keeps_dates: bool,
) -> tuple[list[Split], list[RemainingFile], int]:
    """Divide the files between Python and Spark, and the rows of the former into splits.

    Args:
        table: The files.
        planned: The files to read, and their rows.
        schema: The columns to read, with Spark's types.
        partition_columns: The names of those that are partition columns.
        case_sensitive: Whether names of columns are case sensitive.
        keeps_dates: Whether Spark reads dates and times of unknown writers as they are.

    Returns:
        The splits, with the columns of the frame; the files that Spark reads; and the number of bytes in the
        files of the splits that are not read.
    """
    splits: list[Split] = []
    others: list[RemainingFile] = []
    saved_bytes = 0
    wanted = [field for field in schema.fields if field.name not in partition_columns]
    snapshot = table.new_snapshot()
    for one in planned:
        values = {name.lower(): value for name, value in one.file.partition}
        if one.rows is None or not all(name.lower() in values for name in partition_columns):
            others.append(one)
            continue
        with snapshot.open(one.file) as file:
            found = _columns(file, wanted, case_sensitive=case_sensitive, keeps_dates=keeps_dates)
            if found is None or file_identity(file) != one.identity:  # it may have been replaced
                others.append(one)
                continue
            columns, constants = found
            for name in partition_columns:
                columns.append(OutputColumn(name, (name,), pa.string()))
                constants[name,] = pa.array([values[name.lower()]], pa.string())
            query = FileQuery.of(file, None, columns, constants)
            shared = SplitQuery(
                one.file,
                one.identity,
                None,
                pa.schema([]),
                tuple(columns),
                pa.schema([(column.name, column.type) for column in columns]),
                constants,
                None,
                RowSelection.none(),
            )
            sizes = query.estimated_bytes_by_group(one.rows).tolist()
            splits += make_splits(shared, file.footer.row_group_starts, sizes, one.rows, _TASK_BYTES)
            saved_bytes += file.source.size() - one.num_bytes  # the listed size of an object is not known
    return splits, others, saved_bytes


def can_read_pages(spark: SparkSession, split: Split) -> bool:
    """Return whether a task can read with Python: its executor has this package, and access to a file."""

    def run(pickled: bytes) -> Iterator[pa.RecordBatch]:
        try:
            pickle.loads(pickled).check()  # noqa: S301  this driver made it
            can = True
        except Exception:  # noqa: BLE001  such as a missing package, or missing credentials
            can = False
        yield pa.record_batch([pa.array([can])], names=["can"])

    try:
        return all(row[0] for row in map_tasks(spark, [pickle.dumps(split)], run, "can boolean").collect())
    except Exception:  # noqa: BLE001  such as executors without Python or pyarrow
        return False


def _columns(
    file: ParquetInput, wanted: Sequence[Any], *, case_sensitive: bool, keeps_dates: bool
) -> tuple[list[OutputColumn], dict[Path, pa.Array]] | None:
    """Return the columns, and null for those that a file lacks.

    Returns:
        None if Spark might read another value in any of them, or if the file has none of them.
    """
    keys = file.footer.key_values
    if any(key in keys for key in _LEGACY_KEYS):
        return None
    writer = keys.get(_SPARK_VERSION)
    major = b"" if writer is None else writer.split(b".")[0]
    # Spark 3 and later write the calendar that Arrow has
    is_modern = keeps_dates if writer is None else major.isdigit() and int(major) >= 3
    int96 = {leaf.path[0] for leaf in file.footer.leaves if leaf.type == Type.INT96}
    found, lacking = list[OutputColumn](), dict[Path, pa.Array]()
    for field in wanted:
        data_type = arrow_type_of(field.dataType)
        names = [
            name
            for name in file.arrow_schema.names
            if (name == field.name if case_sensitive else name.lower() == field.name.lower())
        ]
        if len(names) > 1 or data_type is None:
            return None
        path = (names[0] if names else field.name,)
        if names:
            own, spark_type = file.arrow_schema.field(names[0]).type, field.dataType.simpleString()
            has_calendar = any(name in spark_type for name in _CALENDAR_TYPES)
            is_nested = pa.types.is_nested(data_type)
            is_alike = _plain(own) == data_type if is_nested else reads_as_is(spark_type, own)
            if not is_alike or names[0] in int96 or (has_calendar and not is_modern):
                return None
        else:
            lacking[path] = pa.nulls(1, data_type)
        found.append(OutputColumn(field.name, path, data_type))
    return (found, lacking) if len(lacking) < len(found) else None


def _plain(data_type: pa.DataType) -> pa.DataType:
    """Return a type with nullable fields, except for the keys of maps."""
    fields = children(data_type)
    if fields is None:
        return data_type
    plain = [field.with_type(_plain(field.type)).with_nullable(True) for field in fields]
    is_map = pa.types.is_map(data_type)
    return pa.map_(*(field.type for field in plain)) if is_map else with_children(data_type, plain)


def pages_frame(
    spark: SparkSession, splits: Sequence[Split], schema: StructType, partition_columns: Sequence[str]
) -> DataFrame:
    """Return the rows of the splits; tasks read them each time that the frame runs.

    Args:
        spark: The session; classic or Connect. Its executors have this package.
        splits: The splits.
        schema: As for `plan_pages`.
        partition_columns: As for `plan_pages`.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StringType, StructField, StructType

    own = [field for field in schema.fields if field.name not in partition_columns]
    text = [StructField(name, StringType()) for name in partition_columns]
    # opening a file takes time, too
    tasks = list(split_batches(splits, lambda split: split.num_bytes + _OPEN_BYTES, _TASK_BYTES))

    def run(splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        for split in splits:
            yield from split.to_arrow().to_batches()

    frame = map_tasks(spark, tasks, run, StructType([*own, *text]))
    types = {field.name: field.dataType for field in schema.fields}
    return frame.select(
        *(
            sf.col(quoted(name)).cast(types[name]).alias(name) if name in partition_columns else quoted(name)
            for name in types
        )
    )


# --- spark.read.format("intarsia") ---------------------------------------------------------------------


def register(spark: SparkSession) -> None:
    """Register the format ``"intarsia"`` with a session.

    ``spark.read.format("intarsia").option("where", …).load(path)`` has the rows of
    ``intarsia.open(path).scan(where)``, with the rules of Intarsia's SQL, by which NaN is not equal to NaN.
    Indexes of every kind skip files, row groups and pages. The predicate is evaluated when the frame is
    created and when it runs. Its options are ``where``, and ``columns`` with names between commas. Spark does
    not pass its own filters and columns to the source, so options are faster than ``frame.where``.

    Args:
        spark: The session; classic or Connect.

    Example:
        >>> ias.register(spark)  # doctest: +SKIP
        >>> frame = spark.read.format("intarsia").option("where", "tailnum = 'N14228'")  # doctest: +SKIP
        >>> frame.option("columns", "origin,dest").load("lake/").show()  # doctest: +SKIP
    """
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class SplitReader(DataSourceReader):
        """Reads the splits of a plan."""

        def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
            self.options = options
            self.columns = [(field.name, field.dataType) for field in schema.fields]

        def partitions(self) -> list[InputPartition]:
            """Plan the scan."""
            scan = _scan(self.options)
            if self.columns != [(field.name, field.dataType) for field in _schema(scan).fields]:
                raise UnsupportedFeatureError(
                    "format('intarsia') has the columns and types of the files; leave out schema(), and "
                    "choose columns with option('columns', …)",
                    reason="other-schema",
                )
            return [InputPartition(split) for split in scan.plan(_TASK_BYTES)]

        def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
            """Read one split, on an executor."""
            split = getattr(partition, "value", None)
            if isinstance(split, Split):  # if there are no partitions, Spark reads a partition of its own
                yield from _as_spark(split.to_arrow(), split.path).to_batches()

    class Intarsia(DataSource):
        """The format."""

        @classmethod
        def name(cls) -> str:
            """Return the name for ``spark.read.format``."""
            return "intarsia"

        def schema(self) -> Any:
            """Return the columns of the scan."""
            return _schema(_scan(self.options))

        def reader(self, schema: StructType) -> DataSourceReader:
            """Return the reader."""
            return SplitReader(dict(self.options), schema)

    with using_worker_python(spark):
        spark.dataSource.register(Intarsia)


def _as_spark(rows: pa.Table, path: str) -> pa.Table:
    """Convert rows of a file to the types in which Spark accepts them."""
    try:
        return rows.cast(spark_schema(rows.schema))
    except pa.ArrowInvalid as error:
        raise UnsupportedFeatureError(
            f"Spark cannot accept the values of a column from Python: {error}; leave it out with "
            "option('columns', …). INT96 timestamps before 1677 or after 2262 need intarsia.spark.read",
            reason="unsupported-type",
            path=path,
        ) from error


_OPTIONS: Final = ("where", "columns")


def _scan(options: Mapping[str, str]) -> Scan:
    for name in options:  # there may be others of Spark
        near = difflib.get_close_matches(name.lower(), _OPTIONS, n=1, cutoff=0.75)
        if near and name.lower() not in _OPTIONS:  # without its predicate, there are more rows
            raise UnsupportedFeatureError(
                f"format('intarsia') has no option {name!r}; did you mean {near[0]!r}?",
                reason="unknown-option",
            )
    path = options.get("path")
    paths = [path] if path else json.loads(options.get("paths", "[]"))  # as Spark passes a list
    if not paths or "provider" in options:  # which Spark passes when it creates a table
        raise WriteError(
            "format('intarsia') has no path, and Spark passes none for a table of the catalog; pass it to "
            "load(), or to CREATE TEMPORARY VIEW … USING intarsia OPTIONS (path '…')",
            reason="no-path",
        )
    found = [python_path(item, decode=False) for item in paths]
    for folder in found:
        managed = log_of_folder(folder)
        if managed is not None:  # its warning would stay in the process of the planner
            table, log = managed
            raise UnsupportedFeatureError(
                f"this is a folder of the {log.owner} table {table}, which may have dropped some files; "
                f"{log.remedy.format(folder=table)}",
                reason="managed-table",
                path=folder,
            )
    names = options.get("columns")
    columns = None if names is None else [name.strip() for name in names.split(",")]
    return open_table(found[0] if path else found).scan(options.get("where"), columns)


def _schema(scan: Scan) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    twice = next((name for name, times in Counter(scan.schema.names).items() if times > 1), None)
    if twice is not None:  # Spark would fail when it reads the rows
        raise UnsupportedFeatureError(
            f"format('intarsia') would have two columns named {twice!r}; change option('columns', …)",
            reason="duplicate-column",
            column=twice,
        )
    return from_arrow_schema(spark_schema(scan.schema))
