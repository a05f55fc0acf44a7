"""What an author of an index needs, in one import; ``docs/write-an-index.md`` builds one with it.

====================  ====================================================================================
to write              `Index`, whose `Index.build` gets a `ColumnData` with its `Layout`, and whose
                      `Index.open` gives an `OpenIndex`
what it may do more   `SureIndex`, `SureWithinBounds`; `PicksPredicates`, `ProbedIndex`, `ListsValues`;
                      `EstimatesRows` and `EstimatingIndex`; `Summarizes` and `SummarizingIndex`;
                      `Sketches` and `SketchingIndex`; `Samples` and `SamplingIndex`; `TellsShortfall`;
                      `HasFooterKeys` and `SharesFooterKeys`
what it is asked      a `Condition`: `BoundCompare`, `BoundIn`, `BoundNull`, `BoundPrefix`, `BoundMatch`
what it answers       a `RowSelection`; `GranuleSummaries`
granules              `cut_at_edges`, `granule_runs`, `serialize_granules`, `parse_granules`, `granule_rows`,
                      `covered_granules`
what to raise         `IndexBuildError`, `IndexPayloadError`
====================  ====================================================================================

`intarsia.testing` tests what was written.

Example:
    >>> from intarsia.indexes import OpenIndex, SureIndex
    >>> class Everything:
    ...     def candidate_rows(self, predicate):
    ...         return None
    >>> isinstance(Everything(), OpenIndex), isinstance(Everything(), SureIndex)
    (True, False)
"""

from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.indexes.base import (
    ColumnData,
    EncodedColumns,
    EstimatesRows,
    EstimatingIndex,
    Granularity,
    HasFooterKeys,
    Index,
    Layout,
    OpenIndex,
    PayloadBytes,
    PayloadSource,
    PicksPredicates,
    ProbedIndex,
    SureIndex,
    SureWithinBounds,
    TellsShortfall,
    encoded_batches,
)
from intarsia.indexes.capabilities import (
    ListsValues,
    Samples,
    SamplingIndex,
    SharesFooterKeys,
    Sketches,
    SketchingIndex,
    Summarizes,
    SummarizingIndex,
)
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
from intarsia.indexes.summaries import (
    GranuleSummaries,
    merge_summaries,
    sum_type,
    summarize,
    summary_schema,
)
from intarsia.predicate import BoundCompare, BoundIn, BoundMatch, BoundNull, BoundPrefix, required_texts
from intarsia.predicate import Condition as Condition
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange

__all__ = [
    "BoundCompare",
    "BoundIn",
    "BoundMatch",
    "BoundNull",
    "BoundPrefix",
    "ByteRange",
    "ColumnData",
    "Condition",
    "DistinctCounter",
    "EncodedColumns",
    "EstimatesRows",
    "EstimatingIndex",
    "Granularity",
    "GranulePayload",
    "GranuleSummaries",
    "HasFooterKeys",
    "Index",
    "IndexBuildError",
    "IndexPayloadError",
    "Layout",
    "ListsValues",
    "OpenIndex",
    "PayloadBytes",
    "PayloadSource",
    "PicksPredicates",
    "ProbedIndex",
    "RowSelection",
    "Samples",
    "SamplingIndex",
    "SharesFooterKeys",
    "Sketches",
    "SketchingIndex",
    "Summarizes",
    "SummarizingIndex",
    "SureIndex",
    "SureWithinBounds",
    "TellsShortfall",
    "covered_granules",
    "cut_at_edges",
    "encoded_batches",
    "granule_rows",
    "granule_runs",
    "merge_summaries",
    "parse_granules",
    "required_texts",
    "serialize_granules",
    "sum_type",
    "summarize",
    "summary_schema",
]
