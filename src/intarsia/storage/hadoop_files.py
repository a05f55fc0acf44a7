r"""Files that Hadoop and Spark keep beside data, and that must stay true when a file changes.

**Checksums.** Hadoop checks a local file on reads by the sidecar ``.NAME.crc`` next to it: ``crc\0``, the
number of bytes that each checksum covers (32 bits, big-endian), and then the CRC-32 of each of these
stretches of the file (32 bits, big-endian; the last stretch may be shorter).

**Logs.** The log of a streaming sink of Spark, in ``_spark_metadata``, lists the files of its folder with
their lengths. Spark reads as many bytes of a file as the log states. A file may grow, as when indexes are
attached, because its first bytes remain a complete file. A file whose first bytes change makes the whole
folder unreadable.

Where the log of a Delta table has the lengths of indexed files, a log of the same form, in
``_intarsia_lengths``, lists them.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from functools import lru_cache, partial
from itertools import count
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from intarsia.errors import IntarsiaError, ReplaceError
from intarsia.records import dataclass
from intarsia.storage.local import read_at
from intarsia.storage.object_errors import object_errors
from intarsia.storage.objects import objects_in

_MAGIC = b"crc\0"
_HEADER_BYTES = 8
_CHECKSUM_BYTES = 4

#: Hadoop's ``io.bytes.per.checksum``.
DEFAULT_STRETCH_BYTES = 512

#: Larger than any real configuration; detects a damaged sidecar.
_MAX_STRETCH_BYTES = 1 << 24

#: Bytes per read.
_BLOCK_BYTES = 1 << 20


def sidecar_path(path: str) -> str:
    """Return the path at which Hadoop looks for the checksums of a file.

    Example:
        >>> sidecar_path("/lake/part-0.parquet")
        '/lake/.part-0.parquet.crc'
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def read_sidecar(path: str) -> bytes | None:
    """Read the sidecar of a file; None if it has no sidecar."""
    with suppress(FileNotFoundError), open(sidecar_path(path), "rb") as file:
        return file.read()
    return None


