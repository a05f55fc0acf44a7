"""The facts of one file in a lake index: its identity, footer, bounds of its columns, digests of its indexes.

Everything comes from the footer and from indexes. No data page is read.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from intarsia.arrow.comparison import flags_of
from intarsia.errors import FormatError, IndexPayloadError
from intarsia.file import FileMetadata, ParquetInput
from intarsia.file.claims import check_row_count
from intarsia.file.metadata import RawFooter
from intarsia.file.schema import FileSchema
from intarsia.format.bloom import FilterLocation
from intarsia.format.directory import Entry
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf
from intarsia.indexes import Layout
from intarsia.indexes.base import Index, defines
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.filter_matrix import MAX_FILTER_BYTES
from intarsia.indexes.proof import call_or_ignore
from intarsia.indexes.registry import find_index
from intarsia.indexes.statistics import exact_bounds, statistics_bounds
from intarsia.lake.data_file import DataFile, FileList, paths_of, sizes_of
from intarsia.lake.discovery import list_objects
from intarsia.records import dataclass
from intarsia.rows.bounds import UNKNOWN, Bools
from intarsia.rows.ordering import MAX_BOUND_BYTES, Ordering, truncate_max, truncate_min
from intarsia.storage import CLOCK_TICK_SECONDS, ByteRange


class FileStamp(NamedTuple):
    """The identity of a file: a different stamp means different bytes.

    Attributes:
        size_bytes: Its length; -1 if there is no such file.
        modified_ns: Time of the last write in nanoseconds since 1970; 0 if unknown.
        changed_ns: Time of the last change of a local file, which no program can set; 0 for objects.
        e_tag: The ETag of an object; empty for local files. Objects are compared by it, because stores list
            the time of an object in other units than they give it when it is read.
    """

    size_bytes: int
    modified_ns: int
    changed_ns: int
    e_tag: str = ""

    def is_same(self, other: FileStamp) -> bool:
        """Return whether two stamps are of the same bytes."""
        return self == (other._replace(modified_ns=self.modified_ns) if self.e_tag else other)


def wait_until_settled(files: Sequence[DataFile]) -> None:
    """Wait until no local file was written in the last tick of the clock, but at most one tick.

    Within a tick, another process could change a file again and leave its time unchanged.
    """
    youngest = max((_stat(file.path)[1] for file in files if not file.is_remote), default=0)
    seconds = CLOCK_TICK_SECONDS - (time.time() - youngest / 1e9)
    if seconds > 0:
        # the clock of the file system may be some milliseconds behind
        time.sleep(min(seconds, CLOCK_TICK_SECONDS) + 0.02)


def opened_stamp(identity: object) -> FileStamp | None:
    """Return the stamp in the identity of an open file; None if equal identities do not prove equal bytes."""
    if not isinstance(identity, tuple):
        return None
    if len(identity) == 5:  # a local file: device, inode, length, times
        _, _, size, modified, changed = identity
        return FileStamp(size, modified, changed)
    size, e_tag, seconds = identity
    return FileStamp(size, round((seconds or 0) * 1e9), 0, e_tag)


#: In place of a file that a listing does not have.
MISSING = DataFile("", -1)


def _stat(path: str | bytes) -> tuple[int, int, int]:
    """Return the size of a local file, and its times of modification and change; size -1 if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return -1, 0, 0
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


