"""Find the original file inside a file with attached indexes (contract C3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from intarsia.errors import FormatError, NewerDirectoryError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.format.directory import Directory, layout_fingerprint
from intarsia.storage import ByteRange, CountedSource


class FirstBytes:
    """A source that consists of the first bytes of another one."""

    def __init__(self, source: CountedSource, length: int) -> None:
        self.path = source.path
        self.coalesce_bytes = source.coalesce_bytes
        self.identity = None
        self._source = source
        self._length = length

    def size(self) -> int:
        """Return the length in bytes."""
        return self._length

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Read the bytes of each range."""
        return self._source.read_ranges(ranges)

    def close(self) -> None:
        """Do nothing: the owner of the underlying source closes it."""


@dataclass(frozen=True)
class Original:
    """A file, its original and the directory of its attached indexes.

    Attributes:
        current: The current file.
        file: The original file; the same if nothing is attached.
        directory: The directory of attached indexes; None if nothing is attached.
        stale: Why the file's directory belongs to another file; None if it has none, or its own.
    """

    current: ParquetInput
    file: ParquetInput
    directory: Directory | None
    stale: str | None = None

    @property
    def length(self) -> int:
        """Length of the original file in bytes."""
        return self.file.footer.file_length


def find_original(current: ParquetInput) -> Original:
    """Find the original file inside a file.

    Raises:
        NewerDirectoryError: If a later version of Intarsia attached indexes.
        UnsupportedFeatureError: If the file is encrypted or signed.
    """
    _refuse_encryption(current)
    found = current.found_directory
    if found is not None and found.fault == "newer":
        raise NewerDirectoryError(
            f"{current.path}: {found.reason}", reason="newer-directory", path=current.path
        )
    if found is None or found.directory is None or found.reason is not None:
        return Original(current, current, None, found.reason if found is not None else None)
    directory = found.directory
    try:
        file = ParquetInput(FirstBytes(current.source, directory.original_length))
    except FormatError as error:
        return Original(current, current, None, f"it does not point to the original footer: {error.message}")
    if layout_fingerprint(file.footer.metadata) != directory.fingerprint:
        return Original(current, current, None, "it points to the footer of another file")
    return Original(current, file, directory)


def _refuse_encryption(file: ParquetInput) -> None:
    metadata = file.footer.metadata
    encrypted = metadata.encryption_algorithm is not None or any(
        chunk.crypto_metadata is not None for group in metadata.row_groups for chunk in group.columns
    )
    if encrypted:
        raise UnsupportedFeatureError(
            "the file is encrypted, or its footer is signed, so indexes cannot be attached; decrypt it with "
            "its writer first",
            reason="encrypted-file",
            path=file.path,
            struct="FileMetaData",
        )
