"""Find the files of a table: a file, a folder, a glob, a list, or the objects of a store.

Folders of a lake also contain markers, checksums, logs of table formats and other files. In folders, names
and first bytes decide; a glob or a list may name any file.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import glob
import itertools
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from intarsia.ahead import ahead
from intarsia.amounts import some
from intarsia.errors import ListingError, ObjectStoreError, SourceError
from intarsia.lake.data_file import DataFile, Partition
from intarsia.lake.delta import open_delta_url
from intarsia.records import dataclass
from intarsia.storage import (
    MAX_CONCURRENT_REQUESTS,
    CountedSource,
    IoCounts,
    ObjectIdentity,
    QueryReads,
    StorageOptions,
    Stores,
    counting,
    find_store,
    local_path,
    split_url,
)
from intarsia.storage.object_errors import object_errors
from intarsia.storage.objects import fetch_identity, objects_below
from intarsia.storage.running_query import in_time

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

    Raises:
        ListingError: If the path is such a link.
    """
    if not os.path.islink(path):
        return
    try:
        os.stat(path)
    except OSError as error:
        raise link_error(path, error) from None
    target = os.path.realpath(path)
    parent = os.path.dirname(path)
    while True:
        if os.path.commonpath([os.path.realpath(parent), target]) == target:  # both are real paths
            raise loop_error(path)
        if len(parent) <= len(root) or parent == os.path.dirname(parent):
            return
        parent = os.path.dirname(parent)


def loop_error(path: str) -> ListingError:
    """Return the error for a symbolic link to one of its parent folders."""
    return ListingError(
        "this symbolic link points to one of its parent folders, or to itself; remove it, or name the "
        "folders to read",
        reason="symbolic-link-loop",
        path=path,
    )


def link_error(path: str, error: OSError) -> Exception:
    """Return the error for a path that may be a symbolic link, given the error of the system."""
    if error.errno == errno.ELOOP:
        return loop_error(path)
    if error.errno == errno.ENOENT and os.path.islink(path):
        return FileNotFoundError(
            f"{path}: this symbolic link points to {os.readlink(path)}, which does not exist; remove the "
            "link, or restore the file"
        )
    return error


def _raise(error: OSError) -> None:
    raise error


#: URLs of Delta tables start with this.
DELTA_PREFIX = "delta+"

#: Hive and Spark write this for a partition value that is null.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_PARTITION = re.compile(r"^([^=/]+)=([^/]*)$")


#: Returns the file of a path. If the flag is set, the path must be a regular file.
_Describe: TypeAlias = Callable[[str, bool], DataFile]


@dataclass(frozen=True)
class FoundFiles:
    """The files of a table, and the other files in their folders.

    Attributes:
        files: The files; at least one.
        others: Paths of the files in folders whose names or first bytes are not those of Parquet, without
            hidden files and checksums.
        reads: The reads of the first four bytes of files without an extension.
        root: The folder or URL that was searched; None if several were, or files were named.
        segments: The segments of the lake index beside the data in an object store, by name; None if they
            were not listed.
    """

    files: tuple[DataFile, ...]
    others: tuple[str, ...] = ()
    reads: IoCounts = field(default_factory=IoCounts)
    root: str | None = None
    segments: Mapping[str, ObjectIdentity] | None = None

    @property
    def paths(self) -> list[str]:
        """The paths of the files, each once."""
        return list(dict.fromkeys(file.path for file in self.files))


def is_table_url(source: object) -> bool:
    """Return whether a path is the URL of a table in a table format.

    Example:
        >>> is_table_url("delta+s3://lake/trips"), is_table_url("s3://lake/trips")
        (True, False)
    """
    return isinstance(source, str) and source.startswith(DELTA_PREFIX)


