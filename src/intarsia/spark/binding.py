"""Bind a Spark predicate to one file or to all of a table: names, types and comparisons are Spark's.

Spark truncates INT96 to whole microseconds. Arrow, and so every index, has nanoseconds in 64 bits, which end
in 2262. A later value (often 9999-12-31) overflows to another time. Equality still works, because equal
instants overflow to equal values. Order works only if no value has overflowed. Indexes record whether their
column has such values when they are built.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import IntarsiaError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.file.schema import FileSchema
from intarsia.format.enums import Type
from intarsia.lake.data_file import DataFile, Partition, partitions_of
from intarsia.lake.definition import ColumnNames, NamedField
from intarsia.predicate import (
    And,
    Bound,
    BoundConstant,
    Call,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Path,
    Predicate,
    bind,
    evaluate,
)
from intarsia.predicate.bound import conjoin, disjoin
from intarsia.predicate.nodes import Leaf as AnyLeaf
from intarsia.predicate.nodes import RegexpLike, fold_nodes, innermost
from intarsia.read.file_query import FileQuery
from intarsia.read.output_columns import OutputColumn
from intarsia.read.pruner import PruneStep
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.spark.conditions import spark_semantics, weaken
from intarsia.spark.spark_types import partition_value, reads_as_is

_ANY = BoundConstant(True)

#: A condition.
Leaf = Comparison | In | IsNull | Like


@dataclass(frozen=True, eq=False)
class SparkBinder:
    """Binds a weakened predicate to files, with the semantics of Spark's reader; a `TableQuery`.

    Each condition is bound separately. A condition that cannot be bound to a file is TRUE there.

    Attributes:
        predicate: The result of `intarsia.spark.conditions.weaken`.
        types: Spark's types of the columns in it.
        case_sensitive: Whether column names are case sensitive.
        columns: Top-level columns that will be read, for the report; None for all.
        int96_as_moments: Whether Spark reads INT96 of every writer as instants, without adjustment.
        filled: Names, in lower case, of the columns that have a default in files without them.
        names: The names of a table's columns in its files; None if they are the same.
        partitions: The distinct partition values of the files of a table; see `of_table`.
        partition_of: For each file, the ordinal of its partition values.
    """

    predicate: Predicate
    types: Mapping[Path, str]
    _: KW_ONLY
    case_sensitive: bool
    columns: Sequence[str] | None = None
    int96_as_moments: bool = True
    filled: Collection[str] = ()
    names: ColumnNames | None = None
    partitions: Sequence[Partition] = ()
    partition_of: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def of_table(self, files: Sequence[DataFile]) -> SparkBinder:
        """Return the binder of the files of a table."""
        partitions, partition_of = partitions_of(files)
        return replace(self, partitions=partitions, partition_of=partition_of)

    def _excluding_columns(self, partition: Partition) -> str | None:
        """Return the partition columns that exclude files with these values; None if they do not."""
        by_partition = _bound(self.predicate, lambda leaf: self._partition_leaf(leaf, partition) or _ANY)
        if by_partition != BoundConstant(False):
            return None
        queried = {path[0].lower() for path in self.types}
        return ", ".join(name for name, _ in partition if name.lower() in queried) or "constant"

    def query(self, entry: DataFile, file: ParquetInput) -> FileQuery:
        """Bind the predicate and the columns to one open file, in its own types."""

        def bound(leaf: Leaf) -> Bound:
            return self._partition_leaf(leaf, entry.partition) or self._file_leaf(leaf, file.schema, file)

        names = None if self.names is None else self.names.in_files(file.schema)
        columns = self._output(file.arrow_schema if names is None else names.schema)
        return FileQuery.of(file, _bound(self.predicate, bound), columns, names=names)

    def exclude_unopened(self, relevant: Bools) -> Sequence[PruneStep]:
        """Return the files that partition values exclude, and the columns that prove it.

        Args:
            relevant: The files that matter.
        """
        columns = [self._excluding_columns(partition) for partition in self.partitions]
        is_excluded = np.array([column is not None for column in columns], dtype=bool)
        if not is_excluded.any():
            return ()
        excluded = is_excluded[self.partition_of] & relevant
        if not excluded.any():
            return ()
        proven_by = ", ".join(dict.fromkeys(column for column in columns if column is not None))
        before, after = RowSelection.from_mask(relevant), RowSelection.from_mask(relevant & ~excluded)
        return [PruneStep("partition", proven_by, before, after)]

    def bind_family(
        self,
        schema: FileSchema,
        path: str,  # noqa: ARG002
        files: npt.NDArray[np.int64],
    ) -> tuple[Bound, dict[Path, pa.Array]]:
        """Bind the predicate to files with the same columns.

        Spark converts a partition value to the type of each condition. So each condition on a partition
        column becomes a boolean column, which has its value in each file.

        Args:
            schema: The schema of the files.
            path: The path of one of them.
            files: The ordinals of the files in the table.

        Returns:
            The predicate, and the columns with one value in each file: for each of them, a value per file.
        """
        ordinals, partition_of = np.unique(self.partition_of[files], return_inverse=True)
        partitions = [self.partitions[ordinal] for ordinal in ordinals.tolist()]
        constants: dict[Path, pa.Array] = {}

        def bound(leaf: Leaf) -> Bound:
            answers = [self._partition_leaf(leaf, partition) for partition in partitions]
            if not any(answers):
                return self._file_leaf(leaf, schema, None)
            name = f"{'.'.join(innermost(leaf.column))} (condition {len(constants) + 1})"
            might_match = np.array([answer != BoundConstant(False) for answer in answers], dtype=bool)
            constants[name,] = pa.array(might_match[partition_of])
            return bind(Comparison((name,), "=", True), pa.schema([(name, pa.bool_())]))

        return _bound(self.predicate, bound), constants

    def _partition_leaf(self, leaf: Leaf, partition: Partition) -> Bound | None:
        """Evaluate a leaf on a partition column; None for other leaves."""
        path = tuple(innermost(leaf.column))
        values = [value for name, value in partition if self._folded(name) == self._folded(path[0])]
        if not values:
            return None
        value = partition_value(values[0], self.types[path]) if len(path) == 1 else None
        if value is None:
            return _ANY
        try:
            bound = bind(leaf, pa.schema([(path[0], value.type)]))
        except IntarsiaError:
            return _ANY
        return BoundConstant(evaluate(bound, {path: pa.array([value.as_py()], value.type)}, 1)[0].as_py())

    def _folded(self, name: str) -> str:
        return name if self.case_sensitive else name.lower()

    def _file_leaf(self, leaf: Leaf, file_schema: FileSchema, file: ParquetInput | None) -> Bound:
        """Bind a leaf on a column of a file, or of all files with a schema."""
        schema = file_schema.arrow
        names = tuple(innermost(leaf.column))
        try:
            found = self._find(file_schema, names)
        except UnsupportedFeatureError:  # a file without field ids
            return _ANY
        if found is None:  # Spark reads nulls, or the column's default
            if names[0].lower() in self.filled:
                return _ANY
            return BoundConstant(isinstance(leaf, IsNull) and not leaf.negated)
        path, data_type = found
        if path is None:
            return _ANY
        spark_type = self.types[names]
        column = replace(leaf.column, operand=path) if isinstance(leaf.column, Call) else path
        there = replace(leaf, column=column)
        here: Predicate = there
        if spark_type == "timestamp" and self.int96_as_moments and is_int96(file_schema, path):
            here = as_nanoseconds(there, file_schema, file)
        elif not (isinstance(leaf, IsNull) and column is path) and not reads_as_is(spark_type, data_type):
            return _ANY
        try:
            return _bound(here, lambda leaf: spark_semantics(bind(leaf, schema)))
        except IntarsiaError:
            return _ANY

    def _find(self, schema: FileSchema, names: Path) -> tuple[Path | None, pa.DataType] | None:
        """Find a column in a file's schema: its path (None if ambiguous) and type; None if it is missing."""
        if self.names is None:
            return self._field(schema.roots_by_folded_name.get(names[0].lower(), []), names)
        if all(self._folded(field.name) != self._folded(names[0]) for field in self.names.fields):
            return None, pa.null()
        in_file = self.names.in_files(schema)
        found = self._field(schema.arrow if in_file is None else in_file.schema, names)
        if in_file is None or found is None or found[0] is None:
            return found
        return in_file.path(found[0]), found[1]

    def _field(self, fields: Iterable[pa.Field], names: Path) -> tuple[Path | None, pa.DataType] | None:
        """Find a column among fields, as `_find`."""
        path: list[str] = []
        data_type = pa.null()
        for name in names:
            found = [field for field in fields if self._folded(field.name) == self._folded(name)]
            if not found:
                return None
            if len(found) > 1:
                return None, data_type
            path.append(found[0].name)
            data_type = found[0].type
            fields = data_type if pa.types.is_struct(data_type) else ()
        return tuple(path), data_type

    def _output(self, schema: pa.Schema) -> list[OutputColumn]:
        wanted = None if self.columns is None else {name.lower() for name in self.columns}
        return [
            OutputColumn(field.name, (field.name,), field.type)
            for field in schema
            if wanted is None or field.name.lower() in wanted
        ]


