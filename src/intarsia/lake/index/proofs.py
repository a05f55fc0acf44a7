"""What a lake index proves about the files of a family, and the aggregates that it answers for them.

The facts are proofs whose granules are the files. Files in which all rows match may be answered as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.comparison import compares_alike, comparison_type
from intarsia.arrow.owned_rows import places_in
from intarsia.errors import IndexPayloadError, IntarsiaError
from intarsia.file import Ignored
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf
from intarsia.indexes.bloom import USUAL_FPP
from intarsia.indexes.proof import ProofCost, Savings, Verdict, Wanted, call_index
from intarsia.indexes.statistics import BoundsProof
from intarsia.indexes.summaries import sum_type, summary_schema
from intarsia.lake.index.folder import ignored_segment
from intarsia.lake.index.segment import Family, FileBounds, Gathered
from intarsia.predicate import BoundIn, Condition, Path
from intarsia.read.aggregate import Question
from intarsia.read.answers import Needs, as_data_type, summarize_bounds
from intarsia.read.output_columns import FileNames
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools, Bounds, certainly_matches, chances_of_absence, might_match
from intarsia.rows.selection import RowSelection

_Result = TypeVar("_Result")


class FamilyProofs:
    """The proofs about the files of a family.

    Attributes:
        faults: Why structures were ignored.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        self.faults: list[Ignored] = []
        self._bounds: dict[Path, FileBounds | None] = {}

    @property
    def bounds(self) -> BoundsProof:
        """The bounds of the columns."""
        return BoundsProof("statistics", self.bounds_of, lambda *asked: self.call(partial(_judge, *asked)))

    def bounds_of(self, condition: Condition) -> Bounds | None:
        """Return the bounds of the column of a condition; None if it has none."""
        path = condition.path
        if path not in self._bounds:  # a fault is recorded once
            self._bounds[path] = self.call(partial(self.family.bounds, path))
        found = self._bounds[path]
        return None if found is None else found.bounds

    def gathered(self, paths: frozenset[Path]) -> list[GatheredProof]:
        """Return the structures on some columns, or on the elements of lists, that the schema has."""
        found = [self.call(partial(self.family.gathered, path)) or [] for path in sorted(paths)]
        return [GatheredProof(self, structure) for of_column in found for structure in of_column]

    def call(self, call: Callable[[], _Result]) -> _Result | None:
        """Call a structure, or ignore it with a fault."""
        try:
            return call_index(call)
        except (IntarsiaError, OSError) as error:
            self.faults.append(ignored_segment(self.family.path, error))
            return None


def _judge(condition: Condition, bounds: Bounds) -> Verdict:
    possible, certain = might_match(condition, bounds), certainly_matches(condition, bounds)
    return Verdict(condition, RowSelection.from_mask(possible), RowSelection.from_mask(certain))


class GatheredProof:
    """A structure of digests of embedded indexes."""

    is_lookup = False
    counts_pages = False

    def __init__(self, proofs: FamilyProofs, structure: Gathered) -> None:
        self._proofs = proofs
        self._structure = structure
        cost_bytes = structure.index.cost_bytes
        self._cost_of = cache(lambda condition: proofs.call(lambda: int(cost_bytes(condition))))
        self.name = structure.name

    def reach(self, condition: Condition) -> Bools | None:
        """Return the files that the structure covers."""
        if condition.path != self._structure.column or self._cost_of(condition) is None:
            return None
        reach = np.zeros(len(self._proofs.family.positions), dtype=bool)
        reach[self._structure.files] = True
        return reach

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return the bytes that the evaluation of the conditions reads; each is evaluated separately."""
        costs = [self._cost_of(condition) or 0 for condition in wanted]
        return ProofCost(sum(costs), 0, part_bytes=min(costs))

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Evaluate the conditions that cost less than reading the files that they are likely to exclude."""
        index, saved = self._structure.index, savings.num_bytes()
        for condition, files in wanted.items():
            if (self._cost_of(condition) or 0) < (saved * self._chances(condition))[files].sum():
                possible = self._rows(partial(index.candidate_files, condition), others=True)
                certain = self._rows(partial(index.certain_files, condition), others=False)
                yield Verdict(condition, possible, certain)

    def _chances(self, condition: Condition) -> npt.NDArray[np.float64]:
        """Estimate the probability that each file is excluded, if it lacks the first value of a list."""
        num_rows, likely = self._proofs.family.num_rows, 1.0
        if isinstance(condition, BoundIn) and not condition.negated:
            # a long list is rarely excluded: one present value, or one false positive, is enough
            likely = (1 - USUAL_FPP) ** (len(condition.values) - 1)
        chances = chances_of_absence(condition, self._proofs.bounds_of(condition), num_rows)
        return np.full(len(num_rows), likely) * (1 if chances is None else chances)

    def _rows(self, call: Callable[[], Bools | None], *, others: bool) -> RowSelection | None:
        """Return the files that a structure answers, whose class may come from any package, as rows."""
        structure = self._structure

        def rows() -> RowSelection | None:
            answer = call()
            if answer is None:
                return None
            if answer.dtype != np.bool_ or answer.shape != structure.files.shape:
                raise IndexPayloadError(
                    f"{structure.name} returned {answer.shape} files, not {structure.files.shape}",
                    reason="other-files",
                )
            mask = np.full(len(self._proofs.family.positions), others)
            mask[structure.files] = answer
            return RowSelection.from_mask(mask)

        return self._proofs.call(rows)


