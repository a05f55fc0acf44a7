"""N-grams of text, and the granules in which they occur.

A gram is ``n`` consecutive bytes of UTF-8 in a value. A pattern is evaluated with the grams of its required
texts: a granule that lacks one of them is excluded. Grams are bytes rather than characters, which is correct
in every script, because a value that contains a text contains its bytes. If case is ignored, values are
folded before they are split.

Each value is preceded by the byte 0xFF, which UTF-8 never contains. So no gram spans two values, and grams
also cover the start of a value.

The payload (see `intarsia.indexes.granules`) is one row of three lists, which compress better than a list per
gram. ``docs/format.md`` specifies them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_type
from intarsia.arrow.hashing import xxh64
from intarsia.errors import IndexBuildError
from intarsia.indexes.base import GatheredPart, GatheredParts, Index, OpenIndex, PayloadPart
from intarsia.indexes.filter_matrix import FilterMatrix, GatheredFilters, filter_of, gather_filters
from intarsia.indexes.granules import (
    GranulePayload,
    cut_at_edges,
    granule_rows,
    is_mostly_unlisted,
    merged_edges,
    other_rows,
    parse_granules,
    serialize_granules,
)
from intarsia.indexes.layout import (
    ColumnData,
    Granularity,
    Layout,
    check_choice,
    check_granularity,
    check_integer,
    compared_batches,
)
from intarsia.indexes.lookups import REMEMBERED_LOOKUPS, lookup_values
from intarsia.once import cached_property
from intarsia.predicate.bound import (
    BoundMatch,
    BoundPrefix,
    Condition,
    fold_case,
    ignores_case,
    required_texts,
)
from intarsia.predicate.pattern import fold_text
from intarsia.rows.selection import Rows, RowSelection

#: Distinct grams as big-endian numbers, ascending.
Grams: TypeAlias = npt.NDArray[np.uint32]

#: Precedes each value.
START = b"\xff"

#: The number of bytes of text that are split into grams at a time.
BLOCK_BYTES = 1 << 20

#: From this number on, grams of up to 3 bytes are marked in a table of all grams rather than sorted.
MANY_GRAMS = 1 << 16

#: The false-positive rate of a gram of a file in a lake index. A pattern has several grams.
_FILE_FPP = 0.05

#: The columns of the payload, and those that list the grams and the granules that contain them.
_LISTS = ("gram_steps", "counts", "granule_steps")
_GRAMS, _GRANULES = (0,), (1, 2)
_LIST_TYPE = pa.list_(pa.field("item", pa.uint32(), nullable=False))


@dataclass(frozen=True)
class Ngram(Index):
    """The n-grams of text, for ``LIKE '%text%'``, ``'%end'``, ``'start%'`` and regular expressions.

    It also evaluates ``=`` and ``IN``. A searched text needs at least ``n`` bytes, or ``n - 1`` bytes at the
    start of the value. In ASCII, a character is a byte.

    Args:
        column: A string column, dotted if it is nested. It must not be inside a list or a map.
        n: The number of bytes in a gram: 2, 3 or 4. Longer grams skip more and take more space.
        granularity: ``"page"``, ``"row_group"``, ``"file"``, or a number of rows.
        ignore_case: Whether case is folded (A to Z) for ``ILIKE`` and regular expressions with ``(?i)``.
            Other conditions then skip slightly less. If false, only the parts of these patterns without
            letters are used.
        max_grams: The maximum number of grams of a granule. A granule with more cannot be skipped.

    Example:
        >>> import intarsia as ia
        >>> ia.Ngram("url", ignore_case=True)
        Ngram(column='url', n=3, granularity='page', ignore_case=True, max_grams=100000)
    """

    kind: ClassVar[str] = "ngram"
    version: ClassVar[int] = 2
    purpose: ClassVar[str] = "skip granules for LIKE '%text%' and regular expressions"

    column: str
    n: int = 3
    granularity: Granularity = "page"
    ignore_case: bool = False
    max_grams: int = 100_000

    def __post_init__(self) -> None:
        """Check the parameters, which bound the time to evaluate a condition."""
        check_integer(self, "n", 2, 4)
        check_granularity(self)
        check_choice(self, "ignore_case", True, False)
        check_integer(self, "max_grams", 1)

    def can_prune(self, condition: Condition) -> bool:
        """Return whether every match contains certain grams."""
        return bool(_required_grams(self, condition))

    def build(self, chunk: ColumnData) -> bytes:
        """List the n-grams, and the granules that contain each of them."""
        value_type = comparison_type(chunk.type_of(self.column))
        if not pa.types.is_string(value_type):
            raise IndexBuildError(
                f"Ngram: {self.column!r} is {value_type}, not a string column; use Distinct or BloomGranule",
                reason="not-a-string-column",
                column=self.column,
            )
        edges = chunk.layout.edges(self.granularity, self.column)
        granules = _GramLists(self.n, self.max_grams)
        for granule, piece in cut_at_edges(edges, compared_batches(chunk, self.column)):
            texts = pc.unique(piece).drop_null()
            granules.add(granule, fold_case(texts) if self.ignore_case else texts)
        return granules.serialize(edges, self.granularity)

    def merge(self, parts: Sequence[PayloadPart]) -> bytes:
        """Merge the grams of all parts, and renumber their granules."""
        granules = _GramLists(self.n, self.max_grams)
        first = 0
        opened = [self.open(part.payload, part.layout) for part in parts]
        for part in opened:
            granules.add_part(first, part)
            first += len(part.edges) - 1
        return granules.serialize(merged_edges([part.edges for part in opened]), self.granularity)

    def shortfall(self, payload: bytes, layout: Layout) -> str | None:
        """Return why most rows can never be skipped, or None."""
        if not is_mostly_unlisted(payload, layout.edges(self.granularity, self.column)):
            return None
        return f"most rows are in granules with too many grams to list (max_grams={self.max_grams})"

    def open(self, payload: bytes, layout: Layout) -> OpenNgram:
        """Open the grams and their granules."""
        granules = self.parse(payload, layout, _GRAMS)
        (gram_steps,) = _lists(granules, _GRAMS)
        grams = np.cumsum(gram_steps, dtype=np.int64)
        return OpenNgram(self, payload, layout, granules.edges, grams, granules.unlisted)

    def parse(self, payload: bytes, layout: Layout, columns: Sequence[int]) -> GranulePayload:
        """Parse some columns of a payload."""
        return parse_granules(payload, layout, self.granularity, f"Ngram({self.column!r})", columns=columns)

    def digest(self, payload: bytes, layout: Layout) -> bytes | None:
        """Reduce the payload to a Bloom filter of the grams of the whole file.

        None if a granule has too many grams to be listed, or the filter would be too large.
        """
        opened = self.open(payload, layout)
        return None if len(opened.unlisted) else filter_of(_as_values(opened.grams), _FILE_FPP)

    def gather(self, digests: Sequence[bytes]) -> list[GatheredPart]:
        """Arrange the filters in matrices, one for each size."""
        return gather_filters(enumerate(digests))

    def open_gathered(self, parts: GatheredParts, num_files: int) -> OpenIndex:
        """Open the matrices."""
        return GatheredFilters(
            FilterMatrix(parts, num_files),
            lambda leaf: [xxh64(_as_values(grams)) for grams in _required_grams(self, leaf)] or None,
        )

    def texts(self, leaf: Condition) -> list[list[bytes]]:
        """Return the texts that an indexed match contains, in one list per queried value."""
        if not pa.types.is_string(leaf.type):
            return []
        fold = fold_text if self.ignore_case else str
        values = lookup_values(leaf)
        if values is not None:
            return [[START + fold(value).encode()] for value in values.to_pylist()]
        if not isinstance(leaf, (BoundPrefix, BoundMatch)) or leaf.negated:
            return []
        texts = [fold(text) for text in required_texts(leaf)]
        if ignores_case(leaf) and not self.ignore_case:
            # only folded values contain these texts, but folding does not change parts without a to z
            texts = [part for text in texts for part in re.split("[a-z]", text)]
        return [[START + fold(leaf.prefix.decode()).encode(), *(text.encode() for text in texts)]]


@lru_cache(maxsize=REMEMBERED_LOOKUPS)  # the files of a lake have the same index
def _required_grams(index: Ngram, leaf: Condition) -> list[Grams]:
    """Return the grams of each queried value, or of every match. Empty if there may be none."""
    try:
        alternatives = index.texts(leaf)
    except UnicodeDecodeError:  # the literal is not UTF-8
        return []
    found = []
    for texts in alternatives:
        grams = [_all_grams(np.frombuffer(text, dtype=np.uint8), index.n) for text in texts]
        found.append(np.unique(np.concatenate(grams)))
    return found if all(map(len, found)) else []


def _as_values(grams: npt.NDArray[Any]) -> pa.Array:
    return pa.array(grams.astype(np.uint64))


def _lists(granules: GranulePayload, columns: Sequence[int]) -> list[npt.NDArray[np.uint32]]:
    """Return the numbers of some columns, each of which is one list.

    Raises:
        IndexPayloadError: If they are not.
    """
    try:
        if granules.batch.num_rows != 1:
            raise ValueError(f"it has {granules.batch.num_rows} rows")
        return [_numbers(granules.batch.column(_LISTS[ordinal])) for ordinal in columns]
    except (KeyError, ValueError) as error:
        raise granules.damaged(error) from error


def _numbers(lists: pa.Array) -> npt.NDArray[np.uint32]:
    """Return the numbers of the only list."""
    if not pa.types.is_list(lists.type) or lists.type.value_type != pa.uint32() or lists.null_count:
        raise ValueError(f"it contains {lists.type}, or null")
    values, (start, stop) = lists.values, lists.offsets.to_pylist()
    if values.null_count:
        raise ValueError("it contains null")
    return np.asarray(values.to_numpy()[start:stop])  # `flatten` copies them


class _Granules(NamedTuple):
    """The granules that contain each gram ``i``: ``steps[offsets[i]:offsets[i + 1]]``, delta-encoded."""

    counts: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.int64]
    steps: npt.NDArray[np.uint32]


@dataclass(frozen=True)
class OpenNgram(OpenIndex):
    """The grams, and the granules that contain them, which are read if all grams of a text occur."""

    index: Ngram
    payload: bytes
    layout: Layout
    edges: Rows
    grams: npt.NDArray[np.int64]
    unlisted: Rows

    @cached_property
    def granules(self) -> _Granules:
        """The granules that contain each gram.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """
        granules = self.index.parse(self.payload, self.layout, _GRANULES)
        counts, steps = _lists(granules, _GRANULES)
        if len(counts) != len(self.grams) or counts.sum(dtype=np.int64) != len(steps):
            raise granules.damaged("the lengths of its lists do not agree")
        offsets = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, dtype=np.int64, out=offsets[1:])
        return _Granules(counts, offsets, steps)

    def candidate_rows(self, condition: Condition) -> RowSelection | None:
        """Return the rows of the granules that have all grams of a queried value or pattern.

        Raises:
            IndexPayloadError: If the payload names a granule that does not exist.
        """
        required = _required_grams(self.index, condition)
        if not required:
            return None
        hit = np.zeros(len(self.edges) - 1, dtype=bool)
        for grams in required:
            hit |= self._granules_with_all(grams)
        hit[self.unlisted] = True
        return granule_rows(self.edges, hit)

    def pairs(self) -> tuple[Grams, Rows]:
        """Return each gram of each granule, and the granule, in the order of granules and then of grams."""
        counts, offsets, steps = self.granules
        total = np.cumsum(steps, dtype=np.int64)
        before = np.concatenate([[0], total])[offsets[:-1]]
        granules = total - np.repeat(before, counts)
        order = np.argsort(granules, kind="stable")
        return np.repeat(self.grams, counts)[order].astype(np.uint32), granules[order]

    def _granules_with_all(self, grams: Grams) -> npt.NDArray[np.bool_]:
        positions = np.searchsorted(self.grams, grams)
        if positions[-1] == len(self.grams) or (self.grams[positions] != grams).any():
            return np.zeros(len(self.edges) - 1, dtype=bool)
        counts, offsets, steps = self.granules
        rarest_first = positions[np.argsort(counts[positions], kind="stable")]
        hit = np.ones(len(self.edges) - 1, dtype=bool)
        for ordinal in rarest_first.tolist():
            has = np.zeros(len(hit), dtype=bool)
            granules = np.cumsum(steps[offsets[ordinal] : offsets[ordinal + 1]], dtype=np.int64)
            if granules.max(initial=-1) >= len(hit):
                raise other_rows(f"Ngram({self.index.column!r})")
            has[granules] = True
            hit &= has
            if not hit.any():
                break
        return hit


# --- splitting text into grams -----------------------------------------------------------------------


def _all_grams(data: npt.NDArray[np.uint8], n: int) -> Grams:
    """Return the gram at each position, except those that span the start of a value."""
    count = max(len(data) - n + 1, 0)
    grams = data[:count].astype(np.uint32)
    is_whole = np.ones(count, dtype=bool)
    for offset in range(1, n):
        following = data[offset : offset + count]
        grams = grams << np.uint32(8) | following
        is_whole &= following != START[0]
    return grams[is_whole]


def _marked(texts: pa.Array) -> npt.NDArray[np.uint8]:
    """Concatenate the bytes of all texts, each preceded by `START`."""
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    is_text = np.ones(len(data) + len(texts), dtype=bool)
    is_text[offsets[:-1].astype(np.int64) - offsets[0] + np.arange(len(texts))] = False
    marked = np.full(len(is_text), START[0], dtype=np.uint8)
    marked[is_text] = data
    return marked


class _GramLists:
    """Collects the grams of each granule while the column is read."""

    def __init__(self, n: int, max_grams: int) -> None:
        self.n = n
        self.max_grams = max_grams
        self.found: dict[int, Grams] = {}
        self.unlisted: dict[int, None] = {}
        self._seen = np.empty(0, dtype=bool)

    def add(self, granule: int, texts: pa.Array) -> None:
        """Add texts of a granule, without nulls."""
        if len(texts) == 0 or granule in self.unlisted:
            return
        marked = _marked(texts)
        for start in range(0, len(marked), BLOCK_BYTES):
            grams = self._distinct(_all_grams(marked[start : start + BLOCK_BYTES + self.n - 1], self.n))
            if granule in self.found:
                grams = np.union1d(self.found[granule], grams)
            self.found[granule] = grams
            if len(grams) > self.max_grams:
                del self.found[granule]
                self.unlisted[granule] = None
                return

    def add_part(self, first: int, part: OpenNgram) -> None:
        """Add the index of a part of the file, whose granules begin at ``first``."""
        grams, granules = part.pairs()
        found, starts = np.unique(granules, return_index=True)
        self.found |= dict(zip((found + first).tolist(), np.split(grams, starts[1:]), strict=False))
        self.unlisted |= dict.fromkeys((part.unlisted + first).tolist())

    def _distinct(self, grams: Grams) -> Grams:
        if len(grams) < MANY_GRAMS:
            return np.unique(grams)
        if self.n > 3:
            return np.sort(pc.unique(pa.array(grams)).to_numpy())
        if len(self._seen) == 0:
            self._seen = np.zeros(1 << 8 * self.n, dtype=bool)
        self._seen[grams] = True
        found = np.flatnonzero(self._seen).astype(np.uint32)
        self._seen[found] = False
        return found

    def serialize(self, edges: Rows, granularity: Granularity) -> bytes:
        """Return the payload."""
        grams_of, counts, steps = ([np.empty(0, np.uint32)] for _ in _LISTS)
        for keys in self._sorted_keys():
            grams = (keys >> np.uint64(32)).astype(np.uint32)
            granules = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
            firsts = np.flatnonzero(np.diff(grams, prepend=~grams[:1]))
            grams_of.append(grams[firsts])
            counts.append(np.diff(firsts, append=len(grams)).astype(np.uint32))
            differences = np.diff(granules, prepend=0)
            differences[firsts] = granules[firsts]
            steps.append(differences.astype(np.uint32))
        lists = [np.concatenate(parts) for parts in (grams_of, counts, steps)]
        lists[0] = np.diff(lists[0], prepend=np.uint32(0))
        if len(lists[2]) >= 1 << 31:
            raise IndexBuildError(
                "Ngram: there are too many grams; use a smaller n, or larger granules",
                reason="index-too-large",
            )
        schema = pa.schema([pa.field(name, _LIST_TYPE) for name in _LISTS])
        columns = [
            pa.ListArray.from_arrays(pa.array([0, len(part)], pa.int32()), pa.array(part), type=_LIST_TYPE)
            for part in lists
        ]
        batch = pa.record_batch(columns, schema=schema)
        unlisted = np.array(list(self.unlisted), dtype=np.int64)
        return serialize_granules(batch, edges, granularity, unlisted=unlisted)

    def _sorted_keys(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Yield pairs of gram and granule as ascending numbers, in parts, which bounds the memory."""
        for part in range(16):
            low, high = (edge << 8 * self.n - 4 for edge in (part, part + 1))
            parts = [np.empty(0, np.uint64)]
            for granule, grams in self.found.items():
                start, stop = np.searchsorted(grams, low), np.searchsorted(grams, high)
                parts.append(grams[start:stop].astype(np.uint64) << np.uint64(32) | np.uint64(granule))
            keys = np.concatenate(parts)
            if len(keys):
                keys.sort()
                yield keys
