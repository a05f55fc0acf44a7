"""``intarsia lake-index``: build, update or delete the lake index of a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from intarsia.cli.arguments import AsJson, StorageOptionTexts, parse_storage_options
from intarsia.cli.each_file import show_failures
from intarsia.cli.failures import UsageError
from intarsia.cli.terminal import print_json, printable, progress

if TYPE_CHECKING:
    from intarsia import Table
    from intarsia.lake.index.folder import Location

EXAMPLES = """
intarsia lake-index lake/
intarsia lake-index lake/ --beside
intarsia lake-index lake/ --json
intarsia lake-index lake/ --remove
"""


def lake_index(
    lake: Annotated[
        str,
        typer.Argument(
            metavar="LAKE", help="A folder of Parquet files; a local path or a URL.", show_default=False
        ),
    ],
    beside: Annotated[
        bool,
        typer.Option(
            "--beside",
            help="Store it in the lake, in the folder _intarsia, for all users of the lake; by default it is "
            "in the user's cache folder.",
        ),
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Delete it, in the cache and in the lake.")
    ] = False,
    storage_option: StorageOptionTexts = None,
    json: AsJson = False,
) -> None:
    """Build or update the lake index of a lake, so that queries open only the files that can match.

    The lake index is built from footers and indexes. It is a cache: it can be deleted at any time, and files
    that have changed are planned without it. The exit code is 1 if a file cannot be read.
    """
    import intarsia

    if beside and remove:
        raise UsageError(
            "--remove deletes the lake index in the cache and in the lake; omit --beside",
            reason="two-actions",
        )
    table = intarsia.open(lake, storage_options=parse_storage_options(storage_option))
    if remove:
        _remove(table, json=json)
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
    if json:
        print_json(report.to_dict())
    else:
        show_failures(report.failed)
        print("\n".join(map(printable, report.summary().splitlines())))
    raise typer.Exit(1 if report.failed else 0)


def _remove(table: Table, *, json: bool) -> None:
    folders = table.remove_lake_index()
    if json:
        print_json({"removed": list(folders)})
    else:
        print("\n".join(printable(f"deleted {folder}") for folder in folders) or "there is no lake index")
