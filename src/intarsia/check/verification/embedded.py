"""Check embedded indexes against the data: they must belong to it, be undamaged and exclude no matching row.

An index is queried for values in the data, and read as a scan reads it, independently of how it is built.
Then it is rebuilt and must be equal.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from intarsia.check.inspection import find_datafusion_index
from intarsia.check.verification.findings import Findings
from intarsia.check.verification.querying import OpenedEntry, check_columns
from intarsia.embed.column_data import FileColumns
from intarsia.errors import FormatError, IndexPayloadError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.blob import DATAFUSION_KEY
from intarsia.format.directory import Entry
from intarsia.indexes.base import Index, OpenIndex, checked_opened
from intarsia.indexes.embedded import EmbeddedIndexes, blob_range
from intarsia.indexes.layout import Layout
from intarsia.indexes.proof import call_index
from intarsia.indexes.registry import find_index
from intarsia.rows.selection import Rows
from intarsia.storage import ByteRange


def find_entries(file: ParquetInput, findings: Findings) -> tuple[Entry, ...]:
    """Return the entries of this file's directory; add findings for embedded indexes that are ignored."""
    found, datafusion = file.found_directory, find_datafusion_index(file)
    if found is not None:
        findings.count_checked("directories")
        if found.fault is not None:
            findings.add(f"directory-{found.fault}", found.reason or "", index="directory")
    if datafusion is not None and datafusion.reason is not None:
        findings.add("datafusion-index-missing", datafusion.reason, index=DATAFUSION_KEY.decode())
    return () if file.directory is None else file.directory.entries


class EntryCheck:
    """The check of one embedded index against the data, during a pass over the row groups.

    The index is queried and rebuilt while the pass has the pages in memory. The pages are read again only if
    the rebuilt index differs, to check whether the index excludes as many rows.
    """

    def __init__(self, file: ParquetInput, entry: Entry) -> None:
        self._file = file
        self._findings = Findings(file.path)
        self._asked = Findings(file.path)
        self._opened = _open(file, entry, self._findings)
        self._followers: list[Follower] = []
        if self._opened is None:
            return
        self._followers.append(Follower(partial(self._query, self._opened)))
        if entry.kind_version == self._opened.index.version:  # not written by an earlier version
            self._followers.append(Follower(partial(self._build, self._opened)))

    def follow(self, row_group: int) -> None:
        """Check the row group that the pass has reached."""
        for follower in self._followers:
            follower.follow(row_group)

    def finish(self, findings: Findings) -> None:
        """Add the findings, after the pass."""
        is_same = [follower.finish() for follower in self._followers]
        if self._opened is None or all(is_same) or not self._compare(self._opened):
            self._findings.add_all(self._asked)
        findings.add_all(self._findings)

    def abort(self) -> None:
        """Abort the check."""
        for follower in self._followers:
            follower.abort()

    def _query(self, opened: OpenedEntry, wait_for: WaitFor) -> bool:
        check_columns(self._file, opened, FileColumns(self._file, before_row_group=wait_for), self._asked)
        return True

    def _build(self, opened: OpenedEntry, wait_for: WaitFor) -> bool:
        """Return whether the rebuilt index is the same."""
        # a wrong OffsetIndex only changes the granules here; without one the pages would have to be walked
        columns = FileColumns(self._file, partial(_first_rows, self._file), wait_for)
        try:
            is_same = call_index(partial(_built, opened.index, columns)) == opened.payload
        except (IndexPayloadError, FormatError):
            return False
        if is_same:
            self._findings.count_checked("embedded_rebuilt")
        return is_same

    def _compare(self, opened: OpenedEntry) -> bool:
        """Rebuild an index from walked pages; if it still differs, query both and return True."""
        name, findings = opened.entry.name, self._findings
        columns = FileColumns(self._file)
        try:
            payload = call_index(partial(_built, opened.index, columns))
            if payload == opened.payload:
                findings.count_checked("embedded_rebuilt")
                return False
            rebuilt = call_index(partial(_opened, opened.index, payload, columns.layout))
        except (IndexPayloadError, FormatError) as error:
            findings.add("unchecked", f"it cannot be rebuilt: {error}", index=name)
            return False
        num_found = len(findings.found)
        kept_more = check_columns(self._file, replace(opened, rebuilt=rebuilt), columns, findings)
        if kept_more:
            message = f"it keeps rows that the rebuilt index excludes, for {kept_more} queries"
            findings.add("index-differs", message, index=name)
        elif len(findings.found) == num_found:
            message = f"its payload of {len(opened.payload)} bytes differs from that of the rebuilt index, "
            findings.add("index-not-reproduced", message + "but both exclude the same rows", index=name)
        return True


