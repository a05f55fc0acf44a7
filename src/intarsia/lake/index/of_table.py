"""The lake index of one table: the files that it contains; opened on first use, updated, used and built."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import FormatError, IndexBuildError, ListingError
from intarsia.file import FileMetadata, Ignored
from intarsia.lake.data_file import DataFile, FileList, ShowDone, as_bytes, as_text, have_stamps, paths_of
from intarsia.lake.index.build import FactsReader, LakeIndexReport, SegmentBuilder
from intarsia.lake.index.facts import FileStamp, Stamps, opened_stamp, wait_until_settled
from intarsia.lake.index.folder import (
    REMOVED,
    LakeIndexFolder,
    Location,
    find_folders,
    folder_at,
    ignored_segment,
)
from intarsia.lake.index.segment import Family, Segment
from intarsia.once import cached_property
from intarsia.read.report import LAKE_INDEX
from intarsia.records import dataclass
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

#: More small segments than this are merged, because each condition takes one read per segment.
MAX_SEGMENTS = 8

#: The segment of a file that is not known.
UNKNOWN_SEGMENT = -1


@dataclass(frozen=True)
class LakeLocation:
    """The root of a table, and the paths of its files.

    Attributes:
        root: An absolute path or a URL.
        prefix: The text before the relative path in each of the paths, with a slash at its end.
        paths: The paths of the files; see `intarsia.lake.data_file.paths_of`.
        is_whole: Whether these are all files below the root.
    """

    root: str
    prefix: str
    paths: pa.Array = field(repr=False)
    is_whole: bool = False

    def is_all_of(self, root: str) -> bool:
        """Return whether these are all files of a lake; if not, its segments may have others."""
        return self.is_whole and root == self.root

    def prefix_in(self, folder: str) -> str:
        """Return the path of the root relative to a folder that contains it, with a slash if not empty."""
        below = self.root[len(folder) :].strip("/")
        return f"{below}/" if below else ""

    def name_in(self, folder: str, ordinal: int) -> str:
        """Return the path of a file relative to a folder that contains the root."""
        return self.prefix_in(folder) + as_text(self.paths[ordinal].as_py())[len(self.prefix) :]

    def ordinals_of(self, names: pa.Array, folder: str) -> npt.NDArray[np.int64]:
        """Return the ordinals of files by their paths relative to a folder that contains the root.

        Args:
            names: The relative paths, ``string``.

        Returns:
            The ordinal of each, -1 if it is none of the files.
        """
        below = self.prefix_in(folder)
        if below:
            names = pc.if_else(pc.starts_with(names, below), names, None)
            names = pc.utf8_slice_codeunits(names, len(below))
        first, nothing = (pa.scalar(as_bytes(text), pa.large_binary()) for text in (self.prefix, ""))
        paths = pc.binary_join_element_wise(first, names.cast(pa.large_binary()), nothing)
        if paths.equals(self.paths):  # without a table of their hashes
            return np.arange(len(paths))
        found = pc.index_in(paths, value_set=self.paths)
        return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int64)


def locate(files: Sequence[DataFile], root: str | None) -> LakeLocation | None:
    """Find the root of files.

    Args:
        files: The files.
        root: The folder or URL below which they were found, as in their paths; None to find a common one.

    Returns:
        The root and the paths; None if the files have no common root.

    Example:
        >>> locate([DataFile("/lake/a=1/x.parquet", 1), DataFile("/lake/y.parquet", 1)], "/lake/")
        LakeLocation(root='/lake', prefix='/lake/', is_whole=True)
    """
    paths = paths_of(files)
    if root is not None:
        plain = local_path(root)
        prefix = (root if plain is None else plain).rstrip("/") + "/"
        if not files or all(end.startswith(prefix) for end in _ends(paths)):
            absolute = prefix.rstrip("/") if plain is None else os.path.abspath(prefix)
            return LakeLocation(absolute, prefix, paths, is_whole=True)
    has_urls = pc.any(pc.match_substring(paths, "://")).as_py()
    paths = paths if has_urls else _absolute(paths)
    common = os.path.commonprefix(_ends(paths)).rpartition("/")[0]  # noqa: RUF071  # a folder is cut out
    if has_urls and ("://" not in common or common.endswith((":/", "://"))):
        return None  # without a common host
    return LakeLocation(common or "/", f"{common}/", paths)


def _ends(paths: pa.Array) -> list[str]:
    """Return the first and the last path in order: a prefix that both have is that of all."""
    return [as_text(end) for end in pc.min_max(paths).as_py().values()]


def _absolute(paths: pa.Array) -> pa.Array:
    """Return the absolute paths of local files, without ``//`` and ``/../``."""
    is_normal = pc.all(pc.starts_with(paths, "/")).as_py() and not any(
        pc.any(pc.match_substring(paths, part)).as_py() for part in ("//", "/.")
    )
    if is_normal:
        return paths
    return pa.array([os.path.abspath(path) for path in paths.to_pylist()], pa.large_binary())


