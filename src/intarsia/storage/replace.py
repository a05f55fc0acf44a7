"""Atomic replacement of a local file (contract C4), by its own first bytes and a new tail or by a new file.

The new file is written next to the old one, synced and renamed over it, so that the path always refers to
either the old file or the new one. A process locks its temporary file, and the lock ends with the process.
The next run can therefore distinguish a leftover from work in progress, and removes it. Temporary names are
numbered, so that leftovers are found without listing the folder, which may have 10,000 files. On file
systems without locks, leftovers remain.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress

from intarsia.errors import ChangedMeanwhileError, IntarsiaError, ReplaceError
from intarsia.once import cached_property
from intarsia.records import dataclass
from intarsia.storage.hadoop_files import check_sink_log, read_sidecar, sidecar_path, updated_sidecar
from intarsia.storage.local import CLOSE_ON_EXEC, NO_LINK, lock_file, read_at, require_posix

#: Bytes per read and write where the kernel cannot copy.
BLOCK_BYTES = 1 << 20

#: Bytes per call of `copy_file_range`.
_LARGE_BLOCK_BYTES = 64 << 20

#: Fewer bytes than this are not copied ahead: copying them takes less time than a thread and a second sync.
AHEAD_BYTES = 16 << 20

#: Numbers of temporary names at which a run looks for leftovers. More runs than these on one file at the same
#: time are possible, but leftovers of the others remain.
_CHECKED_NUMBERS = range(8)

#: Errors of `copy_file_range` after which the file is copied with reads and writes.
_NO_KERNEL_COPY = frozenset(
    getattr(errno, name)
    for name in ("EXDEV", "ENOSYS", "EINVAL", "EOPNOTSUPP", "ENOTSUP", "EPERM", "EBADF", "ETXTBSY", "EIO")
    if hasattr(errno, name)
)


@dataclass(frozen=True)
class FileIdentity:
    """Metadata of a file when it was read; if any field differs, the file has changed."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str) -> FileIdentity:
        """Return the identity of a file, following symbolic links."""
        return cls.from_stat(os.stat(path))

    @classmethod
    def from_stat(cls, status: os.stat_result) -> FileIdentity:
        """Return the identity in a stat result."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def replace_tail(path: str, identity: FileIdentity, keep_bytes: int, tail: Iterable[bytes]) -> None:
    """Replace a file by its first bytes and a new tail.

    Mode, owner, extended attributes and times are kept as far as the system allows, and a Hadoop sidecar is
    rewritten. The target of a symbolic link is replaced, not the link. Other hard links to the file keep
    the old bytes.

    Args:
        identity: Its identity when ``keep_bytes`` and ``tail`` were computed.
        keep_bytes: The number of bytes to keep.
        tail: The bytes that follow them.

    Raises:
        ChangedMeanwhileError: If the file has changed since; it is untouched.
        ReplaceError: If the new file could not be written, or the log of a streaming sink lists the file with
            more bytes than are kept; the old file is untouched.
    """
    with Replacement(path, identity, keep_bytes) as new:
        new.finish(tail)


class Replacement:
    """`replace_tail` in two steps, so that the first bytes can be copied before the tail is computed.

    On exit, the context manager removes the temporary file of an unfinished replacement.

    Args:
        ahead_bytes: Fewer bytes are not copied ahead.
    """

    def __init__(
        self, path: str, identity: FileIdentity, keep_bytes: int, ahead_bytes: int = AHEAD_BYTES
    ) -> None:
        require_posix(path, "replaced")
        self._path, self._target = os.path.abspath(path), os.path.realpath(path)
        self._identity, self._keep_bytes = identity, keep_bytes
        self._ahead_bytes = ahead_bytes
        self._held = ExitStack()
        self._has_begun = False
        self._copying: Future[None] | None = None
        self._stopped = threading.Event()

    def __enter__(self) -> Replacement:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._held.close()

    def begin(self) -> None:
        """Start to copy and sync the first bytes in a thread, if there are enough of them to gain time.

        Further calls do nothing.

        Raises:
            ChangedMeanwhileError: If the file has changed since; it is untouched.
            ReplaceError: If the temporary file cannot be created, or the log of a streaming sink lists the
                file with more bytes than are kept.
        """
        if self._has_begun:
            return
        self._has_begun = True
        self._check_sink_logs()
        if self._keep_bytes >= self._ahead_bytes:
            with self._named_errors():
                source, fd, _ = self._files
                pool = self._held.enter_context(ThreadPoolExecutor(1))
                self._copying = pool.submit(self._copy_ahead, source, fd)

    def finish(self, tail: Iterable[bytes]) -> None:
        """Write the tail and rename the new file over the old one; see `replace_tail`."""
        path, target = self._path, self._target
        self._check_sink_logs()
        with self._named_errors():
            source, fd, temporary = self._files
            if self._copying is not None:
                self._copying.result()
            else:
                _copy(source, fd, self._keep_bytes, self._stopped)
            for piece in tail:
                write_all(fd, piece)
            _keep_attributes(source, fd)
            old = os.fstat(source)
            os.utime(fd, ns=(old.st_atime_ns, old.st_mtime_ns))
            sidecars = {
                name: updated_sidecar(before, self._identity.size, fd, self._keep_bytes)
                for name in sorted({path, target})
                if (before := read_sidecar(name)) is not None
            }
            os.fsync(fd)
            # of two runs that read the old file, the second waits here and then finds the file changed
            lock_file(source, wait=True)
            check_unchanged(path, self._identity)
            _put_in_place(temporary, path, target)
            for name, data in sidecars.items():
                _write_sidecar(name, target, data)

    def _check_sink_logs(self) -> None:
        for name in {self._path, self._target}:
            check_sink_log(name, self._keep_bytes)

    @cached_property
    def _files(self) -> tuple[int, int, str]:
        """The descriptors of both files, which are opened on first use, and the path of the temporary one."""
        remove_leftovers(self._path)
        source = self._held.enter_context(opened(self._target))
        if FileIdentity.from_stat(os.fstat(source)) != self._identity:
            raise _changed(self._path)
        return (source, *self._held.enter_context(_temporary(self._target)))

    def _copy_ahead(self, source: int, fd: int) -> None:
        _copy(source, fd, self._keep_bytes, self._stopped)
        os.fsync(fd)  # the final fsync then writes only the tail

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            with named_errors(self._path):
                yield
        except FileNotFoundError as error:
            raise _changed(self._path) from error


class NewFile:
    """A temporary file that is renamed to its path when it is complete.

    An existing file at the path is replaced. Its mode, owner and extended attributes are kept as far as the
    system allows. The target of a symbolic link is replaced, not the link.

    Args:
        replaces: The identity of the file at the path, which is checked before it is replaced; None for any.

    Attributes:
        fd: The descriptor of the file, which is empty and open for reading and writing.
        temporary: Its path until it is complete.

    Raises:
        ReplaceError: If the temporary file cannot be created.
    """

    def __init__(self, path: str, replaces: FileIdentity | None = None) -> None:
        require_posix(path, "written")
        self._path, self._target = os.path.abspath(path), os.path.realpath(path)
        self._replaces = replaces
        self._held = ExitStack()
        with self.named_errors():
            if os.path.exists(self._target) and not os.path.isfile(self._target):
                raise ReplaceError(
                    "the path exists and is not a regular file; choose another path",
                    reason="not-a-file",
                    path=path,
                )
            remove_leftovers(self._path)
            mode = 0o600 if os.path.exists(self._target) else 0o666  # the system applies the umask
            self.fd, self.temporary = self._held.enter_context(_temporary(self._target, mode))

    def named_errors(self) -> AbstractContextManager[None]:
        """Translate errors of the system within the block to `ReplaceError`."""
        return named_errors(self._path, "written")

    def put_in_place(self) -> None:
        """Rename the file to its path.

        Raises:
            ChangedMeanwhileError: If it would replace another file than it should; that file is untouched.
            ReplaceError: If the system refuses; an existing file is untouched.
        """
        with self._held, self.named_errors(), ExitStack() as old:
            with suppress(FileNotFoundError):
                source = old.enter_context(opened(self._target))
                lock_file(source, wait=True)  # wait for a run that is replacing the old file
                _keep_attributes(source, self.fd)
            os.fsync(self.fd)
            if self._replaces is not None:
                check_unchanged(self._path, self._replaces)
            _put_in_place(self.temporary, self._path, self._target)

    def discard(self) -> None:
        """Remove the temporary file; does nothing after `put_in_place`."""
        self._held.close()


def _put_in_place(temporary: str, path: str, target: str) -> None:
    """Rename a complete file to the target of a path."""
    for name in {path, target}:
        _remove(sidecar_path(name))  # for the old bytes; without a sidecar Hadoop skips the check
    os.replace(temporary, target)
    _sync_folder(target)


def check_unchanged(path: str, identity: FileIdentity) -> None:
    """Raise an error if a path has another file.

    Raises:
        ChangedMeanwhileError: If the file was replaced, changed or removed.
    """
    with suppress(FileNotFoundError):
        if FileIdentity.of(path) == identity:
            return
    raise _changed(path)


def remove_file(path: str, identity: FileIdentity) -> None:
    """Remove a file and its Hadoop sidecar.

    Args:
        path: The file, not a link.
        identity: Its identity when it was decided to remove it.

    Raises:
        ChangedMeanwhileError: If the file has changed since; it is untouched.
        ReplaceError: If the system refuses.
    """
    require_posix(path, "removed")
    path = os.path.abspath(path)
    with named_errors(path, "removed"), ExitStack() as old:
        with suppress(FileNotFoundError):
            source = old.enter_context(opened(path))
            lock_file(source, wait=True)  # wait for a run that is replacing the file
        check_unchanged(path, identity)
        _remove(sidecar_path(path))
        os.unlink(path)
        _sync_folder(path)


#: The name of a temporary file.
_TEMPORARY = re.compile(r"\..+\.intarsia-\d+\.tmp")


def _temporary_path(path: str, number: int) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.intarsia-{number}.tmp")


def remove_leftovers(path: str) -> list[str]:
    """Remove the temporary files of runs that died.

    Costs one failed ``open`` per number, regardless of the number of files in the folder.

    Returns:
        The paths that were removed.
    """
    target = os.path.realpath(path)
    # a symbolic link has its own sidecar, which is written under the name of the target, too
    beside_link = os.path.join(os.path.dirname(os.path.abspath(path)), os.path.basename(target))
    leftovers = [
        _temporary_path(name, number)
        for name in dict.fromkeys((target, beside_link))
        for number in _CHECKED_NUMBERS
    ]
    return [leftover for leftover in leftovers if _remove_unlocked(leftover)]


def remove_leftovers_in(folder: str) -> None:
    """Remove the temporary files of runs that died in a local folder, also of files that are gone."""
    with suppress(OSError):  # there is no such folder
        for name in os.listdir(folder):
            if _TEMPORARY.fullmatch(name):
                _remove_unlocked(os.path.join(folder, name))


def _remove_unlocked(leftover: str) -> bool:
    """Remove a temporary file unless a run has locked it; return whether it was removed."""
    with suppress(OSError), opened(leftover, os.O_RDWR | NO_LINK) as fd:
        if lock_file(fd, wait=False) and _is_at(fd, leftover):
            os.unlink(leftover)
            return True
    return False


def _is_at(fd: int, path: str) -> bool:
    """Return whether a path refers to an open file, and not to another file that was created there since."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    return False


