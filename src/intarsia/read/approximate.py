"""Answers that need not read everything: about how many distinct values there are, and some rows of a table.

Both put together what files have inlaid (`Hll`, `Sample`), and read only where a file has nothing inlaid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import compares_alike, comparison_array, comparison_type
from intarsia.errors import CorruptFileError, IndexPayloadError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.file.decode import PageIndexMismatchError
from intarsia.indexes.asking import ask_index
from intarsia.indexes.capabilities import SamplingIndex
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.granules import covered_granules, granule_rows
from intarsia.indexes.hll import MAX_LG_CONFIG_K, MIN_LG_CONFIG_K, DistinctCounter, is_counted
from intarsia.indexes.sample import draw, take_rows
from intarsia.read.file_scan import FileScan
from intarsia.read.output_columns import OutputColumn, concat_rows
from intarsia.read.prune import PruneStep
from intarsia.read.report import ScanReport
from intarsia.rows.selection import Rows, RowSelection

#: `Table.sample` gives so many rows where no file has a sample that says how many.
DEFAULT_SAMPLE_ROWS = 1000

#: How many rows of a sample are of one file varies by chance; so many standard deviations are allowed for.
_SPARE_DEVIATIONS = 5.0


@dataclass(frozen=True)
class ApproximateCount:
    """About how many there are.

    Attributes:
        estimate: The estimate.
        lower: The true number lies between this and ``upper`` with a confidence of 95 % (two standard
            deviations of the estimator).
        upper: See ``lower``.
        unindexed: Files that had no sketch that could be used, and were read instead.
        report: What was read.

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
        """The estimate, rounded."""
        return round(self.estimate)


# --- distinct values -------------------------------------------------------------------------------------


class DistinctValues:
    """The distinct values of one column, counted file by file.

    Args:
        column: The column; the only one that the scans retrieve.
        lg_config_k: Binary logarithm of the most registers.

    Attributes:
        unindexed: Files that had no sketch that could be used.

    Raises:
        UnsupportedFeatureError: If values of its type are not counted.
        ValueError: If there are no sketches of so many registers.
    """

    def __init__(self, column: OutputColumn, lg_config_k: int = MAX_LG_CONFIG_K) -> None:
        self._path = column.path
        self._kind = comparison_type(column.type)
        if not is_counted(self._kind):
            raise UnsupportedFeatureError(f"values of {column.name!r} ({self._kind}) are not counted")
        if not MIN_LG_CONFIG_K <= lg_config_k <= MAX_LG_CONFIG_K:
            raise ValueError(
                f"lg_config_k is {lg_config_k}; it must be {MIN_LG_CONFIG_K} to {MAX_LG_CONFIG_K}"
            )
        self._lg_config_k = lg_config_k
        self.unindexed: list[str] = []

    def count(self, scans: Iterable[tuple[ParquetInput, FileScan]]) -> tuple[float, float, float]:
        """About how many distinct values the matching rows have, and the bounds of that, by 95 %."""
        total = DistinctCounter(self._lg_config_k)
        constants: set[object] = set()
        has_sketches = False
        for file, scan in scans:
            if self._path in scan.constants:
                value = scan.constants[self._path]
                if value.is_valid and value.as_py() not in constants and _has_match(scan):
                    constants.add(value.as_py())
            else:
                has_sketches = True
                total.merge(self.of_file(file, scan))
        if not has_sketches:  # a partition column
            return float(len(constants)), float(len(constants)), float(len(constants))
        total.add(pa.array(list(constants), self._kind))
        return (total.estimate, *total.bounds(2))

    def of_file(self, file: ParquetInput, scan: FileScan) -> DistinctCounter:
        """The distinct values of the matching rows of a file."""
        if self._path in scan.constants:
            counter = DistinctCounter(self._lg_config_k)
            value = scan.constants[self._path]
            if value.is_valid and _has_match(scan):
                counter.add(pa.array([value.as_py()], self._kind))
            return counter
        while True:
            counter = DistinctCounter(self._lg_config_k)
            candidates = scan.plan()
            certain = candidates if scan.pruned is None else scan.pruned.certain
            known = self._add_sketches(file, scan, certain, counter)
            try:
                for piece in scan.batches(rows=candidates - known):
                    for chunk in comparison_array(piece.column(0), self._kind).chunks:
                        counter.add(chunk)
                return counter
            except pa.ArrowException as error:  # such as decimals of more digits than their type has
                raise CorruptFileError(f"values cannot be counted: {error}", path=file.path) from error
            except PageIndexMismatchError:
                scan.pruned = None  # that page index is not believed any more, nor what it told
                scan.tally.answered.clear()

    def _add_sketches(
        self, file: ParquetInput, scan: FileScan, rows: RowSelection, counter: DistinctCounter
    ) -> RowSelection:
        """Count by sketches what granules have of some rows; returns those rows."""
        known = RowSelection.none()
        before = file.source.counts.bytes
        is_indexed = False
        for entry in scan.embedded.sketchers(self._path) if self._hashes_alike(file) else ():
            left = rows - known
            if left.is_empty or (entry.granularity == "file" and rows.num_rows < file.footer.num_rows):
                is_indexed = True  # as far as that goes
                continue
            index = scan.embedded.open_sketches(entry)
            if index is None:
                continue
            covered = covered_granules(index.edges, rows)
            try:
                ask_index(partial(index.add_to, counter, covered))
            except IndexPayloadError as error:
                file.distrust(entry.name, str(error))
                continue
            is_indexed = True
            known = known | granule_rows(index.edges, covered)
            scan.tally.answered.append(PruneStep(entry.name, ".".join(self._path), left, rows - known))
        scan.tally.index_bytes += file.source.counts.bytes - before
        if not is_indexed and file.footer.num_rows and file.path not in self.unindexed:
            self.unindexed.append(file.path)
        return known

    def _hashes_alike(self, file: ParquetInput) -> bool:
        """Whether equal values have equal hashes here and in the table."""
        leaf = file.leaves_by_path.get(self._path)
        kind = None if leaf is None else file.leaf_types.get(leaf.ordinal)
        return kind is not None and compares_alike(kind, self._kind)


