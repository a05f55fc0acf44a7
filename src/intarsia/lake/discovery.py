"""Find the files of a table: a file, a folder, a glob or a list of these, at local paths or URLs."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from intarsia.errors import ObjectStoreError, SourceError
from intarsia.lake.data_file import DataFile
from intarsia.lake.folder import (
    LAKE_INDEX_FOLDER,
    PARQUET_SUFFIXES,
    SEGMENT_SUFFIX,
    FileRole,
    begins_as_parquet,
    is_visible,
    is_visible_folder,
    loop_error,
    refuse_loop,
    role_of_name,
    walk,
)
from intarsia.lake.table_formats import define_table, is_table_url
from intarsia.read.ahead import ahead
from intarsia.storage import (
    MAX_CONCURRENT_REQUESTS,
    IoCounts,
    ObjectIdentity,
    QueryReads,
    StorageOptions,
    Stores,
    find_store,
    local_path,
    split_url,
)
from intarsia.storage.object_errors import object_errors
from intarsia.storage.objects import fetch_identity
from intarsia.storage.running_query import in_time

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
    stores = Stores(storage_options)
    if isinstance(source, (str, os.PathLike)):
        return _find(os.fspath(source), stores, storage_options)
    names = _names(source)
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
    has_bytes = isinstance(source, (bytes, bytearray)) or hasattr(source, "read")
    if not isinstance(source, Iterable) or has_bytes:
        raise _not_a_path(source, has_bytes=has_bytes)
    names = []
    for item in source:
        if not isinstance(item, (str, os.PathLike)):
            raise _not_a_path(item, has_bytes=hasattr(item, "read"))
        names.append(os.fspath(item))
    return names


def _not_a_path(source: object, *, has_bytes: bool) -> SourceError:
    name = getattr(source, "name", None)
    hint = "write the bytes to a file first" if not isinstance(name, str) else f"its path is {name!r}"
    return SourceError(
        f"{type(source).__name__} is not a path; pass a file, a folder, a glob, a URL or a list of these"
        + (f"; {hint}" if has_bytes else ""),
        reason="not-a-path",
    )


def _find(name: str, stores: Stores, options: StorageOptions | None) -> FoundFiles:
    if not name:
        raise FileNotFoundError("the path is empty; pass a file, a folder, a glob or a URL")
    table = define_table(name, options) if is_table_url(name) else None
    if table is not None:
        if not table.files:
            raise FileNotFoundError(f"{name}: the table has no files")
        return FoundFiles(table.files, root=table.name)
    path = local_path(name)
    if path is None:
        return _find_remote(name, stores)
    if os.path.isfile(path):
        return FoundFiles((_LocalFiles(os.path.dirname(path))(path, True),))
    if os.path.isdir(path):
        return _choose(path, (), dict(walk(path)), _LocalFiles(path))
    if glob.has_magic(path):
        return _find_matches(path)
    refuse_loop(path, path)
    raise FileNotFoundError(f"{path}: no such file or folder")


def _find_matches(pattern: str) -> FoundFiles:
    """Find the files that match a glob, and those in matching folders."""
    root = _fixed_part(pattern)
    if "**" in pattern and os.path.isdir(root or "."):
        # `glob` follows a link to a parent until the system refuses
        deque(walk(root or "."), maxlen=0)
    matches = [match for match in glob.glob(pattern, recursive=True) if _is_visible_below(match, root)]
    named: set[str] = set()
    inside: dict[str, FileRole] = {}
    for match in matches:
        _refuse_loops_to(match, root)
        if os.path.isdir(match):
            inside.update(walk(match))
        else:
            named.add(match)
    if not named and not inside:
        raise FileNotFoundError(f"{pattern}: no file matches")
    # a pattern like ** matches folders and their files; each file counts once
    return _choose(pattern, named, inside, _LocalFiles(root))


def _choose(
    source: str, named: Iterable[str], inside: Mapping[str, FileRole], describe: _Describe
) -> FoundFiles:
    """Choose the files of a table from those of a folder, a glob or a listing.

    Args:
        source: The folder, glob or URL, for errors.
        named: Paths with any extension.
        inside: Paths of files inside folders, and their roles.
        describe: Returns the file of a path.
    """
    roles = {**inside, **dict.fromkeys(named, FileRole.PARQUET)}
    others = {path for path, role in roles.items() if role is FileRole.OTHER}
    uncertain = sorted(path for path, role in roles.items() if role is FileRole.UNCERTAIN)
    paths = sorted([*(path for path, role in roles.items() if role is FileRole.PARQUET), *uncertain])
    files = {path: describe(path, roles[path] is FileRole.PARQUET) for path in paths}
    is_remote = any(files[path].is_remote for path in uncertain)
    begins = ahead(
        lambda path: begins_as_parquet(files[path]), uncertain, MAX_CONCURRENT_REQUESTS if is_remote else 1
    )
    reads = QueryReads()
    with reads.counting():
        for path, future in begins:
            if not future.result():
                others.add(path)
                del files[path]
    if not files:
        raise FileNotFoundError(f"{source}: no Parquet file in this folder{_left_alone(sorted(others))}")
    root = None if named else source
    return FoundFiles(
        tuple(files.values()), tuple(sorted(others)), IoCounts(reads.requests, reads.bytes), root
    )


def _left_alone(others: Sequence[str]) -> str:
    """Return the end of the error about a folder with only other files."""
    if not others:
        return ""
    more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
    suffixes = ", ".join(f"*{suffix}" for suffix in PARQUET_SUFFIXES)
    return (
        f"; ignored {others[0]}{more}, because only {suffixes} and files without an extension that begin "
        "with PAR1 are read; to read files with other names, pass their paths or a glob"
    )


def _fixed_part(pattern: str) -> str:
    parts = Path(pattern).parts
    fixed = next((ordinal for ordinal, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return str(Path(*parts[:fixed])) if fixed else ""


def _is_visible_below(path: str, root: str) -> bool:
    """Return whether a file and its folders below the root are all visible."""
    *folders, name = os.path.relpath(path, root or ".").split(os.sep)
    return is_visible(name or ".") and all(is_visible_folder(folder) for folder in folders)


def _refuse_loops_to(path: str, root: str) -> None:
    """Raise an error if a path contains a link to one of its parents, which `glob` follows."""
    while len(path) > len(root):
        refuse_loop(path, root)
        path = os.path.dirname(path)


class _LocalFiles:
    """Describes local files.

    Args:
        root: The folder below which folders are partition columns, as in `pyarrow.parquet.read_table`.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._partitions: dict[str, tuple[tuple[str, str | None], ...]] = {}

    def __call__(self, path: str, is_certain: bool) -> DataFile:
        try:
            status = os.stat(path)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise loop_error(path) from None
            raise
        is_file = stat.S_ISREG(status.st_mode)
        if is_certain and not is_file:  # opening a pipe would block
            raise FileNotFoundError(f"{path}: not a regular file")
        return DataFile(
            path,
            status.st_size if is_file else 0,
            self._partition(path.rpartition(os.sep)[0]),
            modified=status.st_mtime,
            times_ns=(status.st_mtime_ns, status.st_ctime_ns),
        )

    def _partition(self, folder: str) -> tuple[tuple[str, str | None], ...]:
        if folder not in self._partitions:
            relative = os.path.relpath(folder, self._root) if self._root else folder
            self._partitions[folder] = _partition_values(relative.split(os.sep))
        return self._partitions[folder]


