"""The planner of a table: which files are opened, and which of their rows might match.

Before footers are read, a file is a granule of one row: partition values, the log of a table format and a
lake index exclude files. The others are laid end to end by schema and writer, several at a time, and the same
pruner excludes their row groups, pages and rows. Scans, aggregates, first rows, splits and Spark share this.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from intarsia.arrow.owned_rows import places_in, take_values
from intarsia.errors import FormatError, ObjectStoreError, PredicateError
from intarsia.file import Ignored
from intarsia.file.joined import JoinedInput
from intarsia.garbage import no_collections
from intarsia.lake.axes import AxisPlan, Members, axes, read_footers
from intarsia.lake.index.of_table import FamilyFiles, KnownFiles
from intarsia.lake.index.proofs import FamilyProofs, answer_files
from intarsia.lake.planning import PlannedPart, TableQuery
from intarsia.lake.snapshot import Snapshot
from intarsia.lake.table_files import TableFiles
from intarsia.read.file_plan import plan_file
from intarsia.read.file_rows import FileOutcome
from intarsia.read.pruner import PruneStep, compares, over_files
from intarsia.read.report import ScanReport
from intarsia.read.totals import Totals
from intarsia.rows.bounds import Bools
from intarsia.storage import reading_indexes
from intarsia.tuning import KEPT_DICTIONARY_BYTES

#: A damaged file is left out of an axis, and the others are tried again, at most this many times.
_MAX_TRIES = 4


class Planner:
    """Plans one query of a table.

    Args:
        report: The report, to which excluded files are added.
        snapshot: The run of the query; None for a run of this planner.
    """

    def __init__(
        self,
        table: TableFiles,
        query: TableQuery,
        report: ScanReport,
        snapshot: Snapshot | None = None,
    ) -> None:
        self._table = table
        self._query = query
        self._report = report
        self._snapshot = snapshot or table.new_snapshot()
        self._known: KnownFiles | None = None

    # --- before footers are read -------------------------------------------------------------------

    def survivors(self, totals: Totals | None = None, among: Bools | None = None) -> list[int]:
        """Exclude files by partition values, the log of a table format, and the lake index.

        Args:
            totals: Aggregates, to which files are added for which the lake index answers all of them; None if
                rows are needed.
            among: The files that matter, one boolean per file; None for all.

        Returns:
            The ordinals of the files to open, ascending.
        """
        table, report = self._table, self._report
        keep = np.ones(len(table.files), dtype=bool) if among is None else among.copy()
        for step in self._query.exclude_unopened(keep):
            keep &= ~self._add_unopened(step)
        if self._query.predicate is not None or totals is not None:
            known = self._known = self._snapshot.known
            faults = [*table.lake_index.ignored]
            for files in known.families if known is not None else ():
                relevant = keep[files.files]
                if relevant.any():
                    with reading_indexes():
                        found, ignored = self._family(files, relevant, totals)
                    faults += ignored
                    keep[files.files] &= found
            report.add_ignored(dict.fromkeys(faults))
        left: list[int] = keep.nonzero()[0].tolist()
        return left

    def _add_unopened(self, step: PruneStep) -> Bools:
        """Add files that were excluded without opening them to the report, and return them."""
        table = self._table
        gone = (step.before - step.after).to_mask(len(table.files))
        log = table.log_statistics
        is_logged = log is not None and step.index == log.source
        self._report.add_unopened(
            [(step.index, step.column)],
            files=np.flatnonzero(gone),
            rows=int(np.maximum(log.num_rows[gone], 0).sum()) if log is not None and is_logged else 0,
            num_bytes=int(table.file_bytes[gone].sum()),
        )
        return gone

    def _family(
        self, files: FamilyFiles, relevant: Bools, totals: Totals | None
    ) -> tuple[Bools, Sequence[Ignored]]:
        """Return which files of a family to open, and what was ignored."""
        table, report, family = self._table, self._report, files.family
        path = table.files[int(files.files[0])].path
        try:
            predicate, constants = self._query.bind_family(family.schema, path, files.files)
        except (PredicateError, FormatError):  # opening the files raises it
            return np.ones(len(relevant), dtype=bool), ()
        # arrays over all files of the family, in which those of the table are relevant
        num_files = len(family.positions)
        mask = np.zeros(num_files, dtype=bool)
        mask[files.within] = relevant
        sizes = np.zeros(num_files, dtype=np.int64)
        sizes[files.within] = table.file_bytes[files.files]
        proofs = FamilyProofs(family)
        possible = certain = mask
        steps: Sequence[PruneStep] = ()
        if predicate is not None:
            places = places_in(files.within, num_files)  # null for files that the table lacks
            spread = {name: take_values(values, places) for name, values in constants.items()}
            pruner = over_files(predicate, sizes, mask, spread, partial(compares, family.schema))
            pruner.use(proofs.bounds)
            pruner.use_all(proofs.gathered(pruner.paths))
            possible, certain = (rows.to_mask(num_files) for rows in (pruner.candidates, pruner.certain))
            steps = pruner.steps
        names = table.names_in(family.schema, path)
        num_groups = files.segment.num_row_groups[family.positions]

        def add(sources: Iterable[tuple[str, str]], these: Bools, *, are_answered: bool = False) -> None:
            report.add_unopened(
                [(index, column if names is None else names.shown(column)) for index, column in sources],
                files=files.files[these[files.within]],
                row_groups=int(num_groups[these].sum()),
                rows=int(family.num_rows[these].sum()),
                num_bytes=int(sizes[these].sum()),
                are_answered=are_answered,
            )

        for step in steps:
            add([(step.index, step.column)], (step.before - step.after).to_mask(num_files))
        if totals is not None:
            certain = certain.copy()
            certain[files.within[table.has_deletes[files.files]]] = False
            answers = answer_files(family, certain, totals.questions, frozenset(constants), names)
            if answers is not None:
                totals.add_summaries(answers.summaries)
                add(answers.sources, answers.files, are_answered=True)
                possible = possible & ~answers.files
        return possible[files.within], proofs.faults

    # --- with footers ------------------------------------------------------------------------------

    def planned(
        self, files: Sequence[int], *, reads: bool = True
    ) -> tuple[Sequence[int], Mapping[str, PlannedPart]]:
        """Exclude files by their footers and indexes, and plan most of the others.

        Args:
            files: Ordinals of the files, ascending.
            reads: Whether indexes are read; else only the footers are used.

        Returns:
            The files that are left, and the plans of most of them, by path. Damaged files are left, and
            opening them raises their errors.
        """
        if len(files) < 2 or (self._query.predicate is None and not reads):
            return files, {}
        joined = files
        if self._known is not None and self._table.has_objects:  # its Bloom filters would be requested again
            joined = np.flatnonzero(~self._known.is_known[list(files)]).tolist()
            joined = [files[position] for position in joined]
        left, plans, num_bytes = set(files), dict[str, PlannedPart](), 0
        for axis in self.axes(joined, reads=reads, makes_requests=reads):  # the first files may suffice
            left.difference_update(axis.ordinals[~axis.is_left].tolist())
            num_bytes += sum(map(len, axis.plan.dictionary_pages.values()))
            if num_bytes > KEPT_DICTIONARY_BYTES:  # the rest is read again
                axis = replace(axis, plan=replace(axis.plan, dictionary_pages={}))
            for position in np.flatnonzero(axis.is_planned).tolist() if reads else ():
                plans[axis.joined.parts[position].metadata.path] = PlannedPart(axis, position)
        return [ordinal for ordinal in files if ordinal in left], plans

    def axes(self, files: Sequence[int], *, reads: bool, makes_requests: bool) -> Iterator[AxisPlan]:
        """Plan files with the same columns as one file, and add those that are excluded to the report.

        Args:
            files: Ordinals of the files, ascending.
            reads: See `planned`.
            makes_requests: See `read_footers`.

        Yields:
            The plans. Files that are in none of them have not been planned.
        """
        if len(files) < 2:
            return
        footers = read_footers(
            self._snapshot, files, self._table.footers_at_once, makes_requests=makes_requests
        )
        with contextlib.suppress(ObjectStoreError), contextlib.closing(footers):  # raised when they are read
            for members in axes(footers):
                yield from self._axis(members, reads=reads)

    def _axis(self, members: Members, *, reads: bool) -> Iterator[AxisPlan]:
        """Plan an axis, without the files that have no rows, are damaged or were replaced.

        Args:
            members: The files.
            reads: See `planned`.
        """
        cache = self._table.cache
        members = {ordinal: one for ordinal, one in members.items() if one.metadata.footer.num_rows}
        for _ in range(_MAX_TRIES):
            if len(members) < 2:
                return
            file: JoinedInput | None = None
            try:
                file = JoinedInput(cache.join(list(members.values())))
                ends = {
                    position: cache.tail_of(one.metadata.path, one.identity)
                    for position, one in enumerate(members.values())
                    if one.is_remote
                }
                file.keep_known({position: tail for position, tail in ends.items() if tail is not None})
                planned = self._planned_axis(members, file, reads=reads)
            except (ObjectStoreError, TimeoutError):
                raise
            except (FormatError, OSError) as error:
                path = getattr(error, "path", None) or getattr(error, "filename", None)
                lost = frozenset[int]() if file is None else file.lost_parts
                rest = {
                    ordinal: one
                    for position, (ordinal, one) in enumerate(members.items())
                    if one.metadata.path != path and position not in lost
                }
                if len(rest) == len(members):
                    return
                # they may have been replaced: their identities are not used when they are opened
                self._snapshot.forget(
                    one.metadata.path for ordinal, one in members.items() if ordinal not in rest
                )
                members = rest
            except PredicateError:  # opening the files raises it
                return
            else:
                if ends:
                    for one in itertools.compress(members.values(), ~planned.is_left):
                        cache.take_tail(one.metadata.path, one.identity)
                    left = np.flatnonzero(planned.is_left).tolist()
                    planned = replace(planned, query=replace(planned.query, file=file.again(left)))
                yield planned
                return

    def _planned_axis(self, members: Members, file: JoinedInput, *, reads: bool) -> AxisPlan:
        joined, first = file.joined, self._table.files[next(iter(members))]
        ordinals = np.fromiter(members, dtype=np.int64)
        predicate, constants = self._query.bind_family(joined.schema, first.path, ordinals)
        query = self._query.query(replace(first, deletes=None), file)
        query = replace(query, predicate=predicate, constants=constants)
        with contextlib.closing(query.embedded), no_collections():
            plan = plan_file(query, reads=reads)
        self._table.cache.measure(joined)
        is_left = joined.files_with(plan.candidates)
        self._report.add_index_bytes(file.source.counts.bytes)
        self._report.add_file(query, FileOutcome(replace(plan, index_bytes=0), rows_estimated=0.0), ~is_left)
        return AxisPlan(ordinals, query, plan, is_left)
