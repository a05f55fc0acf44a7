"""Recovery from a wrong page index: it is no longer used, and the work is done again.

The only place that does so.  That an index is wrong shows when the rows of its pages are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from intarsia.file import ParquetInput

_Result = TypeVar("_Result")


class WrongPageIndexError(Exception):
    """The pages of a row group do not hold the rows that its page index says.

    Attributes:
        row_group: Ordinal of the row group.
    """

    def __init__(self, row_group: int, reason: str) -> None:
        super().__init__(reason)
        self.row_group = row_group


def retry_without_wrong_index(file: ParquetInput, work: Callable[[], _Result]) -> _Result:
    """Do some work, and do it again without the page index of a row group that proves wrong.

    Args:
        file: The file that is read.
        work: Plans and reads from the start, whenever it is called.

    Raises:
        CorruptFileError: If the file is damaged where it has to be read.
    """
    while True:
        try:
            with file.named_errors():
                return work()
        except WrongPageIndexError as error:  # noqa: PERF203  there is nothing to hoist
            file.metadata.distrust_page_index(error.row_group, str(error))