# --- aggregates ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FileAnswers:
    """The answers to all questions for some files of a family.

    Attributes:
        files: Whether each file of the family is answered.
        summaries: For each question, a summary of these files.
        sources: The index that answered each question, and its column; without those that need none.
    """

    files: Bools
    summaries: dict[Question, pa.Table]
    sources: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class _Found:
    """A summary for each file of a family, where it is exact."""

    source: tuple[str, str] | None
    is_exact: Bools
    summaries: pa.Table


def answer_files(
    family: Family,
    certain: Bools,
    questions: Sequence[Question],
    constant: frozenset[tuple[str, ...]],
    names: FileNames | None = None,
) -> FileAnswers | None:
    """Answer questions for the files of a family in which all rows match.

    Args:
        constant: Paths of columns that are not read from files, such as partition columns.
        names: The names of the columns in the files; None if they are those of the table.

    Returns:
        The answers for the files for which all questions can be answered; None if there are none.
    """
    answered = certain
    found: dict[Question, _Found] = {}
    for question in questions:
        source = _answer(family, question, answered, constant, names)
        if source is None:
            return None
        found[question] = source
        answered = answered & source.is_exact
        if not answered.any():
            return None
    keep = pa.array(answered)
    return FileAnswers(
        answered,
        {question: source.summaries.filter(keep) for question, source in found.items()},
        tuple(dict.fromkeys(source.source for source in found.values() if source.source is not None)),
    )


def _answer(
    family: Family,
    question: Question,
    wanted: Bools,
    constant: frozenset[tuple[str, ...]],
    names: FileNames | None,
) -> _Found | None:
    column = question.column
    num_rows = family.num_rows
    if column is None:
        nothing, zeros = pa.nulls(len(num_rows)), pa.array(np.zeros_like(num_rows))
        columns = [nothing, nothing, nothing, pa.array(num_rows), zeros, zeros]
        counts = pa.table(columns, schema=summary_schema(pa.null()))
        return _Found(None, np.ones(len(num_rows), dtype=bool), counts)
    path = column.path if names is None else names.path(column.path)
    if path in constant:
        return None
    leaf = family.schema.leaves_by_path.get(path)
    if leaf is None or not leaf.is_flat or leaf.ordinal not in family.schema.leaf_types:
        return None
    file_type = comparison_type(family.schema.leaf_types[leaf.ordinal])
    if question.data_type != pa.null() and not compares_alike(file_type, question.data_type):
        return None
    best: _Found | None = None
    for source in _sources(family, question, leaf, file_type):
        if best is None or (source.is_exact & wanted).sum() > (best.is_exact & wanted).sum():
            best = source
        if (best.is_exact | ~wanted).all():
            break
    return best


def _sources(family: Family, question: Question, leaf: Leaf, file_type: pa.DataType) -> Iterator[_Found]:
    needs = Needs.of(question.functions)

    def by_bounds() -> _Found | None:
        bounds = family.bounds(leaf.path)
        if bounds is None:
            return None
        granules = summarize_bounds(bounds.bounds, bounds.exact, file_type, needs)
        summaries = as_data_type(granules.summaries, question.data_type)
        return _Found((granules.name, leaf.name), granules.is_exact, summaries)

    def by_structure(structure: Gathered) -> _Found | None:
        if needs.sum and sum_type(file_type) == pa.null():
            return None
        summarized = structure.index.file_summaries(leaf.name)
        if summarized is None or summarized[0].schema != summary_schema(file_type):
            return None
        table, exact = summarized
        if not len(table) == len(exact) == len(structure.files):
            raise IndexPayloadError(f"{structure.name} has summaries of other files", reason="other-files")
        num_rows = family.num_rows
        if (table["num_rows"].to_numpy() != num_rows[structure.files]).any():
            raise IndexPayloadError(f"{structure.name} has summaries of other rows", reason="other-rows")
        is_exact = np.zeros(len(num_rows), dtype=bool)
        is_exact[structure.files] = exact if needs.bounds else True
        spread = table.take(places_in(structure.files, len(is_exact)))
        return _Found((structure.name, leaf.name), is_exact, as_data_type(spread, question.data_type))

    try:
        if not needs.sum and leaf.type != Type.INT96 and (found := call_index(by_bounds)) is not None:
            yield found
        for structure in call_index(partial(family.gathered, leaf.path)):
            if (found := call_index(partial(by_structure, structure))) is not None:
                yield found
    except TimeoutError:  # of a signal handler
        raise
    except (IntarsiaError, OSError):
        return  # the file itself answers
