"""Exact counts for one column: the number of distinct values, and how often each one occurs.

Granules whose values an index lists are not read. Memory grows with the number of distinct values, not with
the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import (
    compares_alike,
    comparison_array,
    comparison_type,
    first_in_order,
    sortable_type,
)
from intarsia.errors import UnsupportedFeatureError
from intarsia.indexes.base import OpenIndex
from intarsia.indexes.embedded import check_granules
from intarsia.indexes.granules import covered_granules, granule_rows
from intarsia.indexes.proof import call_or_ignore
from intarsia.predicate import Path
from intarsia.read.answers import confirmed
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan, with_current_plan
from intarsia.read.file_query import FileQuery, naming_invalid_values
from intarsia.read.file_rows import FileOutcome, read_known_rows
from intarsia.read.output_columns import OutputColumn
from intarsia.read.pruner import PruneStep
from intarsia.rows.selection import RowSelection
from intarsia.tuning import MERGED_PIECES, MERGED_ROWS

VALUE: Final = "value"
COUNT: Final = "count"

#: The order of the result, in which no two values are equal.
_ORDER: Final = ((COUNT, "descending"), (VALUE, "ascending"))


class ValueCounts:
    """The values of a column in the matching rows, with their counts; file by file.

    NaN is one value, -0.0 is 0.0, and null is a separate value.

    Args:
        column: The column; the only one that the scans read.
        counted: Whether the counts are needed. If not, indexes can answer for more granules, and the counts
            are meaningless.

    Raises:
        UnsupportedFeatureError: If values of its type cannot be grouped.
    """

    def __init__(self, column: OutputColumn, *, counted: bool) -> None:
        self._column = column
        self._counted = counted
        self._compared_as = comparison_type(column.type)
        self._key = sortable_type(self._compared_as)
        try:
            self._nothing = _counts(pa.array([], self._key), pa.array([], pa.int64()))
            self._found = [_grouped(self._nothing)]
            first_in_order(self._nothing, _ORDER, None)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise UnsupportedFeatureError(
                f"values of {column.name!r} cannot be counted, because its type is {column.type}; "
                "name a column that is not nested",
                reason="not-countable",
                column=column.name,
            ) from error

    def add_file(self, query: FileQuery, plan: FilePlan) -> FileOutcome:
        """Count the values of the matching rows of a file."""
        found, outcome = with_current_plan(query, plan, partial(self._count_file, query))
        self._found = _condensed([*self._found, found])
        return outcome

    def count_distinct(self) -> int:
        """Return the number of distinct values, without null."""
        found = _merged(self._found)
        return int(found.num_rows - found[VALUE].null_count)

    def most_common(self, limit: int | None) -> pa.Table:
        """Return the values and their counts, the most frequent first, and equal counts in ascending order.

        Args:
            limit: The maximum number of values; None for all.
        """
        found = _merged(self._found)
        chosen = found.take(first_in_order(found, _ORDER, limit))
        return pa.table({VALUE: self._as_column(chosen[VALUE]), COUNT: chosen[COUNT]})

    # --- one file ----------------------------------------------------------------------------------

    def _count_file(self, query: FileQuery, plan: FilePlan) -> tuple[pa.Table, FileOutcome]:
        """Count the values of a file, assuming that its page index is correct."""
        before = query.file.source.counts.bytes
        path = query.own(self._column).path
        certain = confirmed(query, plan)
        constant = query.constants.get(path)
        if constant is None:
            pieces, known, answered = self._by_indexes(query, path, certain)
        else:
            query.check_row_counts(certain)
            pieces, known, answered = [self._repeated(query, path, certain)], certain, []
        counts = ReadCounts(index_bytes=query.file.source.counts.bytes - before)
        for piece in read_known_rows(replace(query, keeps_dictionaries=True), plan, plan.candidates - known):
            counts += piece.counts
            with naming_invalid_values(
                query.file.path_of(int(piece.groups[0])), self._column.name, "counted"
            ):
                if constant is None:
                    pieces += map(self._counted_values, piece.rows.column(0).chunks)
                else:
                    pieces.append(self._repeated(query, path, piece.numbers))
                pieces = _condensed(pieces)
        outcome = replace(
            counts,
            rows_candidate=plan.candidates.num_rows,
            rows_matched=counts.rows_matched + known.num_rows,
        )
        files_read = query.num_files_with(plan.candidates - known)
        return _merged([self._nothing, *pieces]), FileOutcome(
            plan, outcome, tuple(answered), files_read=files_read
        )

    def _by_indexes(
        self, query: FileQuery, path: Path, certain: RowSelection
    ) -> tuple[list[pa.Table], RowSelection, list[PruneStep]]:
        """Return the values of granules within the certain rows, these rows, and the indexes used."""
        file = query.file
        leaf = file.schema.leaves_by_path.get(path)
        here = None if leaf is None else file.leaf_types.get(leaf.ordinal)
        pieces: list[pa.Table] = []
        known = RowSelection.none()
        answered: list[PruneStep] = []
        if leaf is None or here is None or not compares_alike(here, self._compared_as):
            return pieces, known, answered
        for entry, _ in query.embedded.capable(path, lambda index, column: index.can_enumerate(column)):
            left = certain - known
            if left.is_empty or (entry.granularity == "file" and left.num_rows < file.footer.num_rows):
                continue
            if query.embedded.cost_bytes(entry) > query.for_columns([self._column]).estimated_bytes(left):
                continue
            index = query.embedded.open_checked(entry, check_granules)
            if index is None:
                continue
            found = call_or_ignore(file, entry.name, partial(self._listed, index, left))
            if found is not None:
                piece, rows = found
                pieces.append(piece)
                known = known | rows
                answered.append(PruneStep(entry.name, ".".join(path), left, certain - known))
        if not known.is_empty:
            query.check_row_counts(known, leaf)
        return pieces, known, answered

    def _listed(self, index: OpenIndex, left: RowSelection) -> tuple[pa.Table, RowSelection] | None:
        """Return the values of the granules within some rows that an index lists, and their rows.

        If the counts are needed, only granules with a single value are answered.
        """
        granule_values = index.granule_values()
        if granule_values is None:
            return None
        answers = covered_granules(index.edges, left) & granule_values.is_listed
        if self._counted:
            answers = answers & (np.bincount(granule_values.granules, minlength=len(answers)) == 1)
        if not answers.any():
            return None
        chosen = answers[granule_values.granules]
        if self._counted:
            ordinals, counts = (
                granule_values.ordinals[chosen],
                granule_values.num_rows[granule_values.granules[chosen]],
            )
        else:
            ordinals = np.unique(granule_values.ordinals[chosen])
            counts = np.ones(len(ordinals), dtype=np.int64)
        values = self._keys(granule_values.values.take(pa.array(ordinals)))
        return _grouped(_counts(values, pa.array(counts, pa.int64()))), granule_rows(index.edges, answers)

    def _repeated(self, query: FileQuery, path: Path, rows: RowSelection) -> pa.Table:
        """Return the counts of a column with one value in each file."""
        values, counts = query.constant_counts(path, rows)
        return _grouped(_counts(self._keys(values.cast(self._compared_as)), counts))

    def _counted_values(self, values: pa.Array) -> pa.Table:
        """Count the values of an array."""
        if isinstance(values, pa.DictionaryArray):
            found = pc.value_counts(values)
            counts = _counts(self._keys(found.field(0)), found.field(1))
            # grouping takes as long as counting, and values of dictionaries seldom repeat
            return counts if len(counts[VALUE].unique()) == counts.num_rows else _grouped(counts)
        keys = self._keys(values)
        chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
        found = [pc.value_counts(chunk) for chunk in chunks]
        return _merged([self._nothing, *(_counts(each.field(0), each.field(1)) for each in found)])

    def _keys(self, values: pa.Array) -> pa.Array | pa.ChunkedArray:
        """Convert values to the type in which they are grouped, with one NaN and no -0.0."""
        keys = comparison_array(values, self._compared_as).cast(self._key)
        if not pa.types.is_floating(self._key):
            return keys
        keys = pc.add(keys, pa.scalar(0.0, self._key))
        return pc.if_else(pc.is_nan(keys), pa.scalar(float("nan"), self._key), keys)

    def _as_column(self, keys: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert keys to the column's type; dictionaries become plain values."""
        plain = keys.cast(self._compared_as)
        declared = self._column.type
        if isinstance(declared, pa.BaseExtensionType):
            storage = plain.cast(declared.storage_type)
            return pa.chunked_array([declared.wrap_array(chunk) for chunk in storage.chunks], declared)
        is_encoded = pa.types.is_dictionary(declared) or pa.types.is_run_end_encoded(declared)
        return plain if is_encoded else plain.cast(declared)


def _counts(values: pa.Array | pa.ChunkedArray, counts: pa.Array) -> pa.Table:
    return pa.table({VALUE: values, COUNT: counts})


def _grouped(counts: pa.Table) -> pa.Table:
    """Add the counts of equal values."""
    found = counts.group_by(VALUE).aggregate([(COUNT, "sum")])
    return pa.table({VALUE: found[VALUE], COUNT: found[f"{COUNT}_sum"].cast(pa.int64())})


def _merged(pieces: Sequence[pa.Table]) -> pa.Table:
    """Add the counts of pieces, in each of which all values are distinct."""
    found = [piece for piece in pieces if piece.num_rows] or pieces[:1]
    return found[0] if len(found) == 1 else _grouped(pa.concat_tables(found))


def _condensed(pieces: list[pa.Table]) -> list[pa.Table]:
    """Merge partial results if they are large or many; the first one only if the others are as large."""
    if len(pieces) < 2:
        return pieces
    if sum(piece.num_rows for piece in pieces) > max(MERGED_ROWS, 2 * pieces[0].num_rows):
        return [_merged(pieces)]
    return [pieces[0], _merged(pieces[1:])] if len(pieces) > MERGED_PIECES else pieces
