"""The commands that change files and lake indexes: ``index``, ``detach``, ``lake-index`` and others."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import click

from intarsia.amounts import count, size
from intarsia.cli.jobs import (
    find,
    finish,
    one_or_all,
    reasons,
    run_job,
    until_interrupted,
    usage_errors,
)
from intarsia.cli.options import (
    BloomColumns,
    ColumnNames,
    DistinctColumns,
    IndexCalls,
    MinSize,
    Size,
    parse_storage_options,
    printing,
    split_names,
    wants_json,
)
from intarsia.cli.terminal import (
    UsageError,
    json_text,
    line,
    plain_table,
    print_report,
    printable,
    printable_lines,
    progress,
)

if TYPE_CHECKING:
    from intarsia.lake.index.folder import CachedLake, Location


_DIRECTIONS = ("ascending", "descending")


def _kinds(ctx: click.Context, _requested: bool) -> str:
    from intarsia.embed.index_text import index_kinds

    kinds = index_kinds()
    if wants_json(ctx):
        return json_text([{"kind": kind, "description": text} for kind, text in kinds])
    width = max(len(kind) for kind, _ in kinds)
    return "\n".join(printable(f"{kind:{width}}  {text}") for kind, text in kinds)


def index(
    path: list[str],
    add: IndexCalls = None,
    page_index: bool = False,
    distinct: DistinctColumns = None,
    bloom: BloomColumns = None,
    statistics: bool = False,
    list: Annotated[bool, printing(_kinds)] = False,  # noqa: ARG001
    lake_index: Literal["cache", "beside"] | None = None,
    spark: str | None = None,
    only_new: bool = False,
    min_file_size: MinSize = None,
    older_than: Annotated[float | None, {"min": 0.0}] = None,
    register: bool = False,
    storage_option: list[str] | None = None,
    json: bool = False,
) -> None:
    """Add indexes to existing files without changing their data; detach restores the original files.

    Bad files are reported; the rest are still indexed.

    Options:
        --page-index: Add Parquet's page index, which other readers use as well.
        --statistics: Add Parquet's statistics where the writer omitted them.
        --list: List the kinds of indexes.
        --lake-index: Build the lake index at the end, in the user's cache folder or in the lake (see intarsia
            lake-index); by default, only an existing one is updated.
        --only-new: With --spark, index only files that the lake index does not contain with indexes.
        --min-file-size SIZE: With --spark, leave out smaller files, such as 1MB.
        --older-than SECONDS: With --spark, leave out files that were written in the last seconds.
        --register: With --spark, commit the new lengths of the files to the log of a Delta table, so that all
            of its readers find page indexes and Bloom filters. These files cannot be detached.

    Examples:
        intarsia index flights.parquet --page-index
        intarsia index lake/ --page-index --distinct dest --distinct tailnum:row_group
        intarsia index lake/ --statistics --bloom tailnum --bloom flight:0.001
        intarsia index lake/ --add 'distinct(dest, granularity="row_group", max_values=500)' --add page_index
        intarsia index lake/ --bloom tailnum --lake-index cache
        intarsia index lake/ --bloom tailnum --spark
        intarsia index sales.flights --page-index --bloom tailnum --spark --register
        intarsia index --list
        intarsia index 'lake/month=*/*.parquet' --distinct dest --json
    """
    from intarsia.embed import PageIndex, Statistics
    from intarsia.embed.attach import checked_indexes
    from intarsia.embed.many import attach_files, check_location, check_named_columns, write_lake_index
    from intarsia.errors import FilesFailedError, IntarsiaError
    from intarsia.lake.data_file import FileFailure

    structures = [
        cls() for cls, is_wanted in ((PageIndex, page_index), (Statistics, statistics)) if is_wanted
    ]
    requested = [*structures, *(bloom or ()), *(distinct or ()), *(add or ())]
    if not requested:
        raise UsageError(
            "no index to add; use --page-index, --distinct COLUMN or --add KIND(COLUMN)", reason="no-index"
        )
    options = parse_storage_options(storage_option)
    source = one_or_all(path)
    unwritten: dict[str, str] = {}
    if spark is not None:
        try:
            report, stop = until_interrupted(
                lambda: run_job(
                    spark,
                    "index",
                    source,
                    requested,
                    lake_index=lake_index,
                    only="new" if only_new else "all",
                    min_file_size=min_file_size or 0,
                    older_than=older_than or 0,
                    register=register,
                )
            )
        except FilesFailedError as error:  # the files are done, and the lake index is not
            report, stop = error.report, None
            unwritten = reasons(FileFailure(place, one) for place, one in error.errors.items())
    else:
        listed = find(path, options)
        with usage_errors("lake-index-location"):  # of indexes that would fail on every file
            check_named_columns(listed.files, checked_indexes(requested))
            place = check_location(listed, lake_index)
        with progress("indexing", len(listed.paths)) as show:
            report, stop = until_interrupted(lambda: attach_files(listed, requested, show, options)[0])
        if stop is None:
            try:
                with progress("reading", len(listed.paths)) as show:
                    report = replace(report, lake_index=write_lake_index(source, lake_index, show, options))
            except (IntarsiaError, OSError) as error:
                if lake_index is None:
                    raise
                unwritten = reasons([FileFailure(place, error)])
    failed = unwritten | {failure["path"]: failure["error"] for failure in report.failed}
    if report.lake_index is not None:
        failed = reasons(report.lake_index.failed) | failed
    finish(report.to_dict(), printable_lines(report.summary()), failed, as_json=json, stop=stop)


def detach(
    path: list[str],
    spark: str | None = None,
    storage_option: list[str] | None = None,
    json: bool = False,
) -> None:
    """Remove attached indexes, and restore each original file byte for byte.

    Examples:
        intarsia detach flights.parquet
        intarsia detach lake/
        intarsia detach lake/ --spark
    """
    from intarsia.embed.many import detach_files

    stop = None
    if spark is not None:
        report = run_job(spark, "detach", one_or_all(path))
    else:
        options = parse_storage_options(storage_option)
        listed = find(path, options)
        with progress("detaching", len(listed.paths)) as show:
            report, stop = until_interrupted(lambda: detach_files(listed, show, options))
    finish(report.to_dict(), str(report), reasons(report.failed), as_json=json, stop=stop)


def optimize(
    source: list[str] | None = None,
    destination: str | None = None,
    in_place: bool = False,
    sort_by: list[str] | None = None,
    zorder_by: ColumnNames = None,
    hilbert_by: ColumnNames = None,
    partition_by: ColumnNames = None,
    no_partitions: bool = False,
    target_file_size: Size = 128 << 20,
    rows_per_page: Annotated[int, {"min": 1}] = 4096,
    compression: str = "zstd",
    add: IndexCalls = None,
    distinct: DistinctColumns = None,
    bloom: BloomColumns = None,
    spark: Annotated[str, {"show_default": False}] = "",
    json: bool = False,
) -> None:
    """Rewrite a lake with Spark into a new folder or in place, sorted, with small pages and with indexes.

    The new rows are compared with the source before the folder appears. The source is only changed with
    --in-place.

    Options:
        SOURCE: Files, folders or globs, or the name of a table.
        DESTINATION: A new folder on this machine, or on storage that all machines share.
        --in-place: Replace the files of a folder, such as to merge small ones. Without other indexes, the new
            files have those of the old ones.
        --sort-by A,B: Sort by columns; A:descending reverses one.
        --zorder-by A,B: Cluster by columns along a Z-order curve.
        --hilbert-by A,B: Cluster by columns along a Hilbert curve.
        --partition-by A,B: Columns that become folders; by default as in the source.
        --no-partitions: Write no folders for partition columns.
        --target-file-size SIZE: The approximate size of each file; 128MiB by default.
        --rows-per-page N: Maximum number of rows per page.
        --compression CODEC: zstd, snappy, gzip, lz4, brotli or none.
        --spark [MASTER]: A master such as local[4], yarn or sc://host; by default the master of spark-submit,
            or all cores of this machine.

    Examples:
        intarsia optimize lake/ sorted/ --sort-by tailnum --distinct dest
        intarsia optimize lake/ sorted/ --sort-by month,dep_delay:descending --rows-per-page 2000
        intarsia optimize lake/ clustered/ --hilbert-by origin,dest --target-file-size 256MB
        intarsia optimize lake/ flat/ --zorder-by origin,dest --no-partitions --compression snappy
        intarsia optimize lake/ parts/ --partition-by carrier --add 'zone_map(dep_delay)' --json
        intarsia optimize sales.flights sorted/ --sort-by tailnum --spark yarn
        intarsia optimize lake/ --in-place
    """
    sources = [*(source or ())]
    if in_place and destination is not None:  # the last argument
        sources.append(destination)
    if not sources:
        raise UsageError(
            "SOURCE or DESTINATION is missing; name both, or add --in-place (see: intarsia optimize --help)",
            reason="missing-argument",
        )
    report = run_job(
        spark,
        "optimize",
        one_or_all(sources),
        None if in_place else destination,
        in_place=in_place,
        sort_by=parse_sort_keys(sort_by),
        zorder_by=zorder_by,
        hilbert_by=hilbert_by,
        partition_by=() if no_partitions else partition_by,
        target_file_size=target_file_size,
        rows_per_page=rows_per_page,
        compression=compression,
        indexes=[*(bloom or ()), *(distinct or ()), *(add or ())] or None,
    )
    print_report(report.to_dict(), str(report), as_json=json)


def delete(
    table: list[str],
    where: str,
    dry_run: bool = False,
    spark: Annotated[str, {"show_default": False}] = "",
    json: bool = False,
) -> None:
    """Delete the rows that match with Spark, and rewrite only the files that have them.

    Each file is replaced atomically, with the same indexes. The command can be killed and run again. At the
    end, the new files are read without indexes to prove that no row matches. The exit code is 1 if files
    could not be rewritten.

    Options:
        TABLE: Files, folders or globs, or the name of a table.
        --where SQL: The rows to delete, in Spark SQL. Rows for which it is null stay.
        --dry-run: Show the files and the numbers of rows, and change nothing.
        --spark [MASTER]: A master such as local[4], yarn or sc://host; by default the master of spark-submit,
            or all cores of this machine.

    Examples:
        intarsia delete lake/ --where "tailnum = 'N14228'" --dry-run
        intarsia delete lake/ --where "tailnum = 'N14228'"
        intarsia delete lake/ --where "month = 2 AND dest IN ('LEX', 'ANC')" --json
        intarsia delete sales.flights --where "tailnum IN (SELECT tailnum FROM erased)" --spark yarn
    """
    from intarsia.errors import FilesFailedError

    try:
        report = run_job(spark, "delete", one_or_all(table), where, dry_run=dry_run, progress=not json)
    except FilesFailedError as error:
        report = error.report
    finish(report.to_dict(), str(report), reasons(report.failed), as_json=json)


def parse_sort_keys(given: Sequence[str] | None) -> list[tuple[str, str]] | None:
    """Parse columns to sort by, each with an optional direction.

    Example:
        >>> parse_sort_keys(["day,at:descending", "a:b"])
        [('day', 'ascending'), ('at', 'descending'), ('a:b', 'ascending')]

    Raises:
        UsageError: If a name is empty.
    """
    names = split_names(given, "--sort-by")
    if names is None:
        return None
    keys = []
    for name in names:
        column, colon, direction = name.rpartition(":")
        keys.append((column, direction) if colon and direction in _DIRECTIONS else (name, "ascending"))
    return keys


_HOUR, _DAY = 3600, 86_400


def lake_index(
    lake: str,
    beside: bool = False,
    remove: bool = False,
    storage_option: list[str] | None = None,
    json: bool = False,
) -> None:
    """Build or update the lake index of a lake, so that queries open only the files that can match.

    The lake index is built from footers and indexes. It is a cache: it can be deleted at any time, and files
    that have changed are planned without it. The exit code is 1 if a file cannot be read.

    Options:
        LAKE: A folder of Parquet files; a local path or a URL.
        --beside: Store it in the lake, in the folder _intarsia, for all users of the lake; by default it is
            in the user's cache folder.
        --remove: Delete it, in the cache and in the lake.

    Examples:
        intarsia lake-index lake/
        intarsia lake-index lake/ --beside
        intarsia lake-index lake/ --json
        intarsia lake-index lake/ --remove
    """
    import intarsia

    table = intarsia.open(lake, storage_options=parse_storage_options(storage_option))
    if remove:
        folders = table.remove_lake_index()
        lines = "\n".join(f"deleted {printable(folder)}" for folder in folders)
        print_report({"removed": list(folders)}, lines or "there is no lake index", as_json=json)
        return
    location: Location = "beside" if beside else "cache"
    with usage_errors("lake-index-location"):
        table.lake_index.folder_at(location)
    with progress("reading", len(table.files)) as show:
        report = table.build_lake_index(location, show=show)
    finish(report.to_dict(), printable_lines(report.summary()), reasons(report.failed), as_json=json)


def list_cache(json: bool = False) -> None:
    """Show the lake indexes in the user's cache folder: of which lake, their size and age.

    The state of a lake is whether its folder still exists; stores of URLs are not asked.

    Examples:
        intarsia cache list
        intarsia cache list --json
    """
    from intarsia.lake.index.folder import cache_folder, cached_lakes

    found = cached_lakes()
    total = size(sum(lake.num_bytes for lake in found))
    summary = line(f"{count(len(found), 'cached lake')} in {cache_folder()}, {total}")
    table = plain_table("lake", ">size", ">age", "state")
    for lake in found:
        table.add_row(lake.lake or f"unknown: {lake.folder}", size(lake.num_bytes), _age(lake), _state(lake))
    document = {"folder": cache_folder(), "lakes": [_to_dict(lake) for lake in found]}
    print_report(document, [table, line(), summary] if found else [summary], as_json=json)


def clear_cache(lake: list[str] | None = None, gone: bool = False, json: bool = False) -> None:
    """Delete lake indexes in the user's cache folder. Queries remain correct, and open more files.

    Options:
        LAKE: Folders or URLs of lakes, which need not exist; all by default.
        --gone: Only of local lakes that no longer exist.

    Examples:
        intarsia cache clear lake/
        intarsia cache clear --gone
        intarsia cache clear
    """
    from intarsia.lake.index.folder import cached_lakes

    roots = {_root(root) for root in lake or ()}
    found = cached_lakes()
    missing = sorted(roots - {one.lake for one in found})
    if missing:
        raise UsageError(
            "the cache has no lake index of it; see: intarsia cache list",
            reason="not-in-cache",
            path=missing[0],
        )
    chosen = [one for one in found if (one.lake in roots if roots else not gone or one.lake_exists is False)]
    for one in chosen:
        one.clear()
    total = size(sum(one.num_bytes for one in chosen))
    lines = [f"deleted {one.folder} of {one.lake or 'an unknown lake'}" for one in chosen]
    lines.append(f"{count(len(chosen), 'cached lake')} deleted, {total}")
    print_report({"deleted": [_to_dict(one) for one in chosen]}, map(line, lines), as_json=json)


def _root(lake: str) -> str:
    """Return the root of a lake as `CachedLake.lake` has it."""
    from intarsia.storage import local_path

    path = local_path(lake)
    return lake.rstrip("/") if path is None else os.path.abspath(path)


def _to_dict(lake: CachedLake) -> dict[str, object]:
    return {
        "lake": lake.lake,
        "folder": lake.folder,
        "copy": lake.is_copy,
        "bytes": lake.num_bytes,
        "age_seconds": round(max(0.0, time.time() - lake.modified)),
        "lake_exists": lake.lake_exists,
    }


def _age(lake: CachedLake) -> str:
    seconds = max(0, int(time.time() - lake.modified))
    if seconds < _HOUR:
        return f"{seconds // 60} min"
    return f"{seconds // _HOUR} h" if seconds < 2 * _DAY else f"{seconds // _DAY} days"


def _state(lake: CachedLake) -> str:
    if lake.is_copy:
        return "copy of the one in the store"
    return {True: "exists", False: "no such folder", None: ""}[lake.lake_exists]
