"""One file of a table, with what its listing knows of it; and whatever lists such files."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from intarsia.storage import ByteSource, LocalFile, ObjectIdentity, ObjectStoreFile


@dataclass(frozen=True)
class DataFile:
    """One file of a table.

    Attributes:
        path: A local path or a URL.
        size_bytes: Its length when it was listed.
        partition: Values that its folders' names give, as text; None for null.
        store: An obstore store for URLs, else None.
        key: The path within the store.
        e_tag: What the store said of its version when it was listed; None if unknown.
        modified: When it was written last, in seconds since 1970; None if unknown.
    """

    path: str
    size_bytes: int
    partition: tuple[tuple[str, str | None], ...] = ()
    store: Any = field(default=None, repr=False, compare=False)
    key: str = ""
    e_tag: str | None = None
    modified: float | None = None

    @property
    def is_remote(self) -> bool:
        """Whether it lies in an object store."""
        return self.store is not None

    def open(self, *, fresh: bool = False) -> ByteSource:
        """Open the file's bytes.

        Args:
            fresh: Ask the store what the object is now, even if the listing said so.
        """
        if self.store is None:
            return LocalFile(self.path)
        listed = ObjectIdentity(self.size_bytes, self.e_tag, self.modified)
        known = listed if listed.is_conclusive and not fresh else None
        return ObjectStoreFile(self.store, self.key, self.path, known)

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
        """The files, in the order in which their rows come."""
        ...
