"""``intarsia cache``: list and delete the lake indexes in the user's cache folder."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from intarsia.cli.arguments import AsJson
from intarsia.cli.failures import UsageError
from intarsia.cli.terminal import line, plain_table, print_json, show
from intarsia.read.amounts import count, size

if TYPE_CHECKING:
    from intarsia.lake.index.folder import CachedLake

LIST_EXAMPLES = """
intarsia cache list
intarsia cache list --json
"""

CLEAR_EXAMPLES = """
intarsia cache clear lake/
intarsia cache clear --gone
intarsia cache clear
"""

_HOUR, _DAY = 3600, 86_400


def list_cache(json: AsJson = False) -> None:
    """Show the lake indexes in the user's cache folder: of which lake, their size and age.

    The state of a lake is whether its folder still exists; stores of URLs are not asked.
    """
    from intarsia.lake.index.folder import cache_folder, cached_lakes

    found = cached_lakes()
    if json:
        print_json({"folder": cache_folder(), "lakes": [_to_dict(lake) for lake in found]})
        return
    total = size(sum(lake.num_bytes for lake in found))
    summary = f"{count(len(found), 'cached lake')} in {cache_folder()}, {total}"
    if not found:
        show([line(summary)])
        return
    table = plain_table("lake", ">size", ">age", "state")
    for lake in found:
        table.add_row(lake.lake or f"unknown: {lake.folder}", size(lake.num_bytes), _age(lake), _state(lake))
    show([table, line(), line(summary)])


def clear_cache(
    lakes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LAKE]…", help="Folders or URLs of lakes, which need not exist; all by default."
        ),
    ] = None,
    gone: Annotated[bool, typer.Option("--gone", help="Only of local lakes that no longer exist.")] = False,
    json: AsJson = False,
) -> None:
    """Delete lake indexes in the user's cache folder. Queries remain correct, and open more files."""
    from intarsia.lake.index.folder import cached_lakes

    if lakes and gone:
        raise UsageError(
            "--gone cannot be combined with lakes; name lakes, or use --gone", reason="conflicting-options"
        )
    roots = {_root(lake) for lake in lakes or ()}
    found = cached_lakes()
    missing = sorted(roots - {lake.lake for lake in found})
    if missing:
        raise UsageError(
            f"{missing[0]}: the cache has no lake index of it; see: intarsia cache list",
            reason="not-in-cache",
            path=missing[0],
        )
    chosen = [
        lake for lake in found if (lake.lake in roots if roots else not gone or lake.lake_exists is False)
    ]
    for lake in chosen:
        lake.clear()
    if json:
        print_json({"deleted": [_to_dict(lake) for lake in chosen]})
        return
    total = size(sum(lake.num_bytes for lake in chosen))
    lines = [f"deleted {lake.folder} of {lake.lake or 'an unknown lake'}" for lake in chosen]
    show(map(line, [*lines, f"{count(len(chosen), 'cached lake')} deleted, {total}"]))


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
