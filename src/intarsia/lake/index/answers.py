"""Aggregates of whole files in which all rows match, from a lake index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import compares_alike, comparison_type
from intarsia.errors import IndexPayloadError, IntarsiaError
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf
from intarsia.indexes.proof import call_index
from intarsia.indexes.summaries import sum_type, summary_schema
from intarsia.lake.index.segment import Family, Gathered
from intarsia.read.aggregate.answers import Needs, as_data_type, summarize_bounds
from intarsia.read.aggregate.result import Question
from intarsia.read.file_names import FileNames
from intarsia.rows.bounds import Bools


@dataclass(frozen=True, eq=False)
class FileAnswers:
    """The answers to all questions for some files of a family.

    Attributes:
        files: The positions of the answered files in the family.
        summaries: For each question, a summary of these files.
        sources: The index that answered each question, and its column; without those that need none.
    """

    files: np.ndarray
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
        family: The family.
        certain: The files in which all rows match.
        questions: The questions.
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
        np.flatnonzero(answered),
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
    try:
        if not needs.sum and leaf.type != Type.INT96:
            result = call_index(partial(_by_bounds, family, question, leaf, file_type, needs))
            if result is not None:
                yield result
        for structure in call_index(partial(family.gathered, leaf.path)):
            result = call_index(partial(_by_structure, structure, family, question, leaf, file_type, needs))
            if result is not None:
                yield result
    except (IntarsiaError, OSError):
        return  # the file itself answers


def _by_bounds(
    family: Family, question: Question, leaf: Leaf, file_type: pa.DataType, needs: Needs
) -> _Found | None:
    bounds = family.bounds(leaf.path)
    if bounds is None:
        return None
    granules = summarize_bounds("statistics", bounds.bounds, bounds.exact, file_type, needs)
    summaries = as_data_type(granules.summaries, question.data_type)
    return _Found(("statistics", leaf.name), granules.is_exact, summaries)


def _by_structure(
    structure: Gathered,
    family: Family,
    question: Question,
    leaf: Leaf,
    file_type: pa.DataType,
    needs: Needs,
) -> _Found | None:
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
    positions = np.full(len(is_exact), -1)
    positions[structure.files] = np.arange(len(structure.files))
    spread = table.take(pa.array(positions, mask=positions < 0))
    return _Found((structure.name, leaf.name), is_exact, as_data_type(spread, question.data_type))
