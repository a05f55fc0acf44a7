"""Bind a query to each file of a table: names are the table's, types are the file's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.owned_rows import take_values
from intarsia.errors import PredicateError
from intarsia.file import ParquetInput
from intarsia.file.schema import FileSchema
from intarsia.format.arrow_stream import ExpansionBudget
from intarsia.lake.data_file import DataFile
from intarsia.lake.schema import file_view
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import (
    Bound,
    Path,
    Predicate,
    bind,
    find_column,
    has_calls,
)
from intarsia.read.file_names import FileNames
from intarsia.read.file_query import FileQuery
from intarsia.read.output_columns import OutputColumn, refuse_repeated, type_at
from intarsia.read.pruner import PruneStep, over_files
from intarsia.rows.bounds import Bools

#: Maximum memory for the expanded indexes of all files that one scan has open.
MAX_SCAN_EXPANDED_BYTES = 2 << 30

#: Most lakes have one schema, or a few. In a lake with a schema per file, not all bindings are cached.
_MAX_BINDINGS = 64


@dataclass(frozen=True)
class _Binding:
    """The query bound to files of one schema.

    Attributes:
        predicate: The predicate, with the paths of the files.
        missing: The columns of the table that the files lack, and their types.
        names: The names of the columns in the files; None if they are those of the table.
    """

    predicate: Bound | None
    missing: Mapping[Path, pa.DataType]
    names: FileNames | None

    def own(self, path: Path) -> Path:
        """Return the path in the files of a path in the table."""
        return path if self.names is None else self.names.path(path)


class TableBinder:
    """Binds one query to the files of a table.

    Args:
        table: The table.
        predicate: The rows to select; None for all.
        columns: The columns of the result.

    Raises:
        PredicateError: If a literal cannot be compared with its column.
        ColumnNotFoundError: If the table lacks a column of the predicate.
    """

    def __init__(
        self, table: TableFiles, predicate: Predicate | None, columns: Sequence[OutputColumn]
    ) -> None:
        self._table = table
        self._predicate = predicate
        self._columns = tuple(columns)
        self._bound = None if predicate is None else _bind_leaves(predicate, table.schema, table.variants)
        self._budget = ExpansionBudget(MAX_SCAN_EXPANDED_BYTES)
        self._bindings: dict[FileSchema, _Binding] = {}
        paths = self._bound.paths() if self._bound is not None else frozenset()
        self._paths: dict[Path, pa.DataType] = {column.path: column.type for column in columns}
        for path in paths:
            self._paths.setdefault(path, find_column(table.schema, path)[1])
        # a literal that is outside the table's type may still be a value of another file's type
        self._decides_early = not {path[0] for path in paths} & table.table_schema.mixed

    @property
    def predicate(self) -> Predicate | None:
        """The rows to select; None for all."""
        return self._predicate

    @property
    def queried(self) -> list[OutputColumn]:
        """The columns of the result and of the predicate."""
        return [OutputColumn(path[-1], path, data_type) for path, data_type in self._paths.items()]

    def for_columns(self, columns: Sequence[OutputColumn]) -> TableBinder:
        """Return the same query with some columns; the same object if they are its own."""
        is_same = tuple(columns) == self._columns
        return self if is_same else TableBinder(self._table, self._predicate, columns)

    def exclude_unopened(self, relevant: Bools) -> Sequence[PruneStep]:
        """Return the files that partition values and the log of a table format exclude; a file is one row.

        Args:
            relevant: The relevant files.
        """
        if self._bound is None or not self._decides_early:
            return ()
        table = self._table
        pruner = over_files(
            self._bound,
            table.file_bytes,
            relevant,
            table.partition_values,
            lambda _: True,
            table.partition_columns.is_known,
        )
        if table.log_statistics is not None:
            pruner.use(table.log_statistics.proof)
        return pruner.steps

    def bind_family(
        self, schema: FileSchema, path: str, files: npt.NDArray[np.int64]
    ) -> tuple[Bound | None, dict[Path, pa.Array]]:
        """Bind the query to files of the table that have the same columns.

        Args:
            schema: The schema of the files.
            path: The path of one of them, for errors.
            files: The ordinals of the files in the table.

        Returns:
            The predicate, and the columns with one value in each file: for each of them, a value per file.
            Both have the paths of the files.

        Raises:
            PredicateError: If the types of the files cannot be compared with the predicate's literals.
        """
        columns = self._replacing
        binding = self._bind(path, schema)
        constants = {binding.own(path): take_values(values, files) for path, values in columns.items()}
        for missing, data_type in binding.missing.items():
            constants[binding.own(missing)] = self._table.absent_values(missing, data_type, files)
        return binding.predicate, constants

    def query(self, entry: DataFile, file: ParquetInput) -> FileQuery:
        """Bind the query to one open file.

        Raises:
            PredicateError: If this file's types cannot be compared with the predicate's literals.
        """
        binding = self._bindings.get(file.schema)
        if binding is None:
            with file.named_errors():
                binding = self._bind(file.path, file.schema)
            if len(self._bindings) >= _MAX_BINDINGS:
                self._bindings.clear()
            self._bindings[file.schema] = binding
        values = dict(self._table.partition_columns.of_file(entry)) if self._replacing else {}
        values |= self._table.absent_constants(entry, binding.missing)
        if binding.names is not None:
            values = {binding.own(path): value for path, value in values.items()}
        return FileQuery.of(
            file,
            binding.predicate,
            self._columns,
            values,
            self._budget,
            binding.names,
            entry.deleted_rows(),
            self._table.kept_indexes,
            deleted_by=entry.deleted_by,
        )

    @property
    def _replacing(self) -> Mapping[Path, pa.Array]:
        """The partition columns that replace columns of the same names in files."""
        return self._table.partition_values if self._table.partition_columns.replaces_columns else {}

    def view(self, arrow_schema: pa.Schema) -> pa.Schema:
        """Return the schema to bind the predicate to: the table's columns in the file's types (`file_view`).

        A partition column's type is the table's, even if the file has a column of that name. If only the
        table's types accept a literal, such as ``'1.5'`` for a decimal that is an integer in the file, all
        types are the table's, and the file's values are cast before they are compared. So are those of
        functions, because the local time of a timestamp depends on the zone of its type.

        Args:
            arrow_schema: The columns of the file, with the names of the table.
        """
        own = pa.schema([field for field in arrow_schema if (field.name,) not in self._replacing])
        view = file_view(self._table.schema, own)
        if self._predicate is None or (self._decides_early and not self._table.is_declared):
            return view
        if has_calls(self._predicate):
            return self._table.schema
        try:
            bind(self._predicate, view)
        except PredicateError:
            return self._table.schema
        return view

    def _bind(self, file_path: str, schema: FileSchema) -> _Binding:
        partition = self._replacing
        names = self._table.names_in(schema, file_path)
        here = schema.arrow if names is None else names.schema
        wanted = [path for path in self._paths if path not in partition]
        refuse_repeated(here, {path[0] for path in wanted}, file_path)
        if names is not None:
            refuse_repeated(names.own, {names.path(path)[0] for path in wanted}, file_path)
        missing = {
            path: data_type
            for path, data_type in self._paths.items()
            if path not in partition and type_at(here, path) is None
        }
        if self._predicate is None:
            return _Binding(None, missing, names)
        if here.equals(self._table.schema) and schema.variants == self._table.variants:
            return _Binding(self._own(self._bound, names), missing, names)
        try:
            bound = _bind_leaves(self._predicate, self.view(here), schema.variants)
            return _Binding(self._own(bound, names), missing, names)
        except PredicateError as error:
            raise PredicateError(
                f"{file_path}: {error}", reason=error.reason, path=file_path, column=error.column
            ) from error

    @staticmethod
    def _own(bound: Bound | None, names: FileNames | None) -> Bound | None:
        """Return a predicate with the paths of a file."""
        return bound if bound is None or names is None else names.predicate(bound)


def _bind_leaves(predicate: Predicate, schema: pa.Schema, variants: Set[Path]) -> Bound:
    """Bind a predicate, and refuse conditions on VARIANT columns and their parts.

    The parts are encoded: a shredded value is in `typed_value` in some rows and in `value` in others, so a
    condition on either would miss rows.

    Raises:
        PredicateError: As `bind`; or a condition is on a VARIANT column.
    """
    try:
        bound = bind(predicate, schema)
    except PredicateError as error:
        if error.reason == "nested-column" and error.column is not None:
            _refuse_variants([find_column(schema, error.column)[0]], variants)
        raise
    _refuse_variants(bound.paths(), variants)
    return bound


def _refuse_variants(paths: Iterable[Path], variants: Set[Path]) -> None:
    for path in paths:
        for variant in variants:
            if path[: len(variant)] == variant:
                name = ".".join(path)
                raise PredicateError(
                    f"column {name!r} is (part of) a VARIANT, which conditions cannot compare; "
                    "read the column and filter the rows",
                    reason="variant-column",
                    column=name,
                )
