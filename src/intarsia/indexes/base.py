"""The two base classes of indexes, for the built-in kinds and for those of other packages.

An index class is a frozen dataclass whose fields are its parameters. It builds a payload from the values of
a file, and opens a payload::

    @dataclass(frozen=True)
    class Even(Index):                            # one class, one file, one entry point
        kind: ClassVar[str] = "even"
        version: ClassVar[int] = 1
        column: str
        def build(self, chunk: ColumnData) -> bytes: ...
        def open(self, payload: bytes, layout: Layout) -> OpenIndex: ...

The contract of an open index, which `intarsia.testing.IndexContract` checks: **if a row matches the
condition, the row is in** ``candidate_rows(condition)``. ``None`` means that the index cannot decide.

Every other method is a capability, whose default is that the index does not have it. Callers call it, and
never test the kind of an index.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.indexes.distinct_counter import DistinctCounter
from intarsia.indexes.layout import ColumnData, Layout
from intarsia.indexes.summaries import GranuleSummaries
from intarsia.predicate.bound import BoundFunction, Condition
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import Rows, RowSelection
from intarsia.storage import ByteRange


class Index(ABC):
    """An index: its parameters, and the methods that build and open a payload.

    Attributes:
        kind: The name of the class in files, and of its entry point in the group ``intarsia.indexes``.
        version: The version of the payload format. A payload of a later version is ignored.
        purpose: A verb phrase that completes "it is used to …", such as ``"skip pages by bounds"``. It is
            shown by `attach` and `intarsia.advise`.
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    purpose: ClassVar[str] = ""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The indexed columns, dotted if they are nested: that of the field ``column``.

        Override it if there are several. It is empty if the index is on whole rows.
        """
        return (self.column,)

    @abstractmethod
    def build(self, chunk: ColumnData) -> bytes:
        """Build the payload for a file.

        Args:
            chunk: The values of the file's columns, and the layout of its rows.

        Returns:
            Arbitrary bytes, the same for the same values and layout.

        Raises:
            IndexBuildError: If the index cannot be built on these columns.
        """

    @abstractmethod
    def open(self, payload: bytes, layout: Layout) -> OpenIndex:
        """Open a payload built by this or an earlier version of the class.

        Args:
            payload: The bytes. Their checksum has been verified.
            layout: The row ranges of the file. It has no page edges, so an index of pages must store them.

        Returns:
            An object that evaluates conditions.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """

    def open_source(self, source: PayloadSource, layout: Layout) -> OpenIndex:
        """Open a payload without reading all of it; define it for large payloads that are probed.

        Args:
            source: The payload, not read yet. `open` opens the same payload as bytes.
            layout: As for `open`.

        Returns:
            An open index that reads the payload on demand.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """
        raise NotImplementedError

    # --- what the payload is worth reading for --------------------------------------------------------

    def can_prune(self, condition: Condition) -> bool:
        """Return whether the payload is worth reading for a condition.

        Args:
            condition: A condition on one of the columns.

        Returns:
            False if `OpenIndex.candidate_rows` would return None.
        """
        return True

    def can_prune_function(self, condition: BoundFunction) -> bool:
        """Return whether the payload is worth reading for a condition on a function of a column.

        Args:
            condition: The condition.

        Returns:
            By default, whether the index lists the values, on which the function is evaluated.
        """
        return self.lists_values(condition)

    def lists_values(self, condition: Condition) -> bool:
        """Return whether every granule among the candidates of a condition has a match.

        Args:
            condition: A condition on one of the columns, perhaps on a function of it.

        Returns:
            False if candidates may have no match, as those of bounds or hashes. If true, dictionary pages,
            which have the values of a row group, could not exclude more and are not read.
        """
        return False

    def can_estimate(self, condition: Condition) -> bool:
        """Return whether the payload is worth reading for `OpenIndex.estimated_rows`.

        Args:
            condition: A condition on one of the columns; on any column if the index is on whole rows.

        Returns:
            False if `OpenIndex.estimated_rows` would return None.
        """
        return False

    def can_summarize(self, column: str) -> bool:
        """Return whether the payload is worth reading for `OpenIndex.granule_summaries`.

        Args:
            column: One of `columns`.

        Returns:
            False if the index has no summaries of the column.
        """
        return False

    def can_enumerate(self, column: str) -> bool:
        """Return whether the payload is worth reading for `OpenIndex.granule_values`.

        Args:
            column: One of `columns`.

        Returns:
            False if the index has no values of the column.
        """
        return False

    def can_sketch(self, column: str) -> bool:
        """Return whether the payload is worth reading for `OpenIndex.add_to`.

        Args:
            column: One of `columns`.

        Returns:
            False if the index has no sketches of the column.
        """
        return False

    def num_sampled(self, num_rows: int) -> int | None:
        """Return the size of the sample of rows, which is uniform and answers `Table.sample`.

        Args:
            num_rows: The number of rows in the file.

        Returns:
            The number of sampled rows, at most ``num_rows``. None if the index has no sample.
        """
        return None

    # --- building and storing -------------------------------------------------------------------------

    def shortfall(self, payload: bytes, layout: Layout) -> str | None:
        """Return why a new payload is unlikely to skip anything, for the report of `attach`.

        Args:
            payload: The result of `build`.
            layout: The layout passed to `build`, including pages.

        Returns:
            The reason, as a sentence fragment. None if the index may be useful.
        """
        return None

    def footer_keys(self, payload_offset: int) -> Mapping[bytes, bytes]:
        """Return entries for the footer's key/value metadata by which other programs find the payload.

        Args:
            payload_offset: The offset of the payload in the file, in bytes. A payload with footer keys is
                never stored inline in the directory.

        Returns:
            Keys and their values.
        """
        return {}

    def difference(self, payload: bytes, file: ParquetInput) -> str | None:
        """Compare a payload with that of another program, to which the file's own `footer_keys` point.

        Args:
            payload: The result of `build` for the file.
            file: The original file, which has one of the keys.

        Returns:
            How they differ, as a sentence fragment; `attach` then rejects the index. None if the keys can
            stay as they are. Empty if they cannot be compared.
        """
        return ""

    def can_merge(self) -> bool:
        """Return whether the payload can be merged from those of parts of a file, built in parallel.

        Returns:
            False if a granule can span row groups: then one task builds the index of a file. By default,
            whether `merge` is defined and the index has a ``granularity`` other than ``"file"``.
        """
        return defines(self, "merge") and getattr(self, "granularity", "file") != "file"

    def merge(self, parts: Sequence[PayloadPart]) -> bytes | None:
        """Merge the payloads of consecutive parts.

        Args:
            parts: The parts in the order of the file, which together have all of its row groups.

        Returns:
            The bytes that `build` returns for the whole file. None to build them from the values.

        Raises:
            IndexBuildError: As `build`.
            IndexPayloadError: If a payload is damaged.
        """
        return None

    # --- many files, in a lake index -------------------------------------------------------------------

    def digest(self, payload: bytes, layout: Layout) -> bytes | None:
        """Reduce the payload of one file to what `gather` needs; define all three methods or none.

        Args:
            payload: The result of `build`. Its checksum has been verified.
            layout: The row ranges of the file, without pages.

        Returns:
            The digest, or None if the payload cannot exclude the file.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """
        return None

    def gather(self, digests: Sequence[bytes]) -> Sequence[GatheredPart] | None:
        """Build one structure for many files.

        Args:
            digests: The digest of each file, by indexes with the same parameters.

        Returns:
            The parts, or None if the structure would be too large to be useful.
        """
        return None

    def open_gathered(self, parts: GatheredParts, num_files: int) -> OpenIndex:
        """Open the structure; read as little as possible.

        Args:
            parts: The parts.
            num_files: The number of digests.

        Returns:
            An object with `OpenIndex.candidate_files`, and perhaps `OpenIndex.certain_files` and
            `OpenIndex.file_summaries`.

        Raises:
            CorruptFileError: If the structure is damaged.
        """
        raise NotImplementedError


class OpenIndex:
    """An index that has been opened: of one file, or the structure of many files.

    A table keeps opened indexes for later queries, which may run at the same time in other threads. A method
    that finds damage raises IndexPayloadError; the index is then ignored.

    Attributes:
        edges: The first row of each granule, then the number of rows; int64. It is needed only if
            `Index.can_enumerate` or `Index.can_sketch` is true.
        ordinals: The ordinals of the sampled rows, ascending; int64. `Index.num_sampled` is their number. It
            is needed only for a sample, as is ``rows``.
        rows: The sampled rows with all columns, as from `pyarrow.parquet.read_table`.
    """

    edges: Rows
    ordinals: Rows
    rows: pa.Table

    def candidate_rows(self, condition: Condition) -> RowSelection | None:
        """Return the rows that might match a condition.

        Args:
            condition: A condition on one of the columns. `intarsia.indexes` lists its classes.

        Returns:
            A superset of the matching rows, as row ordinals of the file. None if the index cannot decide.
        """
        return None

    def certain_rows(self, condition: Condition) -> RowSelection | None:
        """Return rows that are proven to match a condition.

        Args:
            condition: A condition on one of the columns, for which `candidate_rows` did not exclude all rows.

        Returns:
            A subset of the matching rows, as row ordinals of the file. None if the index cannot decide.
        """
        return None

    def is_certain_within(self, condition: Condition, low: int, high: int) -> bool:
        """Return whether all candidate rows are proven to match a condition on an integer column.

        Args:
            condition: A condition for which `candidate_rows` returned rows.
            low: A lower bound of the column's values other than null.
            high: An upper bound of the column's values.

        Returns:
            True if every row of ``candidate_rows(condition)`` matches. False if the index cannot decide.
        """
        return False

    def estimated_rows(self, condition: Condition) -> float | None:
        """Estimate the number of rows of the file that match a condition.

        Args:
            condition: A condition on one of the columns.

        Returns:
            The number; None if it cannot be estimated. It only affects the order in which columns are read.
        """
        return None

    def granule_summaries(self, column: str) -> GranuleSummaries | None:
        """Return the summary of each granule, which answers COUNT, SUM, MIN, MAX and AVG.

        It must be correct: it replaces reading the rows of a granule that are all proven to match.

        Args:
            column: A column for which `Index.can_summarize` is true.

        Returns:
            A summary of each granule. None if this file has no summaries.
        """
        return None

    def granule_values(self) -> GranuleValues | None:
        """Return the distinct values of each granule, which answer `Table.count_distinct`.

        They must be correct: they replace reading the rows of a granule that are all proven to match.

        Returns:
            The values, and the granules that have each of them. None if this file has none.
        """
        return None

    def add_to(self, counter: DistinctCounter, granules: npt.NDArray[np.bool_]) -> None:
        """Add the sketches of granules to a counter, which answer `Table.approx_distinct`.

        Args:
            counter: The counter. Its ``add_sketch`` takes an Apache DataSketches sketch. It is unchanged if
                a sketch is damaged.
            granules: One boolean per granule, whether to add its sketch.
        """
        raise NotImplementedError

    # --- many files: what `Index.open_gathered` returns ------------------------------------------------

    def candidate_files(self, condition: Condition) -> Bools | None:
        """Return the files that might contain a matching row.

        Args:
            condition: A condition on one of the columns.

        Returns:
            One boolean per digest, in the order of `Index.gather`; False only if no row of the file
            matches. None if the structure cannot decide.
        """
        return None

    def certain_files(self, condition: Condition) -> Bools | None:
        """Return the files in which all rows match.

        Args:
            condition: A condition on one of the columns.

        Returns:
            One boolean per digest, in the order of `Index.gather`; True only if all rows of the file match.
            None if the structure cannot decide.
        """
        return None

    def cost_bytes(self, condition: Condition) -> int:
        """Estimate what `candidate_files` costs.

        Args:
            condition: A condition on one of the columns.

        Returns:
            The number of bytes that it reads.
        """
        return 0

    def file_summaries(self, column: str) -> tuple[pa.Table, Bools] | None:
        """Return the summary of each file, which answers COUNT, SUM, MIN, MAX and AVG.

        Args:
            column: One of the columns.

        Returns:
            A table with the columns of `intarsia.indexes.summary_schema` and a row for each digest, in the
            order of `Index.gather`; and a boolean for each row, whether its bounds are values of the
            column. None if the structure has no summaries of the column.
        """
        return None


def defines(index: Index | None, method: str) -> bool:
    """Return whether the class of an index defines a capability, which decides what is read before the call.

    Example:
        >>> from intarsia.indexes.distinct import Distinct
        >>> defines(Distinct("country"), "digest"), defines(Distinct("country"), "open_source")
        (True, False)
    """
    return index is not None and getattr(type(index), method) is not getattr(Index, method)


def prunes(index: Index, condition: Condition) -> bool:
    """Return whether the payload of an index is worth reading for a condition."""
    if isinstance(condition, BoundFunction):
        return bool(index.can_prune_function(condition))
    return bool(index.can_prune(condition))


def checked_opened(index: Index, opened: object) -> OpenIndex:
    """Return what a method of an index has opened.

    Raises:
        IndexPayloadError: If its class does not derive from `OpenIndex`.
    """
    if not isinstance(opened, OpenIndex):
        raise IndexPayloadError(
            f"{type(index).__name__} opened a {type(opened).__name__}, whose class does not derive from "
            "intarsia.indexes.OpenIndex",
            reason="not-an-open-index",
        )
    return opened


def checked_rows(found: object) -> RowSelection | None:
    """Return the rows that a method of an index has returned.

    Raises:
        IndexPayloadError: If it is neither a `RowSelection` nor None.
    """
    if found is not None and not isinstance(found, RowSelection):
        raise IndexPayloadError(
            f"it returned {type(found).__name__}, not a RowSelection", reason="not-a-row-selection"
        )
    return found


@dataclass(frozen=True)
class GranuleValues:
    """The distinct values of granules, as pairs of a value and a granule.

    Attributes:
        values: The distinct values of all granules, including null if any row is null.
        ordinals: For each pair, the ordinal of its value in ``values``.
        granules: For each pair, the ordinal of its granule.
        is_listed: For each granule, whether all of its values are among its pairs.
        num_rows: For each granule, its number of rows; int64.

    Example:
        >>> pairs = np.array([0, 0, 1]), np.array([0, 1, 1])
        >>> found = GranuleValues(pa.array(["a", "b"]), *pairs, np.array([True, True]), np.array([10, 10]))
        >>> found.values.take(pa.array(found.ordinals[found.granules == 1])).to_pylist()
        ['a', 'b']
    """

    values: pa.Array
    ordinals: npt.NDArray[np.int64]
    granules: npt.NDArray[np.int64]
    is_listed: Bools
    num_rows: npt.NDArray[np.int64]


class PayloadSource(Protocol):
    """A payload that is read in parts."""

    @property
    def num_bytes(self) -> int:
        """The length of the payload in bytes."""
        ...

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Read ranges of bytes in one request.

        The bytes are not verified by a checksum. The format of the payload must detect damage.

        Args:
            ranges: Ranges of bytes, relative to the payload's first byte.

        Returns:
            One bytes object per range, in the same order.

        Raises:
            IndexPayloadError: If a range is outside the payload, or the payload has been replaced.
        """
        ...


