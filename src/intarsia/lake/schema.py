"""The common schema of many files, in the narrowest types for the values of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence, Set
from functools import lru_cache
from typing import Literal, TypeAlias

import pyarrow as pa

from intarsia.amounts import some
from intarsia.arrow.comparison import comparison_type
from intarsia.arrow.nested import children, is_list, repeats_names, with_children
from intarsia.errors import UnsupportedFeatureError
from intarsia.records import dataclass

#: The fields of a struct that two files have in common types: those of both, or those of the first.
FieldsOf: TypeAlias = Literal["union", "first"]


def widest(a: pa.DataType, b: pa.DataType, fields: FieldsOf = "union") -> pa.DataType | None:
    """Return the narrowest type that can represent the values of two types; None if there is none.

    Integers widen to wider integers (unsigned ones to a wider signed one), to decimals and to ``float64``;
    floats to wider floats; decimals to more digits; dates to timestamps; times, timestamps and durations to
    the finer unit; text to bytes; lists and maps like their items. Structs have the fields of both, by name.
    An ``int64`` in a ``float64`` column, or a timestamp in a finer unit, may still not fit. Reading such a
    value raises an error.

    Args:
        a: The first type, whose physical layout (dictionary, large, view) the result has.
        b: The second type.
        fields: The fields of structs: those of both, or those of the first. In the second case, fields
            without a common type have the type of the first.

    Example:
        >>> widest(pa.uint8(), pa.int16()), widest(pa.decimal128(10, 2), pa.decimal128(18, 4))
        (DataType(int16), Decimal128Type(decimal128(18, 4)))
        >>> widest(pa.date32(), pa.timestamp("us")), widest(pa.string(), pa.int8())
        (TimestampType(timestamp[us]), None)
        >>> widest(pa.struct({"x": pa.int8()}), pa.struct({"y": pa.int8(), "x": pa.int16()}))
        StructType(struct<x: int16, y: int8>)
    """
    if a.equals(b):
        return a
    if pa.types.is_null(a) or pa.types.is_null(b):
        return b if pa.types.is_null(a) else a
    if _is_encoded(a) or _is_encoded(b):
        return _encoded(a, b, fields)
    for is_type, find in (
        (_is_number, _number),
        (pa.types.is_temporal, _temporal),
        (_is_bytes, _bytes),
    ):
        if is_type(a) and is_type(b):
            return find(a, b)
    for is_type, find_nested in ((pa.types.is_struct, _struct), (pa.types.is_map, _map), (is_list, _list)):
        if is_type(a) and is_type(b):
            return find_nested(a, b, fields)
    return None


def _any_of(*tests: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], bool]:
    return lambda data_type: any(test(data_type) for test in tests)


_types = pa.types
_is_number = _any_of(_types.is_integer, _types.is_floating, _types.is_decimal)
_is_plain_bytes = _any_of(_types.is_binary, _types.is_large_binary, _types.is_binary_view)

#: Whether a type is text, in any physical layout.
is_text = _any_of(_types.is_string, _types.is_large_string, _types.is_string_view)

_is_bytes = _any_of(is_text, _is_plain_bytes, _types.is_fixed_size_binary)


def _list(a: pa.DataType, b: pa.DataType, fields: FieldsOf) -> pa.DataType | None:
    item = widest(a.value_type, b.value_type, fields)
    if item is None:
        return None
    is_fixed = [pa.types.is_fixed_size_list(data_type) for data_type in (a, b)]
    like = b if is_fixed[0] and not is_fixed[1] else a
    if all(is_fixed) and a.list_size != b.list_size:
        return pa.list_(b.value_field.with_type(item))
    return with_children(like, [like.value_field.with_type(item)])


def _map(a: pa.DataType, b: pa.DataType, fields: FieldsOf) -> pa.DataType | None:
    key, item = widest(a.key_type, b.key_type, fields), widest(a.item_type, b.item_type, fields)
    if key is None or item is None:
        return None
    return pa.map_(a.key_field.with_type(key), a.item_field.with_type(item), a.keys_sorted and b.keys_sorted)


def _encoded(a: pa.DataType, b: pa.DataType, fields: FieldsOf) -> pa.DataType | None:
    """Return the widest type of dictionaries and extension types, from their values and storage."""
    if isinstance(a, pa.BaseExtensionType) or isinstance(b, pa.BaseExtensionType):
        return widest(getattr(a, "storage_type", a), getattr(b, "storage_type", b), fields)
    plain = [one.value_type if pa.types.is_dictionary(one) else one for one in (a, b)]
    values = widest(plain[0], plain[1], fields)
    if values is None or not pa.types.is_dictionary(a):
        return values
    return pa.dictionary(a.index_type, values, a.ordered)


def _is_encoded(data_type: pa.DataType) -> bool:
    return pa.types.is_dictionary(data_type) or isinstance(data_type, pa.BaseExtensionType)


def _bytes(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the type of text if both are text, and of bytes otherwise."""
    if is_text(a) and is_text(b):
        return a
    return next((data_type for data_type in (a, b) if _is_plain_bytes(data_type)), pa.binary())


