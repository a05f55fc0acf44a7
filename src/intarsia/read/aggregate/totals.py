"""Aggregates over files, from indexes and from the rows that indexes do not cover."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import comparison_array
from intarsia.indexes.summaries import merge_summaries, one_summary, summarize
from intarsia.read.aggregate.answers import Answer, Needs, QueriedColumn, answer, confirmed
from intarsia.read.aggregate.result import Question, questions
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan, current_plan, retry_without_wrong_index
from intarsia.read.file_query import FileQuery, naming_invalid_values
from intarsia.read.file_rows import Piece, read_known_rows
from intarsia.read.output_columns import OutputColumn
from intarsia.read.report import FileOutcome
from intarsia.records import dataclass
from intarsia.rows.selection import RowSelection
from intarsia.tuning import MERGED_SUMMARIES

_ALL = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class FileAggregates:
    """The aggregates of the matching rows of one file.

    Attributes:
        summaries: For each question rows of `intarsia.indexes.summaries.summary_schema`.
    """

    outcome: FileOutcome
    summaries: Mapping[Question, Sequence[pa.Table]]


class Totals:
    """Aggregates of the matching rows, computed file by file.

    Args:
        functions: The argument of `intarsia.Table.aggregate`.
        columns: The columns in it, in the same order.

    Raises:
        ValueError: If a function is unknown, or not defined for the column's type.
    """

    def __init__(self, functions: Mapping[str, Sequence[str] | str], columns: Sequence[OutputColumn]) -> None:
        self._questions = questions(functions, columns)
        self._summaries = {
            question: [one_summary(question.data_type, None, 0, 0)] for question in self._questions
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

    @property
    def questions(self) -> Sequence[Question]:
        """The functions requested for each column."""
        return tuple(self._summaries)

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

        def attempt() -> FileAggregates:
            while True:
                current = current_plan(query, plan)
                found = _FileReading(query, current, self._questions).run()
                if query.file.metadata.contradictions == current.contradictions:
                    return found

        if pieces is None:
            totals = retry_without_wrong_index(query.file, attempt)
        else:
            summaries, counts = _summarized(query, pieces, self._questions)
            totals = FileAggregates(FileOutcome(plan, counts), summaries)
        for question, found in totals.summaries.items():
            self._summaries[question] += found
            if len(self._summaries[question]) >= MERGED_SUMMARIES:
                self._summaries[question] = [_merged(self._summaries[question])]
        return totals.outcome


class _FileReading:
    """The aggregation of one file, assuming that its page index is correct."""

    def __init__(self, query: FileQuery, plan: FilePlan, requested: Sequence[Question]) -> None:
        self._query = query
        self._plan = plan
        self._requested = requested
        self._certain = plan.candidates
        if query.predicate is not None:
            paths = query.predicate.paths()
            self._certain = confirmed(query.file, paths, plan.candidates, plan.certain)

    def run(self) -> FileAggregates:
        """Answer from indexes first, then read the rows that they do not cover."""
        query, candidates = self._query, self._plan.candidates
        before = query.file.source.counts.bytes
        answers = {question: self._answer(question) for question in self._requested}
        counts = ReadCounts(index_bytes=query.file.source.counts.bytes - before)
        summaries = {question: list(answered.summaries) for question, answered in answers.items()}
        together: dict[RowSelection, list[Question]] = {}
        for question, answered in answers.items():
            together.setdefault(candidates - answered.rows, []).append(question)
        rows_matched, everything_read = 0, RowSelection.none()
        for rows, requested in together.items():
            found, read = self._read(rows, requested)
            for question, pieces in found.items():
                summaries[question] += pieces
            counts += read
            # the same for every question: rows that were not read match, and rows that were read are counted
            rows_matched = candidates.num_rows - rows.num_rows + read.rows_matched
            everything_read |= rows
        outcome = FileOutcome(
            self._plan,
            ReadCounts(
                row_groups=sum(1 for _ in query.row_groups(everything_read)),
                dictionary_pages=counts.dictionary_pages,
                rows_candidate=candidates.num_rows,
                rows_matched=rows_matched,
                index_bytes=counts.index_bytes,
            ),
            tuple(step for answered in answers.values() for step in answered.steps),
            files_read=query.num_files_with(everything_read),
        )
        return FileAggregates(outcome, summaries)

    def _answer(self, question: Question) -> Answer:
        """Answer a question from indexes."""
        certain, query = self._certain, self._query
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
        return answer(queried, self._plan.candidates, certain)

    def _read(
        self, rows: RowSelection, requested: Sequence[Question]
    ) -> tuple[dict[Question, list[pa.Table]], ReadCounts]:
        """Read and summarize the matching rows among ``rows``, for questions that need exactly these rows."""
        columns = [question.column for question in requested if question.column is not None]
        query = self._query.for_columns(columns)
        return _summarized(query, read_known_rows(query, self._plan, rows), requested)


def _summarized(
    query: FileQuery, pieces: Iterable[Piece], requested: Sequence[Question]
) -> tuple[dict[Question, list[pa.Table]], ReadCounts]:
    """Summarize rows of the query's columns."""
    ordinals = {column.path: ordinal for ordinal, column in enumerate(query.columns)}
    summaries: dict[Question, list[pa.Table]] = {question: [] for question in requested}
    counts = ReadCounts()
    for piece in pieces:
        counts += piece.counts
        for question in requested:
            path = None if question.column is None else query.own(question.column).path
            if path in ordinals:
                found = piece.rows.column(ordinals[path])
                summaries[question] += _column_summaries(query, question, found)
            else:
                summaries[question] += _constants(query, question, piece.numbers)
    return summaries, counts


def _constants(query: FileQuery, question: Question, rows: RowSelection) -> list[pa.Table]:
    """Summarize rows of files in each of which a column has one value."""
    num_rows = rows.num_rows
    if question.column is None:
        return [one_summary(question.data_type, None, num_rows, 0)]
    path = query.own(question.column).path
    value = query.constants[path]
    if not isinstance(value, pa.Scalar):
        return _column_summaries(query, question, pa.chunked_array([query.constant_column(path, rows)]))
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
        plain = comparison_array(column, data_type)
        return [summarize(chunk, _ALL) for chunk in plain.chunks if len(chunk)]


def _merged(summaries: Sequence[pa.Table]) -> pa.Table:
    """Merge summaries to one row."""
    return merge_summaries(pa.concat_tables(summaries), _ALL)
