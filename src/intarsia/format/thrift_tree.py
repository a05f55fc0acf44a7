"""Generic trees of Thrift's compact protocol.

A tree keeps every field, so that a footer can be edited without losing fields of later versions of Parquet
(contract C8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from intarsia.errors import CorruptFileError
from intarsia.format.thrift import (
    BINARY,
    BOOL_FALSE,
    BOOL_TRUE,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRUCT,
    UUID,
    Reader,
    struct_parser,
    write_varint,
)
from intarsia.records import dataclass

#: The limit on nesting, deeper than any Parquet footer; prevents hostile bytes from exhausting the stack.
MAX_DEPTH = 48


class Struct:
    """A generic struct: field id -> ``(compact type, value)``, in the order of the bytes.

    The type of a boolean field is `BOOL_TRUE` for both values. Strings are bytes. A struct in another one is
    parsed when its fields are accessed; until then, it is serialized as the bytes that it was read from.
    """

    __slots__ = ("_fields", "_unparsed")

    def __init__(
        self,
        fields: dict[int, tuple[int, Any]] | None = None,
        unparsed: tuple[_TreeReader, int, int] | None = None,
    ) -> None:
        self._fields = {} if fields is None else fields
        self._unparsed = unparsed

    @property
    def fields(self) -> dict[int, tuple[int, Any]]:
        """The fields.

        Raises:
            CorruptFileError: If the bytes of the struct are damaged.
        """
        if self._unparsed is not None:
            reader, start, _ = self._unparsed
            self._fields, self._unparsed = reader.fields_at(start), None
        return self._fields

    @property
    def unparsed(self) -> bytes | None:
        """The bytes of the struct; None if it has been parsed."""
        if self._unparsed is None:
            return None
        reader, start, stop = self._unparsed
        return reader.data[start:stop]

    def __eq__(self, other: object) -> bool:
        return self.fields == other.fields if isinstance(other, Struct) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # like a dictionary

    def __repr__(self) -> str:
        return f"Struct({self.fields})"

    def get(self, field_id: int, default: Any = None) -> Any:
        """Return the value of a field, or ``default`` if it is absent."""
        found = self.fields.get(field_id)
        return default if found is None else found[1]

    def struct(self, field_id: int) -> Struct | None:
        """Return a field that is a struct; a field of another type counts as absent, as in `parse`."""
        value = self.get(field_id)
        return value if isinstance(value, Struct) else None

    def structs(self, field_id: int) -> list[Struct] | None:
        """Return the elements of a list of structs; a field of another type counts as absent."""
        value = self.get(field_id)
        return value.items if isinstance(value, List) and value.element_type == STRUCT else None

    def set(self, field_id: int, compact_type: int, value: Any) -> None:
        """Add or replace a field."""
        self.fields[field_id] = (compact_type, value)

    def remove(self, field_id: int) -> None:
        """Remove a field if it is present."""
        self.fields.pop(field_id, None)


@dataclass
class List:
    """A list or set: the elements and their compact type."""

    element_type: int
    items: list[Any]


@dataclass
class Map:
    """A map: the pairs in the order of the bytes, and the compact types of keys and values."""

    key_type: int
    value_type: int
    items: list[tuple[Any, Any]]


class _Skipped:
    """A struct of which no field is kept."""

    thrift_spec = ()


class _TreeReader(Reader):
    """A reader of generic trees."""

    def __init__(self, data: bytes, position: int) -> None:
        super().__init__(data, position)
        self._skip = struct_parser(_Skipped, data)

    def value(self, type_: int, depth: int) -> Any:
        """Read a value of a compact type, within ``depth`` structs."""
        if depth > MAX_DEPTH:
            raise CorruptFileError(
                f"structs are nested more than {MAX_DEPTH} levels deep", reason="nested-too-deeply"
            )
        if type_ in (I16, I32, I64):
            return self.zigzag()
        if type_ == BINARY:
            return self.take(self.varint())
        if type_ == STRUCT:
            return self._struct(depth + 1)
        if type_ in (LIST, SET):
            element, length = self.list_head()
            return List(element, [self.value(element, depth + 1) for _ in range(length)])
        if type_ in (BOOL_TRUE, BOOL_FALSE):  # an element; in a field, the type itself is the value
            return self.take(1)[0] == BOOL_TRUE
        if type_ == BYTE:
            return self.take(1)[0]
        if type_ == DOUBLE:
            return self.take(8)
        if type_ == UUID:
            return self.take(16)
        if type_ == MAP:
            count = self.varint()
            if not count:
                return Map(0, 0, [])
            types = self.take(1)[0]
            key, value = types >> 4, types & 0x0F
            pairs = [
                (self.value(key, depth + 1), self.value(value, depth + 1)) for _ in range(self.count(count))
            ]
            return Map(key, value, pairs)
        raise CorruptFileError(f"Thrift has no type {type_}", reason="malformed-struct")

    def _struct(self, depth: int) -> Struct:
        start = self.position
        try:
            _, self.position = self._skip(start)
        except CorruptFileError:  # it is damaged, or has a type that Apache Thrift's codec does not know
            return Struct(self._fields(depth))
        return Struct(unparsed=(self, start, self.position))

    def fields_at(self, offset: int) -> dict[int, tuple[int, Any]]:
        """Read all fields of a struct."""
        self.position = offset
        try:
            return self._fields(0)
        except CorruptFileError as error:
            error.at(offset=self.position)
            raise

    def _fields(self, depth: int) -> dict[int, tuple[int, Any]]:
        fields: dict[int, tuple[int, Any]] = {}
        field_id = 0
        while True:
            head = self.take(1)[0]
            field_type = head & 0x0F
            if field_type == 0:
                return fields
            delta = head >> 4
            field_id = field_id + delta if delta else self.zigzag()
            if field_type in (BOOL_TRUE, BOOL_FALSE):
                fields[field_id] = (BOOL_TRUE, field_type == BOOL_TRUE)
            else:
                fields[field_id] = (field_type, self.value(field_type, depth))


def parse_tree(data: bytes, offset: int = 0) -> tuple[Struct, int]:
    """Parse one generic struct with all its fields.

    Returns:
        The tree, and the offset of its end.

    Raises:
        CorruptFileError: If the bytes are not a struct in the compact protocol.
    """
    reader = _TreeReader(data, offset)
    return Struct(reader.fields_at(offset)), reader.position


def serialize_tree(tree: Struct, after: int = 0) -> bytes:
    """Serialize a tree; `parse_tree` restores it.

    Args:
        after: The number of a field in front of the tree's fields, to which they are appended.

    Example:
        >>> tree = Struct({1: (I32, -7), 900: (BINARY, b"unknown to this version")})
        >>> parse_tree(serialize_tree(tree))[0] == tree
        True
    """
    out = bytearray()
    _write_struct(out, tree, after)
    return bytes(out)


def _write_zigzag(out: bytearray, number: int) -> None:
    write_varint(out, (number << 1) ^ (number >> 63))


def _write_struct(out: bytearray, tree: Struct, last: int = 0) -> None:
    if (unparsed := tree.unparsed) is not None:
        out += unparsed
        return
    for field_id, (field_type, value) in sorted(tree.fields.items()):
        tag = (BOOL_TRUE if value else BOOL_FALSE) if field_type == BOOL_TRUE else field_type
        if 0 < field_id - last <= 15:
            out.append((field_id - last) << 4 | tag)
        else:
            out.append(tag)
            _write_zigzag(out, field_id)
        last = field_id
        if field_type != BOOL_TRUE:
            _write_value(out, field_type, value)
    out.append(0)


def _write_list(out: bytearray, value: List) -> None:
    count = len(value.items)
    if count < 15:
        out.append(count << 4 | value.element_type)
    else:
        out.append(0xF0 | value.element_type)
        write_varint(out, count)
    for item in value.items:
        _write_value(out, value.element_type, item)


def _write_map(out: bytearray, value: Map) -> None:
    write_varint(out, len(value.items))
    if value.items:
        out.append(value.key_type << 4 | value.value_type)
    for key, item in value.items:
        _write_value(out, value.key_type, key)
        _write_value(out, value.value_type, item)


def _write_binary(out: bytearray, value: bytes) -> None:
    write_varint(out, len(value))
    out += value


def _write_bool(out: bytearray, value: bool) -> None:
    out.append(BOOL_TRUE if value else BOOL_FALSE)


_WRITERS: dict[int, Callable[[bytearray, Any], None]] = {
    BOOL_TRUE: _write_bool,
    BOOL_FALSE: _write_bool,
    BYTE: bytearray.append,
    I16: _write_zigzag,
    I32: _write_zigzag,
    I64: _write_zigzag,
    DOUBLE: bytearray.extend,
    BINARY: _write_binary,
    LIST: _write_list,
    SET: _write_list,
    MAP: _write_map,
    STRUCT: _write_struct,
    UUID: bytearray.extend,
}


def _write_value(out: bytearray, type_: int, value: Any) -> None:
    _WRITERS[type_](out, value)
