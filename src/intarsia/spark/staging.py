"""A folder that appears under its path with all of its files, or not at all.

Tasks write below a hidden folder beside the destination, each attempt to its own folder, because Spark
may run a task twice, and may stop waiting for an attempt that still runs. The driver moves the files of the
attempts that count, and renames the folder of these files to the destination.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
from contextlib import ExitStack, suppress

from intarsia.errors import WriteError

_LOCK, _ATTEMPTS, _DATA = "lock", "attempts", "data"


class Staging:
    """A folder that will be the destination.

    As a context manager, it removes everything that was not published. If the process is killed, the next
    run to the same destination removes the files.

    Args:
        destination: A local folder that is empty or does not exist.

    Attributes:
        attempts: The folder below which tasks write.
        data: The folder of the files that count.

    Raises:
        WriteError: If the destination has files.
    """

    def __init__(self, destination: str) -> None:
        self._destination = os.path.realpath(destination)
        self._held = ExitStack()
        parent, name = os.path.split(self._destination)
        if not name:
            raise _occupied(destination)
        self.check()
        os.makedirs(parent, exist_ok=True)
        prefix = f".{name}.intarsia-"
        for entry in os.listdir(parent):
            if entry.startswith(prefix):
                _remove_if_abandoned(os.path.join(parent, entry))
        self._folder = os.path.join(parent, prefix + secrets.token_hex(8))
        self.attempts = os.path.join(self._folder, _ATTEMPTS)
        self.data = os.path.join(self._folder, _DATA)

    def __enter__(self) -> Staging:
        os.mkdir(self._folder)
        self._held.callback(shutil.rmtree, self._folder, ignore_errors=True)
        lock = os.open(os.path.join(self._folder, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        self._held.callback(os.close, lock)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.mkdir(self.attempts)
        os.mkdir(self.data)
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def check(self) -> None:
        """Raise an error if the destination is not an empty folder, and exists.

        Raises:
            WriteError: If it has files, or is a file.
        """
        try:
            if not os.path.lexists(self._destination) or not os.listdir(self._destination):
                return
        except NotADirectoryError:
            pass
        raise _occupied(self._destination)

    def accept(self, path: str) -> str:
        """Move a file, which a task wrote as ``attempts/ATTEMPT/…``, into the data; return its new path."""
        _, _, below = os.path.relpath(path, self.attempts).partition(os.sep)
        target = os.path.join(self.data, below)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(path, target)
        return target

    def publish(self) -> None:
        """Rename the data to the destination.

        Raises:
            WriteError: If the destination has files by then.
        """
        with suppress(FileNotFoundError):
            os.chmod(self.data, stat.S_IMODE(os.stat(self._destination).st_mode))
        try:
            os.rename(self.data, self._destination)  # replaces a folder only if it is empty
        except OSError:
            self.check()
            raise

    def published(self, path: str) -> str:
        """Return the path below the destination of a file in `data`."""
        return os.path.join(self._destination, os.path.relpath(path, self.data))


def _remove_if_abandoned(folder: str) -> None:
    """Remove the files of a run that was killed, whose lock is free."""
    try:
        lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # a run that is starting or ending owns it
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(lock)


def _occupied(path: str) -> WriteError:
    return WriteError(
        f"{path}: the destination is not an empty folder; pass a new folder, or remove its files first",
        reason="destination-not-empty",
        path=path,
    )
