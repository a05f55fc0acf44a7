"""Taking off what was attached: the original file again, byte for byte."""

from __future__ import annotations

import os
import time

from intarsia.errors import IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.retrofit.original import find_original
from intarsia.retrofit.page_index import PageIndex
from intarsia.retrofit.replace import FileIdentity, remove_leftovers, replace_tail
from intarsia.retrofit.report import DetachReport


def detach(path: str | os.PathLike[str]) -> DetachReport:
    """Bring back the original file, if anything was attached to it.

    Args:
        path: A local file.

    Raises:
        FormatError: If the file is damaged or encrypted.
        IndexPayloadError: If the file carries the directory of another one.
        ReplaceError: If the file could not be replaced.  In each case it is untouched.
    """
    started = time.perf_counter()
    name = os.fspath(path)
    remove_leftovers(name)
    identity = FileIdentity.of(name)
    removed: list[str] = []
    length = identity.size
    with ParquetInput.open(name) as current, current.named_errors():
        original = find_original(current)
        if original.stale is not None:
            raise IndexPayloadError(
                f"{name}: its Intarsia directory is not about this file: {original.stale}. Nothing was "
                "detached; the original is not inside, and readers ignore the directory"
            )
        if original.directory is not None:
            length = original.length
            removed = [entry.name for entry in original.directory.entries]
            groups = current.footer.metadata.row_groups
            if any((chunk.offset_index_offset or 0) >= length for group in groups for chunk in group.columns):
                removed.insert(0, PageIndex.kind)
            replace_tail(name, identity, length, ())
    return DetachReport(
        path=name,
        detached=original.directory is not None,
        bytes_before=identity.size,
        bytes_after=length,
        removed=tuple(removed),
        seconds=time.perf_counter() - started,
    )
