"""The lake index of one table: the files that it contains; opened on first use, updated, used and built."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.errors import FormatError, IndexBuildError, ListingError
from intarsia.file import FileMetadata, Ignored, ParquetInput
from intarsia.lake.data_file import DataFile, ShowDone
from intarsia.lake.index.build import FactsReader, LakeIndexReport, SegmentBuilder, reader_of
from intarsia.lake.index.facts import Stamps, opened_stamp, wait_until_settled
from intarsia.lake.index.folder import (
    LakeIndexFolder,
    Location,
    find_folders,
    folder_at,
    ignored_segment,
)
from intarsia.lake.index.segment import Family, Segment
from intarsia.read.report import LAKE_INDEX
from intarsia.rows.bounds import Bools
from intarsia.storage import CountedSource, MemorySource, ObjectIdentity, local_path
from intarsia.storage.guarded_folder import Readers
from intarsia.tuning import (
    LISTING_SECONDS,
    MAX_MERGED_FILES,
    MAX_REFRESHED_BYTES,
    MAX_REFRESHED_FILES,
    MAX_STALE_PART,
    REFRESHED_PART,
)

#: More segments than this are merged, because each condition takes one read per segment.
MAX_SEGMENTS = 8

#: The segment of a file that is not known.
UNKNOWN_SEGMENT = -1


@dataclass(frozen=True)
class LakeLocation:
    """The root of a table, and the paths of its files.

    Attributes:
        root: An absolute path or a URL.
        relative_paths: The path of each file relative to the root.
        is_whole: Whether these are all files below the root.
    """

    root: str
    relative_paths: list[str]
    is_whole: bool = False

    def is_all_of(self, root: str) -> bool:
        """Return whether these are all files of a lake; if not, its segments may have others."""
        return self.is_whole and root == self.root

    def prefix_in(self, folder: str) -> str:
        """Return the path of the root relative to a folder that contains it, with a slash if not empty."""
        below = self.root[len(folder) :].strip("/")
        return f"{below}/" if below else ""


def locate(files: Sequence[DataFile], root: str | None) -> LakeLocation | None:
    """Find the root of files.

    Args:
        files: The files.
        root: The folder or URL below which they were found, as in their paths; None to find a common one.

    Returns:
        The root and the paths; None if the files have no common root.

    Example:
        >>> locate([DataFile("/lake/a=1/x.parquet", 1), DataFile("/lake/y.parquet", 1)], "/lake/")
        LakeLocation(root='/lake', relative_paths=['a=1/x.parquet', 'y.parquet'], is_whole=True)
    """
    paths = [file.path for file in files]
    if root is not None:
        plain = local_path(root)
        prefix = (root if plain is None else plain).rstrip("/") + "/"
        # if the first and the last in order have a prefix, so have all between them
        if min(paths, default=prefix).startswith(prefix) and max(paths, default=prefix).startswith(prefix):
            absolute = prefix.rstrip("/") if plain is None else os.path.abspath(prefix)
            return LakeLocation(absolute, _without(prefix, paths), is_whole=True)
    if any("://" in path for path in paths):
        # the longest common prefix is that of the first and the last in order
        first, last = min(paths), max(paths)
        same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        common = first[:same].rpartition("/")[0]
        has_host = "://" in common and not common.endswith((":/", "://"))
        return LakeLocation(common, _without(f"{common}/", paths)) if has_host else None
    paths = [os.path.abspath(path) for path in paths]
    try:
        common = os.path.commonpath([os.path.dirname(path) for path in paths])
    except ValueError:  # on different drives
        return None
    return LakeLocation(common, _without(common.rstrip("/") + "/", paths))


def _without(prefix: str, paths: Sequence[str]) -> list[str]:
    """Return paths without a prefix that all of them have."""
    start = len(prefix)
    return [path[start:] for path in paths]


class OpenSegment(NamedTuple):
    """An open segment, the folder that contains it, and its name in the folder."""

    folder: LakeIndexFolder
    name: str
    segment: Segment


@dataclass(frozen=True, eq=False)
class KnownFiles:
    """The files of a table that have not changed since they were indexed.

    Attributes:
        segments: The segments of the lake index.
        segment_of: For each file, the ordinal of a segment that contains it, or `UNKNOWN_SEGMENT`.
        position_in: For each file, its position in that segment.
    """

    segments: Sequence[OpenSegment]
    segment_of: np.ndarray
    position_in: np.ndarray

    @property
    def is_known(self) -> Bools:
        """Whether each file is known."""
        return np.asarray(self.segment_of != UNKNOWN_SEGMENT, dtype=bool)

    def families(self) -> Iterator[FamilyFiles]:
        """Yield the families that have files of the table, without those whose schema is damaged."""
        for ordinal, one in enumerate(self.segments):
            here = np.flatnonzero(self.segment_of == ordinal)
            if not len(here):
                continue
            positions = self.position_in[here]
            family_of = one.segment.family_of[positions]
            for number, family in enumerate(one.segment.families):
                mine = family_of == number
                if mine.any() and family.has_schema:
                    within = np.searchsorted(family.positions, positions[mine])
                    yield FamilyFiles(family, one.segment, here[mine], within)

    def metadata(self, file: int, path: str, identity: object) -> FileMetadata | None:
        """Return the footer of a file; None if it is not known, or has changed.

        All other facts about a file depend only on its rows. But other indexes can be attached
        to the same rows without a change of the file's length and modification time, and the footer has their
        locations. So the change time is compared, too, even beside the data: a copied lake index has the
        stamps of the copied files, but not their change times.
        """
        ordinal = int(self.segment_of[file])
        if ordinal == UNKNOWN_SEGMENT:
            return None
        opened = opened_stamp(identity)
        if opened is None or opened != self.segments[ordinal].segment.stamp(int(self.position_in[file])):
            return None
        return self.footer(file, path)

    def footer(self, file: int, path: str) -> FileMetadata | None:
        """Return the footer that a file had when its facts were read; None if it is not known, or damaged."""
        ordinal = int(self.segment_of[file])
        if ordinal == UNKNOWN_SEGMENT:
            return None
        one, position = self.segments[ordinal], int(self.position_in[file])
        try:
            metadata = one.segment.metadata(position, path)
            metadata.footer  # noqa: B018 - parses it, which its reader does otherwise
        except (FormatError, OSError):  # the file's own footer is read instead
            return None
        return metadata


@dataclass(frozen=True, eq=False)
class FamilyFiles:
    """The files of a table that are in one family.

    Attributes:
        family: The family.
        segment: Its segment.
        files: The ordinals of the files in the table.
        within: Their positions in the family.
    """

    family: Family
    segment: Segment
    files: np.ndarray
    within: np.ndarray


class LakeIndex:
    """The segments that may contain files of a table.

    Attributes:
        segments: The segments.
        ignored: Why others are ignored.
    """

    def __init__(
        self, location: LakeLocation, files: Sequence[DataFile], folders: Sequence[LakeIndexFolder]
    ) -> None:
        self.segments: list[OpenSegment] = []
        self.ignored: list[Ignored] = []
        self._location = location
        self._files = files
        self._positions: list[np.ndarray] = []
        for folder in folders:
            try:
                names = folder.names()
            except (ListingError, PermissionError) as error:
                self.ignored.append(ignored_segment(folder.path, error))
                continue
            for name, found in zip(names, folder.open_segments(names), strict=True):
                if isinstance(found, Ignored):
                    self.ignored.append(found)
                else:
                    self._add(folder, name, found)

    def _add(self, folder: LakeIndexFolder, name: str, segment: Segment) -> None:
        """Add a segment, and the position of each file of the table in it, or -1."""
        prefix, paths = self._location.prefix_in(folder.root), self._location.relative_paths
        names = [prefix + path for path in paths] if prefix else paths
        positions = np.arange(len(names))
        if names != segment.paths:
            position_of = segment.position_of
            positions = np.array([position_of.get(name, -1) for name in names], dtype=np.int64)
        self.segments.append(OpenSegment(folder, name, segment))
        self._positions.append(positions)

    def add(self, folder: LakeIndexFolder, data: bytes) -> None:
        """Add a new segment, which need not have been written."""
        self._add(folder, "", Segment(CountedSource(MemorySource(data, folder.path))))

    def known(self, *, as_listed: bool = False) -> KnownFiles:
        """Compare the stamps of all files with those in the segments.

        Args:
            as_listed: Use the stamps of the listing, which has just been made. Otherwise, the stamps of local
                files are read with stat, and objects are listed again.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        segment_of = np.full(len(self._files), UNKNOWN_SEGMENT, dtype=np.int64)
        position_in = np.full(len(self._files), -1, dtype=np.int64)
        if not self.segments:
            return KnownFiles((), segment_of, position_in)
        now = Stamps.listed(self._files) if as_listed else Stamps.now(self._files, self._location.root)
        for ordinal, (one, positions) in enumerate(zip(self.segments, self._positions, strict=True)):
            listed = np.flatnonzero((positions >= 0) & (segment_of == UNKNOWN_SEGMENT))
            then = one.segment.stamps.take(positions[listed])
            is_current = now.take(listed).equal(then, same_machine=one.folder.is_on_this_machine)
            segment_of[listed[is_current]] = ordinal
            position_in[listed[is_current]] = positions[listed[is_current]]
        return KnownFiles(self.segments, segment_of, position_in)

    def replaced(
        self, known: KnownFiles, folder: LakeIndexFolder, max_stale: float = 0
    ) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Choose segments to replace: those with stale entries, and small ones if there are many.

        Entries of files that were deleted or replaced contain values of these files. If the table has the
        whole lake, all entries of other files are stale; if not, those of files that exist unchanged are not.

        Args:
            known: The known files of the table.
            folder: The folder.
            max_stale: The part of the entries of a segment that may be stale.

        Returns:
            The names of the segments to replace, and the ordinals of the known files in them.
        """
        is_whole = self._location.is_all_of(folder.root)
        mine = {ordinal: one for ordinal, one in enumerate(self.segments) if one.folder.path == folder.path}
        live = {ordinal: int((known.segment_of == ordinal).sum()) for ordinal in mine}
        kept = live if is_whole else {ordinal: self._num_current(one) for ordinal, one in mine.items()}
        chosen = {
            ordinal
            for ordinal, one in mine.items()
            if kept[ordinal] < (1 - max_stale) * len(one.segment.paths)
        }
        rest = [ordinal for ordinal in mine if ordinal not in chosen]
        if len(rest) >= MAX_SEGMENTS:
            # the files of a segment that the table lacks would be lost
            mergeable = [ordinal for ordinal in rest if live[ordinal] == kept[ordinal]]
            chosen |= set(sorted(mergeable, key=live.__getitem__)[: len(rest) // 2 + 1])
        names = [one.name for ordinal, one in mine.items() if ordinal in chosen]
        return names, np.flatnonzero(np.isin(known.segment_of, list(chosen)))

    def _num_current(self, one: OpenSegment) -> int:
        """Return the number of files in a segment that exist unchanged, whether the table has them or not."""
        root, store = one.folder.root, self._files[0].store if self._files else None
        files = [DataFile(f"{root.rstrip('/')}/{path}", -1, store=store) for path in one.segment.paths]
        same = Stamps.now(files, root).equal(one.segment.stamps, same_machine=one.folder.is_on_this_machine)
        return int(same.sum())

    def close(self) -> None:
        """Close the segments."""
        for one in self.segments:
            one.segment.close()


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
        if not self._is_opened:
            self.known_files()
        return self._index is not None

    def _opened(self) -> KnownFiles | None:
        where = self._location if len(self._files) > 1 else None
        if where is None:
            return None
        listed = self._segments if where.is_whole else None
        folders = find_folders(where.root, self._files, listed, any_suffices=True)
        self._segments = None  # later ones are listed again
        index = LakeIndex(where, self._files, folders)
        self.ignored = index.ignored
        if not index.segments:
            return None
        self._index = index
        has_stamps = all(file.times_ns is not None or file.e_tag is not None for file in self._files)
        is_new = time.monotonic() - self._listed < LISTING_SECONDS
        known = index.known(as_listed=has_stamps and is_new)
        missing = np.flatnonzero(~known.is_known)
        if self._is_part or not len(missing):
            return known
        if len(missing) > max(MAX_REFRESHED_FILES, len(self._files) // REFRESHED_PART):
            return known
        return self._refreshed(where, index, known, missing)

    def _refreshed(
        self, where: LakeLocation, index: LakeIndex, known: KnownFiles, missing: npt.NDArray[np.int64]
    ) -> KnownFiles:
        """Add files to the lake index, and return the files that it then contains."""
        folder = index.segments[0].folder
        replaced: list[str] = []
        if len(index.segments) >= MAX_SEGMENTS and where.is_all_of(folder.root):
            chosen, again = index.replaced(known, folder, MAX_STALE_PART)
            if len(again) <= MAX_MERGED_FILES:
                replaced, missing = chosen, np.union1d(missing, again)
        read = reader_of(self._open_file, self._files_at_once, MAX_REFRESHED_BYTES)
        segments = list(self._builder(where, missing, folder, read).segments())
        try:
            folder.replace_segments(replaced, segments, self._readers(where, missing, folder))
        except OSError as error:  # this table uses the segments in memory
            reason = f"it cannot be updated: {error}"
            self.ignored.append(Ignored(folder.path, LAKE_INDEX, reason, "not-writable"))
        for data in segments:
            index.add(folder, data)
        return index.known()

    def metadata(self, file: DataFile, identity: Hashable | None) -> FileMetadata | None:
        """Return the footer of an open file; None if it is not known, or has changed."""
        if self._known is None:
            return None
        return self._known.metadata(self._ordinals[file.path], file.path, identity)

    def build(
        self, location: Location, show: ShowDone, *, wait: bool, read: FactsReader | None = None
    ) -> LakeIndexReport:
        """Build the lake index; see `intarsia.Table.build_lake_index`.

        Args:
            location: As for `folder_at`.
            show: Called with the number of files that are done.
            wait: Whether to wait for files that were written in the last seconds.
            read: Reads the files; None for threads of this process.
        """
        folder = self.folder_at(location)
        return self._add_missing(self._required_location, folder, show, read, wait=wait, replaces=True)

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

    def update(self, show: ShowDone, read: FactsReader | None = None) -> LakeIndexReport | None:
        """Add all missing files to an existing lake index of the table, or of a lake that contains it.

        The arguments are those of `build`.

        Returns:
            The files that were added; None if there is no lake index.

        Raises:
            OSError: If the folder cannot be written.
        """
        where = self._location
        found = [] if where is None else find_folders(where.root, self._files)
        folder = next((one for one in found if one.names()), None)
        if where is None or folder is None:
            return None
        # else, facts of files that the table lacks would be lost
        replaces = where.is_all_of(folder.root)
        return self._add_missing(where, folder, show, read, wait=True, replaces=replaces)

    def remove(self) -> tuple[str, ...]:
        """Delete the lake index; see `intarsia.Table.remove_lake_index`."""
        root = self._required_location.root
        folders = [folder_at(root, "cache")]
        with contextlib.suppress(ValueError):  # a web server
            folders.append(folder_at(root, "beside", self._files))
        self._forget()
        return tuple(folder.path for folder in folders if folder.clear())

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
        self,
        where: LakeLocation,
        folder: LakeIndexFolder,
        show: ShowDone,
        read: FactsReader | None,
        *,
        wait: bool,
        replaces: bool,
    ) -> LakeIndexReport:
        started = time.perf_counter()
        index = LakeIndex(where, self._files, [folder])
        readers = self._readers(where, np.arange(len(self._files)), folder)
        folder.narrow(readers)
        known = index.known()
        missing, again = np.flatnonzero(~known.is_known), np.array([], dtype=np.int64)
        replaced: list[str] = []
        if replaces:
            replaced, again = index.replaced(known, folder)
        index.close()
        if wait:
            wait_until_settled([self._files[ordinal] for ordinal in missing.tolist()])
        read = read or reader_of(self._open_file, self._files_at_once)
        built = self._builder(where, np.union1d(missing, again), folder, read, show)
        folder.replace_segments([*replaced, *_unusable(folder, index.ignored)], built.segments(), readers)
        self._forget()
        new = {self._files[ordinal].path for ordinal in missing.tolist()}
        return LakeIndexReport(
            folder.path,
            len(self._files),
            len(self._files) - len(missing),
            len(missing) - len({*built.recent, *(failure.path for failure in built.failed)} & new),
            tuple(built.recent),
            tuple(built.failed),
            built.num_bytes,
            time.perf_counter() - started,
        )

    def _readers(self, where: LakeLocation, files: npt.NDArray[np.int64], folder: LakeIndexFolder) -> Readers:
        """Return the users who may read some of the files, who may read what the lake index contains of them.

        In the cache, its owner need not be that of the files, and the folders that contain the lake matter.
        """
        if "://" in where.root:
            return Readers()
        paths = [self._files[ordinal].path for ordinal in files.tolist()]
        folders = {where.root}
        for inner in set(map(os.path.dirname, paths)):
            while inner.startswith(where.root) and inner not in folders:
                folders.add(inner)
                inner = os.path.dirname(inner)
        if folder.location == "beside":
            return Readers.of(paths, folders)
        return replace(Readers.of(paths, folders, map(str, Path(where.root).parents)), uid=None)

    def _builder(
        self,
        where: LakeLocation,
        files: npt.NDArray[np.int64],
        folder: LakeIndexFolder,
        read: FactsReader,
        show: ShowDone = lambda _: None,
    ) -> SegmentBuilder:
        prefix = where.prefix_in(folder.root)
        paths = {prefix + where.relative_paths[at]: self._files[at] for at in files.tolist()}
        return SegmentBuilder(paths, read, show)


def _unusable(folder: LakeIndexFolder, ignored: Sequence[Ignored]) -> list[str]:
    """Return the names of the segments that are ignored, and whose files a build adds again.

    Those that this user cannot read are not among them.
    """
    if any(note.file == folder.path for note in ignored):  # other users may have put segments into it
        return folder.names()
    return [
        os.path.basename(note.file) for note in ignored if note.code not in ("not-a-file", "storage-error")
    ]
