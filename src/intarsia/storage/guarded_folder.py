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
from collections.abc import Iterable, Set

from intarsia.errors import ListingError
from intarsia.records import dataclass
from intarsia.storage.local import (
    CLOSE_ON_EXEC,
    IS_POSIX,
    NO_LINK,
    NO_TERMINAL,
    ONLY_FOLDER,
    LocalFile,
    require_posix,
)
from intarsia.storage.replace import named_errors, write_all

#: The owner that the system shows for users that it cannot map, as in a container. Two of them may differ.
UNMAPPED_USER = 65534


@dataclass(frozen=True)
class Readers:
    """The users who may read all of some files, besides their owners.

    Attributes:
        group: Whether the members of the group may read them.
        others: Whether users who are not in the group may.
        gid: The group; None if it makes no difference.
        uid: The owner of all of them; None if there are several, or the owner of a copy does not matter.
    """

    group: bool = False
    others: bool = False
    gid: int | None = None
    uid: int | None = None

    @classmethod
    def of(cls, files: Iterable[str], folders: Iterable[str], passed: Iterable[str] = ()) -> Readers:
        """Return the users who may read local files and list their folders.

        Args:
            files: The files; missing ones are skipped.
            passed: Further folders on the way to them, which need not be listed.
        """
        group = others = True
        groups, owners = set(), set()
        for paths, needed in ((files, 4), (folders, 5), (passed, 1)):
            for path in paths:
                try:
                    status = os.stat(path)
                except FileNotFoundError:
                    continue
                of_group, of_others = (status.st_mode >> shift & needed == needed for shift in (3, 0))
                if needed != 1:
                    owners.add(status.st_uid)
                if not (of_group and of_others):
                    groups.add(status.st_gid)
                    group, others = group and of_group, others and of_others
        (uid,) = owners if len(owners) == 1 else (None,)
        if len(groups) > 1:  # permission bits have one group
            return cls(uid=uid)
        (gid,) = groups or (None,)
        return cls(group, others, gid, None if uid == UNMAPPED_USER else uid)

    @property
    def new_mode(self) -> int:
        """The mode with which a folder is created; it is private until `apply` if its group matters."""
        return 0o755 if self.gid is None and self.group else 0o700

    def apply(self, fd: int) -> None:
        """Set the group, the mode and the owner of a new file or folder, as far as the system allows.

        Where it does not allow the group, the file or folder remains private.
        """
        status = os.fstat(fd)
        with contextlib.suppress(OSError):
            if self.gid is not None:
                if status.st_gid != self.gid:
                    os.fchown(fd, -1, self.gid)
                readable = 0o5 if stat.S_ISDIR(status.st_mode) else 0o4
                mode = stat.S_IMODE(status.st_mode) | self.group * readable << 3 | self.others * readable
                os.fchmod(fd, mode)
        with contextlib.suppress(OSError):  # only the administrator may
            if self.uid is not None and self.uid != status.st_uid:
                os.fchown(fd, self.uid, -1)

    def narrow(self, fd: int) -> None:
        """Withdraw the permissions of users who are not readers from an existing file or folder.

        Raises:
            PermissionError: If it belongs to another user.
        """
        status = os.fstat(fd)
        is_same_group = self.gid is None or self.gid == status.st_gid
        denied = 0 if self.group and is_same_group else stat.S_IRWXG
        denied |= 0 if self.others and is_same_group else stat.S_IRWXO
        if status.st_mode & denied:
            os.fchmod(fd, stat.S_IMODE(status.st_mode) & ~denied)


_TEMPORARY = ".tmp-"

#: A temporary file that is older was left by a process that was killed.
_ABANDONED_SECONDS = 3600

_OPEN_FOLDER = os.O_RDONLY | ONLY_FOLDER | NO_LINK | CLOSE_ON_EXEC

#: Without the last flags, opening a pipe would block, and a terminal would become that of the process.
_OPEN_FILE = os.O_RDONLY | NO_LINK | CLOSE_ON_EXEC | NO_TERMINAL

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK | CLOSE_ON_EXEC

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def trusted_users(folder: str | None = None) -> frozenset[int]:
    """Return the user IDs of this user, the administrator, and the owner of a folder.

    Args:
        folder: A local folder, whose owner can replace all files in it anyway; None for none.
    """
    if not IS_POSIX:
        return frozenset()
    users = {0, os.geteuid()}
    if folder is not None:
        with contextlib.suppress(OSError):
            users |= {os.stat(folder).st_uid} - {UNMAPPED_USER}
    return frozenset(users)


class GuardedFolder:
    """An open folder that only trusted users can have written.

    Args:
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
        if not IS_POSIX:  # owners and modes prove nothing there, so nobody is trusted
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
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
            users: The user IDs of the trusted users.
            readers: The users who may read a new folder.

        Raises:
            ListingError: As for the class.
            ReplaceError: If it cannot be created.
        """
        require_posix(path, "written")
        with named_errors(path, "created"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                os.mkdir(path, readers.new_mode)
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
            if error.errno is None:  # of a signal handler
                raise
            if error.errno == errno.ELOOP:
                raise _is_link(path) from None
            raise OSError(error.errno, error.strerror, path) from None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise ListingError("it is not a file", reason="not-a-file", path=path)
            self._check(status, path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def write(self, name: str, data: bytes, readers: Readers) -> None:
        """Write a file that appears under its name when it is complete.

        Args:
            name: Its name; an existing file is replaced.
            readers: The users who may read it.

        Raises:
            ReplaceError: If the system refuses; nothing remains of it.
        """
        temporary, fd = f"{_TEMPORARY}{os.getpid()}-{time.monotonic_ns()}", -1
        with named_errors(os.path.join(self.path, name), "written"):
            try:
                fd = os.open(temporary, _NEW_FILE, readers.new_mode & 0o666, dir_fd=self._fd)
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
                    if time.time() - os.lstat(name, dir_fd=self._fd).st_mtime > _ABANDONED_SECONDS:
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
                f"it belongs to user {status.st_uid}, who could hide rows with it; delete it, or let the "
                "owner of the lake build it",
                reason="foreign-owner",
                path=path,
            )
        if status.st_mode & _WRITABLE_BY_OTHERS:
            raise ListingError(
                f"other users may write to it, and could hide rows with it; run: chmod go-w {path}",
                reason="writable-by-others",
                path=path,
            )


def _is_link(path: str) -> ListingError:
    return ListingError(
        "it is a link, with which other users could hide rows; replace it by its target",
        reason="link",
        path=path,
    )
