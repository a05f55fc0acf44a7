"""Find the original file inside a file with attached indexes (contract C3)."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from intarsia.embed.bloom import Bloom
from intarsia.embed.chunk_state import is_added, present_states
from intarsia.embed.page_index import PageIndex
from intarsia.embed.report import DetachReport
from intarsia.embed.statistics import Statistics
from intarsia.errors import FormatError, IndexPayloadError, NewerDirectoryError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.format.directory import Directory, layout_fingerprint
from intarsia.storage import ByteRange, CountedSource, StorageOptions
from intarsia.storage.target import find_target


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
        file: The original file; the same if nothing is attached, or if only the current footer is read.
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
        return self.file.footer.file_length if self.directory is None else self.directory.original_length


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


def detach_file(
    path: str | os.PathLike[str], *, storage_options: StorageOptions | None = None
) -> DetachReport:
    """Restore the original of one file, if indexes were added to it; see `intarsia.detach`.

    Raises:
        IsADirectoryError: If the path is a folder.
    """
    started = time.perf_counter()
    target = find_target(path, storage_options)
    removed: list[str] = []
    length = target.size
    with ParquetInput(target.open()) as current, current.named_errors():
        original = find_original(current)
        if original.stale is not None:
            raise IndexPayloadError(
                f"{target.path}: its Intarsia directory belongs to another file: {original.stale}; nothing "
                "was detached, and readers ignore the directory",
                reason="foreign-directory",
                path=target.path,
            )
        if original.directory is not None:
            length = original.length
            removed = [entry.name for entry in original.directory.entries]
            removed[:0] = _added_structures(original)
            target.replace_tail(length, ())
    return DetachReport(
        path=target.path,
        detached=original.directory is not None,
        bytes_before=target.size,
        bytes_after=length,
        removed=tuple(removed),
        seconds=time.perf_counter() - started,
    )


def _added_structures(original: Original) -> list[str]:
    """Return the names of the standard structures that were added to the original file."""
    footer = original.file.footer
    names: dict[str, None] = {}
    for key, state in present_states(footer, original.current.footer, original.directory).items():
        if is_added(state.offset_index, footer) or is_added(state.column_index, footer):
            names[PageIndex.kind] = None
        if state.statistics is not None:
            names[Statistics.kind] = None
        if is_added(state.bloom_filter, footer):
            names[Bloom(footer.leaves[key.leaf].name).name] = None
    return sorted(names, key=lambda name: (name != PageIndex.kind, name != Statistics.kind))
