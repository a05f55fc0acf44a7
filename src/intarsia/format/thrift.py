"""Two codecs for Thrift's compact protocol: a fast one for declared structs, and one for generic trees.

`parse` and `serialize` use Apache Thrift's C codec with the classes of `intarsia.format.structs`. They drop
fields that a class does not declare. `parse_tree` and `serialize_tree` keep every field, so that a footer
can be edited without losing fields of later versions of Parquet (contract C8).

Source: the Thrift compact protocol specification; field ids and types from ``parquet.thrift``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from thrift.protocol import fastbinary
from thrift.protocol.TProtocol import TProtocolException

from intarsia.errors import CorruptFileError
from intarsia.records import dataclass

S = TypeVar("S")

#: With these, the codec skips a struct.
_NO_TARGET, _NO_FIELDS = object(), [object, ()]

_DECODE_ERRORS = (EOFError, OverflowError, TypeError, ValueError, TProtocolException)


def parse(cls: type[S], data: bytes, offset: int = 0) -> tuple[S, int]:
    """Parse one struct.

    Args:
        cls: A class of `intarsia.format.structs`.
        data: Bytes that contain the struct; more bytes may follow it.
        offset: The offset of the struct in ``data``.

    Returns:
        The struct, and the offset of its end in ``data``.

    Raises:
        CorruptFileError: If the bytes are not this struct, or end within it. Whatever lengths the bytes
            contain, at most a small multiple of ``len(data)`` is allocated.
    """
    return struct_parser(cls, data)(offset)


def parse_structs(cls: type[S], data: bytes, offset: int, count: int) -> tuple[list[S], list[int]]:
    """Parse consecutive structs; see `parse`.

    Returns:
        The structs, and ``count + 1`` offsets: the start of each struct, and the end of the last one.
    """
    source, buffer = _source(data)
    decode, tell = fastbinary.decode_compact, buffer.tell
    buffer.seek(offset)
    how = [cls, cls.thrift_spec]  # type: ignore[attr-defined]
    values, edges = [], [offset]
    try:
        for _ in range(count):
            values.append(decode(None, source, how))
            edges.append(tell())
    except _DECODE_ERRORS as error:
        raise _refusal(cls.__name__, error, edges[-1]) from error
    return values, edges


def parse_structs_at(cls: type[S], data: bytes, offsets: Sequence[int]) -> list[S]:
    """Parse structs at the given offsets; see `parse`."""
    source, buffer = _source(data)
    decode, seek, how = fastbinary.decode_compact, buffer.seek, [cls, cls.thrift_spec]  # type: ignore[attr-defined]
    values = []
    for offset in offsets:
        seek(offset)
        try:
            values.append(decode(None, source, how))
        except _DECODE_ERRORS as error:
            raise _refusal(cls.__name__, error, offset) from error
    return values


def struct_parser(cls: type[S], data: bytes) -> Callable[[int], tuple[S, int]]:
    """`parse` for many structs in the same bytes, given the offset of each."""
    source, buffer = _source(data)
    decode, how = fastbinary.decode_compact, [cls, cls.thrift_spec]  # type: ignore[attr-defined]

    def parse_at(offset: int) -> tuple[S, int]:
        buffer.seek(offset)
        try:
            return decode(None, source, how), buffer.tell()
        except _DECODE_ERRORS as error:
            raise _refusal(cls.__name__, error, offset) from error

    return parse_at


def struct_edges(data: bytes, offsets: Sequence[int], counts: Sequence[int]) -> list[list[int]]:
    """Find the edges of consecutive structs without parsing their fields.

    Args:
        data: Bytes that contain the structs.
        offsets: The offsets of the first struct of each sequence.
        counts: The number of structs of each sequence.

    Returns:
        For each sequence its number of structs and one more offsets: the start of each struct, and the end
        of the last one.

    Raises:
        CorruptFileError: If there are fewer structs.
    """
    source, buffer = _source(data)
    decode, seek, tell = fastbinary.decode_compact, buffer.seek, buffer.tell
    found = []
    for offset, count in zip(offsets, counts, strict=True):
        edges = [seek(offset)]
        found.append(edges)
        try:
            for _ in range(count):
                decode(_NO_TARGET, source, _NO_FIELDS)
                edges.append(tell())
        except _DECODE_ERRORS as error:
            raise _refusal("struct", error, edges[-1]) from error
    return found


def _source(data: bytes) -> tuple[SimpleNamespace, BytesIO]:
    """Return a source for Apache Thrift's codec, and its buffer, whose position is that of the codec.

    The codec needs only these attributes of a protocol and its transport. Thrift's own classes cost six calls
    per struct, and a footer has hundreds of structs.
    """
    buffer = BytesIO(data)  # does not copy
    limit = len(data)  # every byte of a string and every list element takes at least one of these bytes
    transport = SimpleNamespace(cstringio_buf=buffer, cstringio_refill=_no_more_bytes)
    return SimpleNamespace(trans=transport, string_length_limit=limit, container_length_limit=limit), buffer


def _no_more_bytes(partial: bytes, num_bytes: int) -> BytesIO:  # noqa: ARG001
    raise EOFError


def _refusal(struct: str, error: BaseException, offset: int) -> CorruptFileError:
    """Return the error for an error of the codec."""
    reason, cause = "malformed-struct", str(error) or type(error).__name__
    if isinstance(error, EOFError):
        reason, cause = "truncated-struct", "the bytes end too early"
    elif "missing" in cause and "argument" in cause:
        field_names = cause.split("argument", 1)[1].lstrip("s: ")
        reason, cause = "missing-field", f"required field {field_names} is absent"
    return CorruptFileError(f"cannot parse {struct}: {cause}", reason=reason, offset=offset, struct=struct)


def serialize(value: Any) -> bytes:
    """Serialize one struct of `intarsia.format.structs`."""
    data: bytes = fastbinary.encode_compact(value, [type(value), value.thrift_spec])
    return data


# --- the generic tree ------------------------------------------------------------------------------

BOOL_TRUE, BOOL_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)

#: The limit on nesting, deeper than any Parquet footer; prevents hostile bytes from exhausting the stack.
MAX_DEPTH = 48

_MAX_NUMBER = (1 << 64) - 1


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


class ListHead(NamedTuple):
    """The header of a list: the compact type and the number of its elements."""

    element_type: int
    length: int


class Reader:
    """A reader of values in the compact protocol.

    Every method raises `CorruptFileError` if the bytes end too early.

    Args:
        position: The offset of the first value in ``data``.
    """

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position

    def varint(self) -> int:
        """Read an unsigned number."""
        result = shift = 0
        while True:
            if self.position >= len(self.data):
                raise CorruptFileError("the bytes end within a number", reason="truncated-struct")
            byte = self.data[self.position]
            self.position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result & _MAX_NUMBER  # the tenth byte may have more bits, which Thrift ignores
            shift += 7
            if shift > 63:
                raise CorruptFileError("a number has more than 64 bits", reason="malformed-struct")

    def zigzag(self) -> int:
        """Read a signed number."""
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def take(self, length: int) -> bytes:
        """Read the next ``length`` bytes."""
        stop = self.position + length
        if stop > len(self.data):
            raise CorruptFileError(
                f"{length} bytes should follow, but only {len(self.data) - self.position} are left",
                reason="truncated-struct",
            )
        piece = self.data[self.position : stop]
        self.position = stop
        return piece

    def list_head(self) -> ListHead:
        """Read the header of a list or set."""
        head = self.take(1)[0]
        count = self.varint() if head >> 4 == 15 else head >> 4
        return ListHead(head & 0x0F, self.count(count))

    def count(self, count: int) -> int:
        """Return a number of elements, unless it exceeds the number of remaining bytes."""
        if count > len(self.data) - self.position:
            raise CorruptFileError(
                f"{count} elements should follow, but only {len(self.data) - self.position} bytes are left",
                reason="truncated-struct",
            )
        return count


class _TreeReader(Reader):
    """A reader of generic trees."""

    def __init__(self, data: bytes, position: int) -> None:
        super().__init__(data, position)
        self._source, self._buffer = _source(data)

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
        start = self._buffer.seek(self.position)
        try:
            fastbinary.decode_compact(_NO_TARGET, self._source, _NO_FIELDS)
        except _DECODE_ERRORS:  # it is damaged, or has a type that this codec does not know
            return Struct(self._fields(depth))
        self.position = self._buffer.tell()
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


def write_varint(out: bytearray, number: int) -> None:
    """Append an unsigned number, seven bits per byte, lowest bits first."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


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
