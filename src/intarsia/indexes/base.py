"""The protocols of indexes, for the built-in kinds and for those of other packages.

An index class is a frozen dataclass whose fields are its parameters. It builds a payload from the values of
a file, and opens a payload::

    @dataclass(frozen=True)
    class Even:                                   # one class, one file, one entry point
        kind: ClassVar[str] = "even"
        version: ClassVar[int] = 1
        column: str
        columns = property(lambda self: (self.column,))
        def build(self, chunk: ColumnData) -> bytes: ...
        def open(self, payload: bytes, layout: Layout) -> OpenIndex: ...

The contract of an open index, which `intarsia.testing.IndexContract` checks: **if a row matches the
condition, the row is in** ``candidate_rows(condition)``. ``None`` means that the index cannot decide.

Each further capability of an index is a small protocol. Callers never test the kind of an index.
With `PicksPredicates` its payload is not read for conditions that it cannot evaluate, and with `ProbedIndex`
only parts of it are read. A `ProvingIndex` also returns certain rows. `EstimatesRows` and `EstimatingIndex`
estimate the number of matching rows. `HasFooterKeys` lets other programs find the payload. The module
`intarsia.indexes.capabilities` has the protocols that do not evaluate conditions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

from intarsia.indexes.column_data import ColumnData
from intarsia.indexes.layout import Layout
from intarsia.predicate.bound import BoundFunction, Condition
from intarsia.rows.selection import RowSelection


@runtime_checkable
class OpenIndex(Protocol):
    """An index whose payload has been opened.

    A table keeps opened indexes for later queries, which may run at the same time in other threads.
    """

    def candidate_rows(self, condition: Condition) -> RowSelection | None:
        """Return the rows that might match a condition.

        Args:
            condition: A condition on one of the index's columns. `intarsia.indexes` lists its classes.

        Returns:
            A superset of the matching rows, as row ordinals of the file. None if the index cannot decide.

        Raises:
            IndexPayloadError: If the payload is damaged. The index is then ignored.
        """
        ...


@runtime_checkable
class ProvingIndex(Protocol):
    """An open index that also proves that rows match."""

    def certain_rows(self, condition: Condition) -> RowSelection | None:
        """Return rows that are proven to match a condition.

        Args:
            condition: As for `OpenIndex.candidate_rows`.

        Returns:
            A subset of the matching rows, as row ordinals of the file. None if the index cannot decide.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """
        ...


@runtime_checkable
class ProvesWithinBounds(Protocol):
    """An open index that can exclude false positives among the integers of a range."""

    def is_certain_within(self, condition: Condition, low: int, high: int) -> bool:
        """Return whether all candidate rows are proven to match a condition on an integer column.

        Args:
            condition: A condition for which `OpenIndex.candidate_rows` returned rows.
            low: A lower bound of the column's values other than null.
            high: An upper bound of the column's values.

        Returns:
            True if every row of ``candidate_rows(condition)`` matches. False if the index cannot decide.
        """
        ...


@runtime_checkable
class EstimatingIndex(Protocol):
    """An open index that can estimate the number of matching rows."""

    def estimated_rows(self, condition: Condition) -> float | None:
        """Estimate the number of rows that match a condition.

        Args:
            condition: A condition for which `EstimatesRows.can_estimate` is true.

        Returns:
            The estimated number of matching rows in the file. None if the index cannot estimate it. The
            estimate only affects the order in which columns are read; no rows are skipped.
        """
        ...


@runtime_checkable
class Index(Protocol):
    """An index: its parameters, and the methods that build and open a payload.

    Attributes:
        kind: The name of the class in files, and of its entry point in the group ``intarsia.indexes``.
        version: The version of the payload format. A payload of a later version is ignored.
    """

    kind: ClassVar[str]
    version: ClassVar[int]

    @property
    def columns(self) -> tuple[str, ...]:
        """The indexed columns, dotted if they are nested. Empty if the index is on whole rows."""
        ...

    def build(self, chunk: ColumnData) -> bytes:
        """Build the payload for a file.

        Args:
            chunk: The values of the file's columns, and the layout of its rows.

        Returns:
            Arbitrary bytes, the same for the same values and layout.

        Raises:
            IndexBuildError: If the index cannot be built on these columns.
        """
        ...

    def open(self, payload: bytes, layout: Layout) -> OpenIndex:
        """Open a payload built by this or an earlier version of the class.

        Args:
            payload: The bytes. Their checksum has been verified.
            layout: The row ranges of the file. It has no page edges, so an index of pages must store them.

        Returns:
            An open index, which may also be a `ProvingIndex`, an `EstimatingIndex` and so on.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """
        ...


@runtime_checkable
class HasPurpose(Protocol):
    """An index that states its purpose, for the reports of `attach` and `intarsia.advise`.

    Attributes:
        purpose: A verb phrase that completes "it is used to …", such as ``"skip pages by bounds"``.
    """

    purpose: ClassVar[str]


@runtime_checkable
class ReportsShortfall(Protocol):
    """An index that reports when a payload that it built is unlikely to be useful."""

    def shortfall(self, payload: bytes, layout: Layout) -> str | None:
        """Return why the index is unlikely to skip anything, for the report of `attach`.

        Args:
            payload: The result of `Index.build`.
            layout: The layout passed to `Index.build`, including pages.

        Returns:
            The reason, as a sentence fragment. None if the index may be useful.
        """
        ...


@runtime_checkable
class PicksPredicates(Protocol):
    """An index that reports, before its payload is read, which conditions it cannot evaluate."""

    def can_prune(self, condition: Condition) -> bool:
        """Return whether the payload is worth reading for a condition.

        Args:
            condition: A condition on one of the index's columns.

        Returns:
            False if `OpenIndex.candidate_rows` would return None.
        """
        ...


@runtime_checkable
class EstimatesRows(Protocol):
    """An index that estimates, and reports, before its payload is read, which conditions it can estimate.

    If it has no columns, it is on whole rows and is used for conditions on every column.
    """

    def can_estimate(self, condition: Condition) -> bool:
        """Return whether the payload is worth reading for an estimate.

        Args:
            condition: A condition on one of the index's columns, or on any column if it has none.

        Returns:
            False if `EstimatingIndex.estimated_rows` would return None.
        """
        ...


@runtime_checkable
class HasFooterKeys(Protocol):
    """An index whose payload other programs find by their own footer keys."""

    def footer_keys(self, payload_offset: int) -> Mapping[bytes, bytes]:
        """Return the entries to add to the footer's key/value metadata. May be empty.

        Args:
            payload_offset: The offset of the payload in the file, in bytes. A payload with footer keys is
                never stored inline in the directory.

        Returns:
            Keys and their values.
        """
        ...


def prunes_function(index: Any, condition: BoundFunction) -> bool:
    """Return whether an index evaluates a condition on a function of its column.

    ``can_prune_function(condition)`` says so. Without this method, an index that lists values evaluates it on
    these.
    """
    confirm = getattr(index, "can_prune_function", None) or getattr(index, "lists_values", None)
    return confirm is not None and bool(confirm(condition))


def parameters(index: Any) -> dict[str, Any]:
    """Return an index's parameters, such that ``type(index)(**parameters)`` equals the index."""
    return dataclasses.asdict(index)
