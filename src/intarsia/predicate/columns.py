"""Resolve the names of columns to leaves of a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from intarsia.arrow.comparison import comparison_type
from intarsia.errors import ColumnNotFoundError, PredicateError
from intarsia.predicate.nodes import dotted
from intarsia.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from intarsia.predicate.nodes import ColumnName


#: For names with more parts, the names of all fields are read, instead of a look-up of each run of parts.
_FEW_PARTS: Final = 8


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf that a predicate can compare.

    Attributes:
        path: The field names from the top-level column down to the leaf.
        declared: The type of the leaf in the schema.
        type: The type in which its values are compared. See `comparison_type`.
    """

    path: tuple[str, ...]
    declared: pa.DataType
    type: pa.DataType

    @property
    def name(self) -> str:
        """The path as text, for messages."""
        return ".".join(self.path)


def resolve_column(
    schema: pa.Schema, column: ColumnName, *, is_nested: Callable[[pa.DataType], bool] | None = None
) -> Column:
    """Find the leaf that ``column`` names.

    A string is matched first as the whole name of a top-level column, dots included, then as a dotted path
    through structs. A tuple is a path of exact names. Names are case-sensitive.

    Args:
        is_nested: Returns whether a function takes a nested type; None if it must not be nested.

    Raises:
        ColumnNotFoundError: If the column does not exist. The error suggests similar names.
        PredicateError: If the column exists but cannot be compared: it is nested, it is inside a list or a
            map, or several columns have this name.

    Example:
        >>> schema = pa.schema({"a": pa.struct({"b": pa.int8()}), "a.b": pa.string()})
        >>> resolve_column(schema, "a.b").type, resolve_column(schema, ("a", "b")).type
        (DataType(string), DataType(int8))
    """
    path, declared = find_column(schema, column)
    resolved = comparison_type(declared)
    if pa.types.is_nested(resolved) and not (is_nested and is_nested(resolved)):
        shown, hint = dotted(column), ""
        if pa.types.is_struct(declared) and declared.num_fields:
            hint = f"; name one of its fields, such as {shown + '.' + declared.field(0).name!r}"
        raise PredicateError(
            f"column {shown!r} of type {declared} is nested; conditions and indexes need a leaf column{hint}",
            reason="nested-column",
            column=shown,
        )
    return Column(path, declared, resolved)


def find_column(schema: pa.Schema, column: ColumnName) -> tuple[tuple[str, ...], pa.DataType]:
    """Return the path and the type of the column that ``column`` names. The column may be nested.

    `resolve_column` describes how names are matched.

    Raises:
        ColumnNotFoundError: If the column does not exist. The error suggests similar names.
        PredicateError: If the column is inside a list or a map, or several columns have this name.

    Example:
        >>> schema = pa.schema({"a": pa.struct({"b": pa.list_(pa.int8())})})
        >>> find_column(schema, "a.b")
        (('a', 'b'), ListType(list<item: int8>))
    """
    if not isinstance(column, (str, tuple)):
        raise TypeError(f"{column!r:.80} is not the name of a column; pass text, such as 'a' or 'a.b'")
    parts = column if isinstance(column, tuple) else tuple(column.split("."))
    found = _descend(schema, parts, column) if all(map(is_utf8, parts)) else None
    if found is None:
        raise ColumnNotFoundError(dotted(column), dict.fromkeys(_known(schema)))
    return found


def is_utf8(name: str) -> bool:
    """Return whether a name has a UTF-8 form, as those of all columns have; pyarrow fails on others."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _descend(
    fields: pa.Schema | pa.StructType, parts: tuple[str, ...], column: ColumnName, above: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], pa.DataType] | None:
    """Match the longest run of parts that names a field first, because a name may contain dots.

    Each field is reached by one run of parts, so that the work is linear in the fields and the parts.
    """
    counts: Sequence[int] = (1,) if isinstance(column, tuple) else range(len(parts), 0, -1)
    if len(counts) > _FEW_PARTS:
        counts = sorted({name.count(".") + 1 for name in fields.names}.intersection(counts), reverse=True)
    for count in counts:
        name = ".".join(parts[:count])
        named = fields.get_all_field_indices(name)  # by hash: a field object for each column takes longer
        if len(named) > 1:
            shown = dotted(column)
            raise PredicateError(
                f"column {shown!r} is ambiguous: {len(named)} fields are named {name!r}; rename all but one",
                reason="ambiguous-column",
                column=shown,
            )
        if not named:
            continue
        path, type_ = (*above, name), fields.field(named[0]).type
        if count == len(parts):
            return path, type_
        if pa.types.is_struct(type_):
            found = _descend(type_, parts[count:], column, path)
            if found is not None:
                return found
        elif pa.types.is_nested(type_):
            shown = dotted(column)
            raise PredicateError(
                f"column {shown!r} is inside {'.'.join(path)!r} of type {type_} and cannot be compared, "
                "because a row may have several values; filter the rows after reading them",
                reason="repeated-column",
                column=shown,
            )
    return None


def _known(fields: pa.Schema | pa.StructType, above: str = "") -> Iterator[str]:
    """Yield the names of all columns and the dotted paths of all struct fields."""
    for ordinal in range(len(fields.names)):
        field = fields.field(ordinal)
        yield above + field.name
        if pa.types.is_struct(field.type):
            yield from _known(field.type, f"{above}{field.name}.")
