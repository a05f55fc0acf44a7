"""The result of `intarsia.advise`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from intarsia.advice.columns import ColumnShape
from intarsia.advice.cost import QueryCost
from intarsia.advice.obstacles import Obstacle
from intarsia.embed.structures import Attachable
from intarsia.read.amounts import count, size


@dataclass(frozen=True)
class SampleSize:
    """The data that was measured.

    Attributes:
        files: Number of files in the sample.
        files_total: Number of files of the table.
        row_groups: Number of row groups in the sample.
        bytes: Size of these row groups in bytes.
        bytes_total: Size of all files in bytes.
        is_whole: Whether the sample has all row groups of all files, so that costs are not extrapolated.
    """

    files: int
    files_total: int
    row_groups: int
    bytes: int
    bytes_total: int
    is_whole: bool

    def __str__(self) -> str:
        where = f"{count(self.row_groups, 'row group')} ({size(self.bytes)}) of {count(self.files, 'file')}"
        if self.is_whole:
            return f"measured on all data: {where}"
        total = f"{count(self.files_total, 'file')} ({size(self.bytes_total)})"
        return f"estimated from a sample: {where}, of {total}"


@dataclass(frozen=True)
class MeasuredIndex:
    """An index that was built on the sample.

    Attributes:
        index: The index, as `intarsia.attach` takes it.
        name: Its name, such as ``"row_map(user)"``.
        column: Its column, dotted; None if it has none.
        purpose: Its purpose.
        bytes: Its estimated size in all files, in bytes.
        share: The same as a part of the files.
        seconds: The estimated time to build it, in seconds, without copying the files.
        saved_bytes: The number of bytes that it saves per query: in addition to the other advised indexes if
            it is one of them, otherwise together with the page index. May be negative.
        is_advised: Whether it is part of the advice.
    """

    index: Attachable
    name: str
    column: str | None
    purpose: str
    bytes: int
    share: float
    seconds: float
    saved_bytes: int
    is_advised: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the index as a JSON object."""
        return {name: value for name, value in vars(self).items() if name != "index"}


@dataclass(frozen=True)
class Option:
    """A change of the files that reduces what a query reads, in place or by rewriting them.

    Attributes:
        name: Its name, such as ``"page_index + row_map(user)"`` or ``"sorted by user, 2,000 rows per page"``.
        command: The command that makes the change.
        read_bytes: The number of bytes that a query then reads, on average.
        saved_bytes: The number of bytes that it saves per query.
        saved_share: The same as a part of what a query reads today.
        added_bytes: The growth of the files in bytes; negative if they become smaller.
        rewrites: Whether the rows are written to a new file; the old files are not changed.
        is_estimate: Whether the numbers are extrapolated from a sample.
    """

    name: str
    command: str
    read_bytes: int
    saved_bytes: int
    saved_share: float
    added_bytes: int
    rewrites: bool
    is_estimate: bool

    def __str__(self) -> str:
        about = "about " if self.is_estimate else ""
        how = "writes a new file" if self.rewrites else f"adds {size(self.added_bytes)}"
        return f"{self.name}: reads {about}{size(self.read_bytes)}, saves {self.saved_share:.0%}, {how}"


@dataclass(frozen=True)
class QueryAdvice:
    """The cost of one query, now and with the advice.

    Attributes:
        where: The predicate as SQL text.
        columns: The columns that the query reads; None for all.
        origin: The file and line of the query; empty if it was passed as an argument.
        count: The number of times that the query was passed.
        total: The cost of reading all rows.
        now: The cost today.
        advised: The cost with the advised indexes.
        least: The cost of the pages with matching rows, without indexes; its ``bytes`` are never above those
            that the query reads with any option.
        rows_matched: The estimated number of rows that match.
        obstacles: Why it cannot skip more.
    """

    where: str
    columns: tuple[str, ...] | None
    origin: str
    count: int
    total: QueryCost
    now: QueryCost
    advised: QueryCost
    least: QueryCost
    rows_matched: int
    obstacles: tuple[Obstacle, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the query as a JSON object."""
        costs = {name: getattr(self, name).to_dict() for name in ("total", "now", "advised", "least")}
        return {
            "where": self.where,
            "columns": None if self.columns is None else list(self.columns),
            "origin": self.origin,
            "count": self.count,
            **costs,
            "rows_matched": self.rows_matched,
            "obstacles": [obstacle.to_dict() for obstacle in self.obstacles],
        }


@dataclass(frozen=True)
class NotBuilt:
    """An index that cannot be built on a column.

    Attributes:
        name: Its name.
        reason: Why, in words.
        code: Why, as a stable code.
    """

    name: str
    reason: str
    code: str


@dataclass(frozen=True)
class Advice:
    """Advice on which indexes to add to the files of a table, measured on a sample.

    Attributes:
        command: The command that adds the advised indexes; None if no index helps.
        indexes: The advised indexes, for `intarsia.attach`.
        lake_index: Whether a lake index is advised, because queries open many files without matches.
        measured: All indexes that were measured, the advised ones first.
        options: The changes that save at least a fifth of what a query reads: sets of indexes, smaller pages
            and orders of rows. Ordered by the bytes that 20 runs save less those that have to be written.
        queries: The cost of each query; empty if there were none.
        columns: The shape of each column, if there were no queries.
        not_built: Indexes that cannot be built.
        sample: The data that was measured.
        seconds: Time taken.
    """

    command: str | None
    indexes: tuple[Attachable, ...]
    lake_index: bool
    measured: tuple[MeasuredIndex, ...]
    options: tuple[Option, ...]
    queries: tuple[QueryAdvice, ...]
    columns: tuple[ColumnShape, ...]
    not_built: tuple[NotBuilt, ...]
    sample: SampleSize
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as a JSON object; docs/cli.md lists its keys."""
        return {
            "command": self.command,
            "lake_index": self.lake_index,
            "indexes": [index.to_dict() for index in self.measured],
            "options": [vars(option).copy() for option in self.options],
            "queries": [query.to_dict() for query in self.queries],
            "columns": [column.to_dict() for column in self.columns],
            "not_built": [vars(index).copy() for index in self.not_built],
            "sample": vars(self.sample).copy(),
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        lines = [str(self.sample)]
        for query in self.queries:
            lines.append(
                f"{query.where}: reads {_size(query.now)} of {_size(query.total)}, {_size(query.advised)} "
                f"with the advice; the minimum is {_size(query.least)}"
            )
            lines += [f"  {obstacle}" for obstacle in query.obstacles]
        for index in self.measured:
            mark = "add" if index.is_advised else "   "
            lines.append(
                f"{mark} {index.name}: {size(index.bytes)} ({index.share:.1%}), {index.seconds:.1f} s, saves "
                f"{size(index.saved_bytes)} per query"
            )
        lines += [f"{column}" for column in self.columns]
        for option in self.options:
            lines += [f"option: {option}", f"  {option.command}"]
        return "\n".join([*lines, self.verdict])

    @property
    def verdict(self) -> str:
        """The command that adds the advised indexes, or that there is nothing to add."""
        if self.command is not None or not self.queries:
            return self.command or "nothing to add"
        return "no index helps" + ("; rewriting the files does, see the options" if self.options else "")


def _size(cost: QueryCost) -> str:
    return size(round(cost.bytes))
