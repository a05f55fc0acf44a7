"""Parquet's statistics and Bloom filters, added to the chunks of a column that lack them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.hashing import Hashes, xxh64
from intarsia.embed.chunk import NO_ORDER, Chunk, ChunkState, Outcome, computed_statistics, without_bounds
from intarsia.embed.page_index import HOLDS_NAN, OfAllColumns
from intarsia.embed.report import Reason
from intarsia.errors import CorruptFileError, FormatError, IndexBuildError, PredicateError
from intarsia.file import ParquetInput
from intarsia.file.writers import Claim
from intarsia.format import structs
from intarsia.format.bloom import (
    FilterLocation,
    build,
    estimated_distinct,
    optimal_bytes,
    parse_bloom_header,
    serialize_bloom_filter,
)
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf
from intarsia.indexes.layout import check_fpp
from intarsia.predicate.columns import find_column
from intarsia.predicate.nodes import ColumnName, dotted
from intarsia.records import dataclass
from intarsia.rows.ordering import Ordering
from intarsia.storage import ByteRange

#: DataFusion up to 55 takes the bounds of some row groups for those of the file.
BESIDE_NAN = Reason(
    "beside-nan",
    "another row group contains NaN and has no bounds; engines that take bounds of some row groups for those "
    "of the file would skip matching rows",
)


@dataclass(frozen=True)
class Statistics(OfAllColumns):
    """Parquet's own statistics: minimum, maximum and number of nulls of every column chunk.

    Trusted statistics are kept. The deprecated form, which many readers ignore, is kept and completed by the
    current form. Bounds of strings are truncated to 64 bytes. Every reader skips row groups by statistics,
    and they cost no request because they are in the footer.

    Example:
        >>> import intarsia as ia
        >>> ia.Statistics()
        Statistics()
    """

    kind: ClassVar[str] = "statistics"
    version: ClassVar[int] = 1
    purpose: ClassVar[str] = "skip row groups by bounds"

    def complete(self, chunk: Chunk, state: ChunkState) -> Outcome:
        """Check and complete the statistics of a chunk."""
        now = state.statistics or chunk.meta.statistics or structs.Statistics()
        if chunk.order is None and state.statistics is None:  # bounds without a declared order are undefined
            now = without_bounds(now)
        trust = chunk.file.trust(chunk.leaf)
        doubted = state.statistics is None and any(
            trust.doubt_of_writer(claim, chunk.meta)
            for claim in (Claim.NULL_COUNT, Claim.BOUNDS, Claim.LOWER_BOUND, Claim.UPPER_BOUND)
        )
        try:
            found = computed_statistics(chunk, now) if doubted or _is_incomplete(chunk, now) else now
        except (FormatError, IndexBuildError) as error:
            return Outcome(state, built=None, reason=Reason.of(error))
        reason = _missing_bounds(chunk, found)
        if found == now and not doubted:
            return Outcome(state, built=None if reason else False, reason=reason)
        if isinstance(state.column_index, ByteRange) and trust.doubt_of_writer(Claim.PAGE_BOUNDS):
            # other readers use it once the statistics are sound
            state = replace(state, column_index=None)
        return Outcome(replace(state, statistics=found), built=True, reason=reason)


def _is_incomplete(chunk: Chunk, now: structs.Statistics) -> bool:
    """Return whether a count or a bound that the chunk can have is missing or impossible."""
    nulls = now.null_count
    max_nulls = chunk.meta.num_values if chunk.leaf.max_definition_level else 0
    if nulls is None or not 0 <= nulls <= max_nulls:
        return True
    if not chunk.has_order or nulls == chunk.meta.num_values:
        return False
    if (
        now.min_value is None
        and now.max_value is None
        and now.nan_count is not None
        and not chunk.total_order
    ):
        return False  # chunks with NaN, and those beside them, get no bounds
    return not _has_sound_bounds(now, chunk.reader.ordering)


def _missing_bounds(chunk: Chunk, now: structs.Statistics) -> Reason | None:
    """Return why a chunk with values has no bounds; None if it has some, or needs none."""
    if now.min_value is not None or now.null_count == chunk.meta.num_values:
        return None
    if chunk.has_order:
        return BESIDE_NAN if now.nan_count == 0 else HOLDS_NAN
    return chunk.order_refusal or NO_ORDER


def _has_sound_bounds(now: structs.Statistics, ordering: Ordering | None) -> bool:
    """Return whether both bounds exist, are values of the type, and are in order."""
    assert ordering is not None
    if now.min_value is None or now.max_value is None:
        return False
    try:
        low, high = ordering.decode([now.min_value]), ordering.decode([now.max_value])
    except CorruptFileError:
        return False
    return bool((low <= high).all())  # also false for NaN


@dataclass(frozen=True)
class Bloom:
    """Parquet's own Bloom filter, one per row group of a column.

    It excludes row groups for ``=`` and ``IN`` on columns with many distinct values that are not sorted, such
    as identifiers, where bounds exclude nothing. Each filter is sized by the number of distinct values in
    its row group. Spark, DuckDB, DataFusion, Trino and Intarsia skip row groups with it.

    A filter by the file's own writer is kept. An attached filter is replaced if another ``fpp`` requires
    another size.

    Attributes:
        column: The column: a name, dotted if nested, or a path. All values of a list are added.
        fpp: False-positive rate, at least 0.000001 and below 1.

    Example:
        >>> import intarsia as ia
        >>> ia.Bloom("user")
        Bloom(column='user', fpp=0.01)
    """

    kind: ClassVar[str] = "bloom"
    version: ClassVar[int] = 1
    purpose: ClassVar[str] = "skip row groups for = and IN"

    column: ColumnName
    fpp: float = 0.01

    def __post_init__(self) -> None:
        check_fpp(self)

    @property
    def name(self) -> str:
        """The name in reports."""
        return f"{self.kind}({dotted(self.column)})"

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """The column, as in `Index.columns`."""
        return (self.column,)

    def leaves(self, file: ParquetInput) -> Collection[int]:
        """Return the ordinal of the column's leaf."""
        leaf = _leaf(file, self.column)
        if leaf.type == Type.BOOLEAN:
            raise IndexBuildError(
                f"Parquet has no Bloom filters for booleans, such as {self.column!r}; use Statistics or "
                "PageIndex",
                reason="unsupported-type",
                column=leaf.name,
            )
        return (leaf.ordinal,)

    def complete(self, chunk: Chunk, state: ChunkState) -> Outcome:
        """Build the filter of a chunk that has none."""
        if self._is_kept(chunk, state):
            return Outcome(state, built=False)
        try:
            hashes = _distinct_hashes(chunk)
        except (FormatError, IndexBuildError) as error:
            return Outcome(state, built=None, reason=Reason.of(error))
        bloom_filter = serialize_bloom_filter(build(hashes, optimal_bytes(len(hashes), self.fpp)))
        return Outcome(replace(state, bloom_filter=bloom_filter), built=bloom_filter != state.bloom_filter)

    def _is_kept(self, chunk: Chunk, state: ChunkState) -> bool:
        there = state.bloom_filter
        if there is None:
            return False
        try:
            if isinstance(there, ByteRange):
                if chunk.file.trust(chunk.leaf).doubt_of_writer(Claim.BLOOM_FILTER, chunk.meta):
                    return False
                found = FilterLocation.of(chunk.meta, chunk.file.footer.start)
                found.bits(chunk.bytes_of(ByteRange(*found.head)))  # raises if readers would not use it
                return True
            header_bytes, num_bytes = parse_bloom_header(there)
        except FormatError:
            return False
        # keep it if its estimated number of values requires its size; otherwise rebuild it and compare
        num_distinct = estimated_distinct(there[header_bytes:])
        return math.isfinite(num_distinct) and optimal_bytes(round(num_distinct), self.fpp) == num_bytes


