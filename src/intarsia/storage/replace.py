"""Replacing a local file atomically (contract C4): by its own first bytes and a new end, or by a new file.

The new file is written beside the old one, synced and renamed over it, so that at every instant the name
means the old file or the new one.  The temporary file is held with a lock that dies with its process: whoever
comes next can tell a leftover from work in progress, and removes it.  (Without locks, leftovers stay.)
"""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import secrets
import stat
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass

from intarsia.errors import ChangedMeanwhileError, ReplaceError
from intarsia.storage.sidecar import read_sidecar, sidecar_path, updated_sidecar

#: Copied at a time where the kernel cannot copy by itself.
_BLOCK_BYTES = 1 << 20

#: What `copy_file_range` is asked for at a time.
_LARGE_BLOCK_BYTES = 64 << 20

#: Fewer bytes are not copied ahead: that takes less than starting a thread and syncing twice.
_AHEAD_BYTES = 16 << 20

#: The kernel cannot copy between these two files (or at all); a plain copy can.
_NO_KERNEL_COPY = frozenset(
    getattr(errno, name)
    for name in ("EXDEV", "ENOSYS", "EINVAL", "EOPNOTSUPP", "ENOTSUP", "EPERM", "EBADF", "ETXTBSY", "EIO")
    if hasattr(errno, name)
)


@dataclass(frozen=True)
class FileIdentity:
    """What a file was when it was read; if any of it differs, it is another file."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str) -> FileIdentity:
        """The identity of the file that a path means, through links."""
        return cls.from_stat(os.stat(path))

    @classmethod
    def from_stat(cls, found: os.stat_result) -> FileIdentity:
        """The identity in a stat result."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def replace_tail(path: str, identity: FileIdentity, keep_bytes: int, tail: Iterable[bytes]) -> None:
    """Replace a file by its first bytes and a new tail.

    Mode, owner, extended attributes and times are kept as far as the system allows, and a Hadoop sidecar is
    rewritten.  A symbolic link stays one: its target is replaced.  Other hard links to the file keep the old
    bytes.

    Args:
        path: The file.
        identity: What it was when ``keep_bytes`` and ``tail`` were worked out.
        keep_bytes: How many of its bytes stay.
        tail: What follows them.

    Raises:
        ChangedMeanwhileError: If the file has changed since; nothing was done.
        ReplaceError: If the new file could not be written; the old one is untouched.
    """
    with Replacement(path, identity, keep_bytes) as new:
        new.finish(tail)


class Replacement:
    """What `replace_tail` does, in two steps: the first bytes may be copied before the tail is known.

    It is a context, at whose end no trace of an unfinished one is left.

    Args:
        path: As for `replace_tail`.
        identity: As for `replace_tail`.
        keep_bytes: As for `replace_tail`.
    """

    def __init__(self, path: str, identity: FileIdentity, keep_bytes: int) -> None:
        self._path, self._target = os.path.abspath(path), os.path.realpath(path)
        self._identity, self._keep_bytes = identity, keep_bytes
        self._held = ExitStack()
        self._files: tuple[int, int, str] | None = None
        self._copying: Future[None] | None = None
        self._stopped = threading.Event()

    def __enter__(self) -> Replacement:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._held.close()

    def begin(self) -> None:
        """Start to copy and sync the first bytes in a thread, unless they are so few that it is not worth it.

        Raises:
            ChangedMeanwhileError: If the file has changed since; nothing was done.
            ReplaceError: If there can be no new file.
        """
        if self._copying is None and self._keep_bytes >= _AHEAD_BYTES:
            with self._named_errors():
                self._open()
                pool = self._held.enter_context(ThreadPoolExecutor(1))
                self._copying = pool.submit(self._copy_ahead)

    def finish(self, tail: Iterable[bytes]) -> None:
        """Write the tail, and put the new file in the place of the old one; see `replace_tail`."""
        path, target = self._path, self._target
        with self._named_errors():
            source, fd, temporary = self._open()
            if self._copying is not None:
                self._copying.result()
            else:
                _copy(source, fd, self._keep_bytes, self._stopped)
            for piece in tail:
                write_all(fd, piece)
            _keep_attributes(source, fd)
            _keep_times(source, fd)
            sidecars = _new_sidecars({path, target}, self._identity.size, fd, self._keep_bytes)
            os.fsync(fd)
            # two runs that both read the old file take turns here, and the second finds it gone
            _lock(source, wait=True)
            if FileIdentity.of(target) != self._identity:
                raise ChangedMeanwhileError(_changed(path))
            for name in sidecars:
                _remove(sidecar_path(name))  # stale from the next line on
            os.replace(temporary, target)
            _sync_folder(target)
            for name, data in sidecars.items():
                _write_sidecar(name, target, data)

    def _open(self) -> tuple[int, int, str]:
        """The old file, the new one, and its name until then."""
        if self._files is None:
            remove_leftovers(self._path)
            source = self._held.enter_context(_open_source(self._path, self._target, self._identity))
            self._files = (source, *self._held.enter_context(_temporary(self._target)))
        return self._files

    def _copy_ahead(self) -> None:
        source, fd, _ = self._open()
        _copy(source, fd, self._keep_bytes, self._stopped)
        os.fsync(fd)  # the one in the end then has but the tail to wait for

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            with _named_errors(self._path):
                yield
        except FileNotFoundError as error:
            raise ChangedMeanwhileError(_changed(self._path)) from error


