"""`read`: Spark's own reader over the files that are not excluded; `explain`: the excluded files, and why."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args
from weakref import WeakKeyDictionary

import pyarrow.compute as pc

from intarsia.file import Ignored
from intarsia.lake.opening import warn_of_log
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import parse_expression
from intarsia.read.report import ScanReport, warn_of_ignored
from intarsia.records import dataclass
from intarsia.spark.binding import SparkBinder
from intarsia.spark.conditions import UNKNOWN, Node, is_trivial, weaken
from intarsia.spark.frames import analyzed_condition, plan_natively
from intarsia.spark.listing import (
    Listing,
    Source,
    exact_path,
    file_of_other_values,
    folder_of_table,
    list_files,
    paths_of,
    refuse_snapshots,
    rows_of_files,
    selected,
    uncached,
)
from intarsia.spark.paged import read_pages
from intarsia.spark.planning import FilePlanner
from intarsia.spark.rules import kept_parts, obstacle_to_rules, refuse_unplannable
from intarsia.spark.sessions import is_connect, is_on, setting
from intarsia.spark.spark_types import resolve
from intarsia.spark.sql_text import parse_condition, spark_sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: A way to read; see `intarsia.spark.read`.
Mode: TypeAlias = Literal["auto", "native", "pages", "files"]

#: All modes.
MODES: Final = get_args(Mode)

#: The last choice of each session.
_LAST: WeakKeyDictionary[Any, ReadChoice] = WeakKeyDictionary()


@dataclass(frozen=True)
class ReadChoice:
    """The mode in which a DataFrame of `ias.read` is read, and the reason.

    Attributes:
        mode: ``"native"``, ``"pages"`` or ``"files"``.
        reason: Why this mode was chosen, or why nothing is skipped; None if the requested mode skips.
        report: The report of the plan, with the keys of `intarsia.ScanReport.to_dict`; empty without one.

    Example:
        >>> print(ReadChoice("files", "there is no condition"))
        files: there is no condition
    """

    mode: str
    reason: str | None
    report: dict[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        if not self.report:
            return f"{self.mode}: {self.reason}" if self.reason else self.mode
        kept = f"{self.mode}: {kept_parts(self.report)}"
        return f"{kept}; {self.reason}" if self.reason else kept


def last_read(spark: SparkSession) -> ReadChoice | None:
    """Return the mode of the last `read` in this session, and the reason; None before the first `read`.

    Args:
        spark: The session; classic or Connect.

    Example:
        >>> frame = ias.read(spark, "lake/", where="dest = 'LEX'")  # doctest: +SKIP
        >>> print(ias.last_read(spark))  # doctest: +SKIP
        native: 1 of 12 files, 1 of 12 row groups, 7268 of 336776 rows
    """
    return _LAST.get(spark)


_UTC = frozenset(("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu", "+00:00"))

#: The key of the id of a field in a schema.
_FIELD_ID: Final = "parquet.field.id"

_LOCAL_HOSTS = frozenset(("localhost", "127.0.0.1", "::1", "0.0.0.0"))


def read(
    spark: SparkSession,
    path: Source,
    where: str | Column | pc.Expression | None = None,
    columns: Sequence[str] | None = None,
    *,
    mode: Mode = "auto",
) -> DataFrame:
    """Return a DataFrame over a lake that reads only the files that might contain matching rows.

    It has the same rows as ``spark.read.parquet(path).where(where)``, in every mode. This call excludes
    files, row groups and pages by partition values and all indexes. Spark applies ``where`` to the rows that
    are read.

    The DataFrame neither uses nor changes the session's cache. It returns the current rows, even where
    ``spark.read.parquet(path)`` would return cached rows of files that other programs have replaced. The
    DataFrame can be cached like any other.

    Args:
        spark: The session; classic or Connect.
        path: A path as for ``spark.read.parquet``: a folder, a file, a glob, or a list of these; or the name
            of a table in the catalog.
        where: A predicate in Spark SQL. Conditions that Intarsia does not support prune nothing, but other
            conditions in the same AND still do. On Spark Connect, a ``Column`` and functions such as
            ``startswith`` prune nothing. A pyarrow expression (see docs/expressions.md) becomes Spark SQL,
            and Spark compares by its own rules.
        columns: Columns of the result; None for all.
        mode: What is read. `last_read` returns the choice, and the reason for it.

            - ``"native"``: Spark's reader reads only the row groups, pages and rows that might match. This
              needs a classic session, and files on a local or shared file system.
            - ``"pages"``: Spark's tasks read only the pages that might match, with Python. This needs the
              package on the executors. Spark reads files with columns whose values could differ, and those
              in which no page can be skipped. The DataFrame has no metadata columns. A file that is replaced
              before it is read raises an error.
            - ``"files"``: Spark's reader reads only the files that might contain matching rows.
            - ``"auto"``: as ``"native"`` if that can exclude anything. Otherwise as ``"pages"``, if that
              saves 64 MiB (``spark.intarsia.minSavedBytes``) and a small job proves that the executors can
              read the files with Python. Otherwise as ``"files"``.

    Returns:
        A lazy DataFrame. It does not contain files that are written later.

    Raises:
        AnalysisException: If Spark rejects ``path``, ``where`` or ``columns``.
        PredicateError: If a part of a pyarrow expression cannot be translated.
        IntarsiaError: If the mode is ``"native"`` and the session is a Connect client.
        UnsupportedFeatureError: If it is a view, or a table of Delta or Iceberg, also given by its folder in
            a session with Delta; or if the mode is ``"native"`` and this version of Spark is unknown.
        ValueError: If the mode is unknown.

    Example:
        >>> from intarsia import spark as ias
        >>> flights = ias.read(spark, "lake/", where="tailnum = 'N14228'")  # doctest: +SKIP
        >>> flights.groupBy("dest").count().show()  # doctest: +SKIP
    """
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; use {', '.join(map(repr, MODES))}")
    if mode == "native":
        refuse_unplannable(spark)
    where = _as_spark_sql(where)
    rows = _whole(spark, path)
    if where is None:
        frame, choice = rows.frame, ReadChoice("files", "there is no condition")
    else:
        frame, choice = _planned(spark, rows, where, columns, mode)
    _LAST[spark] = choice
    if columns is not None:
        frame = frame.select(*selected(rows.frame, columns))
    # saveAsTable compares the options of tables, too, and those of `uncached` are unique
    return frame if rows.table is None else _refusing_overwrite(frame, spark.table(rows.table))


def _planned(
    spark: SparkSession,
    rows: _Rows,
    where: str | Column,
    columns: Sequence[str] | None,
    mode: Mode,
) -> tuple[DataFrame, ReadChoice]:
    """Return the matching rows, and the mode in which they are read."""
    whole = rows.frame
    frame = whole.where(where)
    frame.schema  # noqa: B018  raises Spark's own errors first
    why = None
    if mode in ("native", "auto"):
        obstacle = obstacle_to_rules(spark)
        why = None if obstacle is None else str(obstacle)
        if obstacle is None:
            planned, why, report = plan_natively(spark, frame, is_required=mode == "native")
            warn_of_ignored([Ignored(**note) for note in report.get("ignored", ())])
            files = report.get("files")
            is_whole = files and files["read"] == files["total"] == len(whole.inputFiles())
            if planned is not None or mode == "native" or is_whole:
                return planned or frame, ReadChoice("native", why, report)
    condition = condition_of(spark, whole, where)
    if condition is None:
        return frame, ReadChoice("files", why or "the condition is a Column")
    listing = plannable_listing(spark, *rows)
    if listing is None:
        return frame, ReadChoice("files", why or "the files cannot be listed here")
    planner = file_planner(spark, condition)
    if planner is None:
        return frame, ReadChoice("files", why or "no index can evaluate the condition")
    table = TableFiles(listing.files)
    remaining = planner.planned(table)
    kept = [one.file for one in remaining]
    warn_of_ignored(planner.report.ignored)
    if mode in ("pages", "auto") and kept:
        wanted, required = _wanted(whole, where, columns), mode == "pages"
        paged, why_not = read_pages(spark, whole, listing, table, remaining, wanted, where, required=required)
        if paged is not None:
            return _refusing_overwrite(paged, whole), ReadChoice("pages", why_not, planner.report.to_dict())
        why = why or why_not
    if not kept:  # every file is excluded
        frame = frame.limit(0)
    elif len(kept) < len(listing.files):
        found = rows_of_files(spark, whole, listing, [exact_path(file.uri) for file in kept])
        frame = _refusing_overwrite(found.where(where), whole)
    return frame, ReadChoice("files", why, planner.report.to_dict())


def _refusing_overwrite(frame: DataFrame, whole: DataFrame) -> DataFrame:
    """Return a frame with a relation of all files in its analyzed plan, which the optimizer removes.

    By this relation, Spark refuses to overwrite a table that the frame reads: it deletes the files first.
    """
    import pyspark.sql.functions as sf

    return frame.join(whole.where("false"), sf.lit(True), "left_anti")


def _wanted(whole: DataFrame, where: str | Column, columns: Sequence[str] | None) -> list[str]:
    """Return the columns that a query may use, and perhaps others."""
    if columns is None or not isinstance(where, str):
        return list(whole.columns)
    text = " ".join([where, *([columns] if isinstance(columns, str) else columns)]).lower()
    if "*" in text:
        return list(whole.columns)
    # a name that a query uses is a part of its text
    return [name for name in whole.columns if name.lower() in text or "`" in name]


def explain(
    spark: SparkSession,
    path: Source,
    where: str | Column | pc.Expression | None = None,
    columns: Sequence[str] | None = None,
) -> ScanReport:
    """Report what `read` would read, and what each index excludes, without reading data pages.

    Row groups and pages are counted as ``"native"`` mode reads them. In ``"files"`` mode, Spark skips
    within files by statistics, page indexes and Bloom filters, but not by embedded indexes.

    Args:
        spark: The session.
        path: As for `read`.
        where: As for `read`.
        columns: Columns of the result; None for all.

    Example:
        >>> report = ias.explain(spark, "lake/", where="tailnum = 'N14228'")  # doctest: +SKIP
        >>> report.to_dict()["files"]  # doctest: +SKIP
        {'total': 12, 'read': 3, 'opened': 12}
    """
    started = time.perf_counter()
    where = _as_spark_sql(where)
    rows = _whole(spark, path)
    whole = rows.frame
    condition: Node | None = UNKNOWN
    if where is not None:
        whole.where(where).schema  # noqa: B018  raises Spark's own errors first
        condition = condition_of(spark, whole, where)
    listing = plannable_listing(spark, *rows)
    planner = file_planner(spark, condition or UNKNOWN, columns, count_pages=True)
    if listing is None or planner is None:
        count = len(whole.inputFiles())
        return ScanReport(files_total=count, files_read=count, seconds=time.perf_counter() - started)
    planner.planned(TableFiles(listing.files))
    planner.report.add_time(started)
    return planner.report


def _as_spark_sql(where: Any) -> Any:
    """Return a predicate that Spark accepts: a pyarrow expression is converted to text."""
    return spark_sql(parse_expression(where)) if isinstance(where, pc.Expression) else where


class _Rows(NamedTuple):
    """All rows of a path or a table.

    Attributes:
        frame: The rows.
        paths: The paths below which the files are.
        table: The name of the table; None for a path.
    """

    frame: DataFrame
    paths: list[str]
    table: str | None


def _whole(spark: SparkSession, path: Source) -> _Rows:
    """Return all rows of a path or table.

    Raises:
        UnsupportedFeatureError: If it is a view, or a table that does not consist of Parquet files alone.
    """
    location = folder_of_table(spark, path)
    if location is not None:
        return _Rows(uncached(spark).table(str(path)), [location], str(path))
    refuse_snapshots(spark, path)
    paths = paths_of(path)
    for one in paths:
        warn_of_log(one)
    return _Rows(uncached(spark).parquet(*paths), paths, None)


def plannable_listing(
    spark: SparkSession, whole: DataFrame, paths: Sequence[str], table: str | None = None
) -> Listing | None:
    """Return the files; None if they cannot be planned in this process."""
    if any(field.metadata for field in whole.schema):
        return None  # a column of a table with a default value or a fixed length, which paths do not have
    if is_on(spark, "spark.sql.parquet.fieldId.read.enabled") and _FIELD_ID in whole.schema.json():
        return None  # Spark finds columns by their ids
    local = any("://" not in path or path.startswith("file:") for path in paths)
    if local and is_connect(spark) and getattr(spark.client, "host", "localhost") not in _LOCAL_HOSTS:
        return None  # a local path on the server is not accessible here
    listing = list_files(whole, paths)
    if listing is not None and table is not None and file_of_other_values(spark, table, listing.files):
        return None
    return listing


def file_planner(
    spark: SparkSession,
    condition: Node,
    columns: Sequence[str] | None = None,
    *,
    count_pages: bool = False,
) -> FilePlanner | None:
    """Return the planner; None if nothing can be excluded."""
    predicate, types, filled = weaken(condition)
    if not count_pages and is_trivial(predicate):
        return None
    binder = SparkBinder(
        predicate,
        types,
        case_sensitive=is_on(spark, "spark.sql.caseSensitive"),
        columns=columns,
        int96_as_moments=not is_on(spark, "spark.sql.parquet.int96TimestampConversion"),
        filled=filled,
    )
    return FilePlanner(binder, count_pages=count_pages)


def condition_of(spark: SparkSession, whole: DataFrame, where: str | Column) -> Node | None:
    """Return a condition on all rows, as Spark's analyzer resolves it; parsed from its text if there is none.

    Returns:
        The condition; None for a ``Column`` that cannot be analyzed here.
    """
    if obstacle_to_rules(spark) is None:
        with contextlib.suppress(Exception):  # such as an internal class of Spark that has changed
            return analyzed_condition(spark, whole.where(where))
    return parsed_condition(spark, whole, where) if isinstance(where, str) else None


def parsed_condition(spark: SparkSession, whole: DataFrame, where: str) -> Node:
    """Return a condition as far as its text alone shows its meaning."""
    schema, case_sensitive = whole.schema, is_on(spark, "spark.sql.caseSensitive")

    def evaluate(expressions: Sequence[str]) -> Sequence[Any]:
        try:
            # the optimizer evaluates a query of literal rows, without a job
            query = f"SELECT {', '.join(expressions)} FROM VALUES (0)"
            return spark.sql(query).collect()[0]  # type: ignore[no-any-return]
        except Exception:  # noqa: BLE001  conditions on datetime literals then prune nothing
            return [None] * len(expressions)

    return parse_condition(
        where,
        lambda parts: resolve(schema, parts, case_sensitive=case_sensitive),
        evaluate,
        utc=setting(spark, "spark.sql.session.timeZone") in _UTC,
        double_quotes_name=is_on(spark, "spark.sql.ansi.doubleQuotedIdentifiers"),
    )
