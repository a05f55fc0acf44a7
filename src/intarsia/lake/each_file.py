"""Run an action on many files; bad files are reported, and the rest are still processed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from intarsia.errors import IntarsiaError, RunInterrupted

_Result = TypeVar("_Result")

#: Errors of one file. All others are defects and end the run.
FILE_ERRORS = (IntarsiaError, OSError, pa.ArrowException)

#: Called with the number of files done; the current file counts as a fraction.
ShowDone = Callable[[float], None]


@dataclass(frozen=True)
class FileFailure:
    """A file on which an action failed.

    Attributes:
        path: The file.
        error: The error.
    """

    path: str
    error: Exception

    @property
    def reason(self) -> str:
        """The message of the error in one line, without a leading path."""
        error = self.error
        if isinstance(error, OSError) and error.strerror and error.filename is not None:
            return f"{error.strerror[:1].lower()}{error.strerror[1:]}"
        text = " ".join(str(error).split())
        return text.removeprefix(f"{self.path}: ") or text or type(error).__name__

    @property
    def code(self) -> str:
        """A stable code: the error's ``reason``, or the name of its class if it has none."""
        return getattr(self.error, "reason", None) or type(self.error).__name__

    def to_dict(self) -> dict[str, str]:
        """Return the failure as a JSON object."""
        return {"path": self.path, "error": self.reason, "code": self.code}


@dataclass(frozen=True)
class FileResults(Generic[_Result]):
    """The results of an action on many files.

    Attributes:
        done: The result of each file on which it succeeded.
        failed: The other files.
    """

    done: list[_Result]
    failed: list[FileFailure]

    @property
    def num_files(self) -> int:
        """The number of files."""
        return len(self.done) + len(self.failed)


def for_each_file(
    paths: Sequence[str], act: Callable[[str, ShowDone], _Result], show: ShowDone
) -> FileResults[_Result]:
    """Run an action on each file.

    Args:
        paths: The files.
        act: The action. It takes a path, and a function that it may call with the fraction that is done.
        show: Called with the number of files that are done, between 0 and the number of files.

    Raises:
        RunInterrupted: At Ctrl-C; its ``report`` is the `FileResults` of the files that are done.
    """
    done: list[_Result] = []
    failed: list[FileFailure] = []
    try:
        for ordinal, path in enumerate(paths):
            show(ordinal)
            try:
                done.append(act(path, lambda part, ordinal=ordinal: show(ordinal + part)))  # type: ignore[misc]
            except FILE_ERRORS as error:
                failed.append(FileFailure(path, error))
        show(len(paths))
    except KeyboardInterrupt as stop:
        results = FileResults(done, failed)
        raise RunInterrupted(results.num_files, len(paths), results) from stop
    return FileResults(done, failed)
