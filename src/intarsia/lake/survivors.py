"""The files of a table to open: those that neither partition values nor a lake index exclude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.selecting import take_values
from intarsia.errors import FormatError, PredicateError
from intarsia.file import Ignored
from intarsia.file.schema import FileSchema
from intarsia.lake.axes import AxisBinder, exclude_joined
from intarsia.lake.index.answers import FileAnswers, answer_files
from intarsia.lake.index.known_files import FamilyFiles
from intarsia.lake.index.prune import FamilyProofs
from intarsia.lake.planning import PlannedPart
from intarsia.lake.snapshot import Snapshot
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Bound, Path, Predicate
from intarsia.read.aggregate.result import Question
from intarsia.read.pruner import PruneStep, compares, over_files
from intarsia.read.report import ScanReport
from intarsia.rows.bounds import Bools
from intarsia.storage import reading_indexes

#: Files that a lake index contains are planned together if it leaves this many; the other indexes of their
#: columns have more to exclude. This does not apply to objects: Bloom filters that the lake index contains
#: would be requested again.
_MIN_JOINED = 32


class TableQuery(Protocol):
    """A query that can be bound to many files at once."""

    @property
    def predicate(self) -> Predicate | None:
        """The rows to select; None for all."""
        ...

    def exclude_unopened(self, relevant: Bools) -> Sequence[PruneStep]:
        """Return the files that are excluded by what is known without opening them; a file is one row.

        Args:
            relevant: The files that matter.
        """
        ...

    def bind_family(
        self, schema: FileSchema, path: str, files: npt.NDArray[np.int64]
    ) -> tuple[Bound | None, dict[Path, pa.Array]]:
        """Bind the query to files with the same columns; see `intarsia.lake.binding.TableBinder`."""
        ...


@dataclass(frozen=True, eq=False)
class Survivors:
    """The files to open, and the answers of a lake index for the others.

    Attributes:
        files: Ordinals of the files to open, ascending.
        answers: The answers for files that need not be opened although their rows match.
        known: The plans of files to open that were planned together, by path.
    """

    files: Sequence[int]
    answers: Sequence[FileAnswers] = field(default_factory=tuple)
    known: Mapping[str, PlannedPart] = field(default_factory=dict)


def find_survivors(
    table: TableFiles,
    binder: TableQuery,
    report: ScanReport,
    questions: Sequence[Question] | None = None,
    *,
    snapshot: Snapshot | None = None,
    among: Bools | None = None,
    joins: AxisBinder | None = None,
    reads: bool = True,
) -> Survivors:
    """Exclude files by partition values and by the lake index, and add them to a report.

    Args:
        table: The table.
        binder: The query.
        report: The report.
        questions: Aggregates to answer for files in which all rows match; None if rows are needed.
        snapshot: The run of the query; None for a run of this call.
        among: The files that matter, one boolean per file; None for all.
        joins: Binds the query to open files, to plan files together that the lake index does not contain;
            None not to.
        reads: Whether planning them reads Bloom filters and dictionary pages, too.
    """
    snapshot = snapshot or table.new_snapshot()
    keep = np.ones(len(table.files), dtype=bool) if among is None else among.copy()
    for step in binder.exclude_unopened(keep):
        gone = (step.before - step.after).to_mask(len(keep))
        keep &= ~gone
        statistics = table.log_statistics
        is_logged = statistics is not None and step.index == statistics.source
        report.add_excluded(
            step.index,
            step.column,
            files=int(gone.sum()),
            rows=int(np.maximum(statistics.num_rows[gone], 0).sum()) if statistics and is_logged else 0,
            num_bytes=int(table.file_bytes[gone].sum()),
        )
    if binder.predicate is None and questions is None:
        return Survivors(np.flatnonzero(keep).tolist())
    known = snapshot.known
    if known is None:
        report.add_ignored(table.lake_index.ignored)
        return _joined(table, report, keep, keep, [], joins, reads=reads, snapshot=snapshot)
    answers: list[FileAnswers] = []
    faults = [*table.lake_index.ignored]
    with reading_indexes():
        for files in known.families():
            relevant = keep[files.files]
            if relevant.any():
                found, answered, ignored = _family(table, binder, files, relevant, report, questions)
                faults += ignored
                keep[files.files] &= found
                if answered is not None:
                    answers.append(answered)
                    keep[files.files[np.isin(files.within, answered.files)]] = False
    report.add_ignored(dict.fromkeys(faults))
    unknown = keep & ~known.is_known
    return _joined(table, report, keep, unknown, answers, joins, reads=reads, snapshot=snapshot)


def _joined(
    table: TableFiles,
    report: ScanReport,
    keep: Bools,
    unknown: Bools,
    answers: Sequence[FileAnswers],
    joins: AxisBinder | None,
    *,
    reads: bool,
    snapshot: Snapshot,
) -> Survivors:
    """Plan the files together that no lake index contains, or all files if the lake index leaves many."""
    if np.count_nonzero(keep) >= _MIN_JOINED and not table.has_objects:
        unknown = keep
    if joins is None or not unknown.any():
        return Survivors(np.flatnonzero(keep).tolist(), answers)
    ordinals = np.flatnonzero(unknown).tolist()
    left, known = exclude_joined(table, joins, report, ordinals, reads=reads, snapshot=snapshot)
    files = sorted([*np.flatnonzero(keep & ~unknown).tolist(), *left])
    return Survivors(files, answers, known)


def _family(
    table: TableFiles,
    binder: TableQuery,
    files: FamilyFiles,
    relevant: Bools,
    report: ScanReport,
    questions: Sequence[Question] | None,
) -> tuple[Bools, FileAnswers | None, Sequence[Ignored]]:
    """Return which files of a family to open, the answers for others, and what was ignored."""
    family = files.family
    path = table.files[int(files.files[0])].path
    try:
        predicate, constants = binder.bind_family(family.schema, path, files.files)
    except (PredicateError, FormatError):  # opening the files raises it
        return np.ones(len(relevant), dtype=bool), None, ()
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
        positions = np.full(num_files, -1)
        positions[files.within] = np.arange(len(files.within))
        spread = {name: _spread(values, positions) for name, values in constants.items()}
        pruner = over_files(predicate, sizes, mask, spread, partial(compares, family.schema))
        pruner.use(proofs.bounds)
        pruner.use_all(proofs.gathered(predicate.paths()))
        possible, certain = (rows.to_mask(num_files) for rows in (pruner.candidates, pruner.certain))
        steps = pruner.steps
    names = table.names_in(family.schema, path)
    num_rows, num_groups = family.num_rows, files.segment.num_row_groups[family.positions]
    for step in steps:
        gone = (step.before - step.after).to_mask(num_files)
        report.add_excluded(
            step.index,
            step.column if names is None else names.shown(step.column),
            files=int(gone.sum()),
            row_groups=int(num_groups[gone].sum()),
            rows=int(num_rows[gone].sum()),
            num_bytes=int(sizes[gone].sum()),
        )
    answers = None
    if questions is not None:
        certain = certain.copy()
        certain[files.within[table.has_deletes[files.files]]] = False
        answers = answer_files(family, certain, questions, frozenset(constants), names)
    if answers is not None:
        done = answers.files
        report.add_answered(
            [(index, column if names is None else names.shown(column)) for index, column in answers.sources],
            files=len(done),
            row_groups=int(num_groups[done].sum()),
            rows=int(num_rows[done].sum()),
            num_bytes=int(sizes[done].sum()),
        )
    return possible[files.within], answers, proofs.faults


def _spread(values: pa.Array, positions: np.ndarray) -> pa.Array:
    """Arrange the values of some files by their positions in the family; null for the others."""
    return take_values(values, pa.array(positions, mask=positions < 0))
