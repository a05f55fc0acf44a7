"""Names of columns -> leaves of a schema, and the type in which a leaf is compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from intarsia.arrow.comparison import comparison_type
from intarsia.errors import ColumnNotFoundError, PredicateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from intarsia.predicate.nodes import ColumnName


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf that a predicate may compare.

    Attributes:
        path: The names from the top-level column down to the leaf.
        declared: The type that the schema gives it.
        type: The type in which it is compared, see `comparison_type`.
    """

    path: tuple[str, ...]
    declared: pa.DataType
    type: pa.DataType

    @property
    def name(self) -> str:
        """The path as text, for messages."""
        return ".".join(self.path)


def resolve_column(schema: pa.Schema, column: ColumnName) -> Column:
    """Finds the leaf that ``column`` names.

    A string is first tried as the whole name of a top-level column, dots included, then as a dotted path
    through structs; a tuple is a path of exact names. Names are case-sensitive.

    Raises:
        ColumnNotFoundError: No such column; the error names near matches.
        PredicateError: The column exists but cannot be compared: it is nested, or repeated by a list or a
            map, or several columns have this name.

    Example:
        >>> schema = pa.schema({"a": pa.struct({"b": pa.int8()}), "a.b": pa.string()})
        >>> resolve_column(schema, "a.b").type, resolve_column(schema, ("a", "b")).type
        (DataType(string), DataType(int8))
    """
    path, declared = find_column(schema, column)
    resolved = comparison_type(declared)
    if pa.types.is_nested(resolved):
        raise PredicateError(_nested_message(_shown(column), declared))
    return Column(path, declared, resolved)


def find_column(schema: pa.Schema, column: ColumnName) -> tuple[tuple[str, ...], pa.DataType]:
    """Path and type of what ``column`` names, which may be nested; see `resolve_column` for the names.

    Raises:
        ColumnNotFoundError: No such column; the error names near matches.
        PredicateError: It is repeated by a list or a map, or several columns have this name.

    Example:
        >>> schema = pa.schema({"a": pa.struct({"b": pa.list_(pa.int8())})})
        >>> find_column(schema, "a.b")
        (('a', 'b'), ListType(list<item: int8>))
    """
    shown = _shown(column)
    parts = column if isinstance(column, tuple) else tuple(column.split("."))
    fields = [schema.field(ordinal) for ordinal in range(len(schema))]
    found = _descend(fields, parts, shown, (), exact=isinstance(column, tuple))
    if found is None:
        raise ColumnNotFoundError(shown, dict.fromkeys(_known(fields)))
    return found


def _shown(column: ColumnName) -> str:
    return ".".join(column) if isinstance(column, tuple) else column


def _descend(
    fields: list[pa.Field], parts: tuple[str, ...], shown: str, above: tuple[str, ...], *, exact: bool
) -> tuple[tuple[str, ...], pa.DataType] | None:
    """Matches the longest run of parts that names a field first, since names may hold dots themselves."""
    for count in (1,) if exact else range(len(parts), 0, -1):
        name, rest = ".".join(parts[:count]), parts[count:]
        named = [field for field in fields if field.name == name]
        if len(named) > 1:
            raise PredicateError(f"column {shown!r} is ambiguous: {len(named)} fields are called {name!r}")
        if not named:
            continue
        path, type_ = (*above, name), named[0].type
        if not rest:
            return path, type_
        if pa.types.is_struct(type_):
            children = [type_.field(ordinal) for ordinal in range(type_.num_fields)]
            found = _descend(children, rest, shown, path, exact=exact)
            if found is not None:
                return found
        elif pa.types.is_nested(type_):
            raise PredicateError(
                f"column {shown!r} is repeated: it lies inside {'.'.join(path)!r} of type {type_}, and a "
                "row with several values cannot be compared; filter the rows after reading them"
            )
    return None


def _nested_message(shown: str, declared: pa.DataType) -> str:
    hint = ""
    if pa.types.is_struct(declared) and declared.num_fields:
        hint = f"; name one of its fields, such as {shown + '.' + declared.field(0).name!r}"
    return f"column {shown!r} of type {declared} is nested: neither comparisons nor IS NULL apply to it{hint}"


def _known(fields: list[pa.Field], above: str = "") -> Iterator[str]:
    """Every name that could have been meant: columns, and dotted paths through structs."""
    for field in fields:
        yield above + field.name
        if pa.types.is_struct(field.type):
            children = [field.type.field(ordinal) for ordinal in range(field.type.num_fields)]
            yield from _known(children, f"{above}{field.name}.")
