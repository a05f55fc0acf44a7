"""A folder whose files only trusted users can have written, although anyone may write to its parent.

The folder is opened once, and its files are opened relative to its descriptor. Open files are checked, so
that none can be exchanged between the check and the read:

- A link is refused, because anyone can create a link to a folder of a trusted user.
- The folder and each file must belong to a trusted user, and no other user may write to them. This includes
  access control lists, because their mask is in the bits of the group.
- Hard links need no check: only users who may write to the folder can create them there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Set

from intarsia.errors import ListingError
from intarsia.storage.local import LocalFile
from intarsia.storage.readers import UNMAPPED_USER, Readers
from intarsia.storage.replace import named_errors, write_all

_TEMPORARY = ".tmp-"

#: A temporary file that is older was left by a process that was killed.
_ABANDONED_SECONDS = 3600

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

#: Without the last flags, opening a pipe would block, and a terminal would become that of the process.
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def trusted_users(folder: str | None = None) -> frozenset[int]:
    """Return the user IDs of this user, the administrator, and the owner of a folder.

    Args:
        folder: A local folder, whose owner can replace all files in it anyway; None for none.
    """
    users = {0, os.geteuid()}
    if folder is not None:
        with contextlib.suppress(OSError):
            users |= {os.stat(folder).st_uid} - {UNMAPPED_USER}
    return frozenset(users)


class GuardedFolder:
    """An open folder that only trusted users can have written.

    Args:
        path: The folder.
        users: The user IDs of the trusted users.
        is_closed_first: If the folder belongs to this user, withdraw the permission to write from all others.

    Raises:
        ListingError: If it is a link, or users who are not trusted own it or may write to it.
        OSError: If it cannot be opened.
    """

    def __init__(self, path: str, users: Set[int], *, is_closed_first: bool = False) -> None:
        self.path = path
        self._users = users
        self._fd = -1
        if os.path.islink(path):  # the system would report that it is not a folder
            raise _is_link(path)
        self._fd = os.open(path, _OPEN_FOLDER)
        try:
            status = os.fstat(self._fd)
            if is_closed_first and status.st_uid == os.geteuid() and status.st_mode & _WRITABLE_BY_OTHERS:
                os.fchmod(self._fd, stat.S_IMODE(status.st_mode) & ~_WRITABLE_BY_OTHERS)
                status = os.fstat(self._fd)
            self._check(status, path)
        except BaseException:
            self.close()
            raise

    @classmethod
    def make(cls, path: str, users: Set[int], readers: Readers) -> GuardedFolder:
        """Open a folder, which is created if it does not exist.

        Args:
            path: The folder.
            users: The user IDs of the trusted users.
            readers: The users who may read a new folder.

        Raises:
            ListingError: As for the class.
            ReplaceError: If it cannot be created.
        """
        with named_errors(path, "created"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                os.mkdir(path, readers.new_folder_mode)
                is_new = True
            except FileExistsError:
                is_new = False
            folder = cls(path, users, is_closed_first=True)
        if is_new:
            readers.apply(folder._fd)
        return folder

    def __enter__(self) -> GuardedFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder; its open files remain open."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def names(self) -> list[str]:
        """Return the names in the folder, in order."""
        return sorted(os.listdir(self._fd))

    def open(self, name: str) -> LocalFile:
        """Open a file for reading.

        Raises:
            ListingError: If it is not a regular file, or users who are not trusted own it or may write to it.
            OSError: If it cannot be opened.
        """
        return LocalFile(os.path.join(self.path, name), opened=self._opened(name))

    def _opened(self, name: str) -> int:
        path = os.path.join(self.path, name)
        try:
            fd = os.open(name, _OPEN_FILE, dir_fd=self._fd)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _is_link(path) from None
            raise OSError(error.errno, error.strerror, path) from None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise ListingError(f"{path}: it is not a file", reason="not-a-file", path=path)
            self._check(status, path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def write(self, name: str, data: bytes, readers: Readers) -> None:
        """Write a file that appears under its name when it is complete.

        Args:
            name: Its name; an existing file is replaced.
            data: Its contents.
            readers: The users who may read it.

        Raises:
            ReplaceError: If the system refuses; nothing remains of it.
        """
        temporary, fd = f"{_TEMPORARY}{os.getpid()}-{time.monotonic_ns()}", -1
        with named_errors(os.path.join(self.path, name), "written"):
            try:
                fd = os.open(temporary, _NEW_FILE, readers.new_file_mode, dir_fd=self._fd)
                readers.apply(fd)
                write_all(fd, data)
                written, fd = fd, -1
                os.close(written)  # a network file system may report only here that it is full
                os.replace(temporary, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            except BaseException:
                if fd >= 0:
                    os.close(fd)
                self.remove(temporary)
                raise

    def remove(self, name: str) -> int:
        """Remove a file, if another process has not removed it already, and return its size in bytes.

        Raises:
            OSError: If the system refuses.
        """
        try:
            num_bytes = os.lstat(name, dir_fd=self._fd).st_size
            os.unlink(name, dir_fd=self._fd)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.path.join(self.path, name)) from None
        return num_bytes

    def remove_abandoned(self) -> None:
        """Remove the temporary files of processes that were killed."""
        for name in self.names():
            if name.startswith(_TEMPORARY):
                with contextlib.suppress(FileNotFoundError):
                    written = os.lstat(name, dir_fd=self._fd).st_mtime
                    if time.time() - written > _ABANDONED_SECONDS:
                        os.unlink(name, dir_fd=self._fd)

    def narrow(self, readers: Readers) -> None:
        """Withdraw the permission to read the folder and its files from users who are not readers.

        What belongs to another user is left as it is, unless this user is the administrator.
        """
        with contextlib.suppress(PermissionError):
            readers.narrow(self._fd)
        for name in self.names():
            with contextlib.suppress(FileNotFoundError, ListingError, PermissionError):
                fd = self._opened(name)
                try:
                    readers.narrow(fd)
                finally:
                    os.close(fd)

    def _check(self, status: os.stat_result, path: str) -> None:
        if status.st_uid not in self._users:
            raise ListingError(
                f"{path}: it belongs to user {status.st_uid}, who could hide rows with it; delete it, or let "
                "the owner of the lake build it",
                reason="foreign-owner",
                path=path,
            )
        if status.st_mode & _WRITABLE_BY_OTHERS:
            raise ListingError(
                f"{path}: other users may write to it, and could hide rows with it; run: chmod go-w {path}",
                reason="writable-by-others",
                path=path,
            )


def _is_link(path: str) -> ListingError:
    return ListingError(
        f"{path}: it is a link, with which other users could hide rows; replace it by its target",
        reason="link",
        path=path,
    )