def updated_sidecar(old: bytes, old_length: int, fd: int, unchanged_bytes: int) -> bytes:
    """Compute the sidecar of a file that begins with the same bytes as an older file.

    Checksums of unchanged stretches are copied, not recomputed, so that Hadoop still detects bytes that
    have been corrupted on disk since they were written.

    Args:
        old_length: The older file's length in bytes.
        unchanged_bytes: The number of leading bytes that both files have in common.
    """
    stretch_bytes = int.from_bytes(old[len(_MAGIC) : _HEADER_BYTES], "big")
    known = old[_HEADER_BYTES:]
    if old[: len(_MAGIC)] != _MAGIC or not 0 < stretch_bytes <= _MAX_STRETCH_BYTES:
        stretch_bytes, known = DEFAULT_STRETCH_BYTES, b""
    if len(known) != _CHECKSUM_BYTES * -(-old_length // stretch_bytes):
        known = b""  # the sidecar does not belong to the current file
    whole = unchanged_bytes // stretch_bytes if known else 0
    checksums = np.fromiter(_checksums(fd, whole * stretch_bytes, stretch_bytes), dtype=">u4")
    header = _MAGIC + stretch_bytes.to_bytes(_HEADER_BYTES - len(_MAGIC), "big")
    return header + known[: whole * _CHECKSUM_BYTES] + checksums.tobytes()


def _checksums(fd: int, offset: int, stretch_bytes: int) -> Iterator[int]:
    block_bytes = max(1, _BLOCK_BYTES // stretch_bytes) * stretch_bytes
    while block := read_at(fd, block_bytes, offset):
        view = memoryview(block)
        for start in range(0, len(view), stretch_bytes):
            yield zlib.crc32(view[start : start + stretch_bytes])
        offset += len(block)


_LOG = "_spark_metadata"

#: The log of the lengths that tables expect.
_LENGTHS = "_intarsia_lengths"

#: A file of the log that contains all entries of the earlier ones.
_COMPACT = ".compact"


def check_sink_log(path: str, keep_bytes: int) -> None:
    """Raise an error if Spark could no longer read a local file of a streaming sink.

    Costs one ``stat`` of the file's folder, and one of each parent folder as long as folders are partitions.

    Args:
        path: The absolute path of a local file.
        keep_bytes: The number of its first bytes that will not change.

    Raises:
        ReplaceError: If a log lists the file with more bytes, or the log cannot be read.
    """
    for folder in _folders(path):
        logs = [_local_log(log) for log in (f"{folder}/{_LOG}", f"{folder}/{_LENGTHS}") if os.path.isdir(log)]
        for log in logs:
            _check(path, os.path.basename(path), log, keep_bytes)
        if logs:
            return


def record_lengths(sizes: Mapping[str, int]) -> None:
    """Let `check_sink_log` refuse to shorten files whose lengths a table expects.

    Args:
        sizes: The length in bytes of each file, by its absolute path.
    """
    for folder, lengths in _by_folder(sizes).items():
        log = os.path.join(folder, _LENGTHS)
        os.makedirs(log, exist_ok=True)
        _add_entry(log, _entry(lengths))


def _by_folder(sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return the lengths of files by the folder of the table, or of the sink, and by name."""
    found: dict[str, dict[str, int]] = {}
    for path, size in sizes.items():
        *_, folder = _folders(path)
        found.setdefault(folder, {})[os.path.basename(path)] = size
    return found


def _entry(lengths: Mapping[str, int]) -> bytes:
    """Return a file of a log with the lengths of files by name."""
    lines = [json.dumps({"path": quote(name), "size": size}) for name, size in lengths.items()]
    return "\n".join(["v1", *lines]).encode()


def _folders(path: str) -> Iterator[str]:
    """Yield the folder of a file, and its parent folders as long as folders are partitions."""
    folder, own = os.path.split(os.path.dirname(path))
    yield os.path.join(folder, own)
    while "=" in own:
        yield folder
        folder, own = os.path.split(folder)


def _next_numbers(names: Iterable[str]) -> Iterator[int]:
    """Yield the numbers after that of the last file of a log; another process may take the first ones."""
    return count(max((int(name) for name in names if name.isdecimal()), default=-1) + 1)


def _add_entry(log: str, data: bytes) -> None:
    """Add a file to a log, under the next number that no other process takes."""
    with tempfile.NamedTemporaryFile(dir=log, prefix=".") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
        for number in _next_numbers(os.listdir(log)):
            with suppress(FileExistsError):
                os.link(file.name, os.path.join(log, str(number)))
                return


def check_sink_log_of_object(store: Any, key: str, path: str, keep_bytes: int) -> None:
    """Raise an error if Spark could no longer read an object of a streaming sink.

    Costs a listing of each of the two logs in the object's folder, and in each parent folder as long as
    folders are partitions.

    Args:
        key: The object's path in the store.
        path: The name in messages, such as its URL.
        keep_bytes: The number of its first bytes that will not change.

    Raises:
        ReplaceError: If a log lists the object with more bytes, or the log cannot be read.
        ObjectStoreError: If the store does not list the log.
    """
    from obstore.store import HTTPStore

    if isinstance(store, HTTPStore):  # Spark does not write to web servers, and many do not list folders
        return
    label = os.path.dirname(path)
    for folder in _folders(key):
        logs = [_object_log(store, os.path.join(folder, log), f"{label}/{log}") for log in (_LOG, _LENGTHS)]
        for log in filter(None, logs):
            _check(path, os.path.basename(key), log, keep_bytes)
        if any(logs):
            return
        label = os.path.dirname(label)


def record_lengths_of_objects(store: Any, sizes: Mapping[str, int], path: str) -> None:
    """Let `check_sink_log_of_object` refuse to shorten objects whose lengths a table expects.

    Args:
        store: The obstore store.
        sizes: The length in bytes of each object, by its path in the store.
        path: The name in messages, such as the URL of the table.

    Raises:
        ObjectStoreError: If the store cannot be reached or refuses the request.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError

    for folder, lengths in _by_folder(sizes).items():
        log = os.path.join(folder, _LENGTHS)
        with object_errors(path):
            for number in _next_numbers(os.path.basename(one["path"]) for one in objects_in(store, log)):
                with suppress(AlreadyExistsError):  # of another process
                    obstore.put(store, f"{log}/{number}", _entry(lengths), mode="create")
                    break


def _check(path: str, name: str, log: _Log, keep_bytes: int) -> None:
    listed = _lengths(log).get(name, 0)
    if listed > keep_bytes and log.path.endswith(_LENGTHS):
        raise ReplaceError(
            f"the log of the table has this file with {listed:,} bytes, of which only {keep_bytes:,} would "
            "remain; rewrite the rows, for example with OPTIMIZE, and change the new files",
            reason="registered-length",
            path=path,
        )
    if listed > keep_bytes:
        raise ReplaceError(
            f"{log.path} lists this file of a streaming sink with {listed:,} bytes, of which only "
            f"{keep_bytes:,} would remain, so Spark could no longer read the folder; write the rows to "
            "another folder, for example with ias.optimize, and change the new files",
            reason="listed-by-sink",
            path=path,
        )


@dataclass(frozen=True)
class _Log:
    """One state of a log.

    Attributes:
        state: A value that is another one after each change of the log.
        names: Returns the names of its files.
        read: Reads a file, given its name.
    """

    path: str
    state: object
    names: Callable[[], Iterable[str]] = field(compare=False)
    read: Callable[[str], bytes] = field(compare=False)


def _local_log(path: str) -> _Log:
    def read(name: str) -> bytes:
        with open(os.path.join(path, name), "rb") as file:
            return file.read()

    return _Log(path, os.stat(path).st_mtime_ns, partial(os.listdir, path), read)


def _object_log(store: Any, folder: str, path: str) -> _Log | None:
    import obstore

    with object_errors(path):
        found = objects_in(store, folder)
    keys = {os.path.basename(one["path"]): one["path"] for one in found}
    # an object without an ETag is compared by its time; a store may not be hashable
    state = id(store), *sorted((one["path"], str(one.get("e_tag") or one["last_modified"])) for one in found)

    def read(name: str) -> bytes:
        with object_errors(f"{path}/{name}"):
            return bytes(obstore.get(store, keys[name]).bytes())

    return _Log(path, state, keys.copy, read) if found else None


@lru_cache(maxsize=4)
def _lengths(log: _Log) -> dict[str, int]:
    """Return the length of each file in a log by the file's name, which contains a UUID."""
    batches = {}
    for entry in log.names():
        number = entry.removesuffix(_COMPACT)
        if number.isdecimal():
            batches[int(number), entry.endswith(_COMPACT)] = entry
    start = max((key for key in batches if key[1]), default=(0, False))
    lengths: dict[str, int] = {}
    for key in sorted(batches):
        if key >= start:
            for name, length in _entries(f"{log.path}/{batches[key]}", partial(log.read, batches[key])):
                lengths[name] = max(length, lengths.get(name, 0))
    return lengths


def _entries(path: str, read: Callable[[], bytes]) -> list[tuple[str, int]]:
    """Return the names and lengths in one file of the log: a version, and then a JSON object per line."""
    try:
        entries = [json.loads(line) for line in read().decode("utf-8").splitlines()[1:]]
        return [(unquote(entry["path"].rpartition("/")[2]), int(entry["size"])) for entry in entries]
    except (IntarsiaError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ReplaceError(
            f"this log of a streaming sink cannot be read ({error}), so its files are not changed; restore "
            "it, or write the rows to another folder",
            reason="unreadable-sink-log",
            path=path,
        ) from error
