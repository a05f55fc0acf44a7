"""The segments of a lake in an object store, which are copied to the user's cache on first use.

A segment is never changed, so a copy needs no check. A query that finds the copies makes no request for them,
and the first one takes a single round trip, regardless of the parts of the segments that it needs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from intarsia.errors import ObjectStoreError
from intarsia.file import Ignored
from intarsia.lake.data_file import DataFile
from intarsia.lake.discovery import list_segments
from intarsia.lake.folder import LAKE_INDEX_FOLDER
from intarsia.lake.index.folder import (
    LakeIndexFolder,
    Location,
    cache_folder,
    ignored_segment,
    is_own_folder,
    write_new_file,
)
from intarsia.lake.index.segment import Segment
from intarsia.read.ahead import ahead
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
from intarsia.storage.object_errors import object_errors

#: Segments are downloaded in parts of this size, several at a time.
_PART_BYTES = 8 << 20


@dataclass(frozen=True)
class StoreIndexFolder(LakeIndexFolder):
    """The folder ``_intarsia`` in the root of a lake in an object store.

    Attributes:
        store: The obstore store.
        listed: The segments that a listing of the lake found; None to list them when they are needed.
    """

    store: Any = field(default=None, repr=False, compare=False)
    listed: Mapping[str, ObjectIdentity] | None = field(default=None, repr=False, compare=False)

    def names(self) -> list[str]:
        """Return the names of the segments in order.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        return sorted(self._segments())

    def _segments(self) -> Mapping[str, ObjectIdentity]:
        return list_segments(self.root, self.store) if self.listed is None else self.listed

    def open_segments(self, names: Sequence[str]) -> list[Segment | Ignored]:
        """Open segments, or return why they are ignored; copies that are no longer needed are removed."""
        segments = self._segments()
        copies = {name: self._copy_name(name, segments.get(name)) for name in names}
        opened = ahead(
            lambda name: self._open(name, segments.get(name), copies[name]), names, MAX_CONCURRENT_REQUESTS
        )
        with contextlib.closing(opened):
            found = [future.result() for _, future in opened]
        if is_own_folder(self._copies):
            with contextlib.suppress(OSError):
                for other in set(os.listdir(self._copies)) - set(copies.values()):
                    os.unlink(os.path.join(self._copies, other))
        return found

    def _open(self, name: str, identity: ObjectIdentity | None, copy_name: str) -> Segment | Ignored:
        if is_own_folder(self._copies):
            copied = LakeIndexFolder(self._copies, self.root, self.location).open_segment(copy_name)
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
            os.makedirs(self._copies, exist_ok=True)
            if is_own_folder(self._copies):
                write_new_file(self._copies, copy_name, data)
        return segment

    def add(self, data: bytes) -> str:
        """Write a segment, and return its name.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        import obstore

        name = self.name_of(data)
        with object_errors(f"{self.path}/{name}"):
            obstore.put(self.store, self._key(name), data)
        return name

    def remove(self, name: str) -> None:
        """Remove a segment, if another process has not removed it already."""
        import obstore

        with contextlib.suppress(FileNotFoundError), object_errors(f"{self.path}/{name}"):
            obstore.delete(self.store, self._key(name))

    def clear(self) -> int:
        """Remove all segments.

        Returns:
            The size of the segments in bytes.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        segments = list_segments(self.root, self.store)
        for name in segments:
            self.remove(name)
        return sum(identity.size_bytes for identity in segments.values())

    def _key(self, name: str) -> str:
        return f"{split_url(self.path)[1]}/{name}"

    @property
    def _copies(self) -> str:
        return os.path.join(cache_folder(), "segments", xxhash.xxh3_128_hexdigest(self.path.encode()))

    def _copy_name(self, name: str, identity: ObjectIdentity | None) -> str:
        e_tag = None if identity is None else identity.e_tag
        return f"{xxhash.xxh3_64_hexdigest((e_tag or '').encode())}-{name}"


def folder_at(root: str, location: Location, files: Sequence[DataFile] = ()) -> LakeIndexFolder:
    """Return the folder for the root of a lake, which need not exist.

    Args:
        root: An absolute path or a URL.
        location: ``"cache"`` or ``"beside"``.
        files: Files below the root.

    Raises:
        ValueError: If the location is unknown, or ``"beside"`` on a web server.
        ObjectStoreError: If the store is unknown.
    """
    if location == "beside" and "://" in root:
        return _in_store(root, _store_of(root, files))
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
        files: Files below the root.
        listed: The segments that a listing of the root has just found in an object store; None to list them.
        any_suffices: Do not list segments in an object store if there is a folder in the cache.
    """
    found = LakeIndexFolder.find(root)
    if "://" in root and not (any_suffices and found and listed is None):
        with contextlib.suppress(ObjectStoreError, FileNotFoundError, ValueError):
            folder = _in_store(root, _store_of(root, files), listed)
            segments = list_segments(root, folder.store) if listed is None else listed
            if segments:
                found.insert(0, replace(folder, listed=segments))
    return found


def _in_store(root: str, store: Any, listed: Mapping[str, ObjectIdentity] | None = None) -> StoreIndexFolder:
    from obstore.store import HTTPStore

    is_writable = not isinstance(store, HTTPStore)
    if not is_writable:
        raise ValueError(f"{root}: a web server has no lake index beside the data; use location='cache'")
    return StoreIndexFolder(f"{root.rstrip('/')}/{LAKE_INDEX_FOLDER}", root, "beside", store, listed)


def _store_of(root: str, files: Sequence[DataFile]) -> Any:
    store = files[0].store if files else None
    return find_store(root)[0] if store is None else store