def check_alone(file: ParquetInput, entry: Entry, chunks: Collection[ChunkKey], findings: Findings) -> None:
    """Check that an index belongs to the file and can be opened, and query it for the rows of some chunks."""
    opened = _open(file, entry, findings)
    if opened is not None and opened.entry.columns and chunks:  # an index of whole rows is built from all
        check_columns(file, opened, FileColumns(file, chunks=chunks), findings)


def blob_of(file: ParquetInput, entry: Entry) -> ByteRange | None:
    """Return the location of an index; None if it is inline, or its location is invalid."""
    if entry.inline is not None or file.directory is None:
        return None
    try:
        return blob_range(file.directory, entry)
    except IndexPayloadError:  # reported when it is opened
        return None


def columns_of(file: ParquetInput, entries: Iterable[Entry]) -> set[int]:
    """Return the ordinals of the indexed leaves; all leaves if an index contains whole rows."""
    paths = [entry.columns for entry in entries]
    wanted = {path for columns in paths for path in columns}
    return {leaf.ordinal for leaf in file.footer.leaves if not all(paths) or leaf.path in wanted}


def _first_rows(file: ParquetInput, key: ChunkKey) -> Rows | None:
    """Return the first row of each page of a chunk, if its OffsetIndex is consistent."""
    file.load_page_index([key])
    locations = file.locations(key)
    return None if locations is None else locations.rows.starts


def _open(file: ParquetInput, entry: Entry, findings: Findings) -> OpenedEntry | None:
    lookup = find_index(entry)
    index, embedded = lookup.index, EmbeddedIndexes(file)
    if index is None:
        findings.add(f"index-{lookup.fault}", lookup.reason or "", index=entry.name)
        return None
    try:
        payload = embedded.read(entry)
        layout = Layout(file.footer.num_rows, file.footer.row_group_starts, {})
        ways: list[OpenIndex] = [call_index(partial(_opened, index, payload, layout))]
    except IndexPayloadError as error:  # scans ignore it, too
        findings.add("index-damaged", str(error), index=entry.name)
        return None
    if entry.inline is None and embedded.is_probed(entry):
        probed = embedded.open(entry)  # like a scan
        if probed is None:
            reasons = [note.reason for note in file.ignored if note.index == entry.name]
            findings.add("index-damaged", "; ".join(reasons), index=entry.name)
            return None
        ways.append(probed)
    findings.count_checked("embedded_indexes")
    return OpenedEntry(entry, index, payload, ways, file.footer.num_rows)


def _built(index: Index, columns: FileColumns) -> bytes:
    payload: object = index.build(columns)
    if not isinstance(payload, bytes):
        raise IndexPayloadError(
            f"it built {type(payload).__name__}; build() must return bytes", reason="invalid-payload"
        )
    return payload


def _opened(index: Index, payload: bytes, layout: Layout) -> OpenIndex:
    return checked_opened(index, index.open(payload, layout))


#: Called with the ordinal of a row group before it is read; returns when the pass has reached it.
WaitFor = Callable[[int], None]


class _AbortedError(BaseException):
    """The pass was aborted; a BaseException, because third-party code may catch every Exception."""


class Follower:
    """A function that follows a pass, in a thread that only runs while the pass waits for it.

    The function is passed a callback to call before it reads a row group.

    Example:
        >>> def work(wait_for):
        ...     for row_group in range(2):
        ...         wait_for(row_group)
        ...         print("work on", row_group)
        ...     return "done"
        >>> follower = Follower(work)
        >>> for row_group in range(2):
        ...     print("pass at", row_group)
        ...     follower.follow(row_group)
        pass at 0
        work on 0
        pass at 1
        work on 1
        >>> follower.finish()
        'done'
    """

    def __init__(self, work: Callable[[WaitFor], Any]) -> None:
        self._work = work
        self._reached = -1
        self._is_aborted = False
        self._outcome: Future[Any] = Future()
        self._resumed, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def follow(self, row_group: int) -> None:
        """Run the function until it needs a later row group or ends; raise its error."""
        self._reached = row_group
        if self._outcome.done():
            return
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._resumed.release()
        self._paused.acquire()
        if self._outcome.done():
            self._outcome.result()

    def finish(self) -> Any:
        """Run the function to its end after the pass, and return its result."""
        self.follow(sys.maxsize)
        return self._outcome.result()

    def abort(self) -> None:
        """Abort the function; does nothing if it has ended."""
        self._is_aborted = True
        if self._thread.ident is not None:
            self._resumed.release()
            self._thread.join()

    # --- in the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._outcome.set_result(self._work(self._wait_for))
        except BaseException as error:  # noqa: BLE001 - raised again in the pass, unless it was aborted
            self._outcome.set_exception(error)
        self._paused.release()

    def _wait_for(self, row_group: int) -> None:
        while row_group > self._reached:
            self._paused.release()
            self._resumed.acquire()
            if self._is_aborted:
                raise _AbortedError
