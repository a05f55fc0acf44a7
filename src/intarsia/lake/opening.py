"""Open files, folders, and tables of table formats as a `Table`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast, get_args

from intarsia.errors import UnsupportedFeatureError
from intarsia.lake.data_file import FileSource, with_stores
from intarsia.lake.definition import TableDefinition
from intarsia.lake.delta import define_delta_table, open_delta_url
from intarsia.lake.discovery import DELTA_PREFIX, find_files, is_table_url
from intarsia.lake.schema import SchemaOf
from intarsia.lake.snapshot import OnReport
from intarsia.lake.table import Table
from intarsia.lake.unopened import PartitionTypes
from intarsia.read.report import warn_caller
from intarsia.storage import StorageOptions
from intarsia.storage.running_query import Deadline, applied

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.table import DataScan
    from pyiceberg.table import Table as IcebergTable


class TableLog(NamedTuple):
    """The log of the files of a table, in a folder of it.

    Attributes:
        name: The name of the folder.
        files: The names of files that only a log has.
        owner: The table format.
        remedy: How to query the current files, for the folder of a table.
    """

    name: str
    files: re.Pattern[str]
    owner: str
    remedy: str


_LIST = "pass a FileSource that lists the current files instead"

#: The logs of table formats; without a pattern, the name of the folder suffices.
_LOGS = (
    TableLog("_delta_log", re.compile(""), "Delta", "read 'delta+{folder}' instead"),
    TableLog(".hoodie", re.compile(""), "Hudi", _LIST),
    TableLog("metadata", re.compile(r".+\.metadata\.json$"), "Iceberg", "read it with pyiceberg instead"),
    TableLog("schema", re.compile(r"schema-[0-9]+$"), "Paimon", _LIST),
)


def define_table(source: Any, options: StorageOptions | None) -> TableDefinition | None:
    """Return the definition of a table in a table format; None for everything else.

    Args:
        source: A ``deltalake.DeltaTable``; a URL of a Delta table, such as ``delta+file:///lake/trips``, also
            as the only item of a list; a ``pyiceberg.table.Table`` or a scan of one.
        options: Options of the stores of URLs; None for those of the table.

    Raises:
        FileNotFoundError: If there is no table at the URL.
        UnsupportedFeatureError: If the table uses a feature that Intarsia does not implement, the library of
            the format is not installed, or a list has the URL of a table and other paths.
    """
    if isinstance(source, (list, tuple)) and any(map(is_table_url, source)):
        if len(source) > 1:
            raise UnsupportedFeatureError(
                "a table cannot be opened together with other paths; open each on its own",
                reason="several-tables",
                path=next(filter(is_table_url, source)),
            )
        source = source[0]
    if is_table_url(source):
        return open_delta_url(source.removeprefix(DELTA_PREFIX), options)
    if isinstance(source, _loaded("deltalake", "DeltaTable")):
        return define_delta_table(source, options)
    name = ""
    if isinstance(source, _loaded("pyiceberg.table", "Table")):
        source, name = source.scan(), ".".join(source.name())
    if isinstance(source, _loaded("pyiceberg.table", "DataScan")):
        from intarsia.lake.iceberg import define_iceberg_scan

        return define_iceberg_scan(source, options, name)
    return None


def log_in(names: Callable[[str], Iterable[str]]) -> TableLog | None:
    """Return the log in a folder that a table format has for its files; None if there is none.

    Args:
        names: Returns the names in a folder of the folder, by its name; none if it does not exist.
    """
    return next((log for log in _LOGS if any(map(log.files.match, names(log.name)))), None)


def log_of_folder(folder: str) -> tuple[str, TableLog] | None:
    """Return the table that a local folder is or belongs to, and its log; None without one, and for URLs."""
    if not os.path.isdir(folder):  # naming a file is a choice
        return None
    for table in (folder, *map(str, Path(os.path.realpath(folder)).parents)):
        log = log_in(partial(_names, table))
        if log is not None:
            return table, log
    return None


def _names(parent: str, name: str) -> list[str]:
    try:
        return os.listdir(os.path.join(parent, name))
    except OSError:  # there is no such folder
        return []


def warn_of_log(folder: str) -> None:
    """Warn that a folder, whose files are all read, is in a table with a log of its current files."""
    found = log_of_folder(folder)
    if found is not None:
        table, log = found
        warn_caller(
            f"{folder}: this is a folder of the {log.owner} table {table}, and files that it has dropped "
            f"are read as well; {log.remedy.format(folder=table)}"
        )


def _loaded(module: str, name: str) -> Any:
    """Return a class of a module that is imported; without it, no object is an instance."""
    found = sys.modules.get(module)
    return () if found is None else getattr(found, name, ())


#: A file, a folder, a glob or a URL, or a list of these.
Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

#: Everything that can be opened as a table.
Source: TypeAlias = "Paths | FileSource | DeltaTable | IcebergTable | DataScan"


def open(
    source: Source,
    *,
    schema: SchemaOf = "union",
    partition_types: PartitionTypes = "infer",
    storage_options: StorageOptions | None = None,
    query_timeout_seconds: float | None = None,
    page_checksums: bool = True,
    on_report: OnReport | None = None,
) -> Table:
    """Open a Parquet file, a lake, or a Delta or Iceberg table.

    Args:
        source: A file, a folder, a glob, or a list of these, as local paths or URLs (without globs); or a
            `FileSource`. In a folder, files named ``*.parquet``, ``*.parq`` and ``*.pq`` are read, and files
            without an extension that start with ``PAR1``, which takes one small read of each. Files that are
            named individually or match a glob are read with any extension. Folders named ``column=value``
            become partition columns if they are below the given folder, or at or after the first wildcard of
            the glob. A table: a ``deltalake.DeltaTable``, the URL of a Delta table, such as
            ``delta+file:///lake/trips`` or ``delta+s3://lake/trips``, a ``pyiceberg.table.Table``, or its
            ``scan(snapshot_id=…)`` for an older snapshot.
        schema: The columns of plain files. ``"union"``: the columns of all files by name, in the order in
            which they are first seen. ``"first"``: those of the first file; values of the others are
            converted to its types where no wider type exists.
        partition_types: ``"infer"`` for the types that Spark infers from all values of a partition column:
            integers, doubles, dates, timestamps, or text if they are mixed. ``"text"`` for text.
        storage_options: Options of the stores of URLs: the settings of the store by the names of its
            environment variables, such as ``aws_region``, and ``deadline_seconds`` (of one request with all
            its attempts), ``timeout_seconds`` (of one attempt) and ``max_retries``. Missing options are read
            from the environment. For tables, they replace the options of the ``DeltaTable`` or the catalog.
        query_timeout_seconds: The time limit of each query of the table with all of its requests, and of the
            listing of the files of a URL; None for no limit. A query that takes longer raises
            `QueryTimeoutError`. The time that a caller takes between two batches of rows does not count, nor
            does reading the splits of a plan. The time is checked at each request to a store and each read of
            a local file.
        page_checksums: Compare the pages that are read with the checksums in their headers, if they have
            them. This takes less time than decoding, and reads no more bytes. False reads pages whose bytes
            contradict their checksum.
        on_report: Called with a `FinishedQuery` when a query of the table has ended or failed, for
            monitoring, by the thread that ended it. An error of the call is a warning. Copies of the table in
            other processes do not call it.

    Returns:
        The table. Its files are listed, but not yet read.

    Raises:
        SourceError: If the source is none of these, such as an open file.
        FileNotFoundError: If a path does not exist, or a folder contains no Parquet file.
        ListingError: If a symbolic link points to a folder that contains it.
        ObjectStoreError: If the store of a URL cannot be reached, refuses the request, or is unknown.
        UnsupportedFeatureError: If a Delta or Iceberg table uses a feature that Intarsia does not implement,
            such as equality deletes; or a URL starts with ``delta+`` and deltalake is not installed.
        CorruptFileError: If deltalake or pyiceberg cannot read the metadata of a table.
        QueryTimeoutError: If the files of a URL cannot be listed in time.
        ValueError: If an option has an invalid value, or is only for plain files and the source is a table.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"x": range(1000)}), path)
        >>> ia.open(path).scan(where="x = 42").to_arrow().to_pylist()
        [{'x': 42}]
    """
    if schema not in get_args(SchemaOf):
        raise ValueError(f"schema is {schema!r}; it must be 'union' or 'first'")
    if partition_types not in get_args(PartitionTypes):
        raise ValueError(f"partition_types is {partition_types!r}; it must be 'infer' or 'text'")
    seconds = query_timeout_seconds
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if seconds is not None and not (is_number and 0 < seconds < float("inf")):
        raise ValueError(f"query_timeout_seconds is {seconds!r}; it must be a positive number or None")
    table = partial(Table, query_timeout_seconds=seconds, page_checksums=page_checksums, on_report=on_report)
    definition = define_table(source, storage_options)
    if definition is not None:
        if schema != "union" or partition_types != "infer":
            raise ValueError(
                f"{definition.name}: the table defines its schema; open it without schema and partition_types"
            )
        return table(definition.files, root=definition.name, definition=definition)
    if isinstance(source, FileSource):
        files = with_stores(source.list_files(), storage_options)
        return table(files, schema_of=schema, partition_types=partition_types)
    with applied(None if seconds is None else Deadline(seconds)):
        listed = find_files(cast(Paths, source), storage_options)
    if listed.root is not None:
        warn_of_log(listed.root)
    return table(
        listed.files,
        listed.others,
        listed.reads,
        listed.root,
        schema,
        partition_types,
        segments=listed.segments,
    )