class Stamps(NamedTuple):
    """The stamps of many files, in arrays; see `FileStamp`."""

    size_bytes: np.ndarray
    modified_ns: np.ndarray
    changed_ns: np.ndarray
    e_tag: pa.Array

    @classmethod
    def listed(cls, files: Sequence[DataFile]) -> Stamps:
        """Return the stamps of files when they were listed."""
        if not isinstance(files, FileList):
            modified, changed = _table([file.times_ns or (0, 0) for file in files], 2)
            tags = pa.array([file.e_tag or "" for file in files], pa.string())
            return cls(sizes_of(files), modified, changed, tags)
        times = np.zeros((len(files), 2), dtype=np.int64) if files.times_ns is None else files.times_ns
        tags = pa.repeat("", len(files)) if files.e_tags is None else pc.fill_null(files.e_tags, "")
        return cls(files.size_bytes, times[:, 0], times[:, 1], tags)

    @classmethod
    def now(cls, files: Sequence[DataFile], root: str) -> Stamps:
        """Return the current stamps of files, from stat for local files and from a new listing for objects.

        Raises:
            ObjectStoreError: If the store cannot be reached or refuses the request.
        """
        if "://" in root:
            listed = list_objects(root, files[0].store if files else None).files
            return cls.listed([listed.get(file.path, MISSING) for file in files])
        paths = paths_of(files).to_pylist() if isinstance(files, FileList) else [file.path for file in files]
        sizes, modified, changed = _table([*map(_stat, paths)], 3)
        return cls(sizes, modified, changed, pa.repeat("", len(files)))

    def take(self, ordinals: np.ndarray) -> Stamps:
        """Return the stamps at some positions."""
        sizes, modified, changed, tags = self
        tags = tags.take(pa.array(ordinals))
        return Stamps(sizes[ordinals], modified[ordinals], changed[ordinals], tags)

    def equal(self, others: Stamps, *, same_machine: bool) -> Bools:
        """Compare with the stamps of the same files at another time.

        Args:
            others: As many stamps.
            same_machine: Also compare the change time, which a copy of the folder does not keep.
        """
        equal = (self.size_bytes == others.size_bytes) & (self.size_bytes >= 0)
        equal &= (self.modified_ns == others.modified_ns) | flags_of(pc.not_equal(self.e_tag, ""))
        equal &= flags_of(pc.equal(self.e_tag, others.e_tag))
        if same_machine:
            equal &= self.changed_ns == others.changed_ns
        return np.asarray(equal, dtype=bool)

    def precede(self, others: Stamps) -> Bools:
        """Return whether later stamps are of the same rows as these, which a log of immutable files recorded.

        Attached indexes make a file longer. A shorter or older file had its name before, as in a table that
        was made of replaced files.
        """
        is_later = self.modified_ns // _NS_PER_SECOND <= others.modified_ns // _NS_PER_SECOND
        return np.asarray(is_later & (self.size_bytes <= others.size_bytes), dtype=bool)


#: The unit of the times that all stores have.
_NS_PER_SECOND = 1_000_000_000


def _table(rows: Sequence[tuple[int, ...]], width: int) -> np.ndarray:
    """Return the columns of a table of integers."""
    flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64, count=len(rows) * width)
    return flat.reshape(-1, width).T


class GatheredKey(NamedTuple):
    """The kind, columns and parameters that the payloads of one structure have in common.

    Attributes:
        kind_version: The version of the class that built the payload.
        name: The name in reports.
        parameters: The fields of the index object, as JSON.
    """

    kind: str
    kind_version: int
    name: str
    columns: tuple[tuple[str, ...], ...]
    granularity: str | int
    parameters: str


def index_of(key: GatheredKey) -> Index | None:
    """Construct the index object of a key; None if its kind is unknown or does not gather."""
    kind, version, name, columns, granularity, parameters = key
    entry = Entry(name, kind, version, columns, granularity, json.loads(parameters), 0, 0, "0" * 16)
    found = find_index(entry).index
    return found if defines(found, "digest") else None


def key_of(entry: Mapping[str, Any]) -> GatheredKey | None:
    """Return the key in the description of a structure; None if fields are missing or of other types."""
    fields: list[Any] = [entry.get(name) for name in GatheredKey._fields]
    types: list[Any] = [str, int, str, list, (str, int), dict]
    if not all(isinstance(value, type_) for value, type_ in zip(fields, types, strict=True)):
        return None
    kind, version, name, columns, granularity, parameters = fields
    paths = tuple(map(tuple, columns))
    return GatheredKey(kind, version, name, paths, granularity, json.dumps(parameters, sort_keys=True))


#: Bounds are kept for at most this many columns of a file.
MAX_COLUMNS = 1_000

#: Approximate size of the facts of a column in memory.
_COLUMN_BYTES = 200

#: Embedded indexes with larger payloads are evaluated file by file.
MAX_PAYLOAD_BYTES = 64 << 20


