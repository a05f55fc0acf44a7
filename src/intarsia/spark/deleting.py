"""`delete`: erase the rows that match from a lake, by rewriting only the files that have them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from intarsia.amounts import count, first_lines, part, size
from intarsia.embed.report import Progress
from intarsia.errors import FilesFailedError, IntarsiaError, UnsupportedFeatureError, WriteError
from intarsia.lake.data_file import FileFailure
from intarsia.lake.index.build import LakeIndexReport
from intarsia.records import dataclass
from intarsia.rows.values import JsonObject
from intarsia.spark.job import act_on_files, named_unreadable_files, reporter
from intarsia.spark.lake_files import iceberg_table_of_files, list_lake, stages_writes
from intarsia.spark.lake_jobs import build_lake_index, update_lake_indexes
from intarsia.spark.listing import (
    Source,
    fixed_folder,
    location_of,
    paths_of,
    python_path,
    refresh,
    refuse_managed_files,
    refuse_managed_folders,
    snapshot_format,
)
from intarsia.spark.matches import CHANGED, ErasedFile, Matches, find_rows, without_pushdown
from intarsia.spark.part_files import finish_killed_runs
from intarsia.spark.reading import read
from intarsia.spark.rules import java_class, scala_items
from intarsia.spark.sessions import changed_setting, is_connect, is_on, setting
from intarsia.spark.spark_stores import options_of_spark
from intarsia.spark.spark_types import quoted
from intarsia.storage import local_path, offered_options
from intarsia.storage.replace import remove_leftovers_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Rounds of finding and rewriting: a file that another program replaces meanwhile is searched again.
_ROUNDS: Final = 5

#: Spark's error for an aggregate of values that depend on chance.
_CHANCE: Final = "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"

#: The folders of a scan in a plan, and what separates them.
_LOCATION: Final = re.compile(r", Location: \w+\(\d+ paths\)\[(.*?)\], PartitionFilters: ")
_NEXT_FOLDER: Final = re.compile(r", (?=\w+:/)")

#: The errors of Delta and Iceberg for a transaction if another one was first.
_CONFLICT: Final = re.compile(
    r"io\.delta\.exceptions\.|CommitFailedException"
    r"|iceberg\.exceptions\.ValidationException: (Cannot commit|Found|Missing)"
)

#: The setting by which Spark shortens the folders of a plan.
_PLAN_LENGTH: Final = "spark.sql.maxMetadataStringLength"

#: The analyzed plan among the plans of a query in text, and the tables of Iceberg in it.
_ANALYZED: Final = re.compile(r"== Analyzed Logical Plan ==(.*)== Optimized Logical Plan ==", re.DOTALL)
_RELATION: Final = re.compile(r"\bRelationV2\[.*\] (.+)$")

#: The name of a branch after that of a table of Iceberg.
_BRANCH: Final = re.compile(r"\.`?branch_[^.]*$")

#: Metadata of a row other than the names of its file; `_pos` is that of Iceberg.
_PLACE: Final = re.compile(r"\b_pos\b|_metadata(?!`?\s*[.\[]\s*[`'\"]?file_(path|name)\b)", re.IGNORECASE)

_KEYS: Final = "write their keys to a table first, and delete the rows with these keys"


@dataclass(frozen=True)
class DeleteReport(JsonObject):
    """The report of `intarsia.spark.delete`; ``str(report)`` returns a summary.

    Attributes:
        format: The format of the table: ``"parquet"``, ``"delta"`` or ``"iceberg"``.
        rows_deleted: The number of rows that were deleted; for a dry run, those that match.
        files_total: The number of files of the lake before; 0 for a table of Delta or Iceberg, whose own
            command chose the files.
        per_file: The files that were rewritten or removed, ordered by path.
        rows_checked: The number of rows of these files that were read again, without indexes. None of them
            matches.
        lake_indexes: The lake indexes that were brought up to date.
        failed: The files that could not be rewritten.
        seconds: Total time taken.
        is_dry_run: Whether nothing was changed.

    Example:
        >>> erased = ErasedFile("lake/a.parquet", False, 1000, 3, 90_000, 89_000)
        >>> print(DeleteReport("parquet", 3, 30, (erased,), 997, seconds=1.5))
        3 rows deleted in 1.5 s: 1 of 30 files rewritten, 0 removed
        90.0 kB became 89.0 kB; 997 rows read again, and none of them matches
    """

    JSON_KEYS = (
        "format dry_run=is_dry_run rows_deleted rows_checked files.total files.rewritten files.removed "
        "failed lake_indexes seconds per_file"
    )

    format: str
    rows_deleted: int
    files_total: int = 0
    per_file: tuple[ErasedFile, ...] = field(default=(), repr=False)
    rows_checked: int = 0
    lake_indexes: tuple[LakeIndexReport, ...] = ()
    failed: tuple[FileFailure, ...] = ()
    seconds: float = 0.0
    is_dry_run: bool = False

    @property
    def files_removed(self) -> int:
        """The number of files that were removed."""
        return sum(file.is_removed for file in self.per_file)

    @property
    def files_rewritten(self) -> int:
        """The number of files that were rewritten."""
        return len(self.per_file) - self.files_removed

    def __str__(self) -> str:
        rows = count(self.rows_deleted, "row")
        if self.format != "parquet":
            verb = "would be deleted" if self.is_dry_run else f"deleted in {self.seconds:.1f} s"
            return f"{rows} {verb} by the command of {self.format.title()}"
        if self.is_dry_run:
            lines = [f"{rows} in {part(len(self.per_file), self.files_total, 'file')} would be deleted"]
            lines += [f"{file.path}: {count(file.rows_deleted, 'row')}" for file in self.per_file]
            return "\n".join(first_lines(lines))
        files = part(self.files_rewritten, self.files_total, "file")
        lines = [f"{rows} deleted in {self.seconds:.1f} s: {files} rewritten, {self.files_removed:,} removed"]
        if self.per_file:
            before = sum(file.bytes_before for file in self.per_file)
            after = sum(file.bytes_after for file in self.per_file)
            checked = f"{count(self.rows_checked, 'row')} read again, and none of them matches"
            lines.append(f"{size(before)} became {size(after)}; {checked}")
        return "\n".join(first_lines([*lines, *(one.summary() for one in self.lake_indexes)]))


def delete(
    spark: SparkSession,
    table: Source,
    where: str | Column,
    *,
    dry_run: bool = False,
    progress: Progress | bool = True,
) -> DeleteReport:
    """Delete the rows that match from a lake of Parquet files, and rewrite only the files that have them.

    Rows are found by partition values, the lake index and the indexes of files, as by `read`. As in SQL, rows
    for which the predicate is null stay. Each file with matching rows is replaced atomically by one without
    them, which has the same schema, metadata, row groups and codecs, and the same indexes. Every value that
    stays is compared before the file is replaced. Other files are not touched. A file without other rows is
    removed; the last file of the lake stays, without rows, because it has the schema. Objects are replaced by
    a conditional put, and stay without rows, because stores have no conditional deletion.

    The job can be stopped or killed at any time, and run again: each file is then the old or the new one, and
    the next run finds the rows that are left. It ends when a search by indexes finds no row. Then the columns
    of the predicate are read from the files that were rewritten, without indexes, to prove that none of their
    rows matches.

    For a table of Delta or Iceberg, the table's own ``DELETE`` runs. It keeps the old files until
    ``VACUUM`` or ``expire_snapshots``; see docs/erasure.md.

    Args:
        spark: The session; classic or Connect. The executors need this package, as for `index`.
        table: A path as for ``spark.read.parquet``, a list of these, or the name of a table. For one of
            Delta or Iceberg, its name; for one of Delta, also its folder.
        where: A predicate in Spark SQL, or a ``Column``; for Delta and Iceberg a text.
        dry_run: Only find the rows, and change nothing.
        progress: Called as ``progress(done, total, label)``; True to print a line on stderr if it is a
            terminal.

    Returns:
        The files that were rewritten, and what was checked.

    Raises:
        FilesFailedError: If files could not be rewritten. They are unchanged; ``report`` has the others.
        UnsupportedFeatureError: If the files belong to a table format that this session cannot change.
        WriteError: If rows still match afterwards, Spark cannot read a file, or other transactions of a table
            were faster in each attempt.
        AnalysisException: If Spark rejects the table or the predicate.

    Example:
        >>> from intarsia import spark as ias
        >>> report = ias.delete(spark, "lake/", "tailnum = 'N14228'")  # doctest: +SKIP
        >>> print(report)  # doctest: +SKIP
        111 rows deleted in 2.4 s: 12 of 12 files rewritten, 0 removed
        31.0 MB became 30.9 MB; 336,665 rows were read again, and none of them matches
    """
    started = time.perf_counter()
    managed = snapshot_format(spark, table) if isinstance(table, str | os.PathLike) else None
    if managed is not None:
        return _delete_managed(spark, os.fspath(table), where, managed, started, dry_run=dry_run)  # type: ignore[arg-type]
    with named_unreadable_files(), offered_options(options_of_spark(spark, table)):
        return _delete_from_files(spark, table, where, dry_run=dry_run, progress=progress)


def _delete_from_files(
    spark: SparkSession, table: Source, where: str | Column, *, dry_run: bool, progress: Progress | bool
) -> DeleteReport:
    started = time.perf_counter()
    folders = _folders(spark, table)
    refuse_managed_folders(folders)
    for key in ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"):
        if is_on(spark, key):
            raise UnsupportedFeatureError(
                f"{key} is on, so rows of unreadable files would stay without an error; set it to false",
                reason="ignored-files",
            )
    if not dry_run:
        for folder in filter(None, map(local_path, folders)):
            with suppress(OSError):  # the folder above cannot be listed
                finish_killed_runs(folder)
    refresh(spark, table)  # a session keeps the list of the files of a table
    whole = read(spark, table)
    _refuse_other_rows(whole, where)
    show = reporter(progress, "files")
    files = whole.inputFiles()
    refuse_managed_files(table, files)
    files_total = len(files)
    erased: dict[str, ErasedFile] = {}
    failed: dict[str, FileFailure] = {}
    uris: dict[str, str] = {}
    todo: dict[str, Matches] = {}
    for _ in range(_ROUNDS):
        show(0, 0, "searching")
        found = find_rows(spark, table, where)
        uris |= {path: one.uri for path, one in found.items()}
        if dry_run:
            erased = {path: one.as_erased(path) for path, one in found.items()}
            break
        for path in [path for path, failure in failed.items() if failure.code == CHANGED]:
            del failed[path]
            if path not in found:  # another attempt of the task has erased its rows
                erased[path] = _merged(erased.get(path), todo[path].as_done(path))
        todo = {path: one for path, one in found.items() if path not in failed}
        if not todo:
            break
        # the schema of a lake is in its files
        files_left = files_total - sum(file.is_removed for file in erased.values())
        last = _with_rows_left(todo) if len(todo) >= files_left else None

        def act(path: str, todo: Mapping[str, Matches] = todo, last: str | None = last) -> ErasedFile:
            return todo[path].erase(path, keeps_file=path == last)

        sizes = {path: one.size for path, one in todo.items()}
        try:
            done, failures = act_on_files(spark, sizes, act, show, "deleting")
        finally:
            refresh(spark, table)
        erased |= {path: _merged(erased.get(path), outcome) for path, outcome in done.items()}
        failed |= {failure.path: failure for failure in failures}
    rows_checked = 0
    lake_indexes: list[LakeIndexReport] = []
    if not dry_run:
        lake_indexes, failures = update_lake_indexes(spark, folders)
        failed |= {failure.path: failure for failure in failures}
        for folder in {os.path.dirname(python_path(uri)) for uri in files}:
            remove_leftovers_in(folder)
        rewritten = {uris[path]: file for path, file in erased.items() if not file.is_removed}
        rows_checked = _check_nothing_matches(spark, table, where, rewritten)
    report = DeleteReport(
        "parquet",
        sum(file.rows_deleted for file in erased.values()),
        files_total,
        tuple(erased[path] for path in sorted(erased)),
        rows_checked,
        tuple(lake_indexes),
        tuple(failed[path] for path in sorted(failed)),
        time.perf_counter() - started,
        dry_run,
    )
    if failed:
        first = next((one for one in report.failed if one.path in uris), report.failed[0])
        what = "the rows are deleted, but their values may remain in a lake index, which could not be updated"
        if first.path in uris:
            number = count(sum(path in uris for path in failed), "file")
            what = f"rows that match remain in {number}, which could not be rewritten"
        raise FilesFailedError(
            {failure.path: failure.error for failure in report.failed},
            report,
            f"{what}; the first is {first.path}: {first.reason}",
        )
    return report


def _with_rows_left(todo: Mapping[str, Matches]) -> str:
    """Return the first file with other rows; the first of all if there is none."""
    for path in sorted(todo):
        with suppress(IntarsiaError, OSError):  # it has been replaced, and its task says so
            if todo[path].as_erased(path).rows_left:
                return path
    return min(todo)


def _refuse_other_rows(whole: DataFrame, where: str | Column) -> None:
    """Raise an error if a condition can mean other rows when it is evaluated again.

    Args:
        whole: All rows of the table.
        where: The condition.

    Raises:
        UnsupportedFeatureError: If it can.
    """
    if is_connect(whole.sparkSession):
        _refuse_on_server(whole, where)
    else:
        chosen = whole.where(where)
        if not chosen._jdf.queryExecution().analyzed().deterministic():
            raise _depends_on_chance()
        _refuse_own_rows(whole, chosen)
    _refuse_places(whole, where)


def _depends_on_chance() -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the predicate depends on chance, as with rand(), so it does not name certain rows; {_KEYS}",
        reason="nondeterministic-predicate",
    )


def _refuse_own_rows(whole: DataFrame, frame: DataFrame) -> None:
    """Raise an error if a subquery of a condition reads the lake: each round would delete other rows.

    Raises:
        UnsupportedFeatureError: If one does.
    """
    subqueries = scala_items(frame._jdf.queryExecution().analyzed().subqueriesAll())
    if not subqueries:
        return
    session = frame.sparkSession._jsparkSession
    dataset = java_class(frame.sparkSession._jvm, "org.apache.spark.sql.classic.Dataset")

    def sources(leaf: Any) -> set[str]:
        """Return the files of a part of a plan, or the name of a table whose files Spark does not know."""
        if leaf.getClass().getSimpleName() == "DataSourceV2Relation":
            return {leaf.table().name()}
        return set(dataset.ofRows(session, leaf).inputFiles())

    own = set().union(*map(sources, scala_items(whole._jdf.queryExecution().analyzed().collectLeaves())))
    for subquery in subqueries:
        if any(not own.isdisjoint(sources(leaf)) for leaf in scala_items(subquery.collectLeaves())):
            raise _reads_own_rows()


def _reads_own_rows() -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "a subquery of the predicate reads the table itself, so it means other rows once some are deleted; "
        f"{_KEYS}",
        reason="own-rows-in-predicate",
    )


def _refuse_on_server(whole: DataFrame, where: str | Column) -> None:
    """Raise the errors of a condition that depends on chance or reads the lake, by plans in text, on Connect.

    Raises:
        UnsupportedFeatureError: If the condition depends on chance, or reads the lake.
    """
    import pyspark.sql.functions as sf
    from pyspark.errors import AnalysisException

    frame: Any = whole.where(where)
    with changed_setting(whole.sparkSession, _PLAN_LENGTH, str(1 << 20)):
        plan = frame._explain_string(mode="extended")  # raises Spark's own errors first
    try:
        whole.agg(sf.count_if(sf.expr(where) if isinstance(where, str) else where)).schema  # noqa: B018
    except AnalysisException as error:
        if error.getCondition() == _CHANCE:
            raise _depends_on_chance() from error
    own = [python_path(uri) for uri in whole.inputFiles()]
    scans = [
        [python_path(folder, decode=False) for folder in _NEXT_FOLDER.split(found)]
        for found in _LOCATION.findall(plan)
    ]
    if sum(any(f"{path}/".startswith(f"{one}/") for path in own for one in scan) for scan in scans) > 1:
        raise _reads_own_rows()
    analyzed = _ANALYZED.search(plan)
    *above, last = analyzed[1].strip().splitlines() if analyzed is not None else [""]
    itself = _RELATION.search(last)
    if itself is not None:
        name = _BRANCH.sub("", itself[1])
        others = [found[1] for found in map(_RELATION.search, above) if found is not None]
        if any(other == name or other.startswith((f"{name}.", f"{name} ")) for other in others):
            raise _reads_own_rows()


def _refuse_places(whole: DataFrame, where: str | Column) -> None:
    """Raise an error if a condition depends on the place of a row in its file, or on the state of the file.

    Raises:
        UnsupportedFeatureError: If it does: each round would delete other rows.
    """
    from pyspark.errors import AnalysisException

    if not _PLACE.search(str(where)):
        return
    whole.where(where).schema  # noqa: B018  raises Spark's own errors first
    try:
        whole.sparkSession.createDataFrame([], whole.schema).where(where).schema  # noqa: B018
    except AnalysisException as error:
        raise UnsupportedFeatureError(
            "the predicate depends on metadata of rows that a deletion changes; use only the paths and names "
            "of files",
            reason="metadata-in-predicate",
        ) from error


def _merged(before: ErasedFile | None, now: ErasedFile) -> ErasedFile:
    """Return the outcome of a file that was rewritten twice, because another program replaced it."""
    if before is None:
        return now
    return replace(
        now,
        rows_before=before.rows_before + now.rows_before - before.rows_left,
        rows_deleted=before.rows_deleted + now.rows_deleted,
    )


def _folders(spark: SparkSession, table: Source) -> list[str]:
    """Return the folders of a lake."""
    folders = []
    for name in paths_of(table):
        path = python_path(location_of(spark, name), decode=False)
        folder = local_path(path)
        folders.append(fixed_folder(path if folder is None else os.path.abspath(folder)))
    return folders


# --- afterwards -------------------------------------------------------------------------------------


def _check_nothing_matches(
    spark: SparkSession, table: Source, where: str | Column, rewritten: Mapping[str, ErasedFile]
) -> int:
    """Evaluate the predicate on all rows of some files, without any index, and return their number.

    A file that another program has replaced since, such as a deletion of other rows, may have fewer rows.

    Args:
        spark: The session.
        table: The lake.
        where: The predicate.
        rewritten: The files, by their names in Spark.

    Raises:
        WriteError: If a row matches, or rows are missing.
    """
    import pyspark.sql.functions as sf

    if not rewritten:
        return 0
    whole = read(spark, table)
    about = whole.metadataColumn("_metadata")
    rows = whole.where(about["file_path"].isin(*rewritten))
    # as a column, not as a filter, by which Spark would skip rows
    matches = sf.expr(where) if isinstance(where, str) else where
    is_first = about["row_index"] == 0  # Spark reads a file twice that is named twice
    found = rows.select(
        about["file_path"].alias("uri"),
        about["file_size"].alias("size"),
        is_first.alias("is_first"),
        matches.alias("matches"),
    )
    counted = sf.count("*"), sf.count_if("is_first"), sf.count_if("matches")
    counts = found.groupBy("uri", "size").agg(*counted).collect()
    num_matching = sum(matching for *_, matching in counts)
    if num_matching:
        raise _still_match(table, num_matching)
    num_rows = {uri: count // max(times, 1) for uri, _, count, times, _ in counts}
    sizes = {uri: size for uri, size, *_ in counts}
    wrong = [
        uri
        for uri, file in rewritten.items()
        if num_rows.get(uri, 0) != file.rows_left and sizes.get(uri, file.bytes_after) == file.bytes_after
    ]
    if wrong:
        written = sum(rewritten[uri].rows_left for uri in wrong)
        there = sum(num_rows.get(uri, 0) for uri in wrong)
        raise WriteError(
            f"no row of {table} matches any more, but of the {written:,} rows that were left in "
            f"{count(len(wrong), 'file')}, {there:,} are there; another program, such as a second "
            "deletion, may have removed the others, so run it again",
            reason="verification-failed",
        )
    return sum(num_rows.values())


def _still_match(table: Source, num_rows: int) -> WriteError:
    return WriteError(
        f"{count(num_rows, 'row')} of {table} still match after the deletion; another program may have "
        "written them, so run it again",
        reason="rows-still-match",
    )


# --- tables of Delta and Iceberg --------------------------------------------------------------------


def _delete_managed(
    spark: SparkSession, table: str, where: str | Column, found: str, started: float, *, dry_run: bool
) -> DeleteReport:
    """Delete the rows by the command of the table's own format."""
    if not isinstance(where, str):
        raise UnsupportedFeatureError(
            f"DELETE of a table of {found.title()} takes a text; pass the predicate as SQL",
            reason="column-predicate",
            path=table,
        )
    path = local_path(python_path(table, decode=False))
    folder = table if path is None else os.path.abspath(path) if os.path.isdir(path) else None
    name = table if folder is None else f"delta.{quoted(folder)}"
    is_staged = found == "iceberg" and setting(spark, "spark.wap.id") and stages_writes(spark, name)
    if is_staged and not dry_run:
        raise UnsupportedFeatureError(
            "with spark.wap.id, Iceberg only stages the deletion, and the rows stay in the table; unset it",
            reason="staged-writes",
            path=name,
        )
    whole = _rows_now(spark, name, found)
    _refuse_other_rows(whole, where)
    if found == "iceberg" and _may_compare_nan(whole, where):
        # bounds in manifests are without NaN, by which Iceberg leaves out files; it does not translate this
        where = f"coalesce(({where}\n), false)"
    with without_pushdown(spark):
        num_rows = whole.where(where).count() if dry_run else _delete_by_command(spark, name, where, found)
        left = 0 if dry_run or not num_rows else _rows_now(spark, name, found).where(where).count()
        if left:
            raise _still_match(name, left)
    lake_indexes: list[LakeIndexReport] = []
    if not dry_run:
        with suppress(FileNotFoundError):  # all rows were deleted
            lake = list_lake(spark, table, with_snapshots=True)
            report = build_lake_index(spark, lake.names, None, root=lake.root)
            lake_indexes += [report] if report is not None else []
        # beside files that the table has replaced, too: no command of its own removes them
        for parent, _, _ in os.walk(python_path(location_of(spark, table), decode=False)):
            remove_leftovers_in(parent)
    seconds = time.perf_counter() - started
    return DeleteReport(
        found, num_rows, lake_indexes=tuple(lake_indexes), seconds=seconds, is_dry_run=dry_run
    )


