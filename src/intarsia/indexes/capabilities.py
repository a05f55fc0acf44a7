"""What else an index can do: summarize granules, count distinct values, keep rows, agree with other programs.

Of each pair, the first protocol is the index's, and is asked before a payload is read; the second is that of
what it opens as.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.indexes.summaries import GranuleSummaries
from intarsia.predicate.bound import Condition
from intarsia.rows.selection import Rows

if TYPE_CHECKING:
    from intarsia.file import ParquetInput
    from intarsia.indexes.hll import DistinctCounter


@runtime_checkable
class ListsValues(Protocol):
    """An index that knows every value of its granules, so that a granule which it leaves holds a match.

    Then nothing is gained by dictionary pages, which hold the values of a row group.
    """

    def lists_values(self, predicate: Condition) -> bool:
        """Whether it judges a condition by the values themselves.

        Args:
            predicate: A condition on one of the index's columns.
        """
        ...


@runtime_checkable
class Summarizes(Protocol):
    """An index that knows what granules come to: it answers COUNT, SUM, MIN, MAX and AVG."""

    def can_summarize(self, column: str) -> bool:
        """Whether its payload is worth reading for the summaries of a column.

        Args:
            column: One of `Index.columns`.

        Returns:
            False where `SummarizingIndex.granule_summaries` would be None.
        """
        ...


@runtime_checkable
class SummarizingIndex(Protocol):
    """What an index that `Summarizes` opens as."""

    def granule_summaries(self, column: str) -> GranuleSummaries | None:
        """What the values of each granule come to.

        It is taken for the answer where all rows of a granule are known to match, so it has to be right.

        Args:
            column: A column for which `Summarizes.can_summarize` is true.

        Returns:
            A summary of each granule; None if that is not known after all.

        Raises:
            IndexPayloadError: If the payload turns out to be damaged.
        """
        ...


@runtime_checkable
class Sketches(Protocol):
    """An index that has a sketch of the distinct values of each granule: it answers `approx_distinct`."""

    def can_sketch(self, column: str) -> bool:
        """Whether it has sketches of a column.

        Args:
            column: One of `Index.columns`.
        """
        ...


@runtime_checkable
class SketchingIndex(Protocol):
    """What an index that `Sketches` opens as."""

    @property
    def edges(self) -> Rows:
        """First row of each granule in the file's numbering, and the number of rows at the end; int64."""
        ...

    def add_to(self, counter: DistinctCounter, granules: npt.NDArray[np.bool_]) -> None:
        """Add the sketches of some granules to a count.

        Args:
            counter: Counts distinct values; a sketch of Apache DataSketches goes to its ``add_sketch``.
            granules: For each granule, whether its values are to be counted; one boolean a granule.

        Raises:
            IndexPayloadError: If a sketch is damaged; nothing was counted then.
        """
        ...


@runtime_checkable
class Samples(Protocol):
    """An index that keeps some rows of the file, drawn uniformly: it answers `Table.sample`."""

    def num_sampled(self, num_rows: int) -> int:
        """How many rows it keeps, which has to be known before its payload is read.

        Args:
            num_rows: Rows in the file.

        Returns:
            How many of them it keeps, ``num_rows`` at most.
        """
        ...


@runtime_checkable
class SamplingIndex(Protocol):
    """What an index that `Samples` opens as."""

    @property
    def ordinals(self) -> Rows:
        """Which rows of the file it keeps, ascending; int64, as many as `Samples.num_sampled` says."""
        ...

    @property
    def rows(self) -> pa.Table:
        """Those rows, of all columns, as `pyarrow.parquet.read_table` would give them."""
        ...


@runtime_checkable
class SharesFooterKeys(Protocol):
    """An index with footer keys that other programs write, too."""

    def difference(self, payload: bytes, file: ParquetInput) -> str | None:
        """Why a payload of another program, to which the file's own keys lead, is not like this one.

        Args:
            payload: What `Index.build` made of the file.
            file: The file as it was before anything was attached; it has one of the keys.

        Returns:
            The reason, in words, and then the index is refused; None if the keys may stay as they are.
        """
        ...