class OpenSegment(NamedTuple):
    """An open segment with its families, the folder that contains it, and its name in the folder."""

    folder: LakeIndexFolder
    name: str
    segment: Segment
    families: Sequence[Family]

    @classmethod
    def of(cls, folder: LakeIndexFolder, name: str, segment: Segment) -> OpenSegment:
        """Return a segment with its families, which refer to it."""
        families = [Family(segment, ordinal) for ordinal in range(len(segment.structures))]
        return cls(folder, name, segment, families)


@dataclass(frozen=True, eq=False)
class KnownFiles:
    """The files of a table that have not changed since they were indexed.

    Attributes:
        segments: The segments of the lake index.
        segment_of: For each file, the ordinal of a segment that contains it, or `UNKNOWN_SEGMENT`.
        position_in: For each file, its position in that segment.
    """

    segments: Sequence[OpenSegment]
    segment_of: npt.NDArray[np.int64]
    position_in: npt.NDArray[np.int64]

    @property
    def is_known(self) -> Bools:
        """Whether each file is known."""
        return np.asarray(self.segment_of != UNKNOWN_SEGMENT, dtype=bool)

    @cached_property
    def families(self) -> Sequence[FamilyFiles]:
        """The families that have files of the table, without those whose schema is damaged."""
        found: list[FamilyFiles] = []
        by_segment = np.argsort(self.segment_of, kind="stable")
        edges = np.searchsorted(self.segment_of[by_segment], np.arange(len(self.segments) + 1))
        for one, start, stop in zip(self.segments, edges[:-1], edges[1:], strict=True):
            here = by_segment[start:stop]
            positions = self.position_in[here]
            family_of = one.segment.family_of[positions]
            for number in np.unique(family_of).tolist():
                family, mine = one.families[number], family_of == number
                if family.has_schema:
                    within = np.searchsorted(family.positions, positions[mine])
                    found.append(FamilyFiles(family, one.segment, here[mine], within))
        return found

    def metadata(self, file: int, path: str, identity: object) -> FileMetadata | None:
        """Return the footer of a file; None if it is not known, or has changed.

        All other facts about a file depend only on its rows. But other indexes can be attached
        to the same rows without a change of the file's length and modification time, and the footer has their
        locations. So the change time is compared, too, even beside the data: a copied lake index has the
        stamps of the copied files, but not their change times.
        """
        opened, then = opened_stamp(identity), self.stamp(file)
        return (
            None if opened is None or then is None or not opened.is_same(then) else self._footer(file, path)
        )

    def stamp(self, file: int) -> FileStamp | None:
        """Return the stamp that a file had when its facts were read; None if it is not known."""
        ordinal = int(self.segment_of[file])
        if ordinal == UNKNOWN_SEGMENT:
            return None
        return self.segments[ordinal].segment.stamp(int(self.position_in[file]))

    def _footer(self, file: int, path: str) -> FileMetadata | None:
        """Return the footer that a known file had when its facts were read; None if it is damaged."""
        segment = self.segments[int(self.segment_of[file])].segment
        try:
            metadata = segment.metadata(int(self.position_in[file]), path)
            metadata.footer  # noqa: B018 - parses it, which its reader does otherwise
        except TimeoutError:  # of a signal handler
            raise
        except (FormatError, OSError):  # the file's own footer is read instead
            return None
        return metadata

    def have_directory(self, paths: Sequence[str]) -> Bools:
        """Return whether each file is known, and has a directory of embedded indexes."""
        found = np.zeros(len(self.segment_of), dtype=bool)
        for ordinal, one in enumerate(self.segments):
            here = np.flatnonzero(self.segment_of == ordinal)
            try:
                found[here] = one.segment.have_directory[self.position_in[here]]
            except TimeoutError:  # of a signal handler
                raise
            except (FormatError, OSError):  # the footers have it as well
                footers = [self._footer(file, paths[file]) for file in here.tolist()]
                found[here] = [footer is not None and footer.directory is not None for footer in footers]
        return found