def find_files(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    storage_options: StorageOptions | None = None,
) -> FoundFiles:
    """Find the files of a table, ordered by path for a folder or glob, in the given order for a list.

    Args:
        source: A file, a folder, a glob, or a list of these; local, ``file://``, or a URL that obstore
            supports (``s3://``, ``gs://``, ``az://``, ``https://``, ``http://``). Folders are searched
            recursively for ``*.parquet``, ``*.parq`` and ``*.pq``, in any case, and for files without an
            extension that start with ``PAR1``. Names that start with ``.`` or ``_`` are hidden, as in Spark
            and pyarrow. Files that are named individually or match a glob may have any extension. Or the
            URL of a Delta table, such as ``delta+s3://lake/trips``, for the files of its current version.
        storage_options: Options of the stores of URLs.

    Raises:
        SourceError: If it is none of these.
        FileNotFoundError: If a path does not exist, or a folder contains no Parquet file.
        ListingError: If a symbolic link points to one of its parent folders.
        ObjectStoreError: If a store cannot be reached, refuses the request, or is unknown.
    """
    if isinstance(source, (str, os.PathLike)):
        return _find(os.fspath(source), None, storage_options)
    names, stores = _names(source), Stores(storage_options)
    at_once = MAX_CONCURRENT_REQUESTS if any(local_path(name) is None for name in names) else 1
    with contextlib.closing(ahead(lambda name: _find(name, stores, storage_options), names, at_once)) as each:
        found = [future.result() for _, future in each]
    if not found:
        raise FileNotFoundError("the list of paths is empty; pass at least one file or folder")
    return FoundFiles(
        tuple(file for item in found for file in item.files),
        tuple(dict.fromkeys(path for item in found for path in item.others)),
        sum((item.reads for item in found), IoCounts()),
        found[0].root if len(found) == 1 else None,
    )


def _names(source: object) -> list[str]:
    """Return the paths in a list.

    Raises:
        SourceError: If it is not a list of paths.
    """

    def has_bytes(source: object) -> bool:
        return isinstance(source, (bytes, bytearray)) or hasattr(source, "read")

    is_list = isinstance(source, Iterable) and not has_bytes(source)
    names: list[Any] = list(source) if is_list else [source]  # type: ignore[call-overload]
    for item in names:
        if not isinstance(item, (str, os.PathLike)):
            name, end = getattr(item, "name", None), ""
            if has_bytes(item):
                is_named = isinstance(name, str)
                end = f"; its path is {name!r}" if is_named else "; write the bytes to a file first"
            raise SourceError(
                f"{type(item).__name__} is not a path; pass a file, a folder, a glob, a URL or a list of "
                f"these{end}",
                reason="not-a-path",
            )
    return [os.fspath(item) for item in names]


def _find(name: str, stores: Stores | None, options: StorageOptions | None) -> FoundFiles:
    if not name:
        raise FileNotFoundError("the path is empty; pass a file, a folder, a glob or a URL")
    if is_table_url(name):
        table = open_delta_url(name.removeprefix(DELTA_PREFIX), options)
        if not table.files:
            raise FileNotFoundError(f"{name}: the table has no files")
        return FoundFiles(tuple(table.files), root=table.name)
    path = local_path(name)
    if path is None:
        return _find_remote(name, stores or Stores(options))
    if os.path.isfile(path):
        return FoundFiles((_local_file(os.path.dirname(path), path, is_certain=True),))
    if os.path.isdir(path):
        return _choose(path, (), dict(walk(path)), partial(_local_file, path))
    if glob.has_magic(path):
        return _find_matches(path)
    refuse_loop(path, path)
    problem = "no such file or folder"
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError):
        os.stat(path)  # raises if the path may exist
        problem = "not a regular file"
    raise FileNotFoundError(f"{path}: {problem}")


