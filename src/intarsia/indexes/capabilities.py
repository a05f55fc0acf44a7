"""Further capabilities of indexes: summaries and values of granules, sketches, samples, shared footer keys.

Most come as a pair of protocols. The first is for the index and is consulted before a payload is read. The
second is for the open index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.indexes.granule_values import GranuleValues
from intarsia.indexes.summaries import GranuleSummaries
from intarsia.predicate.bound import Condition
from intarsia.rows.selection import Rows

if TYPE_CHECKING:
    from intarsia.file import ParquetInput
    from intarsia.indexes.hll import DistinctCounter


@runtime_checkable
class ListsValues(Protocol):
    """A lossless index: every granule among its candidates contains a match.

    Dictionary pages, which contain the values of a row group, could not exclude more.
    """

    def lists_values(self, condition: Condition) -> bool:
        """Return whether the index evaluates a condition on the values themselves.

        Args:
            condition: A condition on one of the index's columns.

        Returns:
            False if candidates of the condition may have no match, as those of bounds or hashes.
        """
        ...


@runtime_checkable
class Summarizes(Protocol):
    """An index with summaries of granules, which answer COUNT, SUM, MIN, MAX and AVG."""

    def can_summarize(self, column: str) -> bool:
        """Return whether the payload is worth reading for the summaries of a column.

        Args:
            column: One of `Index.columns`.

        Returns:
            False if `SummarizingIndex.granule_summaries` would return None.
        """
        ...


@runtime_checkable
class SummarizingIndex(Protocol):
    """The open index that `Index.open` of `Summarizes` returns."""

    def granule_summaries(self, column: str) -> GranuleSummaries | None:
        """Return the summary of each granule.

        It must be correct: it replaces reading the rows of a granule that are all proven to match.

        Args:
            column: A column for which `Summarizes.can_summarize` is true.

        Returns:
            A summary of each granule. None if this file has no summaries.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """
        ...


@runtime_checkable
class EnumeratesValues(Protocol):
    """An index with all distinct values of granules, which answers `Table.count_distinct`."""

    def can_enumerate(self, column: str) -> bool:
        """Return whether the payload is worth reading for the values of a column.

        Args:
            column: One of `Index.columns`.

        Returns:
            False if the index has no values of the column.
        """
        ...


@runtime_checkable
class EnumeratingIndex(Protocol):
    """The open index that `Index.open` of `EnumeratesValues` returns."""

    @property
    def edges(self) -> Rows:
        """The first row of each granule, then the number of rows; int64."""
        ...

    def granule_values(self) -> GranuleValues:
        """Return the distinct values of each granule.

        They must be correct: they replace reading the rows of a granule that are all proven to match.

        Returns:
            The values, and the granules that have each of them.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """
        ...


@runtime_checkable
class Sketches(Protocol):
    """An index with a sketch of the distinct values of each granule, which answers `approx_distinct`."""

    def can_sketch(self, column: str) -> bool:
        """Return whether the payload is worth reading for the sketches of a column.

        Args:
            column: One of `Index.columns`.

        Returns:
            False if the index has no sketches of the column.
        """
        ...


@runtime_checkable
class SketchingIndex(Protocol):
    """The open index that `Index.open` of `Sketches` returns."""

    @property
    def edges(self) -> Rows:
        """The first row of each granule, then the number of rows; int64."""
        ...

    def add_to(self, counter: DistinctCounter, granules: npt.NDArray[np.bool_]) -> None:
        """Add the sketches of granules to a counter.

        Args:
            counter: The counter. Its ``add_sketch`` takes an Apache DataSketches sketch.
            granules: One boolean per granule, whether to add its sketch.

        Raises:
            IndexPayloadError: If a sketch is damaged. The counter is then unchanged.
        """
        ...


@runtime_checkable
class Samples(Protocol):
    """An index with a uniform sample of the file's rows, which answers `Table.sample`."""

    def num_sampled(self, num_rows: int) -> int:
        """Return the size of the sample, without reading the payload.

        Args:
            num_rows: The number of rows in the file.

        Returns:
            The number of sampled rows, at most ``num_rows``.
        """
        ...


@runtime_checkable
class SamplingIndex(Protocol):
    """The open index that `Index.open` of `Samples` returns."""

    @property
    def ordinals(self) -> Rows:
        """The ordinals of the sampled rows, ascending; int64. `Samples.num_sampled` is their number."""
        ...

    @property
    def rows(self) -> pa.Table:
        """The sampled rows with all columns, as from `pyarrow.parquet.read_table`."""
        ...


@runtime_checkable
class SharesFooterKeys(Protocol):
    """An index whose footer keys other programs also write."""

    def difference(self, payload: bytes, file: ParquetInput) -> str | None:
        """Compare a payload with that of another program, to which the file's own keys point.

        Args:
            payload: The result of `Index.build` for the file.
            file: The original file, which has one of the keys.

        Returns:
            How they differ, as a sentence fragment; `attach` then rejects the index. None if the keys can
            stay as they are.
        """
        ...
