"""The commands for lake indexes: ``intarsia lake-index``, ``cache list`` and ``cache clear``."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from intarsia.cli.failures import UsageError
from intarsia.cli.jobs import finish, reasons
from intarsia.cli.options import parse_storage_options
from intarsia.cli.terminal import line, plain_table, print_report, printable, printable_lines, progress
from intarsia.read.amounts import count, size

if TYPE_CHECKING:
    from intarsia.lake.index.folder import CachedLake, Location

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
    try:
        table.lake_index.folder_at(location)
    except intarsia.IndexBuildError as error:
        raise UsageError(str(error), reason=error.reason, path=error.path) from None
    except ValueError as error:
        raise UsageError(str(error), reason="lake-index-location") from None
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
        [LAKE]…: Folders or URLs of lakes, which need not exist; all by default.
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
            f"{missing[0]}: the cache has no lake index of it; see: intarsia cache list",
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
