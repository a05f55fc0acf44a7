"""The segments of one lake: files in the user's cache folder, or in ``_intarsia`` beside the data.

A segment is never changed. A writer adds segments under new names and removes those that they replace, so any
number
of readers and writers may work at the same time: at worst, two segments contain the same file.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import xxhash

from intarsia.errors import CorruptFileError, FormatError, IntarsiaError
from intarsia.file import Ignored
from intarsia.lake.folder import LAKE_INDEX_FOLDER, SEGMENT_SUFFIX
from intarsia.lake.index.segment import Segment
from intarsia.storage import CountedSource, LocalFile

#: Sets the user's cache folder.
CACHE_VARIABLE = "INTARSIA_CACHE_DIR"

_TEMPORARY = ".tmp-"

#: A temporary file that is older was left by a process that was killed.
_ABANDONED_SECONDS = 3600

Location = Literal["cache", "beside"]


@dataclass(frozen=True)
class LakeIndexFolder:
    """The folder with the segments of a lake.

    Attributes:
        path: The folder; it need not exist.
        root: The root of the lake, to which the paths in segments are relative: an absolute path or a URL.
        location: Where the folder is.
    """

    path: str
    root: str
    location: Location

    @classmethod
    def of(cls, root: str, location: Location) -> LakeIndexFolder:
        """Return the folder for the root of a lake.

        Args:
            root: An absolute path or a URL.
            location: ``"cache"`` or ``"beside"``.

        Raises:
            ValueError: If the location is unknown, or ``"beside"`` for a URL.
        """
        if location == "beside":
            if "://" in root:
                raise ValueError(
                    f"{root}: a lake index beside the data needs a local folder; use location='cache'"
                )
            return cls(os.path.join(root, LAKE_INDEX_FOLDER), root, location)
        if location != "cache":
            raise ValueError(f"location is {location!r}; it must be 'cache' or 'beside'")
        return cls(
            os.path.join(cache_folder(), "lakes", xxhash.xxh3_128_hexdigest(root.encode())), root, location
        )

    @classmethod
    def find(cls, root: str) -> list[LakeIndexFolder]:
        """Return the existing folders for a lake: its own, and those of lakes that contain it."""
        found = []
        for folder in _ancestors(root):
            candidates = [cls.of(folder, "cache")]
            if "://" not in folder:
                candidates.insert(0, cls.of(folder, "beside"))
            found += [candidate for candidate in candidates if _is_trusted(candidate, root)]
        return found

    @property
    def is_on_this_machine(self) -> bool:
        """Whether only this machine reads it, so that change times can be compared."""
        return self.location == "cache"

    def names(self) -> list[str]:
        """Return the names of the segments in order."""
        try:
            return sorted(name for name in os.listdir(self.path) if name.endswith(SEGMENT_SUFFIX))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def open_segment(self, name: str) -> Segment | Ignored:
        """Open a segment, or return why it is ignored."""
        path = os.path.join(self.path, name)
        source = None
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would block
                raise CorruptFileError("it is not a file", reason="not-a-file", path=path)
            source = CountedSource(LocalFile(path))
            return Segment(source)
        except (FormatError, OSError) as error:
            if source is not None:
                source.close()
            return ignored_segment(path, error)

    def open_segments(self, names: Sequence[str]) -> list[Segment | Ignored]:
        """Open segments, or return why they are ignored."""
        return [self.open_segment(name) for name in names]

    @staticmethod
    def name_of(data: bytes) -> str:
        """Return the name of a segment, which depends on its bytes."""
        return f"{xxhash.xxh3_64_hexdigest(data)}{SEGMENT_SUFFIX}"

    def add(self, data: bytes) -> str:
        """Write a segment, and return its name.

        Raises:
            OSError: If the folder cannot be written.
        """
        os.makedirs(self.path, exist_ok=True)
        self._remove_abandoned()
        name = self.name_of(data)
        write_new_file(self.path, name, data)
        return name

    def remove(self, name: str) -> None:
        """Remove a segment, if another process has not removed it already."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.path, name))

    def clear(self) -> int:
        """Remove all segments, and the folder if nothing else is in it.

        Returns:
            The size of the segments in bytes.

        Raises:
            OSError: If a segment cannot be removed.
        """
        num_bytes = 0
        for name in self.names():
            with contextlib.suppress(FileNotFoundError):
                num_bytes += os.path.getsize(os.path.join(self.path, name))
            self.remove(name)
        with contextlib.suppress(OSError):  # another process adds a segment, or there is no folder
            os.rmdir(self.path)
        return num_bytes

    def _remove_abandoned(self) -> None:
        for name in os.listdir(self.path):
            path = os.path.join(self.path, name)
            with contextlib.suppress(FileNotFoundError):
                if name.startswith(_TEMPORARY) and time.time() - os.stat(path).st_mtime > _ABANDONED_SECONDS:
                    os.unlink(path)


def write_new_file(folder: str, name: str, data: bytes) -> None:
    """Write a file that appears under its name when it is complete.

    Raises:
        OSError: If the folder cannot be written.
    """
    temporary = os.path.join(folder, f"{_TEMPORARY}{os.getpid()}-{time.monotonic_ns()}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, os.path.join(folder, name))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def is_own_folder(path: str) -> bool:
    """Return whether a folder exists and belongs to this user, so that no other user has written to it."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def ignored_segment(path: str, error: IntarsiaError | OSError | ValueError) -> Ignored:
    """Return the note about a segment, or a part of it, that cannot be used."""
    code = error.reason if isinstance(error, IntarsiaError) else None
    message = error.message if isinstance(error, FormatError) else str(error)
    return Ignored(path, "lake index", message, code or "storage-error")


def cache_folder() -> str:
    """Return the user's cache folder, which need not exist.

    It is ``$INTARSIA_CACHE_DIR``; by default ``intarsia`` in ``$XDG_CACHE_HOME``, ``~/Library/Caches`` on
    macOS, or ``~/.cache``.
    """
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return os.path.abspath(own)
    home = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(home), "intarsia")


def _is_trusted(folder: LakeIndexFolder, root: str) -> bool:
    """Return whether a folder exists and belongs to this user, the owner of the lake or the administrator.

    Any user may create a folder in a shared parent folder such as ``/tmp``, and a forged lake index hides
    rows.
    """
    try:
        status = os.stat(folder.path)
        if not stat.S_ISDIR(status.st_mode):
            return False
        if status.st_uid in (0, os.geteuid()):
            return True
        return "://" not in root and status.st_uid == os.stat(root).st_uid
    except OSError:
        return False


def _ancestors(root: str) -> Iterator[str]:
    """Yield a root and the folders that contain it, up to the root of the file system or of the store."""
    scheme, separator, rest = root.rpartition("://")
    while rest:
        yield f"{scheme}{separator}{rest}"
        parent = rest.rpartition("/")[0]
        if not parent or parent == rest:
            return
        rest = parent
