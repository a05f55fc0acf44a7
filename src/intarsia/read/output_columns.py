"""The columns of a result: resolving names to fields of a schema, and building arrays of their types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from intarsia.arrow.nested import field_type
from intarsia.errors import UnsupportedFeatureError
from intarsia.predicate import Path, find_column


@dataclass(frozen=True)
class OutputColumn:
    """One column of a scan's result.

    Attributes:
        name: Its name in the result.
        path: Its path in the schema: a top-level field, or a field of a struct.
        type: Its Arrow type.
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
    """
    if names is None:
        return [OutputColumn(field.name, (field.name,), field.type) for field in schema]
    if isinstance(names, str):
        names = [names]
    out = []
    for name in names:
        if schema.get_field_index(name) >= 0:
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
