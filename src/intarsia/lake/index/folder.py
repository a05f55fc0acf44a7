"""The segments of one lake: in the user's cache folder, or in ``_intarsia`` beside the data.

A segment is never changed. A writer adds segments under new names and removes those that they replace, so any
number of readers and writers may work at the same time: at worst, two segments contain the same file.

A forged lake index hides rows, and any user may create ``_intarsia`` in a shared folder such as ``/tmp``. So
only segments that trusted users have written are read (`intarsia.storage.guarded_folder`): this user, the
administrator, and the owner of the table's folder, who can replace its files anyway.

Segments beside the data in an object store are copied to the user's cache on first use. A copy needs no
check. A query that finds the copies makes no request for them, and the first one takes a single round trip,
regardless of the parts of the segments that it needs.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

import xxhash

from intarsia.ahead import ahead
from intarsia.errors import FormatError, IntarsiaError, ObjectStoreError, code_of
from intarsia.file import Ignored
from intarsia.lake.data_file import DataFile, as_bytes
from intarsia.lake.discovery import LAKE_INDEX_FOLDER, SEGMENT_SUFFIX, list_objects
from intarsia.lake.index.segment import Segment
from intarsia.read.report import LAKE_INDEX
from intarsia.records import dataclass
from intarsia.storage import (
    MAX_CONCURRENT_REQUESTS,
    ByteRange,
    CountedSource,
    MemorySource,
    ObjectIdentity,
    ObjectStoreFile,
    find_store,
    reading_indexes,
    split_url,
)
from intarsia.storage.guarded_folder import GuardedFolder, Readers, trusted_users
from intarsia.storage.object_errors import object_errors

#: Sets the user's cache folder.
CACHE_VARIABLE = "INTARSIA_CACHE_DIR"

#: The folders in the cache folder with a folder for each lake: of its segments, and of copies of those that
#: are beside the data in an object store.
CACHED_LAKES = "lakes"
CACHED_COPIES = "segments"

#: The file in a folder of the cache that contains the root of the lake.
ROOT_NAME = "lake.txt"

#: The code of a segment that another process has removed after it was listed.
REMOVED = "removed-meanwhile"

#: Segments are downloaded in parts of this size, several at a time.
_PART_BYTES = 8 << 20

Location = Literal["cache", "beside"]


@dataclass(frozen=True)
class LakeIndexFolder:
    """The folder with the segments of a lake.

    Attributes:
        path: The folder; it need not exist.
        root: The root of the lake, to which the paths in segments are relative: an absolute path or a URL.
        users: The user IDs whose segments are read.
    """

    path: str
    root: str
    location: Location
    users: frozenset[int] = field(default_factory=trusted_users, repr=False, compare=False)

    @classmethod
    def of(cls, root: str, location: Location, users: frozenset[int] | None = None) -> LakeIndexFolder:
        """Return the folder for the root of a lake, on this machine.

        Args:
            root: An absolute path; or a URL, whose folder is in the cache.
            location: ``"cache"`` or ``"beside"``.
            users: The user IDs whose segments are read; None for this user, the administrator, and the owner
                of the root.

        Raises:
            ValueError: If the location is unknown.
        """
        users = trusted_users(None if "://" in root else root) if users is None else users
        if location == "beside":
            return cls(os.path.join(root, LAKE_INDEX_FOLDER), root, location, users)
        if location != "cache":
            raise ValueError(f"the location of a lake index is {location!r}; it must be 'cache' or 'beside'")
        name = xxhash.xxh3_128_hexdigest(as_bytes(root))
        return cls(os.path.join(cache_folder(), CACHED_LAKES, name), root, location, users)

    @classmethod
    def find(cls, root: str) -> list[LakeIndexFolder]:
        """Return the existing folders for a lake: its own, and those of lakes that contain it.

        Folders of users who are not trusted are left out. The others are checked when they are opened.
        """
        found = []
        is_local = "://" not in root
        users = trusted_users(root if is_local else None)
        locations: Sequence[Location] = ("beside", "cache") if is_local else ("cache",)
        for folder in _ancestors(root):
            for location in locations:
                candidate = cls.of(folder, location, users)
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
            with GuardedFolder(self.path, self.users) as folder:
                return [name for name in folder.names() if name.endswith(SEGMENT_SUFFIX)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def open_segments(self, names: Sequence[str]) -> list[Segment | Ignored]:
        """Open segments, or return why they are ignored."""
        try:
            with GuardedFolder(self.path, self.users) as folder:
                return [_open_segment(folder, name) for name in names]
        except OSError as error:
            return [ignored_segment(self.path, error)] * len(names)

    def replace_segments(self, names: Iterable[str], segments: Iterable[bytes], readers: Readers) -> None:
        """Write new segments, and then remove those that they replace.

        If the caller is interrupted, the segments that are written stay: their files need not be read again.

        Raises:
            OSError: If a segment cannot be written; none of the new ones remains, and no other is removed.
        """
        old = set(names)
        new: set[str] = set()
        try:
            for data in segments:
                name = f"{xxhash.xxh3_64_hexdigest(data)}{SEGMENT_SUFFIX}"
                self.write(name, data, readers)
                new.add(name)
        except Exception:
            self.remove(new - old)
            raise
        if old - new:
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
        """Remove segments, if another process has not removed them already, and a folder without segments."""
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            GuardedFolder(self.path, self.users) as folder,
        ):
            for name in names:
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

    def clear(self) -> bool:
        """Remove all segments, and the folder if nothing else is in it.

        Returns:
            Whether there were any.

        Raises:
            ListingError: If users who are not trusted can have written to the folder.
            OSError: If a segment cannot be removed.
        """
        names = self.names()
        self.remove(names)
        return bool(names)

    def _remove_empty(self, folder: GuardedFolder) -> None:
        """Remove the folder if no segment is in it."""
        with contextlib.suppress(OSError):  # another process adds a segment, or something else is in it
            if folder.names() == [ROOT_NAME]:
                folder.remove(ROOT_NAME)
            os.rmdir(self.path)


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
    if isinstance(error, TimeoutError):  # of the time limit, or of a signal handler
        raise error
    message = error.message if isinstance(error, FormatError) else str(error).removeprefix(f"{path}: ")
    default = REMOVED if isinstance(error, FileNotFoundError) else "storage-error"
    return Ignored(path, LAKE_INDEX, message, code_of(error, default))


@dataclass(frozen=True)
class StoreIndexFolder(LakeIndexFolder):
    """The folder ``_intarsia`` in the root of a lake in an object store.

    Attributes:
        listed: The segments that a listing of the lake found; None to list them when they are needed.
    """

    store: Any = field(default=None, repr=False, compare=False)
    listed: Mapping[str, ObjectIdentity] | None = field(default=None, repr=False, compare=False)

    def names(self) -> list[str]:
        """Return the names of the segments in order.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        return sorted(self.segments())

    def segments(self) -> Mapping[str, ObjectIdentity]:
        """Return the segments by name, as they were listed or are now."""
        return segments_beside(self.root, self.store) if self.listed is None else self.listed

    def open_segments(self, names: Sequence[str]) -> list[Segment | Ignored]:
        """Open segments, or return why they are ignored; copies that are no longer needed are removed."""
        segments = self.segments()
        copies = {}
        for name in names:
            e_tag = segments[name].e_tag if name in segments else None
            copies[name] = f"{xxhash.xxh3_64_hexdigest((e_tag or '').encode())}-{name}"
        opened = ahead(
            lambda name: self._open(name, segments.get(name), copies[name]), names, MAX_CONCURRENT_REQUESTS
        )
        with contextlib.closing(opened):
            found = [future.result() for _, future in opened]
        with contextlib.suppress(OSError):
            unneeded = set(self._copies.names()) - set(copies.values())
            if unneeded:
                self._copies.remove(unneeded)
        return found

    def _open(self, name: str, identity: ObjectIdentity | None, copy_name: str) -> Segment | Ignored:
        (copied,) = self._copies.open_segments([copy_name])
        if isinstance(copied, Segment):
            return copied
        url = f"{self.path}/{name}"
        try:
            source = ObjectStoreFile(self.store, self._key(name), url, identity)
            size = source.size()
            locations = [
                ByteRange(start, min(start + _PART_BYTES, size)) for start in range(0, size, _PART_BYTES)
            ]
            with reading_indexes():
                data = b"".join(source.read_ranges(locations))
            segment = Segment(CountedSource(MemorySource(data, url)))
        except (OSError, ValueError) as error:
            return ignored_segment(url, error)
        with contextlib.suppress(OSError):  # without a copy, the next query downloads it again
            self._copies.write(copy_name, data, Readers())
        return segment

    def write(self, name: str, data: bytes, readers: Readers) -> None:  # noqa: ARG002
        """Write a segment under a name; the store decides who may read it.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        import obstore

        with object_errors(f"{self.path}/{name}"):
            obstore.put(self.store, self._key(name), data)

    def remove(self, names: Iterable[str]) -> None:
        """Remove segments, if another process has not removed them already.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        import obstore

        for name in names:
            with contextlib.suppress(FileNotFoundError), object_errors(f"{self.path}/{name}"):
                obstore.delete(self.store, self._key(name))

    def narrow(self, readers: Readers) -> None:
        """Do nothing: the store decides who may read its objects."""

    def _key(self, name: str) -> str:
        return f"{split_url(self.path)[1]}/{name}"

    @property
    def _copies(self) -> LakeIndexFolder:
        name = xxhash.xxh3_128_hexdigest(self.path.encode())
        return LakeIndexFolder(os.path.join(cache_folder(), CACHED_COPIES, name), self.root, "cache")


