"""The segments of one lake: files in the user's cache folder, or in ``_intarsia`` beside the data.

A segment is never changed. A writer adds segments under new names and removes those that they replace, so any
number of readers and writers may work at the same time: at worst, two segments contain the same file.

A forged lake index hides rows, and any user may create ``_intarsia`` in a shared folder such as ``/tmp``. So
only segments that trusted users have written are read (`intarsia.storage.guarded_folder`): this user, the
administrator, and the owner of the table's folder, who can replace its files anyway.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import xxhash

from intarsia.errors import FormatError, IntarsiaError
from intarsia.file import Ignored
from intarsia.lake.data_file import DataFile
from intarsia.lake.discovery import LAKE_INDEX_FOLDER, SEGMENT_SUFFIX
from intarsia.lake.index.segment import Segment
from intarsia.read.report import LAKE_INDEX
from intarsia.storage import ByteRange, CountedSource, local_path
from intarsia.storage.guarded_folder import GuardedFolder, Readers, trusted_users


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


#: Sets the user's cache folder.
CACHE_VARIABLE = "INTARSIA_CACHE_DIR"

#: The folders in the cache folder with a folder for each lake: of its segments, and of copies of those that
#: are beside the data in an object store.
CACHED_LAKES = "lakes"
CACHED_COPIES = "segments"

#: The file in a folder of the cache that contains the root of the lake.
ROOT_NAME = "lake.txt"

Location = Literal["cache", "beside"]


@dataclass(frozen=True)
class LakeIndexFolder:
    """The folder with the segments of a lake.

    Attributes:
        path: The folder; it need not exist.
        root: The root of the lake, to which the paths in segments are relative: an absolute path or a URL.
        location: Where the folder is.
        users: The user IDs whose segments are read.
    """

    path: str
    root: str
    location: Location
    users: frozenset[int] = field(default_factory=trusted_users, repr=False, compare=False)

    @classmethod
    def of(cls, root: str, location: Location, users: frozenset[int] | None = None) -> LakeIndexFolder:
        """Return the folder for the root of a lake.

        Args:
            root: An absolute path or a URL.
            location: ``"cache"`` or ``"beside"``.
            users: The user IDs whose segments are read; None for this user, the administrator, and the owner
                of the root.

        Raises:
            ValueError: If the location is unknown, or ``"beside"`` for a URL.
        """
        is_local = "://" not in root
        users = trusted_users(root if is_local else None) if users is None else users
        if location == "beside":
            if not is_local:
                raise ValueError(
                    f"{root}: a lake index beside the data needs a local folder; use location='cache'"
                )
            return cls(os.path.join(root, LAKE_INDEX_FOLDER), root, location, users)
        if location != "cache":
            raise ValueError(f"location is {location!r}; it must be 'cache' or 'beside'")
        name = xxhash.xxh3_128_hexdigest(root.encode())
        return cls(os.path.join(cache_folder(), CACHED_LAKES, name), root, location, users)

    @classmethod
    def find(cls, root: str) -> list[LakeIndexFolder]:
        """Return the existing folders for a lake: its own, and those of lakes that contain it.

        Folders of users who are not trusted are left out. The others are checked when they are opened.
        """
        found = []
        users = trusted_users(root if "://" not in root else None)
        for folder in _ancestors(root):
            candidates = [cls.of(folder, "cache", users)]
            if "://" not in folder:
                candidates.insert(0, cls.of(folder, "beside", users))
            for candidate in candidates:
                with contextlib.suppress(OSError):
                    if os.lstat(candidate.path).st_uid in users:
                        found.append(candidate)
        return found

    @property
    def is_on_this_machine(self) -> bool:
        """Whether only this machine reads it, so that change times can be compared."""
        return self.location == "cache"

    def names(self) -> list[str]:
        """Return the names of the segments in order.

        Raises:
            ListingError: If users who are not trusted can have written to the folder.
            OSError: If the folder cannot be listed.
        """
        try:
            with self._opened() as folder:
                return _segments_in(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def open_segments(self, names: Sequence[str]) -> list[Segment | Ignored]:
        """Open segments, or return why they are ignored."""
        try:
            with self._opened() as folder:
                return [_open_segment(folder, name) for name in names]
        except OSError as error:
            return [ignored_segment(self.path, error)] * len(names)

    @staticmethod
    def name_of(data: bytes) -> str:
        """Return the name of a segment, which depends on its bytes."""
        return f"{xxhash.xxh3_64_hexdigest(data)}{SEGMENT_SUFFIX}"

    def replace_segments(self, names: Iterable[str], segments: Sequence[bytes], readers: Readers) -> None:
        """Write new segments, and then remove those that they replace.

        Args:
            names: The names of the segments to remove.
            segments: The bytes of the new segments.
            readers: The users who may read them.

        Raises:
            OSError: If a segment cannot be written; none of the new ones remains, and no other is removed.
        """
        old = set(names)
        new: set[str] = set()
        try:
            for data in segments:
                name = self.name_of(data)
                self.write(name, data, readers)
                new.add(name)
        except BaseException:
            self.remove(new - old)
            raise
        self.remove(old - new)

    def write(self, name: str, data: bytes, readers: Readers) -> None:
        """Write a segment under a name.

        Raises:
            ListingError: If users who are not trusted can have written to the folder.
            ReplaceError: If the system refuses; nothing remains of it.
        """
        with GuardedFolder.make(self.path, self.users, readers) as folder:
            try:
                folder.remove_abandoned()
                if self.location == "cache" and ROOT_NAME not in folder.names():
                    folder.write(ROOT_NAME, os.fsencode(self.root), Readers())
                folder.write(name, data, readers)
            except BaseException:
                self._remove_empty(folder)
                raise

    def remove(self, names: Iterable[str]) -> None:
        """Remove segments, if another process has not removed them already."""
        wanted = list(names)
        if wanted:
            with contextlib.suppress(FileNotFoundError), self._opened() as folder:
                for name in wanted:
                    folder.remove(name)
                self._remove_empty(folder)

    def narrow(self, readers: Readers) -> None:
        """Withdraw the permission to read existing segments from users who are not readers.

        If the folder belongs to this user, no other user may write to it afterwards.

        Raises:
            ListingError: If users who are not trusted can have written to the folder.
        """
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),  # `write` reports the latter
            GuardedFolder(self.path, self.users, is_closed_first=True) as folder,
        ):
            folder.narrow(readers)

    def clear(self) -> int:
        """Remove all segments, and the folder if nothing else is in it.

        Returns:
            The size of the segments in bytes.

        Raises:
            ListingError: If users who are not trusted can have written to the folder.
            OSError: If a segment cannot be removed.
        """
        try:
            with self._opened() as folder:
                num_bytes = sum(folder.remove(name) for name in _segments_in(folder))
                self._remove_empty(folder)
        except (FileNotFoundError, NotADirectoryError):
            return 0
        return num_bytes

    def _opened(self) -> GuardedFolder:
        return GuardedFolder(self.path, self.users)

    def _remove_empty(self, folder: GuardedFolder) -> None:
        """Remove the folder if no segment is in it."""
        with contextlib.suppress(OSError):  # another process adds a segment, or something else is in it
            if folder.names() == [ROOT_NAME]:
                folder.remove(ROOT_NAME)
            os.rmdir(self.path)


def _segments_in(folder: GuardedFolder) -> list[str]:
    return [name for name in folder.names() if name.endswith(SEGMENT_SUFFIX)]


def _open_segment(folder: GuardedFolder, name: str) -> Segment | Ignored:
    path = os.path.join(folder.path, name)
    source = None
    try:
        source = CountedSource(folder.open(name))
        return Segment(source)
    except (FormatError, OSError) as error:
        if source is not None:
            source.close()
        return ignored_segment(path, error)


def ignored_segment(path: str, error: IntarsiaError | OSError | ValueError) -> Ignored:
    """Return the note about a segment, or a part of it, that cannot be used."""
    code = error.reason if isinstance(error, IntarsiaError) else None
    message = error.message if isinstance(error, FormatError) else str(error).removeprefix(f"{path}: ")
    return Ignored(path, LAKE_INDEX, message, code or "storage-error")


def cache_folder() -> str:
    """Return the user's cache folder, which need not exist.

    It is ``$INTARSIA_CACHE_DIR``; by default ``intarsia`` in ``$XDG_CACHE_HOME``, ``~/Library/Caches`` on
    macOS, or ``~/.cache``.
    """
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return os.path.abspath(own)
    home = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(home), "intarsia")


def _ancestors(root: str) -> Iterator[str]:
    """Yield a root and the folders that contain it, up to the root of the file system or of the store."""
    scheme, separator, rest = root.rpartition("://")
    while rest:
        yield f"{scheme}{separator}{rest}"
        parent = rest.rpartition("/")[0]
        if not parent or parent == rest:
            return
        rest = parent


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
