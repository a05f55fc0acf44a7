"""A segment: an immutable file with the facts of many files. A plan reads only the parts that it needs.

Files with the same columns form a family. A predicate is bound once for each family, and evaluated on all of
its files at once. The sections of a segment::

    files                     a row for each file: path, stamp, family, numbers of rows and row groups, footer
    footers                   the footers, concatenated
    directories               a byte for each file: 1 if it has a directory of embedded indexes
    F/bounds/L                the bounds of leaf L in family F, an Arrow record batch
    F/gathered/K              the positions in the family of the files of structure K, uint32
    F/gathered/K/PART         the parts of structure K (`intarsia.indexes.GatheredPart`)

The columns of bounds::

    low, high    int64, uint64, float64 or binary   keys, see `intarsia.rows.ordering`; null if unknown.
                                                    Decimals of more than 18 digits are big-endian integers
                                                    of two's complement
    null_count   int64                              null if unknown
    nan_count    int64                              null if unknown
    all_null     bool                               whether all values are proven to be null
    exact        bool                               whether both bounds are values of the column
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from intarsia.arrow.comparison import flags_of
from intarsia.errors import CorruptFileError, FormatError
from intarsia.file import FileMetadata
from intarsia.file.metadata import RawFooter
from intarsia.file.schema import FileSchema
from intarsia.indexes.base import OpenIndex, checked_opened
from intarsia.indexes.bloom import gathered_filters
from intarsia.indexes.granules import batch_from_bytes, batch_to_bytes
from intarsia.indexes.statistics import bounds_of_keys
from intarsia.lake.index.facts import ColumnFacts, FileStamp, Stamps, index_of, key_of
from intarsia.once import cached_property
from intarsia.predicate import Path
from intarsia.records import dataclass
from intarsia.rows.bounds import UNKNOWN, Bools, Bounds
from intarsia.rows.ordering import Keys, Ordering
from intarsia.storage import CountedSource
from intarsia.storage.sections import Sections

_NAMES = ("low", "high", "null_count", "nan_count", "all_null", "exact")


class FileBounds(NamedTuple):
    """The bounds of one column in many files.

    Attributes:
        exact: Whether both bounds are values of the column.
    """

    bounds: Bounds
    exact: Bools


def serialize_bounds(facts: Sequence[ColumnFacts], ordering: Ordering | None) -> bytes:
    """Serialize the bounds of one column."""
    is_decimal = ordering is not None and ordering.dtype == object and not ordering.is_bytes

    def encoded(key: Any) -> Any:
        is_number = is_decimal and key is not None
        return key.to_bytes(key.bit_length() // 8 + 1, "big", signed=True) if is_number else key

    rows = []
    for low, high, nulls, nans, *flags in facts:
        counts = [None if count == UNKNOWN else count for count in (nulls, nans)]
        rows.append((encoded(low), encoded(high), *counts, *flags))
    return batch_to_bytes(batch_of_rows(rows, _bounds_schema(ordering)))


def batch_of_rows(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows, of which there is at least one, as a batch."""
    columns = zip(zip(*rows, strict=True), schema.types, strict=True)
    return pa.record_batch([pa.array(values, data_type) for values, data_type in columns], schema=schema)


def parse_bounds(data: bytes, ordering: Ordering | None, num_rows: np.ndarray) -> FileBounds:
    """Parse the result of `serialize_bounds`.

    Raises:
        ValueError: If the bytes do not describe such files.
    """
    batch = batch_from_bytes(data)
    if batch.schema != _bounds_schema(ordering) or batch.num_rows != len(num_rows):
        raise ValueError(f"it has {batch.num_rows} rows of {batch.schema.to_string()}")
    low, high, nulls, nans, all_null, exact = batch.columns
    null_counts, nan_counts = _counts(nulls), _counts(nans)
    for counts in (null_counts, nan_counts):
        if ((counts < UNKNOWN) | (counts > num_rows)).any():
            raise ValueError("more nulls or NaNs than rows")
    known = flags_of(pc.and_(low.is_valid(), high.is_valid()))
    keep = pa.array(known)
    edges = np.concatenate([[0], np.cumsum(num_rows)])
    bounds = bounds_of_keys(
        ordering,
        edges[:-1],
        edges[1:],
        np.flatnonzero(known),
        _keys(low.filter(keep), ordering),
        _keys(high.filter(keep), ordering),
        null_counts,
        nan_counts,
        flags_of(pc.fill_null(all_null, False)),
    )
    return FileBounds(bounds, flags_of(pc.fill_null(exact, False)) & bounds.known)