def _find_matches(pattern: str) -> FoundFiles:
    """Find the files that match a glob, and those in matching folders."""
    parts = Path(pattern).parts
    fixed = [*itertools.takewhile(lambda part: not glob.has_magic(part), parts)]
    root = str(Path(*fixed)) if fixed else ""
    named: set[str] = set()
    inside: dict[str, FileRole] = {}
    for match in _matches(pattern, root):
        *folders, name = os.path.relpath(match, root or ".").split(os.sep)
        if not (is_visible(name or ".") and all(map(is_visible_folder, folders))):
            continue
        outer = match
        while len(outer) > len(root):  # `glob` follows links to parents
            refuse_loop(outer, root)
            outer = os.path.dirname(outer)
        if os.path.isdir(match):
            inside.update(walk(match))
        else:
            named.add(match)
    if not named and not inside:
        raise FileNotFoundError(f"{pattern}: no file matches")
    # a pattern like ** matches folders and their files; each file counts once
    return _choose(pattern, named, inside, partial(_local_file, root))


def _matches(pattern: str, root: str) -> list[str]:
    """Return the paths that match a glob. `glob` passes over folders that cannot be listed.

    Args:
        root: The folder before the first wildcard.

    Raises:
        ListingError: If a symbolic link points to itself.
        OSError: If a folder on the way cannot be listed, or is a broken link.
    """
    if "**" in pattern:
        if os.path.isdir(root or "."):
            # `glob` follows a link to a parent until the system refuses
            deque(walk(root or "."), maxlen=0)
        return glob.glob(pattern, recursive=True)
    found = ["/" if pattern.startswith("/") else ""]
    for part in pattern.split("/"):
        found = [os.path.join(folder, name) for folder in found for name in _names_in(folder, part)]
    return found


def _names_in(folder: str, part: str) -> list[str]:
    """Return the names in a folder that match a part of a glob; none if it is not a folder."""
    try:
        if glob.has_magic(part):
            return [
                name for name in fnmatch.filter(os.listdir(folder or "."), part) if is_visible_folder(name)
            ]
        os.lstat(os.path.join(folder, part) or ".")
    except NotADirectoryError:
        return []
    except OSError as error:
        found = link_error(folder, error)
        if found is error and error.errno == errno.ENOENT:
            return []
        raise found from None
    return [part]


def _choose(
    source: str, named: Iterable[str], inside: Mapping[str, FileRole], describe: _Describe
) -> FoundFiles:
    """Choose the files of a table from those of a folder, a glob or a listing.

    Args:
        source: The folder, glob or URL, for errors.
        inside: Paths of files inside folders, and their roles.
        describe: Returns the file of a path.
    """
    roles = {**inside, **dict.fromkeys(named, FileRole.PARQUET)}
    of_role: dict[FileRole, list[str]] = {role: [] for role in FileRole}
    for path, role in roles.items():
        of_role[role].append(path)
    others, uncertain = set(of_role[FileRole.OTHER]), sorted(of_role[FileRole.UNCERTAIN])
    paths = sorted([*of_role[FileRole.PARQUET], *uncertain])
    files = {path: describe(path, roles[path] is FileRole.PARQUET) for path in paths}
    is_remote = any(files[path].is_remote for path in uncertain)
    begins = ahead(
        lambda path: begins_as_parquet(files[path]), uncertain, MAX_CONCURRENT_REQUESTS if is_remote else 1
    )
    reads = QueryReads()
    with counting(reads):
        for path, future in begins:
            if not future.result():
                others.add(path)
                del files[path]
    ignored = tuple(sorted(others))
    if not files:
        end = ""
        if ignored:
            suffixes = ", ".join(f"*{suffix}" for suffix in PARQUET_SUFFIXES)
            end = (
                f"; ignored {some(ignored)}, because only {suffixes} and files without an extension that "
                "begin with PAR1 are read; to read files with other names, pass their paths or a glob"
            )
        raise FileNotFoundError(f"{source}: no Parquet file in this folder{end}")
    counts = IoCounts(reads.requests, reads.bytes)
    return FoundFiles(tuple(files.values()), ignored, counts, None if named else source)


