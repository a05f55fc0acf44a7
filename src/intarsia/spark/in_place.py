"""Replace the files of a lake by rewritten ones, so that readers see the old files or the new ones.

A folder of files has no version, and no system replaces several files at once. But Linux exchanges two
folders atomically (``renameat2`` with ``RENAME_EXCHANGE``): the rewritten lake is complete beside the old
one, the two are exchanged, and then the old one is removed. A reader that has listed the old folder cannot
find its files afterwards, and fails; it never reads rows twice, and misses none without an error.

Files that other programs have written meanwhile are moved to the new folder, also by the next run if this one
is killed. If a file that was rewritten has changed meanwhile, the folders are exchanged back.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from intarsia.errors import UnsupportedFeatureError, WriteError
from intarsia.storage.hadoop_files import sidecar_path
from intarsia.storage.replace import named_errors

#: The file of a staging folder that describes the exchange.
_RECORD: Final = "exchange.json"

#: The log of a streaming sink, which lists the files of the folder.
_SINK_LOG: Final = "_spark_metadata"

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2

#: The length and the modification time, in nanoseconds, of each file by its path in the folder, or its URI.
States = Mapping[str, tuple[int, int]]


def exchange(one: str, other: str) -> None:
    """Exchange the names of two folders of a file system atomically.

    Raises:
        OSError: If the system refuses, or does not support it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), one)
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), one)


def check_exchange(folder: str, lake: str) -> None:
    """Check that folders can be exchanged, before the lake is rewritten.

    Args:
        folder: A folder beside the lake, in which two folders are created and exchanged.
        lake: The lake.

    Raises:
        UnsupportedFeatureError: If they cannot, or a streaming sink writes to the lake.
        WriteError: If the lake is read-only, so that it cannot be moved.
    """
    if not os.access(lake, os.W_OK):
        raise WriteError(
            "this user may not write to the folder, and so cannot replace it", reason="read-only", path=lake
        )
    if os.path.isdir(os.path.join(lake, _SINK_LOG)):
        raise UnsupportedFeatureError(
            f"a streaming sink lists the files of this folder in {_SINK_LOG}; write the rows to another "
            "folder",
            reason="listed-by-sink",
            path=lake,
        )
    names = [os.path.join(folder, name) for name in ("one", "other")]
    for name in names:
        os.mkdir(name)
    try:
        exchange(*names)
    except OSError as error:
        raise UnsupportedFeatureError(
            f"this system cannot exchange two folders atomically ({error.strerror}), which takes Linux and a "
            "local file system; write the rows to another folder",
            reason="no-exchange",
            path=lake,
        ) from error
    finally:
        for name in names:
            os.rmdir(name)


def states_of(lake: str) -> dict[str, tuple[int, int]]:
    """Return the states of the files of a folder; files that vanish meanwhile are left out."""
    found = {}
    for path in _files(lake):
        with suppress(FileNotFoundError):
            status = os.stat(os.path.join(lake, path))
            found[path] = status.st_size, status.st_mtime_ns
    return found


def swap(staging: str, new: str, lake: str, rewritten: States) -> None:
    """Exchange a rewritten lake and the old one, which is then in the staging folder.

    Args:
        staging: The staging folder, beside the lake.
        new: The folder of the new files, in the staging folder.
        lake: The folder of the lake.
        rewritten: The files whose rows are in the new files, as they were before they were read.

    Raises:
        WriteError: If one of these files has changed; the lake is as it was.
        ReplaceError: If the system refuses the exchange.
    """
    sidecars = set(map(sidecar_path, rewritten))
    for path in _files(lake):
        if path not in rewritten and path not in sidecars:
            target = os.path.join(new, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with suppress(FileNotFoundError):
                os.link(os.path.join(lake, path), target, follow_symlinks=False)
    shutil.copystat(lake, new)
    replaced = sorted({*rewritten, *sidecars})
    present = {path: _inode(new, path) for path in _files(new)}
    record = {"new": os.stat(new).st_ino, "replaced": replaced, "present": present}
    with open(os.path.join(staging, _RECORD), "w", encoding="utf-8") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    with named_errors(lake, "exchanged"):
        exchange(new, lake)
    now = states_of(new)
    has_changed = any(now.get(path) != state for path, state in rewritten.items())
    if has_changed:
        exchange(new, lake)
    finish(staging, new, lake)
    if has_changed:
        raise WriteError(
            "another program has changed files while they were rewritten, and nothing was replaced; run it "
            "again",
            reason="source-changed",
            path=lake,
        )


def finish(staging: str, other: str, lake: str) -> None:
    """Move files that other programs have written during an exchange to the lake.

    A file is moved to its place if that still has the file that was recorded, or still has none. It can be
    repeated.

    Args:
        staging: The staging folder of a run, which may have been killed.
        other: The folder in it that is exchanged with the lake: the old lake after the exchange, the new one
            before it, and after it was undone.
        lake: The folder of the lake.
    """
    try:
        with open(os.path.join(staging, _RECORD), encoding="utf-8") as file:
            record = json.load(file)
        is_exchanged = os.stat(lake).st_ino == record["new"]
    except (FileNotFoundError, ValueError):  # killed before, or while it was written; or the lake is gone
        return
    for path in set(_files(other)).difference(record["replaced"] if is_exchanged else ()):
        if _inode(lake, path) == record["present"].get(path) != _inode(other, path):
            place = os.path.join(lake, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with suppress(FileNotFoundError):
                os.rename(os.path.join(other, path), place)


def _inode(folder: str, path: str) -> int | None:
    """Return the inode of a file or a symbolic link; None if there is none."""
    try:
        return os.lstat(os.path.join(folder, path)).st_ino
    except FileNotFoundError:
        return None


def _files(folder: str) -> Iterator[str]:
    """Yield the paths of the files of a folder, and of symbolic links to folders, relative to it."""
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in [*names, *links]:
            yield os.path.relpath(os.path.join(parent, name), folder)
