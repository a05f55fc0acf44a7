"""``intarsia index`` and ``intarsia detach``: attach indexes to files, and detach them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.arguments import AsJson, Paths, StorageOptionTexts, parse_storage_options
from intarsia.cli.each_file import find, others_ignored, show_failures, until_interrupted
from intarsia.cli.failures import UsageError, say
from intarsia.cli.index_calls import index_kinds
from intarsia.cli.index_options import BloomColumns, DistinctColumns, IndexCalls, parse_indexes
from intarsia.cli.spark_jobs import Master, refuse_storage_options, run_job
from intarsia.cli.terminal import print_json, printable, progress, red
from intarsia.read.amounts import count, size

if TYPE_CHECKING:
    from intarsia.embed import IndexReport, RestoreReport
    from intarsia.lake.discovery import FoundFiles
    from intarsia.lake.index.folder import Location

INDEX_EXAMPLES = """
intarsia index flights.parquet --page-index
intarsia index lake/ --page-index --distinct dest --distinct tailnum:row_group
intarsia index lake/ --statistics --bloom tailnum --bloom flight:0.001
intarsia index lake/ --add 'distinct(dest, granularity="row_group", max_values=500)' --add page_index
intarsia index lake/ --bloom tailnum --lake-index cache
intarsia index lake/ --bloom tailnum --spark
intarsia index --list
intarsia index 'lake/month=*/*.parquet' --distinct dest --json
"""

DETACH_EXAMPLES = """
intarsia detach flights.parquet
intarsia detach lake/
intarsia detach lake/ --spark
"""


class LakeIndexPlace(str, Enum):
    """The location of a lake index."""

    CACHE = "cache"
    BESIDE = "beside"

    @property
    def location(self) -> Location:
        """The location as Python's API names it."""
        return "cache" if self is LakeIndexPlace.CACHE else "beside"


def _print_kinds(requested: bool) -> None:
    if requested:
        kinds = index_kinds()
        width = max(len(kind) for kind, _ in kinds)
        print("\n".join(printable(f"{kind:{width}}  {text}") for kind, text in kinds))
        raise typer.Exit


def index(
    path: Paths,
    add: IndexCalls = None,
    page_index: Annotated[
        bool, typer.Option("--page-index", help="Add Parquet's page index, which other readers use, too.")
    ] = False,
    distinct: DistinctColumns = None,
    bloom: BloomColumns = None,
    statistics: Annotated[
        bool,
        typer.Option("--statistics", help="Add Parquet's statistics where the writer omitted them."),
    ] = False,
    kinds: Annotated[  # noqa: ARG001
        bool,
        typer.Option("--list", callback=_print_kinds, is_eager=True, help="List the kinds of indexes."),
    ] = False,
    lake_index: Annotated[
        LakeIndexPlace | None,
        typer.Option(
            "--lake-index",
            help="Build the lake index at the end, in the user's cache folder or in the lake (see intarsia "
            "lake-index); by default, only an existing one is updated.",
        ),
    ] = None,
    spark: Master = None,
    storage_option: StorageOptionTexts = None,
    json: AsJson = False,
) -> None:
    """Add indexes to existing files without changing their data; detach restores the original files.

    Bad files are reported; the rest are still indexed.
    """
    from intarsia.embed import PageIndex, Statistics
    from intarsia.embed.many import attach_files, write_lake_index

    requested: list[Any] = [PageIndex()] if page_index else []
    requested += [Statistics()] if statistics else []
    requested += parse_indexes(bloom, distinct, add)
    if not requested:
        raise UsageError(
            "no index to add; use --page-index, --distinct COLUMN or --add KIND(COLUMN)", reason="no-index"
        )
    options = parse_storage_options(storage_option)
    refuse_storage_options(options, spark)
    location = None if lake_index is None else lake_index.location
    source = path[0] if len(path) == 1 else path
    if spark is not None:
        report, stop = until_interrupted(lambda: _index_with_spark(spark, source, requested, location))
    else:
        listed = find(path, options)
        _check(listed, requested, location)
        with progress("indexing", len(listed.paths)) as show:
            report, stop = until_interrupted(lambda: attach_files(listed, requested, show, options)[0])
        if stop is None:
            with progress("reading", len(listed.paths)) as show:
                report = replace(report, lake_index=write_lake_index(source, location, show, options))
    if json:
        print_json(report.to_dict() | ({"interrupted": True} if stop else {}))
    else:
        for failure in report.failed:
            say(printable(f"{failure['path']}: {failure['error']}"), red)
        if report.lake_index is not None:
            known = {failure["path"] for failure in report.failed}
            show_failures(failure for failure in report.lake_index.failed if failure.path not in known)
        print("\n".join(map(printable, report.summary().splitlines())))
    if stop:
        raise stop
    unread = report.lake_index.failed if report.lake_index is not None else ()
    raise typer.Exit(1 if report.failed or unread else 0)


def _index_with_spark(
    master: str, source: str | list[str], requested: Sequence[Any], location: Location | None
) -> IndexReport:
    def job(session: Any) -> IndexReport:
        from intarsia.spark.indexing import index as index_with_spark

        return index_with_spark(session, source, requested, lake_index=location)

    return run_job(master, job)


def _check(listed: FoundFiles, requested: Sequence[Any], location: Location | None) -> None:
    """Raise an error at once for indexes that would fail on every file, and for an impossible location."""
    from intarsia.embed.attach import checked_indexes
    from intarsia.embed.many import check_location, check_named_columns
    from intarsia.errors import IndexBuildError

    try:
        check_named_columns(listed.files, checked_indexes(requested))
        check_location(listed, location)
    except IndexBuildError as error:
        raise UsageError(str(error), reason=error.reason, column=error.column, path=error.path) from None
    except ValueError as error:
        raise UsageError(str(error), reason="lake-index-location") from None


def detach(
    path: Paths,
    spark: Master = None,
    storage_option: StorageOptionTexts = None,
    json: AsJson = False,
) -> None:
    """Remove attached indexes, and restore each original file byte for byte."""
    from intarsia.embed.many import detach_files

    options = parse_storage_options(storage_option)
    refuse_storage_options(options, spark)
    stop = None
    if spark is not None:
        report = _detach_with_spark(spark, path[0] if len(path) == 1 else path)
    else:
        listed = find(path, options)
        with progress("detaching", len(listed.paths)) as show:
            report, stop = until_interrupted(lambda: detach_files(listed, show, options))
    if json:
        print_json(report.to_dict() | ({"interrupted": True} if stop else {}))
    else:
        show_failures(report.failed)
        print(_summary(report))
    if stop:
        raise stop
    raise typer.Exit(1 if report.failed else 0)


def _detach_with_spark(master: str, source: str | list[str]) -> RestoreReport:
    def job(session: Any) -> RestoreReport:
        from intarsia.spark.detaching import detach as detach_with_spark

        return detach_with_spark(session, source)

    return run_job(master, job)


def _summary(report: RestoreReport) -> str:
    untouched = len(report.per_file) - report.files_detached
    return (
        f"{report.files_detached:,} of {count(report.files_total, 'file')} restored, "
        f"{size(report.bytes_removed)} removed"
        + (f"; {untouched:,} had no attached indexes" if untouched else "")
        + (f"; {len(report.failed):,} failed" if report.failed else "")
        + others_ignored(report.files_other)
    )