@dataclass(frozen=True)
class PayloadBytes:
    """A payload in memory as a `PayloadSource`, with which an index that is probed opens bytes.

    Args:
        payload: The bytes.
    """

    payload: bytes

    @property
    def num_bytes(self) -> int:
        """The length of the payload in bytes."""
        return len(self.payload)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return the bytes of each range."""
        if any(not 0 <= start <= stop <= len(self.payload) for start, stop in ranges):
            raise IndexPayloadError("a range is outside the payload", reason="range-outside-payload")
        return [self.payload[start:stop] for start, stop in ranges]


class PayloadPart(NamedTuple):
    """The payload of some consecutive row groups, built as if they were a file.

    Attributes:
        payload: The result of `Index.build`.
        layout: The row ranges of these row groups, which begin at 0. It has no page edges.
    """

    payload: bytes
    layout: Layout


class GatheredPart(NamedTuple):
    """A named part of the structure of many files.

    Attributes:
        name: The name, unique in the structure.
        data: The bytes.
        piece_bytes: Length of the pieces that can be read separately, a divisor of the length of the data;
            None if the part is always read whole.
    """

    name: str
    data: bytes
    piece_bytes: int | None = None


class GatheredParts(Protocol):
    """The parts of the structure of many files, not read yet. Reading a piece verifies its checksum.

    A missing or damaged part raises CorruptFileError. The structure is then ignored.
    """

    def names(self) -> list[str]:
        """Return the names of the parts.

        Returns:
            The `GatheredPart.name` of each part.
        """
        ...

    def num_bytes(self, name: str) -> int:
        """Return the length of a part.

        Args:
            name: The name of the part.

        Returns:
            The length in bytes.
        """
        ...

    def read(self, name: str) -> bytes:
        """Read a part.

        Args:
            name: The name of the part.

        Returns:
            All of its bytes.
        """
        ...

    def read_pieces(self, name: str, ordinals: Sequence[int]) -> list[bytes]:
        """Read pieces of a part in one request.

        Args:
            name: The name of the part, which has `GatheredPart.piece_bytes`.
            ordinals: The positions of the pieces in the part, from 0.

        Returns:
            The bytes of each piece, in the order of ``ordinals``.
        """
        ...
