"""One file of a table with what its listing says about it, and the protocol of what lists such files."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from intarsia.storage import ByteSource, LocalFile, ObjectIdentity, ObjectStoreFile, find_store


@dataclass(frozen=True)
class DataFile:
    """One file of a table.

    Attributes:
        path: A local path or a URL.
        size_bytes: Its length when it was listed.
        partition: Names and values of its partition columns, as text; None for null.
        store: An obstore store for URLs; None for local files, or to find one when an object is opened.
        key: The path within the store.
        e_tag: The store's ETag when it was listed; None if unknown.
        modified: When it was last written, in seconds since 1970; None if unknown.
        uri: The name that another engine has for it, such as Spark; empty if that is not known.
    """

    path: str
    size_bytes: int
    partition: tuple[tuple[str, str | None], ...] = ()
    store: Any = field(default=None, repr=False, compare=False)
    key: str = ""
    e_tag: str | None = None
    modified: float | None = None
    uri: str = ""

    @property
    def is_remote(self) -> bool:
        """Whether it lies in an object store."""
        return self.store is not None or "://" in self.path

    def open(self, *, fresh: bool = False) -> ByteSource:
        """Open the file's bytes.

        Args:
            fresh: Ask the store for the object's current identity, even if the listing told it.
        """
        if not self.is_remote:
            return LocalFile(self.path)
        listed = ObjectIdentity(self.size_bytes, self.e_tag, self.modified)
        known = listed if listed.is_conclusive and not fresh else None
        store, key = (self.store, self.key) if self.store is not None else find_store(self.path)
        return ObjectStoreFile(store, key, self.path, known)

    def as_opened(self, identity: Hashable | None) -> DataFile:
        """The same file as it was when it was opened, which may have been after it was replaced.

        Args:
            identity: What the open file is; see `intarsia.storage.ByteSource`.
        """
        if not isinstance(identity, ObjectIdentity):
            return self
        return replace(self, **identity._asdict())


@runtime_checkable
class FileSource(Protocol):
    """Lists the files of a table; a catalog or a table format can be one.

    Example:
        >>> class Two:
        ...     def list_files(self):
        ...         return [DataFile("a.parquet", 100), DataFile("b.parquet", 200)]
        >>> isinstance(Two(), FileSource)
        True
    """

    def list_files(self) -> Sequence[DataFile]:
        """The files, in the order of their rows in the table."""
        ...
