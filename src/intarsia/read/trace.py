"""Everything that one run of a query read and excluded, collected only if a page map may be drawn of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.file import ParquetInput
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import FileOutcome
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.storage.running_query import ReadRange

if TYPE_CHECKING:
    from intarsia.picture import PageMap


class TracedFile(NamedTuple):
    """A file whose footer was read, or several that are joined.

    Attributes:
        among: The files that count, if several are joined; None for all.
    """

    query: FileQuery
    outcome: FileOutcome
    among: Bools | None


@dataclass(frozen=True, eq=False)
class UnopenedFiles:
    """Files that one index excluded or answered without opening them.

    Attributes:
        column: The dotted path of the column.
        ordinals: The ordinals of the files in the table.
        are_answered: Whether their rows match, and were summarized from the index.
    """

    index: str
    column: str
    ordinals: npt.NDArray[np.int64]
    are_answered: bool = False


@dataclass
class QueryTrace:
    """What one run of a query read and excluded.

    Attributes:
        reads: The ranges of bytes, in the order in which they were read.
        draw: Draws the run, from the trace and the report.
        files: The files whose footers were read, in the order of the report.
        unopened: The other files that were excluded or answered.
        matches: The matching rows of each file, as far as they were read or proven to match.
        has_matches: Whether ``matches`` are all matching rows.
        num_rows: The number of rows that were returned; None for a query that returns none.
        aggregates: The values that were computed instead, by column and function; None for another query.
    """

    reads: list[ReadRange]
    draw: Callable[..., PageMap]
    files: list[TracedFile] = field(default_factory=list)
    unopened: list[UnopenedFiles] = field(default_factory=list)
    matches: list[tuple[ParquetInput, RowSelection]] = field(default_factory=list)
    has_matches: bool = False
    num_rows: int | None = None
    aggregates: Mapping[str, Mapping[str, Any]] | None = None

    def add_file(self, query: FileQuery, outcome: FileOutcome, among: Bools | None) -> None:
        """Add a file whose footer was read, or several that are joined."""
        self.files.append(TracedFile(query, outcome, among))

    def add_unopened(self, files: UnopenedFiles) -> None:
        """Add files that were excluded or answered without opening them."""
        self.unopened.append(files)

    def expect_rows(self, *, all_matches: bool) -> None:
        """Set that rows are returned, and whether all matching rows are added."""
        self.num_rows, self.has_matches = 0, all_matches

    def add_rows(self, num_rows: int) -> None:
        """Add rows that were returned."""
        self.num_rows = (self.num_rows or 0) + num_rows

    def add_matches(self, file: ParquetInput, rows: RowSelection) -> None:
        """Add matching rows of a file, or of several that are joined."""
        self.matches.append((file, rows))

    def add_aggregates(self, values: Mapping[str, Mapping[str, Any]]) -> None:
        """Set the values of an aggregate."""
        self.aggregates = values
