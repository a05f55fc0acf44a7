"""The decision which metadata of a file is trusted.

Footers and indexes are trusted unless a rule applies. `intarsia.file.writers` lists the errors of writers.
Rules that follow from the format itself are in the methods of `Trust`: the types for which deprecated bounds
are valid, the known column orders, and contradictory null counts.

`intarsia.verify` has its own rules for comparing metadata with data.
"""

from __future__ import annotations

from dataclasses import field
from typing import Generic, TypeVar

import pyarrow as pa

from intarsia.file.writers import (
    BYTES,
    STATISTICS_CLAIMS,
    Claim,
    WrittenColumn,
    has_type_order,
    parse_writer,
    rules_of,
)
from intarsia.format.directory import Directory
from intarsia.format.enums import Type
from intarsia.format.footer import Footer, Leaf
from intarsia.format.structs import ColumnChunk, ColumnMetaData, Statistics
from intarsia.once import cached_property
from intarsia.records import dataclass
from intarsia.rows.ordering import successor

_T = TypeVar("_T")

#: Column orders under which bounds are used.
KNOWN_ORDERS = ("TYPE_ORDER", "IEEE_754_TOTAL_ORDER", "INT96_TIMESTAMP_ORDER")


@dataclass(frozen=True)
class TrustedValue(Generic[_T]):
    """A value in metadata, if it is trusted.

    Attributes:
        value: The value; None if it is missing or not trusted.
        reason: The reason why there is no value; None if there is one.
    """

    value: _T | None
    reason: str | None = None


