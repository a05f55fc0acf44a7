"""The single import for authors of an index. ``docs/write-an-index.md`` builds an index with it.

====================  ====================================================================================
protocols             `Index`, whose `Index.build` gets a `ColumnData` with its `Layout`, and whose
                      `Index.open` returns an `OpenIndex`
optional protocols    `ProvingIndex`, `ProvesWithinBounds`; `PicksPredicates`, `ProbedIndex`, `ListsValues`;
                      `EstimatesRows` and `EstimatingIndex`; `Summarizes` and `SummarizingIndex`;
                      `EnumeratesValues` and `EnumeratingIndex`, with `GranuleValues`;
                      `Sketches` and `SketchingIndex`; `Samples` and `SamplingIndex`; `ReportsShortfall`;
                      `HasPurpose`; `HasFooterKeys` and `SharesFooterKeys`; `MergesParts`, with `PayloadPart`,
                      ready-made with one row per granule: `merge_rows_of_granules`, `merged_edges`
lake indexes          `Gathers` and `GatheredIndex`, with `GatheredPart` and `GatheredParts`; `CertainFiles`,
                      `SummarizedFiles`; ready-made with Bloom filters: `filter_of`, `gather_filters`,
                      `FilterMatrix`, `GatheredFilters`, `xxh64`
arguments             a `Condition`: `BoundCompare`, `BoundIn`, `BoundNull`, `BoundPrefix`, `BoundMatch`; for
                      indexes with `can_prune_function` or `lists_values`, also `BoundFunction`, which
                      `condition_mask` evaluates;
                      `required_texts`, `ignores_case` and `fold_case` for text searches
results               a `RowSelection`; `GranuleSummaries`
granules              `cut_at_edges`, `granule_runs`, `serialize_granules`, `parse_granules`, `granule_rows`,
                      `covered_granules`
errors                `IndexBuildError`, `IndexPayloadError`
====================  ====================================================================================

`intarsia.testing` tests an index class.

Example:
    >>> from intarsia.indexes import OpenIndex, ProvingIndex
    >>> class Everything:
    ...     def candidate_rows(self, condition):
    ...         return None
    >>> isinstance(Everything(), OpenIndex), isinstance(Everything(), ProvingIndex)
    (True, False)
"""

from intarsia.arrow.hashing import xxh64
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.indexes.base import (
    EstimatesRows,
    EstimatingIndex,
    HasFooterKeys,
    HasPurpose,
    Index,
    OpenIndex,
    PicksPredicates,
    ProvesWithinBounds,
    ProvingIndex,
    ReportsShortfall,
)
from intarsia.indexes.capabilities import (
    EnumeratesValues,
    EnumeratingIndex,
    ListsValues,
    Samples,
    SamplingIndex,
    SharesFooterKeys,
    Sketches,
    SketchingIndex,
    Summarizes,
    SummarizingIndex,
)
from intarsia.indexes.column_data import ColumnData, EncodedColumns, encoded_batches
from intarsia.indexes.filter_matrix import FilterMatrix, GatheredFilters, filter_of, gather_filters
from intarsia.indexes.gathering import (
    CertainFiles,
    GatheredIndex,
    GatheredPart,
    GatheredParts,
    Gathers,
    SummarizedFiles,
)
from intarsia.indexes.granule_values import GranuleValues
from intarsia.indexes.granules import (
    GranulePayload,
    covered_granules,
    cut_at_edges,
    granule_rows,
    granule_runs,
    parse_granules,
    serialize_granules,
)
from intarsia.indexes.hll import DistinctCounter
from intarsia.indexes.layout import Granularity, Layout
from intarsia.indexes.merging import MergesParts, PayloadPart, merge_rows_of_granules, merged_edges
from intarsia.indexes.probing import PayloadBytes, PayloadSource, ProbedIndex
from intarsia.indexes.summaries import (
    GranuleSummaries,
    merge_summaries,
    sum_type,
    summarize,
    summary_schema,
)
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
    "CertainFiles",
    "ColumnData",
    "Condition",
    "DistinctCounter",
    "EncodedColumns",
    "EnumeratesValues",
    "EnumeratingIndex",
    "EstimatesRows",
    "EstimatingIndex",
    "FilterMatrix",
    "GatheredFilters",
    "GatheredIndex",
    "GatheredPart",
    "GatheredParts",
    "Gathers",
    "Granularity",
    "GranulePayload",
    "GranuleSummaries",
    "GranuleValues",
    "HasFooterKeys",
    "HasPurpose",
    "Index",
    "IndexBuildError",
    "IndexPayloadError",
    "Layout",
    "ListsValues",
    "MergesParts",
    "OpenIndex",
    "PayloadBytes",
    "PayloadPart",
    "PayloadSource",
    "PicksPredicates",
    "ProbedIndex",
    "ProvesWithinBounds",
    "ProvingIndex",
    "ReportsShortfall",
    "RowSelection",
    "Samples",
    "SamplingIndex",
    "SharesFooterKeys",
    "Sketches",
    "SketchingIndex",
    "SummarizedFiles",
    "Summarizes",
    "SummarizingIndex",
    "condition_mask",
    "covered_granules",
    "cut_at_edges",
    "encoded_batches",
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
