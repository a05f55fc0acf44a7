"""Recovery from a wrong page index, by repeating the work without it.

Counting the rows in pages reveals that a page index is wrong. Only this module handles that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from intarsia.file import ParquetInput

_Result = TypeVar("_Result")


class WrongPageIndexError(Exception):
    """The pages of a row group contradict its page index.

    Attributes:
        row_group: Ordinal of the row group.
    """

    def __init__(self, row_group: int, reason: str) -> None:
        super().__init__(reason)
        self.row_group = row_group


def retry_without_wrong_index(file: ParquetInput, work: Callable[[], _Result]) -> _Result:
    """Call a function, and call it again without the page index of a row group that is found to be wrong.

    Args:
        file: The file that is read.
        work: A function that plans and reads from the beginning.

    Raises:
        CorruptFileError: If the file is damaged.
    """
    while True:
        try:
            with file.named_errors():
                return work()
        except WrongPageIndexError as error:  # noqa: PERF203  (the loop is the retry)
            file.metadata.distrust_page_index(error.row_group, str(error))
