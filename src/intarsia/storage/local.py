"""Files on a local disk, and what they need from POSIX.

Files are read on every system. They are replaced only on POSIX systems, where a rename replaces a file that
others have open, where the lock of a process ends with it, and where a folder can be opened and synced.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from intarsia.errors import ReplacedWhileReadError, UnsupportedFeatureError
from intarsia.storage.ranges import ByteRange
from intarsia.storage.running_query import Deadline, QueryReads, current_deadline, current_reads

#: Whether files can be replaced.
IS_POSIX = hasattr(os, "O_DIRECTORY") and hasattr(os, "geteuid")

if IS_POSIX:
    import fcntl

CLOSE_ON_EXEC: int = getattr(os, "O_CLOEXEC", 0)
NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
ONLY_FOLDER: int = getattr(os, "O_DIRECTORY", 0)
NO_TERMINAL: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)

_POSITION = threading.Lock()


def require_posix(path: str, done: str) -> None:
    """Refuse to write a file on a system that is not POSIX.

    Args:
        done: What would be done, such as ``"replaced"``.

    Raises:
        UnsupportedFeatureError: On such a system.
    """
    if not IS_POSIX:
        raise UnsupportedFeatureError(
            f"files are {done} only on Linux and macOS, because other systems cannot replace a file that is "
            "open; run this on one of them, such as in WSL or a container",
            reason="not-posix",
            path=path,
        )


def lock_file(fd: int, *, wait: bool) -> bool:
    """Lock a file until it is closed; False if another process has the lock or there are no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno is None:  # of a signal handler, while it waited
            raise
        return False
    return True


def read_at(fd: int, num_bytes: int, offset: int) -> bytes:
    """Read bytes of an open file at an offset; fewer only at the end of the file."""
    read = os.pread if IS_POSIX else _read_alone
    data = read(fd, num_bytes, offset)
    # Linux returns at most 2 GiB per call, and any call may return less than requested
    while 0 < (done := len(data)) < num_bytes and (more := read(fd, num_bytes - done, offset + done)):
        data += more
    return data


def _read_alone(fd: int, num_bytes: int, offset: int) -> bytes:
    # files are read by several threads, and the position belongs to the descriptor
    with _POSITION:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, num_bytes)


#: The coarsest resolution of modification times among common file systems.
CLOCK_TICK_SECONDS = 2.0

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]+)://([^/]*)(/?.*)", re.DOTALL)


def identity_of(status: os.stat_result) -> tuple[int, ...] | None:
    """Return the identity of a local file; None if its bytes may change while its times stay the same.

    Args:
        status: The result of ``os.stat``.
    """
    # a file modified within the last tick may be modified again and keep its time
    if time.time() - status.st_mtime <= CLOCK_TICK_SECONDS:
        return None
    # `cp -p` and `rsync --times` set mtime; no program can set ctime
    changed = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_dev, status.st_ino, status.st_size, *changed)


