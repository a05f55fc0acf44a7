"""Find the Parquet files of a folder by their names and first bytes.

Folders of a lake also contain markers, checksums, logs of table formats and other files. These rules apply to
folders only; a glob or a list may name any file.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from enum import Enum

from intarsia.errors import ListingError
from intarsia.lake.data_file import DataFile
from intarsia.storage import CountedSource

#: File extensions of Parquet, in lower case.
PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")

#: The name of the folder with a lake index beside the data. Names that start with ``_`` are hidden from
#: Spark, Hive, pyarrow and globs.
LAKE_INDEX_FOLDER = "_intarsia"

#: The end of the name of a segment of a lake index.
SEGMENT_SUFFIX = ".lake"

#: The first bytes of a Parquet file. Files with an encrypted footer start with the second magic; they are
#: refused when they are opened.
_MAGICS = (b"PAR1", b"PARE")

#: Two magics and the length of the footer.
_SMALLEST_FILE_BYTES = 12


class FileRole(Enum):
    """The role of a file in a folder, according to its name."""

    PARQUET = "a Parquet file"
    UNCERTAIN = "a file without an extension; its first bytes decide"
    OTHER = "another file; it is counted"
    SIDE = "a hidden file or checksum; it is not counted"


def role_of_name(name: str) -> FileRole:
    """Return the role of a file in a folder, according to its name.

    Example:
        >>> [role_of_name(name).name for name in ("a.PARQUET", "000000_0", "notes.txt", "_SUCCESS", "a.crc")]
        ['PARQUET', 'UNCERTAIN', 'OTHER', 'SIDE', 'SIDE']
    """
    if not is_visible(name):
        return FileRole.SIDE
    # the usual case first, for lakes of many files
    if name.endswith(PARQUET_SUFFIXES) or name.lower().endswith(PARQUET_SUFFIXES):
        return FileRole.PARQUET
    if name.endswith(".crc"):
        return FileRole.SIDE
    return FileRole.OTHER if "." in name else FileRole.UNCERTAIN


def is_visible(name: str) -> bool:
    """Return whether a name is not hidden; Spark and pyarrow hide the same names."""
    return not name.startswith((".", "_"))


def is_visible_folder(name: str) -> bool:
    """Return whether a folder is searched; folders of partition columns always are."""
    return is_visible(name) or "=" in name


def begins_as_parquet(file: DataFile) -> bool:
    """Return whether a file starts with the magic of Parquet.

    Four bytes are read, or none if the file is too small for Parquet.
    """
    if file.size_bytes < _SMALLEST_FILE_BYTES:
        return False
    with contextlib.closing(CountedSource(file.open())) as source:
        return source.read(0, len(_MAGICS[0])) in _MAGICS


def walk(folder: str) -> Iterator[tuple[str, FileRole]]:
    """Yield the visible files in a local folder and its subfolders, following links.

    Yields:
        The path of a file, and its role.

    Raises:
        ListingError: If a symbolic link points to one of its parent folders.
        OSError: If a folder cannot be listed, because its files may belong to the table.
    """
    for root, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        folders[:] = sorted(name for name in folders if is_visible_folder(name))
        for name in folders:
            refuse_loop(os.path.join(root, name), folder)
        prefix = os.path.join(root, "")
        for name in names:
            role = role_of_name(name)
            if role is not FileRole.SIDE:
                yield prefix + name, role


def refuse_loop(path: str, root: str) -> None:
    """Raise an error if a path is a symbolic link to one of its parent folders.

    Its files would be listed repeatedly, until the system refuses to follow the link.

    Args:
        path: A folder, or a link to one.
        root: The folder from which the walk started.

    Raises:
        ListingError: If the path is such a link.
    """
    if not os.path.islink(path):
        return
    try:
        os.stat(path)
    except OSError as error:
        raise loop_error(path) if error.errno == errno.ELOOP else error from None
    target = os.path.realpath(path)
    parent = os.path.dirname(path)
    while True:
        if _is_inside(os.path.realpath(parent), target):
            raise loop_error(path)
        if len(parent) <= len(root) or parent == os.path.dirname(parent):
            return
        parent = os.path.dirname(parent)


def loop_error(path: str) -> ListingError:
    """Return the error for a symbolic link to one of its parent folders."""
    return ListingError(
        f"{path}: this symbolic link points to one of its parent folders, or to itself; remove it, or name "
        "the folders to read",
        reason="symbolic-link-loop",
        path=path,
    )


def _is_inside(folder: str, outer: str) -> bool:
    """Return whether a folder is equal to or inside another one; both are real paths."""
    return os.path.commonpath([folder, outer]) == outer


def _raise(error: OSError) -> None:
    raise error
