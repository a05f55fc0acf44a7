"""Parquet's Bloom filters, added to the chunks of a column that lack one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from intarsia.arrow.hashing import Hashes, xxh64
from intarsia.embed.chunk import Chunk
from intarsia.embed.chunk_state import ChunkState
from intarsia.embed.structures import Outcome
from intarsia.errors import FormatError, IndexBuildError, PredicateError
from intarsia.file import ParquetInput
from intarsia.format.bloom import (
    FilterPlace,
    build,
    estimated_distinct,
    optimal_bytes,
    parse_bloom_header,
    serialize_bloom_filter,
)
from intarsia.format.footer import Leaf
from intarsia.format.structs import Type
from intarsia.indexes.parameters import check_fpp
from intarsia.predicate.columns import find_column
from intarsia.predicate.nodes import ColumnName
from intarsia.storage import ByteRange


@dataclass(frozen=True)
class Bloom:
    """Parquet's own Bloom filter: for each row group, whether a column may hold a value.

    It answers ``=`` and ``IN`` on columns whose values are many and in no order, such as identifiers, where
    bounds exclude nothing.  Each filter has the size that the number of different values in its row group
    calls for.  Spark, DuckDB, DataFusion, Trino and Intarsia skip row groups by it.

    A filter that the file's writer made stays as it is.  One that was attached before gives way if another
    ``fpp`` calls for another size.

    Attributes:
        column: The column (dotted, or a path, where it lies in a struct); of a list all values go in.
        fpp: For how many of the values that a row group does not hold it is read in vain: 0.000001
            or more, below 1.

    Example:
        >>> import intarsia as ia
        >>> ia.Bloom("user")
        Bloom(column='user', fpp=0.01)
    """

    kind: ClassVar[str] = "bloom"
    version: ClassVar[int] = 1

    column: ColumnName
    fpp: float = 0.01

    def __post_init__(self) -> None:
        check_fpp(self)

    @property
    def name(self) -> str:
        """What reports call it."""
        column = self.column if isinstance(self.column, str) else ".".join(self.column)
        return f"{self.kind}({column})"

    def leaves(self, file: ParquetInput) -> Collection[int]:
        """The ordinal of the column's leaf."""
        leaf = _leaf(file, self.column)
        if leaf.type == Type.BOOLEAN:
            raise IndexBuildError(
                f"{file.path}: no Bloom filter on {self.column!r}: Parquet has none for booleans; "
                "statistics and page index tell what there is"
            )
        return (leaf.ordinal,)

    def complete(self, chunk: Chunk, state: ChunkState) -> Outcome:
        """Build a chunk's filter, unless there is one."""
        if self._is_kept(chunk, state):
            return Outcome(state, built=False)
        try:
            hashes = _distinct_hashes(chunk)
        except (FormatError, IndexBuildError) as error:
            return Outcome(state, built=None, reason=str(error))
        bloom_filter = serialize_bloom_filter(build(hashes, optimal_bytes(len(hashes), self.fpp)))
        return Outcome(replace(state, bloom_filter=bloom_filter), built=bloom_filter != state.bloom_filter)

    def _is_kept(self, chunk: Chunk, state: ChunkState) -> bool:
        there = state.bloom_filter
        if there is None:
            return False
        try:
            if isinstance(there, ByteRange):
                _check(chunk, there)
                return True
            header_bytes, num_bytes = parse_bloom_header(there)
        except FormatError:
            return False
        # as many values as it seems to hold call for its size; in doubt it is built, and found to be the same
        num_distinct = estimated_distinct(there[header_bytes:])
        return math.isfinite(num_distinct) and optimal_bytes(round(num_distinct), self.fpp) == num_bytes


def _check(chunk: Chunk, place: ByteRange) -> None:
    """Check that there is a filter at a place; its bits are not read.

    Raises:
        FormatError: If there is none.
    """
    found = FilterPlace(*place)
    found.bits(chunk.bytes_of(ByteRange(*found.head)))


def _leaf(file: ParquetInput, column: ColumnName) -> Leaf:
    """The leaf that a name means: a column, or all that lies in a list."""
    try:
        path, _ = find_column(file.arrow_schema, column)
    except PredicateError as error:
        raise IndexBuildError(f"{file.path}: no Bloom filter on {column!r}: {error}") from error
    inside = [leaf for leaf in file.footer.leaves if leaf.path[: len(path)] == path]
    if len(inside) != 1:
        names = ", ".join(repr(leaf.name) for leaf in inside)
        raise IndexBuildError(
            f"{file.path}: no Bloom filter on {column!r}: it is a group of columns ({names})"
        )
    return inside[0]


def _distinct_hashes(chunk: Chunk) -> Hashes:
    """Hashes of the different values, ascending."""
    parts = [xxh64(piece) for piece in _distinct(chunk.stored_values)]
    if chunk.leaf.is_float:
        parts += [xxh64(_twins(piece)) for piece in chunk.values.chunks]
    hashes = np.concatenate([*parts, np.empty(0, dtype=np.uint64)])
    hashes.sort()
    is_new = np.ones(len(hashes), dtype=bool)
    np.not_equal(hashes[1:], hashes[:-1], out=is_new[1:])
    return hashes[is_new]


def _distinct(values: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Pieces that hold all values; those in a dictionary once."""
    for piece in values.chunks:
        if isinstance(piece, pa.DictionaryArray):
            yield piece.dictionary.take(piece.indices.unique())
        else:
            yield piece


def _twins(floats: pa.Array) -> pa.Array:
    """What readers may ask for when they look for zero or NaN: either zero, and NaN as Java writes it.

    To SQL the zeros are equal, and so are all NaN to Spark, but a filter would tell their bits apart.
    """
    numbers = floats.to_numpy(zero_copy_only=False)
    twins = [0.0, -0.0] if (numbers == 0).any() else []
    if np.isnan(numbers).any():
        twins += [np.nan, -np.nan]
    return pa.array(np.array(twins, dtype=numbers.dtype), floats.type)
