"""Distinct values: which values occur, and in which granules.

The payload (see `intarsia.indexes.granules`) has a row for each value::

    value     the column's plain type   distinct values in ascending order, then null if any row is null
    granules  list<uint32>              ordinals of the granules that hold the value, ascending

The schema's metadata has the key ``unlisted``: uint32, the granules that hold more values than the limit, and
therefore cannot be skipped.

With the layout ``"datafusion"`` the payload is that of `intarsia.format.datafusion`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import compares_alike, comparison_array, sortable_type
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.format.datafusion import KEY as DATAFUSION_KEY
from intarsia.indexes.base import ColumnData, Granularity, Layout, encoded_batches
from intarsia.indexes.datafusion import OpenLines, build_block, open_block
from intarsia.indexes.granules import (
    cut_at_edges,
    granule_rows,
    lists_little,
    parse_granules,
    refuse_nested,
    serialize_granules,
)
from intarsia.indexes.parameters import check_choice, check_granularity, check_integer
from intarsia.predicate.bound import BoundNull, Condition
from intarsia.predicate.evaluate import condition_mask
from intarsia.rows.selection import Rows, RowSelection

#: A granule whose distinct values take more than this is recorded as "cannot skip", however few they are.
MAX_GRANULE_BYTES = 16 << 20

#: What all granules together may take; the index is built in six times as much memory.
MAX_BYTES = 96 << 20

#: If the user does not say, a granule lists so many distinct values, or as many as half of its rows, but not
#: more than the greatest: where values hardly repeat, a list of them weighs as much as it could save.
_FEW_VALUES, _PART_OF_ROWS, _MOST_VALUES = 1_000, 2, 10_000


@dataclass(frozen=True)
class Distinct:
    """The distinct values of a column, per page, row group or file.

    It prunes every predicate on its column, since the predicate is evaluated on the values
    themselves: ``=``, ``IN``, ``NOT IN``, ``<>``, ``IS NULL``, ranges and ``LIKE`` alike.

    Args:
        column: The column, dotted if it is nested; it may not lie in a list or map.
        granularity: ``"page"``, ``"row_group"``, ``"file"``, or a number of rows.
        max_values: A granule with more distinct values than this is recorded as "cannot skip"; so is one
            whose values take more than 16 MiB. None: half of the granule's rows, but 1,000 in any case
            and 10,000 at most (DataFusion's form: 10,000). All granules together may list 96 MiB; beyond that
            the index is refused.
        layout: ``"granules"``; or ``"datafusion"``, the form that the example of DataFusion's blog reads: the
            values of the file, whose offset stands in the footer key ``distinct_index_offset``. That form
            is about a text column of the whole file (``granularity`` is then ``"file"``), says nothing of
            nulls, so that it judges no ``IS NULL``, and a file has at most one. What it cannot hold is
            refused: more than ``max_values`` values, values with a newline.

    Example:
        >>> import intarsia as ia
        >>> ia.Distinct("country", granularity="row_group")
        Distinct(column='country', granularity='row_group', max_values=None, layout='granules')
    """

    kind: ClassVar[str] = "distinct"
    version: ClassVar[int] = 1

    column: str
    granularity: Granularity = "page"
    max_values: int | None = None
    layout: str = "granules"

    def __post_init__(self) -> None:
        """Parameters are checked at once; the default granularity is that of the layout."""
        check_choice(self, "layout", "granules", "datafusion")
        check_granularity(self)
        if self._is_datafusion and self.granularity == "page":
            object.__setattr__(self, "granularity", "file")
        if self.max_values is not None:
            check_integer(self, "max_values", 0)
        if self._is_datafusion and self.granularity != "file":
            raise IndexBuildError(
                f"Distinct: granularity is {self.granularity!r}, and DataFusion's form knows 'file' only"
            )

    @property
    def _is_datafusion(self) -> bool:
        return self.layout == "datafusion"

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def build(self, chunk: ColumnData) -> bytes:
        """The payload for a file; see the module's text."""
        edges = chunk.layout.edges(self.granularity, self.column)
        value_type = refuse_nested(self, self.column, chunk.type_of(self.column))
        granules = _Granules(self._limits(edges))
        batches = (
            (row, piece if pa.types.is_dictionary(piece.type) else comparison_array(piece, value_type))
            for row, piece in encoded_batches(chunk, self.column)
        )
        for granule, piece in cut_at_edges(edges, batches):
            if pa.types.is_dictionary(piece.type):  # the entries that occur, two of them perhaps alike
                piece = comparison_array(pc.unique(piece), value_type)
            granules.add(granule, piece)
        batch, unlisted = granules.finish(value_type)
        if self._is_datafusion:
            if unlisted:
                raise IndexBuildError(
                    f"Distinct: {self.column!r} has more than {granules.limits[0]} distinct values, or over "
                    f"{MAX_GRANULE_BYTES:,} bytes of them, and DataFusion's form lists all or none: raise "
                    "max_values, or leave layout out"
                )
            return build_block(self.column, batch.column("value"))
        return serialize_granules(batch, edges, self.granularity, {b"unlisted": unlisted})

    def _limits(self, edges: Rows) -> Rows:
        """How many distinct values each granule lists."""
        num_rows = np.diff(edges)
        if self.max_values is not None:
            return np.full_like(num_rows, self.max_values)
        few = _MOST_VALUES if self._is_datafusion else _FEW_VALUES
        return np.asarray(np.clip(num_rows // _PART_OF_ROWS, few, _MOST_VALUES), dtype=np.int64)

    def footer_keys(self, payload_offset: int) -> Mapping[bytes, bytes]:
        """The key by which DataFusion's example finds the values."""
        return {DATAFUSION_KEY: b"%d" % payload_offset} if self._is_datafusion else {}

    def shortfall(self, payload: bytes, layout: Layout) -> str | None:
        """Why most rows are never skipped by it; None if they may be."""
        if self._is_datafusion or not lists_little(payload, layout.edges(self.granularity, self.column)):
            return None
        limit = "" if self.max_values is None else f" (max_values={self.max_values})"
        return f"most rows are in granules with too many distinct values to list, or too long ones{limit}"

    def can_prune(self, predicate: Condition) -> bool:
        """DataFusion's form says nothing of nulls."""
        return not (self._is_datafusion and isinstance(predicate, BoundNull))

    def open(self, payload: bytes, layout: Layout) -> OpenDistinct | OpenLines:
        """The values and where they occur."""
        if self._is_datafusion:
            return open_block(payload, layout)
        name = f"Distinct({self.column!r})"
        found = parse_granules(payload, layout, self.granularity, name)
        try:
            unlisted = np.frombuffer(found.metadata[b"unlisted"], dtype="<u4")
            values, lists = found.batch.column("value"), found.batch.column("granules")
            if not pa.types.is_list(lists.type) or lists.type.value_type != pa.uint32() or lists.null_count:
                raise ValueError(f"its granules are {lists.type}, or null")
            granules = lists.flatten().to_numpy()
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise found.damaged(error) from error
        highest = max(granules.max(initial=0), unlisted.max(initial=0))
        num_told = len(granules) + len(unlisted)
        # granules of so many rows have a value each, be it null
        is_too_little = isinstance(self.granularity, int) and num_told < found.num_granules
        if is_too_little or (num_told and highest >= found.num_granules):
            raise found.other_rows()
        return OpenDistinct(found.edges, values, np.asarray(lists.offsets.to_numpy()), granules, unlisted)


@dataclass(frozen=True)
class OpenDistinct:
    """Values, and for value ``i`` the granules ``granules[offsets[i]:offsets[i + 1]]``."""

    edges: Rows
    values: pa.Array
    offsets: npt.NDArray[np.int32]
    granules: npt.NDArray[np.uint32]
    unlisted: npt.NDArray[np.uint32]

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows of the granules that hold a value which meets the predicate."""
        hit = self._granules_with(self._matches(predicate))
        hit[self.unlisted] = True
        return granule_rows(self.edges, hit)

    def certain_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows of the granules that hold no value but those which meet the predicate."""
        missed = self._granules_with(~self._matches(predicate))
        missed[self.unlisted] = True
        return granule_rows(self.edges, ~missed)

    def _matches(self, predicate: Condition) -> npt.NDArray[np.bool_]:
        if isinstance(predicate, BoundNull):  # nulls are the same in every type
            predicate = replace(predicate, type=self.values.type)
        if not compares_alike(self.values.type, predicate.type):  # pyarrow may crash on casts of wild types
            raise IndexPayloadError(f"it holds values of type {self.values.type}, not {predicate.type}")
        return np.asarray(condition_mask(predicate, self.values).to_numpy(zero_copy_only=False), dtype=bool)

    def _granules_with(self, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        hit = np.zeros(len(self.edges) - 1, dtype=bool)
        hit[self.granules[np.repeat(chosen, np.diff(self.offsets))]] = True
        return hit


class _Granules:
    """Gathers ``(value, granule)`` pairs as the column goes by."""

    def __init__(self, limits: Rows) -> None:
        self.limits = limits
        self.values: list[pa.Array] = []
        self.ordinals: list[npt.NDArray[np.uint32]] = []
        self.unlisted: list[int] = []
        self.num_bytes = 0
        self._pending: pa.Array | None = None  # distinct values so far of the granule that is still open
        self._granule = 0
        self._is_too_much = False

    def add(self, granule: int, piece: pa.Array) -> None:
        """Take values of a granule; granules come in order."""
        if granule != self._granule:
            self._flush()
            self._granule = granule
        if not self._is_too_much:
            self._take(pc.unique(piece.cast(sortable_type(piece.type))))

    def _take(self, found: pa.Array) -> None:
        if self._pending is not None and found.nbytes <= MAX_GRANULE_BYTES:
            found = pc.unique(pa.concat_arrays([self._pending, found]))
        # more than the limit is not kept, so a granule as large as a file stays small in memory
        self._is_too_much = len(found) > self.limits[self._granule] or found.nbytes > MAX_GRANULE_BYTES
        self._pending = None if self._is_too_much else found

    def _flush(self) -> None:
        if self._is_too_much:
            self.unlisted.append(self._granule)
        elif self._pending is not None:
            self.values.append(self._pending)
            self.ordinals.append(np.full(len(self._pending), self._granule, dtype=np.uint32))
            self.num_bytes += self._pending.nbytes
        self._pending, self._is_too_much = None, False
        if self.num_bytes > MAX_BYTES:
            raise IndexBuildError(
                f"Distinct: the values of all granules take more than {MAX_BYTES:,} bytes; use larger "
                "granules, a smaller max_values, or BloomGranule"
            )

    def finish(self, value_type: pa.DataType) -> tuple[pa.RecordBatch, bytes]:
        """The batch of the payload, and ``unlisted``."""
        self._flush()
        stored = sortable_type(value_type)
        values = pa.concat_arrays([pa.array([], stored), *self.values])
        granules = np.concatenate([np.empty(0, np.uint32), *self.ordinals])
        distinct, offsets, order = _group(values)
        lists = pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.array(granules[order], pa.uint32())
        )
        list_type = pa.list_(pa.field("item", pa.uint32(), nullable=False))
        batch = pa.record_batch(
            [distinct.cast(value_type), lists.cast(list_type)],
            schema=pa.schema([pa.field("value", value_type), pa.field("granules", list_type)]),
        )
        return batch, np.array(self.unlisted, dtype="<u4").tobytes()


def _group(values: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Distinct values in ascending order (null last), where each one's run begins, and the sorting order."""
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    ranks = pc.array_sort_indices(encoded.dictionary).to_numpy()  # null comes last
    rank_of = np.empty(len(ranks), dtype=np.int64)
    rank_of[ranks] = np.arange(len(ranks))
    places = rank_of[encoded.indices.to_numpy()] if len(values) else np.empty(0, dtype=np.int64)
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=len(ranks))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return encoded.dictionary.take(pa.array(ranks)), offsets, order
