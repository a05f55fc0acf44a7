"""Families of files: footers are read, several at a time, and the files that can be joined are collected."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from intarsia.errors import FormatError, ObjectStoreError, QueryTimeoutError
from intarsia.file.joined import JoinedPart
from intarsia.file.schema import INDEX_KEYS
from intarsia.lake.table_files import TableFiles
from intarsia.read.ahead import ahead

#: The maximum number of files to join, and of bytes of their metadata in memory.
MAX_FILES = 1_024
MAX_BYTES = 64 << 20

#: Files that can be joined, by ordinal in the table.
Family: TypeAlias = "dict[int, JoinedPart]"


def families(parts: Iterable[tuple[int, JoinedPart]]) -> Iterator[Family]:
    """Collect files that can be joined, a limited number of files at a time.

    Args:
        parts: The files, by ordinal.
    """
    found: dict[Hashable, Family] = {}
    num_files = num_bytes = 0
    for ordinal, part in parts:
        found.setdefault(_family_of(part), {})[ordinal] = part
        num_files, num_bytes = num_files + 1, num_bytes + part.metadata.memory_bytes
        if num_files >= MAX_FILES or num_bytes >= MAX_BYTES:
            yield from found.values()
            found, num_files, num_bytes = {}, 0, 0
    yield from found.values()


def _family_of(part: JoinedPart) -> Hashable:
    """Return a key that is equal for files that can be joined."""
    metadata = part.metadata
    struct, keys = metadata.footer.metadata, metadata.footer.key_values
    orders = None if struct.column_orders is None else tuple(struct.column_orders)
    has_indexes = any(key in keys for key in INDEX_KEYS)
    return part.is_remote, metadata.schema, struct.created_by, orders, has_indexes


def read_footers(
    table: TableFiles,
    files: Sequence[int],
    *,
    makes_requests: bool = True,
    only_settled: bool = True,
    is_current: bool = False,
) -> Generator[tuple[int, JoinedPart], None, None]:
    """Yield the footers of files, without damaged ones, whose errors are raised when they are opened.

    Args:
        table: The table.
        files: Ordinals of the files.
        makes_requests: Whether footers of objects are read, several at a time; else only those that are
            cached are yielded.
        only_settled: Whether to leave out files whose changes might not be detected. They must not be read as
            parts of a joined file, but their bounds can be used.
        is_current: The table's metadata was read in the same run.

    Raises:
        ObjectStoreError: If a store is unreachable or refuses access.
        QueryTimeoutError: If the time limit of the query has passed.
    """
    read = partial(_read, table, only_settled=only_settled, is_current=is_current)
    requests = table.settling_requests(files, is_current=is_current)
    with contextlib.closing(_results(table, files, read, requests, makes_requests=makes_requests)) as results:
        for ordinal, result in results:
            try:
                found = result()
            except (ObjectStoreError, QueryTimeoutError):
                raise
            except (FormatError, OSError):  # opening the file raises it
                continue
            if found is not None:
                yield ordinal, found
            elif table.files[ordinal].is_remote:  # its store has no ETags, so no object can be joined
                return


def _read(table: TableFiles, ordinal: int, *, only_settled: bool, is_current: bool) -> JoinedPart | None:
    """Return the footer of a file; None if the file cannot be joined."""
    entry = table.files[ordinal]
    settled = table.settled_metadata(entry, is_current=is_current)
    if settled is not None:
        return entry.joined_part(settled.metadata, settled.identity)
    if only_settled:
        return None
    with table.open_file(entry, is_current=is_current) as file:
        _ = file.footer
        return entry.joined_part(file.metadata, file.source.identity)


def _results(
    table: TableFiles,
    files: Sequence[int],
    read: Callable[[int], JoinedPart | None],
    requests: set[int],
    *,
    makes_requests: bool,
) -> Generator[tuple[int, Callable[[], JoinedPart | None]], None, None]:
    """Yield functions that return the footers of files; those of objects are read concurrently."""
    if not requests or not makes_requests:
        for ordinal in files:
            if ordinal not in requests:
                yield ordinal, partial(read, ordinal)
        return
    with contextlib.closing(ahead(read, files, table.files_at_once)) as results:
        for ordinal, future in results:
            yield ordinal, future.result
