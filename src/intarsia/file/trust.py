"""Which metadata of a file is trusted: the one place that decides.

What a footer or an index says is trusted unless a rule says otherwise.  A rule about a writer is a row of
`RULES`, with the evidence in its reason; another false statement is another row.  What follows
from the format alone (which types the deprecated bounds compare, which column orders are known, where a null
count contradicts itself) stands in the methods of `Trust`.

Doubt costs speed; misplaced trust costs rows.  `intarsia.verify` compares with the data by rules of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import pyarrow as pa

from intarsia.format.footer import Footer, Leaf
from intarsia.format.structs import ColumnMetaData, Statistics, Type

_T = TypeVar("_T")

_BYTES = (Type.BYTE_ARRAY, Type.FIXED_LEN_BYTE_ARRAY)

#: Column orders under which bounds are used.
KNOWN_ORDERS = ("TYPE_ORDER", "IEEE_754_TOTAL_ORDER", "INT96_TIMESTAMP_ORDER")


class Claim(Enum):
    """Something that metadata claims."""

    BOUNDS = "min_value and max_value enclose the values"
    DEPRECATED_BOUNDS = "min and max enclose the values"
    EXACT_BOUNDS = "bounds are values, where they are not said to be cut"
    NULL_COUNT = "as many values are null as are counted, in a chunk or a page"
    PAGE_INDEX = "pages and their rows and bounds are those of the page index"
    PAGE_HEADERS = "statistics in page headers are what the writer makes its page index of"
    BLOOM_FILTER = "a value that the filter denies is not there"


@dataclass(frozen=True)
class Verdict(Generic[_T]):
    """A value that metadata claims, if it is trusted.

    Attributes:
        value: The value; None if there is none, or it is not trusted.
        reason: Why there is no value; None if there is one.
    """

    value: _T | None
    reason: str | None = None


# --- writers and their false statements -------------------------------------------------------------------


class _Case(NamedTuple):
    """What a rule looks at.

    Attributes:
        footer: The file's footer.
        leaf: The column.
        meta: The chunk that the claim is about; None if it is about all chunks.
        arrow_type: The column's Arrow type; None if it is not known.
    """

    footer: Footer
    leaf: Leaf
    meta: ColumnMetaData | None
    arrow_type: pa.DataType | None


@dataclass(frozen=True)
class Rule:
    """False statements of one writer.

    Attributes:
        writer: A part of the writer's name, in lower case.
        claims: What is not trusted.
        applies: Whether a column, or a chunk of it, is affected.
        reason: What the writer does, and where that was seen.
        before: First version without the error; None if there is none yet.
    """

    writer: str
    claims: tuple[Claim, ...]
    applies: Callable[[_Case], bool]
    reason: str
    before: tuple[int, ...] | None = None


def _is_binary(case: _Case) -> bool:
    return case.leaf.type in _BYTES


def _always(_case: _Case) -> bool:
    return True


def _is_repeated(case: _Case) -> bool:
    return not case.leaf.is_flat


def _is_byte_array_in_struct(case: _Case) -> bool:
    return case.leaf.type == Type.BYTE_ARRAY and len(case.leaf.path) > 1


def _is_blob_in_struct(case: _Case) -> bool:
    return _is_byte_array_in_struct(case) and case.leaf.logical is None


def _has_dictionary(case: _Case) -> bool:
    return case.meta is None or case.meta.dictionary_page_offset is not None


def _may_hold_not_a_time(case: _Case) -> bool:
    return case.leaf.max_definition_level == 0 and case.leaf.logical_name in ("TIMESTAMP", "TIME")


def _may_be_arrow_dictionary_with_nulls(case: _Case) -> bool:
    """If the file has an Arrow schema, that tells whether a column was a dictionary."""
    if case.leaf.type != Type.BYTE_ARRAY or not _has_dictionary(case):
        return False
    is_told = case.arrow_type is not None and b"ARROW:schema" in case.footer.key_values
    if is_told and not pa.types.is_dictionary(case.arrow_type):
        return False
    statistics = case.meta.statistics if case.meta is not None else None
    return statistics is None or statistics.null_count != 0


RULES = (
    Rule(
        "parquet-mr",
        (Claim.BOUNDS,),
        _is_binary,
        "parquet-mr before 1.8.0 wrote wrong bounds of binary columns (PARQUET-251)",
        before=(1, 8, 0),
    ),
    Rule(
        "parquet-go",
        (Claim.BOUNDS,),
        _is_binary,
        "{name} cuts the upper bounds of binary columns without raising them",
    ),
    Rule(
        "parquet-go",
        (Claim.PAGE_INDEX,),
        _always,
        "{name} wrote page sizes without headers, counted values as rows, or cut upper bounds",
    ),
    Rule(
        "hyparquet",
        (Claim.PAGE_INDEX,),
        _is_repeated,
        "{name} wrote pages that start within a row",
    ),
    Rule(
        "parquet-cpp-arrow",
        (Claim.NULL_COUNT, Claim.EXACT_BOUNDS),
        _is_byte_array_in_struct,
        "{name} counts what a dictionary holds below a null struct as values (seen in 26.0)",
    ),
    Rule(
        "parquet-cpp-arrow",
        (Claim.EXACT_BOUNDS,),
        _may_be_arrow_dictionary_with_nulls,
        "{name} takes a null for one more value that occurs of an Arrow dictionary (seen in 26.0)",
    ),
    Rule(
        "fastparquet",
        (Claim.DEPRECATED_BOUNDS,),
        _has_dictionary,
        "{name} takes the first and the last category for the bounds of a categorical column, the only "
        "kind that it gives a dictionary (seen in 2026.9.0)",
    ),
    Rule(
        "fastparquet",
        (Claim.DEPRECATED_BOUNDS,),
        _may_hold_not_a_time,
        "{name} stores NaT as a number where a column has no nulls, and leaves it out of bounds "
        "(seen in 2026.9.0)",
    ),
    Rule(
        "duckdb",
        (Claim.EXACT_BOUNDS,),
        _is_blob_in_struct,
        "{name} takes what Arrow's fixed-size binary holds below a null struct for values (seen in 2.0.0)",
    ),
)


_VERSION = re.compile(r"^(?P<name>[\w./\-]+)(?: version v?(?P<version>\d+(?:\.\d+)*))?")


def parse_writer(created_by: str) -> tuple[str, tuple[int, ...]]:
    """Name and version of a writer; the version is empty where there is none.

    Example:
        >>> parse_writer("parquet-mr version 1.9.0 (build 38262e2)")
        ('parquet-mr', (1, 9, 0))
        >>> parse_writer("github.com/segmentio/parquet-go(build )")
        ('github.com/segmentio/parquet-go', ())
        >>> parse_writer("DuckDB version v1.4.4 (build 6ddac802ff)")
        ('duckdb', (1, 4, 4))
    """
    text = created_by.strip().lower()
    if text.startswith("github.com/"):
        return re.split(r"[\s(]", text, maxsplit=1)[0], ()
    found = _VERSION.match(text)
    if found is None:
        return text, ()
    version = found["version"]
    return found["name"], tuple(int(part) for part in version.split(".")) if version else ()


@lru_cache(maxsize=64)
def _rules_of(created_by: str) -> tuple[Rule, ...]:
    """The rules about a writer; most writers have none, and their chunks are not looked at."""
    name, version = parse_writer(created_by)
    return tuple(
        rule for rule in RULES if rule.writer in name and (rule.before is None or version < rule.before)
    )


# --- what is trusted ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trust:
    """What is trusted of one column's metadata.

    Attributes:
        footer: The file's footer.
        leaf: The column.
        arrow_type: The column's Arrow type; None if it is not known.
    """

    footer: Footer
    leaf: Leaf
    arrow_type: pa.DataType | None = None

    def doubt(self, claim: Claim, meta: ColumnMetaData | None = None) -> str | None:
        """Why a claim is not trusted; None if it is.

        Args:
            claim: What is stated.
            meta: The chunk that it is about; None if all chunks are meant.
        """
        return self._doubt_of_format(claim) or self.doubt_of_writer(claim, meta)

    def doubt_of_writer(self, claim: Claim, meta: ColumnMetaData | None = None) -> str | None:
        """Why a claim is not trusted because of the file's writer; None if no rule applies."""
        for rule in _rules_of(self.footer.created_by):
            if claim in rule.claims and rule.applies(_Case(self.footer, self.leaf, meta, self.arrow_type)):
                return rule.reason.format(name=parse_writer(self.footer.created_by)[0])
        return None

    def _doubt_of_format(self, claim: Claim) -> str | None:
        leaf = self.leaf
        if claim is Claim.BOUNDS and not self.order_is_known:
            return "the footer does not say how the column is ordered"
        if claim is Claim.DEPRECATED_BOUNDS:  # they compare as signed numbers, for every type and writer
            if leaf.type in (*_BYTES, Type.INT96, Type.BOOLEAN):
                return "deprecated bounds compare bytes as signed"
            integer = leaf.logical.INTEGER if leaf.logical else None
            if integer is not None and not integer.isSigned:
                return "deprecated bounds compare unsigned numbers as signed"
        if claim is Claim.PAGE_HEADERS and not self._has_headers_of_arrow:
            return "only Arrow C++ from 13.0 on is known to make its page index of them, of whole numbers"
        if claim is Claim.BLOOM_FILTER:
            if leaf.type == Type.BOOLEAN:
                return "Parquet defines no hash of booleans"
            if leaf.logical_name == "DECIMAL" and leaf.type == Type.BYTE_ARRAY:
                return "equal decimals of varying length have different hashes"
        return None

    @property
    def _has_headers_of_arrow(self) -> bool:
        """Whether page headers hold what Arrow C++ makes its chunk statistics and page index of.

        That has been so since it has page indexes (13.0); checked with 13.0, 17.0, 22.0, 23.0 and 26.0.
        """
        name, version = parse_writer(self.footer.created_by)
        is_top_level = len(self.leaf.path) == 1 and self.leaf.is_flat
        return (
            name == "parquet-cpp-arrow"
            and version >= (13,)
            and is_top_level
            and self.leaf.type in (Type.INT32, Type.INT64)
        )

    @property
    def order_is_known(self) -> bool:
        """Whether the footer says that bounds of the column follow an order that is known here."""
        return self.footer.column_order(self.leaf) in KNOWN_ORDERS

    def bounds(self, meta: ColumnMetaData) -> Verdict[tuple[bytes, bytes]]:
        """The lower and the upper bound of a chunk, as the file holds them.

        The deprecated pair is used only if the other is missing.
        """
        statistics = meta.statistics or Statistics()
        for low, high, claim in (
            (statistics.min_value, statistics.max_value, Claim.BOUNDS),
            (statistics.min, statistics.max, Claim.DEPRECATED_BOUNDS),
        ):
            if low is not None and high is not None:
                doubt = self.doubt(claim, meta)
                return Verdict((low, high)) if doubt is None else Verdict(None, doubt)
        return Verdict(None, "one of the two bounds is missing" if has_bounds(statistics) else "it has none")

    def null_count(self, meta: ColumnMetaData, num_values: int) -> Verdict[int]:
        """How many values of a chunk are null.

        Args:
            meta: The chunk.
            num_values: Its values, nulls included: its rows, if the column is flat.
        """
        if self.leaf.max_definition_level == 0:
            return Verdict(0)  # whatever was counted: a required column cannot hold a null
        doubt = self.doubt(Claim.NULL_COUNT, meta)
        if doubt is not None:
            return Verdict(None, doubt)
        statistics = meta.statistics or Statistics()
        nulls = statistics.null_count
        if nulls is None:
            return Verdict(None, "nulls were not counted")
        if not 0 <= nulls <= num_values:
            return Verdict(None, f"{nulls} of {num_values} values cannot be null")
        # where every value is NaN, there are no bounds and can be no nulls
        if not nulls and not has_bounds(statistics) and statistics.nan_count != num_values:
            return Verdict(None, "some writers put 0 for nulls that they did not count")
        return Verdict(nulls)


def has_bounds(statistics: Statistics) -> bool:
    """Whether there is any bound, trusted or not."""
    return any(
        bound is not None
        for bound in (statistics.min, statistics.max, statistics.min_value, statistics.max_value)
    )