def folder_at(root: str, location: Location, files: Sequence[DataFile] = ()) -> LakeIndexFolder:
    """Return the folder for the root of a lake, which need not exist.

    Raises:
        ValueError: If the location is unknown, or ``"beside"`` on a web server.
        ObjectStoreError: If the store is unknown.
    """
    if location == "beside" and "://" in root:
        return _in_store(root, files)
    return LakeIndexFolder.of(root, location)


def find_folders(
    root: str,
    files: Sequence[DataFile],
    listed: Mapping[str, ObjectIdentity] | None = None,
    *,
    any_suffices: bool = False,
) -> list[LakeIndexFolder]:
    """Return the existing folders for a lake: its own, and on local disks those of lakes that contain it.

    Args:
        root: An absolute path or a URL.
        listed: The segments that a listing of the root has just found in an object store; None to list them.
        any_suffices: Do not list segments in an object store if there is a folder in the cache.
    """
    found = LakeIndexFolder.find(root)
    if "://" in root and not (any_suffices and found and listed is None):
        with contextlib.suppress(ObjectStoreError, FileNotFoundError, ValueError):
            folder = _in_store(root, files, listed)
            segments = folder.segments()
            if segments:
                found.insert(0, replace(folder, listed=segments))
    return found


def segments_beside(root: str, store: Any) -> Mapping[str, ObjectIdentity]:
    """List the segments beside the data in an object store, by name.

    Raises:
        ObjectStoreError: If the store cannot be reached or refuses the request.
    """
    return list_objects(root, store, LAKE_INDEX_FOLDER).segments


