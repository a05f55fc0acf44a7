"""What is retrofitted: a local file, or an object in a store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from intarsia.errors import ReplaceError
from intarsia.retrofit.replace import (
    ChangedMeanwhileError,
    FileIdentity,
    remove_leftovers,
    replace_tail,
)
from intarsia.storage import ByteRange, ByteSource, LocalFile, ObjectStoreFile

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


class LocalTarget:
    """A local file."""

    def __init__(self, path: str) -> None:
        self.path = path
        remove_leftovers(path)
        self._identity = FileIdentity.of(path)
        self.size = self._identity.size

    def open(self) -> ByteSource:
        """Open it for reading."""
        return LocalFile(self.path)

    def replace_tail(self, keep_bytes: int, tail: Sequence[bytes]) -> None:
        """See `intarsia.retrofit.replace.replace_tail`."""
        replace_tail(self.path, self._identity, keep_bytes, tail)


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
        raise ReplaceError(f"{path}: cannot be replaced: {error}") from error


def find_target(path: str | os.PathLike[str]) -> Target:
    """The target that a local path or a URL means."""
    name = os.fspath(path)
    scheme, separator, rest = name.partition("://")
    if not separator:
        return LocalTarget(name)
    if scheme == "file":
        from urllib.parse import unquote

        return LocalTarget(unquote(rest[rest.find("/") :]))
    from obstore.store import from_url

    bucket, _, key = rest.partition("/")
    return ObjectTarget(from_url(f"{scheme}://{bucket}"), key, name)
