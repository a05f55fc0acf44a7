"""Which entries of a folder are files of a table: walking it, its names, and the first bytes of a file.

A folder of a lake holds more than Parquet files: markers, checksums, logs of table formats, and notes of
people. A glob or a list takes the files that it names; these rules are for folders only.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from enum import Enum

from intarsia.errors import ListingError
from intarsia.lake.data_file import DataFile
from intarsia.storage import CountedSource, IoCounts

#: File extensions of Parquet, in lower case.
PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")

#: The first bytes of a Parquet file; the second is that of a file whose footer is encrypted, which is refused
#: when it is opened.
_MAGICS = (b"PAR1", b"PARE")

#: Two magics and the length of the footer.
_SMALLEST_FILE_BYTES = 12


class NameKind(Enum):
    """What the name of a file in a folder says about it."""

    PARQUET = "a Parquet file"
    UNCERTAIN = "has no extension: its first bytes decide"
    OTHER = "another file, which is counted"
    SIDE = "a hidden or checksum file, which is not mentioned"


def name_kind(name: str) -> NameKind:
    """What the name of a file in a folder says about it.

    Example:
        >>> [name_kind(name).name for name in ("a.PARQUET", "000000_0", "notes.txt", "_SUCCESS", "a.crc")]
        ['PARQUET', 'UNCERTAIN', 'OTHER', 'SIDE', 'SIDE']
    """
    if not is_visible(name) or name.endswith(".crc"):
        return NameKind.SIDE
    lower = name.lower()
    if lower.endswith(PARQUET_SUFFIXES):
        return NameKind.PARQUET
    return NameKind.OTHER if "." in name else NameKind.UNCERTAIN


def is_visible(name: str) -> bool:
    """Whether a file is not hidden, by its name; Spark and pyarrow hide the same names."""
    return not name.startswith((".", "_"))


def is_visible_folder(name: str) -> bool:
    """Whether a folder is searched; one of a partition column is, whatever the column's first letter."""
    return is_visible(name) or "=" in name


def begins_as_parquet(file: DataFile) -> tuple[bool, IoCounts]:
    """Whether a file begins with the magic of Parquet, and what was read to decide it: four bytes.

    Nothing is read of a file that is too small for Parquet.
    """
    if file.size_bytes < _SMALLEST_FILE_BYTES:
        return False, IoCounts()
    source = CountedSource(file.open())
    try:
        return source.read(0, len(_MAGICS[0])) in _MAGICS, source.counts
    finally:
        source.close()


def walk(folder: str) -> Iterator[str]:
    """Paths of the visible files in a local folder and the folders in it; links are followed.

    Raises:
        ListingError: If a symbolic link leads back to a folder that it lies in.
        OSError: If a folder cannot be listed: its files may belong to the table.
    """
    for root, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        folders[:] = sorted(name for name in folders if is_visible_folder(name))
        for name in folders:
            refuse_loop(os.path.join(root, name), folder)
        for name in names:
            if name_kind(name) is not NameKind.SIDE:
                yield os.path.join(root, name)


def refuse_loop(path: str, root: str) -> None:
    """Refuse a symbolic link that leads back to a folder on the way to it.

    Its files would come again and again, until the system refuses to follow.

    Args:
        path: A folder, or a link to one.
        root: The folder from which the walk started.

    Raises:
        ListingError: If it is such a link.
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
    """The error for a symbolic link that leads back."""
    return ListingError(
        f"{path}: this symbolic link leads back to a folder that it lies in, or to itself; remove it, or "
        "name the folders to read",
        reason="symbolic-link-loop",
        path=path,
    )


def _is_inside(folder: str, outer: str) -> bool:
    """Whether a folder is another one, or lies in it; both are real paths."""
    return os.path.commonpath([folder, outer]) == outer


def _raise(error: OSError) -> None:
    raise error
