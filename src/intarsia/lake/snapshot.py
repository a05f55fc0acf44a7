"""The cache of an open table, and one run of a query: its files, what it knows of them, and its deadline.

What a run has learnt is not asked again: a file whose identity was read or compared is opened with this
identity, and the lake index is compared with the files once. Each run starts with nothing but the cache,
whose entries it compares with the files. If a file was replaced after it was listed, or after its identity
was read, the new file is opened. Hooks for monitoring are called when the run has ended.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from intarsia.errors import ReplacedWhileReadError
from intarsia.file import FileMetadata, ParquetInput, read_raw_footer
from intarsia.file.joined import JoinedMetadata, JoinedPart
from intarsia.file.metadata import naming_errors
from intarsia.file.schema import FileSchema
from intarsia.lake.data_file import DataFile
from intarsia.lake.index.of_table import KnownFiles, TableLakeIndex
from intarsia.once import cached_property
from intarsia.read.report import ScanReport
from intarsia.records import dataclass
from intarsia.storage import ByteRange, ByteSource, CountedSource, ObjectIdentity, QueryReads, identity_of
from intarsia.storage.objects import quoted
from intarsia.storage.running_query import Deadline, applied, counting
from intarsia.tuning import LISTING_SECONDS

#: Memory limit of a cache: footers, page indexes and directories, joined footers, opened indexes and the ends
#: of objects of one table.
MAX_CACHE_BYTES = 512 << 20

#: The ends of objects take at most this part of a cache.
_TAIL_PART = 8

_METADATA, _JOINED, _TAIL = "metadata", "joined", "tail"

#: The key after which the values are that were used in the latest run.
_RUN = "run", None

#: The identity, the value, and its size in bytes.
_Held: TypeAlias = tuple[Hashable, Any, int]


class Tail(NamedTuple):
    """The bytes before the footer of an object that were read with the footer.

    Attributes:
        start: Their offset in the object.
    """

    start: int
    data: bytes


class Settled(NamedTuple):
    """The metadata of a file whose changes would be detected."""

    metadata: FileMetadata
    identity: Hashable


class TableCache:
    """A thread-safe LRU cache of facts about files, with one memory limit for values of several kinds.

    Each fact is valid for one identity of its file. Tables of the same files can share a cache.

    Values that were used in the latest run are not evicted in it. Each run uses the files of a table in the
    same order, so if they exceed the memory limit, each value would be evicted just before its next use.

    Args:
        max_bytes: Approximate memory limit.
    """

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._max_tail_bytes = max_bytes // _TAIL_PART
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, Hashable], _Held] = OrderedDict()
        self._bytes_of: Counter[str] = Counter()
        self._has_replaced = False  # whether joined metadata may have that of a file that was replaced

    def begin_run(self) -> None:
        """Let the values that have been used so far be evicted."""
        with self._lock:
            self._held[_RUN] = None, None, 0
            self._held.move_to_end(_RUN)

    @property
    def memory_bytes(self) -> int:
        """The approximate memory of all values."""
        return sum(self._bytes_of.values())

    def bytes_of(self, kind: str) -> int:
        """Return the approximate memory of the values of a kind."""
        return self._bytes_of[kind]

    def get(self, kind: str, key: Hashable, identity: Hashable | None) -> Any:
        """Return a value; None if there is none, or if its identity is unknown or has changed."""
        with self._lock:
            found = self._held.get((kind, key))
            if found is None or identity is None or found[0] != identity:
                return None
            self._held.move_to_end((kind, key))
            return found[1]

    def put(self, kind: str, key: Hashable, identity: Hashable | None, value: Any, num_bytes: int) -> None:
        """Store a value in place of the one with the same key, unless it has no identity or is too large."""
        with self._lock:
            if (kind, key) in self._held:
                held = self._drop((kind, key))
                self._has_replaced |= kind == _METADATA and held is not None and held[1] is not value
            if identity is not None and num_bytes <= self._max_bytes:
                self._held[kind, key] = identity, value, num_bytes
                self._bytes_of[kind] += num_bytes
            while sum(self._bytes_of.values()) > self._max_bytes:
                oldest = next(iter(self._held))
                self._drop((kind, key) if oldest == _RUN else oldest)

    def _drop(self, key: tuple[str, Hashable]) -> _Held | None:
        found = self._held.pop(key, None)
        if found is not None:
            self._bytes_of[key[0]] -= found[2]
        return found

    # --- metadata ----------------------------------------------------------------------------------

    def metadata(self, path: str, identity: Hashable | None) -> FileMetadata | None:
        """Return the metadata of a file; None if there is none, or if the file has changed."""
        found: FileMetadata | None = self.get(_METADATA, path, identity)
        return found

    def latest_metadata(self, path: str) -> Settled | None:
        """Return the metadata of a file, which may have changed since; None if there is none."""
        with self._lock:
            found = self._held.get((_METADATA, path))
            if found is None:
                return None
            self._held.move_to_end((_METADATA, path))
        return Settled(found[1], found[0])

    def put_metadata(self, path: str, identity: Hashable | None, metadata: FileMetadata) -> None:
        """Store the metadata of a file; its size is measured again if it is known."""
        self.put(_METADATA, path, identity, metadata, metadata.present_bytes)

    # --- many files --------------------------------------------------------------------------------

    def join(self, parts: Sequence[JoinedPart]) -> JoinedMetadata:
        """Return the joined metadata of files, the same object as before if all of them are unchanged."""
        key = tuple([part.metadata for part in parts])
        found: JoinedMetadata | None = self.get(_JOINED, key, key)
        if found is None:
            self._drop_replaced()
            found = JoinedMetadata(parts)
            self.put(_JOINED, key, key, found, found.present_bytes)
        return found

    def _drop_replaced(self) -> None:
        """Drop joined metadata that has the metadata of a replaced file, because it is not found again."""
        if not self._has_replaced:
            return
        with self._lock:
            self._has_replaced = False
            latest = {path: held[1] for (kind, path), held in self._held.items() if kind == _METADATA}
            joined = [key for key in self._held if key[0] == _JOINED]
            for key in joined:
                if any(latest.get(one.path, one) is not one for one in cast("Any", key[1])):
                    self._drop(key)

    def measure(self, joined: JoinedMetadata) -> None:
        """Measure the size of joined metadata again if more of its files has been parsed."""
        if not joined.has_grown():
            return
        key = tuple([part.metadata for part in joined.parts])
        self.put(_JOINED, key, key, joined, joined.present_bytes)
        if (_JOINED, key) not in self._held:
            for part in joined.parts:
                self.put_metadata(part.metadata.path, part.identity, part.metadata)

    # --- the ends of objects -----------------------------------------------------------------------

    def keep_tail(self, source: CountedSource, footer_start: int, tail_bytes: int) -> None:
        """Keep the end of an object if it has been read, until the query that reads its footer is planned.

        The ends contain Bloom filters of many objects, and all of a small object. A query that opens a table
        reads the footers of all objects for the schema first.

        Args:
            source: The object; nothing is kept of a local file, or if changes cannot be detected.
            footer_start: The offset of its footer.
            tail_bytes: The number of bytes that are read with the footer.
        """
        start = max(0, source.size() - tail_bytes)
        if not source.coalesce_bytes or source.identity is None or start >= footer_start:
            return
        if source.missing([ByteRange(start, footer_start)]):  # the footer was cached
            return
        num_bytes = footer_start - start
        if self.bytes_of(_TAIL) + num_bytes <= self._max_tail_bytes:
            tail = Tail(start, source.read(start, footer_start))
            self.put(_TAIL, source.path, source.identity, tail, num_bytes)

    def tail_of(self, path: str, identity: Hashable) -> Tail | None:
        """Return the end of an object; None if there is none, or if the object has changed."""
        return cast("Tail | None", self.get(_TAIL, path, identity))

    def take_tail(self, path: str, identity: Hashable | None) -> Tail | None:
        """Remove the end of an object; return None if there is none, or if the object has changed."""
        with self._lock:
            found = self._drop((_TAIL, path))
        return None if found is None or found[0] != identity else found[1]

    def drop_tails(self) -> None:
        """Remove the ends of all objects."""
        if self._bytes_of[_TAIL]:
            with self._lock:
                for key in [key for key in self._held if key[0] == _TAIL]:
                    self._drop(key)


@dataclass(frozen=True, slots=True)
class FinishedQuery:
    """A query of a table that has ended, for monitoring; see ``on_report`` of `intarsia.open`.

    Attributes:
        table: The path of the file, the folder or the table.
        where: The predicate as SQL text, with its values; None for all rows.
        columns: The dotted names of the columns of the result and of the predicate.
        report: What was read and skipped, and why. Complete.
        error: The error that ended the query; None if it was answered, or if the caller took only a part of
            the rows.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"x": range(1000)}), path)
        >>> queries = []
        >>> ia.open(path, on_report=queries.append).count("x < 3")
        3
        >>> queries[0].where, queries[0].report.rows_matched, queries[0].error
        ('x < 3', 3, None)
    """

    table: str
    where: str | None
    columns: tuple[str, ...]
    report: ScanReport
    error: Exception | None


#: Called with each query of a table when it has ended, by the thread that ended it.
OnReport: TypeAlias = Callable[[FinishedQuery], object]


_Result = TypeVar("_Result")
_Item = TypeVar("_Item")


class Snapshot:
    """The files of a table as one run of a query sees them.

    Args:
        files: The files as they were listed.
        has_objects: Whether some of them are in object stores.
        deadline: The deadline of the run; None without a time limit.
        of: The snapshot of the same run for a table with more files.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        has_objects: bool,
        cache: TableCache,
        lake_index: TableLakeIndex,
        deadline: Deadline | None,
        reads: QueryReads,
        of: Snapshot | None = None,
    ) -> None:
        self.files = files
        self._has_objects = has_objects
        self._cache = cache
        self._lake_index = lake_index
        self._deadline: Deadline | None = deadline if of is None else of._deadline
        self.reads = reads
        self._latest = time.monotonic()  # when a file was read or compared
        # the identities of the files that were read or compared in this run
        self._identities: dict[str, Hashable] = {} if of is None else of._identities
        self._forgotten: set[str] = set() if of is None else of._forgotten
        if of is None:
            cache.begin_run()

    # --- the run -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin the run: what has been read for the schema may have been replaced since.

        Local files are compared again with a stat. Objects are, with requests, only after a second.
        """
        if not self._has_objects or time.monotonic() - self._latest >= LISTING_SECONDS:
            self._identities.clear()
            vars(self).pop("known", None)

    def running(self) -> contextlib.AbstractContextManager[None]:
        """Count the reads within the block, and end it at the deadline."""
        return counting(self.reads) if self._deadline is None else self._running_until(self._deadline)

    @contextlib.contextmanager
    def _running_until(self, deadline: Deadline) -> Iterator[None]:
        with applied(deadline), counting(self.reads):
            yield

    def in_steps(self, items: Generator[_Item, None, None]) -> Generator[_Item, None, None]:
        """Yield the items of a query; the time that the caller takes between two of them does not count."""
        with contextlib.closing(items):
            while True:
                with self.running():
                    try:
                        item = next(items)
                    except StopIteration:
                        return
                yield item

    # --- the lake index ----------------------------------------------------------------------------

    @cached_property
    def known(self) -> KnownFiles | None:
        """The files that the lake index contains; None without a lake index.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        return self._lake_index.known_files()

    @property
    def listed(self) -> KnownFiles | None:
        """The files that the lake index contains, as they were listed, for the schema."""
        return self.known if self._has_objects else self._lake_index.known_files(as_listed=True)

    # --- the files ---------------------------------------------------------------------------------

    def open(self, entry: DataFile) -> ParquetInput:
        """Open one of the files; its footer is read only if it is not cached, or if the file has changed.

        A local file costs a stat. An object costs one request in each run: for its footer, or if that is
        cached, to check whether the object has changed.
        """

        def read(source: ByteSource, known: FileMetadata | None) -> ParquetInput:
            file = entry.input_of(source, known)
            if known is None:
                self.remember(entry, file)
            elif source.coalesce_bytes:
                tail = self._cache.take_tail(entry.path, source.identity)
                if tail is not None:
                    file.source.keep_known({ByteRange(tail.start, tail.start + len(tail.data)): tail.data})
            return file

        return self._read(entry, read)

    def remember(self, entry: DataFile, file: ParquetInput) -> None:
        """Cache the metadata that was parsed from a file that `open` returned."""
        self._cache.put_metadata(entry.path, file.source.identity, file.metadata)

    def settled(self, entry: DataFile) -> Settled | None:
        """Return the metadata of a file, read only if it is not cached.

        Returns:
            The metadata; None for a file whose changes might not be detected: a local file that was written
            in the last seconds, or an object in a store without ETags. None, too, for a file with metadata
            that was found to be wrong: it is planned separately.

        Raises:
            FormatError: If the footer is damaged.
            OSError: If the file cannot be read.
        """
        cached = self._cache.latest_metadata(entry.path)
        if cached is not None:
            identity = self._identities.get(entry.path)
            if identity is None and not (self._has_objects and entry.is_remote):
                identity = self._identities[entry.path] = identity_of(os.stat(entry.path))
            if identity == cached.identity:
                return None if cached.metadata.contradictions else cached

        def read(source: ByteSource, known: FileMetadata | None) -> Settled | None:
            if source.identity is None:
                source.close()
                return None
            found = self._footer(entry, source, known)
            return None if found.contradictions else Settled(found, source.identity)

        with naming_errors(entry.path):
            return self._read(entry, read)

    def schema(self, entry: DataFile) -> FileSchema:
        """Return the schema of a file, and cache its footer.

        Raises:
            FormatError: If the footer is damaged, or pyarrow cannot read it.
            OSError: If the file cannot be read.
        """
        with naming_errors(entry.path):
            schema = self._read(entry, partial(self._footer, entry)).schema
            _ = schema.arrow
            return schema

    def cached_schema(self, entry: DataFile) -> FileSchema:
        """Return the schema that a file had when its footer was cached; read only if it is not cached."""
        cached = self._cache.latest_metadata(entry.path)
        return self.schema(entry) if cached is None else cached.metadata.schema

    def _footer(self, entry: DataFile, source: ByteSource, known: FileMetadata | None) -> FileMetadata:
        """Return the parsed footer of a file, which is closed, and cache it with the end of an object."""
        with contextlib.closing(source):
            counted = CountedSource(source)
            found = known or FileMetadata(entry.path, read_raw_footer(counted, entry.tail_bytes))
            _ = found.footer
            self._cache.keep_tail(counted, found.footer_start, entry.tail_bytes)
        self._cache.put_metadata(entry.path, source.identity, found)
        return found

    def requested(self, ordinals: Iterable[int]) -> set[int]:
        """Return the files for which `settled` makes a request to an object store."""
        if not self._has_objects:
            return set()
        entries = {ordinal: self.files[ordinal] for ordinal in ordinals}
        return {
            ordinal
            for ordinal, entry in entries.items()
            if entry.is_remote
            and (self._identities.get(entry.path) is None or self._cache.latest_metadata(entry.path) is None)
        }

    def is_as_listed(self, entry: DataFile) -> bool:
        """Return whether a file was the listed one when it was last read; True if it was not read."""
        identity = self._identities.get(entry.path)
        if isinstance(identity, ObjectIdentity):
            return entry.e_tag is None or quoted(identity.e_tag) == quoted(entry.e_tag)
        if not isinstance(identity, tuple) or entry.times_ns is None:
            return True
        return identity[2:] == (entry.size_bytes, *entry.times_ns)

    def forget(self, paths: Iterable[str]) -> None:
        """Compare files with the caches again when they are opened, because they may have been replaced."""
        for path in paths:
            self._identities.pop(path, None)
            self._forgotten.add(path)

    def _read(self, entry: DataFile, read: Callable[[ByteSource, FileMetadata | None], _Result]) -> _Result:
        """Read a file with its cached metadata; if it was replaced after it was listed, read the new file."""
        identity = self._identities.get(entry.path)
        if identity is None and entry.path not in self._forgotten:
            identity = self._lake_index.logged_identity(entry)
        if identity is not None:  # it may have been replaced since it was listed
            source = entry.as_opened(identity).open()
        else:
            source = entry.open(fresh=self._cache.latest_metadata(entry.path) is not None)
        try:
            known = self._cache.metadata(entry.path, source.identity)
            found = read(source, known or self._lake_index.metadata(entry, source.identity))
        except ReplacedWhileReadError:
            source = entry.open(fresh=True)
            found = read(source, None)
        self._identities[entry.path], self._latest = source.identity, time.monotonic()
        return found