def _rows_now(spark: SparkSession, name: str, found: str) -> DataFrame:
    """Return the rows of a table, with all commits of others."""
    if found == "iceberg":
        iceberg_table_of_files(spark, name)
    return spark.table(name)


def _may_compare_nan(whole: DataFrame, where: str) -> bool:
    """Return whether a predicate may use a column with NaN: its name is then a part of the text."""
    return any(
        re.search("float|double", field.dataType.simpleString()) is not None
        and (field.name.lower() in where.lower() or "`" in field.name)
        for field in whole.schema
    )


def _delete_by_command(spark: SparkSession, name: str, where: str, found: str) -> int:
    """Run the command of a table's format, again if another transaction was first.

    Returns:
        The number of rows that matched.

    Raises:
        WriteError: If others were first in each attempt.
    """
    conflict: Exception | None = None
    for _ in range(_ROUNDS):
        num_rows: int = _rows_now(spark, name, found).where(where).count()
        if not num_rows:
            return 0
        try:
            spark.sql(f"DELETE FROM {name} WHERE {where}")
        except Exception as error:
            if _CONFLICT.search(str(error)) is None:
                raise
            conflict = error
        else:
            return num_rows
    raise WriteError(
        f"other transactions committed to {name} during {_ROUNDS} attempts to delete rows, which are still "
        "there; run it again at a quiet time",
        reason="concurrent-transactions",
    ) from conflict
