"""The files of a lake that a job shall index: new, large enough, settled, and without an index."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Literal, TypeAlias

import numpy as np

from intarsia.ahead import ahead
from intarsia.embed.attach import unchanged_report
from intarsia.embed.report import IndexedFile
from intarsia.embed.structures import Attachable
from intarsia.errors import IndexBuildError, IntarsiaError
from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile
from intarsia.records import dataclass
from intarsia.spark.listing import LakeFiles

#: All files, or those that were not indexed before.
Only: TypeAlias = Literal["all", "new"]

#: A duration; a number is in seconds.
Age: TypeAlias = "timedelta | float"


@dataclass(frozen=True)
class Choice:
    """Which files are indexed.

    Attributes:
        only: ``"new"`` leaves out the files that the lake index contains unchanged and that have an embedded
            index or a mark of one, so that the job takes one listing and no footer of these files.
        min_file_size: Smaller files are left out; in bytes.
        older_than: Files that were written in this time are left out, in seconds.

    Raises:
        ValueError: If an argument is invalid.
    """

    only: Only = "all"
    min_file_size: int = 0
    older_than: Age = 0

    def __post_init__(self) -> None:
        if self.only not in ("all", "new"):
            raise ValueError(f"only is {self.only!r}; use 'all' or 'new'")
        if self.min_file_size < 0:
            raise ValueError(f"min_file_size is {self.min_file_size!r}; use 0 or more bytes")
        if self._seconds < 0:
            raise ValueError(f"older_than is {self.older_than!r}; use 0 or more seconds")

    @property
    def _seconds(self) -> float:
        age = self.older_than
        return age.total_seconds() if isinstance(age, timedelta) else float(age)

    def of(self, lake: LakeFiles, *, needs_lake_index: bool) -> dict[str, DataFile]:
        """Return the chosen files by path.

        Args:
            lake: The files.
            needs_lake_index: Whether an error is raised if new files cannot be found because there is no
                lake index; else all files are new.

        Raises:
            IndexBuildError: If there is no lake index, but one is needed.
        """
        files = lake.files
        if self.only == "new":
            indexed = _indexed_before(lake, needs_lake_index=needs_lake_index)
            files = {path: file for path, file in files.items() if path not in indexed}
        latest = time.time() - self._seconds
        return {
            path: file
            for path, file in files.items()
            if file.size_bytes >= self.min_file_size and (not self._seconds or _modified(file) <= latest)
        }


def _indexed_before(lake: LakeFiles, *, needs_lake_index: bool) -> set[str]:
    """Return the paths of the files that the lake index contains unchanged and that have been indexed."""
    table = lake.open()
    known = table.lake_index.known_files()
    if known is None:
        if needs_lake_index:
            raise IndexBuildError(
                "only='new' finds new files by the lake index, and there is none; build one with "
                "lake_index='beside' or 'cache'",
                reason="no-lake-index",
            )
        return set()
    paths = [file.path for file in table.files]
    return {paths[file] for file in np.flatnonzero(known.have_directory(paths)).tolist()}


def _modified(file: DataFile) -> float:
    """Return the time of the last write in seconds since 1970; now if the store does not say."""
    if file.times_ns is not None:
        return file.times_ns[0] / 1e9
    if file.modified is not None:
        return file.modified
    return time.time() if file.is_remote else os.stat(file.path).st_mtime


#: Footers read on the driver before it is decided whether to read the others.
PROBED = 64

#: The share of the probed files that have all indexes, from which the other footers are read, too.
MIN_SHARE = 0.5

#: Maximum number of footers read on the driver.
MAX_FOOTERS = 10_000

#: Number of footers read at a time, which bounds the load of the driver and of the object store.
_THREADS = 16


def find_unchanged(files: Mapping[str, DataFile], indexes: Sequence[Attachable]) -> dict[str, IndexedFile]:
    """Return the outcome of each file whose footer shows that it has all indexes.

    A new lake costs `PROBED` footers. In a lake that was indexed before, the driver reads the footers of at
    most `MAX_FOOTERS` files, which is faster than tasks for them. All other files are left to the tasks.

    Args:
        files: The files by path.
        indexes: The indexes to attach.
    """

    def unchanged(chosen: Sequence[str]) -> dict[str, IndexedFile]:
        with closing(ahead(lambda path: _outcome(files[path], indexes), chosen, _THREADS)) as outcomes:
            found = {path: outcome.result() for path, outcome in outcomes}
        return {path: outcome for path, outcome in found.items() if outcome is not None}

    paths = list(files)
    step = max(1, len(paths) // PROBED)
    probed = paths[::step][:PROBED]
    found = unchanged(probed)
    if len(found) < len(probed) * MIN_SHARE:
        return found
    chosen = set(probed)
    rest = [path for path in paths if path not in chosen][: MAX_FOOTERS - len(probed)]
    return found | unchanged(rest)


def _outcome(file: DataFile, indexes: Sequence[Attachable]) -> IndexedFile | None:
    """Return the outcome of a file that has all indexes; errors are left to the task of the file."""
    try:
        with ParquetInput(file.open()) as opened:
            report = unchanged_report(opened, indexes)
    except (IntarsiaError, OSError):
        return None
    return None if report is None else IndexedFile.of(report)
