"""Run an action on many files with a progress bar, and report files that fail on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from intarsia.cli.failures import say
from intarsia.cli.terminal import ShowDone, printable, progress, red
from intarsia.read.amounts import count

if TYPE_CHECKING:
    from intarsia.errors import RunInterrupted
    from intarsia.lake.discovery import FoundFiles
    from intarsia.lake.each_file import FileFailure, FileResults
    from intarsia.storage import StorageOptions

T = TypeVar("T")


def for_each(label: str, paths: Sequence[str], act: Callable[[str, ShowDone], T]) -> FileResults[T]:
    """Run an action on each file, with a progress bar.

    Args:
        label: Name of the action.
        paths: The files.
        act: Called with a file, and with a function to report the fraction done.
    """
    from intarsia.lake.each_file import for_each_file

    with progress(label, len(paths)) as show:
        return for_each_file(paths, act, show)


def until_interrupted(run: Callable[[], T]) -> tuple[T, RunInterrupted | None]:
    """Run over many files. After Ctrl-C, return the report of the files that are done, and the interruption.

    The caller shows the report, and then raises the interruption.
    """
    from intarsia.errors import RunInterrupted

    try:
        return run(), None
    except RunInterrupted as stop:
        return cast(T, stop.report), stop


def show_failures(failed: Iterable[FileFailure]) -> None:
    """Print one line on stderr for each file that failed."""
    for failure in failed:
        say(printable(f"{failure.path}: {failure.reason}"), red)


def find(paths: Sequence[str], storage_options: StorageOptions | None = None) -> FoundFiles:
    """Find the files of the arguments.

    Raises:
        FileNotFoundError: If there are none.
    """
    from intarsia.lake.discovery import find_files

    return find_files(list(paths), storage_options)


def is_one_file(paths: Sequence[str], listed: FoundFiles) -> bool:
    """Return whether the arguments are the path of one file, not of a folder or glob."""
    from intarsia.storage import local_path

    return len(paths) == 1 and listed.files[0].path == (local_path(paths[0]) or paths[0])


def others_ignored(others: int) -> str:
    """Return the end of a summary: the number of files in the folders that are not Parquet.

    Example:
        >>> others_ignored(2), others_ignored(0)
        ('; 2 other files ignored', '')
    """
    return f"; {count(others, 'other file')} ignored" if others else ""
