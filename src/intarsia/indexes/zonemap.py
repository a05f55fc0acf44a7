"""Zone maps: minimum, maximum, sum and counts of each granule.

The payload (see `intarsia.indexes.granules`) has one row per granule::

    min, max    the column's plain type   minimum and maximum, ignoring nulls and NaN; null without values
    exact       bool                      whether both are values of the column; false if one is truncated
    sum         see `summaries.sum_type`  sum of the values that are not null; 0 without values
    num_rows    int64                     rows
    null_count  int64                     nulls
    nan_count   int64                     NaNs
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import compares_alike
from intarsia.arrow.owned_rows import places_in
from intarsia.errors import CorruptFileError
from intarsia.format.enums import BoundaryOrder
from intarsia.indexes.base import GatheredPart, GatheredParts, Index, OpenIndex, PayloadPart
from intarsia.indexes.granules import (
    batch_from_bytes,
    batch_to_bytes,
    granule_rows,
    granule_runs,
    merge_rows_of_granules,
    parse_granules,
    serialize_granules,
)
from intarsia.indexes.layout import (
    ColumnData,
    Granularity,
    Layout,
    check_granularity,
    compared_batches,
    refuse_nested,
)
from intarsia.indexes.summaries import GranuleSummaries, merge_summaries, summarize, summary_schema
from intarsia.once import cached_property
from intarsia.predicate.bound import BoundMatch, BoundNull, Condition
from intarsia.rows.bounds import Bools, Bounds, boundary_order, certainly_matches, might_match
from intarsia.rows.ordering import (
    MAX_BOUND_BYTES,
    ArrowOrdering,
    Keys,
    arrow_ordering,
    truncate_max,
    truncate_min,
)
from intarsia.rows.selection import Rows, RowSelection


@dataclass(frozen=True)
class ZoneMap(Index):
    """Minimum, maximum, sum and counts of a column, per granule.

    It prunes comparisons, ranges, ``IN``, prefixes and ``IS [NOT] NULL``. It also works for types without
    usable bounds in Parquet (timestamps as INT96, decimals as BYTE_ARRAY), and for floats with NaN.
    `Table.aggregate` uses it to answer for whole granules without reading them.

    Args:
        column: The column, dotted if it is nested. It must not be inside a list or a map.
        granularity: ``"page"``, ``"row_group"``, ``"file"``, or a number of rows.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"amount": range(100_000)}), path, row_group_size=10_000)
        >>> ia.attach(path, [ia.ZoneMap("amount", granularity="row_group")]).built
        ('zone_map(amount):row_group',)
        >>> answer = ia.open(path).aggregate({"amount": ["sum", "max"]}, where="amount < 30000")
        >>> answer["amount"], answer.report.row_groups_read
        ({'sum': 449985000, 'max': 29999}, 0)
    """

    kind: ClassVar[str] = "zone_map"
    version: ClassVar[int] = 2
    purpose: ClassVar[str] = "skip granules by bounds, and answer aggregates"

    column: str
    granularity: Granularity = "page"

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_granularity(self)

    def build(self, chunk: ColumnData) -> bytes:
        """Summarize each granule: bounds, sum and counts."""
        edges = chunk.layout.edges(self.granularity, self.column)
        data_type = refuse_nested(self, self.column, chunk.type_of(self.column))
        summaries = _granule_summaries(edges, compared_batches(chunk, self.column), data_type)
        return serialize_granules(_cut_bounds(summaries), edges, self.granularity)

    def merge(self, parts: Sequence[PayloadPart]) -> bytes:
        """Concatenate the summaries of all granules."""
        return merge_rows_of_granules(parts, self.granularity, f"ZoneMap({self.column!r})")

    def open(self, payload: bytes, layout: Layout) -> OpenZoneMap:
        """Open the summaries of all granules."""
        name = f"ZoneMap({self.column!r})"
        granules = parse_granules(payload, layout, self.granularity, name, has_row_each=True)
        try:
            summaries, exact = _checked(granules.batch, granules.edges)
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise granules.damaged(error) from error
        opened = OpenZoneMap(granules.edges, summaries, exact)
        is_reversed = np.asarray(opened.bounds.minima > opened.bounds.maxima, dtype=bool)
        if (is_reversed & summaries["min"].is_valid().to_numpy()).any():
            raise granules.damaged("a minimum is above its maximum")
        return opened

    def can_prune(self, condition: Condition) -> bool:
        """Return whether bounds can evaluate the condition; a pattern needs a literal prefix."""
        if isinstance(condition, BoundMatch):
            return bool(condition.prefix) and not condition.negated
        return True

    def can_summarize(self, column: str) -> bool:
        """Return whether ``column`` is the indexed column."""
        return column == self.column

    def digest(self, payload: bytes, layout: Layout) -> bytes | None:
        """Reduce the payload to the summary of the file; None without rows."""
        opened = self.open(payload, layout)
        if not len(opened.summaries) or not opened.edges[-1]:
            return None
        merged = merge_summaries(opened.summaries, np.zeros(1, dtype=np.int64))
        merged = merged.append_column("exact", pa.array([bool(opened.exact.all())]))
        return batch_to_bytes(merged.combine_chunks().to_batches()[0])

    def gather(self, digests: Sequence[bytes]) -> list[GatheredPart]:
        """Build a table with the summary of each file."""
        table = pa.Table.from_batches([batch_from_bytes(digest) for digest in digests])
        return [GatheredPart("summaries", batch_to_bytes(table.combine_chunks().to_batches()[0]))]

    def open_gathered(self, parts: GatheredParts, num_files: int) -> GatheredZoneMap:
        """Open the table of summaries."""
        return GatheredZoneMap(parts, num_files)


@dataclass(frozen=True)
class GatheredZoneMap(OpenIndex):
    """The summaries of many files, read on first use. A file is a granule."""

    parts: GatheredParts
    num_files: int

    def cost_bytes(self, condition: Condition) -> int:
        """Return the size of the table."""
        return self.parts.num_bytes("summaries")

    def candidate_files(self, condition: Condition) -> Bools | None:
        """Return the files that might have a matching row."""
        return self._opened.evaluate(condition, might_match)

    def certain_files(self, condition: Condition) -> Bools | None:
        """Return the files in which all rows match."""
        return self._opened.evaluate(condition, certainly_matches)

    def file_summaries(self, column: str) -> tuple[pa.Table, Bools]:
        """Return the summary of each file, and whether its bounds are values."""
        return self._opened.summaries, self._opened.exact

    @cached_property
    def _opened(self) -> OpenZoneMap:
        try:
            batch = batch_from_bytes(self.parts.read("summaries"))
            edges = np.concatenate([[0], np.cumsum(batch.column("num_rows").to_numpy())])
            summaries, exact = _checked(batch, edges)
        except (ValueError, KeyError) as error:
            raise CorruptFileError(f"gathered summaries: {error}", reason="damaged-payload") from error
        if len(exact) != self.num_files:
            raise CorruptFileError("gathered summaries describe other files", reason="other-files")
        return OpenZoneMap(edges, summaries, exact)


@dataclass(frozen=True)
class OpenZoneMap(OpenIndex):
    """The summaries of all granules.

    Attributes:
        edges: The first row of each granule, then the number of rows.
        summaries: One row per granule. See `intarsia.indexes.summaries.summary_schema`.
        exact: One boolean per granule, whether ``min`` and ``max`` are values of the column.
    """

    edges: Rows
    summaries: pa.Table
    exact: Bools

    def candidate_rows(self, condition: Condition) -> RowSelection | None:
        """Return the rows of the granules that might match."""
        return self._evaluate(condition, might_match)

    def certain_rows(self, condition: Condition) -> RowSelection | None:
        """Return the rows of the granules in which all rows match."""
        return self._evaluate(condition, certainly_matches)

    def granule_summaries(self, column: str) -> GranuleSummaries:
        """Return bounds, sum and counts of each granule."""
        return GranuleSummaries(self.edges, self.summaries, self.exact)

    def _evaluate(
        self, condition: Condition, verdict: Callable[[Condition, Bounds], Bools]
    ) -> RowSelection | None:
        hit = self.evaluate(condition, verdict)
        return None if hit is None else granule_rows(self.edges, hit)

    def evaluate(self, condition: Condition, verdict: Callable[[Condition, Bounds], Bools]) -> Bools | None:
        """Evaluate a condition on each granule; None if its type is not that of the values."""
        data_type = self.summaries.schema.field("min").type
        if not isinstance(condition, BoundNull) and not compares_alike(data_type, condition.type):
            return None
        return verdict(condition, self.bounds)

    @cached_property
    def bounds(self) -> Bounds:
        """The summaries as `Bounds`."""
        low, high = self.summaries["min"], self.summaries["max"]
        num_rows, nulls, nans = (
            self.summaries[name].to_numpy() for name in ("num_rows", "null_count", "nan_count")
        )
        known = np.asarray(low.is_valid().to_numpy(), dtype=bool)
        ordering = arrow_ordering(low.type)
        minima = maxima = np.zeros(len(known), dtype=np.int64)
        order = BoundaryOrder.UNORDERED
        if ordering is None:
            known = np.zeros(len(known), dtype=bool)
        else:
            # a granule of only NaN has an empty interval as bounds, with the minimum above the maximum
            floor, ceiling = (
                (np.inf, -np.inf) if ordering.is_float else (b"", b"") if ordering.is_bytes else (0, 0)
            )
            minima, maxima = _spread(ordering, low, known, floor), _spread(ordering, high, known, ceiling)
            known = known | (nans > 0)
            if known.all():
                order = boundary_order(minima, maxima)
        return Bounds(
            ordering,
            self.edges[:-1],
            self.edges[1:],
            known,
            minima,
            maxima,
            nulls,
            nans,
            nulls == num_rows,
            order,
        )


def _spread(ordering: ArrowOrdering, values: pa.ChunkedArray, known: Bools, filler: object) -> Keys:
    """Return the keys of the known values, and ``filler`` in place of the others."""
    keys = np.empty(len(known), dtype=ordering.dtype)
    keys[:] = filler
    keys[known] = ordering.keys(values.combine_chunks())
    return keys


def _granule_summaries(
    edges: Rows, batches: Iterable[tuple[int, pa.Array]], data_type: pa.DataType
) -> pa.Table:
    """Summarize each granule, including those without rows."""
    parts, ordinals = [summary_schema(data_type).empty_table()], [np.empty(0, dtype=np.int64)]
    for first_row, piece in batches:
        if len(piece):
            granules, starts = granule_runs(edges, first_row, len(piece))
            parts.append(summarize(piece, starts))
            ordinals.append(granules)
    granules, starts = np.unique(np.concatenate(ordinals), return_index=True)
    spread = merge_summaries(pa.concat_tables(parts), starts).take(places_in(granules, len(edges) - 1))
    columns = [
        column if name in ("min", "max") or column.type == pa.null() else pc.fill_null(column, 0)
        for name, column in zip(spread.column_names, spread.columns, strict=True)
    ]
    return pa.table(columns, schema=spread.schema)


def _cut_bounds(summaries: pa.Table) -> pa.RecordBatch:
    """Build the batch of the payload, with long bounds of text and binary truncated."""
    data_type = summaries.schema.field("min").type
    exact = np.ones(len(summaries), dtype=bool)
    arrays = {name: summaries[name].combine_chunks() for name in summaries.column_names}
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        for name, cut in (("min", truncate_min), ("max", truncate_max)):
            lengths = pc.fill_null(pc.binary_length(arrays[name]), 0).to_numpy(zero_copy_only=False)
            values = None
            for granule in np.flatnonzero(lengths > MAX_BOUND_BYTES).tolist():
                values = values or arrays[name].cast(pa.binary()).to_pylist()
                whole = values[granule]
                values[granule] = cut(whole, MAX_BOUND_BYTES, text=pa.types.is_string(data_type))
                exact[granule] &= values[granule] == whole
            if values is not None:
                arrays[name] = pa.array(values, pa.binary()).cast(data_type)
    fields = list(summaries.schema)
    columns = list(arrays.values())
    fields.insert(2, pa.field("exact", pa.bool_()))
    columns.insert(2, pa.array(exact))
    return pa.record_batch(columns, schema=pa.schema(fields))


def _checked(batch: pa.RecordBatch, edges: Rows) -> tuple[pa.Table, Bools]:
    """Check the batch of a payload, and return its summaries and whether they are exact.

    Raises:
        ValueError: If the batch cannot be a result of `ZoneMap.build`.
    """
    table = pa.table(batch).replace_schema_metadata(None)
    schema = summary_schema(table.schema.field("min").type)
    exact = table["exact"]
    table = table.select(schema.names)
    if table.schema != schema or exact.type != pa.bool_() or exact.null_count:
        raise ValueError(f"it has the columns {batch.schema.to_string(show_schema_metadata=False)}")
    counts = [table[name] for name in ("num_rows", "null_count", "nan_count")]
    if any(column.null_count for column in counts):
        raise ValueError("a count is null")
    num_rows, nulls, nans = (column.to_numpy() for column in counts)
    if not np.array_equal(num_rows, np.diff(edges)):
        raise ValueError("its row counts are not those of its granules")
    present = num_rows - nulls - nans
    if (nulls < 0).any() or (nans < 0).any() or (nulls > num_rows).any() or (present < 0).any():
        raise ValueError("a granule has more nulls and NaNs than rows")
    for name in ("min", "max"):
        is_valid = table[name].is_valid().to_numpy()
        if table[name].type != pa.null() and not np.array_equal(is_valid, present > 0):
            raise ValueError(f"{name} is null in a granule with values, or is not null in one without")
    if table["sum"].type != pa.null() and table["sum"].null_count:
        raise ValueError("a sum is null")
    return table, np.asarray(exact.to_numpy(), dtype=bool)
