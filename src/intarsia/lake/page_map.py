"""The page map of a query: from the trace of one run to the facts that are drawn."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from intarsia.amounts import count
from intarsia.errors import ReplacedWhileReadError
from intarsia.file import ParquetInput
from intarsia.file.joined import JoinedInput
from intarsia.format.footer import TRAILER_BYTES, Leaf, footer_bytes_by
from intarsia.lake.discovery import LAKE_INDEX_FOLDER, SEGMENT_SUFFIX
from intarsia.lake.lanes import Lanes, TracedRows, joined_steps
from intarsia.lake.table_files import TableFiles
from intarsia.picture import PageMap
from intarsia.picture.facts import (
    ANSWERED,
    EXCLUDED,
    FILE_READ,
    NOT_OPENED,
    OPENED,
    READ_IN_VAIN,
    FilePages,
    FilePart,
    LakeFacts,
    Look,
    QueryFacts,
    State,
    Step,
    look_of,
    name_of,
)
from intarsia.predicate.literals import render_literal
from intarsia.read.file_plan import JoinedRows
from intarsia.read.pruner import PruneStep
from intarsia.read.report import Hints, ScanReport
from intarsia.read.trace import QueryTrace, TracedFile
from intarsia.rows.selection import RowSelection, union

#: The most files whose pages are drawn.
MAX_FILES = 12

#: The most columns of these files without the first one.
MAX_LANES = 200

#: The most files whose page indexes are read for the least possible number of bytes.
MAX_LEAST = 200

#: The most files of a lake whose names are in a picture, without those that were opened.
MAX_NAMES = 3_000


def page_map(
    table: TableFiles,
    where: str,
    columns: Sequence[str] | None,
    trace: QueryTrace,
    report: ScanReport,
) -> PageMap:
    """Return the page map of a query.

    Args:
        where: Its condition; empty for all rows.
        columns: The columns of its rows; None for all.

    Raises:
        ValueError: If the query was run, and returned neither rows nor aggregates.
        ReplacedWhileReadError: If a file was replaced since the query read it.
    """
    is_plan = report.bytes_planned is not None
    if trace.aggregates is not None:
        values = {
            f"{function}({name})": value
            for name, found in trace.aggregates.items()
            for function, value in found.items()
        }
        select = ", ".join(values)
        result = ", ".join(f"{name} = {_text(value)}" for name, value in values.items())
    elif trace.num_rows is not None or is_plan:
        select = "*" if columns is None else ", ".join(columns)
        result = f"{count(report.rows_candidate, 'row')} might match"
        result = result if trace.num_rows is None else count(trace.num_rows, "row")
    else:
        raise ValueError("only scans that returned rows or aggregates can be drawn; call map() of a scan")
    selects_values = trace.aggregates is None
    traced = _Traced(table, trace, selects_values=selects_values, is_plan=is_plan)
    shown = traced.shown()
    num_lanes = sum(map(traced.num_lanes, shown))
    drawn = [traced.drawn(ordinal, num_lanes) for ordinal in shown]
    least = None
    if selects_values and trace.has_matches and where and len(traced.opened) <= MAX_LEAST:
        others = (traced.drawn(ordinal, num_lanes) for ordinal in traced.opened[len(shown) :])
        sizes = [one.least_bytes for one in (*drawn, *others)]
        least = sum(one for one in sizes if one is not None)
    is_lake = len(table.files) > 1
    return PageMap(
        QueryFacts(
            title=os.path.basename((table.root or table.name).rstrip("/")) or table.name,
            where=where,
            select=select,
            result=result,
            report=report.to_dict(),
            num_bytes=int(table.file_bytes.sum()),
            is_plan=is_plan,
            num_read=report.bytes_read if report.bytes_planned is None else report.bytes_planned,
            num_requests=report.requests,
            least_bytes=least,
            columns_bytes=drawn[0].columns_bytes if drawn and not is_lake else None,
            advice=_advice(table, trace, report.files_opened) if selects_values else "",
            files=drawn,
            lake=traced.lake() if is_lake else None,
        )
    )


def _text(value: object) -> str:
    """Return the value of an aggregate as text; neither Python nor Arrow prints dates of all years."""
    if not isinstance(value, pa.Scalar):
        return str(value)
    if pa.types.is_date(value.type) or pa.types.is_timestamp(value.type):
        return render_literal(value).split("'")[1]  # as in SQL text: DATE '…' and TIMESTAMP '…'
    return str(value.cast(pa.string()))


def _advice(table: TableFiles, trace: QueryTrace, num_opened: int) -> str:
    """Return the most useful advice that follows from the plans; empty if there is none."""
    hints = Hints()
    for one in trace.files:
        outcome = one.outcome
        if one.among is None or outcome.counts.row_groups:  # the others were excluded together
            hints.add(one.query, outcome.plan)
    best = hints.best(num_opened, has_lake_index=table.lake_index.exists)
    return "" if best is None else best.text


class _Traced:
    """The files of a trace, by ordinal in the table."""

    def __init__(self, table: TableFiles, trace: QueryTrace, *, selects_values: bool, is_plan: bool) -> None:
        self._table = table
        self._trace = trace
        self._selects_values = selects_values
        self._is_plan = is_plan
        unneeded = State("unneeded", "not opened: the rows before it suffice")
        self._states = [
            State("read", "not planned: to read as a whole") if is_plan else unneeded,
            State("read", "to read" if is_plan else "read"),
            State("vain", "read, but no row matches"),
            State("proven", "only metadata was read"),
            State("proven", "answered by an index, not opened"),
        ]
        self._causes: dict[tuple[str, str], int] = {}
        self._state = np.full(len(table.files), NOT_OPENED, dtype=np.int64)
        self._reads: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._matches: dict[int, list[RowSelection]] = defaultdict(list)
        self._sources: dict[int, tuple[TracedFile, int]] = {}
        self._names = _short_names([file.path for file in table.files])
        for read in trace.reads:
            self._reads[read.path].append((read.start, read.stop))
        for input_, rows in trace.matches:
            self._matches[id(input_)].append(rows)
        for unopened in trace.unopened:
            if len(unopened.ordinals):
                is_cause = not unopened.are_answered
                state = self._cause(unopened.index, unopened.column) if is_cause else ANSWERED
                self._state[unopened.ordinals] = state
        for traced in trace.files:
            self._add(traced)
        #: The ordinals of files with rows that might match, those with matching rows first.
        self.opened = sorted(self._sources, key=lambda at: (self._state[at] == READ_IN_VAIN, at))

    def _cause(self, index: str, column: str) -> int:
        """Return the state of files that an index excluded."""
        if (index, column) not in self._causes:
            self._causes[index, column] = EXCLUDED + len(self._causes)
            self._states.append(State(look_of(index), f"excluded by {name_of(index, column)}"))
        return self._causes[index, column]

    def _add(self, traced: TracedFile) -> None:
        """Add the states of the files of a query of one file, or of several that are joined."""
        query, plan = traced.query, traced.outcome.plan
        edges = query.file.extent.row_edges
        among = np.ones(len(edges) - 1, dtype=bool) if traced.among is None else traced.among
        file = query.file
        parts = [part.metadata for part in file.joined.parts] if isinstance(file, JoinedInput) else [file]
        ordinals = np.array([self._table.ordinals[one.path] for one in parts])
        for step in plan.steps:
            gone = step.before.count_between(edges) > 0
            gone &= (step.after.count_between(edges) == 0) & among
            if gone.any():
                self._state[ordinals[gone]] = self._cause(step.index, query.shown(step.column))
        left = (plan.candidates.count_between(edges) > 0) & among
        counts = None
        if self._trace.has_matches:
            counts = union(self._matches[id(query.file)]).count_between(edges)
        for position in np.flatnonzero(left).tolist():
            is_vain = counts is not None and counts[position] == 0
            state = READ_IN_VAIN if is_vain else FILE_READ
            self._state[ordinals[position]] = state if traced.outcome.counts.row_groups else OPENED
            self._sources[int(ordinals[position])] = traced, position

    # --- one file ----------------------------------------------------------------------------------

    def num_lanes(self, ordinal: int) -> int:
        """Return the number of columns of the query in a file."""
        return len(self._sources[ordinal][0].query.leaves)

    def shown(self) -> list[int]:
        """Return the ordinals of the files whose pages are drawn."""
        found, num_lanes = self.opened[:1], 0
        for ordinal in self.opened[1:MAX_FILES]:
            num_lanes += self.num_lanes(ordinal)
            if num_lanes > MAX_LANES:
                break
            found.append(ordinal)
        return found

    def drawn(self, ordinal: int, num_lanes: int) -> FilePages:
        """Return the facts of a file.

        Args:
            num_lanes: The number of lanes of all files in the picture.
        """
        entry, (traced, position) = self._table.files[ordinal], self._sources[ordinal]
        query, plan = traced.query, traced.outcome.plan
        joined = query.file.joined if isinstance(query.file, JoinedInput) else None
        metadata = query.file.metadata if joined is None else joined.parts[position].metadata
        rows, matches = self._rows_of(ordinal), self._matching(ordinal)
        reads = np.array(self._reads[entry.path], dtype=np.int64).reshape(-1, 2)
        of_file = TracedRows(
            query=query,
            first_group=0 if joined is None else int(joined.group_edges[position]),
            candidates=rows.of(plan.candidates),
            certain=rows.of(plan.certain),
            steps=rows.steps(plan.steps),
            answered=rows.steps(traced.outcome.answered),
            matches=matches if query.predicate is not None else None,
            num_matches=None if matches is None else matches.num_rows,
            reads=None if self._is_plan else reads,
            selects_values=self._selects_values,
        )
        source = entry.open()
        with entry.input_of(source, metadata) as file, file.named_errors():
            if source.size() != metadata.footer.file_length:
                raise ReplacedWhileReadError(
                    "the file was replaced after the query; run it again", reason="file-replaced"
                )
            return file_facts(file, self._names[ordinal], of_file, num_lanes)

    def _matching(self, ordinal: int) -> RowSelection | None:
        if not self._trace.has_matches:
            return None
        return self._rows_of(ordinal).of(union(self._matches[id(self._sources[ordinal][0].query.file)]))

    def _rows_of(self, ordinal: int) -> JoinedRows:
        traced, position = self._sources[ordinal]
        return JoinedRows(*traced.query.file.extent.row_edges[position : position + 2].tolist())

    # --- all files ---------------------------------------------------------------------------------

    def lake(self) -> LakeFacts:
        """Return the state of each file."""
        lake_index = f"/{LAKE_INDEX_FOLDER}/"
        read = []
        for ordinal, file in enumerate(self._table.files):
            if file.path in self._reads:
                num_bytes = sum(stop - start for start, stop in self._reads[file.path])
                matches = self._matching(ordinal) if ordinal in self._sources else None
                read.append((ordinal, num_bytes, None if matches is None else matches.num_rows))
        kept = {ordinal for ordinal, _, _ in read[:MAX_NAMES]} | set(range(MAX_NAMES - len(read)))
        return LakeFacts(
            names=[name if ordinal in kept else None for ordinal, name in enumerate(self._names)],
            num_bytes=self._table.file_bytes.tolist(),
            state=self._state.tolist(),
            states=self._states,
            read=read,
            lake_index_bytes=sum(
                stop - start
                for path, ranges in self._reads.items()
                if path.endswith(SEGMENT_SUFFIX) or lake_index in path
                for start, stop in ranges
            ),
        )


def _short_names(paths: Sequence[str]) -> list[str]:
    """Return paths without their common folder.

    Example:
        >>> _short_names(["s3://b/lake/x=1/a", "s3://b/lake/x=2/b"]), _short_names(["f/a.parquet"])
        (['x=1/a', 'x=2/b'], ['a.parquet'])
    """
    start = os.path.commonprefix(paths).rfind("/") + 1  # noqa: RUF071  # os.path.commonpath takes no URLs
    return [path[start:] for path in paths]


# --- the facts of one file: its pages, its other parts, and how much was read -------------------------------

#: The most matching rows and ranges of rows that a picture shows one by one.
MAX_MARKS = 2_000


def file_facts(file: ParquetInput, name: str, traced: TracedRows, num_lanes: int) -> FilePages:
    """Return the facts of a file.

    Args:
        file: The open file, with the metadata that the query used.
        traced: What the query learnt about it.
        num_lanes: The number of lanes of all files in the picture.
    """
    pages = Lanes(file, traced, num_lanes)
    lanes = [pages.lane(leaf) for leaf in file.footer.leaves]
    reads = RowSelection.union_of(*pages.reads.T)
    directory = file.metadata.directory
    num_rows = file.footer.num_rows
    return FilePages(
        path=name,
        num_bytes=file.footer.file_length,
        num_rows=num_rows,
        writer=file.footer.created_by or "an unknown writer",
        edges=file.footer.row_group_starts.tolist(),
        states=pages.states,
        steps=[_step(one) for one in pages.steps],
        answered=[_step(one) for one in joined_steps(traced.answered)],
        candidates=traced.candidates.flat(MAX_MARKS),
        num_candidates=traced.candidates.num_rows,
        certain=traced.certain.flat(MAX_MARKS),
        num_certain=traced.certain.num_rows,
        matches=None if traced.matches is None else _some(traced.matches),
        num_matches=traced.num_matches,
        lanes=lanes,
        parts=file_parts(
            file, [leaf for leaf in file.footer.leaves if leaf.ordinal in pages.with_parts], reads
        ),
        reads=reads.flat(MAX_MARKS),
        num_read=reads.num_rows,
        num_requests=0 if traced.reads is None else len(traced.reads),
        original_bytes=None if directory is None else directory.original_length,
        least_bytes=pages.least_bytes,
        columns_bytes=sum(lane.num_bytes or 0 for lane in lanes if lane.role),
    )


def _step(step: PruneStep) -> Step:
    gone = step.before - step.after
    return Step(
        step.index,
        step.column,
        name_of(step.index),
        look_of(step.index),
        gone.num_rows,
        step.after.num_rows,
        gone.flat(MAX_MARKS),
    )


def _some(rows: RowSelection) -> list[int]:
    """Return some of the rows, evenly chosen if there are many."""
    numbers = np.linspace(0, rows.num_rows - 1, min(rows.num_rows, MAX_MARKS)).astype(np.int64)
    before = np.r_[0, np.cumsum(rows.stops - rows.starts)]
    ranges = np.searchsorted(before, numbers, side="right") - 1
    found: list[int] = (rows.starts[ranges] + numbers - before[ranges]).tolist() if len(numbers) else []
    return found


# --- the parts that are not data pages --------------------------------------------------------------


#: The most parts of a file that a picture shows one by one.
_MAX_PARTS = 500


def file_parts(file: ParquetInput, leaves: Sequence[Leaf], reads: RowSelection) -> list[FilePart]:
    """Return the parts of a file that are not data pages, and how much of each was read.

    Args:
        leaves: The columns whose page indexes and Bloom filters are included.
        reads: The bytes that were read.
    """
    found: list[tuple[int, int, Look, str]] = []
    for of_leaf in file.metadata.outlines(leaves):
        for begins, lengths, label in (
            (of_leaf.offset_indexes, of_leaf.offset_index_bytes, "OffsetIndexes"),
            (of_leaf.column_indexes, of_leaf.column_index_bytes, "ColumnIndexes"),
        ):
            has = (begins > 0) & (lengths > 0)
            for start, length in zip(begins[has].tolist(), lengths[has].tolist(), strict=True):
                found.append((start, start + length, "page_index", label))
    for leaf in leaves:
        for chunk in file.metadata.chunks_of(leaf):
            meta = chunk.meta_data
            if meta is not None and meta.bloom_filter_offset and meta.bloom_filter_length:
                start = meta.bloom_filter_offset
                found.append((start, start + meta.bloom_filter_length, "bloom", "Bloom filters"))
    end, directory = file.footer.file_length, file.metadata.directory
    found += [
        (entry.offset, entry.offset + entry.length, "embedded", entry.name)
        for entry in (() if directory is None else directory.entries)
        if entry.inline is None
    ]
    found.append((file.footer.start, end, "footer", "footer"))
    if directory is not None:
        stop = directory.original_length
        if num_bytes := footer_bytes_by(file.source.read(stop - TRAILER_BYTES, stop)):
            found.append((stop - num_bytes, stop, "footer", "footer of the original file"))
    gap, joined = 64, _joined_parts(found, 64)
    while len(joined) > _MAX_PARTS and gap < end:
        gap *= 8
        joined = _joined_parts(joined, gap)
    return [FilePart(*part, reads.clip(part[0], part[1]).num_rows) for part in joined]


def _joined_parts(parts: Sequence[tuple[int, int, Look, str]], gap: int) -> list[tuple[int, int, Look, str]]:
    """Return parts in order; neighbours of one kind with less than a number of bytes between them are one."""
    joined: list[tuple[int, int, Look, str]] = []
    for start, stop, look, label in sorted(parts):
        if joined and joined[-1][2:] == (look, label) and start - joined[-1][1] < gap:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]), look, label)
        else:
            joined.append((start, stop, look, label))
    return joined