def _bounds_schema(ordering: Ordering | None) -> pa.Schema:
    key_type = pa.binary()
    if ordering is not None and ordering.dtype != object:
        key_type = pa.from_numpy_dtype(ordering.dtype)
    types = [key_type, key_type, pa.int64(), pa.int64(), pa.bool_(), pa.bool_()]
    return pa.schema(list(zip(_NAMES, types, strict=True)))


def _keys(array: pa.Array, ordering: Ordering | None) -> Keys:
    if ordering is None or ordering.dtype != object:
        return np.asarray(array.to_numpy(zero_copy_only=False))
    keys = np.empty(len(array), dtype=object)
    values = array.to_pylist()
    keys[:] = values if ordering.is_bytes else [int.from_bytes(value, "big", signed=True) for value in values]
    return keys


def _counts(array: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(array, UNKNOWN).to_numpy(), dtype=np.int64)


#: Part of every segment. Segments with another number are ignored and built again.
SEGMENT_VERSION = 1

#: A segment is written when its filters and digests have this size, or this many files.
MAX_SEGMENT_BYTES = 256 << 20
MAX_SEGMENT_FILES = 20_000

#: Files of more families than this are in several segments, so that the contents of a segment stay small.
MAX_FAMILIES = 64

BLOOM_KIND = "bloom_filter"

#: The section of the files with a directory. Segments of earlier versions lack it.
DIRECTORIES = "directories"

_MAX_ROWS = 1 << 62

#: Limits on a segment that is read: structures of a family, and on one column of it.
MAX_STRUCTURES = 10_000
MAX_STRUCTURES_OF_COLUMN = 64

#: The footers to try for the schema of a family.
_TRIED_FOOTERS = 3

FILE_COLUMNS = pa.schema(
    {
        "path": pa.string(),
        "size_bytes": pa.int64(),
        "modified_ns": pa.int64(),
        "changed_ns": pa.int64(),
        "e_tag": pa.string(),
        "family": pa.int32(),
        "num_rows": pa.int64(),
        "num_row_groups": pa.int64(),
        "footer_start": pa.int64(),
        "footer_offset": pa.int64(),
        "footer_bytes": pa.int64(),
        "footer_xxh3": pa.uint64(),
    }
)