def _leaf(file: ParquetInput, column: ColumnName) -> Leaf:
    """Return the leaf of a named column; the name may be that of a list, or the path of a leaf in a map."""
    try:
        path, _ = find_column(file.arrow_schema, column)
    except PredicateError as error:
        path = column if isinstance(column, tuple) else tuple(column.split("."))
        if path not in file.schema.leaves_by_path:
            raise IndexBuildError(
                f"a Bloom filter cannot be built on {column!r}: {error}",
                reason=error.reason,
                column=error.column,
            ) from error
    inside = [leaf for leaf in file.footer.leaves if leaf.path[: len(path)] == path]
    if len(inside) != 1:
        names = ", ".join(repr(leaf.name) for leaf in inside)
        raise IndexBuildError(
            f"{column!r} is a group of columns; build the Bloom filter on one of {names}",
            reason="group-of-columns",
            column=".".join(path),
        )
    return inside[0]


def _distinct_hashes(chunk: Chunk) -> Hashes:
    """Return the hashes of the distinct values, in ascending order."""
    parts = [xxh64(piece) for piece in _distinct(chunk.stored_values)]
    if chunk.leaf.is_float:
        floats = list(chunk.values.chunks)
        if chunk.leaf.logical_name == "FLOAT16":  # DuckDB looks up 32 bits
            wide = [piece.cast(pa.float32()) for piece in floats]
            parts += map(xxh64, wide)
            floats += wide
        parts += [xxh64(_twins(piece)) for piece in floats]
    if chunk.leaf.logical_name == "DECIMAL" and chunk.leaf.type == Type.FIXED_LEN_BYTE_ARRAY:
        parts += [xxh64(_in_16_bytes(piece)) for piece in chunk.stored_values.chunks]
    return distinct_numbers(np.concatenate([*parts, np.empty(0, dtype=np.uint64)]))


def distinct_numbers(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct numbers in order, by sorting, which is faster than NumPy's hashes."""
    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def _distinct(values: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield arrays that cover all values; the values of a dictionary occur once."""
    for piece in values.chunks:
        if isinstance(piece, pa.DictionaryArray):
            yield piece.dictionary.take(piece.indices.unique())
        else:
            yield piece


def _twins(floats: pa.Array) -> pa.Array:
    """Return the other bit patterns of zero and NaN that readers may look up.

    SQL treats both zeros as equal and Spark treats every NaN as equal, but a filter hashes their bits.
    """
    numbers = floats.to_numpy(zero_copy_only=False)
    twins = [0.0, -0.0] if (numbers == 0).any() else []
    if np.isnan(numbers).any():
        twins += [np.nan, -np.nan]
    return pa.array(np.array(twins, dtype=numbers.dtype), floats.type)


def _in_16_bytes(decimals: pa.Array) -> pa.Array:
    """Return shorter decimals in 16 bytes: DataFusion 36 to 54 looks up these, whatever their size is."""
    width = decimals.type.byte_width
    if width >= 16 or not len(decimals):
        return pa.array([], pa.binary(16))
    stored = np.frombuffer(decimals.buffers()[1], dtype=np.uint8)[decimals.offset * width :]
    stored = stored[: len(decimals) * width].reshape(-1, width)
    wide = np.where(stored[:, :1] > 127, np.uint8(255), np.uint8(0)).repeat(16, axis=1)
    wide[:, 16 - width :] = stored
    return pa.Array.from_buffers(pa.binary(16), len(wide), [None, pa.py_buffer(wide.tobytes())])
