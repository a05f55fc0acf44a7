"""One file of a table as it was listed, and the protocol for sources that list files."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from intarsia.file import FileMetadata, ParquetInput
from intarsia.file.joined import JoinedPart
from intarsia.rows.selection import RowSelection
from intarsia.storage import (
    ByteSource,
    LocalFile,
    ObjectIdentity,
    ObjectStoreFile,
    StorageOptions,
    Stores,
    find_store,
)

#: No file has more rows: Parquet counts them in 64 bits.
_MAX_ROWS = (1 << 63) - 1


class DeletedRows(Protocol):
    """The rows of a file that a table format has deleted without rewriting the file."""

    def rows(self) -> RowSelection:
        """Return the deleted rows, as row numbers of the file; they may be read on the first call."""
        ...


@dataclass(frozen=True)
class RowsNotChosen:
    """All rows of a file but those that a scan was asked for; for such a scan they are deleted.

    Attributes:
        chosen: The rows of the file that the scan was asked for.
        deletes: Rows of the file that the table has deleted.
    """

    chosen: RowSelection
    deletes: DeletedRows | None

    def rows(self) -> RowSelection:
        """See `DeletedRows.rows`."""
        others = RowSelection.all(_MAX_ROWS) - self.chosen
        return others if self.deletes is None else others | self.deletes.rows()


@dataclass(frozen=True)
class DataFile:
    """One file of a table.

    Attributes:
        path: A local path or a URL.
        size_bytes: Its length when it was listed.
        partition: Names and values of its partition columns, as strings; None for null.
        store: An obstore store for URLs; None for local files, and for URLs whose store is made when
            they are opened.
        key: The path within the store.
        e_tag: The store's ETag when it was listed; None if unknown.
        modified: Time of the last write, in seconds since 1970; None if unknown.
        uri: Its name in another engine, such as Spark; empty if unknown.
        times_ns: Modification time and change time (ctime) of a local file, in nanoseconds since 1970; None
            if unknown.
        deletes: Rows of the file that are deleted in the table; None if there are none.
        page_checksums: Whether pages that have a checksum are compared with it when they are read.
    """

    path: str
    size_bytes: int
    partition: tuple[tuple[str, str | None], ...] = ()
    store: Any = field(default=None, repr=False, compare=False)
    key: str = ""
    e_tag: str | None = None
    modified: float | None = None
    uri: str = ""
    times_ns: tuple[int, int] | None = field(default=None, repr=False, compare=False)
    deletes: DeletedRows | None = field(default=None, repr=False, compare=False)
    page_checksums: bool = field(default=True, repr=False, compare=False)

    @property
    def is_remote(self) -> bool:
        """Whether it is in an object store."""
        return self.store is not None or "://" in self.path

    def open(self, *, fresh: bool = False) -> ByteSource:
        """Open the file's bytes.

        Args:
            fresh: Request the object's current identity from the store, even if the listing contains it.
        """
        if not self.is_remote:
            return LocalFile(self.path)
        listed = ObjectIdentity(self.size_bytes, self.e_tag, self.modified)
        known = listed if listed.is_conclusive and not fresh else None
        store, key = (self.store, self.key) if self.store is not None else find_store(self.path)
        return ObjectStoreFile(store, key, self.path, known)

    def input_of(self, source: ByteSource, metadata: FileMetadata | None = None) -> ParquetInput:
        """Return the open file, given its bytes and its metadata, if that is cached."""
        return ParquetInput(source, metadata, page_checksums=self.page_checksums)

    def deleted_rows(self) -> RowSelection:
        """Return the rows of the file that are deleted in the table."""
        return RowSelection.none() if self.deletes is None else self.deletes.rows()

    @property
    def deleted_by(self) -> str:
        """The name in reports of what excludes the deleted rows."""
        return "rows" if isinstance(self.deletes, RowsNotChosen) else "deletes"

    def joined_part(self, metadata: FileMetadata, identity: Hashable | None) -> JoinedPart:
        """Return the file as a part of a joined file."""
        is_remote = self.is_remote
        opened = self.as_opened(identity) if is_remote else self
        return JoinedPart(metadata, identity, opened.open, is_remote, self.page_checksums)

    def as_opened(self, identity: Hashable | None) -> DataFile:
        """Return the file with the identity that it had when it was opened, in case it was replaced.

        Args:
            identity: The identity of the open file; see `intarsia.storage.ByteSource`.
        """
        if not isinstance(identity, ObjectIdentity):
            return self
        return replace(self, **identity._asdict())


def with_stores(files: Sequence[DataFile], options: StorageOptions | None) -> list[DataFile]:
    """Return files with the stores of those that have URLs, so that their requests share connections.

    Raises:
        ObjectStoreError: If a store or an option is unknown.
    """
    stores, found = Stores(options), list[DataFile]()
    for file in files:
        if file.is_remote and file.store is None:
            store, key = stores.find(file.path)
            file = replace(file, store=store, key=key)
        found.append(file)
    return found


@runtime_checkable
class FileSource(Protocol):
    """A source that lists the files of a table, such as a catalog or a table format.

    Example:
        >>> class Two:
        ...     def list_files(self):
        ...         return [DataFile("a.parquet", 100), DataFile("b.parquet", 200)]
        >>> isinstance(Two(), FileSource)
        True
    """

    def list_files(self) -> Sequence[DataFile]:
        """Return the files in the order of their rows in the table."""
        ...
