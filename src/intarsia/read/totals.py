"""Aggregates over files, from indexes and from the rows that indexes do not cover."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import comparison_array
from intarsia.indexes.summaries import merge_summaries, one_summary, summarize
from intarsia.read.aggregate import Question, questions
from intarsia.read.answers import Answer, Needs, QueriedColumn, answer, confirmed
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan, with_current_plan
from intarsia.read.file_query import FileQuery, naming_invalid_values
from intarsia.read.file_rows import FileOutcome, Piece, read_known_rows
from intarsia.read.output_columns import OutputColumn
from intarsia.rows.selection import RowSelection
from intarsia.tuning import MERGED_SUMMARIES

_ALL = np.zeros(1, dtype=np.int64)


#: For each question rows of `intarsia.indexes.summaries.summary_schema`.
_Summaries: TypeAlias = "dict[Question, list[pa.Table]]"


class Totals:
    """Aggregates of the matching rows, computed file by file.

    Args:
        functions: The argument of `intarsia.Table.aggregate`.
        columns: The columns in it, in the same order.

    Attributes:
        questions: The functions requested for each column.

    Raises:
        ValueError: If a function is unknown, or not defined for the column's type.
    """

    def __init__(self, functions: Mapping[str, Sequence[str] | str], columns: Sequence[OutputColumn]) -> None:
        self.questions = questions(functions, columns)
        self._summaries = {
            question: [one_summary(question.data_type, None, 0, 0)] for question in self.questions
        }

    def values(self) -> dict[str, dict[str, Any]]:
        """Return the results for all files added so far."""
        out = {}
        for question, merged in self.summaries().items():
            summary = {name: merged[name][0] for name in merged.column_names}
            out[question.name] = {
                function: question.value(function, summary) for function in question.functions
            }
        return out

    def summaries(self) -> dict[Question, pa.Table]:
        """Return one row for each question, for `add_summaries` of other totals of the same functions."""
        return {question: _merged(summaries) for question, summaries in self._summaries.items()}

    def add_summaries(self, summaries: Mapping[Question, pa.Table]) -> None:
        """Add summaries of rows that were answered without opening their files, for each question."""
        for question, table in summaries.items():
            self._summaries[question].append(table)

    def add_file(
        self, query: FileQuery, plan: FilePlan, pieces: Iterable[Piece] | None = None
    ) -> FileOutcome:
        """Add the matching rows of a file.

        Args:
            pieces: The matching rows, if they have been read.
        """
        if pieces is None:
            summaries, outcome = with_current_plan(query, plan, partial(_aggregated, query, self.questions))
        else:
            summaries, counts = _summarized(query, pieces, self.questions)
            outcome = FileOutcome(plan, counts)
        for question, found in summaries.items():
            self._summaries[question] += found
            if len(self._summaries[question]) >= MERGED_SUMMARIES:
                self._summaries[question] = [_merged(self._summaries[question])]
        return outcome


def _aggregated(
    query: FileQuery, asked: Sequence[Question], plan: FilePlan
) -> tuple[_Summaries, FileOutcome]:
    """Answer from indexes first, then read the rows that they do not cover, as if page indexes were right."""
    candidates, certain = plan.candidates, confirmed(query, plan)
    before = query.file.source.counts.bytes
    answers = {question: _answered(query, question, candidates, certain) for question in asked}
    counts = ReadCounts(index_bytes=query.file.source.counts.bytes - before)
    summaries = {question: list(answered.summaries) for question, answered in answers.items()}
    together: dict[RowSelection, list[Question]] = {}
    for question, answered in answers.items():
        together.setdefault(candidates - answered.rows, []).append(question)
    rows_matched, everything_read = 0, RowSelection.none()
    for rows, requested in together.items():
        # questions that need exactly these rows
        of_columns = query.for_columns([one.column for one in requested if one.column is not None])
        found, read = _summarized(of_columns, read_known_rows(of_columns, plan, rows), requested)
        for question, pieces in found.items():
            summaries[question] += pieces
        counts += read
        # the same for every question: rows that were not read match, and rows that were read are counted
        rows_matched = candidates.num_rows - rows.num_rows + read.rows_matched
        everything_read |= rows
    counts = replace(
        counts,
        row_groups=len(query.groups_with(everything_read)),
        rows_candidate=candidates.num_rows,
        rows_matched=rows_matched,
    )
    steps = tuple(step for answered in answers.values() for step in answered.steps)
    return summaries, FileOutcome(plan, counts, steps, files_read=query.num_files_with(everything_read))


def _answered(
    query: FileQuery, question: Question, candidates: RowSelection, certain: RowSelection
) -> Answer:
    """Answer a question from indexes."""
    column = None if question.column is None else query.own(question.column)
    if column is None or column.path in query.constants:
        query.check_row_counts(certain)
        return Answer(certain, _constants(query, question, certain), [])
    leaf = query.file.schema.leaves_by_path.get(column.path)
    if leaf is None or leaf.ordinal not in query.file.leaf_types or certain.is_empty:
        return Answer(RowSelection.none(), [], [])
    query.check_row_counts(certain, leaf)
    needs = Needs.of(question.functions)
    assert question.column is not None
    cost_bytes = query.for_columns([question.column]).estimated_bytes
    queried = QueriedColumn(query.file, query.embedded, leaf, question.data_type, needs, cost_bytes)
    return answer(queried, candidates, certain)


def _summarized(
    query: FileQuery, pieces: Iterable[Piece], requested: Sequence[Question]
) -> tuple[_Summaries, ReadCounts]:
    """Summarize rows of the query's columns."""
    ordinals = {column.path: ordinal for ordinal, column in enumerate(query.columns)}
    summaries: _Summaries = {question: [] for question in requested}
    counts = ReadCounts()
    for piece in pieces:
        counts += piece.counts
        for question in requested:
            path = None if question.column is None else query.own(question.column).path
            if path in ordinals:
                summaries[question] += _column_summaries(query, question, piece.rows.column(ordinals[path]))
            else:
                summaries[question] += _constants(query, question, piece.numbers)
    return summaries, counts


def _constants(query: FileQuery, question: Question, rows: RowSelection) -> list[pa.Table]:
    """Summarize rows of files in each of which a column has one value."""
    num_rows = rows.num_rows
    if question.column is None:
        return [one_summary(question.data_type, None, num_rows, 0)]
    path = query.own(question.column).path
    values = query.constants[path]
    if len(values) > 1:
        return _column_summaries(query, question, pa.chunked_array([query.constant_column(path, rows)]))
    value = values[0]
    is_nan = pa.types.is_floating(value.type) and value.is_valid and math.isnan(value.as_py())
    summarized = None if question.data_type == pa.null() else value
    num_nulls, num_nans = 0 if value.is_valid else num_rows, num_rows if is_nan else 0
    return [one_summary(question.data_type, summarized, num_rows, num_nulls, num_nans)]


def _column_summaries(query: FileQuery, question: Question, column: pa.ChunkedArray) -> list[pa.Table]:
    """Summarize a column that was read."""
    data_type = question.data_type
    if data_type == pa.null():
        return [one_summary(data_type, None, len(column), column.null_count)]
    with naming_invalid_values(query.file.path, question.name, "aggregated"):
        return [summarize(chunk, _ALL) for chunk in comparison_array(column, data_type).chunks if len(chunk)]


def _merged(summaries: Sequence[pa.Table]) -> pa.Table:
    """Merge summaries to one row."""
    return merge_summaries(pa.concat_tables(summaries), _ALL)