def _local_file(root: str, path: str, is_certain: bool) -> DataFile:
    """Describe a local file.

    Args:
        root: The folder below which folders are partition columns, as in `pyarrow.parquet.read_table`.
        is_certain: Whether it must be a regular file.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        raise link_error(path, error) from None
    is_file = stat.S_ISREG(status.st_mode)
    if is_certain and not is_file:  # opening a pipe would block
        raise FileNotFoundError(f"{path}: not a regular file")
    return DataFile(
        path,
        status.st_size if is_file else 0,
        _local_partition(root, path.rpartition(os.sep)[0]),
        modified=status.st_mtime,
        times_ns=(status.st_mtime_ns, status.st_ctime_ns),
    )


@lru_cache(maxsize=64)  # files are described folder by folder
def _local_partition(root: str, folder: str) -> Partition:
    relative = os.path.relpath(folder, root) if root else folder
    return _partition_values(relative.split(os.sep))


def _partition_values(folders: Sequence[str]) -> Partition:
    found: list[tuple[str, str | None]] = []
    for folder in folders:
        match = _PARTITION.match(folder)
        if match is not None:
            name, value = match.groups()
            found.append((unquote(name), None if value == HIVE_NULL else unquote(value)))
    return tuple(found)


def _find_remote(url: str, stores: Stores) -> FoundFiles:
    from obstore.store import HTTPStore

    store, key = stores.find(url)
    one = None
    try:
        if key and not key.endswith("/"):
            identity = fetch_identity(store, key, url)
            file = DataFile(url, identity.size_bytes, (), store, key, identity.e_tag, identity.modified)
            one = FoundFiles((file,))
    except FileNotFoundError:
        if isinstance(store, HTTPStore):
            raise  # if a web server has folders, the request above finds them
    # an Azure account with a hierarchical namespace has an empty object for each folder
    if one is not None and (one.files[0].size_bytes or isinstance(store, HTTPStore)):
        return one
    try:
        listing = list_objects(url, store)
    except ObjectStoreError:  # a user may read objects without the permission to list them
        if one is None:
            raise
        return one
    if not listing.files:
        if one is not None:
            return one
        is_glob = glob.has_magic(key)  # which may also be the key of an object
        missing = (
            "globs are not supported in URLs; pass the folder" if is_glob else "no such object or folder"
        )
        raise FileNotFoundError(f"{url}: {missing}")
    roles = {path: role_of_name(path.rpartition("/")[2]) for path in listing.files}
    return replace(_choose(url, (), roles, lambda path, _: listing.files[path]), segments=listing.segments)


class ObjectListing(NamedTuple):
    """The objects in a folder of a store.

    Attributes:
        files: The visible objects by URL, with any names.
        segments: The segments of the lake index beside the data, by name.
    """

    files: dict[str, DataFile]
    segments: dict[str, ObjectIdentity]


def list_objects(url: str, store: Any = None, inside: str = "") -> ObjectListing:
    """List the objects in a folder of a store.

    Args:
        store: Its obstore store; None to find one by the environment.
        inside: The folder in this folder whose objects are listed; by default all are.

    Raises:
        ObjectStoreError: If the store cannot be reached, refuses the request, or is unknown.
    """
    bucket, key = split_url(url)
    store = find_store(url)[0] if store is None else store
    prefix = key.rstrip("/")
    listed_prefix = f"{prefix}/{inside}".strip("/") or None
    with object_errors(url):
        listed = in_time(url, lambda: objects_below(store, listed_prefix))
    base = bucket.rstrip("/")
    files: dict[str, DataFile] = {}
    segments: dict[str, ObjectIdentity] = {}
    for item in listed:
        name = str(item["path"])
        *folders, last = name[len(prefix) :].lstrip("/").split("/")
        if is_visible(last) and all(map(is_visible_folder, folders)):
            path, (size, e_tag, modified) = f"{base}/{name}", ObjectIdentity.of(item)
            files[path] = DataFile(path, size, _partition_values(folders), store, name, e_tag, modified)
        elif folders == [LAKE_INDEX_FOLDER] and last.endswith(SEGMENT_SUFFIX):
            segments[last] = ObjectIdentity.of(item)
    return ObjectListing(files, segments)
