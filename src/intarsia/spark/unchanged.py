"""Find the files of a lake that need no task, because their footers show that they have all indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from intarsia.embed.attach import unchanged_report
from intarsia.embed.report import IndexedFile
from intarsia.embed.structures import Attachable
from intarsia.errors import IntarsiaError
from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile

#: Footers read on the driver before it is decided whether to read the others.
PROBED = 64

#: The share of the probed files that have all indexes, from which the other footers are read, too.
MIN_SHARE = 0.5

#: Maximum number of footers read on the driver.
MAX_FOOTERS = 10_000

#: Number of footers read at a time, which bounds the load of the driver and of the object store.
_THREADS = 16


def find_unchanged(files: Mapping[str, DataFile], indexes: Sequence[Attachable]) -> dict[str, IndexedFile]:
    """Return the outcome of each file whose footer shows that it has all indexes.

    A new lake costs `PROBED` footers. In a lake that was indexed before, the driver reads the footers of at
    most `MAX_FOOTERS` files, which is faster than tasks for them. All other files are left to the tasks.

    Args:
        files: The files by path.
        indexes: The indexes to attach.
    """
    paths = list(files)
    step = max(1, len(paths) // PROBED)
    probed = paths[::step][:PROBED]
    unchanged = _unchanged(probed, files, indexes)
    if len(unchanged) < len(probed) * MIN_SHARE:
        return unchanged
    chosen = set(probed)
    rest = [path for path in paths if path not in chosen][: MAX_FOOTERS - len(probed)]
    return unchanged | _unchanged(rest, files, indexes)


def _unchanged(
    paths: Sequence[str], files: Mapping[str, DataFile], indexes: Sequence[Attachable]
) -> dict[str, IndexedFile]:
    pool = ThreadPoolExecutor(_THREADS)
    try:
        outcomes = list(pool.map(partial(_outcome, indexes=indexes), [files[path] for path in paths]))
    finally:
        pool.shutdown(cancel_futures=True)
    return {path: outcome for path, outcome in zip(paths, outcomes, strict=True) if outcome is not None}


def _outcome(file: DataFile, indexes: Sequence[Attachable]) -> IndexedFile | None:
    """Return the outcome of a file that has all indexes; errors are left to the task of the file."""
    try:
        with ParquetInput(file.open()) as opened:
            report = unchanged_report(opened, indexes)
    except (IntarsiaError, OSError):
        return None
    return None if report is None else IndexedFile.of(report)
