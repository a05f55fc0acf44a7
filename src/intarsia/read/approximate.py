"""Approximate answers: an estimate of the number of distinct values, and a sample of the rows of a table.

Both combine embedded indexes (`Hll`, `Sample`) of files, and read only files without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import compares_alike, comparison_array, comparison_type
from intarsia.arrow.owned_rows import take_rows
from intarsia.errors import IndexPayloadError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.indexes.base import OpenIndex
from intarsia.indexes.distinct_counter import MAX_LG_CONFIG_K, MIN_LG_CONFIG_K, DistinctCounter, is_counted
from intarsia.indexes.embedded import EmbeddedIndexes, check_granules, check_sample
from intarsia.indexes.granules import covered_granules, granule_rows
from intarsia.indexes.proof import call_index
from intarsia.indexes.sample import draw
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan, with_current_plan
from intarsia.read.file_query import FileQuery, naming_invalid_values
from intarsia.read.file_rows import FileOutcome, read_known_rows, read_rows
from intarsia.read.matching import select_columns
from intarsia.read.output_columns import OutputColumn, concat_rows
from intarsia.read.pruner import PruneStep
from intarsia.read.report import ScanReport
from intarsia.records import dataclass
from intarsia.rows.selection import Rows, RowSelection

#: The default number of rows of `Table.sample` if no file has a sample.
DEFAULT_SAMPLE_ROWS = 1000

#: The number of rows drawn from one file is random; samples allow for this many standard deviations.
_SPARE_DEVIATIONS = 5.0


@dataclass(frozen=True)
class ApproximateCount:
    """An approximate count.

    Attributes:
        estimate: The estimate.
        lower: Lower end of the 95% confidence interval (two standard deviations of the estimator).
        upper: Upper end of the confidence interval.
        unindexed: Files without a usable sketch, which were read instead.
        report: The report of the query.

    Example:
        >>> int(ApproximateCount(41.8, 40.0, 43.5, (), ScanReport()))
        42
    """

    estimate: float
    lower: float
    upper: float
    unindexed: tuple[str, ...]
    report: ScanReport

    def __int__(self) -> int:
        """Return the rounded estimate."""
        return round(self.estimate)


# --- distinct values -------------------------------------------------------------------------------------


class DistinctValues:
    """A counter of the distinct values of one column, file by file.

    Args:
        column: The column; the only one that the scans read.
        lg_config_k: Binary logarithm of the maximum number of registers.

    Attributes:
        unindexed: Files without a usable sketch, as the keys.

    Raises:
        UnsupportedFeatureError: If values of its type cannot be counted.
        ValueError: If sketches do not support this number of registers.
    """

    def __init__(self, column: OutputColumn, lg_config_k: int = MAX_LG_CONFIG_K) -> None:
        self._column = column
        self._kind = comparison_type(column.type)
        if not is_counted(self._kind):
            raise UnsupportedFeatureError(
                f"distinct values of {column.name!r} cannot be counted, because its type is "
                f"{self._kind}; name a column that is not nested",
                reason="not-countable",
                column=column.name,
            )
        number: object = lg_config_k
        if not isinstance(number, Integral) or not MIN_LG_CONFIG_K <= lg_config_k <= MAX_LG_CONFIG_K:
            raise ValueError(
                f"lg_config_k is {lg_config_k!r:.80}; use {MIN_LG_CONFIG_K} to {MAX_LG_CONFIG_K}"
            )
        self._lg_config_k = lg_config_k
        self._total = DistinctCounter(lg_config_k)
        self._has_sketches = False
        self._constants: set[object] = set()
        self.unindexed: dict[str, None] = {}

    def add_file(self, query: FileQuery, plan: FilePlan) -> FileOutcome:
        """Add the values in the matching rows of a file."""
        values = query.constants.get(query.own(self._column).path)
        if values is None:
            self._has_sketches = True
            counter, outcome = self.of_file(query, plan)
            self._total.merge(counter)
            return outcome
        (value,) = values
        if value.as_py() in self._constants:
            return FileOutcome(plan)
        has_match, outcome = _has_match(query, plan, value)
        if has_match:
            self._constants.add(value.as_py())
        return outcome

    def count(self) -> tuple[float, float, float]:
        """Estimate the number of distinct values, with its 95% confidence interval."""
        if not self._has_sketches:  # a partition column
            number = float(len(self._constants))
            return number, number, number
        self._total.add(pa.array(list(self._constants), self._kind))
        return (self._total.estimate, *self._total.bounds(2))

    def of_file(self, query: FileQuery, plan: FilePlan) -> tuple[DistinctCounter, FileOutcome]:
        """Count the distinct values in the matching rows of a file."""
        values = query.constants.get(query.own(self._column).path)
        if values is None:
            return with_current_plan(query, plan, partial(self._count_file, query))
        counter, (value,) = DistinctCounter(self._lg_config_k), values
        has_match, outcome = _has_match(query, plan, value)
        if has_match:
            counter.add(pa.array([value.as_py()], self._kind))
        return counter, outcome

    def _count_file(self, query: FileQuery, plan: FilePlan) -> tuple[DistinctCounter, FileOutcome]:
        """Count the distinct values of a file, assuming that its page index is correct."""
        counter = DistinctCounter(self._lg_config_k)
        before = query.file.source.counts.bytes
        known, answered = self._add_sketches(query, plan.certain, counter)
        counts = ReadCounts(index_bytes=query.file.source.counts.bytes - before)
        left = plan.candidates - known
        for piece in read_known_rows(query, plan, left):
            counts += piece.counts
            path = query.file.path_of(int(piece.groups[0]))
            with naming_invalid_values(path, ".".join(self._column.path), "counted"):
                for chunk in comparison_array(piece.rows.column(0), self._kind).chunks:
                    counter.add(chunk)
        return counter, FileOutcome(plan, counts, tuple(answered), files_read=query.num_files_with(left))

    def _add_sketches(
        self, query: FileQuery, rows: RowSelection, counter: DistinctCounter
    ) -> tuple[RowSelection, list[PruneStep]]:
        """Count granules within some rows by their sketches; return these rows, and the indexes used."""
        file, known, answered = query.file, RowSelection.none(), []
        path = query.own(self._column).path
        is_indexed = False
        capable = query.embedded.capable(path, lambda index, column: index.can_sketch(column))
        leaf = file.schema.leaves_by_path.get(path)
        data_type = None if leaf is None else file.leaf_types.get(leaf.ordinal)
        # equal values must have equal hashes in this file and in the table
        hashes_alike = data_type is not None and compares_alike(data_type, self._kind)
        for entry, _ in capable if hashes_alike else ():
            left = rows - known
            if left.is_empty or (entry.granularity == "file" and rows.num_rows < file.footer.num_rows):
                is_indexed = True  # though it cannot be used for these rows
                continue
            index = query.embedded.open_checked(entry, check_granules)
            if index is None:
                continue
            covered = covered_granules(index.edges, rows)
            try:
                call_index(partial(index.add_to, counter, covered))
            except IndexPayloadError as error:
                file.distrust_by(entry.name, error)
                continue
            is_indexed = True
            known = known | granule_rows(index.edges, covered)
            answered.append(PruneStep(entry.name, ".".join(path), left, rows - known))
        if not is_indexed:
            groups = query.groups_with(RowSelection.all(file.footer.num_rows) - query.deleted)
            self.unindexed |= dict.fromkeys(map(file.path_of, groups))
        return known, answered


def _has_match(query: FileQuery, plan: FilePlan, value: pa.Scalar) -> tuple[bool, FileOutcome]:
    """Return whether any row of a file matches, all of which have a value that counts."""
    if not value.is_valid or plan.candidates.is_empty or not plan.certain.is_empty:
        return value.is_valid and not plan.candidates.is_empty, FileOutcome(plan)
    counts = sum((piece.counts for piece in read_rows(query, plan, limit=1)), ReadCounts())
    return counts.rows_matched > 0, FileOutcome(plan, counts)


# --- rows ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileSize:
    """The size of a file, for drawing rows.

    Attributes:
        num_rows: Number of rows in the file that are not deleted.
        sampled_rows: Number of rows in its `Sample`; None if it has none, or if rows are deleted.
    """

    num_rows: int
    sampled_rows: int | None

    @classmethod
    def of(cls, file: ParquetInput, deleted: RowSelection) -> FileSize:
        """Return the size according to the footer; no index is read."""
        num_rows = file.footer.num_rows
        if not deleted.is_empty:
            return cls(num_rows - deleted.num_rows, None)
        found = EmbeddedIndexes(file).sampler()
        return cls(num_rows, None if found is None else found[1])


def affordable_rows(sizes: Sequence[FileSize]) -> int:
    """Return the number of rows that can be drawn such that the samples in files almost certainly suffice.

    Example:
        >>> affordable_rows([FileSize(1_000_000, 1000)])
        1000
        >>> affordable_rows([FileSize(1_000_000, 1000)] * 4)
        3452
        >>> affordable_rows([FileSize(200, None)])
        200
    """
    total = sum(size.num_rows for size in sizes)
    enough = [total]
    for size in sizes:
        if size.sampled_rows is not None and size.sampled_rows < size.num_rows:
            share = size.num_rows / total
            spare = _SPARE_DEVIATIONS * np.sqrt(size.sampled_rows * (1 - share))
            enough.append(int(max(0.0, size.sampled_rows - spare) / share))
    has_samples = any(size.sampled_rows is not None for size in sizes)
    return min(enough) if has_samples else min(total, DEFAULT_SAMPLE_ROWS)


class RowSample:
    """Rows of a table that are drawn uniformly without replacement, file by file.

    Ordinals of rows are drawn from the whole table, which determines the number of rows from each file. In a
    file with a `Sample`, the same number of sampled rows replaces the drawn rows, which is equally uniform.

    Args:
        seed: Equal seeds draw equal rows; None draws different rows each time.

    Attributes:
        pieces: The rows that were drawn.
    """

    def __init__(
        self,
        sizes: Sequence[FileSize],
        n: int | None,
        seed: int | None,
        columns: Sequence[OutputColumn],
        schema: pa.Schema,
    ) -> None:
        self._rng = np.random.default_rng(seed)
        edges = np.cumsum([0, *(size.num_rows for size in sizes)])
        drawn = draw(int(edges[-1]), affordable_rows(sizes) if n is None else n, self._rng)
        cuts = np.searchsorted(drawn, edges).tolist()
        self._drawn = iter([drawn[a:b] - first for a, b, first in zip(cuts, cuts[1:], edges, strict=False)])
        self._columns, self._schema = columns, schema
        self.pieces: list[pa.Table] = []

    def add_file(self, query: FileQuery, plan: FilePlan) -> FileOutcome:
        """Draw rows of the next of the files, whose query has no predicate."""
        drawn = next(self._drawn)
        if not len(drawn):
            return FileOutcome(plan)
        before = query.file.source.counts.bytes
        found = query.embedded.sampler() if query.deleted.is_empty else None
        embedded = None if found is None else query.embedded.open_checked(found[0], check_sample)
        counts = ReadCounts(index_bytes=query.file.source.counts.bytes - before)
        num_rows = 0
        for rows, read in _file_sample(query, plan, embedded, drawn, self._rng):
            counts += read
            num_rows += rows.num_rows
            everything = RowSelection.all(rows.num_rows)
            self.pieces.append(query.result(rows, everything, self._columns, self._schema))
        return FileOutcome(plan, replace(counts, rows_matched=num_rows))


def _file_sample(
    query: FileQuery,
    plan: FilePlan,
    embedded: OpenIndex | None,
    drawn: Rows,
    rng: np.random.Generator,
) -> Iterator[tuple[pa.Table, ReadCounts]]:
    if embedded is None:
        yield _read(query, plan, query.present.at(RowSelection.from_rows(drawn)))
        return
    sampled = take_rows(embedded.rows, draw(len(embedded.ordinals), len(drawn), rng))
    yield select_columns(query, dict(enumerate(sampled.columns)), sampled.num_rows), ReadCounts()
    missing = len(drawn) - len(embedded.ordinals)
    if missing > 0:
        others = draw(query.file.footer.num_rows - len(embedded.ordinals), missing, rng)
        # for each sampled row, the number of other rows that precede it
        gaps = embedded.ordinals - np.arange(len(embedded.ordinals))
        yield _read(query, plan, RowSelection.from_rows(others + np.searchsorted(gaps, others, side="right")))


def _read(query: FileQuery, plan: FilePlan, rows: RowSelection) -> tuple[pa.Table, ReadCounts]:
    pieces = with_current_plan(query, plan, lambda plan: list(read_known_rows(query, plan, rows)))
    found = concat_rows([piece.rows for piece in pieces])
    return found, sum((piece.counts for piece in pieces), ReadCounts())
