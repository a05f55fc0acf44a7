"""The facts that a page map shows: which pages of which columns were read, and what skipped the others.

Facts are plain values, so that the picture, the page and the tables show the same numbers. Ranges are flat
lists of starts and stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from intarsia.records import dataclass

#: The looks of states and parts. Those that are not read or proven are pale, and have their own hatching.
Look = Literal[
    "read",
    "vain",
    "proven",
    "unneeded",
    "statistics",
    "page_index",
    "bloom",
    "dictionary",
    "embedded",
    "partition",
    "footer",
    "data",
]

_NAMES = {
    "statistics": "statistics",
    "column_index": "page index",
    "offset_index": "page locations",
    "bloom_filter": "Bloom filter",
    "dictionary": "dictionary page",
    "deletes": "deleted rows",
    "partition": "partition value",
}

_LOOKS: dict[str, Look] = {
    "statistics": "statistics",
    "column_index": "page_index",
    "bloom_filter": "bloom",
    "dictionary": "dictionary",
    "partition": "partition",
}

#: The states of pages before those of "skipped by step k", which is `SKIPPED` + k.
READ, PROVEN, UNNEEDED, SKIPPED = range(4)

#: The states of files before those of "excluded by cause k", which is `EXCLUDED` + k.
NOT_OPENED, FILE_READ, READ_IN_VAIN, OPENED, ANSWERED, EXCLUDED = range(6)


def name_of(index: str, column: str = "") -> str:
    """Return the name of an index in a picture, with its column if its own name does not contain it.

    Example:
        >>> name_of("column_index"), name_of("column_index", "id"), name_of("zone_map(id):page", "id")
        ('page index', 'page index of id', 'zone_map(id):page')
    """
    name = _NAMES.get(index, index)
    return f"{name} of {column}" if column and index in _LOOKS else name


def look_of(index: str) -> Look:
    """Return the look of the pages and files that an index excluded."""
    return _LOOKS.get(index, "embedded")


@dataclass(frozen=True)
class State:
    """A state of pages or files: an entry of a legend."""

    look: Look
    text: str


@dataclass(frozen=True)
class Step:
    """The rows that one index excluded, or proved to match.

    Attributes:
        index: The name of the index, as in a report.
        column: The dotted path of the column.
        label: The name of the index in a picture.
        look: The look of the rows.
        num_rows: The number of these rows.
        num_left: The number of rows that might still match.
        rows: The rows as a flat list of starts and stops; close ranges are joined if there are many.
    """

    index: str
    column: str
    label: str
    look: Look
    num_rows: int
    num_left: int
    rows: Sequence[int]


@dataclass(frozen=True)
class Cells:
    """The pages of a lane. Each list has one value for each cell.

    A row group that one index excluded is a single cell, because its pages need not be located. If a lane has
    more pages than a picture can show, neighbours are one cell, in the state of the page that was read, if
    any.

    Attributes:
        start: The first row.
        state: The state; see `FilePages.states`.
        num_pages: The number of pages; None if it is unknown.
        offset: The offset in the file; None for several pages with other pages between them.
        num_bytes: The size in bytes, compressed.
        num_matches: The number of matching rows; None if it is unknown.
        low: The lower bound, as a value for people; None without one.
        high: The upper bound.
        num_nulls: The number of nulls; None if it is unknown.
    """

    start: Sequence[int]
    state: Sequence[int]
    num_pages: Sequence[int | None]
    offset: Sequence[int | None]
    num_bytes: Sequence[int]
    num_matches: Sequence[int] | None
    low: Sequence[Any]
    high: Sequence[Any]
    num_nulls: Sequence[int | None]


@dataclass(frozen=True)
class IndexFacts:
    """An index of a column, with its size in bytes; None if it is a part of the footer."""

    name: str
    what: str
    num_bytes: int | None


@dataclass(frozen=True)
class Lane:
    """A leaf column of a file.

    Attributes:
        name: Its name in the table.
        type: Its logical or physical type.
        role: ``"where"`` if it is in the condition, else ``"result"``; ``""`` if the query does not use it.
        num_bytes: The size of its pages in bytes; None if the file has so many chunks that those of columns
            outside the query were not added up.
        codec: The codec of its first chunk.
        encodings: The encodings of its first chunk.
        indexes: The indexes that describe it.
        num_pages: The number of its data pages; None if it is unknown.
        cells: Its pages; None if the query does not use the column.
        by_state: The number of its pages in each state of `FilePages.states`.
    """

    name: str
    type: str
    role: Literal["where", "result", ""]
    num_bytes: int | None
    codec: str
    encodings: Sequence[str]
    indexes: Sequence[IndexFacts]
    num_pages: int | None
    cells: Cells | None
    by_state: Sequence[int]


@dataclass(frozen=True)
class FilePart:
    """A part of a file that is not data pages.

    Attributes:
        start: The offset of its first byte.
        stop: The offset after its last byte.
        look: Its look.
        label: What it is.
        num_read: The number of its bytes that were read.
    """

    start: int
    stop: int
    look: Look
    label: str
    num_read: int


@dataclass(frozen=True)
class FilePages:
    """One file of a query that was opened.

    Attributes:
        path: The path in the table.
        num_bytes: Its size in bytes.
        num_rows: Its number of rows.
        writer: Its writer, as its footer says.
        edges: The first row of each row group, and the number of rows.
        states: The states of pages.
        steps: The rows that each index excluded, in the order of use.
        answered: The rows that were summarized from an index instead of read.
        candidates: The rows that might match, as far as the indexes can prove, as a flat list of ranges.
        num_candidates: Their number.
        certain: The rows that are proven to match, as a flat list of ranges.
        num_certain: Their number.
        matches: Some matching rows, at most a few thousand; None if they are unknown.
        num_matches: The number of matching rows; None if it is unknown.
        lanes: Its leaf columns.
        parts: Its parts that are not data pages, by offset.
        reads: The bytes that were read, as a flat list of ranges.
        num_read: Their number.
        num_requests: The number of requests.
        original_bytes: The length of the original file; None if no indexes were attached.
        least_bytes: The size of the pages of the result with matching rows; None if it is unknown.
        columns_bytes: The size of the columns of the query.
    """

    path: str
    num_bytes: int
    num_rows: int
    writer: str
    edges: Sequence[int]
    states: Sequence[State]
    steps: Sequence[Step]
    answered: Sequence[Step]
    candidates: Sequence[int]
    num_candidates: int
    certain: Sequence[int]
    num_certain: int
    matches: Sequence[int] | None
    num_matches: int | None
    lanes: Sequence[Lane]
    parts: Sequence[FilePart]
    reads: Sequence[int]
    num_read: int
    num_requests: int
    original_bytes: int | None
    least_bytes: int | None
    columns_bytes: int


@dataclass(frozen=True)
class LakeFacts:
    """The files of a table with several files. Each list has one value for each file, in their order.

    Attributes:
        names: The paths of files below the common folder; shortened to None for most files of a large lake.
        num_bytes: The sizes in bytes.
        state: The states.
        states: The states of files.
        read: For files that were read: the ordinal, the number of bytes that were read, and the number of
            matching rows, or None if it is unknown.
        lake_index_bytes: The number of bytes of the lake index that were read.
    """

    names: Sequence[str | None]
    num_bytes: Sequence[int]
    state: Sequence[int]
    states: Sequence[State]
    read: Sequence[tuple[int, int, int | None]]
    lake_index_bytes: int


@dataclass(frozen=True)
class QueryFacts:
    """One query.

    Attributes:
        title: The name of the table.
        where: The condition; empty for all rows.
        select: The columns or the aggregates.
        result: The result in a few words.
        report: The report, as `ScanReport.to_dict` returns it.
        is_plan: Whether the query was planned and not run: what is read will be read at most.
        num_bytes: The size of all files in bytes.
        num_read: The number of bytes that were read; of a plan, without those that were read to plan.
        num_requests: The number of requests.
        least_bytes: The size of the pages of the result with matching rows; None if it is unknown.
        columns_bytes: The size of the columns of the query; None for several files.
        advice: The most useful advice; empty without one.
        files: Some of the files that were opened.
        lake: All files; None for a single one.
    """

    title: str
    where: str
    select: str
    result: str
    report: dict[str, Any]
    is_plan: bool
    num_bytes: int
    num_read: int
    num_requests: int
    least_bytes: int | None
    columns_bytes: int | None
    advice: str
    files: Sequence[FilePages]
    lake: LakeFacts | None

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as a JSON object; keys do not change, but more may be added."""
        return asdict(self)
