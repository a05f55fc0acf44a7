"""The result of `intarsia.advise`, and the costs and obstacles in it."""

from __future__ import annotations

import operator

from intarsia.amounts import count, size
from intarsia.embed.structures import Attachable
from intarsia.records import dataclass
from intarsia.rows.values import JsonObject


@dataclass(frozen=True)
class QueryCost(JsonObject):
    """The reads of a query, measured or estimated.

    Attributes:
        bytes: Bytes of data pages, dictionary pages, indexes and footers.
        pages: Number of data pages.
        row_groups: Number of row groups.
        rows: Number of rows that might match.
        files: Number of files whose data pages are read.
        footer_bytes: Those of the bytes that are footers.
        index_bytes: Those that are indexes, and dictionary pages that planning needs.
    """

    bytes: float = 0
    pages: float = 0
    row_groups: float = 0
    rows: float = 0
    files: float = 0
    footer_bytes: float = 0
    index_bytes: float = 0

    def __add__(self, other: QueryCost) -> QueryCost:
        return QueryCost(*map(operator.add, vars(self).values(), vars(other).values()))

    def scaled(self, factor: float) -> QueryCost:
        """Return the cost of this many times the data."""
        return QueryCost(*(value * factor for value in vars(self).values()))

    def to_dict(self) -> dict[str, int]:
        """Return the cost as a JSON object of integers."""
        return {
            name: round(getattr(self, name)) for name in ("bytes", "pages", "row_groups", "rows", "files")
        }


@dataclass(frozen=True)
class Obstacle(JsonObject):
    """A reason why rows cannot be skipped.

    Attributes:
        code: A stable code: ``"no-rows"``, ``"small-file"``, ``"all-rows"``, ``"already-skipped"``,
            ``"partition-column"``, ``"not-prunable"``, ``"most-rows-match"``, ``"one-page-per-row-group"``,
            ``"values-on-every-page"``, ``"common-text"``, ``"not-sorted"`` or
            ``"costs-more-than-it-saves"``.
        column: The dotted path of the column; None if it concerns the whole query.
        text: The reason in words, and the remedy.
    """

    code: str
    column: str | None
    text: str

    def __str__(self) -> str:
        return self.text


_SUGGESTIONS = {
    "no-rows": "there are no rows",
    "all-null": "all values are null: bounds exclude all rows, except for IS NULL",
    "constant": "one distinct value: bounds exclude all rows or none; indexes can skip only pages of nulls",
    "sorted": "sorted: PageIndex skips pages by their bounds",
    "clustered": "few distinct values, clustered: Distinct skips pages for any condition",
    "few-values": "few distinct values, not clustered: indexes skip pages only if the column is sorted",
    "unique": "nearly all values are distinct: RowMap or Bloom for lookups by = or IN",
    "scattered": "too many values for Distinct, not sorted: BloomGranule or Bloom for lookups by = or IN",
    "nested": "inside a list or a map: conditions cannot use it",
    "not-comparable": "its values cannot be compared",
}


@dataclass(frozen=True)
class ColumnShape(JsonObject):
    """The shape of a column in the sample.

    Attributes:
        column: The dotted path of the column.
        shape: A stable code: ``"sorted"``, ``"clustered"``, ``"few-values"``, ``"unique"``, ``"scattered"``,
            ``"constant"``, ``"all-null"``, ``"no-rows"``, ``"nested"`` or ``"not-comparable"``.
        rows: Number of rows in the sample.
        nulls: Number of nulls among them.
        distinct: Number of distinct values other than null among them.
    """

    JSON_KEYS = "column shape rows nulls distinct text"

    column: str
    shape: str
    rows: int = 0
    nulls: int = 0
    distinct: int = 0

    @property
    def text(self) -> str:
        """The meaning of the shape, and the index that may help."""
        return _SUGGESTIONS[self.shape]

    def __str__(self) -> str:
        return f"{self.column}: {self.text}"


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
class MeasuredIndex(JsonObject):
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

    JSON_KEYS = "name column purpose bytes share seconds saved_bytes is_advised"

    index: Attachable
    name: str
    column: str | None
    purpose: str
    bytes: int
    share: float
    seconds: float
    saved_bytes: int
    is_advised: bool


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
class QueryAdvice(JsonObject):
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
class Advice(JsonObject):
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

    JSON_KEYS = "command lake_index indexes=measured options queries columns not_built sample seconds"

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

    def _repr_html_(self) -> str:
        from intarsia.picture import Bar, draw_bars, in_notebook

        bars = []
        for query in self.queries:
            whole = max(query.total.bytes, 1)
            costs = {"now": query.now, "with the advice": query.advised, "least possible": query.least}
            bars += [
                Bar(
                    name,
                    cost.bytes / whole,
                    "read" if name == "now" else "proven",
                    f"{_size(cost)} of {query.where}",
                )
                for name, cost in costs.items()
            ]
        if not self.queries:
            bars = [Bar(one.name, one.share, "embedded", size(one.bytes)) for one in self.measured]
        return in_notebook(draw_bars(self.verdict, str(self.sample), bars))

    @property
    def verdict(self) -> str:
        """The command that adds the advised indexes, or that there is nothing to add."""
        if self.command is not None or not self.queries:
            return self.command or "nothing to add"
        return "no index helps" + ("; rewriting the files does, see the options" if self.options else "")


def _size(cost: QueryCost) -> str:
    return size(round(cost.bytes))
