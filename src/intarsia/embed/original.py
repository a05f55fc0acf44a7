"""The original file inside a retrofitted one (contract C3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from intarsia.errors import FormatError, NewerDirectoryError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.format.directory import Directory
from intarsia.format.fingerprint import layout_fingerprint
from intarsia.storage import ByteRange, CountedSource


class FirstBytes:
    """The first bytes of another source, as a source."""

    def __init__(self, source: CountedSource, length: int) -> None:
        self.path = source.path
        self.coalesce_bytes = source.coalesce_bytes
        self.identity = None
        self._source = source
        self._length = length

    def size(self) -> int:
        """Length in bytes."""
        return self._length

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range."""
        return self._source.read_ranges(ranges)

    def close(self) -> None:
        """The source underneath is closed by who opened it."""


@dataclass(frozen=True)
class Original:
    """A file, what it was before Intarsia added anything, and what was added.

    Attributes:
        current: The file as it is.
        file: The file as it was; the same if nothing was added.
        directory: What was added; None if nothing was.
        stale: Why a directory that is there is not about this file; None if there is none, or it is.
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
        NewerDirectoryError: If a later version of Intarsia added something.
        UnsupportedFeatureError: If the file is encrypted or signed.
    """
    _refuse_encryption(current)
    found = current.found_directory
    if found is not None and found.fault == "newer":
        raise NewerDirectoryError(f"{current.path}: {found.reason}")
    if found is None or found.directory is None or found.reason is not None:
        return Original(current, current, None, found.reason if found is not None else None)
    directory = found.directory
    try:
        file = ParquetInput(FirstBytes(current.source, directory.original_length))
    except FormatError as error:
        return Original(current, current, None, f"the original footer is not where it says: {error.message}")
    if layout_fingerprint(file.footer.metadata) != directory.fingerprint:
        return Original(current, current, None, "the footer where it says is another file's")
    return Original(current, file, directory)


def _refuse_encryption(file: ParquetInput) -> None:
    metadata = file.footer.metadata
    encrypted = metadata.encryption_algorithm is not None or any(
        chunk.crypto_metadata is not None for group in metadata.row_groups for chunk in group.columns
    )
    if encrypted:
        raise UnsupportedFeatureError(
            "the file is encrypted, or its footer is signed, so nothing can be added without its keys: "
            "decrypt it with its writer first",
            path=file.path,
            struct="FileMetaData",
        )
