"""What is retrofitted: a local file, or an object in a store."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from intarsia.errors import ChangedMeanwhileError, ReplaceError
from intarsia.storage import ByteRange, ByteSource, LocalFile, ObjectStoreFile, find_store, local_path
from intarsia.storage.object_errors import what_failed
from intarsia.storage.replace import (
    FileIdentity,
    NewFile,
    Replacement,
    remove_leftovers,
    replace_tail,
)

#: A store replaces an object under a condition only in one piece, which has to be held in memory.
MAX_OBJECT_BYTES = 1 << 30


class Target(Protocol):
    """A file as it was found, which can be read, and replaced as long as it is still that."""

    path: str
    size: int

    def open(self) -> ByteSource:
        """Open it for reading."""
        ...

    def replace_tail(self, keep_bytes: int, tail: Sequence[bytes]) -> None:
        """Replace it by its first bytes and a new tail, atomically.

        Raises:
            ChangedMeanwhileError: If it is no longer what it was.
            ReplaceError: If the new one could not be written; the old one is untouched.
        """
        ...


@runtime_checkable
class CopiesAhead(Protocol):
    """A target that can copy what it keeps while the rest is being worked out."""

    def copying_ahead(self, keep_bytes: int) -> AbstractContextManager[Callable[[], None]]:
        """Within the block `Target.replace_tail` may be called, with the same ``keep_bytes``.

        Yields:
            What to call, as often as one likes, once it is clear that the file will be replaced.
        """
        ...


class LocalTarget:
    """A local file."""

    def __init__(self, path: str) -> None:
        self.path = path
        remove_leftovers(path)
        self._identity = FileIdentity.of(path)
        self._replacement: Replacement | None = None
        self.size = self._identity.size

    def open(self) -> ByteSource:
        """Open it for reading."""
        return LocalFile(self.path)

    def replace_tail(self, keep_bytes: int, tail: Sequence[bytes]) -> None:
        """See `intarsia.storage.replace.replace_tail`."""
        if self._replacement is not None:
            self._replacement.finish(tail)
        else:
            replace_tail(self.path, self._identity, keep_bytes, tail)

    @contextmanager
    def copying_ahead(self, keep_bytes: int) -> Iterator[Callable[[], None]]:
        """See `CopiesAhead`."""
        with Replacement(self.path, self._identity, keep_bytes) as self._replacement:
            try:
                yield self._replacement.begin
            finally:
                self._replacement = None


@dataclass
class ObjectTarget:
    """An object in a store, replaced by one conditional put against the ETag that was read.

    Args:
        store: An obstore store.
        key: The object's path in it.
        path: The name to show, such as its URL.
    """

    store: Any
    key: str
    path: str

    def __post_init__(self) -> None:
        self._source = ObjectStoreFile(self.store, self.key, self.path)
        self.size = self._source.size()

    def open(self) -> ByteSource:
        """Open it for reading."""
        return self._source

    def replace_tail(self, keep_bytes: int, tail: Sequence[bytes]) -> None:
        """Put the new object in place of the one that was read."""
        if keep_bytes + sum(map(len, tail)) > MAX_OBJECT_BYTES:
            raise ReplaceError(
                f"{self.path}: objects above {MAX_OBJECT_BYTES >> 30} GiB cannot be replaced in one piece; "
                "copy it to a disk, attach there, and upload it"
            )
        first = self._source.read_ranges([ByteRange(0, keep_bytes)])
        replace_object(self.store, self.key, [*first, *tail], self._source.e_tag, path=self.path)


def replace_object(store: Any, key: str, parts: Sequence[bytes], e_tag: str | None, *, path: str) -> None:
    """Replace an object, if it is still the one that has an ETag.

    Args:
        store: An obstore store.
        key: The object's path in it.
        parts: Its new bytes.
        e_tag: The ETag of the object that these were worked out from.
        path: The name to show.

    Raises:
        ChangedMeanwhileError: If it is another one by now.
        ReplaceError: If the store refuses, or knows no conditions.
    """
    import obstore
    from obstore.exceptions import BaseError, PreconditionError

    unconditional = ReplaceError(
        f"{path}: this store cannot replace an object under the condition that nobody else did; copy it to a "
        "disk, attach there, and upload it"
    )
    if e_tag is None:
        raise unconditional
    try:
        obstore.put(store, key, b"".join(parts), mode={"e_tag": e_tag}, use_multipart=False)
    except PreconditionError as error:
        raise ChangedMeanwhileError(
            f"{path}: the object was replaced while it was being indexed; run again"
        ) from error
    except NotImplementedError as error:
        raise unconditional from error
    except (BaseError, OSError) as error:
        raise ReplaceError(f"{path}: cannot be replaced: {what_failed(path, error)}") from None


class NewTarget(Protocol):
    """A file that is being written, and is seen once it is whole.

    Attributes:
        fd: The file, open for reading and writing.
        temporary: Its local name until then.
    """

    fd: int
    temporary: str

    def named_errors(self) -> AbstractContextManager[None]:
        """Turn what the system refuses within the block into one clear error."""
        ...

    def put_in_place(self) -> None:
        """Let the path mean this file.

        Raises:
            ReplaceError: If that is refused; what was there still is.
        """
        ...

    def discard(self) -> None:
        """Leave no trace; harmless once it is in place."""
        ...


class NewObject:
    """An object for a store, which is gathered in a temporary file and put there in one step.

    Args:
        store: An obstore store.
        key: The object's path in it.
        path: The name to show, such as its URL.
    """

    def __init__(self, store: Any, key: str, path: str) -> None:
        self._store, self._key, self._path = store, key, path
        self._folder = tempfile.TemporaryDirectory(prefix="intarsia-")
        self._file = NewFile(os.path.join(self._folder.name, "object"))
        self.fd, self.temporary = self._file.fd, self._file.temporary

    def named_errors(self) -> AbstractContextManager[None]:
        """Turn what the system refuses within the block into one clear error."""
        return self._file.named_errors()

    def put_in_place(self) -> None:
        """Put the object; a store shows it when it has all of it, however many parts it came in."""
        import obstore
        from obstore.exceptions import BaseError

        try:
            obstore.put(self._store, self._key, Path(self.temporary))
        except (BaseError, OSError) as error:
            raise ReplaceError(f"{self._path}: cannot be written: {what_failed(self._path, error)}") from None
        finally:
            self.discard()

    def discard(self) -> None:
        """Leave no trace; harmless once it is in place."""
        self._file.discard()
        self._folder.cleanup()


def find_target(path: str | os.PathLike[str]) -> Target:
    """The target that a local path or a URL means.

    Raises:
        IsADirectoryError: If it is a folder.
        ObjectStoreError: If a store cannot be reached, refuses, or is not known.
    """
    name = os.fspath(path)
    local = local_path(name)
    if local is None:
        return ObjectTarget(*find_store(name), name)
    if os.path.isdir(local):
        raise IsADirectoryError(
            f"{name}: this is a folder, and one file is taken at a time: go through the paths in "
            "intarsia.open(folder).files, or use the command, such as intarsia index"
        )
    return LocalTarget(local)


def new_target(path: str | os.PathLike[str]) -> NewTarget:
    """A file to be written where a local path or a URL says.

    Raises:
        ReplaceError: If there can be none.
        ObjectStoreError: If the store is not known.
    """
    name = os.fspath(path)
    local = local_path(name)
    return NewFile(local) if local is not None else NewObject(*find_store(name), name)
