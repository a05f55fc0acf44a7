"""Totals of the reports of single files, which the reports on many files share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


class FileSizes(Protocol):
    """The report of one file."""

    @property
    def bytes_before(self) -> int:
        """Length of the file before."""

    @property
    def bytes_after(self) -> int:
        """Length of the file now."""


_File = TypeVar("_File", bound=FileSizes)


class FileTotals(Generic[_File]):
    """Totals of ``per_file``. Failed files are not in it, or count with equal lengths before and after."""

    per_file: tuple[_File, ...]

    @property
    def bytes_before(self) -> int:
        """Total length of the files before."""
        return sum(file.bytes_before for file in self.per_file)

    @property
    def bytes_after(self) -> int:
        """Total length of the files now."""
        return sum(file.bytes_after for file in self.per_file)


def distinct_names(names_of_files: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return each name of an index once, in order of first occurrence.

    Example:
        >>> distinct_names([["b", "a"], ["a", "c"]])
        ('b', 'a', 'c')
    """
    return tuple(dict.fromkeys(name for names in names_of_files for name in names))
