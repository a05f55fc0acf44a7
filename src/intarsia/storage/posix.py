"""What this package needs from POSIX, and what it does on other systems, such as Windows.

Files are read on every system. They are replaced only on POSIX systems, where a rename replaces a file that
others have open, where the lock of a process ends with it, and where a folder can be opened and synced.
"""

from __future__ import annotations

import os
import threading

from intarsia.errors import UnsupportedFeatureError

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
        path: The file.
        done: What would be done, such as ``"replaced"``.

    Raises:
        UnsupportedFeatureError: On such a system.
    """
    if not IS_POSIX:
        raise UnsupportedFeatureError(
            f"{path}: files are {done} only on Linux and macOS, because other systems cannot replace a file "
            "that is open; run this on one of them, such as in WSL or a container",
            reason="not-posix",
            path=path,
        )


def lock_file(fd: int, *, wait: bool) -> bool:
    """Lock a file until it is closed; False if another process has the lock or there are no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_at(fd: int, num_bytes: int, offset: int) -> bytes:
    """Read up to a number of bytes of an open file at an offset."""
    if IS_POSIX:
        return os.pread(fd, num_bytes, offset)
    # files are read by several threads, and the position belongs to the descriptor
    with _POSITION:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, num_bytes)