class Segment:
    """An open segment.

    Args:
        source: Its bytes; closed by `close`.

    Raises:
        CorruptFileError: If it is damaged.
        UnsupportedFeatureError: If a later version of Intarsia wrote it.

    Attributes:
        source: The bytes, which count what is read.
        paths: The paths of its files, relative to the root of the lake, ``string``.
        num_rows, num_row_groups: The number of rows and of row groups of each file.
        family_of: The ordinal of the family of each file.
        structures: The descriptions of the structures of each family.
    """

    def __init__(self, source: CountedSource) -> None:
        self.source = source
        self.sections = Sections(source)
        if self.sections.about.get("segment_version") != SEGMENT_VERSION:
            raise CorruptFileError(
                "another version of Intarsia wrote it", reason="segment-version", path=source.path
            )
        try:
            batch = batch_from_bytes(self.sections.read("files"))
            if batch.schema != FILE_COLUMNS:
                raise ValueError(f"its files have the columns {batch.schema.to_string()}")
            if any(column.null_count for column in batch.columns):
                raise ValueError("a field of a file is null")
            families = self.sections.about["families"]
            if len(families) > MAX_FAMILIES:
                raise ValueError(f"it has {len(families):,} families")
            self.structures = [_structures(ordinal, about) for ordinal, about in enumerate(families)]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.damaged(error) from error
        column = {name: batch.column(name) for name in FILE_COLUMNS.names}
        self.paths: pa.Array = column.pop("path")
        tags = column.pop("e_tag")
        self._numbers = {name: np.asarray(values.to_numpy()) for name, values in column.items()}
        numbers = self._numbers
        self.num_rows, self.num_row_groups = numbers["num_rows"], numbers["num_row_groups"]
        self.family_of = numbers["family"]
        self.stamps = Stamps(numbers["size_bytes"], numbers["modified_ns"], numbers["changed_ns"], tags)
        if not np.array_equal(np.unique(numbers["family"]), np.arange(len(self.structures))):
            raise self.damaged("a family has no files, or a file belongs to no family")
        least = min(self.num_rows.min(initial=0), self.num_row_groups.min(initial=0))
        if least < 0 or self.num_rows.sum(dtype=float) > _MAX_ROWS:
            raise self.damaged("files with impossible numbers of rows")

    @cached_property
    def have_directory(self) -> Bools:
        """Whether each file has a directory of embedded indexes.

        Raises:
            CorruptFileError: If this is damaged, or was not recorded, as by earlier versions.
        """
        flags = np.frombuffer(self.sections.read(DIRECTORIES), dtype=np.uint8)
        if len(flags) != len(self.paths) or flags.max(initial=0) > 1:
            raise self.damaged("a file has no mark of its directory")
        return flags.astype(bool)

    @property
    def is_full(self) -> bool:
        """Whether it has at least half of the files, bytes or families at which a segment is written."""
        return (
            2 * len(self.paths) >= MAX_SEGMENT_FILES
            or 2 * self.source.size() >= MAX_SEGMENT_BYTES
            or 2 * len(self.structures) >= MAX_FAMILIES
        )

    @cached_property
    def part_names(self) -> Mapping[str, list[str]]:
        """The names of the parts of each structure, by the name of the structure's section."""
        found: dict[str, list[str]] = {}
        for name in self.sections.names():
            family, gathered, rest = name.partition("/gathered/")
            ordinal, separator, part = rest.partition("/")
            if separator:
                found.setdefault(f"{family}{gathered}{ordinal}", []).append(part)
        return found

    def stamp(self, ordinal: int) -> FileStamp:
        """Return the stamp of a file."""
        size, modified, changed, tag = (column[ordinal] for column in self.stamps)
        return FileStamp(int(size), int(modified), int(changed), tag.as_py())

    def metadata(self, ordinal: int, path: str) -> FileMetadata:
        """Return the footer of a file.

        Raises:
            CorruptFileError: If the footer is damaged.
        """
        start, offset, length, file_length, checksum = (
            int(self._numbers[name][ordinal])
            for name in ("footer_start", "footer_offset", "footer_bytes", "size_bytes", "footer_xxh3")
        )
        raw = self.sections.read_range("footers", offset, offset + length)
        if xxhash.xxh3_64_intdigest(raw) != checksum:
            raise self.damaged(f"the checksum of the footer of {self.paths[ordinal]} is wrong")
        return FileMetadata(path, RawFooter(raw, start, file_length))

    def close(self) -> None:
        """Close the file."""
        self.source.close()

    def damaged(self, fault: object) -> CorruptFileError:
        """Return the error for a part that is damaged."""
        return CorruptFileError(str(fault), reason="segment-damaged", path=self.source.path)


