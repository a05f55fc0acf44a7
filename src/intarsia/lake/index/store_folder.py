"""The segments of a lake in an object store, which are copied to the user's cache on first use.

A segment is never changed, so a copy needs no check. A query that finds the copies makes no request for them,
and the first one takes a single round trip, regardless of the parts of the segments that it needs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from intarsia.errors import ObjectStoreError
from intarsia.file import Ignored
from intarsia.lake.data_file import DataFile
from intarsia.lake.discovery import LAKE_INDEX_FOLDER, list_segments
from intarsia.lake.index.folder import (
    CACHED_COPIES,
    LakeIndexFolder,
    Location,
    cache_folder,
    ignored_segment,
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
from intarsia.storage.guarded_folder import Readers
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
        with contextlib.suppress(OSError):
            self._copies.remove(set(self._copies.names()) - set(copies.values()))
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

    def clear(self) -> int:
        """Remove all segments.

        Returns:
            The size of the segments in bytes.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        segments = list_segments(self.root, self.store)
        self.remove(segments)
        return sum(identity.size_bytes for identity in segments.values())

    def _key(self, name: str) -> str:
        return f"{split_url(self.path)[1]}/{name}"

    @property
    def _copies(self) -> LakeIndexFolder:
        name = xxhash.xxh3_128_hexdigest(self.path.encode())
        return LakeIndexFolder(os.path.join(cache_folder(), CACHED_COPIES, name), self.root, "cache")

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
    path = f"{root.rstrip('/')}/{LAKE_INDEX_FOLDER}"
    return StoreIndexFolder(path, root, "beside", store=store, listed=listed)


def _store_of(root: str, files: Sequence[DataFile]) -> Any:
    store = files[0].store if files else None
    return find_store(root)[0] if store is None else store