def state_of_folders(root: str) -> tuple[tuple[str, int], ...]:
    """Return the folders on this machine for a lake, each with the time of its last change.

    It costs a stat of each folder that may exist, and changes whenever a segment is written or removed.
    """
    found = []
    for folder in LakeIndexFolder.find(root):
        with contextlib.suppress(OSError):
            found.append((folder.path, os.stat(folder.path).st_mtime_ns))
    return tuple(found)


def _in_store(
    root: str, files: Sequence[DataFile], listed: Mapping[str, ObjectIdentity] | None = None
) -> StoreIndexFolder:
    from obstore.store import HTTPStore

    store = files[0].store if files else None
    store = find_store(root)[0] if store is None else store
    is_writable = not isinstance(store, HTTPStore)
    if not is_writable:
        raise ValueError(f"{root}: a web server has no lake index beside the data; use location='cache'")
    path = f"{root.rstrip('/')}/{LAKE_INDEX_FOLDER}"
    return StoreIndexFolder(path, root, "beside", store=store, listed=listed)


def cache_folder() -> str:
    """Return the user's cache folder, which need not exist.

    It is ``$INTARSIA_CACHE_DIR``; by default ``intarsia`` in ``$XDG_CACHE_HOME``, ``~/Library/Caches`` on
    macOS, or ``~/.cache``.
    """
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return os.path.abspath(own)
    home = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(shared):  # the specification of XDG ignores relative paths
        shared = os.path.expanduser(home)
    return os.path.join(shared, "intarsia")


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
