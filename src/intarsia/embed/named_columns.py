"""Check the columns of indexes against a lake before any file is indexed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from intarsia.errors import ColumnNotFoundError, FormatError, IndexBuildError, PredicateError
from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile
from intarsia.predicate.columns import find_column

if TYPE_CHECKING:
    from intarsia.embed.attach import Attachable
    from intarsia.predicate.nodes import ColumnName

#: Maximum number of footers to read in search of a column.
MAX_FILES_READ = 64


def check_named_columns(files: Sequence[DataFile], indexes: Iterable[Attachable]) -> None:
    """Check that each column of the indexes exists in some file.

    Some files may lack a column, because it was added to the table later. So the first file, the last one and
    files between them are read, at most `MAX_FILES_READ`, until each column is found. Unreadable files are
    skipped.

    Args:
        files: The files of the lake.
        indexes: The indexes to attach.

    Raises:
        ColumnNotFoundError: If none of the files that were read has a column.
        IndexBuildError: If the column is a partition column.
    """
    missing = dict.fromkeys(column for index in indexes for column in index.columns)
    first_errors: dict[ColumnName, ColumnNotFoundError] = {}
    for file in _spread(files) if missing else ():
        try:
            with ParquetInput(file.open()) as opened:
                schema = opened.arrow_schema
        except (FormatError, OSError):
            continue
        for column in list(missing):
            try:
                find_column(schema, column)
            except ColumnNotFoundError as error:
                first_errors.setdefault(column, error)
                continue
            except PredicateError:  # it exists; each file decides whether it can be indexed
                pass
            del missing[column]
        if not missing:
            return
    for column in missing:
        if column in first_errors:
            found = first_errors[column]
            raise partition_error_of(files[0].path, found) or found


def partition_error_of(path: str, error: ColumnNotFoundError) -> IndexBuildError | None:
    """Return the error for a partition column, which files do not contain; None for other columns."""
    folders = path.split("/")[:-1] if "://" in path else os.path.abspath(path).split(os.sep)[:-1]
    if not error.column or not any(folder.startswith(f"{error.column}=") for folder in folders):
        return None
    return IndexBuildError(
        f"{path}: column {error.column!r} is a partition column, which needs no index: scans skip files "
        "by the names of their folders; omit the index",
        reason="partition-column",
        path=path,
        column=error.column,
    )


def _spread(files: Sequence[DataFile]) -> Iterator[DataFile]:
    """Yield the first file, the last one, then files spread evenly between them."""
    count = min(len(files), MAX_FILES_READ)
    ordinals = [round(position * (len(files) - 1) / max(1, count - 1)) for position in range(count)]
    for ordinal in dict.fromkeys([*ordinals[:1], *ordinals[-1:], *ordinals]):
        yield files[ordinal]
