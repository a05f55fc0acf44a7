"""The lake index of one table: opened on first use, updated, used and built."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from intarsia.errors import IndexBuildError
from intarsia.file import FileMetadata, Ignored, ParquetInput
from intarsia.lake.data_file import DataFile
from intarsia.lake.each_file import ShowDone
from intarsia.lake.index.build import (
    MAX_SEGMENTS,
    BuiltSegments,
    LakeIndexReport,
    build_segments,
    replaced_segments,
)
from intarsia.lake.index.facts import wait_until_settled
from intarsia.lake.index.folder import LakeIndexFolder, LakeLocation, Location, locate
from intarsia.lake.index.known_files import KnownFiles, LakeIndex, open_lake_index
from intarsia.lake.index.store_folder import find_folders, folder_at
from intarsia.read.report import LAKE_INDEX
from intarsia.storage import ObjectIdentity
from intarsia.storage.guarded_folder import Readers

#: A lake index is updated automatically if it lacks at most this many files, or this part of them.
MAX_REFRESHED_FILES = 32
REFRESHED_PART = 10

#: Files with larger payloads are not added automatically, and at most this many files are read to merge
#: segments.
MAX_REFRESHED_BYTES = 16 << 20
MAX_MERGED_FILES = 512

#: An automatic update rewrites segments with more stale entries; a build rewrites all with any.
MAX_STALE_PART = 0.5

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
        is_part: Whether the table has other files, which the lake index may contain. It is then not updated.

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
        is_part: bool = False,
    ) -> None:
        self._is_part = is_part
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

    def known_files(self) -> KnownFiles | None:
        """Return the files that the lake index contains unchanged; None without a lake index.

        The first call opens the lake index. If it lacks a few of the files, their footers and indexes
        are read, and the lake index is updated. Each call reads the stamps of local files again, unless they
        have just been listed.
        """
        if not self._is_opened:
            self._is_opened = True
            self._known = self._opened()
        elif self._index is not None:
            self._known = self._index.known()
        return self._known

    @property
    def exists(self) -> bool:
        """Whether there is a lake index, which is opened on first use."""
        return (self.known_files() if not self._is_opened else self._index) is not None

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
        if self._is_part:
            return known
        if 0 < len(missing) <= max(MAX_REFRESHED_FILES, len(self._files) // REFRESHED_PART):
            return self._refreshed(self._index, known, missing)
        return known

    def _refreshed(self, index: LakeIndex, known: KnownFiles, missing: npt.NDArray[np.int64]) -> KnownFiles:
        """Add files to the lake index, and return the files that it then contains."""
        folder = index.segments[0].folder
        replaced: list[str] = []
        if len(index.segments) >= MAX_SEGMENTS and self._is_whole(folder):
            chosen, again = replaced_segments(known, folder, is_whole=True, max_stale=MAX_STALE_PART)
            if len(again) <= MAX_MERGED_FILES:
                replaced, missing = chosen, np.union1d(missing, again)
        segments = self._build(missing, folder, max_bytes=MAX_REFRESHED_BYTES).segments
        try:
            folder.replace_segments(replaced, segments, self._readers(missing, folder))
        except OSError as error:  # this table uses the segments in memory
            reason = f"it cannot be updated: {error}"
            self.ignored.append(Ignored(folder.path, LAKE_INDEX, reason, "not-writable"))
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
        folder = self.folder_at(location)
        return self._add_missing(self._required_location, folder, show, wait=wait, replaces=True)

    def folder_at(self, location: Location) -> LakeIndexFolder:
        """Return the folder of the lake index at a location, which need not exist.

        Raises:
            IndexBuildError: If the table is a single file, for which no lake index is used.
            ValueError: If the location is unknown or impossible, or the files have no common root.
        """
        if len(self._files) == 1 and not self._required_location.is_whole:
            path = self._files[0].path
            raise IndexBuildError(
                f"{path}: a lake index chooses among the files of a folder, and this is a single file, whose "
                "own indexes are read directly; pass its folder, or add indexes to it with attach",
                reason="single-file",
                path=path,
            )
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
        is_whole = self._is_whole(folders[0])  # else, facts of files that the table lacks would be lost
        return self._add_missing(where, folders[0], show, wait=True, replaces=is_whole)

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
        self, where: LakeLocation, folder: LakeIndexFolder, show: ShowDone, *, wait: bool, replaces: bool
    ) -> LakeIndexReport:
        started = time.perf_counter()
        found, ignored = open_lake_index(where, self._files, [folder])
        missing, again, replaced = np.arange(len(self._files)), np.array([], dtype=np.int64), list[str]()
        readers = self._readers(missing, folder)
        folder.narrow(readers)
        if found is not None:
            known = found.known()
            missing = np.flatnonzero(~known.is_known)
            if replaces:
                replaced, again = replaced_segments(known, folder, is_whole=self._is_whole(folder))
            found.close()
        if wait:
            wait_until_settled([self._files[ordinal] for ordinal in missing.tolist()])
        built = self._build(np.union1d(missing, again), folder, show)
        folder.replace_segments([*replaced, *_unusable(folder, ignored)], built.segments, readers)
        self._forget()
        new = {self._files[ordinal].path for ordinal in missing.tolist()}
        return LakeIndexReport(
            folder.path,
            len(self._files),
            len(self._files) - len(missing),
            len(missing) - len({*built.recent, *(failure.path for failure in built.failed)} & new),
            tuple(built.recent),
            tuple(built.failed),
            sum(map(len, built.segments)),
            time.perf_counter() - started,
        )

    def _readers(self, files: npt.NDArray[np.int64], folder: LakeIndexFolder) -> Readers:
        """Return the users who may read some of the files, who may read what the lake index contains of them.

        In the cache, its owner need not be that of the files, and the folders that contain the lake matter.
        """
        location = self._location
        if location is None or "://" in location.root:
            return Readers()
        paths = [self._files[ordinal].path for ordinal in files.tolist()]
        folders = {location.root}
        for inner in set(map(os.path.dirname, paths)):
            while inner.startswith(location.root) and inner not in folders:
                folders.add(inner)
                inner = os.path.dirname(inner)
        if folder.location == "beside":
            return Readers.of(paths, folders)
        return replace(Readers.of(paths, folders, map(str, Path(location.root).parents)), uid=None)

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


def _unusable(folder: LakeIndexFolder, ignored: Sequence[Ignored]) -> list[str]:
    """Return the names of the segments that are ignored, and whose files a build adds again.

    Those that this user cannot read are not among them.
    """
    if any(note.file == folder.path for note in ignored):  # other users may have put segments into it
        return folder.names()
    return [
        os.path.basename(note.file) for note in ignored if note.code not in ("not-a-file", "storage-error")
    ]