def _has_match(scan: FileScan) -> bool:
    """Whether any row of a file matches."""
    candidates = scan.plan()
    if scan.pruned is None or not scan.pruned.certain.is_empty:
        return not candidates.is_empty
    return any(piece.num_rows for piece in scan.batches(limit=1))


# --- rows ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileSize:
    """What has to be known of a file before rows are drawn.

    Attributes:
        num_rows: How many rows it has.
        sampled_rows: How many rows its `Sample` has; None if it has none.
    """

    num_rows: int
    sampled_rows: int | None

    @classmethod
    def of(cls, file: ParquetInput) -> FileSize:
        """By its footer; no index is read."""
        found = EmbeddedIndexes(file).sampler()
        return cls(file.footer.num_rows, None if found is None else found[1])


def affordable_rows(sizes: Sequence[FileSize]) -> int:
    """How many rows of a table can be drawn so that the samples of its files very likely suffice.

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


def sample_rows(
    sizes: Sequence[FileSize],
    scans: Iterable[tuple[ParquetInput, FileScan]],
    n: int | None,
    seed: int | None,
    shape: Callable[[pa.Table, FileScan], pa.Table],
) -> Iterator[pa.Table]:
    """Rows of a table, drawn uniformly and without replacement.

    Rows are drawn by their ordinals in the table.  That says how many rows of each file there are; in a file
    that has a `Sample`, as many of its rows are taken instead of those drawn, which is as uniform.

    Args:
        sizes: Of each file.
        scans: The scans of the same files, without a predicate, in the same order.
        n: How many rows.
        seed: The same seed draws the same rows; None: others each time.
        shape: Gives a piece the columns of the result.

    Yields:
        The rows of each file that has any.
    """
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *(size.num_rows for size in sizes)])
    drawn = draw(int(starts[-1]), affordable_rows(sizes) if n is None else n, rng)
    for place, (file, scan) in enumerate(scans):
        start, stop = np.searchsorted(drawn, starts[place : place + 2])
        if start < stop:
            for piece in _file_sample(file, scan, drawn[start:stop] - starts[place], rng):
                scan.tally.rows_matched += piece.num_rows
                yield shape(piece, scan)


def _file_sample(
    file: ParquetInput, scan: FileScan, drawn: Rows, rng: np.random.Generator
) -> Iterator[pa.Table]:
    inlaid = _open_sample(file, scan)
    if inlaid is None:
        yield _rows_at(scan, drawn)
        return
    yield scan.shape(take_rows(inlaid.rows, draw(len(inlaid.ordinals), len(drawn), rng)))
    missing = len(drawn) - len(inlaid.ordinals)
    if missing > 0:
        others = draw(file.footer.num_rows - len(inlaid.ordinals), missing, rng)
        # for each sampled row, how many others precede it
        gaps = inlaid.ordinals - np.arange(len(inlaid.ordinals))
        yield _rows_at(scan, others + np.searchsorted(gaps, others, side="right"))


def _rows_at(scan: FileScan, ordinals: Rows) -> pa.Table:
    """Rows by their ordinals, from the pages that hold them."""
    rows = RowSelection.from_rows(ordinals)
    while True:
        before = scan.tally.rows_matched
        try:
            return concat_rows(list(scan.batches(rows=rows)))
        except PageIndexMismatchError:  # no longer believed: whole chunks are read
            continue
        finally:
            scan.tally.rows_matched = before  # the caller counts them


def _open_sample(file: ParquetInput, scan: FileScan) -> SamplingIndex | None:
    """A file's sample, if it can be believed."""
    found = scan.embedded.sampler()
    if found is None:
        return None
    before = file.source.counts.bytes
    index = scan.embedded.open_sample(found[0])
    scan.tally.index_bytes += file.source.counts.bytes - before
    return index
