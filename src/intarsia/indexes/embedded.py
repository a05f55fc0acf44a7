"""The indexes inlaid in a file: found in its directory, checked, read and opened."""

from __future__ import annotations

from functools import cached_property

from intarsia.errors import IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.indexes.base import Layout, OpenIndex
from intarsia.indexes.directory import KEY, Directory, Entry, belongs, parse_directory, unframe
from intarsia.indexes.registry import find_index_class
from intarsia.storage import ByteRange


class EmbeddedIndexes:
    """The embedded indexes of one file.

    What is stale, damaged or unknown is noted in ``file.ignored`` and is then absent (contract C2).
    """

    def __init__(self, file: ParquetInput) -> None:
        self._file = file

    @cached_property
    def directory(self) -> Directory | None:
        """The directory; None if there is none, or it is about another file."""
        raw = self._file.footer.key_values.get(KEY)
        if raw is None:
            return None
        try:
            directory = parse_directory(raw)
        except IndexPayloadError as error:
            self._file.distrust("intarsia directory", str(error))
            return None
        reason = belongs(directory, self._file.footer)
        if reason is not None:
            self._file.distrust("intarsia directory", reason)
            return None
        return directory

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of the directory, in its order."""
        return tuple(self.directory.entries) if self.directory is not None else ()

    def read(self, entry: Entry) -> bytes:
        """The payload of an entry.

        Raises:
            IndexPayloadError: If its bytes are not those that were written.
        """
        assert self.directory is not None
        stop = entry.offset + entry.length
        if not self.directory.original_length <= entry.offset < stop <= self._file.footer.start:
            raise IndexPayloadError(f"bytes {entry.offset} to {stop} lie outside the file's indexes")
        blob = self._file.source.read_ranges([ByteRange(entry.offset, stop)])[0]
        return unframe(blob, self.directory.fingerprint, entry)

    def open(self, entry: Entry) -> OpenIndex | None:
        """An entry as an index that can be asked; None if it cannot be believed or is of an unknown kind."""
        cls = find_index_class(entry.kind)
        if cls is None:
            self._file.distrust(entry.name, f"no installed package knows indexes of kind {entry.kind!r}")
            return None
        if entry.kind_version > cls.version:
            self._file.distrust(entry.name, f"it has version {entry.kind_version}, known is {cls.version}")
            return None
        try:
            index = cls(**entry.parameters)
            opened: OpenIndex = index.open(self.read(entry), self._layout())
        except (IndexPayloadError, TypeError) as error:
            self._file.distrust(entry.name, str(error))
            return None
        return opened

    def _layout(self) -> Layout:
        footer = self._file.footer
        return Layout(footer.num_rows, footer.row_group_starts, {})