class ColumnFacts(NamedTuple):
    """The bounds and counts of one column in one file; see `intarsia.rows.bounds.Bounds`.

    Attributes:
        low, high: Keys that no value other than NaN is below or above; None if unknown.
        null_count: The number of nulls, or `UNKNOWN`.
        nan_count: The number of NaNs, or `UNKNOWN`.
        is_all_null: Whether all values are proven to be null.
        is_exact: Whether both bounds are values of the column.
    """

    low: Any
    high: Any
    null_count: int
    nan_count: int
    is_all_null: bool
    is_exact: bool


@dataclass(frozen=True)
class FileFacts:
    """The facts of one file in a lake index; executors send them to the driver.

    Attributes:
        stamp: The identity of the file from which the facts were read.
        family: Bytes that are equal for schemas in which a predicate has the same meaning.
        footer_start: The offset of the footer in the file.
        columns: The facts of each column, by the ordinal of its leaf; of a list, those of its elements.
        filters: The bits of the Bloom filter of each row group, by the ordinal of the leaf; only columns that
            have a filter in each row group.
        digests: The digest of each embedded index that can be gathered.
        has_directory: Whether it has a directory of embedded indexes that can be used.
    """

    stamp: FileStamp
    family: bytes
    num_rows: int
    num_row_groups: int
    footer_start: int
    footer: bytes
    columns: Mapping[int, ColumnFacts]
    filters: Mapping[int, list[bytes]]
    digests: Mapping[GatheredKey, bytes]
    has_directory: bool

    @property
    def num_bytes(self) -> int:
        """Approximate size in memory."""
        sizes = [sum(map(len, filters)) for filters in self.filters.values()]
        digests = sum(map(len, self.digests.values()))
        return sum(sizes) + digests + len(self.footer) + len(self.columns) * _COLUMN_BYTES

    @property
    def schema(self) -> FileSchema:
        """The schema, which is parsed from the footer."""
        return FileMetadata("", RawFooter(self.footer, self.footer_start, self.stamp.size_bytes)).schema


def read_facts(file: ParquetInput, max_bytes: int | None = None) -> FileFacts | None:
    """Read the facts that a lake index stores about an open file, and close the file.

    Args:
        max_bytes: The maximum number of bytes of payloads to read; None for no limit.

    Returns:
        The facts; None if the payloads are larger, or if a change of the file might not be detected, because
        it was written in the last seconds or its store has no ETags.

    Raises:
        CorruptFileError: If the footer is damaged, or contradicts itself.
        UnsupportedFeatureError: If a column is encrypted or in another file.
    """
    with file:
        stamp = opened_stamp(file.source.identity)
        if stamp is None or (max_bytes is not None and _payload_bytes(file) > max_bytes):
            return None
        leaves = list(file.schema.leaves_of_values.values())[:MAX_COLUMNS]
        for leaf in leaves:
            for row_group in range(len(file.footer.metadata.row_groups)):
                check_row_count(file.footer, row_group, leaf)
        columns = {leaf.ordinal: _column_facts(file, leaf, file.schema.ordering(leaf)) for leaf in leaves}
        filters = {leaf.ordinal: bits for leaf in leaves if (bits := _bloom_bits(file, leaf)) is not None}
        footer = file.footer
        return FileFacts(
            stamp,
            _family_key(file.schema),
            footer.num_rows,
            len(footer.metadata.row_groups),
            footer.start,
            bytes(footer.raw),
            columns,
            filters,
            dict(_digests(file)),
            file.directory is not None,
        )


def _family_key(schema: FileSchema) -> bytes:
    elements = repr([(leaf.path, leaf.element, leaf.logical) for leaf in schema.leaves]).encode()
    return xxhash.xxh3_128_digest(elements + bytes(schema.arrow.remove_metadata().serialize()))


def _payload_bytes(file: ParquetInput) -> int:
    entries = file.directory.entries if file.directory is not None else ()
    return sum(entry.payload_bytes for entry in entries if entry.payload_bytes <= MAX_PAYLOAD_BYTES)


# --- statistics ----------------------------------------------------------------------------------------


