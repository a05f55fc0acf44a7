"""The errors that Intarsia raises, and the one warning class it emits.

::

    IntarsiaError
    ├── FormatError (ValueError)        a problem at a location in a file: path, offset, struct
    │   ├── CorruptFileError            the bytes contradict the format
    │   └── UnsupportedFeatureError     the file is valid but uses an unsupported feature
    ├── IndexBuildError                 an index cannot be built as requested
    ├── IndexPayloadError               the bytes of an embedded index are damaged
    │   └── NewerDirectoryError         a later version of Intarsia wrote them
    ├── PredicateError (ValueError)     a predicate cannot be parsed or compared
    ├── ColumnNotFoundError (KeyError)  the schema has no such column; suggests similar names
    ├── WriteError (ValueError)         rows or a schema cannot be written as requested
    │   └── NotTabularError (TypeError) the data does not consist of rows and columns
    ├── ReplaceError (OSError)          a file could not be replaced; the old file is untouched
    │   └── ChangedMeanwhileError       the file changed after it was read
    ├── FilesFailedError                an action failed on some of many files; has the error of each
    ├── SourceError (TypeError)         the source of a table is neither a path nor a table
    ├── ListingError (OSError)          the files of a folder cannot be listed
    ├── ObjectStoreError (OSError)      an object store is unreachable, refuses access, or is unknown
    ├── QueryTimeoutError (TimeoutError)  a query did not end within its time limit
    ├── ReplacedWhileReadError (OSError)  the file changed after it was opened
    ├── JavaNotFoundError               intarsia.spark found no Java that can run Spark
    └── UsageError                      the command line is wrong; raised only by the command

    RunInterrupted (KeyboardInterrupt)  Ctrl-C in a run over many files; `report` has the files that are done
    IntarsiaWarning (UserWarning)       such as for an ignored index; the message describes the effect

`JavaNotFoundError` is defined in `intarsia.spark.sessions`, and `UsageError` in `intarsia.cli`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing_extensions import Self

#: Longer names are cut in messages; the attribute ``column`` of the error has the whole name.
_SHOWN_CHARACTERS: Final = 200


class IntarsiaError(Exception):
    """Base class of every error that Intarsia raises deliberately.

    Args:
        message: The problem, with the offending value; then the remedy, if there is one. `str` prepends the
            path, the struct and the offset.
        reason: A code in kebab case for programs and tests, such as ``"wrong-magic"``. The message may be
            reworded between versions; the code stays.
        path: The file, if the error concerns one.
        column: The dotted path of the column, if the error concerns one.
        offset: Byte offset in the file at which the struct starts, if known.
        struct: The Parquet name of the struct, such as ``"ColumnIndex"``.
    """

    def __init__(
        self,
        message: str = "",
        *,
        reason: str | None = None,
        path: str | None = None,
        column: str | None = None,
        offset: int | None = None,
        struct: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.path = path
        self.column = column
        self.offset = offset
        self.struct = struct

    def __str__(self) -> str:
        offset = None if self.offset is None else f"offset {self.offset}"
        place = ", ".join(filter(None, [self.struct, offset]))
        return ": ".join(filter(None, [self.path, place, self.message]))

    def at(
        self,
        path: str | None = None,
        *,
        column: str | None = None,
        offset: int | None = None,
        struct: str | None = None,
    ) -> Self:
        """Add the place to an error where it is known, and return the error.

        Args:
            path: The file, unless the error has one.
            column: The column; replaces that of the error.
            offset: The offset in the file, in bytes; replaces that of the error, which is relative.
            struct: The struct, unless the error has one.

        Example:
            >>> str(CorruptFileError("2 bytes follow", struct="PageHeader").at("a.parquet", offset=104))
            'a.parquet: PageHeader, offset 104: 2 bytes follow'
        """
        self.path = self.path or path
        self.column = column or self.column
        self.offset = self.offset if offset is None else offset
        self.struct = self.struct or struct
        return self


class FormatError(IntarsiaError, ValueError):
    """A problem with the bytes of a file."""


class CorruptFileError(FormatError):
    """The bytes contradict the Parquet format: truncated file, wrong magic, impossible lengths."""


class UnsupportedFeatureError(FormatError):
    """The file is valid but uses an unsupported feature; the message names the remedy."""


class IndexBuildError(IntarsiaError):
    """An index cannot be built on this file or column as requested."""


class IndexPayloadError(IntarsiaError):
    """The bytes of an embedded index are damaged, or their version is unknown."""


class NewerDirectoryError(IndexPayloadError):
    """The directory of embedded indexes was written by a later version of Intarsia."""


class PredicateError(IntarsiaError, ValueError):
    """A predicate that cannot be parsed, or a comparison that the column's type does not allow.

    Args:
        message: As in `IntarsiaError`.
        reason: As in `IntarsiaError`.
        path: As in `IntarsiaError`.
        column: As in `IntarsiaError`.
        near: The word of the SQL text that is wrong, if it cannot be parsed.
        position: The offset of that word in the text, in characters.
        line: The line of the file that has the text, from 1; `str` prepends it.
    """

    def __init__(
        self,
        message: str = "",
        *,
        reason: str | None = None,
        path: str | None = None,
        column: str | None = None,
        near: str | None = None,
        position: int | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message, reason=reason, path=path, column=column)
        self.near = near
        self.position = position
        self.line = line

    def __str__(self) -> str:
        return super().__str__() if self.line is None else f"{self.path}, line {self.line}: {self.message}"


class ColumnNotFoundError(IntarsiaError, KeyError):
    """The schema has no column of this name.

    Args:
        column: The name that was not found.
        known: The names in the schema; similar ones are suggested.
    """

    def __init__(self, column: str, known: Iterable[str]) -> None:
        super().__init__(column, reason="no-such-column", column=column)
        self.known = tuple(known)
        self.near = near_matches(column, self.known)

    def __reduce__(self) -> tuple[type[ColumnNotFoundError], tuple[str, tuple[str, ...]]]:
        return type(self), (self.column or "", self.known)

    def __str__(self) -> str:
        if self.near:
            hint = "did you mean " + " or ".join(repr(name) for name in self.near) + "?"
        else:
            shown = ", ".join(repr(name) for name in self.known[:8])
            hint = f"the columns are {shown}{', …' if len(self.known) > 8 else ''}"
        column = self.column or ""
        name = column if len(column) <= _SHOWN_CHARACTERS else f"{column[:_SHOWN_CHARACTERS]}…"
        problem = f"no column {name!r}" if name else "the name of a column is empty"
        return f"{problem}; {hint}"


class WriteError(IntarsiaError, ValueError):
    """Rows cannot be written as requested; no file was created, and an existing file is untouched."""


class NotTabularError(WriteError, TypeError):
    """The data to be written does not consist of rows and columns."""


class ReplaceError(IntarsiaError, OSError):
    """A file could not be replaced; the old file is complete and untouched."""


class ChangedMeanwhileError(ReplaceError):
    """The file was replaced or modified by another process after it was read."""


class ObjectStoreError(IntarsiaError, OSError):
    """An object store is unreachable, refuses access, or is unknown; the message names the remedy."""


class QueryTimeoutError(IntarsiaError, TimeoutError):
    """A query did not end within its time limit.

    Args:
        message: As in `IntarsiaError`.
        reason: As in `IntarsiaError`.
        path: The file or folder of the request that was not answered in time, or not made.
        seconds: The time limit of the query, in seconds.
        requests: The number of requests that were answered.
        files: The number of files and folders that were requested.
        num_bytes: The number of bytes that were read.
    """

    def __init__(
        self,
        message: str = "",
        *,
        reason: str | None = None,
        path: str | None = None,
        seconds: float = 0,
        requests: int = 0,
        files: int = 0,
        num_bytes: int = 0,
    ) -> None:
        super().__init__(message, reason=reason, path=path)
        self.seconds = seconds
        self.requests = requests
        self.files = files
        self.num_bytes = num_bytes


class SourceError(IntarsiaError, TypeError):
    """The source of a table is neither a path, a table nor a list of paths, but for example an open file."""


class ListingError(IntarsiaError, OSError):
    """The files of a folder cannot be listed, for example because of a loop of symbolic links.

    Or a lake index is not used, because users who are not trusted could have written it.
    """


class FilesFailedError(IntarsiaError):
    """An action failed on some files, and succeeded on the others.

    Args:
        errors: The error of each file that failed, by its path.
        report: The report of the action, with all files.
        message: As in `IntarsiaError`.
    """

    def __init__(self, errors: Mapping[str, Exception], report: Any, message: str = "") -> None:
        super().__init__(message, reason="files-failed")
        self.errors = dict(errors)
        self.report = report

    def __reduce__(self) -> tuple[type[FilesFailedError], tuple[dict[str, Exception], Any, str]]:
        return type(self), (self.errors, self.report, self.message)


class ReplacedWhileReadError(IntarsiaError, OSError):
    """The file was replaced or truncated while it was read; it is not necessarily damaged."""


class RunInterrupted(KeyboardInterrupt):
    """A run over many files was interrupted (Ctrl-C); the files that are done are complete.

    Like `KeyboardInterrupt`, it is not a subclass of `Exception`.

    Args:
        files_done: The number of files that are done.
        files_total: The number of files of the run.
        report: The report of the files that are done; its class is the one that the run returns.
    """

    def __init__(self, files_done: int, files_total: int, report: object = None) -> None:
        super().__init__(
            f"interrupted after {files_done:,} of {files_total:,} files; run it again to continue: "
            "files that are done are skipped"
        )
        self.files_done = files_done
        self.files_total = files_total
        self.report = report


class IntarsiaWarning(UserWarning):
    """A warning whose message describes the effect on results.

    If an index is ignored, results are correct, but less is skipped. If bad files are skipped on request,
    rows are missing. If a folder belongs to a Delta table, or a column was probably renamed, results may
    differ from those expected.
    """


def code_of(error: BaseException, default: str) -> str:
    """Return the stable code of an error, or a default if it has none.

    Example:
        >>> code_of(IntarsiaError("a", reason="b"), "c"), code_of(ValueError("a"), "c")
        ('b', 'c')
    """
    return (error.reason if isinstance(error, IntarsiaError) else None) or default


def near_matches(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to three of ``known`` that resemble ``name``, ignoring case.

    Example:
        >>> near_matches("Dest", ["dest", "origin"])
        ('dest',)
    """
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.6)
    return tuple(by_folded[folded] for folded in close)