@lru_cache(maxsize=256)
def _unified(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the common type of pyarrow."""
    try:
        schemas = [pa.schema([("", data_type)]) for data_type in (a, b)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowTypeError:
        return None


def _number(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return a type in which integers of up to 64 bits and decimals are exact, as pyarrow's may not be."""
    is_float = {pa.types.is_floating(data_type) for data_type in (a, b)}
    if pa.types.is_decimal(a) or pa.types.is_decimal(b):
        digits = [_digits(data_type) for data_type in (a, b)]
        scale = max(scale for _, scale in digits)
        precision = max(whole for whole, _ in digits) + scale
        if True in is_float or precision > 76 or scale < 0:
            return None
        return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    if len(is_float) == 2:
        return pa.float64()
    signed = [data_type for data_type in (a, b) if pa.types.is_signed_integer(data_type)]
    return None if len(signed) == 1 and pa.uint64() in (a, b) else _unified(a, b)


def _digits(data_type: pa.DataType) -> tuple[int, int]:
    """Return the numbers of decimal digits before and after the point."""
    if pa.types.is_decimal(data_type):
        return data_type.precision - data_type.scale, data_type.scale
    return {8: 3, 16: 5, 32: 10}.get(data_type.bit_width, 20), 0


def _temporal(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if pa.types.is_date(a) != pa.types.is_date(b):
        other = b if pa.types.is_date(a) else a
        return other if pa.types.is_timestamp(other) and other.tz is None else None
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b) and a.tz and b.tz:
        b = pa.timestamp(b.unit, a.tz)
    return _unified(a, b)


def _struct(a: pa.DataType, b: pa.DataType, fields: FieldsOf) -> pa.DataType | None:
    """Return a struct with widened fields, in the order in which they are first seen."""
    if repeats_names(a) or repeats_names(b):
        return None
    found = []
    for field in a:
        ordinal = b.get_field_index(field.name)
        other = field.with_nullable(True) if ordinal < 0 else b.field(ordinal)
        data_type = widest(field.type, other.type, fields)
        if data_type is None:
            if fields == "union":
                return None
            data_type = field.type
        found.append(field.with_type(data_type).with_nullable(field.nullable or other.nullable))
    if fields == "union":
        found += [field.with_nullable(True) for field in b if a.get_field_index(field.name) < 0]
    return pa.struct(found)


def lose_shredded_values(file: pa.DataType, table: pa.DataType) -> bool:
    """Return whether values of a column with VARIANTs in a file would be lost or changed in a table's type.

    A shredded value has the type and the fields of its ``typed_value``, or is encoded beside it. It cannot be
    cast, and a ``typed_value`` with more fields would say that fields which are encoded are missing.
    """
    found = dict(_shredded(table))
    return any(found.get(path) != data_type for path, data_type in _shredded(file))


def _shredded(
    data_type: pa.DataType, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """Yield the path and the type of the ``typed_value`` of each VARIANT in a type that has one."""
    fields = {field.name: field.type for field in children(data_type) or ()}
    if pa.types.is_struct(data_type) and fields.keys() >= {"metadata", "value"}:
        if "typed_value" in fields:
            yield path, _nullable(fields["typed_value"])
        return
    for name, child in fields.items():
        yield from _shredded(child, (*path, name))


def _nullable(data_type: pa.DataType) -> pa.DataType:
    """Return a type whose fields are all nullable, as far as its maps allow."""
    fields = children(data_type)
    if fields is None:
        return data_type
    inner = [field.with_type(_nullable(field.type)) for field in fields]
    is_map = pa.types.is_map(data_type)
    return with_children(data_type, inner if is_map else [field.with_nullable(True) for field in inner])


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
    mixed: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def table_schema(
    schemas: Iterable[tuple[str, pa.Schema]],
    columns_of: SchemaOf = "union",
    replaced: Container[str] = (),
    variants: Callable[[], Set[str]] = frozenset,
) -> TableSchema:
    """Return the common schema of a table's files.

    Args:
        schemas: The paths and schemas of the readable files in the order of the files; at least one.
        columns_of: The files whose columns the table has.
        replaced: Columns whose types do not matter, because partition columns replace them.
        variants: Returns the columns that are or contain a VARIANT in a file. If files shred it differently,
            the column has the type of the first of them, and the others `lose_shredded_values` in it.

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
        for seen in counted[: -_LOOK_BACK - 1 : -1]:
            if seen.schema is schema or seen.schema.equals(schema):
                seen.add_file()
                break
        else:
            counted.append(_Counted(path, schema))
    first = counted[0].schema
    if len(counted) == 1:
        return TableSchema(first)
    fields, paths, mixed = _fields(counted[0]), dict[str, str](), set[str]()
    having = Counter(fields.keys())
    for one in counted[1:]:
        own = _fields(one)
        having.update(own.keys())
        for name, field in own.items():
            known = fields.get(name)
            if known is None:
                if columns_of == "union":
                    fields[name], paths[name] = field, one.path
                continue
            if field.type != known.type:
                if comparison_type(field.type) != comparison_type(known.type):
                    mixed.add(name)
                data_type = widest(known.type, field.type, columns_of)
                both = known.type, field.type
                if any(map(children, both)) and name in variants():
                    loses = data_type is None or any(lose_shredded_values(one, data_type) for one in both)
                    data_type = known.type if loses else data_type
                if data_type is None and columns_of == "union" and name not in replaced:
                    raise _no_common_type(known, paths.get(name, counted[0].path), field, one.path)
                if data_type is not None and data_type != known.type:
                    known, paths[name] = known.with_type(data_type), one.path
            fields[name] = known if known.nullable else known.with_nullable(field.nullable)
    for name, field in fields.items():
        if having[name] < len(counted):
            fields[name] = field.with_nullable(True)
    # the first file's repeated names remain, so that scans of them are refused
    columns = [fields[field.name] if first.get_field_index(field.name) >= 0 else field for field in first]
    own_names = set(first.names)
    columns += [field for name, field in fields.items() if name not in own_names]
    schema = pa.schema(columns, metadata=first.metadata)
    warnings = _renamed(counted, schema) if columns_of == "union" else _lacking(counted)
    return TableSchema(schema, frozenset(mixed), tuple(warnings))


@dataclass
class _Counted:
    """A schema, a file that has it, and the number of files that do."""

    path: str
    schema: pa.Schema
    num_files: int = 1

    def add_file(self) -> None:
        """Count another file with this schema."""
        self.num_files += 1


def _fields(one: _Counted) -> dict[str, pa.Field]:
    """Return the fields of a schema by name; of several with the same name the first."""
    fields = list(one.schema)
    found = {field.name: field for field in fields}
    return found if len(found) == len(fields) else {field.name: field for field in reversed(fields)}


def _no_common_type(known: pa.Field, known_path: str, field: pa.Field, path: str) -> UnsupportedFeatureError:
    name, a, b = next(_conflicts(known, field))
    return UnsupportedFeatureError(
        f"column {name!r} has the type {b} in this file, but {a} in {known_path}, and no type can "
        'represent both; open the files of each type separately, or with schema="first", which '
        "converts values to the types of the first file",
        reason="no-common-type",
        path=path,
        column=name,
    )


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
    return some([*map(repr, names)], _NAMES_SHOWN)


def file_view(table: Sequence[pa.Field], file: pa.Schema) -> pa.Schema:
    """Return the table's columns with their types in one file, to bind a predicate to.

    Names are the table's, types are the file's. If no type can represent the values of both, the column has
    the table's type, and the file's values are cast before they are compared.
    """
    whole = (pa.field("", pa.struct(list(schema))) for schema in (table, file))
    return pa.schema(list(_field_view(*whole).type))


def _field_view(table: pa.Field, file: pa.Field | None) -> pa.Field:
    if file is None or (pa.types.is_struct(table.type) and pa.types.is_null(file.type)):
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
