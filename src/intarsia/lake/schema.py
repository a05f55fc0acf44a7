"""The schema of many files: the columns of all files by name, or of the first, in the widest types."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa

from intarsia.arrow.comparison import comparison_type
from intarsia.errors import UnsupportedFeatureError
from intarsia.lake.widening import is_text, widest

#: The columns of a table: those of all files in the order in which they are first seen, or of the first.
SchemaOf: TypeAlias = Literal["union", "first"]

#: Number of preceding schemas that a schema is compared with.
_LOOK_BACK = 8

#: At most this many names are listed in a warning.
_NAMES_SHOWN = 5


@dataclass(frozen=True)
class TableSchema:
    """The common schema of a table's files.

    Attributes:
        schema: The columns, in the widest types.
        mixed: Columns with different types in different files.
        warnings: Warnings about columns that may have been renamed.
    """

    schema: pa.Schema
    mixed: frozenset[str]
    warnings: tuple[str, ...]


def table_schema(
    schemas: Iterable[tuple[str, pa.Schema]], columns_of: SchemaOf = "union", replaced: Container[str] = ()
) -> TableSchema:
    """Return the common schema of a table's files.

    Args:
        schemas: The paths and schemas of the readable files in the order of the files; at least one.
        columns_of: The files whose columns the table has.
        replaced: Columns whose types do not matter, because partition columns replace them.

    Raises:
        UnsupportedFeatureError: If no type has the values of a column of two files. With the columns of the
            first file, the column then has the type of the first file.

    Example:
        >>> files = [("1", pa.schema({"a": pa.int32()})), ("2", pa.schema({"a": pa.int64(), "b": pa.int8()}))]
        >>> found = table_schema(files)
        >>> found.schema.types, found.mixed
        ([DataType(int64), DataType(int8)], frozenset({'a'}))
        >>> table_schema(files, "first").schema.names
        ['a']
    """
    counted: list[_Counted] = []
    for path, schema in schemas:
        # adjacent files usually have the same schema; counting a schema twice is harmless
        if counted and counted[-1].schema is schema:
            counted[-1].add_file()
            continue
        near = counted[-_LOOK_BACK:]
        known = next((seen for seen in near if seen.schema is schema or seen.schema.equals(schema)), None)
        if known is None:
            counted.append(_Counted(path, schema))
        else:
            known.add_file()
    first = counted[0].schema
    columns: dict[str, _Column] = {}
    for one in counted:
        for found in _distinct(one.schema):
            column = columns.get(found.name)
            if column is not None:
                column.add(one.path, found, columns_of, is_replaced=found.name in replaced)
            elif columns_of == "union" or one is counted[0]:
                columns[found.name] = _Column(one.path, found)
    fields = {name: column.result(len(counted)) for name, column in columns.items()}
    # the first file's repeated names remain, so that scans of them are refused
    own = [found if first.get_field_index(found.name) < 0 else fields[found.name] for found in first]
    own_names = set(first.names)
    added = [field for name, field in fields.items() if name not in own_names]
    schema = pa.schema(own + added, metadata=first.metadata)
    mixed = frozenset(name for name, column in columns.items() if column.is_mixed)
    warnings = _renamed(counted, schema) if columns_of == "union" else _lacking(counted)
    return TableSchema(schema, mixed, tuple(warnings))


@dataclass
class _Counted:
    """A schema, a file that has it, and the number of files that do."""

    path: str
    schema: pa.Schema
    num_files: int = 1

    def add_file(self) -> None:
        """Count another file with this schema."""
        self.num_files += 1


def _distinct(schema: pa.Schema) -> Iterable[pa.Field]:
    """Return the fields of a schema; of several with the same name the first."""
    if len(set(schema.names)) == len(schema.names):
        return list(schema)
    return {found.name: found for found in reversed(list(schema))}.values()


class _Column:
    """A column of the table, in the widest type so far.

    Args:
        path: The first file with the column.
        found: The column in this file.
    """

    def __init__(self, path: str, field: pa.Field) -> None:
        self._path = path
        self._field = field
        self._is_nullable = field.nullable
        self.is_mixed = False
        self._num_schemas = 1

    def result(self, num_schemas: int) -> pa.Field:
        """Return the column of a table whose files have this number of schemas."""
        return self._field.with_nullable(self._is_nullable or self._num_schemas < num_schemas)

    def add(self, path: str, field: pa.Field, columns_of: SchemaOf, *, is_replaced: bool) -> None:
        """Add the type of the column in another file."""
        self._num_schemas += 1
        self._is_nullable |= field.nullable
        known = self._field.type
        if field.type == known:
            return
        self.is_mixed |= comparison_type(field.type) != comparison_type(known)
        data_type = widest(known, field.type, columns_of)
        if data_type is None and columns_of == "union" and not is_replaced:
            name, a, b = next(_conflicts(self._field, field))
            raise UnsupportedFeatureError(
                f"column {name!r} has the type {b} in this file, but {a} in {self._path}, and no type can "
                'represent both; open the files of each type separately, or with schema="first", which '
                "converts values to the types of the first file",
                reason="no-common-type",
                path=path,
                column=name,
            )
        if data_type is not None and data_type != known:
            self._path, self._field = path, self._field.with_type(data_type)


def _conflicts(a: pa.Field, b: pa.Field, name: str = "") -> Iterator[tuple[str, pa.DataType, pa.DataType]]:
    """Yield the names and types of fields without a common type; those of structs by dotted path."""
    name = f"{name}.{a.name}" if name else a.name
    if pa.types.is_struct(a.type) and pa.types.is_struct(b.type):
        for child in a.type:
            ordinal = b.type.get_field_index(child.name)
            if ordinal >= 0:
                yield from _conflicts(child, b.type.field(ordinal), name)
    elif widest(a.type, b.type) is None:
        yield name, a.type, b.type


def _renamed(counted: Sequence[_Counted], schema: pa.Schema) -> Iterator[str]:
    """Yield warnings about pairs of columns of one type, if each file has exactly one of the two."""
    if len(counted) == 1:
        return
    having: dict[str, set[int]] = {name: set() for name in schema.names}
    for ordinal, one in enumerate(counted):
        for name in one.schema.names:
            having[name].add(ordinal)
    everywhere = frozenset(range(len(counted)))
    partial = {name: frozenset(found) for name, found in having.items() if len(found) < len(counted)}
    names_of: dict[frozenset[int], list[str]] = {}
    for name, found in partial.items():
        names_of.setdefault(found, []).append(name)
    total = sum(one.num_files for one in counted)
    seen: set[str] = set()
    for name, found in partial.items():
        data_type = schema.field(name).type
        others = [
            other for other in names_of.get(everywhere - found, ()) if schema.field(other).type == data_type
        ]
        if name in seen or not others:
            continue
        seen |= {name, *others}
        num_files = sum(counted[ordinal].num_files for ordinal in found)
        yield (
            f"{num_files:,} of {total:,} files have column {name!r}, and the others {_shown(others)} of the "
            "same type instead; a column is null where a file lacks it; if it was renamed, as Iceberg and "
            "Delta do without rewriting files, query both names"
        )


def _lacking(counted: Sequence[_Counted]) -> Iterator[str]:
    """Yield warnings about columns of the first file that most files lack, while they have others."""
    first, total = counted[0].schema, sum(one.num_files for one in counted)
    columns = set(first.names)
    names = [(set(one.schema.names), one.num_files) for one in counted]
    for column in first.names:
        lacking = [(found, num_files) for found, num_files in names if column not in found]
        others = sorted(set().union(*(found - columns for found, _ in lacking)))
        num_lacking = sum(num_files for _, num_files in lacking)
        if others and 2 * num_lacking > total:
            yield (
                f"{num_lacking:,} of {total:,} files have no column {column!r}, so it is null in their rows, "
                f"but they have {_shown(others)}, which the first file lacks; if the column was renamed, as "
                'Iceberg and Delta do without rewriting files, open the files with schema="union"'
            )


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(repr(name) for name in names[:_NAMES_SHOWN]) + more


def file_view(table: Sequence[pa.Field], file: pa.Schema) -> pa.Schema:
    """Return the table's columns with their types in one file, to bind a predicate to.

    Names are the table's, types are the file's. If no type can represent the values of both, the column has
    the table's type, and the file's values are cast before they are compared.
    """
    return pa.schema([_field_view(field, _field_of(file, field.name)) for field in table])


def _field_of(schema: pa.Schema, name: str) -> pa.Field | None:
    ordinal = schema.get_field_index(name)
    return None if ordinal < 0 else schema.field(ordinal)


def _field_view(table: pa.Field, file: pa.Field | None) -> pa.Field:
    if file is None:
        return table
    if not (pa.types.is_struct(table.type) and pa.types.is_struct(file.type)):
        is_bytes = comparison_type(table.type) == pa.binary() and is_text(comparison_type(file.type))
        is_own = widest(table.type, file.type) is not None and not is_bytes
        return table.with_type(file.type) if is_own else table
    children = []
    for child in table.type:
        ordinal = file.type.get_field_index(child.name)
        children.append(_field_view(child, file.type.field(ordinal) if ordinal >= 0 else None))
    return table.with_type(pa.struct(children))
