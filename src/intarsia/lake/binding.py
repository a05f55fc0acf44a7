"""Bind a query to each file of a table: names are the table's, types are the file's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import filterfalse
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.owned_rows import take_values
from intarsia.errors import PredicateError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.file.metadata import naming_errors
from intarsia.file.schema import FileSchema
from intarsia.format.arrow_stream import ExpansionBudget
from intarsia.lake.data_file import DataFile
from intarsia.lake.schema import file_view, lose_shredded_values
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import (
    Bound,
    BoundConstant,
    Constant,
    Not,
    Path,
    Predicate,
    bind,
    find_column,
    has_calls,
)
from intarsia.predicate.bound import conjoin, disjoin, renamed
from intarsia.predicate.nodes import Leaf, fold_nodes, innermost, leaves
from intarsia.read.file_query import FileQuery
from intarsia.read.output_columns import FileNames, OutputColumn, refuse_repeated, type_at
from intarsia.read.pruner import PruneStep, over_files
from intarsia.rows.bounds import Bools

#: Maximum memory for the expanded indexes of all files that one scan has open.
MAX_SCAN_EXPANDED_BYTES = 2 << 30

#: Most lakes have one schema, or a few. In a lake with a schema per file, not all bindings are cached.
_MAX_BINDINGS = 64

_FIRST, _PATH_AND_TYPE = itemgetter(0), attrgetter("path", "type")


class _Binding(NamedTuple):
    """The query bound to files of one schema.

    Attributes:
        predicate: The predicate, with the paths of the files.
        missing: The columns of the table that the files lack, and their types.
        names: The names of the columns in the files; None if they are those of the table.
    """

    predicate: Bound | None
    missing: Mapping[Path, pa.DataType]
    names: FileNames | None


class TableBinder:
    """Binds one query to the files of a table.

    Args:
        predicate: The rows to select; None for all.

    Attributes:
        predicate: The rows to select; None for all.

    Raises:
        PredicateError: If a literal cannot be compared with its column.
        ColumnNotFoundError: If the table lacks a column of the predicate.
    """

    def __init__(
        self, table: TableFiles, predicate: Predicate | None, columns: Sequence[OutputColumn]
    ) -> None:
        self._table = table
        self._definition = definition = table.definition
        self.predicate = predicate
        self._columns = tuple(columns)
        schema, partitions = definition.schema, definition.partitions
        self._bound = None if predicate is None else _bind_leaves(predicate, schema, definition.variants)
        asked = () if predicate is None else leaves(predicate)
        named = {innermost(leaf.column) for leaf in asked if not isinstance(leaf, Constant)}
        found = {name: find_column(schema, name)[0] for name in named}
        # the top-level columns of the predicate, which may be few of thousands
        self._of_predicate = dict.fromkeys(map(_FIRST, found.values()))
        self._partition_names = {name for name, path in found.items() if path in partitions.values}
        self._budget = ExpansionBudget(MAX_SCAN_EXPANDED_BYTES)
        self._bindings: dict[FileSchema, _Binding] = {}
        paths = self._bound.paths() if self._bound is not None else frozenset()
        self._paths: dict[Path, pa.DataType] = dict(map(_PATH_AND_TYPE, columns))
        for path in paths:
            self._paths.setdefault(path, find_column(schema, path)[1])
        # the partition columns that replace columns of the same names in files, and the other columns
        self._replacing = partitions.values if partitions.replaces_columns else {}
        self._wanted = list(filterfalse(self._replacing.__contains__, self._paths))
        self._decides_early = definition.mixed.isdisjoint(map(_FIRST, paths))

    @property
    def queried(self) -> list[OutputColumn]:
        """The columns of the result and of the predicate."""
        return [OutputColumn(path[-1], path, data_type) for path, data_type in self._paths.items()]

    def for_columns(self, columns: Sequence[OutputColumn]) -> TableBinder:
        """Return the same query with some columns; the same object if they are its own."""
        is_same = tuple(columns) == self._columns
        return self if is_same else TableBinder(self._table, self.predicate, columns)

    def exclude_unopened(self, relevant: Bools) -> Sequence[PruneStep]:
        """Return the files that partition values and the log of a table format exclude; a file is one row."""
        is_declared = self._table.is_declared
        if self._bound is None or (is_declared and not self._decides_early):
            return ()
        partitions, statistics = self._definition.partitions, self._definition.statistics
        if not (self._partition_names or statistics or isinstance(self._bound, BoundConstant)):
            return ()
        pruner = over_files(
            self._bound if is_declared else self._bind_partitions(),
            self._table.file_bytes,
            relevant,
            partitions.values,
            lambda _: True,
            partitions.is_known,
        )
        if statistics is not None:
            pruner.use(statistics.proof)
        return pruner.steps

    def _bind_partitions(self) -> Bound:
        """Bind the conditions on partition columns of plain files; any other might match.

        A literal outside the table's type may be a value of another file's type, or of that of a file that
        has replaced one since the schema was read.
        """
        partitions = self._definition.partitions.values
        schema = pa.schema([(name, values.type) for (name,), values in partitions.items()])

        def bind_leaf(leaf: Leaf, negate: bool) -> Bound:
            if not isinstance(leaf, Constant) and innermost(leaf.column) not in self._partition_names:
                return BoundConstant(True)
            return bind(Not(leaf) if negate else leaf, schema)

        return fold_nodes(self.predicate, bind_leaf, conjoin, disjoin)

    def bind_family(
        self, schema: FileSchema, path: str, files: npt.NDArray[np.int64] | Sequence[int]
    ) -> tuple[Bound | None, dict[Path, pa.Array]]:
        """Bind the query to files of the table that have the same columns.

        Args:
            path: The path of one of them, for errors.
            files: The ordinals of the files in the table.

        Returns:
            The predicate, and the columns with one value in each file: for each of them, a value per file.
            Both have the paths of the files.

        Raises:
            PredicateError: If the types of the files cannot be compared with the predicate's literals.
        """
        binding = self._bind(path, schema)
        return binding.predicate, self._constants(binding, files)

    def query(self, entry: DataFile, file: ParquetInput) -> FileQuery:
        """Bind the query to one open file.

        Raises:
            PredicateError: If this file's types cannot be compared with the predicate's literals.
        """
        binding = self._bind(file.path, file.schema)
        constants: dict[Path, pa.Array] = {}
        if self._replacing or binding.missing:
            constants = self._constants(binding, [self._table.ordinals[entry.path]])
        return FileQuery.of(
            file,
            binding.predicate,
            self._columns,
            constants,
            self._budget,
            binding.names,
            entry.deleted_rows(file.footer.num_rows),
            self._table.kept_indexes,
            deleted_by=entry.deleted_by,
        )

    def names_of(self, names: FileNames | None) -> FileNames | None:
        """Return the names in a file of the columns of the query, given those of all columns."""
        return None if names is None else names.only({*self._of_predicate, *map(_FIRST, self._paths)})

    def view(self, arrow_schema: pa.Schema) -> pa.Schema:
        """Return the schema to bind the predicate to: its columns in the file's types (`file_view`).

        A partition column's type is the table's, even if the file has a column of that name. If only the
        table's types accept a literal, such as ``'1.5'`` for a decimal that is an integer in the file, all
        types are the table's, and the file's values are cast before they are compared. So are those of
        functions, because the local time of a timestamp depends on the zone of its type.

        Args:
            arrow_schema: The columns of the file, with the names of the table.
        """
        names, whole = self._of_predicate, self._definition.schema
        schema = pa.schema([whole.field(name) for name in names])
        own = [
            arrow_schema.field(ordinal)
            for name in names
            if (name,) not in self._replacing and (ordinal := arrow_schema.get_field_index(name)) >= 0
        ]
        view = file_view(schema, pa.schema(own))
        if self.predicate is None or (self._decides_early and not self._table.is_declared):
            return view
        if has_calls(self.predicate):
            return schema
        try:
            bind(self.predicate, view)
        except PredicateError:
            return schema
        return view

    def _constants(
        self, binding: _Binding, files: npt.NDArray[np.int64] | Sequence[int]
    ) -> dict[Path, pa.Array]:
        """Return the columns that are not read from files, by their paths in the files."""
        found = {path: take_values(values, files) for path, values in self._replacing.items()}
        for missing, data_type in binding.missing.items():
            found[missing] = self._definition.absent_values(missing, data_type, files)
        names = binding.names
        return found if names is None else {names.path(path): values for path, values in found.items()}

    def _bind(self, file_path: str, schema: FileSchema) -> _Binding:
        """Bind the query to files of one schema."""
        known = self._bindings.get(schema)
        if known is not None:
            return known
        names, definition = self._table.names_in(schema, file_path), self._definition
        here = schema.arrow if names is None else names.schema
        refuse_repeated(here, set(map(_FIRST, self._wanted)), file_path)
        if names is not None:
            refuse_repeated(names.own, {names.path(path)[0] for path in self._wanted}, file_path)
        bound, has_all = self._bound, here.equals(definition.schema)
        if not has_all and names is None and schema.variants:
            roots = set(map(_FIRST, schema.variants)) & set(map(_FIRST, self._wanted))
            _refuse_other_shreddings(here, definition.schema, roots, file_path)
        is_same = has_all and schema.variants == definition.variants
        wanted = () if has_all else self._wanted
        missing = {path: self._paths[path] for path in wanted if type_at(here, path) is None}
        if self.predicate is not None and not is_same:
            with naming_errors(file_path):
                bound = _bind_leaves(self.predicate, self.view(here), schema.variants)
        if bound is not None and names is not None:
            bound = renamed(bound, names.path)
        if len(self._bindings) >= _MAX_BINDINGS:
            self._bindings.clear()
        found = self._bindings[schema] = _Binding(bound, missing, names)
        return found


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
    if variants:
        _refuse_variants(bound.paths(), variants)
    return bound


def _refuse_other_shreddings(file: pa.Schema, table: pa.Schema, names: Iterable[str], path: str) -> None:
    """Refuse columns with VARIANTs that a file shreds into other parts than the table has.

    Raises:
        UnsupportedFeatureError: If there is one.
    """
    for name in names:
        if lose_shredded_values(file.field(name).type, table.field(name).type):
            raise UnsupportedFeatureError(
                f"column {name!r} is or contains a VARIANT, which this file shreds into other parts than the "
                "table has; leave the column out, or open the files of each shredding separately",
                reason="other-shredding",
                path=path,
                column=name,
            )


def _refuse_variants(paths: Iterable[Path], variants: Set[Path]) -> None:
    for path in paths:
        if any(path[: len(variant)] == variant for variant in variants):
            name = ".".join(path)
            raise PredicateError(
                f"column {name!r} is (part of) a VARIANT, which conditions cannot compare; "
                "read the column and filter the rows",
                reason="variant-column",
                column=name,
            )
