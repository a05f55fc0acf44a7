"""The single import for authors of an index. ``docs/write-an-index.md`` builds an index with it.

====================  ====================================================================================
base classes          `Index`, whose `Index.build` gets a `ColumnData` with its `Layout`, and whose
                      `Index.open` returns an `OpenIndex`. Their other methods are capabilities
arguments             a `Condition`: `BoundCompare`, `BoundIn`, `BoundNull`, `BoundPrefix`, `BoundMatch`; for
                      indexes with `Index.can_prune_function` or `Index.lists_values`, also `BoundFunction`,
                      which `condition_mask` evaluates;
                      `required_texts`, `ignores_case` and `fold_case` for text searches; `PayloadSource`,
                      `PayloadPart`
results               a `RowSelection`; `GranuleSummaries`, `GranuleValues`
granules              `cut_at_edges`, `granule_runs`, `serialize_granules`, `parse_granules`, `granule_rows`,
                      `covered_granules`; merged with one row per granule: `merge_rows_of_granules`,
                      `merged_edges`
lake indexes          `GatheredPart` and `GatheredParts`; ready-made with Bloom filters: `filter_of`,
                      `gather_filters`, `FilterMatrix`, `GatheredFilters`, `xxh64`
errors                `IndexBuildError`, `IndexPayloadError`
====================  ====================================================================================

`intarsia.testing` tests an index class.

Example:
    >>> from intarsia.indexes import OpenIndex, RowSelection
    >>> class Everything(OpenIndex):
    ...     def candidate_rows(self, condition):
    ...         return RowSelection.all(10)
    >>> print(Everything().certain_rows(None))
    None
"""

from intarsia.arrow.hashing import xxh64
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.indexes.base import (
    GatheredPart,
    GatheredParts,
    GranuleValues,
    Index,
    OpenIndex,
    PayloadBytes,
    PayloadPart,
    PayloadSource,
)
from intarsia.indexes.distinct_counter import DistinctCounter
from intarsia.indexes.filter_matrix import FilterMatrix, GatheredFilters, filter_of, gather_filters
from intarsia.indexes.granules import (
    GranulePayload,
    covered_granules,
    cut_at_edges,
    granule_rows,
    granule_runs,
    merge_rows_of_granules,
    merged_edges,
    parse_granules,
    serialize_granules,
)
from intarsia.indexes.layout import ColumnData, Granularity, Layout
from intarsia.indexes.summaries import GranuleSummaries, merge_summaries, sum_type, summarize, summary_schema
from intarsia.predicate import (
    BoundCompare,
    BoundFunction,
    BoundIn,
    BoundMatch,
    BoundNull,
    BoundPrefix,
    condition_mask,
    fold_case,
    ignores_case,
    required_texts,
)
from intarsia.predicate import Condition as Condition
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange

__all__ = [
    "BoundCompare",
    "BoundFunction",
    "BoundIn",
    "BoundMatch",
    "BoundNull",
    "BoundPrefix",
    "ByteRange",
    "ColumnData",
    "Condition",
    "DistinctCounter",
    "FilterMatrix",
    "GatheredFilters",
    "GatheredPart",
    "GatheredParts",
    "Granularity",
    "GranulePayload",
    "GranuleSummaries",
    "GranuleValues",
    "Index",
    "IndexBuildError",
    "IndexPayloadError",
    "Layout",
    "OpenIndex",
    "PayloadBytes",
    "PayloadPart",
    "PayloadSource",
    "RowSelection",
    "condition_mask",
    "covered_granules",
    "cut_at_edges",
    "filter_of",
    "fold_case",
    "gather_filters",
    "granule_rows",
    "granule_runs",
    "ignores_case",
    "merge_rows_of_granules",
    "merge_summaries",
    "merged_edges",
    "parse_granules",
    "required_texts",
    "serialize_granules",
    "sum_type",
    "summarize",
    "summary_schema",
    "xxh64",
]