class NewFile:
    """A file that is written beside its place, and takes it when it is whole.

    What may be there already is replaced, and gives its mode, owner and extended attributes as far as the
    system allows.  A symbolic link stays one: its target is replaced.

    Args:
        path: The place.

    Attributes:
        fd: The file, empty and open for reading and writing.
        temporary: Its name until then.

    Raises:
        ReplaceError: If there can be no such file.
    """

    def __init__(self, path: str) -> None:
        self._path, self._target = os.path.abspath(path), os.path.realpath(path)
        self._held = ExitStack()
        with self.named_errors():
            if os.path.exists(self._target) and not os.path.isfile(self._target):
                raise ReplaceError(f"{path}: is no file, and is left alone; name a file")
            remove_leftovers(self._path)
            mode = 0o600 if os.path.exists(self._target) else 0o666  # the system takes the umask off
            self.fd, self.temporary = self._held.enter_context(_temporary(self._target, mode))

    def named_errors(self) -> AbstractContextManager[None]:
        """Turn what the system refuses within the block into one clear error."""
        return _named_errors(self._path, "written")

    def put_in_place(self) -> None:
        """Let the path mean this file.

        Raises:
            ReplaceError: If the system refuses; what was there still is.
        """
        with self._held, self.named_errors(), ExitStack() as old:
            with suppress(FileNotFoundError):
                source = os.open(self._target, os.O_RDONLY | os.O_CLOEXEC)
                old.callback(os.close, source)
                _lock(source, wait=True)  # until a run that is about to replace the old file has done so
                _keep_attributes(source, self.fd)
            os.fsync(self.fd)
            for name in {self._path, self._target}:
                _remove(sidecar_path(name))  # of other bytes; without one Hadoop reads unchecked
            os.replace(self.temporary, self._target)
            _sync_folder(self._target)

    def discard(self) -> None:
        """Leave no trace; harmless once it is in place."""
        self._held.close()