@dataclass(frozen=True, eq=False)
class FamilyFiles:
    """The files of a table that are in one family.

    Attributes:
        files: The ordinals of the files in the table.
    """

    family: Family
    segment: Segment
    files: np.ndarray
    within: np.ndarray


class LakeIndex:
    """The segments that may contain files of a table.

    Attributes:
        ignored: Why others are ignored.
    """

    def __init__(
        self, location: LakeLocation, files: Sequence[DataFile], folders: Sequence[LakeIndexFolder]
    ) -> None:
        self.segments: list[OpenSegment] = []
        self.ignored: list[Ignored] = []
        self._location = location
        self._files = files
        self._ordinals: list[npt.NDArray[np.int64]] = []
        for folder in folders:
            try:
                names = folder.names()
            except OSError as error:
                if error.errno is None and not isinstance(error, ListingError):
                    raise  # of the store, of the time limit, or of a signal handler
                self.ignored.append(ignored_segment(folder.path, error))
                continue
            opened: list[OpenSegment] = []
            for name, found in zip(names, folder.open_segments(names), strict=True):
                if not isinstance(found, Ignored):
                    opened.append(OpenSegment.of(folder, name, found))
                elif found.code != REMOVED:
                    self.ignored.append(found)
            self._add(folder, opened)

    def _add(self, folder: LakeIndexFolder, opened: Sequence[OpenSegment]) -> None:
        """Add segments, and for each of their files its ordinal in the table, or -1."""
        if not opened:
            return
        names = pa.concat_arrays([one.segment.paths for one in opened])
        # of all segments at once, because the paths of the table are hashed each time
        ordinals = self._location.ordinals_of(names, folder.root)
        edges = np.cumsum([len(one.segment.paths) for one in opened])[:-1]
        self.segments += opened
        self._ordinals += np.split(ordinals, edges)

    def add(self, folder: LakeIndexFolder, segments: Iterable[bytes]) -> None:
        """Add new segments, which need not have been written."""
        sources = [CountedSource(MemorySource(data, folder.path)) for data in segments]
        self._add(folder, [OpenSegment.of(folder, "", Segment(source)) for source in sources])

    def known(self, *, as_listed: bool = False) -> KnownFiles:
        """Compare the stamps of all files with those in the segments.

        Args:
            as_listed: Use the stamps of the listing, which has just been made. Otherwise, the stamps of local
                files are read with stat, and objects are listed again, unless they are those of a log.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        segment_of = np.full(len(self._files), UNKNOWN_SEGMENT, dtype=np.int64)
        position_in = np.full(len(self._files), -1, dtype=np.int64)
        if not self.segments:
            return KnownFiles((), segment_of, position_in)
        logged = self._files.logged if isinstance(self._files, FileList) else None
        as_listed = as_listed or logged is not None
        now = Stamps.listed(self._files) if as_listed else Stamps.now(self._files, self._location.root)
        for ordinal, (one, ordinals) in enumerate(zip(self.segments, self._ordinals, strict=True)):
            positions = np.flatnonzero(ordinals >= 0)
            positions = positions[segment_of[ordinals[positions]] == UNKNOWN_SEGMENT]
            then = one.segment.stamps.take(positions)
            here = now.take(ordinals[positions])
            is_current = here.equal(then, same_machine=one.folder.is_on_this_machine)
            if logged is not None:
                is_current |= logged[ordinals[positions]] & here.precede(then)
            positions = positions[is_current]
            segment_of[ordinals[positions]] = ordinal
            position_in[ordinals[positions]] = positions
        return KnownFiles(self.segments, segment_of, position_in)

    def replaced(
        self, known: KnownFiles, folder: LakeIndexFolder, max_stale: float = 0
    ) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Choose segments to replace: those with stale entries, and small ones if there are many.

        Entries of files that were deleted or replaced contain values of these files. If the table has the
        whole lake, all entries of other files are stale; if not, those of files that exist unchanged are not.

        Args:
            known: The known files of the table.
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
        # those of a large lake are full, and reading their files again would take as long as building them
        rest = [ordinal for ordinal, one in mine.items() if ordinal not in chosen and not one.segment.is_full]
        if len(rest) >= MAX_SEGMENTS:
            # the files of a segment that the table lacks would be lost
            mergeable = [ordinal for ordinal in rest if live[ordinal] == kept[ordinal]]
            chosen |= set(sorted(mergeable, key=live.__getitem__)[: len(rest) // 2 + 1])
        names = [one.name for ordinal, one in mine.items() if ordinal in chosen]
        return names, np.flatnonzero(np.isin(known.segment_of, list(chosen)))

    def _num_current(self, one: OpenSegment) -> int:
        """Return the number of files in a segment that exist unchanged, whether the table has them or not."""
        root, store = one.folder.root, self._files[0].store if self._files else None
        names = one.segment.paths.to_pylist()
        files = [DataFile(f"{root.rstrip('/')}/{name}", -1, store=store) for name in names]
        same = Stamps.now(files, root).equal(one.segment.stamps, same_machine=one.folder.is_on_this_machine)
        return int(same.sum())

    def close(self) -> None:
        """Close the segments."""
        for one in self.segments:
            one.segment.close()


class TableLakeIndex:
    """The lake index of one table.

    Args:
        root: The folder or URL below which they were found, as in their paths; None to find a common one.
        reader: Returns a reader of files, given this object, and the `reader_of` limit of their payloads.
        segments: The segments beside the data in an object store, as listed with the files; None to list
            them.
        is_part: Whether the table has other files, which the lake index may contain. It is then not updated.
        has_all: Whether the table has all files below the root.

    Attributes:
        ignored: Segments that are ignored, and updates that could not be written.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        root: str | None,
        reader: Callable[[TableLakeIndex, int | None], FactsReader],
        *,
        segments: Mapping[str, ObjectIdentity] | None = None,
        is_part: bool = False,
        has_all: bool = True,
    ) -> None:
        self._is_part = is_part
        self._has_all = has_all
        self._files = files
        self._root = root
        self._reader = reader
        self._segments = segments
        self._index: LakeIndex | None = None
        self._opening = threading.RLock()
        self._is_opened = False
        self._known: KnownFiles | None = None
        self._listed = time.monotonic()
        self.ignored: list[Ignored] = []

    @cached_property
    def _location(self) -> LakeLocation | None:
        found = locate(self._files, self._root)
        return found if found is None or self._has_all else replace(found, is_whole=False)

    @cached_property
    def _ordinals(self) -> dict[str, int]:
        return {file.path: ordinal for ordinal, file in enumerate(self._files)}

    def known_files(self, *, as_listed: bool = False) -> KnownFiles | None:
        """Return the files that the lake index contains unchanged; None without a lake index.

        The first call opens the lake index. If it lacks a few of the files, their footers and indexes
        are read, and the lake index is updated. Each call reads the stamps of the files again, except those
        of objects that have just been listed.

        Args:
            as_listed: Whether the first call need not read the stamps of local files either that have just
                been listed.
        """
        if self._is_opened:
            if self._index is not None:
                self._known = self._index.known()
            return self._known
        with self._opening:  # queries that start together open it once, and all use it
            if not self._is_opened:
                try:
                    self._known = self._opened(as_listed=as_listed)
                finally:
                    self._is_opened = True
            return self._known

    @property
    def exists(self) -> bool:
        """Whether there is a lake index, which is opened on first use."""
        if not self._is_opened:
            self.known_files()
        return self._index is not None

    def _opened(self, *, as_listed: bool) -> KnownFiles | None:
        where = self._location if len(self._files) > 1 else None
        if where is None:
            return None
        listed = self._segments if where.root == self._root or where.is_whole else None
        folders = find_folders(where.root, self._files, listed, any_suffices=True)
        self._segments = None  # later ones are listed again
        index = LakeIndex(where, self._files, folders)
        self.ignored = index.ignored
        if not index.segments:
            return None
        self._index = index
        # Listing objects again takes a request for each thousand; a stat is cheap, and this program may have
        # replaced a local file since. Spark compares the files of its lists when it reads them.
        is_new = time.monotonic() - self._listed < LISTING_SECONDS
        is_enough = (is_new and (as_listed or "://" in where.root)) or isinstance(self._files, FileList)
        known = index.known(as_listed=is_enough and have_stamps(self._files))
        missing = np.flatnonzero(~known.is_known)
        most = max(MAX_REFRESHED_FILES, len(self._files) // REFRESHED_PART)
        is_refreshed = 0 < len(missing) <= most and not self._is_part
        return self._refreshed(where, index, known, missing) if is_refreshed else known

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
        read = self._reader(self, MAX_REFRESHED_BYTES)
        segments = list(SegmentBuilder(self._by_name(where, missing, folder), read).segments())
        try:
            folder.replace_segments(replaced, segments, self._readers(where, missing, folder))
        except OSError as error:  # this table uses the segments in memory
            reason = f"it cannot be updated: {error}"
            self.ignored.append(Ignored(folder.path, LAKE_INDEX, reason, "not-writable"))
        index.add(folder, segments)
        return index.known()

    def metadata(self, file: DataFile, identity: Hashable | None) -> FileMetadata | None:
        """Return the footer of an open file; None if it is not known, or has changed."""
        if self._known is None:
            return None
        return self._known.metadata(self._ordinal_of(file), file.path, identity)

    def logged_identity(self, file: DataFile) -> ObjectIdentity | None:
        """Return the identity that an object had when its facts were read; None if it was listed since.

        Each request for the object compares it.
        """
        listed = self._files
        if self._known is None or not isinstance(listed, FileList) or listed.logged is None:
            return None
        ordinal = self._ordinal_of(file)
        stamp = self._known.stamp(ordinal) if listed.logged[ordinal] else None
        return (
            None if stamp is None else ObjectIdentity(stamp.size_bytes, stamp.e_tag, stamp.modified_ns / 1e9)
        )

    def _ordinal_of(self, file: DataFile) -> int:
        listed = self._files
        return listed.ordinal_of(file.path) if isinstance(listed, FileList) else self._ordinals[file.path]

    def build(
        self, location: Location, show: ShowDone, *, wait: bool, read: FactsReader | None = None
    ) -> LakeIndexReport:
        """Build the lake index; see `intarsia.Table.build_lake_index`.

        Args:
            show: Called with the number of files that are done.
            wait: Whether to wait for files that were written in the last seconds.
            read: Reads the files; None for threads of this process.
        """
        folder = self.folder_at(location)
        return self._add_missing(self._required_location, folder, show, read, wait=wait, max_stale=0)

    def folder_at(self, location: Location) -> LakeIndexFolder:
        """Return the folder of the lake index at a location, which need not exist.

        Raises:
            IndexBuildError: If the table is a single file, for which no lake index is used.
            ValueError: If the location is unknown or impossible, or the files have no common root.
        """
        if len(self._files) == 1 and self._root is None:
            raise IndexBuildError(
                "a lake index chooses among the files of a folder, and this is a single file, whose own "
                "indexes are read directly; pass its folder, or add indexes to it with attach",
                reason="single-file",
                path=self._files[0].path,
            )
        return folder_at(self._required_location.root, location, self._files)

    def update(self, show: ShowDone, read: FactsReader | None = None) -> LakeIndexReport | None:
        """Add all missing files to an existing lake index of the table, or of a lake that contains it.

        A segment is rewritten if most of its entries are stale: one replaced file is no reason to read all
        files of its segment again. The arguments are those of `build`.

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
        max_stale = MAX_STALE_PART if where.is_all_of(folder.root) else None
        return self._add_missing(where, folder, show, read, wait=True, max_stale=max_stale)

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
        max_stale: float | None,
    ) -> LakeIndexReport:
        started = time.perf_counter()
        index = LakeIndex(where, self._files, [folder])
        readers = self._readers(where, np.arange(len(self._files)), folder)
        folder.narrow(readers)
        known = index.known()
        missing, again = np.flatnonzero(~known.is_known), np.array([], dtype=np.int64)
        replaced: list[str] = []
        if max_stale is not None:
            replaced, again = index.replaced(known, folder, max_stale)
        index.close()
        if wait:
            wait_until_settled([self._files[ordinal] for ordinal in missing.tolist()])
        by_name = self._by_name(where, np.union1d(missing, again), folder)
        built = SegmentBuilder(by_name, read or self._reader(self, None), show)
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

    def _by_name(
        self, where: LakeLocation, files: npt.NDArray[np.int64], folder: LakeIndexFolder
    ) -> dict[str, DataFile]:
        return {where.name_in(folder.root, at): self._files[at] for at in files.tolist()}


def _unusable(folder: LakeIndexFolder, ignored: Sequence[Ignored]) -> list[str]:
    """Return the names of the segments that are ignored, and whose files a build adds again.

    Those that this user cannot read are not among them.
    """
    if any(note.file == folder.path for note in ignored):  # other users may have put segments into it
        return folder.names()
    return [
        os.path.basename(note.file) for note in ignored if note.code not in ("not-a-file", "storage-error")
    ]