def _bound(predicate: Predicate, leaf: Callable[[Leaf], Bound]) -> Bound:
    """Bind each leaf of a weakened predicate separately; a leaf that cannot be bound is TRUE."""

    def bound(node: AnyLeaf, negated: bool) -> Bound:
        assert not negated
        assert not isinstance(node, RegexpLike)
        return BoundConstant(bool(node.value)) if isinstance(node, Constant) else leaf(node)

    return fold_nodes(predicate, bound, conjoin, disjoin)


_NANOSECONDS: Final = 1000
_MOST: Final = (1 << 63) - 1 - _NANOSECONDS


def is_int96(schema: FileSchema, path: Path) -> bool:
    """Return whether a column of a file is an INT96 that Arrow reads as a timestamp."""
    leaf = schema.leaves_by_path.get(path)
    if leaf is None or leaf.type != Type.INT96:
        return False
    data_type = schema.leaf_types.get(leaf.ordinal)
    return data_type is not None and pa.types.is_timestamp(data_type) and data_type.unit == "ns"


def as_nanoseconds(leaf: Leaf, schema: FileSchema, file: ParquetInput | None) -> Predicate:
    """Convert a condition on an INT96 column to Arrow's nanoseconds; weaker where values may overflow.

    Args:
        leaf: The condition, on a path of the file; its values are instants in microseconds.
        schema: The schema of the file.
        file: The file; None if only its schema is known.
    """
    if isinstance(leaf, IsNull):
        return leaf
    path = tuple(innermost(leaf.column))
    # the unit that represents every value exactly, as recorded by an index of the column
    directory = None if file is None else file.directory
    entries = () if directory is None else directory.entries
    unit = next((entry.int96_unit for entry in entries if path in entry.columns and entry.int96_unit), None)
    data_type = schema.leaf_types[schema.leaves_by_path[path].ordinal]
    if isinstance(leaf, In):
        moments = [_nanoseconds(value) for value in leaf.values]
        if unit == "us" and None not in moments:
            return In(path, tuple(pa.scalar(moment, data_type) for moment in moments), leaf.negated)
        return IsNull(path, negated=True)
    moment = _nanoseconds(leaf.value) if isinstance(leaf, Comparison) else None
    if not isinstance(leaf, Comparison) or moment is None:
        return Constant(True)
    if unit == "us":
        return Comparison(path, leaf.op, pa.scalar(moment, data_type))
    # Spark truncates less than a microsecond
    later = Comparison(path, "<", pa.scalar(moment + _NANOSECONDS, data_type))
    earlier = Comparison(path, ">", pa.scalar(moment - _NANOSECONDS, data_type))
    if leaf.op == "=":
        return And((later, earlier))
    if unit is None or leaf.op == "<>":
        return IsNull(path, negated=True)
    return later if leaf.op in ("<", "<=") else earlier