class _OpenedFile:
    """`LocalFile` without a destructor: the class of closed files.

    Python ignores an interrupt (Ctrl-C) that arrives in a destructor, so closed files have none.
    """

    coalesce_bytes = 0
    path: str
    _fd: int = -1  # for `__del__`, if opening fails or is interrupted before it starts
    _size: int
    _modified: int
    _deadline: Deadline | None
    _reads: QueryReads | None

    def size(self) -> int:
        """Length of the file in bytes when it was opened."""
        return self._size

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Read the bytes of each range; fewer only at the end of the file.

        Raises:
            QueryTimeoutError: If the deadline of the query in which it was opened has passed.
        """
        deadline, reads = self._deadline, current_reads() or self._reads
        found: list[bytes] = []
        try:
            for start, stop in ranges:
                if deadline is not None:
                    deadline.check(self.path)
                try:
                    data = read_at(self._fd, stop - start, start)
                except OSError as error:  # `pread` does not report the path
                    if error.errno is None:  # not of the system, such as a TimeoutError of a signal handler
                        raise
                    raise OSError(error.errno, error.strerror, self.path) from error
                found.append(data)
                if deadline is not None:
                    deadline.count(self.path, len(data))
        finally:
            if reads is not None and found:
                reads.add(len(found), sum(map(len, found)))
                if reads.ranges is not None:
                    for (start, _), data in zip(ranges, found, strict=False):
                        reads.record(self.path, start, len(data))
        return found

    def check_unchanged(self) -> None:
        """Check that no program has written to the file since it was opened, at the cost of an fstat.

        A write within the same tick of the clock of the file system, about 4 ms, is not detected.

        Raises:
            ReplacedWhileReadError: If its length or modification time has changed.
        """
        status = self._status()
        # the change time of a file also changes when another one is renamed over it
        if (status.st_size, status.st_mtime_ns) != (self._size, self._modified):
            raise ReplacedWhileReadError(
                "a program wrote to the file in place, or set its modification time, while it was read; run "
                "the query again, and replace files by renaming new ones",
                reason="file-overwritten",
                path=self.path,
            )

    def _status(self) -> os.stat_result:
        try:
            return os.fstat(self._fd)
        except OSError as error:  # `fstat` does not report the path
            if error.errno is None:  # of a signal handler, as below
                raise
            raise OSError(error.errno, error.strerror, self.path) from error

    def close(self) -> None:
        """Close the file descriptor; calling it twice is allowed."""
        # reset first: after Ctrl-C in `os.close`, the number may already belong to another file
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        if type(self) is LocalFile:
            self.__class__ = _OpenedFile  # type: ignore[assignment]


class LocalFile(_OpenedFile):
    """A file on a local disk, read with ``pread``, which has no file position and so is thread-safe.

    The file is opened once. If it is replaced later, reads continue in the old file.

    Args:
        shown_as: The name in messages; by default the path.
        opened: Its descriptor, if it is already open for reading; closed by `close`.
    """

    def __init__(
        self, path: str | os.PathLike[str], shown_as: str | None = None, *, opened: int | None = None
    ) -> None:
        self.path = shown_as or os.fspath(path)
        flags = os.O_RDONLY | CLOSE_ON_EXEC | getattr(os, "O_BINARY", 0)
        self._fd = os.open(path, flags) if opened is None else opened
        status = self._status()
        self._size, self._modified = status.st_size, status.st_mtime_ns
        self.identity = identity_of(status)
        self._deadline = current_deadline()
        self._reads = current_reads()

    def __del__(self) -> None:
        self.close()


def local_path(name: str) -> str | None:
    """Return the local path of a path or ``file://`` URL; None for the URL of an object.

    Raises:
        FileNotFoundError: If the URL names another machine.

    Example:
        >>> local_path("lake/a%20b.parquet"), local_path("file:///lake/a%20b.parquet")
        ('lake/a%20b.parquet', '/lake/a b.parquet')
        >>> local_path("file://localhost/lake/"), local_path("s3://bucket/lake/")
        ('/lake/', None)
    """
    url = _URL.fullmatch(name)
    if url is None:
        return name
    scheme, host, rest = url.groups()
    if scheme.lower() != "file":
        return None
    if host.lower() not in ("", "localhost"):
        raise FileNotFoundError(
            f"{name}: this URL names a file on host {host!r}; write a local file with three slashes, as in "
            "file:///lake/x.parquet, or without file://"
        )
    return unquote(rest)


def is_utf8(name: str) -> bool:
    r"""Return whether a name, as `os.fsdecode` returns it, is UTF-8.

    Example:
        >>> is_utf8("é"), is_utf8("\udcff")
        (True, False)
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def not_utf8(path: str) -> UnsupportedFeatureError:
    """Return the error for a path that is not UTF-8."""
    return UnsupportedFeatureError(
        f"the path has bytes that are not UTF-8 ({path!r}), so a column of text cannot contain it; rename "
        "the file or its folder",
        reason="path-not-utf-8",
        path=path,
    )


def refuse_other_names(paths: Iterable[str]) -> None:
    """Refuse paths that are not UTF-8, which a column of text cannot contain.

    Raises:
        UnsupportedFeatureError: If a path is not UTF-8.
    """
    for path in paths:
        if not is_utf8(path):
            raise not_utf8(path)