@dataclass(frozen=True)
class Trust:
    """The trusted metadata of one column.

    Attributes:
        arrow_type: The column's Arrow type; None if it is unknown.
        directory: The directory of embedded indexes; None if there is none. It says which statistics and page
            indexes are of Intarsia, not of the file's writer.
    """

    footer: Footer
    leaf: Leaf
    arrow_type: pa.DataType | None = None
    directory: Directory | None = None
    # those about claims that have been decided for all chunks
    _doubts: dict[Claim, str | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def doubt(self, claim: Claim, meta: ColumnMetaData | None = None) -> str | None:
        """Return the reason why a claim is not trusted; None if it is.

        Args:
            meta: The metadata of a chunk; None for all chunks.
        """
        if claim not in self._doubts:
            self._doubts[claim] = self._doubt_of_format(claim) or self.doubt_of_writer(claim)
        found = self._doubts[claim]
        if found is None or meta is None:
            return found
        return self._doubt_of_format(claim) or self.doubt_of_writer(claim, meta)

    def doubt_of_writer(self, claim: Claim, meta: ColumnMetaData | None = None) -> str | None:
        """Return the reason why a claim of the file's writer is not trusted; None if no rule applies."""
        is_computed = self.directory is not None and self.leaf.ordinal in self.directory.computed_statistics
        if claim in STATISTICS_CLAIMS and is_computed:
            return None
        for writer in self.footer.writers:
            column = WrittenColumn(self.footer, writer, self.leaf, meta, self.arrow_type)
            for rule in rules_of(writer):
                if claim in rule.claims and rule.applies(column):
                    return rule.reason.format(name=parse_writer(writer)[0])
        return None

    def doubt_of_page_index(self, chunk: ColumnChunk) -> str | None:
        """Return the reason why the page index of a chunk is not trusted; None if it is or does not exist."""
        starts = [start for start in (chunk.offset_index_offset, chunk.column_index_offset) if start]
        if self.directory is not None and all(start >= self.directory.original_length for start in starts):
            return None  # added by Intarsia
        return self.doubt_of_index() if starts else None

    def doubt_of_bloom_filter(self, meta: ColumnMetaData) -> str | None:
        """Return the reason why the Bloom filter of a chunk is not trusted; None if it is, or is missing."""
        start = meta.bloom_filter_offset
        if not start:
            return None
        if self.directory is not None and start >= self.directory.original_length:
            return self._doubt_of_format(Claim.BLOOM_FILTER)  # added by Intarsia
        return self.doubt(Claim.BLOOM_FILTER, meta)

    def doubt_of_index(self) -> str | None:
        """Return the reason why a part of the writer's page index is not trusted; None if all of it is."""
        return self.doubt(Claim.PAGE_INDEX) or self.doubt(Claim.PAGE_BOUNDS)

    def _doubt_of_format(self, claim: Claim) -> str | None:
        leaf = self.leaf
        if claim is Claim.BOUNDS and not self.order_is_known:
            return "the footer does not declare the order of the column"
        if claim is Claim.DEPRECATED_BOUNDS:  # they compare signed, for every type and writer
            if leaf.type in (*BYTES, Type.INT96, Type.BOOLEAN):
                return "deprecated bounds compare bytes as signed"
            if not leaf.is_signed:
                return "deprecated bounds compare unsigned numbers as signed"
        if claim is Claim.PAGE_HEADERS and not self._has_headers_of_arrow:
            return "only Arrow C++ 13.0 and later is known to write the same statistics, for integers"
        if claim is Claim.BLOOM_FILTER:
            if leaf.type == Type.BOOLEAN:
                return "Parquet does not define hashes of booleans"
            if leaf.logical_name == "DECIMAL" and leaf.type == Type.BYTE_ARRAY:
                return "equal decimals of different lengths have different hashes"
        return None

    @property
    def _has_headers_of_arrow(self) -> bool:
        """Whether the statistics in page headers equal those of the page index, as Arrow C++ writes them.

        This holds since Arrow C++ writes page indexes (13.0); checked with 13.0, 17.0, 22.0, 23.0 and 26.0.
        """
        name, version = parse_writer(self.footer.created_by)
        is_top_level = len(self.leaf.path) == 1 and self.leaf.is_flat
        return (
            name == "parquet-cpp-arrow"
            and version >= (13,)
            and is_top_level
            and self.leaf.type in (Type.INT32, Type.INT64)
        )

    @cached_property
    def order_is_known(self) -> bool:
        """Whether the footer declares a known order for the bounds of the column, or its writer has one."""
        order = self.footer.column_order(self.leaf)
        if order is None and self.leaf.type != Type.INT96:
            return has_type_order(self.footer.created_by)
        return order in KNOWN_ORDERS

    def bounds(self, meta: ColumnMetaData) -> TrustedValue[tuple[bytes, bytes]]:
        """Return the lower and the upper bound of a chunk, as stored in the file.

        The deprecated bounds are used only if the others are missing.
        """
        statistics = meta.statistics or Statistics()
        for low, high, claim in (
            (statistics.min_value, statistics.max_value, Claim.BOUNDS),
            (statistics.min, statistics.max, Claim.DEPRECATED_BOUNDS),
        ):
            if low is not None and high is not None:
                doubt = self.doubt(claim, meta)
                if doubt is None and self.doubt(Claim.LOWER_BOUND, meta) is not None:
                    low = b""  # the least text
                if doubt is None and (prefixed := self.doubt(Claim.UPPER_BOUND, meta)) is not None:
                    high = successor(high) or b""  # above all texts that begin with it
                    doubt = None if high else prefixed
                return TrustedValue((low, high)) if doubt is None else TrustedValue(None, doubt)
        return TrustedValue(
            None, "one of the two bounds is missing" if has_bounds(statistics) else "it has none"
        )

    def null_count(self, meta: ColumnMetaData, num_values: int) -> TrustedValue[int]:
        """Return the number of nulls in a chunk.

        Args:
            num_values: The number of values, including nulls; for a flat column, the number of rows.
        """
        if self.leaf.max_definition_level == 0:
            return TrustedValue(0)  # regardless of the recorded count: a required column has no nulls
        doubt = self.doubt(Claim.NULL_COUNT, meta)
        if doubt is not None:
            return TrustedValue(None, doubt)
        statistics = meta.statistics or Statistics()
        nulls = statistics.null_count
        if nulls is None:
            return TrustedValue(None, "it has no null count")
        if not 0 <= nulls <= num_values:
            return TrustedValue(None, f"a null count of {nulls} is impossible for {num_values} values")
        # a writer that counts NaN counts nulls, and columns with NaN may have no bounds
        if not nulls and not has_bounds(statistics) and statistics.nan_count is None:
            return TrustedValue(None, "some writers write 0 if they did not count nulls")
        return TrustedValue(nulls)


def has_bounds(statistics: Statistics) -> bool:
    """Return whether statistics contain any bound, trusted or not."""
    bounds = statistics.min, statistics.max, statistics.min_value, statistics.max_value
    return bounds != (None, None, None, None)