def _nanoseconds(value: object) -> int | None:
    """Return an instant in nanoseconds; None if it is not an instant or would overflow."""
    if not isinstance(value, pa.TimestampScalar) or value.type.unit != "us" or not value.is_valid:
        return None
    moment = int(value.value) * _NANOSECONDS
    return moment if abs(moment) < _MOST else None


# --- tables of Delta and Iceberg --------------------------------------------------------------------------

#: From this field id on, columns are metadata, such as the path of the file.
_FIRST_RESERVED: Final = 2**31 - 201

#: A field of a schema in the JSON of Spark or Iceberg.
_Field: TypeAlias = "Mapping[str, Any]"


def binder_of(request: Mapping[str, Any], columns: Sequence[str] | None = None) -> SparkBinder:
    """Return the binder of a request.

    Args:
        request: The request of ``ScanPlanner.java``.
        columns: Top-level columns that will be read; None for all.
    """
    predicate, types, filled = weaken(request["condition"])
    settings, table, mapped = request["settings"], request.get("iceberg"), request.get("delta")
    names = None if mapped is None else delta_names(mapped)
    if table is not None:
        names, with_default = iceberg_names(table)
        filled |= with_default
    return SparkBinder(
        predicate,
        types,
        case_sensitive=settings["case_sensitive"],
        columns=columns,
        # Iceberg has its own reader of INT96
        int96_as_moments=not settings["int96_conversion"] and table is None,
        filled=filled,
        names=names,
    )


