"""Reading the rows of a run that match: the columns of each condition, then the other columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, methodcaller

import pyarrow as pa

from intarsia.arrow.comparison import comparison_array, comparison_type, flags_of, true_positions
from intarsia.arrow.nested import conform, field_type, field_values, rename_fields
from intarsia.arrow.owned_rows import decoded_type, filter_values, own_rows
from intarsia.errors import PredicateError, UnsupportedFeatureError
from intarsia.file.decode import RowTaker
from intarsia.predicate import Bound, Path, conditions, evaluate
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.read.output_columns import rows_without_columns
from intarsia.read.run_columns import RunColumns
from intarsia.records import dataclass
from intarsia.rows.selection import RowSelection
from intarsia.tuning import FEW_MATCHES_PART


@dataclass(frozen=True)
class _Found:
    """Rows that match, and their values of those of the predicate's columns that the query returns."""

    rows: RowSelection
    values: Mapping[Path, pa.ChunkedArray]

    def followed_by(self, other: _Found) -> _Found:
        """Return these rows and the later rows of another part."""
        if self.rows.is_empty or other.rows.is_empty:
            return self if other.rows.is_empty else other
        values = {
            path: pa.chunked_array([*column.chunks, *other.values[path].chunks], type=column.type)
            for path, column in self.values.items()
        }
        return _Found(self.rows | other.rows, values)

    def head(self, num_rows: int) -> _Found:
        """Return the first rows."""
        values = {path: column.slice(0, num_rows) for path, column in self.values.items()}
        return _Found(self.rows.head(num_rows), values)


_PATHS, _PATH, _NAME = methodcaller("paths"), attrgetter("path"), attrgetter("name")


class RowReader:
    """A reader of the rows of a run that match, which can be used once.

    Args:
        matches: The rows that match each stage, if they are known; the pages are then only fetched.
    """

    def __init__(
        self, query: FileQuery, columns: RunColumns, matches: Sequence[RowSelection] | None = None
    ) -> None:
        self._query = query
        self._columns = columns
        self._matches = matches

    def read(
        self, wanted: Iterable[RowSelection], stages: Sequence[Bound], limit: int | None = None
    ) -> tuple[pa.Table, RowSelection, int]:
        """Read the rows that match.

        Args:
            wanted: The rows that might match in parts, in ascending order.
            stages: The parts of the predicate, in order; empty for rows that are proven to match.
            limit: Read the predicate's columns only until this many rows match; None to read all parts.

        Returns:
            The columns of the query, the numbers of the rows, and the number of rows that might match.

        Raises:
            WrongPageIndexError: If the pages contradict the page index.
        """
        num_candidates = 0
        found = _Found(RowSelection.none(), {})
        for part in wanted:
            num_candidates += part.num_rows
            found = found.followed_by(self._find(part, stages))
            if limit is not None and found.rows.num_rows >= limit:
                found = found.head(limit)
                break
        rows = self._output(found)
        # all rows that were decoded own their memory, and dictionaries keep the values that no row has
        rows = rows if self._columns.has_only(found.rows) else own_rows(rows)
        return rows, found.rows, num_candidates

    def _find(self, wanted: RowSelection, stages: Sequence[Bound]) -> _Found:
        """Read the predicate's columns, and return the rows that match."""
        query = self._query
        rows = wanted
        values: dict[Path, pa.ChunkedArray] = {}
        outputs = set(map(_PATH, query.columns))
        for number, condition in enumerate(stages, start=1):
            mask = None
            needed = condition.paths().intersection(query.predicate_paths).difference(values)
            leaves = leaves_under(query.file, needed) if needed else []
            if self._matches is not None:
                self._columns.fetch(leaves, rows)
                values |= dict.fromkeys(needed)
                kept = rows & self._matches[number - 1]
            else:
                found = self._columns.decode(leaves, rows) if needed else {}
                schema, num_rows = query.file.arrow_schema, rows.num_rows
                values |= {path: _field(query, schema, found, path, num_rows) for path in needed}
                mask = self._evaluate(condition, values, rows)
                kept = _keep(rows, mask)
            if kept.is_empty:
                return _Found(kept, {})
            later = outputs.union(*map(_PATHS, stages[number:]))
            is_narrowed = mask is not None and kept.num_rows < rows.num_rows
            values = {
                path: _narrowed(column, rows, kept, mask) if is_narrowed else column
                for path, column in values.items()
                if path in later
            }
            rows = kept
        return _Found(rows, values)

    def _evaluate(
        self, condition: Bound, values: Mapping[Path, pa.ChunkedArray], rows: RowSelection
    ) -> pa.BooleanArray:
        """Evaluate a condition on columns in the types in which it compares them."""
        query = self._query
        columns: dict[Path, pa.ChunkedArray | pa.Array] = {}
        for path, data_type in {one.path: one.type for one in conditions(condition)}.items():
            if path in query.constants:
                columns[path] = query.constant_column(path, rows)
            elif path in values:
                column = values[path]
                plain = comparison_type(column.type)
                if plain != data_type:
                    column = _cast(query, comparison_array(column, plain), ".".join(path), data_type)
                columns[path] = column
        try:
            return evaluate(condition, columns, rows.num_rows)
        except PredicateError as error:  # a function has no result for a value
            error.at(query.file.path)
            raise

    def _output(self, found: _Found) -> pa.Table:
        """Read the other columns of the rows that match."""
        query, rows = self._query, found.rows
        if rows.is_empty:
            return select_columns(query, {}, 0)
        reused, unread = {}, []
        for column in query.columns:
            if column.path in found.values:
                reused[column.path] = found.values[column.path]
            else:
                unread.append(column.path)
        missing = leaves_under(query.file, unread)
        if self._matches is not None:
            self._columns.fetch(missing, rows)
            return select_columns(query, {}, 0)
        decoded = self._columns.decode(missing, rows) if missing else {}
        return select_columns(query, decoded, rows.num_rows, reused)


