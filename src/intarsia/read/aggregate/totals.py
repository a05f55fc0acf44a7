"""Adds up files: what indexes tell of each, and the rows that have to be read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import comparison_array
from intarsia.errors import CorruptFileError
from intarsia.file.decode import PageIndexMismatchError
from intarsia.indexes.summaries import merge_summaries, one_summary, summarize
from intarsia.read.aggregate.answers import Answer, Asked, Needs, answer, confirmed
from intarsia.read.aggregate.result import Question, questions
from intarsia.read.file_scan import FileScan
from intarsia.read.output_columns import OutputColumn
from intarsia.rows.selection import RowSelection

_ALL = np.zeros(1, dtype=np.int64)


class Totals:
    """What the rows that match come to, file by file.

    Args:
        functions: As `intarsia.Table.aggregate` takes them.
        columns: The columns that are named there, in that order.

    Raises:
        ValueError: If a function is unknown, or the column's type has none such.
    """

    def __init__(self, functions: Mapping[str, Sequence[str] | str], columns: Sequence[OutputColumn]) -> None:
        self._questions = questions(functions, columns)
        self._summaries = {question: [one_summary(question.kind, None, 0, 0)] for question in self._questions}

    def values(self) -> dict[str, dict[str, Any]]:
        """The answers, as far as files were added."""
        out = {}
        for question, summaries in self._summaries.items():
            merged = merge_summaries(pa.concat_tables(summaries), _ALL)
            summary = {name: merged[name][0] for name in merged.column_names}
            out[question.name] = {
                function: question.value(function, summary) for function in question.functions
            }
        return out

    def add_file(self, scan: FileScan) -> None:
        """Add the rows of a file that match.

        Args:
            scan: A scan of all columns that are asked about; its tally is filled in.
        """
        found = None
        while found is None:
            found = self._try_file(scan)
        for question, summaries in found.items():
            self._summaries[question].append(merge_summaries(pa.concat_tables(summaries), _ALL))

    def _try_file(self, scan: FileScan) -> dict[Question, list[pa.Table]] | None:
        try:
            return _FileTotals(scan, self._questions).run()
        except PageIndexMismatchError:
            scan.pruned = None  # that page index is not believed any more, nor what it told
            return None


class _FileTotals:
    def __init__(self, scan: FileScan, asked: Sequence[Question]) -> None:
        self.scan = scan
        self.candidates = scan.plan()
        self.certain = self.candidates
        if scan.pruned is not None and scan.predicate is not None:
            paths = scan.predicate.paths()
            self.certain = confirmed(scan.file, paths, self.candidates, scan.pruned.certain)
        self.summaries = {question: [one_summary(question.kind, None, 0, 0)] for question in asked}
        self.rows_matched = 0

    def run(self) -> dict[Question, list[pa.Table]]:
        """Summaries for each question."""
        tally = self.scan.tally
        tally.answered.clear()
        before = self.scan.file.source.counts.bytes
        left: dict[RowSelection, list[Question]] = {}
        for question, summaries in self.summaries.items():
            answered = self._answer(question)
            summaries += answered.summaries
            tally.answered += answered.steps
            left.setdefault(self.candidates - answered.rows, []).append(question)
        tally.index_bytes += self.scan.file.source.counts.bytes - before
        everything_left = RowSelection.none()
        for rows, together in left.items():
            self._read(rows, together)
            everything_left = everything_left | rows
        edges = self.scan.file.footer.row_group_starts
        tally.row_groups_read = int(everything_left.overlaps(edges[:-1], edges[1:]).sum())
        tally.rows_candidate = self.candidates.num_rows
        tally.rows_matched = self.rows_matched
        return self.summaries

    def _answer(self, question: Question) -> Answer:
        """What is known without reading."""
        column, certain = question.column, self.certain
        if column is None or column.path in self.scan.constants:
            return Answer(certain, [self._constant(question, certain.num_rows)], [])
        leaf = self.scan.file.leaves_by_path.get(column.path)
        if leaf is None or leaf.ordinal not in self.scan.file.leaf_types or certain.is_empty:
            return Answer(RowSelection.none(), [], [])
        functions = set(question.functions)
        needs = Needs(
            nulls=bool(functions & {"count", "sum", "avg"}),
            bounds=bool(functions & {"min", "max"}),
            sum=bool(functions & {"sum", "avg"}),
        )
        cost_bytes = self._reader([question]).estimated_bytes
        asked = Asked(self.scan.file, self.scan.embedded, leaf, question.kind, needs, cost_bytes)
        return answer(asked, self.candidates, certain)

    def _constant(self, question: Question, num_rows: int) -> pa.Table:
        """Rows that all hold one value."""
        if question.column is None:
            return one_summary(question.kind, None, num_rows, 0)
        value = self.scan.constants[question.column.path]
        is_nan = pa.types.is_floating(value.type) and value.is_valid and math.isnan(value.as_py())
        held = None if question.kind == pa.null() else value
        return one_summary(
            question.kind, held, num_rows, 0 if value.is_valid else num_rows, num_rows if is_nan else 0
        )

    def _reader(self, together: Sequence[Question]) -> FileScan:
        columns = [question.column for question in together if question.column is not None]
        return FileScan(self.scan.file, self.scan.predicate, columns, self.scan.constants)

    def _read(self, rows: RowSelection, together: Sequence[Question]) -> None:
        """Add what of some rows matches, for questions about which just these rows are not known."""
        reader = self._reader(together)
        reader.pruned = self.scan.pruned
        places = {column.path: place for place, column in enumerate(reader.columns)}
        num_matched = self.candidates.num_rows - rows.num_rows  # what is known matches
        for piece in reader.batches(rows=rows):
            num_matched += piece.num_rows
            for question in together:
                place = None if question.column is None else places.get(question.column.path)
                if place is None:
                    self.summaries[question].append(self._constant(question, piece.num_rows))
                else:
                    self.summaries[question] += self._column_summaries(question, piece.column(place))
        self.rows_matched = num_matched
        for name, counts in reader.tally.pages.items():
            self.scan.tally.pages[name].read += counts.read
        self.scan.tally.dictionary_pages_read += reader.tally.dictionary_pages_read
        self.scan.tally.index_bytes += reader.tally.index_bytes

    def _column_summaries(self, question: Question, column: pa.ChunkedArray) -> list[pa.Table]:
        """Summaries of a column that was read."""
        kind = question.kind
        if kind == pa.null():
            return [one_summary(kind, None, len(column), column.null_count)]
        try:
            plain = comparison_array(column, kind)
            return [summarize(chunk, _ALL) for chunk in plain.chunks if len(chunk)]
        except pa.ArrowException as error:  # such as decimals of more digits than their type has
            raise CorruptFileError(
                f"values of {question.name!r} cannot be added up: {error}", path=self.scan.file.path
            ) from error
