"""The Bloom filters of many files as one bit matrix, probed with one contiguous read for all files.

A value's block has the same ordinal in all filters of one size. The matrix stores the filters block by block,
so the blocks of one value in all filters are adjacent: 32 bytes per filter.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.hashing import Hashes, xxh64
from intarsia.errors import CorruptFileError
from intarsia.format import bloom
from intarsia.format.bloom import BLOCK_BYTES, Blocks, block_ordinals, blocks_may_contain, blocks_of
from intarsia.indexes.base import GatheredPart, GatheredParts, OpenIndex
from intarsia.once import cached_property
from intarsia.predicate.bound import Condition
from intarsia.rows.bounds import Bools

#: Larger filters are left in their files, where a lookup reads 32 bytes of them.
MAX_FILTER_BYTES = 1 << 20

#: The false-positive rate of the filters of `filter_of`.
FILTER_FPP = 0.01

#: The number of bytes of blocks that are probed at a time.
_BYTES_AT_ONCE = 1 << 18

_BITS, _OWNERS = "bits-", "files-"


def filter_of(values: pa.Array, fpp: float = FILTER_FPP) -> bytes | None:
    """Return the bits of a Bloom filter of values, for `gather_filters`; None if it would be too large.

    Args:
        values: Distinct values without nulls. Values in conditions must have the same type to be found.
        fpp: The false-positive rate.

    Example:
        >>> len(filter_of(pa.array(["example.org", "example.net"])))
        32
    """
    num_bytes = bloom.optimal_bytes(len(values), fpp)
    return None if num_bytes > MAX_FILTER_BYTES else bloom.build(xxh64(values), num_bytes)


def gather_filters(filters: Iterable[tuple[int, bytes]]) -> list[GatheredPart]:
    """Arrange filters in one matrix for each size.

    Args:
        filters: The ordinal of a file and the bits of one of its filters. A file may have several, such as
            one for each row group.

    Example:
        >>> [part.name for part in gather_filters([(0, bytes(64)), (1, bytes(64)), (2, bytes(32))])]
        ['bits-2', 'files-2', 'bits-1', 'files-1']
    """
    by_size: dict[int, list[tuple[int, bytes]]] = {}
    for file, bits in filters:
        by_size.setdefault(len(bits) // BLOCK_BYTES, []).append((file, bits))
    parts = []
    for num_blocks, found in by_size.items():
        matrix = np.stack([blocks_of(bits) for _, bits in found], axis=1)
        owners = np.array([file for file, _ in found], dtype="<u4")
        parts.append(GatheredPart(f"{_BITS}{num_blocks}", matrix.tobytes(), BLOCK_BYTES * len(found)))
        parts.append(GatheredPart(f"{_OWNERS}{num_blocks}", owners.tobytes()))
    return parts


@dataclass(frozen=True)
class FilterMatrix:
    """Opened matrices of Bloom filters.

    Args:
        parts: The result of `gather_filters`.
        num_files: The number of files.
        prefix: The start of the names of the parts, if a structure has several matrices.
    """

    parts: GatheredParts
    num_files: int
    prefix: str = ""

    @cached_property
    def _owners(self) -> dict[int, npt.NDArray[np.uint32]]:
        """The files of the filters of each size, in the order of the matrix."""
        out = {}
        for name in self.parts.names():
            if name.startswith(self.prefix + _OWNERS):
                size = name.removeprefix(self.prefix + _OWNERS)
                data = self.parts.read(name)
                if not re.fullmatch("[1-9][0-9]{0,8}", size) or len(data) % 4:
                    raise CorruptFileError(
                        f"part {name!r} of {len(data)} bytes is not a list of files", reason="damaged-payload"
                    )
                owners = np.frombuffer(data, dtype="<u4")
                matrix_bytes = self.parts.num_bytes(f"{self.prefix}{_BITS}{size}")
                if matrix_bytes != BLOCK_BYTES * int(size) * len(owners):
                    raise CorruptFileError("a matrix and its files differ in number", reason="other-files")
                if owners.max(initial=0) >= max(self.num_files, 1):
                    raise CorruptFileError("a matrix names a file that does not exist", reason="other-files")
                out[int(size)] = owners
        return out

    @cached_property
    def has_filter(self) -> Bools:
        """Whether each file has a filter. Files without a filter are candidates for every condition."""
        found = np.zeros(self.num_files, dtype=bool)
        for owners in self._owners.values():
            found[owners] = True
        return found

    def cost_bytes(self, num_hashes: int) -> int:
        """Estimate the number of bytes to read for a number of hashes."""
        return sum(
            BLOCK_BYTES * len(owners) * min(num_hashes, num_blocks)
            for num_blocks, owners in self._owners.items()
        )

    def files_with(self, alternatives: Sequence[Hashes]) -> Bools:
        """Return the files that might contain all hashes of one of the alternatives in one of their filters.

        Raises:
            CorruptFileError: If a part is damaged.
        """
        hit = np.zeros(self.num_files, dtype=bool)
        every = np.concatenate([np.empty(0, np.uint64), *alternatives])
        for num_blocks, owners in self._owners.items():
            wanted, rows = np.unique(block_ordinals(every, num_blocks), return_inverse=True)
            pieces = self.parts.read_pieces(f"{self.prefix}{_BITS}{num_blocks}", wanted.tolist())
            if any(len(piece) != BLOCK_BYTES * len(owners) for piece in pieces):
                raise CorruptFileError("a matrix and its files differ in number", reason="other-files")
            blocks = blocks_of(b"".join(pieces)).reshape(len(pieces), len(owners), BLOCK_BYTES // 4)
            if all(len(hashes) == 1 for hashes in alternatives):
                might = _has_any(blocks, rows, every)
            else:
                edges = np.cumsum([0, *map(len, alternatives)]).tolist()
                might = np.zeros(len(owners), dtype=bool)
                for start, stop in itertools.pairwise(edges):
                    might |= _has_all(blocks, rows[start:stop], every[start:stop])
            hit[owners[might]] = True
        return hit


def _has_any(blocks: Blocks, rows: npt.NDArray[np.intp], hashes: Hashes) -> Bools:
    """Return which filters might contain at least one of the hashes, each of which has its row of blocks."""
    has = np.zeros(blocks.shape[1], dtype=bool)
    size = max(1, _BYTES_AT_ONCE // max(1, BLOCK_BYTES * len(has)))
    for start in range(0, len(hashes), size):
        part = slice(start, start + size)
        has |= blocks_may_contain(blocks[rows[part]], hashes[part, None]).any(axis=0)
    return has


def _has_all(blocks: Blocks, rows: npt.NDArray[np.intp], hashes: Hashes) -> Bools:
    """Return which filters might contain all of the hashes, each of which has its row of blocks."""
    has = np.ones(blocks.shape[1], dtype=bool)
    for row, value in zip(rows.tolist(), hashes, strict=True):
        has &= blocks_may_contain(blocks[row], value)
        if not has.any():
            break
    return has


@dataclass(frozen=True)
class GatheredFilters(OpenIndex):
    """A `GatheredIndex` of filters.

    Args:
        matrix: The filters.
        required: A function that returns the hashes that a match of a condition requires: all hashes of at
            least one alternative. None if the filters cannot decide.
    """

    matrix: FilterMatrix
    required: Callable[[Condition], Sequence[Hashes] | None]

    @classmethod
    def of_values(
        cls, parts: GatheredParts, num_files: int, required: Callable[[Condition], pa.Array | None]
    ) -> GatheredFilters:
        """Open filters of `filter_of`.

        Args:
            parts: The result of `gather_filters`.
            num_files: The number of files.
            required: A function that returns values; a file with a match contains at least one of them. None
                if they are unknown. They have the type of the values in the filters, and are not null.
        """

        def hashes(condition: Condition) -> list[Hashes] | None:
            values = required(condition)
            return None if values is None else one_of(xxh64(values))

        return cls(FilterMatrix(parts, num_files), hashes)

    def candidate_files(self, condition: Condition) -> Bools | None:
        """Return the files whose filters might contain what a match requires, and those without filters."""
        alternatives = self.required(condition)
        return (
            None if alternatives is None else self.matrix.files_with(alternatives) | ~self.matrix.has_filter
        )

    def cost_bytes(self, condition: Condition) -> int:
        """Return the size of the blocks of all required hashes."""
        return self.matrix.cost_bytes(sum(map(len, self.required(condition) or ())))


def one_of(hashes: Hashes) -> list[Hashes]:
    """Return each hash as a separate alternative."""
    return [hashes[ordinal : ordinal + 1] for ordinal in range(len(hashes))]
