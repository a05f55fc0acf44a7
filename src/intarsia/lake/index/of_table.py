"""The lake index of one table: opened on first use, updated, used and built."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from intarsia.file import FileMetadata, Ignored, ParquetInput
from intarsia.lake.data_file import DataFile
from intarsia.lake.each_file import ShowDone
from intarsia.lake.index.build import (
    MAX_SEGMENTS,
    BuiltSegments,
    LakeIndexReport,
    build_segments,
    merged_segments,
)
from intarsia.lake.index.folder import LakeIndexFolder, Location
from intarsia.lake.index.known_files import KnownFiles, LakeIndex, open_lake_index
from intarsia.lake.index.location import LakeLocation, locate
from intarsia.lake.index.stamps import wait_until_settled
from intarsia.lake.index.store_folder import find_folders, folder_at
from intarsia.storage import ObjectIdentity

#: A lake index is updated automatically if it lacks at most this many files, or this part of them.
MAX_REFRESHED_FILES = 32
REFRESHED_PART = 10

#: Files with larger payloads are not added automatically, and at most this many files are read to merge
#: segments.
MAX_REFRESHED_BYTES = 16 << 20
MAX_MERGED_FILES = 512

#: A listing is not checked again within this time.
LISTING_SECONDS = 1.0


class TableLakeIndex:
    """The lake index of one table.

    Args:
        files: The files of the table.
        root: The folder or URL below which they were found, as in their paths; None to find a common one.
        open_file: Opens a file.
        files_at_once: Number of files to open concurrently.
        segments: The segments beside the data in an object store, as listed with the files; None to list
            them.

    Attributes:
        ignored: Segments that are ignored, and updates that could not be written.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        root: str | None,
        open_file: Callable[[DataFile], ParquetInput],
        files_at_once: int,
        *,
        segments: Mapping[str, ObjectIdentity] | None = None,
    ) -> None:
        self._files = files
        self._root = root
        self._open_file = open_file
        self._files_at_once = files_at_once
        self._segments = segments
        self._index: LakeIndex | None = None
        self._is_opened = False
        self._known: KnownFiles | None = None
        self._listed = time.monotonic()
        self.ignored: list[Ignored] = []

    @cached_property
    def _location(self) -> LakeLocation | None:
        return locate(self._files, self._root)

    @cached_property
    def _ordinals(self) -> dict[str, int]:
        return {file.path: ordinal for ordinal, file in enumerate(self._files)}

    def known_files(self, *, is_current: bool = False) -> KnownFiles | None:
        """Return the files that the lake index contains; None without a lake index.

        The first call opens the lake index. If it lacks a few of the files, their footers and indexes
        are read, and the lake index is updated.

        Args:
            is_current: The result of the last call belongs to the same run. Otherwise, the stamps of local
                files are read again, unless they have just been listed.
        """
        if not self._is_opened:
            self._is_opened = True
            self._known = self._opened()
        elif self._index is not None and not is_current:
            self._known = self._index.known()
        return self._known

    def _opened(self) -> KnownFiles | None:
        if len(self._files) < 2 or self._location is None:
            return None
        listed = self._segments if self._location.is_whole else None
        folders = find_folders(self._location.root, self._files, listed, any_suffices=True)
        self._segments = None  # later ones are listed again
        self._index, self.ignored = open_lake_index(self._location, self._files, folders)
        if self._index is None:
            return None
        has_stamps = all(file.times_ns is not None or file.e_tag is not None for file in self._files)
        is_new = time.monotonic() - self._listed < LISTING_SECONDS
        known = self._index.known(as_listed=has_stamps and is_new)
        missing = np.flatnonzero(~known.is_known)
        if 0 < len(missing) <= max(MAX_REFRESHED_FILES, len(self._files) // REFRESHED_PART):
            return self._refreshed(self._index, known, missing)
        return known

    def _refreshed(self, index: LakeIndex, known: KnownFiles, missing: npt.NDArray[np.int64]) -> KnownFiles:
        """Add files to the lake index, and return the files that it then contains."""
        folder = index.segments[0].folder
        replaced: list[str] = []
        if len(index.segments) >= MAX_SEGMENTS and self._is_whole(folder):
            chosen, again = merged_segments(known, folder)
            if len(again) <= MAX_MERGED_FILES:
                replaced, missing = chosen, np.union1d(missing, again)
        segments = self._build(missing, folder, max_bytes=MAX_REFRESHED_BYTES).segments
        try:
            names = [folder.add(data) for data in segments]
            for name in set(replaced) - set(names):
                folder.remove(name)
        except OSError as error:  # this table uses the segments in memory
            reason = f"it cannot be updated: {error}"
            self.ignored.append(Ignored(folder.path, "lake index", reason, "not-writable"))
        for data in segments:
            index.add(folder, data)
        return index.known()

    def metadata(self, file: DataFile, identity: Hashable | None) -> FileMetadata | None:
        """Return the footer of an open file; None if it is not known, or has changed.

        Args:
            file: The file.
            identity: The identity of the open file.
        """
        if self._known is None:
            return None
        return self._known.metadata(self._ordinals[file.path], file.path, identity)

    def build(self, location: Location, show: ShowDone, *, wait: bool) -> LakeIndexReport:
        """Build the lake index; see `intarsia.Table.build_lake_index`."""
        return self._add_missing(
            self._required_location, self.folder_at(location), show, wait=wait, merge=True
        )

    def folder_at(self, location: Location) -> LakeIndexFolder:
        """Return the folder of the lake index at a location, which need not exist.

        Raises:
            ValueError: If the location is unknown or impossible, or the files have no common root.
        """
        return folder_at(self._required_location.root, location, self._files)

    def update(self, show: ShowDone) -> LakeIndexReport | None:
        """Add all missing files to an existing lake index of the table, or of a lake that contains it.

        Args:
            show: Called with the number of files that are done.

        Returns:
            The files that were added; None if there is no lake index.

        Raises:
            OSError: If the folder cannot be written.
        """
        where = self._location
        folders = (
            [] if where is None else [one for one in find_folders(where.root, self._files) if one.names()]
        )
        if where is None or not folders:
            return None
        return self._add_missing(where, folders[0], show, wait=True, merge=self._is_whole(folders[0]))

    def remove(self) -> tuple[str, ...]:
        """Delete the lake index; see `intarsia.Table.remove_lake_index`."""
        root = self._required_location.root
        folders = [folder_at(root, "cache")]
        with contextlib.suppress(ValueError):  # a web server
            folders.append(folder_at(root, "beside", self._files))
        self._forget()
        return tuple(folder.path for folder in folders if folder.clear())

    def _is_whole(self, folder: LakeIndexFolder) -> bool:
        """Return whether the table has all files of a lake; if not, segments may have files that it lacks."""
        where = self._location
        return where is not None and where.is_whole and folder.root == where.root

    @property
    def _required_location(self) -> LakeLocation:
        if self._location is None:
            raise ValueError("the files of the table have no common root; open the folder that contains them")
        return self._location

    def _forget(self) -> None:
        """Close the lake index; it is opened again on next use."""
        if self._index is not None:
            self._index.close()
        self._index, self._known, self._is_opened = None, None, False

    def _add_missing(
        self, where: LakeLocation, folder: LakeIndexFolder, show: ShowDone, *, wait: bool, merge: bool
    ) -> LakeIndexReport:
        started = time.perf_counter()
        found, _ = open_lake_index(where, self._files, [folder])
        missing, replaced = np.arange(len(self._files)), list[str]()
        if found is not None:
            known = found.known()
            again = np.array([], dtype=np.int64)
            if merge:
                replaced, again = merged_segments(known, folder)
            missing = np.union1d(np.flatnonzero(~known.is_known), again)
            found.close()
        if wait:
            wait_until_settled([self._files[ordinal] for ordinal in missing.tolist()])
        built = self._build(missing, folder, show)
        names = [folder.add(data) for data in built.segments]
        for name in set(replaced) - set(names):
            folder.remove(name)
        self._forget()
        return LakeIndexReport(
            folder.path,
            len(self._files),
            len(self._files) - len(missing),
            built.added,
            tuple(built.recent),
            tuple(built.failed),
            sum(map(len, built.segments)),
            time.perf_counter() - started,
        )

    def _build(
        self,
        files: npt.NDArray[np.int64],
        folder: LakeIndexFolder,
        show: ShowDone = lambda _: None,
        max_bytes: int | None = None,
    ) -> BuiltSegments:
        location = self._location
        assert location is not None
        prefix, ordinals = location.prefix_in(folder.root), files.tolist()
        return build_segments(
            [self._files[ordinal] for ordinal in ordinals],
            [prefix + location.relative_paths[ordinal] for ordinal in ordinals],
            self._open_file,
            self._files_at_once,
            show,
            max_bytes,
        )