def delta_names(table: Mapping[str, Any]) -> ColumnNames:
    """Return the columns that a Delta table has in its files.

    Args:
        table: The ``mode`` of its column mapping, and its ``schema`` in Spark's JSON.

    Example:
        >>> mapping = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
        >>> field = {"name": "user", "type": "long", "nullable": True, "metadata": mapping}
        >>> schema = json.dumps({"type": "struct", "fields": [field]})
        >>> [field.name for field in delta_names({"mode": "name", "schema": schema}).fields]
        ['user']
    """

    def mapping(field: _Field) -> tuple[int, tuple[str, ...]]:
        found = field["metadata"]
        return found["delta.columnMapping.id"], (found["delta.columnMapping.physicalName"],)

    fields = json.loads(table["schema"])["fields"]
    return ColumnNames(tuple(_named(field, mapping) for field in fields), by_id=table["mode"] == "id")


def iceberg_names(table: Mapping[str, Any]) -> tuple[ColumnNames, frozenset[str]]:
    """Return the columns that an Iceberg table has in its files, and those of them that have defaults.

    Columns whose values come from the partition are left out: Iceberg does not read them from files.

    Args:
        table: Its ``schema`` and ``name_mapping`` in Iceberg's JSON, and the ids of the columns whose values
            come ``from_partitions``.

    Returns:
        The columns; and the names, in lower case, of those with a default in files without them.

    Example:
        >>> field = {"id": 1, "name": "user", "required": False, "type": "long", "initial-default": 7}
        >>> schema = json.dumps({"type": "struct", "fields": [field]})
        >>> names, filled = iceberg_names({"schema": schema, "name_mapping": None, "from_partitions": []})
        >>> [field.name for field in names.fields], filled
        (['user'], frozenset({'user'}))
    """
    mapped = _nested(json.loads(table["name_mapping"] or "[]"), lambda one: one.get("fields", ()))
    # the names that fields have in files without ids
    aliases = {one["field-id"]: tuple(one["names"]) for one in mapped if one.get("field-id") is not None}
    hidden, fields, filled = set(table["from_partitions"]), [], set()
    for column in json.loads(table["schema"])["fields"]:
        nested = list(_nested([column], _children))
        if column["id"] < _FIRST_RESERVED and hidden.isdisjoint(one["id"] for one in nested):
            fields.append(_named(column, lambda one: (one["id"], aliases.get(one["id"], ()))))
            if any(one.get("initial-default") is not None for one in nested):
                filled.add(column["name"].lower())
    return ColumnNames(tuple(fields), by_id=True), frozenset(filled)


def _named(field: _Field, mapping: Callable[[_Field], tuple[int, tuple[str, ...]]]) -> NamedField:
    """Return a field with the id and the other names that a mapping has for it and the fields in it."""
    children = tuple(_named(child, mapping) for child in _children(field))
    return NamedField(field["name"], *mapping(field), children)


def _children(field: _Field) -> Sequence[_Field]:
    """Return the fields of a struct; those in lists and maps are not conditions of a column."""
    data_type = field["type"]
    is_struct = isinstance(data_type, dict) and data_type["type"] == "struct"
    return data_type["fields"] if is_struct else ()


def _nested(fields: Iterable[_Field], children: Callable[[_Field], Iterable[_Field]]) -> Iterator[_Field]:
    """Yield fields, and the fields in them."""
    for one in fields:
        yield one
        yield from _nested(children(one), children)
