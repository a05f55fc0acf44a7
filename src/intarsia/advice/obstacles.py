"""Find the reasons why a query cannot skip more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from intarsia.advice.candidates import indexes_for
from intarsia.advice.measuring import Spread
from intarsia.advice.report import Obstacle, QueryCost
from intarsia.indexes.rowmap import MAX_BUCKET_ENTRIES
from intarsia.predicate import BoundCompare, BoundMatch, BoundNull, BoundPrefix, Condition
from intarsia.predicate.bound import BoundFunction, BoundIn

#: Reading fewer bytes than this takes about as long as a few requests.
SMALL_BYTES = 1_000_000

#: A condition cannot skip if this part of the pages contain matches.
MAX_PAGES = 0.8

#: A query that reads at most this multiple of the minimum cannot be improved.
NEAR_LEAST = 1.25

#: So can one that reads only this many bytes more, about as many as a footer has.
NEAR_BYTES = 64 << 10

#: The same limit, as a part of the bytes that it reads today beyond the minimum.
NEAR_PART = 0.05


def of_query(total: QueryCost, now: QueryCost, advised: QueryCost, least: QueryCost) -> Obstacle | None:
    """Return why indexes cannot improve a query; None if they can."""
    near = max(least.bytes * NEAR_LEAST, least.bytes + NEAR_BYTES)
    if now.files == 0 or (now.bytes <= near and now.bytes < total.bytes / 2):
        text = "existing metadata already skips nearly every page without matching rows"
        return Obstacle("already-skipped", None, text)
    if total.bytes < SMALL_BYTES and advised.bytes > now.bytes / 2:
        text = f"the columns have only {total.bytes:,.0f} bytes, so there is little to save"
        return Obstacle("small-file", None, text)
    return None


def is_explained(now: QueryCost, advised: QueryCost, least: QueryCost, total: QueryCost) -> bool:
    """Return whether the advised reads are close to the minimum, and the minimum is small."""
    near = max(least.bytes * NEAR_LEAST, least.bytes + now.bytes * NEAR_PART)
    return advised.bytes <= near and least.bytes < max(now.bytes, total.bytes) / 2


def of_condition(condition: Condition, spread: Spread) -> Obstacle:
    """Return why a condition skips little.

    Args:
        condition: The condition.
        spread: How its matches are spread.
    """
    column = ".".join(condition.path)
    if not _is_prunable(condition):
        text = f"no index can evaluate {condition}, unless its column has few distinct values"
        return Obstacle("not-prunable", column, text)
    share = spread.rows_matched / max(1, spread.rows)
    if share > 0.5:
        text = f"{share:.0%} of the rows match {condition}, so there is little to skip"
        return Obstacle("most-rows-match", column, text)
    has_one_page = spread.pages <= spread.row_groups
    if has_one_page and spread.row_groups_matched > MAX_PAGES * spread.row_groups:
        text = (
            f"each row group has one page of {column}, so it is read as a whole; rewrite the files with "
            "smaller pages"
        )
        return Obstacle("one-page-per-row-group", column, text)
    if spread.pages_matched > MAX_PAGES * spread.pages:
        has_use = _is_equality(condition) and spread.rows_matched <= MAX_BUCKET_ENTRIES
        adds_row_map = has_use and not spread.has_row_map
        row_map = ", or add RowMap, which answers counts without reading pages" if adds_row_map else ""
        text = (
            f"matching rows are on {spread.pages_matched:,} of {spread.pages:,} pages; "
            f"sort by {column}{row_map}"
        )
        return Obstacle("values-on-every-page", column, text)
    if isinstance(condition, BoundMatch) and not condition.prefix:
        text = f"most pages of {column} contain the n-grams of the text in {condition}"
        return Obstacle("common-text", column, text)
    if spread.pages_kept > MAX_PAGES * spread.pages:
        text = (
            f"{spread.pages_matched:,} of {spread.pages:,} pages of {column} have matches, but the bounds of "
            f"{spread.pages_kept:,} pages allow matches; sort by {column}"
        )
        return Obstacle("not-sorted", column, text)
    return Obstacle(
        "costs-more-than-it-saves", column, f"an index on {column} would save fewer bytes than its size"
    )


def of_constants(columns: Sequence[str]) -> Iterator[Obstacle]:
    """Yield an obstacle for each partition column of a query."""
    for column in columns:
        text = f"{column} is a partition column, which needs no index: scans skip files by its values"
        yield Obstacle("partition-column", column, text)


def _is_prunable(condition: Condition) -> bool:
    """Return whether an index other than `Distinct`, which evaluates all conditions, can evaluate it."""
    if isinstance(condition, BoundFunction):
        return False
    kinds = {index.kind for index in indexes_for(condition)} - {"distinct"}
    is_bounded = isinstance(condition, (BoundNull, BoundPrefix)) or (
        isinstance(condition, BoundCompare) and condition.op != "<>"
    )
    is_excluding = isinstance(condition, (BoundIn, BoundPrefix, BoundMatch)) and condition.negated
    return (bool(kinds) or is_bounded) and not is_excluding and not _is_unequal(condition)


def _is_unequal(condition: Condition) -> bool:
    return isinstance(condition, BoundCompare) and condition.op == "<>"


def _is_equality(condition: Condition) -> bool:
    return (isinstance(condition, BoundCompare) and condition.op == "=") or isinstance(condition, BoundIn)