def select_columns(
    query: FileQuery,
    fields: Mapping[int, pa.ChunkedArray],
    num_rows: int,
    reused: Mapping[Path, pa.ChunkedArray] | None = None,
) -> pa.Table:
    """Build the query's columns in the types of the table.

    Args:
        fields: Top-level fields of the file by ordinal, each reduced to the leaves that were read.
        num_rows: Number of rows; if it is 0, fields are not used.
        reused: Columns that are built already, by path.

    Raises:
        UnsupportedFeatureError: If values of this file do not fit into the table's type.
    """
    arrays = []
    schema = query.file.arrow_schema
    for column in query.columns:
        if reused and column.path in reused:
            array = reused[column.path]
        elif num_rows == 0:
            array = pa.chunked_array([], type=column.type)
        else:
            array = _field(query, schema, fields, column.path, num_rows)
            if column.named_type is not None:
                array = rename_fields(array, decoded_type(column.named_type))
        is_kept = query.keeps_dictionaries and pa.types.is_dictionary(array.type)
        is_cast = array.type != column.type and not is_kept
        arrays.append(_cast(query, array, column.name, column.type) if is_cast else array)
    if not arrays:
        return rows_without_columns(num_rows)
    return pa.Table.from_arrays(arrays, names=list(map(_NAME, query.columns)))


def _field(
    query: FileQuery, schema: pa.Schema, fields: Mapping[int, pa.ChunkedArray], path: Path, num_rows: int
) -> pa.ChunkedArray:
    """Return a field or a struct field in it, which is null where a surrounding struct is null.

    Groups without any leaf are null, as in pyarrow: the file does not contain which of them are null.
    """
    root = schema.get_field_index(path[0])
    if root not in fields and not leaves_under(query.file, [path]):
        return pa.chunked_array([pa.nulls(num_rows, field_type(schema.field(root).type, path[1:]))])
    return field_values(fields[root], path[1:]) if len(path) > 1 else fields[root]


def _cast(query: FileQuery, column: pa.ChunkedArray, name: str, data_type: pa.DataType) -> pa.ChunkedArray:
    try:
        return conform(column, data_type)
    except pa.ArrowException as error:
        raise UnsupportedFeatureError(
            f"column {name!r} has the type {column.type} in this file and {data_type} in the table, and its "
            f"values cannot be converted: {error}; open the files of each type separately",
            reason="type-mismatch",
            path=query.file.path,
            column=name,
        ) from error


def _keep(rows: RowSelection, mask: pa.BooleanArray) -> RowSelection:
    """Select the rows that match; ``mask`` has one flag for each of them."""
    num_kept = mask.true_count
    if num_kept == len(mask):
        return rows
    if num_kept == 0:
        return RowSelection.none()
    is_sparse = num_kept * FEW_MATCHES_PART <= len(mask)  # without a byte for each row
    positions = (
        RowSelection.from_rows(true_positions(mask)) if is_sparse else RowSelection.from_mask(flags_of(mask))
    )
    return rows.at(positions)


def _narrowed(
    column: pa.ChunkedArray, rows: RowSelection, kept: RowSelection, mask: pa.BooleanArray
) -> pa.ChunkedArray:
    """Select the values of some of the rows; ``mask`` has one flag for each of them."""
    return RowTaker(rows, kept).of(column) if len(kept) == 1 else filter_values(column, mask)