def _structures(family: int, about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: Any = about["gathered"]
    if not isinstance(found, list) or len(found) > MAX_STRUCTURES:
        raise ValueError(f"family {family} has too many structures, or no list of them")
    if not all(isinstance(entry, dict) for entry in found):
        raise ValueError(f"a structure of family {family} is not described by an object")
    return list(found)


@dataclass(frozen=True, eq=False)
class Gathered:
    """A structure of a family.

    Attributes:
        name: The name in reports.
        files: The positions in the family of the files that it covers.
    """

    name: str
    column: Path
    files: np.ndarray
    index: OpenIndex


class Family:
    """The files of a segment with the same columns."""

    def __init__(self, segment: Segment, ordinal: int) -> None:
        self._segment = segment
        self._ordinal = ordinal
        self._bounds: dict[int, FileBounds | None] = {}
        self._gathered: dict[int, Gathered | None] = {}

    @property
    def path(self) -> str:
        """The path of the segment."""
        return self._segment.source.path

    @cached_property
    def positions(self) -> np.ndarray:
        """The positions of the files in the segment."""
        return np.flatnonzero(self._segment.family_of == self._ordinal)

    @cached_property
    def num_rows(self) -> np.ndarray:
        """The number of rows of each file."""
        return np.asarray(self._segment.num_rows[self.positions])

    @cached_property
    def schema(self) -> FileSchema:
        """The schema of the files; key/value metadata is that of one of them.

        Raises:
            CorruptFileError: If the footers of the first files are damaged.
        """
        *others, last = self.positions[:_TRIED_FOOTERS].tolist()
        for position in others:
            with contextlib.suppress(FormatError):
                return self._schema_of(position)
        return self._schema_of(last)

    def _schema_of(self, ordinal: int) -> FileSchema:
        return self._segment.metadata(ordinal, self._segment.paths[ordinal].as_py()).schema

    @cached_property
    def has_schema(self) -> bool:
        """Whether `schema` is not damaged."""
        try:
            return self.schema is not None
        except TimeoutError:  # of a signal handler
            raise
        except (FormatError, OSError):
            return False

    def bounds(self, path: Path) -> FileBounds | None:
        """Return the bounds of a column, or of the elements of a list; None if it has none.

        Raises:
            CorruptFileError: If they are damaged.
        """
        leaf = self.schema.leaves_of_values.get(path)
        if leaf is None:
            return None
        name = f"{self._ordinal}/bounds/{leaf.ordinal}"
        if name not in self._segment.sections:
            return None
        if leaf.ordinal not in self._bounds:
            try:
                data = self._segment.sections.read(name)
                self._bounds[leaf.ordinal] = parse_bounds(data, self.schema.ordering(leaf), self.num_rows)
            except (ValueError, OverflowError) as error:
                raise self._segment.damaged(f"bounds of {leaf.name!r}: {error}") from error
        return self._bounds[leaf.ordinal]

    def gathered(self, path: Path) -> list[Gathered]:
        """Return the structures on a column, or on the elements of a list.

        Raises:
            CorruptFileError: If one is damaged.
        """
        structures: list[Gathered] = []
        columns = [list(self.schema.leaves_of_values[path].path)]
        for ordinal, entry in enumerate(self._segment.structures[self._ordinal]):
            if columns == entry.get("columns") and len(structures) < MAX_STRUCTURES_OF_COLUMN:
                if ordinal not in self._gathered:
                    self._gathered[ordinal] = self._open(ordinal, entry, path)
                opened = self._gathered[ordinal]
                if opened is not None:
                    structures.append(opened)
        return structures

    def _open(self, ordinal: int, entry: Mapping[str, Any], path: Path) -> Gathered | None:
        name = f"{self._ordinal}/gathered/{ordinal}"
        parts = _Parts(self._segment.sections, name, self._segment.part_names.get(name, []))
        data = self._segment.sections.read(name)
        files = np.frombuffer(data[: len(data) // 4 * 4], dtype="<u4").astype(np.int64)
        if len(data) % 4 or (np.diff(files) <= 0).any() or files.max(initial=-1) >= len(self.positions):
            raise self._segment.damaged(f"structure {name} covers other files")
        if entry.get("kind") == BLOOM_KIND:
            leaf = self.schema.leaves_of_values[path]
            filters = gathered_filters(leaf, self.schema.value_types[leaf.ordinal], parts, len(files))
            return Gathered(BLOOM_KIND, path, files, filters)
        key = key_of(entry)
        if key is None:
            raise self._segment.damaged(f"structure {name} is not described")
        index = index_of(key)
        if index is None:
            return None
        return Gathered(key.name, path, files, checked_opened(index, index.open_gathered(parts, len(files))))


class _Parts:
    """The parts of a structure as `intarsia.indexes.GatheredParts`."""

    def __init__(self, sections: Sections, structure: str, names: list[str]) -> None:
        self._sections = sections
        self._prefix = f"{structure}/"
        self._names = names

    def names(self) -> list[str]:
        return list(self._names)

    def num_bytes(self, name: str) -> int:
        return self._sections.num_bytes(self._prefix + name)

    def read(self, name: str) -> bytes:
        return self._sections.read(self._prefix + name)

    def read_pieces(self, name: str, ordinals: Sequence[int]) -> list[bytes]:
        return self._sections.read_parts(self._prefix + name, ordinals)