def _column_facts(file: ParquetInput, leaf: Leaf, ordering: Ordering | None) -> ColumnFacts:
    bounds = statistics_bounds(file, leaf, ordering)
    used = bounds.starts < bounds.stops
    nulls, nans = bounds.null_counts[used], bounds.nan_counts[used]
    known, all_null = bounds.known[used], bounds.all_null[used]
    # a row group of only NaNs has no bounds, and the interval of the others does not contain them
    has_no_number = (nulls + nans == (bounds.stops - bounds.starts)[used]) & (nulls >= 0) & (nans > 0)
    is_bounded = bool((known | all_null | has_no_number).all() and known.any())
    low = high = None
    is_exact = False
    if ordering is not None and is_bounded:
        low, high = bounds.minima[used][known].min(), bounds.maxima[used][known].max()
        is_exact = bool(exact_bounds(file, leaf, ordering)[used][known].all())
        low, high = (key.item() if isinstance(key, np.generic) else key for key in (low, high))
        if ordering.is_bytes and max(len(low), len(high)) > MAX_BOUND_BYTES:
            low = truncate_min(low, MAX_BOUND_BYTES, text=ordering.is_text)
            high = truncate_max(high, MAX_BOUND_BYTES, text=ordering.is_text)
            is_exact = False
    return ColumnFacts(
        low,
        high,
        int(nulls.sum()) if (nulls >= 0).all() else UNKNOWN,
        int(nans.sum()) if (nans >= 0).all() else UNKNOWN,
        bool(all_null.all()),
        is_exact,
    )


# --- Bloom filters -------------------------------------------------------------------------------------


def _bloom_bits(file: ParquetInput, leaf: Leaf) -> list[bytes] | None:
    """Read the bits of a column's filters; None if a row group has none, or they are not trusted."""
    footer = file.footer
    metas = [group.columns[leaf.ordinal].meta_data for group in footer.metadata.row_groups if group.num_rows]
    having = [meta for meta in metas if meta is not None and meta.bloom_filter_offset]
    trust = file.trust(leaf)
    if not metas or len(having) < len(metas) or any(map(trust.doubt_of_bloom_filter, having)):
        return None
    try:
        filters = [FilterLocation.of(meta, footer.start) for meta in having]
        heads = file.source.read_ranges([ByteRange(*location.head) for location in filters])
        bits = [ByteRange(*location.bits(head)) for location, head in zip(filters, heads, strict=True)]
    except FormatError:  # verify reports it; without filters the file is not excluded
        return None
    is_small = max(location.length for location in bits) <= MAX_FILTER_BYTES
    return file.source.read_ranges(bits) if is_small else None


# --- embedded indexes ----------------------------------------------------------------------------------


def _digests(file: ParquetInput) -> Iterator[tuple[GatheredKey, bytes]]:
    embedded = EmbeddedIndexes(file)
    layout = Layout(file.footer.num_rows, file.footer.row_group_starts, {})
    for entry in embedded.entries:
        index = embedded.index(entry)
        leaves = [file.schema.leaves_by_path.get(path) for path in entry.columns]
        if (
            index is None
            or not defines(index, "digest")
            or len(leaves) != 1
            or entry.payload_bytes > MAX_PAYLOAD_BYTES
            # values outside the range of 64-bit nanoseconds read differently in Arrow and Spark
            or any(leaf is None or not leaf.is_flat or leaf.type == Type.INT96 for leaf in leaves)
        ):
            continue

        def digest(index: Index = index, entry: Any = entry) -> bytes | None:
            try:
                found: object = index.digest(embedded.read(entry), layout)
            except FormatError as error:
                raise IndexPayloadError(str(error), reason="damaged-payload") from error
            if not isinstance(found, (bytes, type(None))):
                raise IndexPayloadError(
                    f"digest returned {type(found).__name__}, not bytes or None", reason="not-a-digest"
                )
            return found

        result = call_or_ignore(file, entry.name, digest)
        if result is not None:
            parameters = json.dumps(dict(entry.parameters), sort_keys=True)
            key = GatheredKey(
                entry.kind, entry.kind_version, entry.name, entry.columns, entry.granularity, parameters
            )
            yield key, result
