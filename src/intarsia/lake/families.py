"""Families of files: footers are read, several at a time, and the files that can be joined are collected."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from intarsia.errors import FormatError, ObjectStoreError, QueryTimeoutError
from intarsia.file.joined import JoinedPart
from intarsia.file.schema import INDEX_KEYS
from intarsia.lake.snapshot import Snapshot
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
    snapshot: Snapshot,
    files: Sequence[int],
    at_once: int,
    *,
    makes_requests: bool = True,
    only_settled: bool = True,
) -> Generator[tuple[int, JoinedPart], None, None]:
    """Yield the footers of files, without damaged ones, whose errors are raised when they are opened.

    Args:
        snapshot: The run of the query.
        files: Ordinals of the files.
        at_once: Maximum number of footers that are read at the same time.
        makes_requests: Whether footers of objects are read, several at a time; else only those that are
            cached are yielded.
        only_settled: Whether to leave out files whose changes might not be detected. They must not be read as
            parts of a joined file, but their bounds can be used.

    Raises:
        ObjectStoreError: If a store is unreachable or refuses access.
        QueryTimeoutError: If the time limit of the query has passed.
    """
    read = partial(_read, snapshot, only_settled=only_settled)
    requests = snapshot.requested(files)
    found = _results(files, at_once, read, requests, makes_requests=makes_requests)
    with contextlib.closing(found) as results:
        for ordinal, result in results:
            try:
                part = result()
            except (ObjectStoreError, QueryTimeoutError):
                raise
            except (FormatError, OSError):  # opening the file raises it
                continue
            if part is not None:
                yield ordinal, part
            elif snapshot.files[ordinal].is_remote:  # its store has no ETags, so no object can be joined
                return


def _read(snapshot: Snapshot, ordinal: int, *, only_settled: bool) -> JoinedPart | None:
    """Return the footer of a file; None if the file cannot be joined."""
    entry = snapshot.files[ordinal]
    settled = snapshot.settled(entry)
    if settled is not None:
        return entry.joined_part(settled.metadata, settled.identity)
    if only_settled:
        return None
    with snapshot.open(entry) as file:
        _ = file.footer
        return entry.joined_part(file.metadata, file.source.identity)


def _results(
    files: Sequence[int],
    at_once: int,
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
    with contextlib.closing(ahead(read, files, at_once)) as results:
        for ordinal, future in results:
            yield ordinal, future.result
