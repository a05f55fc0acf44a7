"""Finds the files of a table from a path: a file, a folder, a glob, a list; local or behind a URL."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from intarsia.errors import FormatError
from intarsia.lake.data_file import DataFile
from intarsia.storage import ObjectIdentity, find_store, local_path
from intarsia.storage.object_errors import object_errors

#: What Hive and Spark write for a partition value that is null.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_PARTITION = re.compile(r"^([^=/]+)=([^/]*)$")
_INT32 = re.compile(r"^-?\d{1,10}$")


def find_files(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[DataFile]:
    """Find the files of a table: those of a folder or glob in the order of their paths, a list in its own.

    Args:
        source: A file, a folder (searched through; names that start with ``.`` or ``_`` are left out, as
            Spark and pyarrow do), a glob, or a list of these; local, ``file://``, or a URL that
            obstore knows (``s3://``, ``gs://``, ``az://``, ``https://``, ``http://``).

    Raises:
        FileNotFoundError: If there is no such file, or no Parquet file in a folder.
        ObjectStoreError: If a store cannot be reached, refuses the request, or is not known.
    """
    if isinstance(source, (str, os.PathLike)):
        return _find(os.fspath(source))
    found = [file for item in source for file in _find(os.fspath(item))]
    if not found:
        raise FileNotFoundError("the list of paths is empty")
    return found


def _find(name: str) -> list[DataFile]:
    path = local_path(name)
    if path is None:
        return _find_remote(name)
    if os.path.isfile(path):
        return [_local(path, os.path.dirname(path))]
    if os.path.isdir(path):
        found = sorted(_walk(path))
        if not found:
            raise FileNotFoundError(f"{path}: no Parquet file in this folder")
        return [_local(name, path) for name in found]
    if glob.has_magic(path):
        root = _fixed_part(path)
        found = glob.glob(path, recursive=True)
        matches = [
            match for match in found if _is_visible_below(match, root) and not _is_in_loop(match, root)
        ]
        # a pattern such as ** matches folders and what lies in them: each file counts once
        names = {name for match in matches for name in ([match] if os.path.isfile(match) else _walk(match))}
        if not names:
            raise FileNotFoundError(f"{path}: no file matches")
        return [_local(name, root) for name in sorted(names)]
    raise FileNotFoundError(f"{path}: no such file or folder")


def _fixed_part(pattern: str) -> str:
    parts = Path(pattern).parts
    fixed = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return str(Path(*parts[:fixed])) if fixed else ""


def _is_visible(path: str) -> bool:
    return not os.path.basename(path).startswith((".", "_"))


def _is_data(name: str) -> bool:
    """Whether a file in a folder is one of the table, by its name; Hadoop and Delta lay others beside."""
    return _is_visible(name) and not name.endswith((".crc", ".json"))


def _is_visible_below(path: str, root: str) -> bool:
    """Whether neither a file nor a folder that it lies in, below the root, is hidden."""
    *folders, name = os.path.relpath(path, root or ".").split(os.sep)
    return _is_visible(name or ".") and all(_is_visible(folder) or "=" in folder for folder in folders)


def _walk(folder: str) -> Iterable[str]:
    for root, folders, names in os.walk(folder, followlinks=True):
        # "_" and "." hide, unless it is a partition column whose name begins so
        visible = (name for name in folders if _is_visible(name) or "=" in name)
        folders[:] = sorted(name for name in visible if not _leads_back(os.path.join(root, name)))
        for name in names:
            if _is_data(name):
                yield os.path.join(root, name)


def _is_in_loop(path: str, root: str) -> bool:
    """Whether the way from a root to a path leads back to where it came from; ``**`` goes such ways."""
    while len(path) > len(root):
        if _leads_back(path):
            return True
        path = os.path.dirname(path)
    return False


def _leads_back(folder: str) -> bool:
    """Whether a folder is a link to one that it lies in, whose files would come again and again."""
    if not os.path.islink(folder):
        return False
    inside, target = os.path.realpath(os.path.dirname(folder)), os.path.realpath(folder)
    return os.path.commonpath([inside, target]) == target


def _local(path: str, root: str) -> DataFile:
    # a file named alone still shows its partition, as `pyarrow.parquet.read_table` does not: keep to the root
    relative = os.path.relpath(path, root) if root else path
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):  # to open a pipe would wait for whoever writes to it
        raise FileNotFoundError(f"{path}: this is not a file")
    partition = _partition_values(relative.split(os.sep)[:-1])
    return DataFile(path, found.st_size, partition, modified=found.st_mtime)


def _partition_values(folders: Sequence[str]) -> tuple[tuple[str, str | None], ...]:
    found = [match.groups() for folder in folders if (match := _PARTITION.match(folder))]
    return tuple((unquote(name), None if value == HIVE_NULL else unquote(value)) for name, value in found)


def _find_remote(url: str) -> list[DataFile]:
    import obstore
    from obstore.store import HTTPStore

    store, key = find_store(url)
    if glob.has_magic(key):
        raise FileNotFoundError(f"{url}: globs are not supported behind URLs; name the folder")
    try:
        if key and not key.endswith("/"):
            with object_errors(url):
                found = ObjectIdentity.of(obstore.head(store, key))
            return [DataFile(url, found.size_bytes, (), store, key, found.e_tag, found.modified)]
    except FileNotFoundError:
        if isinstance(store, HTTPStore):
            raise  # a web server that has folders finds them as it finds files
    prefix = key.rstrip("/")
    with object_errors(url):
        listed = [item for batch in obstore.list(store, prefix=prefix or None) for item in batch]
    base = url[: len(url) - len(key)].rstrip("/")
    files = []
    for item in sorted(listed, key=lambda item: str(item["path"])):
        inside = str(item["path"])[len(prefix) :].lstrip("/").split("/")
        if _is_data(inside[-1]) and all(_is_visible(part) or "=" in part for part in inside[:-1]):
            partition = _partition_values(inside[:-1])
            found, name = ObjectIdentity.of(item), str(item["path"])
            files.append(
                DataFile(
                    f"{base}/{name}", found.size_bytes, partition, store, name, found.e_tag, found.modified
                )
            )
    if not files:
        raise FileNotFoundError(f"{url}: no such object or folder")
    return files


def partition_types(files: Sequence[DataFile]) -> dict[str, pa.DataType]:
    """Type of each partition column: ``int32`` where all values fit, else ``string``, as in pyarrow.

    Raises:
        FormatError: If the partition columns of some files differ from those of the rest.
    """
    names = [name for name, _ in files[0].partition] if files else []
    for file in files:
        if [name for name, _ in file.partition] != names:
            found = [name for name, _ in file.partition]
            raise FormatError(
                f"its folders name the partition columns {found}, those of other files {names}; open one "
                "kind of folder at a time",
                path=file.path,
            )
    kinds: dict[str, pa.DataType] = {}
    for place, name in enumerate(names):
        values = [value for file in files if (value := file.partition[place][1]) is not None]
        fits = all(_INT32.match(value) and -(2**31) <= int(value) < 2**31 for value in values)
        kinds[name] = pa.int32() if values and fits else pa.string()
    return kinds


def partition_scalar(text: str | None, data_type: pa.DataType) -> pa.Scalar:
    """A partition value as a scalar of its column's type."""
    if text is None:
        return pa.scalar(None, data_type)
    return pa.scalar(int(text) if pa.types.is_integer(data_type) else text, data_type)
