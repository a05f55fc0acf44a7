"""The identity of a file when it was indexed."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from intarsia.lake.data_file import DataFile
from intarsia.lake.discovery import list_objects
from intarsia.rows.bounds import Bools
from intarsia.storage import CLOCK_TICK_SECONDS


class FileStamp(NamedTuple):
    """The identity of a file: a different stamp means different bytes.

    Attributes:
        size_bytes: Its length; -1 if there is no such file.
        modified_ns: Time of the last write in nanoseconds since 1970; 0 if unknown.
        changed_ns: Time of the last change of a local file, which no program can set; 0 for objects.
        e_tag: The ETag of an object; empty for local files.
    """

    size_bytes: int
    modified_ns: int
    changed_ns: int
    e_tag: str = ""


def wait_until_settled(files: Sequence[DataFile]) -> None:
    """Wait until no local file was written in the last tick of the clock, but at most one tick.

    Within a tick, another process could change a file again and leave its time unchanged.

    Args:
        files: The files.
    """
    youngest = max((_stat(file.path)[1] for file in files if not file.is_remote), default=0)
    seconds = CLOCK_TICK_SECONDS - (time.time() - youngest / 1e9)
    if seconds > 0:
        # the clock of the file system may be some milliseconds behind
        time.sleep(min(seconds, CLOCK_TICK_SECONDS) + 0.02)


def opened_stamp(identity: object) -> FileStamp | None:
    """Return the stamp in the identity of an open file; None if equal identities do not prove equal bytes.

    Args:
        identity: See `intarsia.storage.ByteSource`.
    """
    if not isinstance(identity, tuple):
        return None
    if len(identity) == 5:  # a local file: device, inode, length, times
        _, _, size, modified, changed = identity
        return FileStamp(size, modified, changed)
    size, e_tag, _ = identity
    return FileStamp(size, 0, 0, e_tag)


_MISSING = DataFile("", -1)


def _stat(path: str) -> tuple[int, int, int]:
    """Return the size of a local file, and its times of modification and change; size -1 if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return -1, 0, 0
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


class Stamps(NamedTuple):
    """The stamps of many files, in arrays; see `FileStamp`."""

    size_bytes: np.ndarray
    modified_ns: np.ndarray
    changed_ns: np.ndarray
    e_tag: np.ndarray

    @classmethod
    def listed(cls, files: Sequence[DataFile]) -> Stamps:
        """Return the stamps of files when they were listed."""
        sizes = np.array([file.size_bytes for file in files], dtype=np.int64)
        modified, changed = _table([file.times_ns or (0, 0) for file in files], 2)
        return cls(sizes, modified, changed, np.array([file.e_tag or "" for file in files], dtype=object))

    @classmethod
    def now(cls, files: Sequence[DataFile], root: str) -> Stamps:
        """Return the current stamps of files, from stat for local files and from a new listing for objects.

        Args:
            files: The files.
            root: The absolute path or URL below which they are.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        if "://" in root:
            listed = list_objects(root, files[0].store if files else None).files
            return cls.listed([listed.get(file.path, _MISSING) for file in files])
        sizes, modified, changed = _table([_stat(file.path) for file in files], 3)
        return cls(sizes, modified, changed, np.full(len(files), "", dtype=object))

    def take(self, ordinals: np.ndarray) -> Stamps:
        """Return the stamps at some positions."""
        return Stamps(*(column[ordinals] for column in self))

    def equal(self, others: Stamps, *, same_machine: bool) -> Bools:
        """Compare with the stamps of the same files at another time.

        Args:
            others: As many stamps.
            same_machine: Also compare the change time, which a copy of the folder does not keep.
        """
        equal = (self.size_bytes == others.size_bytes) & (self.size_bytes >= 0)
        equal &= (self.modified_ns == others.modified_ns) & (self.e_tag == others.e_tag)
        if same_machine:
            equal &= self.changed_ns == others.changed_ns
        return np.asarray(equal, dtype=bool)


def _table(rows: Sequence[tuple[int, ...]], width: int) -> np.ndarray:
    """Return the columns of a table of integers."""
    flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64, count=len(rows) * width)
    return flat.reshape(-1, width).T
