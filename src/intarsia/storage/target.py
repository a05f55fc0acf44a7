"""Files that can be replaced or created: local files and objects in a store."""

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
from intarsia.storage.object_errors import describe_failure
from intarsia.storage.replace import (
    FileIdentity,
    NewFile,
    Replacement,
    remove_leftovers,
    replace_tail,
)

#: A conditional put sends an object in one piece, which must fit into memory.
MAX_OBJECT_BYTES = 1 << 30


class Target(Protocol):
    """A file that can be read, and replaced unless it has changed since it was opened."""

    path: str
    size: int

    def open(self) -> ByteSource:
        """Open it for reading."""
        ...

    def replace_tail(self, keep_bytes: int, tail: Sequence[bytes]) -> None:
        """Atomically replace it by its first bytes and a new tail.

        Raises:
            ChangedMeanwhileError: If it has changed since it was opened.
            ReplaceError: If the new file could not be written; the old file is untouched.
        """
        ...


@runtime_checkable
class CopiesAhead(Protocol):
    """A target that can copy the bytes it keeps while the tail is being computed."""

    def copying_ahead(self, keep_bytes: int) -> AbstractContextManager[Callable[[], None]]:
        """Prepare a call of `Target.replace_tail` with the same ``keep_bytes`` within the block.

        Yields:
            A function that starts copying. Call it, once or more, when the file will certainly be replaced.
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
    """An object in a store, replaced by one conditional put with the ETag that was read.

    Args:
        store: An obstore store.
        key: The object's path in the store.
        path: The name in messages, such as its URL.
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
        """Replace the object that was read."""
        if keep_bytes + sum(map(len, tail)) > MAX_OBJECT_BYTES:
            raise ReplaceError(
                f"{self.path}: an object of more than {MAX_OBJECT_BYTES >> 30} GiB cannot be replaced in one "
                "piece; copy it to a disk, attach there, and upload it",
                reason="object-too-large",
                path=self.path,
            )
        first = self._source.read_ranges([ByteRange(0, keep_bytes)])
        replace_object(self.store, self.key, [*first, *tail], self._source.e_tag, path=self.path)


def replace_object(store: Any, key: str, parts: Sequence[bytes], e_tag: str | None, *, path: str) -> None:
    """Replace an object, if it still has the given ETag.

    Args:
        store: An obstore store.
        key: The object's path in the store.
        parts: Its new bytes.
        e_tag: The ETag of the object from which the new bytes were computed.
        path: The name in messages.

    Raises:
        ChangedMeanwhileError: If the object has been replaced since.
        ReplaceError: If the store refuses, or does not support conditional puts.
    """
    import obstore
    from obstore.exceptions import BaseError, PreconditionError

    unconditional = ReplaceError(
        f"{path}: this store does not support conditional puts, so a concurrent change could be lost; copy "
        "the object to a disk, attach there, and upload it",
        reason="no-conditional-put",
        path=path,
    )
    if e_tag is None:
        raise unconditional
    try:
        obstore.put(store, key, b"".join(parts), mode={"e_tag": e_tag}, use_multipart=False)
    except PreconditionError as error:
        raise ChangedMeanwhileError(
            f"{path}: the object was replaced while it was being indexed; run again",
            reason="changed-meanwhile",
            path=path,
        ) from error
    except NotImplementedError as error:
        raise unconditional from error
    except (BaseError, OSError) as error:
        reason, message = describe_failure(path, error)
        raise ReplaceError(f"{path}: cannot be replaced: {message}", reason=reason, path=path) from None


class NewTarget(Protocol):
    """A file that is being written, and appears under its name when it is complete.

    Attributes:
        fd: The descriptor of the file, which is open for reading and writing.
        temporary: Its local path until it is complete.
    """

    fd: int
    temporary: str

    def named_errors(self) -> AbstractContextManager[None]:
        """Translate errors of the system within the block to `ReplaceError`."""
        ...

    def put_in_place(self) -> None:
        """Make the file appear under its name.

        Raises:
            ReplaceError: If that is refused; an existing file is untouched.
        """
        ...

    def discard(self) -> None:
        """Remove the temporary file; does nothing after `put_in_place`."""
        ...


class NewObject:
    """An object that is collected in a temporary file and uploaded when it is complete.

    Args:
        store: An obstore store.
        key: The object's path in the store.
        path: The name in messages, such as its URL.
    """

    def __init__(self, store: Any, key: str, path: str) -> None:
        self._store, self._key, self._path = store, key, path
        self._folder = tempfile.TemporaryDirectory(prefix="intarsia-")
        self._file = NewFile(os.path.join(self._folder.name, "object"))
        self.fd, self.temporary = self._file.fd, self._file.temporary

    def named_errors(self) -> AbstractContextManager[None]:
        """Translate errors of the system within the block to `ReplaceError`."""
        return self._file.named_errors()

    def put_in_place(self) -> None:
        """Upload the object; a store shows it only when all parts have arrived."""
        import obstore
        from obstore.exceptions import BaseError

        try:
            obstore.put(self._store, self._key, Path(self.temporary))
        except (BaseError, OSError) as error:
            reason, message = describe_failure(self._path, error)
            raise ReplaceError(
                f"{self._path}: cannot be written: {message}", reason=reason, path=self._path
            ) from None
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the temporary file; does nothing after `put_in_place`."""
        self._file.discard()
        self._folder.cleanup()


def find_target(path: str | os.PathLike[str]) -> Target:
    """Return the target for a local path or a URL.

    Raises:
        IsADirectoryError: If it is a folder.
        ObjectStoreError: If the store is unreachable, refuses access, or is unknown.
    """
    name = os.fspath(path)
    local = local_path(name)
    if local is None:
        return ObjectTarget(*find_store(name), name)
    if os.path.isdir(local):
        raise IsADirectoryError(
            f"{name}: this is a folder, and a single file is expected; name one of its files"
        )
    return LocalTarget(local)


def new_target(path: str | os.PathLike[str]) -> NewTarget:
    """Create a file that will be written to a local path or a URL.

    Raises:
        ReplaceError: If the file cannot be created.
        ObjectStoreError: If the store is unknown.
    """
    name = os.fspath(path)
    local = local_path(name)
    return NewFile(local) if local is not None else NewObject(*find_store(name), name)
