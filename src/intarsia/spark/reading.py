"""`read`: Spark's own reader over the files that Intarsia's indexes leave; `explain`: which, and why."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from intarsia.predicate import And, Constant, Or, Path, Predicate
from intarsia.read.report import ScanReport, warn_of_ignored
from intarsia.spark.binding import SparkBinder
from intarsia.spark.job import is_connect
from intarsia.spark.listing import Listing, list_files, spark_path, uncached
from intarsia.spark.planning import FilePlanner
from intarsia.spark.spark_types import SparkColumn, resolve
from intarsia.spark.where import weaken

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Source: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

_UTC = frozenset(("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu", "+00:00"))
_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_LOCAL_HOSTS = frozenset(("localhost", "127.0.0.1", "::1", "0.0.0.0"))


def read(
    spark: SparkSession,
    path: Source,
    where: str | Column | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """A frame over a lake that reads only the files which may hold matching rows.

    The same rows as ``spark.read.parquet(path).where(where)``: the files are chosen here, once, by partition
    values and by every index that they hold; Spark's native reader reads them, and applies ``where``.

    What the session has cached of the lake is neither used nor changed: the rows are those of the files as
    they are now, also where ``spark.read.parquet(path)`` would still give cached rows of files that other
    programs have replaced. The frame that is returned can be cached like any other.

    Args:
        spark: The session; classic or Connect.
        path: As ``spark.read.parquet`` takes it: a folder, a file, a glob, or a list of these.
        where: A predicate in Spark SQL. Conditions that are not understood here prune nothing, but
            those beside them under AND still do. A ``Column`` is Spark's alone: no file is left out by it.
        columns: Columns of the result; None for all.

    Returns:
        A lazy frame. Files that are written later are not in it.

    Raises:
        AnalysisException: Whatever Spark finds wrong with ``path``, ``where`` or ``columns``.

    Example:
        >>> from intarsia import spark as ias
        >>> flights = ias.read(spark, "lake/", where="tailnum = 'N14228'")  # doctest: +SKIP
        >>> flights.groupBy("dest").count().show()  # doctest: +SKIP
    """
    paths = _paths(path)
    whole = uncached(spark).parquet(*paths)
    frame = whole if where is None else whole.where(where)
    if isinstance(where, str):
        listing = _listing(spark, whole, paths)
        if listing is not None:
            planner = _planner(spark, whole, where)
            kept = planner.surviving(listing.files) if planner is not None else list(listing.files)
            if planner is not None:
                warn_of_ignored(planner.report.ignored)
            if listing.files and not kept:  # each file was judged, and none may match
                frame = frame.limit(0)
            elif len(kept) < len(listing.files):
                frame = _over(spark, whole, listing, [spark_path(file) for file in kept]).where(where)
    return frame if columns is None else frame.select(*_quoted(whole, columns))


def explain(
    spark: SparkSession, path: Source, where: str | None = None, columns: Sequence[str] | None = None
) -> ScanReport:
    """What `read` would have Spark read, and which index excludes what; no data page is read.

    Of the files that are left, row groups and pages are counted as Intarsia would read them; Spark itself
    skips by statistics, page indexes and Bloom filters, but not by embedded indexes.

    Args:
        spark: The session.
        path: As for `read`.
        where: A predicate in Spark SQL.
        columns: Columns of the result; None for all.

    Example:
        >>> report = ias.explain(spark, "lake/", where="tailnum = 'N14228'")  # doctest: +SKIP
        >>> report.to_dict()["files"]  # doctest: +SKIP
        {'total': 12, 'read': 3, 'opened': 12}
    """
    started = time.perf_counter()
    paths = _paths(path)
    whole = uncached(spark).parquet(*paths)
    if where is not None:
        whole.where(where).schema  # noqa: B018  Spark's own opinion of it comes first
    listing = _listing(spark, whole, paths)
    planner = _planner(spark, whole, where, columns, count_pages=True)
    if listing is None or planner is None:
        count = len(whole.inputFiles())
        return ScanReport(files_total=count, files_read=count, seconds=time.perf_counter() - started)
    planner.surviving(listing.files)
    planner.report.add_time(started)
    return planner.report


def _paths(path: Source) -> list[str]:
    return [os.fspath(path)] if isinstance(path, str | os.PathLike) else [os.fspath(item) for item in path]


def _setting(spark: SparkSession, key: str) -> str:
    """A setting as text; empty if this Spark does not know it."""
    try:
        # without a default of our own: Spark would refuse one that is not of the setting's type
        return str(spark.conf.get(key))
    except Exception:  # noqa: BLE001  Spark's versions raise different errors for a key that they do not know
        return ""


def _is_on(spark: SparkSession, key: str) -> bool:
    return _setting(spark, key).lower() == "true"


def _listing(spark: SparkSession, whole: DataFrame, paths: Sequence[str]) -> Listing | None:
    """The files, if they can be planned here at all."""
    local = any("://" not in path or path.startswith("file:") for path in paths)
    if local and is_connect(spark) and getattr(spark.client, "host", "localhost") not in _LOCAL_HOSTS:
        return None  # a local path of the server's is not the one here
    return list_files(whole, paths)


def _planner(
    spark: SparkSession,
    whole: DataFrame,
    where: str | None,
    columns: Sequence[str] | None = None,
    *,
    count_pages: bool = False,
) -> FilePlanner | None:
    """The judge of files; None where Spark finds columns by more than their names."""
    if _is_on(spark, "spark.sql.parquet.fieldId.read.enabled"):
        return None
    schema = whole.schema
    case_sensitive = _is_on(spark, "spark.sql.caseSensitive")
    types: dict[Path, str] = {}

    def find(parts: tuple[str, ...]) -> SparkColumn | None:
        column = resolve(schema, parts, case_sensitive=case_sensitive)
        if column is not None:
            types[column.path] = column.type
        return column

    predicate: Predicate = Constant(True)
    if where is not None:
        predicate = _weakened(spark, where, find)
        if not count_pages and _is_trivial(predicate):
            return None
    binder = SparkBinder(
        predicate,
        types,
        case_sensitive=case_sensitive,
        columns=columns,
        int96_as_moments=not _is_on(spark, "spark.sql.parquet.int96TimestampConversion"),
    )
    return FilePlanner(binder, count_pages=count_pages)


def _weakened(
    spark: SparkSession, where: str, find: Callable[[tuple[str, ...]], SparkColumn | None]
) -> Predicate:
    """The predicate, weakened twice: to learn which moments it names, then with what Spark says they are."""
    utc = _setting(spark, "spark.sql.session.timeZone") in _UTC
    names = _is_on(spark, "spark.sql.ansi.doubleQuotedIdentifiers")
    asked: dict[str, Any] = {}

    def ask(sql: str) -> None:
        asked[sql] = None

    predicate = weaken(where, find, ask, utc=utc, double_quotes_name=names)
    if not asked:
        return predicate
    try:
        row = spark.sql("SELECT " + ", ".join(asked)).collect()[0]
    except Exception:  # noqa: BLE001  then what these moments are is not known, and nothing is pruned by them
        return predicate
    asked.update(zip(asked, row, strict=True))
    return weaken(where, find, asked.get, utc=utc, double_quotes_name=names)


def _is_trivial(predicate: Predicate) -> bool:
    """Whether it leaves out nothing, whatever a file holds."""
    if isinstance(predicate, And):
        return all(_is_trivial(child) for child in predicate.children)
    if isinstance(predicate, Or):
        return any(_is_trivial(child) for child in predicate.children)
    return isinstance(predicate, Constant) and bool(predicate.value)


def _over(spark: SparkSession, whole: DataFrame, listing: Listing, files: Sequence[str]) -> DataFrame:
    """A frame over some of the files, with the schema of all."""
    reader = uncached(spark).schema(whole.schema)
    if listing.base_path is not None:
        reader = reader.option("basePath", listing.base_path)
    with _listing_on_the_driver(spark, len(files)):
        return reader.parquet(*files)


@contextlib.contextmanager
def _listing_on_the_driver(spark: SparkSession, count: int) -> Iterator[None]:
    """Above 32 paths Spark starts a job to look for them, which takes 20 times as long as to look."""
    before = _setting(spark, _LISTING_THRESHOLD)
    # a Connect session looks when the frame runs, which is later
    if is_connect(spark) or not before.isdigit() or int(before) >= count:
        yield
        return
    spark.conf.set(_LISTING_THRESHOLD, str(count))
    try:
        yield
    finally:
        spark.conf.set(_LISTING_THRESHOLD, before)


def _quoted(whole: DataFrame, columns: Sequence[str]) -> list[str]:
    """Names for ``select``: one that is a column's whole name means that column, dots or not."""
    if isinstance(columns, str):
        columns = [columns]
    dotted = {name for name in whole.columns if "." in name or "`" in name}
    return ["`" + name.replace("`", "``") + "`" if name in dotted else name for name in columns]
