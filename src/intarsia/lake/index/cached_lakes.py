"""The lake indexes in the user's cache folder."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from intarsia.lake.folder import SEGMENT_SUFFIX
from intarsia.lake.index.folder import CACHED_COPIES, CACHED_LAKES, ROOT_NAME, LakeIndexFolder, cache_folder
from intarsia.storage import ByteRange
from intarsia.storage.guarded_folder import GuardedFolder, trusted_users


@dataclass(frozen=True)
class CachedLake:
    """A lake index in the user's cache folder.

    Attributes:
        lake: The root of the lake, an absolute path or a URL; None if an older version of Intarsia wrote it.
        folder: The folder of the lake index.
        is_copy: Whether it is a copy of one beside the data in an object store.
        num_bytes: Its size in bytes.
        modified: Time of its last change in seconds since 1970.
    """

    lake: str | None
    folder: str
    is_copy: bool
    num_bytes: int
    modified: float

    @property
    def lake_exists(self) -> bool | None:
        """Whether the folder of the lake exists; None for a URL, whose store is not asked."""
        return None if self.lake is None or "://" in self.lake else os.path.isdir(self.lake)

    def clear(self) -> None:
        """Delete the lake index.

        Raises:
            OSError: If it cannot be deleted.
        """
        LakeIndexFolder(self.folder, self.lake or "", "cache").clear()


def cached_lakes() -> list[CachedLake]:
    """Return the lake indexes in the user's cache folder that this user can use, ordered by lake."""
    found = []
    for kind in (CACHED_LAKES, CACHED_COPIES):
        parent = os.path.join(cache_folder(), kind)
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(parent):
                with (
                    contextlib.suppress(OSError),
                    GuardedFolder(os.path.join(parent, name), trusted_users()) as folder,
                ):
                    found.append(_cached_lake(folder, is_copy=kind == CACHED_COPIES))
    return sorted(found, key=lambda lake: (lake.lake or "", lake.folder))


def _cached_lake(folder: GuardedFolder, *, is_copy: bool) -> CachedLake:
    names = folder.names()
    lake = None
    if ROOT_NAME in names:
        with contextlib.closing(folder.open(ROOT_NAME)) as file:
            lake = os.fsdecode(file.read_ranges([ByteRange(0, file.size())])[0])
    statuses = [os.stat(os.path.join(folder.path, name)) for name in names if name.endswith(SEGMENT_SUFFIX)]
    return CachedLake(
        lake,
        folder.path,
        is_copy,
        sum(status.st_size for status in statuses),
        max((status.st_mtime for status in statuses), default=0.0),
    )
