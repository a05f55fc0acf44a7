"""The files of a table to open: those that neither partition values nor a lake index exclude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.owned_rows import take_values
from intarsia.errors import FormatError, PredicateError
from intarsia.file import Ignored
from intarsia.file.schema import FileSchema
from intarsia.lake.index.answers import FileAnswers, answer_files
from intarsia.lake.index.known_files import FamilyFiles
from intarsia.lake.index.prune import FamilyVerdict, prune_family
from intarsia.lake.joined_files import FamilyBinder, exclude_joined
from intarsia.lake.log_statistics import LogExclusion
from intarsia.lake.planning import KnownFile
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Bound, Path, Predicate
from intarsia.read.aggregate.result import Question
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

    def exclude_by_partition(self) -> tuple[Bools, str]:
        """Return which files of the table partition values exclude, and the columns that prove it."""
        ...

    def exclude_by_log(self, relevant: Bools) -> LogExclusion | None:
        """Return the files that the log of a table format excludes; None if it has no statistics."""
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
        known: Facts about files to open, by path.
    """

    files: Sequence[int]
    answers: Sequence[FileAnswers] = field(default_factory=tuple)
    known: Mapping[str, KnownFile] = field(default_factory=dict)


def find_survivors(
    table: TableFiles,
    binder: TableQuery,
    report: ScanReport,
    questions: Sequence[Question] | None = None,
    *,
    is_current: bool = False,
    among: Bools | None = None,
    joins: FamilyBinder | None = None,
    reads: bool = True,
) -> Survivors:
    """Exclude files by partition values and by the lake index, and add them to a report.

    Args:
        table: The table.
        binder: The query.
        report: The report.
        questions: Aggregates to answer for files in which all rows match; None if rows are needed.
        is_current: The table's metadata was read in the same run.
        among: The files that matter, one boolean per file; None for all.
        joins: Binds the query to open files, to plan files together that the lake index does not contain;
            None not to.
        reads: Whether planning them reads Bloom filters and dictionary pages, too.
    """
    excluded, column = binder.exclude_by_partition()
    among = np.ones(len(table.files), dtype=bool) if among is None else among
    excluded, keep = among & excluded, among & ~excluded
    if excluded.any():
        num_bytes = int(table.file_bytes[excluded].sum())
        report.add_excluded("partition", column, files=int(excluded.sum()), num_bytes=num_bytes)
    logged = binder.exclude_by_log(keep)
    if logged is not None and logged.files.any():
        keep &= ~logged.files
        report.add_excluded(
            logged.source,
            logged.column,
            files=int(logged.files.sum()),
            rows=int(logged.num_rows[logged.files].sum()),
            num_bytes=int(table.file_bytes[logged.files].sum()),
        )
    if binder.predicate is None and questions is None:
        return Survivors(np.flatnonzero(keep).tolist())
    known = table.known_files(is_current=is_current)
    if known is None:
        report.add_ignored(table.lake_index.ignored)
        return _joined(table, report, keep, keep, [], joins, reads=reads, is_current=is_current)
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
    return _joined(table, report, keep, unknown, answers, joins, reads=reads, is_current=is_current)


def _joined(
    table: TableFiles,
    report: ScanReport,
    keep: Bools,
    unknown: Bools,
    answers: Sequence[FileAnswers],
    joins: FamilyBinder | None,
    *,
    reads: bool,
    is_current: bool,
) -> Survivors:
    """Plan the files together that no lake index contains, or all files if the lake index leaves many."""
    if np.count_nonzero(keep) >= _MIN_JOINED and not table.has_objects:
        unknown = keep
    if joins is None or not unknown.any():
        return Survivors(np.flatnonzero(keep).tolist(), answers)
    ordinals = np.flatnonzero(unknown).tolist()
    left, known = exclude_joined(table, joins, report, ordinals, reads=reads, is_current=is_current)
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
    if predicate is None:
        verdict = FamilyVerdict(mask, mask, (), ())
    else:
        positions = np.full(num_files, -1)
        positions[files.within] = np.arange(len(files.within))
        spread = {name: _spread(values, positions) for name, values in constants.items()}
        verdict = prune_family(family, predicate, spread, mask, sizes)
    names = table.names_in(family.schema, path)
    num_rows, num_groups = family.num_rows, files.segment.num_row_groups[family.positions]
    for one in verdict.exclusions:
        report.add_excluded(
            one.index,
            one.column if names is None else names.shown(one.column),
            files=int(one.files.sum()),
            row_groups=int(num_groups[one.files].sum()),
            rows=int(num_rows[one.files].sum()),
            num_bytes=int(sizes[one.files].sum()),
        )
    answers = None
    if questions is not None:
        certain = verdict.certain.copy()
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
    return verdict.possible[files.within], answers, verdict.faults


def _spread(values: pa.Array, positions: np.ndarray) -> pa.Array:
    """Arrange the values of some files by their positions in the family; null for the others."""
    return take_values(values, pa.array(positions, mask=positions < 0))
