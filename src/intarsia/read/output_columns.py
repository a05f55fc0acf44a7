"""The columns of a result: their fields in a schema, their names in one file, and arrays of their types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from intarsia.arrow.nested import field_type
from intarsia.errors import UnsupportedFeatureError
from intarsia.once import cached_property
from intarsia.predicate import Path, find_column, is_utf8
from intarsia.records import dataclass


@dataclass(frozen=True)
class OutputColumn:
    """One column of a scan's result.

    Attributes:
        path: Its path in the schema: a top-level field, or a field of a struct.
        named_type: If the file names fields inside the column in another way, the type of the file with the
            names of the table; otherwise None.
    """

    name: str
    path: Path
    type: pa.DataType
    named_type: pa.DataType | None = None

    def field(self, schema: pa.Schema) -> pa.Field:
        """Return the field of the result, given the schema of the table."""
        return schema.field(self.path[0]) if len(self.path) == 1 else pa.field(self.name, self.type)


def output_columns(schema: pa.Schema, names: Sequence[str] | None) -> list[OutputColumn]:
    """Resolve names, dotted for fields of structs, to columns of a table; None for all columns.

    Raises:
        ColumnNotFoundError: If a column does not exist.
        TypeError: If a name is not text.
    """
    if names is None:
        return [OutputColumn(field.name, (field.name,), field.type) for field in schema]
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, Iterable):
        raise TypeError(f"columns is {names!r:.80}; pass a list of names, such as ['a', 'b.c']")
    out = []
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is not the name of a column; pass text, such as 'a' or 'a.b'")
        if is_utf8(name) and schema.get_field_index(name) >= 0:
            out.append(OutputColumn(name, (name,), schema.field(name).type))
        else:
            path, data_type = find_column(schema, name)
            out.append(OutputColumn(path[-1], path, data_type))
    return out


def refuse_repeated(schema: pa.Schema, names: Iterable[str], path: str) -> None:
    """Raise if several columns have the same name; pyarrow's `read_table` refuses them, too."""
    for name in names:
        if (count := len(schema.get_all_field_indices(name))) > 1:
            raise UnsupportedFeatureError(
                f"{count} columns have the name {name!r}; select columns with unique names",
                reason="duplicate-column",
                path=path,
                column=name,
                struct="SchemaElement",
            )


def type_at(schema: pa.Schema, path: Path) -> pa.DataType | None:
    """Return the type of a field or of a struct field in it; None if it does not exist or is ambiguous."""
    ordinal = schema.get_field_index(path[0])
    return None if ordinal < 0 else field_type(schema.field(ordinal).type, path[1:])


def rows_without_columns(num_rows: int) -> pa.Table:
    """Return a table without columns, with a number of rows."""
    return pa.table({"": pa.nulls(num_rows)}).select([])


def concat_rows(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables; `pyarrow.concat_tables` loses the rows of tables without columns."""
    if tables[0].num_columns == 0:
        return rows_without_columns(sum(table.num_rows for table in tables))
    return pa.concat_tables(tables)


@dataclass(frozen=True)
class FileNames:
    """The names that files with one schema have for the columns of a table.

    Predicates, columns and constants of a table are converted once to the names of the file, so that indexes,
    reports and reading use only one set of names.

    Attributes:
        fields: For each field of the file, the same field with the names of the table, even inside nested
            types; None if the table does not have it.
    """

    own: pa.Schema
    fields: tuple[pa.Field | None, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the table that the file has: the names of the table, the types of the file."""
        return pa.schema([field for field in self.fields if field is not None])

    @cached_property
    def _ordinals(self) -> Mapping[str, int]:
        return {field.name: ordinal for ordinal, field in enumerate(self.fields) if field is not None}

    @cached_property
    def _absent(self) -> str:
        """A name that no field of the file has: it is longer than all of them."""
        return max(self.own.names, key=len, default="") + "\0"

    def _find(self, path: Path) -> tuple[Path, pa.DataType | None]:
        """Return the path in the file, and the type of the file with the names of the table; see `path`."""
        ordinal, unused = self._ordinals.get(path[0]), (self._absent, *path)
        if ordinal is None:
            return unused, None
        field = self.fields[ordinal]
        assert field is not None
        own_type, named_type, found = self.own.field(ordinal).type, field.type, [self.own.field(ordinal).name]
        for name in path[1:]:
            child = named_type.get_field_index(name) if pa.types.is_struct(named_type) else -1
            if child < 0:
                return unused, None
            found.append(own_type.field(child).name)
            own_type, named_type = own_type.field(child).type, named_type.field(child).type
        return tuple(found), named_type

    def path(self, path: Path) -> Path:
        """Return the path in the file of a path in the table; for a missing column, an unused path.

        Example:
            >>> own = pa.schema({"a": pa.int8(), "b": pa.int8()})
            >>> names = FileNames(own, (pa.field("b", pa.int8()), None))
            >>> names.path(("b",)), names.path(("a",)) in [("a",), ("b",)]
            (('a',), False)
        """
        return self._find(path)[0]

    def only(self, columns: Collection[str]) -> FileNames:
        """Return the names for some columns of the table, with the same paths for them."""
        # the longest name stays, because those of missing columns depend on it
        kept = [
            (own, field)
            for own, field in zip(self.own, self.fields, strict=True)
            if own.name == self._absent[:-1] or (field is not None and field.name in columns)
        ]
        return FileNames(pa.schema([own for own, _ in kept]), tuple(field for _, field in kept))

    def column(self, column: OutputColumn) -> OutputColumn:
        """Return a column of the table with its path in the file."""
        path, found = self._find(column.path)
        named_type = None if found is None or not pa.types.is_nested(found) else found
        return replace(column, path=path, named_type=named_type)

    def shown(self, name: str) -> str:
        """Return the dotted name in the table of a leaf or a field of the file, for reports.

        Example:
            >>> own = pa.schema({"a": pa.struct({"x": pa.int8()})})
            >>> names = FileNames(own, (pa.field("b", pa.struct({"y": pa.int8()})),))
            >>> names.shown("a.x"), names.shown("other")
            ('b.y', 'other')
        """
        return self._shown.get(name, name)

    @cached_property
    def _shown(self) -> Mapping[str, str]:
        found: dict[str, str] = {}

        def add(own: pa.Field, named: pa.Field, own_prefix: str, named_prefix: str) -> None:
            own_name, named_name = own_prefix + own.name, named_prefix + named.name
            found[own_name] = named_name
            if pa.types.is_struct(own.type):
                for own_child, named_child in zip(own.type, named.type, strict=True):
                    add(own_child, named_child, f"{own_name}.", f"{named_name}.")

        for own, named in zip(self.own, self.fields, strict=True):
            if named is not None:
                add(own, named, "", "")
        return found
