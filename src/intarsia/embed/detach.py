"""Taking off what was attached: the original file again, byte for byte."""

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
from intarsia.storage.target import find_target


def detach(path: str | os.PathLike[str]) -> DetachReport:
    """Bring back the original file, if anything was attached to it.

    Indexes that `intarsia.write_table` laid behind the rows are taken off, too.

    Args:
        path: A local file, or the URL of an object whose store knows conditional puts.

    Returns:
        What was taken off; ``detached`` is False where there was nothing, and the file is then left alone.

    Raises:
        FileNotFoundError: If nothing is there.
        IsADirectoryError: If it is a folder.
        CorruptFileError: If it is no Parquet file, or a damaged one.
        UnsupportedFeatureError: If the file is encrypted or signed.
        IndexPayloadError: If the file carries the directory of another one.
        NewerDirectoryError: If a later version of Intarsia added something to it.
        ReplaceError: If the file could not be replaced.
        ChangedMeanwhileError: If somebody else changed it meanwhile.
        ReplacedWhileReadError: The same, while it was read.
        ObjectStoreError: If a store behind a URL cannot be reached, refuses, or is not known.

    In each case the file is untouched.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"city": ["Bern", "Basel"] * 500}), path)
        >>> size = os.path.getsize(path)
        >>> _ = ia.attach(path, ia.Distinct("city"))
        >>> ia.detach(path).removed, os.path.getsize(path) == size
        (('distinct(city):page',), True)
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
    """Names of the standard structures that a retrofitted file has and the original one has not."""
    footer = original.file.footer
    names: dict[str, None] = {}
    for key, state in present_states(footer, original.current.footer).items():
        if is_added(state.offset_index, footer) or is_added(state.column_index, footer):
            names[PageIndex.kind] = None
        if state.statistics is not None:
            names[Statistics.kind] = None
        if is_added(state.bloom_filter, footer):
            names[Bloom(footer.leaves[key.leaf].name).name] = None
    return sorted(names, key=lambda name: (name != PageIndex.kind, name != Statistics.kind))
