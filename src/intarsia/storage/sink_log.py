"""The log of a streaming sink of Spark, which lists the files of its folder with their lengths.

Spark reads as many bytes of a file as the log in ``_spark_metadata`` states. A file may grow, as when indexes
are attached, because its first bytes remain a complete file. A file whose first bytes change makes the whole
folder unreadable.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from urllib.parse import unquote

from intarsia.errors import ReplaceError

_LOG = "_spark_metadata"

#: A file of the log that contains all entries of the earlier ones.
_COMPACT = ".compact"


def check_sink_log(path: str, keep_bytes: int) -> None:
    """Raise an error if Spark could no longer read a file of a streaming sink.

    Costs one ``stat`` of the file's folder, and one of each parent folder as long as folders are partitions.

    Args:
        path: The absolute path of a local file.
        keep_bytes: The number of its first bytes that will not change.

    Raises:
        ReplaceError: If a log lists the file with more bytes, or the log cannot be read.
    """
    folder, name = os.path.split(path)
    while True:
        log = os.path.join(folder, _LOG)
        if os.path.isdir(log):
            listed = _lengths(log, os.stat(log).st_mtime_ns).get(name, 0)
            if listed > keep_bytes:
                raise ReplaceError(
                    f"{path}: {log} lists this file of a streaming sink with {listed:,} bytes, of which only "
                    f"{keep_bytes:,} would remain, so Spark could no longer read the folder; write the rows "
                    "to another folder, for example with ias.optimize, and change the new files",
                    reason="listed-by-sink",
                    path=path,
                )
            return
        parent, own = os.path.split(folder)
        if "=" not in own:
            return
        folder = parent


@lru_cache(maxsize=2)
def _lengths(log: str, mtime_ns: int) -> dict[str, int]:  # noqa: ARG001  a later state of the log is read again
    """Return the length of each file in a log by the file's name, which contains a UUID."""
    batches = {}
    for entry in os.listdir(log):
        number = entry.removesuffix(_COMPACT)
        if number.isdecimal():
            batches[int(number), entry.endswith(_COMPACT)] = entry
    start = max((key for key in batches if key[1]), default=(0, False))
    lengths: dict[str, int] = {}
    for key in sorted(batches):
        if key >= start:
            for name, length in _entries(os.path.join(log, batches[key])):
                lengths[name] = max(length, lengths.get(name, 0))
    return lengths


def _entries(place: str) -> list[tuple[str, int]]:
    """Return the names and lengths in one file of the log: a version, and then a JSON object per line."""
    try:
        with open(place, encoding="utf-8") as file:
            lines = file.read().splitlines()
        entries = [json.loads(line) for line in lines[1:]]
        return [(unquote(entry["path"].rpartition("/")[2]), int(entry["size"])) for entry in entries]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ReplaceError(
            f"{place}: this log of a streaming sink cannot be read ({error}), so its files are not changed; "
            "restore it, or write the rows to another folder",
            reason="unreadable-sink-log",
            path=place,
        ) from error
