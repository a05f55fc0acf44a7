"""Plans the files of a table, several at a time: partition values first, then each file's indexes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from intarsia.file import ParquetInput
from intarsia.lake.ahead import ahead
from intarsia.lake.data_file import DataFile
from intarsia.read.file_plan import FilePlan, plan_file
from intarsia.read.file_query import FileQuery


class Binder(Protocol):
    """Puts one question to each file."""

    def excluding_column(self, entry: DataFile) -> str | None:
        """The partition columns by which a file has no row that matches; None if they do not exclude it."""
        ...

    def query(self, entry: DataFile, file: ParquetInput) -> FileQuery:
        """The question to one open file, in its own types."""
        ...


@dataclass(frozen=True)
class OpenPlan:
    """A file that was opened and planned; whoever takes it closes the file.

    Attributes:
        query: What is asked of it.
        plan: What its indexes say.
    """

    query: FileQuery
    plan: FilePlan


@dataclass(frozen=True)
class Excluded:
    """A file that was not even opened.

    Attributes:
        column: The partition columns that exclude it.
    """

    column: str


def plan_files(
    files: Sequence[DataFile],
    binder: Binder,
    open_file: Callable[[DataFile], ParquetInput],
    at_once: int,
) -> Generator[tuple[DataFile, Future[OpenPlan | Excluded]], None, None]:
    """Plan files side by side, a little ahead of whoever reads them.

    Args:
        files: The files.
        binder: What is asked of each.
        open_file: Opens one.
        at_once: How many are planned at once, or wait to be read.

    Yields:
        Each file in order, and its plan or what went wrong.
    """

    def plan(entry: DataFile) -> OpenPlan | Excluded:
        column = binder.excluding_column(entry)
        if column is not None:
            return Excluded(column)
        file = open_file(entry)
        try:
            with file.named_errors():
                query = binder.query(entry, file)
                return OpenPlan(query, plan_file(query))
        except BaseException:
            file.close()
            raise

    def discard(planned: OpenPlan | Excluded) -> None:
        if isinstance(planned, OpenPlan):
            planned.query.close()

    return ahead(plan, files, at_once, discard)