def remove_leftovers(path: str) -> list[str]:
    """Remove what runs that died left beside a file.

    Returns:
        The paths that were removed.
    """
    removed = []
    target = os.path.realpath(path)
    name = os.path.basename(target)
    folders = {
        os.path.dirname(target),
        os.path.dirname(os.path.abspath(path)),
    }  # a link has a sidecar of its own
    patterns = [
        os.path.join(glob.escape(folder), f".{glob.escape(name)}.intarsia-*.tmp") for folder in folders
    ]
    for leftover in [found for pattern in patterns for found in glob.glob(pattern)]:
        with suppress(OSError):
            fd = os.open(leftover, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if _lock(fd, wait=False):
                    os.unlink(leftover)
                    removed.append(leftover)
            finally:
                os.close(fd)
    return removed


def _changed(path: str) -> str:
    return f"{path}: the file was replaced or changed while it was being indexed; run again"


@contextmanager
def _open_source(path: str, target: str, identity: FileIdentity) -> Iterator[int]:
    fd = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if FileIdentity.from_stat(os.fstat(fd)) != identity:
            raise ChangedMeanwhileError(_changed(path))
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _temporary(target: str, mode: int = 0o600) -> Iterator[tuple[int, str]]:
    """A locked, empty file beside ``target``, which is gone afterwards unless it was renamed."""
    folder, name = os.path.split(target)
    while True:
        temporary = os.path.join(folder, f".{name}.intarsia-{secrets.token_hex(8)}.tmp")
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            _lock(fd, wait=True)
            if os.fstat(fd).st_nlink:  # else a cleaner came between creating and locking
                yield fd, temporary
                return
        finally:
            _remove(temporary)
            os.close(fd)


def _lock(fd: int, *, wait: bool) -> bool:
    """Lock a file until it is closed; False if another process holds it, or the file system has no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _copy(source: int, destination: int, num_bytes: int, stopped: threading.Event) -> None:
    """Copy the first bytes of a file to an empty one, in the kernel where it can; or not all, if stopped."""
    copied = 0
    if hasattr(os, "copy_file_range"):
        try:
            while copied < num_bytes and not stopped.is_set():
                step = os.copy_file_range(
                    source, destination, min(_LARGE_BLOCK_BYTES, num_bytes - copied), copied, copied
                )
                if step == 0:
                    break
                copied += step
        except OSError as error:
            if error.errno not in _NO_KERNEL_COPY:
                raise
    os.lseek(destination, copied, os.SEEK_SET)
    while copied < num_bytes and not stopped.is_set():
        block = os.pread(source, min(_BLOCK_BYTES, num_bytes - copied), copied)
        if not block:
            raise OSError(errno.EIO, "the file became shorter while it was copied")
        write_all(destination, block)
        copied += len(block)


def write_all(fd: int, data: bytes) -> None:
    """Write bytes where a file stands, though the system may take them in pieces."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _keep_attributes(source: int, destination: int) -> None:
    """Give the new file what the old one has; what the system refuses is left out, except the mode."""
    found = os.fstat(source)
    mine = os.fstat(destination)
    # one by one, the group first: who may not give a file away may still give it to a group of his own
    if found.st_gid != mine.st_gid:
        with suppress(OSError):
            os.fchown(destination, -1, found.st_gid)
    if found.st_uid != mine.st_uid:
        with suppress(OSError):
            os.fchown(destination, found.st_uid, -1)
    os.fchmod(destination, stat.S_IMODE(found.st_mode))  # after chown, which clears bits of it
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(destination, name, os.getxattr(source, name))


def _keep_times(source: int, destination: int) -> None:
    found = os.fstat(source)
    os.utime(destination, ns=(found.st_atime_ns, found.st_mtime_ns))


def _new_sidecars(names: set[str], old_length: int, fd: int, unchanged_bytes: int) -> dict[str, bytes]:
    """New sidecars for those of the file's names that have one."""
    found = {name: old for name in sorted(names) if (old := read_sidecar(name)) is not None}
    return {name: updated_sidecar(old, old_length, fd, unchanged_bytes) for name, old in found.items()}


def _write_sidecar(name: str, target: str, data: bytes) -> None:
    """Put a new sidecar in place. Without one Hadoop reads unchecked, so failing here loses no file."""
    place = sidecar_path(name)
    folder = os.path.dirname(place)
    with suppress(OSError), _temporary(os.path.join(folder, os.path.basename(target))) as (fd, temporary):
        write_all(fd, data)
        os.fchmod(fd, stat.S_IMODE(os.stat(target).st_mode))
        os.fsync(fd)
        os.replace(temporary, place)
        _sync_folder(place)


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _sync_folder(path: str) -> None:
    with suppress(OSError):  # some file systems cannot sync folders, and then need not
        fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextmanager
def _named_errors(path: str, what: str = "replaced") -> Iterator[None]:
    """Turn what the system refuses into one clear error."""
    try:
        yield
    except ReplaceError:
        raise
    except OSError as error:
        if isinstance(error, FileNotFoundError) and what == "replaced":
            raise  # the file itself, which is the caller's matter
        remedy = {
            errno.ENOENT: "make its folder first",
            errno.ENOSPC: "free some space: a copy of the file is needed while it is replaced",
            errno.EDQUOT: "the quota is used up: a copy of the file is needed while it is replaced",
            errno.EFBIG: "the file would be larger than the system allows",
            errno.EACCES: "allow this user to write in the file's folder",
            errno.EPERM: "allow this user to write in the file's folder",
            errno.EROFS: "the file system is mounted read-only",
        }.get(error.errno or 0, "the file is as it was")
        raise ReplaceError(f"{path}: cannot be {what}: {error.strerror or error}; {remedy}") from error
