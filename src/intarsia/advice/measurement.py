"""Measure indexes on the sample of a table, extrapolate to all files, and choose some of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from intarsia.advice.candidates import column_of, filtered_leaf, indexes_for, name_of, shapes_of
from intarsia.advice.measuring import BoundQuery, MeasuredFile, SampledTable, Spread
from intarsia.advice.report import (
    ColumnShape,
    MeasuredIndex,
    NotBuilt,
    Obstacle,
    QueryAdvice,
    QueryCost,
    SampleSize,
)
from intarsia.advice.sampled_file import BuiltIndex, group_bytes
from intarsia.arrow.owned_rows import no_rows
from intarsia.embed import Bloom, PageIndex, Statistics
from intarsia.embed.structures import Attachable
from intarsia.indexes.distinct import Distinct
from intarsia.indexes.rowmap import MAX_BUCKET_ENTRIES
from intarsia.lake.table import Table
from intarsia.predicate import BoundCompare, BoundMatch, BoundNull, BoundPrefix, Condition
from intarsia.predicate.bound import BoundFunction, BoundIn, is_lookup, on_values
from intarsia.read.report import opens_in_vain

#: An option helps if at least one query saves this part of what it reads, and this many bytes.
MIN_PART = 0.2
MIN_BYTES = 32 << 10

#: The actual number of bytes is certainly above this part of an estimate.
ESTIMATED_PART = 0.5

#: Without queries, `Distinct` is advised if its size is at most this part of that of the files.
LIGHT_SHARE = 0.01

#: Part of the savings that may be lost if smaller indexes replace larger ones.
LOST_PART = 0.05

#: Number of runs of each query within which an index has to save its own size in bytes.
RUNS_TO_PAY = 20

#: Called with the number of steps done and their total number.
Show: TypeAlias = Callable[[int, int], None]


class Measurement:
    """The measurements of all queries and indexes on a sample of a table.

    Attributes:
        indexes: The indexes to measure, by name.
        shapes: The shapes of the columns, if there are no queries.
    """

    def __init__(self, table: Table, bound: Sequence[BoundQuery], sampled: SampledTable) -> None:
        self._table = table
        self._total_bytes = int(table.file_bytes.sum())
        self._bound = bound
        self._sampled = sampled
        self._files = sampled.files
        self.indexes: dict[str, Attachable] = {}
        self.shapes: list[ColumnShape] = []
        for ordinal, file in self._files.items():
            candidates: list[Attachable] = [PageIndex(), Statistics()]
            for number in range(len(bound)):
                if (number, ordinal) in sampled.now:
                    for condition in file.conditions(number):
                        leaf = filtered_leaf(condition, file.sample.file.schema)
                        candidates += indexes_for(condition) if leaf is None else [Bloom(leaf)]
            self.indexes |= {name_of(index): index for index in candidates}
        if not bound and self._files:
            self.shapes = shapes_of(next(iter(self._files.values())).sample.with_indexes([]))
            few = [shape.column for shape in self.shapes if shape.shape == "clustered"]
            self.indexes |= {name_of(index): index for index in map(Distinct, few)}

    def build(self, show: Show) -> None:
        """Build all indexes on all files of the sample."""
        steps = [(file, index) for file in self._files.values() for index in self.indexes.values()]
        for done, (file, index) in enumerate(steps):
            show(done, len(steps))
            file.build(index)
        self._weights = {
            name: sum(one.num_bytes for one in self._built(name)) * self._data_scale
            for name in self.indexes
            if self._built(name)
        }
        show(len(steps), len(steps))

    def _built(self, name: str) -> list[BuiltIndex]:
        """Return an index of each file in which it could be built."""
        return [file.built[name] for file in self._files.values() if name in file.built]

    @property
    def not_built(self) -> tuple[NotBuilt, ...]:
        """The indexes that cannot be built in any file."""
        found = {
            name: NotBuilt(name, str(error), error.reason or "not-built")
            for file in self._files.values()
            for name, error in file.failed.items()
            if name not in self._weights
        }
        return tuple(found.values())

    # --- scales ------------------------------------------------------------------------------------

    @property
    def size(self) -> SampleSize:
        """The size of the sample."""
        files = self._files.values()
        is_whole = set(self._files) == set(range(len(self._table.files)))
        return SampleSize(
            len(self._files),
            len(self._table.files),
            sum(len(file.sample.groups) for file in files),
            sum(file.sample.num_bytes for file in files),
            self._total_bytes,
            is_whole and all(file.sample.is_whole for file in files),
        )

    @property
    def _data_scale(self) -> float:
        """The size of all files divided by that of the sample."""
        sampled = 0.0
        for ordinal, file in self._files.items():
            every = range(len(file.sample.file.footer.metadata.row_groups))
            part = file.sample.num_bytes / max(1, group_bytes(file.sample.file, every))
            sampled += part * int(self._table.file_bytes[ordinal])
        return self._total_bytes / sampled if sampled else 1.0

    # --- costs -------------------------------------------------------------------------------------

    def cost(self, number: int, names: Sequence[str] | frozenset[str]) -> QueryCost:
        """Estimate the reads of a query of all files with some of the indexes."""
        costs = (file.cost(number, names) for file in self._files_of(number))
        return sum(costs, QueryCost()).scaled(self._scale(number))

    def _scale(self, number: int) -> float:
        """Return the bytes that a query reads today divided by those that it reads of the sampled files."""
        planned = [ordinal for ordinal in self._sampled.ordinals if (number, ordinal) in self._sampled.now]
        reads = {ordinal: self._sampled.now[number, ordinal].bytes for ordinal in planned}
        sampled = sum(read for ordinal, read in reads.items() if ordinal in self._files)
        sizes = self._table.file_bytes
        opened, known = (
            float(sizes[list(files)].sum()) for files in (self._bound[number].survivors, planned)
        )
        return (opened / known if known else 1.0) * (sum(reads.values()) / sampled if sampled else 1.0)

    def _read_bytes(self, names: frozenset[str]) -> float:
        return sum(one.query.count * self.cost(number, names).bytes for number, one in enumerate(self._bound))

    @property
    def _page_index(self) -> list[str]:
        """The name of the page index, if files lack it."""
        return [name for name in self._weights if isinstance(self.indexes[name], PageIndex)]

    @property
    def _num_queries(self) -> int:
        return sum(one.query.count for one in self._bound)

    def choose(self) -> tuple[str, ...]:
        """Return the names of the advised indexes."""
        if not self._bound:
            most = LIGHT_SHARE * self._total_bytes
            return tuple(
                name
                for name, weight in self._weights.items()
                if isinstance(self.indexes[name], PageIndex)
                or (isinstance(self.indexes[name], Distinct) and weight <= most)
            )
        chosen = choose(self._weights, self._read_bytes, self._num_queries, self._page_index)
        return next(iter(self.sets(chosen)), ())

    def query_bytes(self, names: Sequence[str]) -> list[float]:
        """Return the number of bytes that each query reads with some of the indexes."""
        return [self.cost(number, names).bytes for number in range(len(self._bound))]

    def helps(self, query_bytes: Sequence[float]) -> bool:
        """Return whether at least one query saves enough if they read this number of bytes."""
        pairs = zip(self.query_bytes(()), query_bytes, strict=True)
        return any(now - after >= max(MIN_PART * now, MIN_BYTES) for now, after in pairs)

    def pays(self, query_bytes: Sequence[float], written_bytes: float) -> bool:
        """Return whether an option helps, and some runs of the queries save more than has to be written."""
        saved = self.mean_bytes(self.query_bytes(())) - self.mean_bytes(query_bytes)
        return self.helps(query_bytes) and RUNS_TO_PAY * saved > written_bytes

    def mean_bytes(self, query_bytes: Sequence[float]) -> float:
        """Return the mean of what the queries read, each as often as it was passed."""
        total = sum(one.query.count * read for one, read in zip(self._bound, query_bytes, strict=True))
        return total / max(1, self._num_queries)

    def sets(self, chosen: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the sets of indexes that help and pay: the chosen one, and single indexes."""
        pages = tuple(self._page_index)
        with_pages = self.mean_bytes(self.query_bytes(pages))
        found = {tuple(chosen): None, pages: None}
        for name in self._weights:
            names = (*pages, name)
            if name not in pages and self.mean_bytes(self.query_bytes(names)) < with_pages:
                found[names] = None
        return [names for names in found if self.pays(self.query_bytes(names), self.added_bytes(names))]

    def added_bytes(self, names: Sequence[str]) -> float:
        """Return the size of some of the indexes in all files, in bytes."""
        return sum(self._weights[name] for name in names)

    # --- rows ----------------------------------------------------------------------------------------

    @property
    def num_rows(self) -> float:
        """The number of rows of all files."""
        planned = int(self._table.file_bytes[list(self._sampled.ordinals)].sum())
        return self._sampled.num_rows * self._total_bytes / max(1, planned)

    def rows_matched(self, number: int) -> float:
        """Return the number of rows of all files that match a query."""
        return sum(file.least(number, ())[1] for file in self._files_of(number)) * self._scale(number)

    def rows(self, most_bytes: int) -> tuple[pa.Table, bool]:
        """Return rows of the sample that are not deleted, and whether they are all rows of the table.

        Row groups of up to ``most_bytes`` are read, and at least one of each file.
        """
        found = [file.rows(self._table, most_bytes // len(self._files)) for file in self._files.values()]
        tables = [no_rows(self._table.schema), *(rows for rows, _ in found)]
        return pa.concat_tables(tables), self.size.is_whole and all(is_whole for _, is_whole in found)

    @property
    def lake_index(self) -> bool:
        """Whether queries open many files without matches, and there is no lake index."""
        if not self._bound or self._table.lake_index.exists:
            return False
        num_files, now = len(self._table.files), self._sampled.now.values()
        unmatched = [sum(cost.files == 0 for cost in now) / max(1, len(now))]
        for number, one in enumerate(self._bound):
            matched = self.cost(number, frozenset(self._weights)).files
            unmatched.append(1 - matched / max(1, len(one.survivors)))
        return opens_in_vain(num_files, num_files * max(unmatched))

    # --- the report --------------------------------------------------------------------------------

    def measured(self, chosen: Sequence[str]) -> tuple[MeasuredIndex, ...]:
        """Return the measurements of all indexes: the advised ones, then those that save most."""
        before = self._read_bytes(frozenset())
        found = []
        for name, weight in self._weights.items():
            index = self.indexes[name]
            if name in chosen:
                saved = self._read_bytes(frozenset(chosen) - {name}) - self._read_bytes(frozenset(chosen))
            else:
                saved = before - self._read_bytes(frozenset((name, *self._page_index)))
            seconds = sum(one.seconds for one in self._built(name))
            found.append(
                MeasuredIndex(
                    index,
                    name,
                    column_of(index),
                    index.purpose,
                    round(weight),
                    weight / max(1, self._total_bytes),
                    seconds * self._data_scale,
                    round(saved / max(1, self._num_queries)),
                    name in chosen,
                )
            )
        return tuple(sorted(found, key=lambda one: (not one.is_advised, -one.saved_bytes, one.bytes)))

    def query_advice(self, number: int, chosen: Sequence[str], rewritten: Sequence[float]) -> QueryAdvice:
        """Return the reads of one query with the advised indexes, and why it cannot skip more.

        ``rewritten`` has lower bounds of the bytes that it reads of the rewritten files.
        """
        one, scale = self._bound[number], self._scale(number)
        now, advised = self.cost(number, ()), self.cost(number, chosen)
        least, total, rows_matched = QueryCost(), QueryCost(), 0.0
        pages = self._page_index
        for file in self._files_of(number):
            of_file, matched = file.least(number, pages)
            least, rows_matched = least + of_file, rows_matched + matched
            total += file.everything(number)
        least, total = least.scaled(scale), total.scaled(self._data_scale)
        obstacles = tuple(self._obstacles(number, (total, now, advised, least), pages))
        # other pages, encodings and codecs may be smaller
        doubt = 1 if self.size.is_whole else ESTIMATED_PART
        lowest = min(doubt * least.bytes, now.bytes, advised.bytes, *rewritten)
        return QueryAdvice(
            str(one.query),
            one.query.columns,
            one.query.origin,
            one.query.count,
            total,
            now,
            advised,
            replace(least, bytes=lowest),
            round(rows_matched * scale),
            obstacles,
        )

    def _files_of(self, number: int) -> list[MeasuredFile]:
        return [file for ordinal, file in self._files.items() if (number, ordinal) in self._sampled.now]

    def _obstacles(
        self, number: int, costs: tuple[QueryCost, QueryCost, QueryCost, QueryCost], pages: Sequence[str]
    ) -> Iterator[Obstacle]:
        total, now, advised, least = costs
        if self._bound[number].query.predicate is None:
            yield Obstacle("all-rows", None, "it has no condition, so every row is read")
            return
        files = self._files_of(number)
        constants = {column for file in files for column in file.constants(number)}
        for column in sorted(constants & self._table.partition_types.keys()):
            text = f"{column} is a partition column, which needs no index: scans skip files by its values"
            yield Obstacle("partition-column", column, text)
        whole = _of_query(total, now, advised, least) if self._sampled.num_rows else None
        if not self._sampled.num_rows:
            yield Obstacle("no-rows", None, "the files have no rows")
        elif whole is not None:
            yield whole
        elif files and (advised == now or not _is_explained(now, advised, least, total)):
            largest = max(files, key=lambda file: file.sample.num_bytes)
            for condition in largest.conditions(number):
                yield _of_condition(condition, largest.spread(number, condition, pages))


# --- why a query cannot skip more ---------------------------------------------------------------------

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


def _of_query(total: QueryCost, now: QueryCost, advised: QueryCost, least: QueryCost) -> Obstacle | None:
    """Return why indexes cannot improve a query; None if they can."""
    near = max(least.bytes * NEAR_LEAST, least.bytes + NEAR_BYTES)
    if now.files == 0 or (now.bytes <= near and now.bytes < total.bytes / 2):
        text = "existing metadata already skips nearly every page without matching rows"
        return Obstacle("already-skipped", None, text)
    if total.bytes < SMALL_BYTES and advised.bytes > now.bytes / 2:
        text = f"the columns have only {total.bytes:,.0f} bytes, so there is little to save"
        return Obstacle("small-file", None, text)
    return None


def _is_explained(now: QueryCost, advised: QueryCost, least: QueryCost, total: QueryCost) -> bool:
    """Return whether the advised reads are close to the minimum, and the minimum is small."""
    near = max(least.bytes * NEAR_LEAST, least.bytes + now.bytes * NEAR_PART)
    return advised.bytes <= near and least.bytes < max(now.bytes, total.bytes) / 2


def _of_condition(condition: Condition, spread: Spread) -> Obstacle:
    """Return why a condition, whose matches are spread in this way, skips little."""
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
        text = f"matching rows are on {spread.pages_matched:,} of {spread.pages:,} pages; sort by {column}"
        if is_lookup(condition) and spread.rows_matched <= MAX_BUCKET_ENTRIES and not spread.has_row_map:
            text += ", or add RowMap, which answers counts without reading pages"
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
    text = f"an index on {column} would save fewer bytes than its size"
    return Obstacle("costs-more-than-it-saves", column, text)


def _is_prunable(condition: Condition) -> bool:
    """Return whether an index other than `Distinct`, which evaluates all conditions, can evaluate it."""
    if isinstance(condition, BoundFunction):
        return is_lookup(on_values(condition))
    if isinstance(condition, BoundCompare) and condition.op == "<>":
        return False
    if isinstance(condition, (BoundIn, BoundPrefix, BoundMatch)) and condition.negated:
        return False
    kinds = {index.kind for index in indexes_for(condition)} - {"distinct"}
    return bool(kinds) or isinstance(condition, (BoundNull, BoundPrefix, BoundCompare))


# --- the choice ---------------------------------------------------------------------------------------


def choose(
    weights: Mapping[str, float],
    read_bytes: Callable[[frozenset[str]], float],
    num_queries: int,
    companions: Collection[str] = (),
) -> tuple[str, ...]:
    """Choose the indexes that minimize their size plus the bytes that `RUNS_TO_PAY` runs of a query read.

    The search starts from no index and from all of them, because under an OR some help only together. It adds
    or removes the index that reduces the sum most, as long as there is one.

    Args:
        read_bytes: Returns the number of bytes that all queries read with some of the indexes.
        companions: Indexes that others need, such as the page index.

    Returns:
        The names of the chosen indexes, the lightest first.

    Example:
        >>> weights = {"light": 10, "heavy": 500_000, "useless": 1}
        >>> saved = {"light": 900_000, "heavy": 910_000}
        >>> def read_bytes(names):
        ...     return 1_000_000 - max((saved.get(name, 0) for name in names), default=0)
        >>> choose(weights, read_bytes, 1)
        ('light',)
    """
    nothing, everything = frozenset[str](), frozenset(weights)

    def price(names: frozenset[str]) -> tuple[float, int]:
        read = RUNS_TO_PAY * read_bytes(names) / max(1, num_queries)
        return read + sum(weights[name] for name in names), len(names)

    def helps(name: str) -> bool:
        """Whether it reduces the bytes read, with its companions only or with all other indexes."""
        others = (frozenset(companions), everything)
        return any(read_bytes(there | {name}) < read_bytes(there - {name}) for there in others)

    def descend(names: frozenset[str]) -> frozenset[str]:
        """Add or remove one index at a time, or one with a companion, as long as the price decreases."""
        while True:
            changes = [names ^ {one} for one in sorted(helping)]
            changes += [names | {one, other} for one in sorted(helping - names) for other in companions]
            best = min(changes, key=price, default=names)
            if price(best)[0] >= price(names)[0]:
                return names
            names = best

    helping = frozenset(filter(helps, weights)) | set(companions)
    best = min(map(descend, (nothing, helping)), key=price)
    allowed = read_bytes(best) + LOST_PART * (read_bytes(nothing) - read_bytes(best))
    for heavy in sorted(best, key=lambda name: (-weights[name], name)):
        # remove it, or replace it with a smaller one, if nearly all savings remain
        smaller = [name for name in everything - best if weights[name] < weights[heavy]]
        others = [best - {heavy} | {name} for name in sorted(smaller, key=lambda name: (weights[name], name))]
        changes = (changed for changed in (best - {heavy}, *others) if read_bytes(changed) <= allowed)
        best = next(changes, best)
    return tuple(sorted(best, key=lambda name: (weights[name], name)))
