"""Detach indexes: restore the original file, byte for byte."""

from __future__ import annotations

import os
import time

from intarsia.embed.bloom import Bloom
from intarsia.embed.chunk_state import is_added, present_states
from intarsia.embed.original import Original, find_original
from intarsia.embed.page_index import PageIndex
from intarsia.embed.report import DetachReport
from intarsia.embed.statistics import Statistics
from intarsia.errors import IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.storage import StorageOptions
from intarsia.storage.target import find_target


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