def _partition_values(folders: Sequence[str]) -> tuple[tuple[str, str | None], ...]:
    found = [match.groups() for folder in folders if (match := _PARTITION.match(folder))]
    return tuple((unquote(name), None if value == HIVE_NULL else unquote(value)) for name, value in found)


def _find_remote(url: str, stores: Stores) -> FoundFiles:
    from obstore.store import HTTPStore

    store, key = stores.find(url)
    if glob.has_magic(key):
        raise FileNotFoundError(f"{url}: globs are not supported in URLs; pass the folder")
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
        raise FileNotFoundError(f"{url}: no such object or folder")
    roles = {path: role_of_name(path.rpartition("/")[2]) for path in listing.files}
    chosen = _choose(url, (), roles, lambda path, _: listing.files[path])
    return replace(chosen, segments=listing.segments)


class ObjectListing(NamedTuple):
    """The objects in a folder of a store.

    Attributes:
        files: The visible objects by URL, with any names.
        segments: The segments of the lake index beside the data, by name.
    """

    files: dict[str, DataFile]
    segments: dict[str, ObjectIdentity]


def list_objects(url: str, store: Any = None) -> ObjectListing:
    """List the objects in a folder of a store.

    Args:
        url: The folder.
        store: Its obstore store; None to find one by the environment.

    Raises:
        ObjectStoreError: If the store cannot be reached, refuses the request, or is unknown.
    """
    import obstore

    bucket, key = split_url(url)
    store = find_store(url)[0] if store is None else store
    prefix = key.rstrip("/")
    with object_errors(url):
        listed = in_time(
            url, lambda: [item for batch in obstore.list(store, prefix=prefix or None) for item in batch]
        )
    base = bucket.rstrip("/")
    files: dict[str, DataFile] = {}
    segments: dict[str, ObjectIdentity] = {}
    for item in listed:
        name = str(item["path"])
        *folders, last = name[len(prefix) :].lstrip("/").split("/")
        if is_visible(last) and all(map(is_visible_folder, folders)):
            identity, path = ObjectIdentity.of(item), f"{base}/{name}"
            files[path] = DataFile(
                path,
                identity.size_bytes,
                _partition_values(folders),
                store,
                name,
                identity.e_tag,
                identity.modified,
            )
        elif folders == [LAKE_INDEX_FOLDER] and last.endswith(SEGMENT_SUFFIX):
            segments[last] = ObjectIdentity.of(item)
    return ObjectListing(files, segments)


def list_segments(root: str, store: Any) -> dict[str, ObjectIdentity]:
    """List the segments of the lake index beside the data in an object store, without listing the lake.

    Args:
        root: The URL of the lake.
        store: Its obstore store.

    Raises:
        ObjectStoreError: If the store cannot be reached or refuses the request.
    """
    listing = list_objects(f"{root.rstrip('/')}/{LAKE_INDEX_FOLDER}", store)
    names = {file.key.rpartition("/")[2]: file for file in listing.files.values()}
    return {
        name: ObjectIdentity(file.size_bytes, file.e_tag, file.modified)
        for name, file in names.items()
        if name.endswith(SEGMENT_SUFFIX)
    }
