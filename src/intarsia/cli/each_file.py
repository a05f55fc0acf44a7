"""One thing done to many files: a bad one is told of, and the others are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from intarsia.cli.failures import exit_code, one_line, say
from intarsia.cli.terminal import ShowDone, count, progress, red

T = TypeVar("T")


@dataclass
class Results(Generic[T]):
    """What was done.

    Attributes:
        done: What came out for each file that went well.
        failed: The others, and why.
    """

    done: list[T] = field(default_factory=list)
    failed: list[tuple[str, Exception]] = field(default_factory=list)

    @property
    def files(self) -> int:
        """How many files there were."""
        return len(self.done) + len(self.failed)

    @property
    def exit_code(self) -> int:
        """1 if a file failed."""
        return 1 if self.failed else 0

    def failures(self) -> list[dict[str, str]]:
        """The files that failed, as JSON has them."""
        return [{"path": path, "error": _reason(path, error)} for path, error in self.failed]

    def tell_failures(self) -> None:
        """One line on stderr for each file that failed."""
        for path, error in self.failed:
            say(f"{path}: {_reason(path, error)}", red)


def for_each(label: str, paths: Sequence[str], act: Callable[[str, ShowDone], T]) -> Results[T]:
    """Do something to each file, with a progress bar.

    Args:
        label: What is being done.
        paths: The files.
        act: Takes a file, and a function to which it says what part of it is done.
    """
    outcome: Results[T] = Results()
    with progress(label, len(paths)) as show:
        for place, path in enumerate(paths):
            show(place)
            try:
                outcome.done.append(act(path, lambda part, place=place: show(place + part)))  # type: ignore[misc]
            except Exception as error:
                if exit_code(error) is None:
                    raise
                outcome.failed.append((path, error))
    return outcome


def find_paths(paths: Sequence[str]) -> tuple[list[str], int]:
    """The files that are meant, each once, and the number of other files beside them, which are left alone.

    Raises:
        FileNotFoundError: If nothing is there.
    """
    from intarsia.lake.discovery import find_files

    found = find_files(list(paths))
    return list(dict.fromkeys(file.path for file in found.files)), len(found.others)


def left_alone(others: int) -> str:
    """The end of a summary: the number of files in the folders that are not Parquet.

    Example:
        >>> left_alone(2), left_alone(0)
        ('; 2 other files left alone', '')
    """
    return f"; {count(others, 'other file')} left alone" if others else ""


def _reason(path: str, error: Exception) -> str:
    """Why, without the path, which stands beside it."""
    text = one_line(error)
    return text.removeprefix(path).lstrip(":, ") or text
