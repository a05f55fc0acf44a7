"""The errors that Intarsia raises, and the one warning class it emits.

::

    IntarsiaError
    ├── FormatError (ValueError)        a file, at a place: path, offset, struct
    │   ├── CorruptFileError            the bytes contradict the format
    │   └── UnsupportedFeatureError     the bytes are legal but not handled; names the remedy
    ├── IndexBuildError                 an index cannot be built as asked
    ├── IndexPayloadError               the bytes of an embedded index are damaged
    │   └── NewerDirectoryError         a later version of Intarsia wrote them
    ├── PredicateError (ValueError)     a predicate that cannot be understood or compared
    ├── ColumnNotFoundError (KeyError)  a column that the schema does not have, with near matches
    ├── WriteError (ValueError)         rows or a schema that cannot be written as asked
    │   └── NotTabularError (TypeError) what was given has no rows and columns
    ├── ReplaceError (OSError)          a file could not be replaced; the old one is untouched
    │   └── ChangedMeanwhileError       somebody else changed it since it was read
    ├── ObjectStoreError (OSError)      a store that cannot be reached, refuses, or is not known
    ├── ReplacedWhileReadError (OSError)  the file is no longer the one that was opened
    ├── JavaNotFoundError               intarsia.spark finds no Java that Spark can run on
    └── UsageError                      the command was called wrongly; nobody else sees it

    IntarsiaWarning (UserWarning)       an optional index was ignored; the rows are still right

The last two of the errors are defined where they are raised, in `intarsia.spark.java` and `intarsia.cli`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class IntarsiaError(Exception):
    """Root of every error that Intarsia raises on purpose.

    Args:
        message: What is wrong, with the value that is wrong; then the remedy, if there is one.
        reason: A code in kebab case for programs and tests, such as ``"wrong-magic"``. The message may be
            reworded between versions; the code stays.
        path: The file, if the error is about one.
        column: The dotted path of the column, if the error is about one.
    """

    def __init__(
        self,
        message: str = "",
        *,
        reason: str | None = None,
        path: str | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.path = path
        self.column = column


class FormatError(IntarsiaError, ValueError):
    """Something is wrong with the bytes of a file.

    Args:
        message: What is wrong, in one clear sentence, with the remedy if there is one.
        reason: As in `IntarsiaError`.
        path: The file; set by the layer that knows it.
        column: As in `IntarsiaError`.
        offset: Byte offset in the file at which the struct starts, if known.
        struct: The Parquet name of the struct, such as ``"ColumnIndex"``.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        path: str | None = None,
        column: str | None = None,
        offset: int | None = None,
        struct: str | None = None,
    ) -> None:
        super().__init__(message, reason=reason, path=path, column=column)
        self.offset = offset
        self.struct = struct

    def __str__(self) -> str:
        place = [self.path] if self.path else []
        if self.struct:
            place.append(self.struct)
        if self.offset is not None:
            place.append(f"offset {self.offset}")
        return f"{', '.join(place)}: {self.message}" if place else self.message


class CorruptFileError(FormatError):
    """The bytes contradict the Parquet format (truncated, wrong magic, impossible lengths)."""


class UnsupportedFeatureError(FormatError):
    """The file is legal but uses something that is not handled; the message names the remedy."""


class IndexBuildError(IntarsiaError):
    """An index cannot be built on this file or column as asked."""


class IndexPayloadError(IntarsiaError):
    """The stored bytes of an embedded index are damaged or of a version not known here."""


class NewerDirectoryError(IndexPayloadError):
    """The directory of embedded indexes was written by a later version of Intarsia."""


class PredicateError(IntarsiaError, ValueError):
    """A predicate that cannot be parsed, or a comparison that the column's type does not allow."""


class ColumnNotFoundError(IntarsiaError, KeyError):
    """A column that the schema does not have.

    Args:
        column: The name that was asked for.
        known: The names that exist, from which near matches are drawn.
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
        return f"no column {self.column!r}; {hint}"


class WriteError(IntarsiaError, ValueError):
    """Rows cannot be written as asked; no file was made, and one that was there is untouched."""


class NotTabularError(WriteError, TypeError):
    """What was given to be written has no rows and columns."""


class ReplaceError(IntarsiaError, OSError):
    """A file could not be replaced; the old one is whole and untouched."""


class ChangedMeanwhileError(ReplaceError):
    """The file is no longer the one that was read; somebody else replaced or changed it."""


class ObjectStoreError(IntarsiaError, OSError):
    """A store behind a URL cannot be reached, refuses, or is of no known kind; the remedy is named."""


class ReplacedWhileReadError(IntarsiaError, OSError):
    """The file was replaced or cut short while it was read; it need not be damaged."""


class IntarsiaWarning(UserWarning):
    """An optional index was ignored; results are right, only less was skipped."""


def near_matches(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Up to three of ``known`` that look like ``name``, ignoring case.

    Example:
        >>> near_matches("Dest", ["dest", "origin"])
        ('dest',)
    """
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.6)
    return tuple(by_folded[folded] for folded in close)
