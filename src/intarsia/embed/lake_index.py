"""Write the lake index after the files of a lake have changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from intarsia.lake.discovery import FoundFiles, find_files
from intarsia.lake.each_file import ShowDone
from intarsia.lake.index.folder import Location
from intarsia.lake.table_files import TableFiles
from intarsia.read.report import warn_caller
from intarsia.storage import StorageOptions

if TYPE_CHECKING:
    from intarsia.lake.index.build import LakeIndexReport


def check_location(listed: FoundFiles, location: Location | None) -> None:
    """Raise an error, before any file is changed, if a lake index cannot be at a location.

    Raises:
        IndexBuildError: If there is a single file.
        ValueError: If the location is unknown or impossible, or the files have no common root.
    """
    if location is not None:
        _table(listed).lake_index.folder_at(location)


def write_lake_index(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    location: Location | None,
    show: ShowDone = lambda _: None,
    storage_options: StorageOptions | None = None,
) -> LakeIndexReport | None:
    """Build the lake index of files, or update an existing one.

    Args:
        source: The files, as for `intarsia.open`. They are listed again, because objects have new ETags.
        location: Where to build it; None to update an existing lake index without creating one.
        show: Called with the number of files that are done.
        storage_options: Options of the stores of URLs.

    Returns:
        The files that were added; None if there is no lake index.

    Raises:
        OSError: If a requested lake index cannot be written. For an update, this is a warning.
    """
    if location is not None:
        return _table(find_files(source, storage_options)).lake_index.build(location, show, wait=True)
    try:
        return _table(find_files(source, storage_options)).lake_index.update(show)
    except OSError as error:
        warn_caller(f"the lake index was not updated: {error}; the results of queries are still correct")
        return None


def _table(listed: FoundFiles) -> TableFiles:
    return TableFiles(listed.files, root=listed.root)
