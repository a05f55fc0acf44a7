"""Objects that are replaced or created, in pieces of bounded memory.

An object is replaced by one conditional put with the ETag that was read. Its new bytes are assembled in
memory, or in a temporary file that is mapped into memory. Stores limit the size of one put. A larger object
needs a multipart upload, whose completion obstore cannot make conditional, so it is replaced only if the
caller allows that.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, cast

from intarsia.errors import ChangedMeanwhileError, IntarsiaError, ReplaceError
from intarsia.records import dataclass
from intarsia.storage import ByteRange, ObjectStoreFile, StorageOptions, find_store
from intarsia.storage.hadoop_files import check_sink_log_of_object
from intarsia.storage.object_errors import describe_failure, object_errors
from intarsia.storage.objects import ObjectIdentity, Overwrite, fetch_identity, overwrite_of
from intarsia.storage.replace import NewFile

#: The limit of S3 and Azure on one put.
MAX_PUT_BYTES = 5000 << 20

#: New objects up to this size are assembled in memory.
MAX_MEMORY_BYTES = 64 << 20

#: The size of the parts in which objects are copied and uploaded, and the limit of S3 on their number.
PART_BYTES = 8 << 20
MAX_PARTS = 10_000

#: Concurrent requests of a multipart upload.
_PARTS_AT_ONCE = 4

#: The slowest transfer for which the timeout of an upload suffices.
_SLOWEST_BYTES_PER_SECOND = 1 << 20


@dataclass(frozen=True)
class UploadLimits:
    """The size limits that determine how an object is replaced.

    Attributes:
        memory_bytes: Objects up to this size are assembled in memory.
        put_bytes: Objects up to this size are replaced by one put.
        part_bytes: The size of the parts in which objects are copied.
    """

    memory_bytes: int = MAX_MEMORY_BYTES
    put_bytes: int = MAX_PUT_BYTES
    part_bytes: int = PART_BYTES


@dataclass
class ObjectTarget:
    """An object in a store that can be replaced, unless it has changed since it was opened.

    Args:
        key: The object's path in the store.
        path: The name in messages, such as its URL.
        store_for: Returns the same store with timeouts for an upload of this many bytes; None for ``store``.
        overwrite: What happens to objects that are too large for a conditional put.
        limits: The size limits that determine how the object is replaced.
    """

    store: Any
    key: str
    path: str
    store_for: Callable[[int], Any] | None = None
    overwrite: Overwrite = "never"
    limits: UploadLimits = field(default_factory=UploadLimits)

    def __post_init__(self) -> None:
        import obstore

        with object_errors(self.path):
            meta = obstore.head(self.store, self.key)
        self._source = ObjectStoreFile(self.store, self.key, self.path, ObjectIdentity.of(meta))
        self._e_tag, self._version = meta.get("e_tag"), meta.get("version")
        self.size = self._source.size()

    def open(self) -> ObjectStoreFile:
        """Open it for reading."""
        return self._source

    def copy_to(self, path: str) -> None:
        """Copy it to a new local file.

        Raises:
            ReplaceError: If the file cannot be written.
        """
        with _disk_errors(self.path), open(path, "xb") as file:
            for piece in self._pieces(self.size, ()):
                file.write(piece)

    def replace_tail(self, keep_bytes: int, tail: Sequence[bytes | mmap.mmap]) -> None:
        """Replace the object that was read; see `intarsia.storage.target.Target`."""
        if keep_bytes < self.size:  # else it only grows
            check_sink_log_of_object(self.store, self.key, self.path, keep_bytes)
        num_bytes = keep_bytes + sum(map(len, tail))
        store = self.store if self.store_for is None else self.store_for(num_bytes)
        if num_bytes > self.limits.put_bytes:
            self._upload(store, num_bytes, keep_bytes, tail)
        elif num_bytes > self.limits.memory_bytes:
            with _disk_errors(self.path), tempfile.TemporaryFile(prefix="intarsia-") as file:
                for piece in self._pieces(keep_bytes, tail):
                    file.write(piece)
                file.flush()
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    self._put(store, data)
        else:
            self._put(store, b"".join(self._pieces(keep_bytes, tail)))

    def _put(self, store: Any, data: bytes | mmap.mmap) -> None:
        replace_object(store, self.key, data, self._e_tag, version=self._version, path=self.path)

    def _pieces(self, keep_bytes: int, tail: Sequence[bytes | mmap.mmap]) -> Iterator[bytes | mmap.mmap]:
        """Yield the new bytes, those that are kept in parts."""
        step = max(1, self.limits.part_bytes)
        for start in range(0, keep_bytes, step):
            yield self._source.read_ranges([ByteRange(start, min(start + step, keep_bytes))])[0]
        yield from tail

    def _upload(self, store: Any, num_bytes: int, keep_bytes: int, tail: Sequence[bytes | mmap.mmap]) -> None:
        """Replace the object by a multipart upload, if it has not changed until shortly before the end."""
        import obstore

        limit = f"{self.limits.put_bytes / (1 << 30):.1f} GiB"
        if self.overwrite != "last-writer-wins":
            raise ReplaceError(
                f"an object of more than {limit} cannot be replaced by a conditional put, so a concurrent "
                "change at the last moment could be lost; if no other process writes it, pass "
                "storage_options={'overwrite': 'last-writer-wins'}, or copy it to a disk, attach there, and "
                "upload it",
                reason="object-too-large",
                path=self.path,
            )

        def pieces() -> Iterator[bytes | mmap.mmap]:
            yield from self._pieces(keep_bytes, tail)
            # an error aborts the upload
            if fetch_identity(self.store, self.key, self.path).e_tag != self._source.e_tag:
                raise _changed(self.path)

        part_bytes = max(self.limits.part_bytes, num_bytes // (MAX_PARTS - 1) + 1)
        with _refusals(self.path):
            obstore.put(
                store,
                self.key,
                _from_thread(pieces()),
                use_multipart=True,
                chunk_size=part_bytes,
                max_concurrency=_PARTS_AT_ONCE,
            )


def open_object_target(url: str, options: StorageOptions | None = None) -> ObjectTarget:
    """Open an object for replacement.

    Raises:
        FileNotFoundError: If there is no such object.
        ObjectStoreError: If the store is unreachable, refuses access, or is unknown, or an option is invalid.
    """
    overwrite = overwrite_of(url, options)
    store, key = find_store(url, options)
    store_for = partial(_store_for_upload, store, url, options)
    return ObjectTarget(store, key, url, store_for=store_for, overwrite=overwrite)


def _store_for_upload(store: Any, url: str, options: StorageOptions | None, num_bytes: int) -> Any:
    """Return a store whose timeouts suffice for an upload: ``store`` if the object is small."""
    options = dict(options or {})
    seconds = 2 * num_bytes / _SLOWEST_BYTES_PER_SECOND
    if num_bytes <= MAX_MEMORY_BYTES // 4 or "timeout_seconds" in options or "deadline_seconds" in options:
        return store
    return find_store(url, options | {"timeout_seconds": max(30.0, seconds)})[0]


def replace_object(
    store: Any,
    key: str,
    data: bytes | mmap.mmap,
    e_tag: str | None,
    *,
    version: str | None = None,
    path: str,
) -> None:
    """Replace an object, if it still has the given ETag.

    Args:
        key: The object's path in the store.
        data: Its new bytes.
        e_tag: The ETag of the object from which the new bytes were computed.
        version: Its version, which Google Cloud Storage compares instead of the ETag; None if unknown.
        path: The name in messages.

    Raises:
        ChangedMeanwhileError: If the object has been replaced since.
        ReplaceError: If the store refuses, or does not support conditional puts.
    """
    import obstore
    from obstore.exceptions import PreconditionError

    unconditional = ReplaceError(
        "this store does not support conditional puts, so a concurrent change could be lost; copy the object "
        "to a disk, attach there, and upload it",
        reason="no-conditional-put",
        path=path,
    )
    if e_tag is None:
        raise unconditional
    expected: dict[str, str | None] = {"e_tag": e_tag}
    if version is not None:
        expected["version"] = version
    with _refusals(path):
        try:
            obstore.put(store, key, data, mode=cast("Any", expected), use_multipart=False)
        except PreconditionError as error:
            if not _has_content(store, key, data):  # else a put whose response was lost has been repeated
                raise _changed(path) from error
        except NotImplementedError as error:
            raise unconditional from error


def _has_content(store: Any, key: str, data: bytes | mmap.mmap) -> bool:
    """Return whether an object has these bytes."""
    import obstore

    try:
        if obstore.head(store, key)["size"] != len(data):
            return False
        for start in range(0, len(data), PART_BYTES):
            part = data[start : start + PART_BYTES]
            if part != bytes(obstore.get_range(store, key, start=start, length=len(part))):
                return False
    except FileNotFoundError:
        return False
    return True


def _from_thread(pieces: Iterator[bytes | mmap.mmap]) -> Iterator[bytes | mmap.mmap]:
    """Yield pieces that another thread reads, one ahead: obstore takes them where it cannot read."""
    with ThreadPoolExecutor(1, thread_name_prefix="intarsia") as pool:
        following = pool.submit(next, pieces, None)
        while (piece := following.result()) is not None:
            following = pool.submit(next, pieces, None)
            yield piece


@contextmanager
def _refusals(path: str, action: str = "replaced") -> Iterator[None]:
    """Translate errors of a store within the block."""
    from obstore.exceptions import BaseError

    try:
        yield
    except IntarsiaError:
        raise
    except (BaseError, OSError) as error:
        reason, message = describe_failure(path, error)
        raise ReplaceError(f"cannot be {action}: {message}", reason=reason, path=path) from None


def _changed(path: str) -> ChangedMeanwhileError:
    return ChangedMeanwhileError(
        "the object was replaced while it was being changed; run again",
        reason="changed-meanwhile",
        path=path,
    )


@contextmanager
def _disk_errors(path: str) -> Iterator[None]:
    """Translate errors of the disk for temporary files; errors of the store have been translated before."""
    try:
        yield
    except IntarsiaError:
        raise
    except OSError as error:
        raise ReplaceError(
            f"cannot be replaced, because a temporary file in {tempfile.gettempdir()} cannot be written: "
            f"{error.strerror or error}; set TMPDIR to a disk with enough space",
            reason="no-space" if error.errno == errno.ENOSPC else "storage-error",
            path=path,
        ) from error


class NewObject(NewFile):
    """An object that is collected in a temporary file and uploaded when it is complete.

    Args:
        key: The object's path in the store.
        path: The name in messages, such as its URL.
    """

    def __init__(self, store: Any, key: str, path: str) -> None:
        self._store, self._key, self._shown = store, key, path
        self._folder = tempfile.TemporaryDirectory(prefix="intarsia-")
        super().__init__(os.path.join(self._folder.name, "object"))

    def put_in_place(self) -> None:
        """Upload the object; a store shows it only when all parts have arrived."""
        import obstore

        try:
            with _refusals(self._shown, "written"):
                part_bytes = max(PART_BYTES, os.path.getsize(self.temporary) // (MAX_PARTS - 1) + 1)
                obstore.put(self._store, self._key, Path(self.temporary), chunk_size=part_bytes)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the temporary file; does nothing after `put_in_place`."""
        super().discard()
        self._folder.cleanup()