def _changed(path: str) -> ChangedMeanwhileError:
    return ChangedMeanwhileError(
        "the file was replaced or changed by another program meanwhile; run again",
        reason="changed-meanwhile",
        path=path,
    )


@contextmanager
def opened(path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Open a file or a folder, yield the descriptor, and close it."""
    fd = os.open(path, flags | CLOSE_ON_EXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _temporary(target: str, mode: int = 0o600) -> Iterator[tuple[int, str]]:
    """Create a locked, empty file next to ``target``, and remove it afterwards unless it was renamed."""
    for number in itertools.count():
        temporary, fd = _temporary_path(target, number), -1
        try:  # before the file exists: Ctrl-C may come as soon as it does
            try:
                fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | CLOSE_ON_EXEC, mode)
            except FileExistsError:  # another run is using this number
                continue
            lock_file(fd, wait=True)
            if os.fstat(fd).st_nlink:  # else another run removed it before it was locked
                yield fd, temporary
                return
        finally:
            if fd < 0:  # a file of another run, or Ctrl-C before its descriptor was assigned
                _remove_unlocked(temporary)
            else:
                if _is_at(fd, temporary):  # while it is locked, no other run removes or replaces it
                    _remove(temporary)
                os.close(fd)


def _copy(source: int, destination: int, num_bytes: int, stopped: threading.Event) -> None:
    """Copy the first bytes of a file to an empty file, in the kernel if possible, unless stopped."""
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
        block = read_at(source, min(BLOCK_BYTES, num_bytes - copied), copied)
        if not block:
            raise OSError(errno.EIO, "the file became shorter while it was copied")
        write_all(destination, block)
        copied += len(block)


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes at the current position, though a call may write only some of them."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _keep_attributes(source: int, destination: int) -> None:
    """Copy the attributes of the old file; those that the system refuses are skipped, except the mode."""
    status = os.fstat(source)
    # group and owner separately: a user who cannot change the owner can still set one of their own groups
    for owner in ((-1, status.st_gid), (status.st_uid, -1)):
        with suppress(OSError):
            os.fchown(destination, *owner)
    os.fchmod(destination, stat.S_IMODE(status.st_mode))  # after chown, which clears the setuid bits
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(destination, name, os.getxattr(source, name))


def _write_sidecar(name: str, target: str, data: bytes) -> None:
    """Replace a sidecar. If that fails there is none, and Hadoop reads the file without a check."""
    path = sidecar_path(name)
    folder = os.path.dirname(path)
    with suppress(OSError), _temporary(os.path.join(folder, os.path.basename(target))) as (fd, temporary):
        write_all(fd, data)
        os.fchmod(fd, stat.S_IMODE(os.stat(target).st_mode))
        os.fsync(fd)
        os.replace(temporary, path)
        _sync_folder(path)


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _sync_folder(path: str) -> None:
    # some file systems cannot sync folders and do not need it
    with suppress(OSError), opened(os.path.dirname(path) or ".") as fd:
        os.fsync(fd)


#: The reason code and the remedy for an error of the system.
_REMEDIES = {
    errno.ENOENT: ("no-such-folder", "create its folder first"),
    errno.ENOSPC: ("disk-full", "free some space for the new file"),
    errno.EDQUOT: ("quota-exceeded", "the quota must allow the new file"),
    errno.EFBIG: ("file-too-large", "the file would be larger than the system allows"),
    errno.ENOTDIR: ("not-a-folder", "a file has the name of its folder; move it away"),
    errno.EACCES: ("permission-denied", "allow this user to write to the file's folder"),
    errno.EPERM: ("permission-denied", "allow this user to write to the file's folder"),
    errno.EROFS: ("read-only-file-system", "the file system is mounted read-only"),
}


@contextmanager
def named_errors(path: str, action: str = "replaced") -> Iterator[None]:
    """Translate errors of the system within the block to `ReplaceError`.

    Args:
        path: The file or folder, for the message.
        action: What is done with it. If it is to be replaced and is missing, the error is not translated.
    """
    try:
        yield
    except IntarsiaError as error:
        error.at(path)
        raise
    except OSError as error:
        if isinstance(error, FileNotFoundError) and action == "replaced":
            raise  # the file itself is missing, which callers report
        if isinstance(error, TimeoutError) and error.errno is None:  # of a signal handler
            raise
        reason, remedy = _REMEDIES.get(error.errno or 0, ("system-error", "the file is unchanged"))
        raise ReplaceError(
            f"cannot be {action}: {error.strerror or error}; {remedy}", reason=reason, path=path
        ) from error
