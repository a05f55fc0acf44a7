"""Taking off what was attached: the original file again, byte for byte."""

from __future__ import annotations

import os
import time

from intarsia.errors import IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.retrofit.original import find_original
from intarsia.retrofit.page_index import PageIndex
from intarsia.retrofit.report import DetachReport
from intarsia.retrofit.target import find_target


def detach(path: str | os.PathLike[str]) -> DetachReport:
    """Bring back the original file, if anything was attached to it.

    Args:
        path: A local file, or the URL of an object.

    Raises:
        FormatError: If the file is damaged or encrypted.
        IndexPayloadError: If the file carries the directory of another one.
        ReplaceError: If the file could not be replaced.  In each case it is untouched.
    """
    started = time.perf_counter()
    target = find_target(path)
    removed: list[str] = []
    length = target.size
    with ParquetInput(target.open()) as current, current.named_errors():
        original = find_original(current)
        if original.stale is not None:
            raise IndexPayloadError(
                f"{target.path}: its Intarsia directory is not about this file: {original.stale}. Nothing "
                "was detached; the original is not inside, and readers ignore the directory"
            )
        if original.directory is not None:
            length = original.length
            removed = [entry.name for entry in original.directory.entries]
            groups = current.footer.metadata.row_groups
            if any((chunk.offset_index_offset or 0) >= length for group in groups for chunk in group.columns):
                removed.insert(0, PageIndex.kind)
            target.replace_tail(length, ())
    return DetachReport(
        path=target.path,
        detached=original.directory is not None,
        bytes_before=target.size,
        bytes_after=length,
        removed=tuple(removed),
        seconds=time.perf_counter() - started,
    )
