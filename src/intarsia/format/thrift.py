"""Thrift's compact protocol, twice: fast into declared structs, and generic into a tree.

`parse` and `serialize` run Apache Thrift's C codec over the classes of `intarsia.format.structs`: fields
that a class does not declare are dropped.  `parse_tree` and `serialize_tree` keep every field, known or
not, so that a footer can be changed and written back without losing what a later version of Parquet put
there (contract C8).

Source: the Thrift compact protocol specification; field ids and types from ``parquet.thrift``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from thrift.protocol import fastbinary
from thrift.protocol.TProtocol import TProtocolException

from intarsia.errors import CorruptFileError

S = TypeVar("S")

_DECODE_ERRORS = (EOFError, OverflowError, TypeError, ValueError, MemoryError, TProtocolException)


def parse(cls: type[S], data: bytes, offset: int = 0) -> tuple[S, int]:
    """Parse one struct.

    Args:
        cls: A class of `intarsia.format.structs`.
        data: Bytes that hold the struct, and may go on after it.
        offset: Where in ``data`` the struct starts.

    Returns:
        The struct, and the offset in ``data`` just after it.

    Raises:
        CorruptFileError: If the bytes are no such struct, or end within it. No length found in the
            bytes makes this allocate more than a small multiple of ``len(data)``.
    """
    source, buffer = _source(data, offset)
    try:
        value = fastbinary.decode_compact(None, source, [cls, cls.thrift_spec])  # type: ignore[attr-defined]
    except _DECODE_ERRORS as error:
        raise _refusal(cls.__name__, error, offset) from error
    return value, buffer.tell()


def parse_structs(cls: type[S], data: bytes, offset: int, count: int) -> tuple[list[S], list[int]]:
    """Parse structs that follow each other; else as `parse`.

    Returns:
        The structs, and ``count + 1`` offsets: where each struct starts, and where the last one ends.
    """
    source, buffer = _source(data, offset)
    decode, tell = fastbinary.decode_compact, buffer.tell
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
    """Parse structs that start at some offsets; else as `parse`."""
    source, buffer = _source(data, 0)
    decode, seek, how = fastbinary.decode_compact, buffer.seek, [cls, cls.thrift_spec]  # type: ignore[attr-defined]
    values = []
    for offset in offsets:
        seek(offset)
        try:
            values.append(decode(None, source, how))
        except _DECODE_ERRORS as error:
            raise _refusal(cls.__name__, error, offset) from error
    return values


def struct_edges(data: bytes, offset: int, count: int) -> list[int]:
    """Where structs lie that follow each other, whatever is in them.

    Args:
        data: Bytes that hold the structs, and may go on after them.
        offset: Where in ``data`` the first one starts.
        count: How many there are.

    Returns:
        ``count + 1`` offsets: where each struct starts, and where the last one ends.

    Raises:
        CorruptFileError: If there are fewer.
    """
    source, buffer = _source(data, offset)
    decode, tell = fastbinary.decode_compact, buffer.tell
    target, nothing_of_it = object(), [object, ()]
    edges = [offset]
    try:
        for _ in range(count):
            decode(target, source, nothing_of_it)
            edges.append(tell())
    except _DECODE_ERRORS as error:
        raise _refusal("struct", error, edges[-1]) from error
    return edges


def _source(data: bytes, offset: int) -> tuple[SimpleNamespace, BytesIO]:
    """What Apache Thrift's codec reads from, and the buffer that tells how far it has come.

    Of a protocol and its transport the codec asks for no more than this. Thrift's own classes cost six calls
    for each struct, and a footer has hundreds of structs.
    """
    buffer = BytesIO(data)  # does not copy
    buffer.seek(offset)
    # every string byte and every list element takes at least one byte of what is left
    limit = len(data) - offset
    transport = SimpleNamespace(cstringio_buf=buffer, cstringio_refill=_no_more_bytes)
    return SimpleNamespace(trans=transport, string_length_limit=limit, container_length_limit=limit), buffer


def _no_more_bytes(partial: bytes, num_bytes: int) -> BytesIO:  # noqa: ARG001
    raise EOFError


def _refusal(struct: str, error: BaseException, offset: int) -> CorruptFileError:
    return CorruptFileError(
        f"these bytes are not a {struct} ({_reason(error)})", offset=offset, struct=struct
    )


def serialize(value: Any) -> bytes:
    """The bytes of one struct of `intarsia.format.structs`."""
    data: bytes = fastbinary.encode_compact(value, [type(value), value.thrift_spec])
    return data


def _reason(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, EOFError):
        return "the bytes end too early"
    if "missing" in text and "argument" in text:
        return "required field" + text.split("argument", 1)[1].lstrip("s") + " is absent"
    return text or type(error).__name__


# --- the generic tree ------------------------------------------------------------------------------

BOOL_TRUE, BOOL_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)

#: Deeper nesting than any Parquet footer has; stops hostile bytes from exhausting the stack.
MAX_DEPTH = 48


@dataclass
class Struct:
    """A struct of any kind: field id -> ``(compact type, value)``, in the order of the bytes.

    A boolean field's type is `BOOL_TRUE` whatever its value. Strings stay bytes.
    """

    fields: dict[int, tuple[int, Any]] = field(default_factory=dict)

    def get(self, field_id: int, default: Any = None) -> Any:
        """The value of a field, or ``default``."""
        found = self.fields.get(field_id)
        return default if found is None else found[1]

    def struct(self, field_id: int) -> Struct | None:
        """A field that is a struct; one of another type counts as absent, as it does to `parse`."""
        value = self.get(field_id)
        return value if isinstance(value, Struct) else None

    def structs(self, field_id: int) -> list[Struct] | None:
        """The elements of a field that is a list of structs; one of another type counts as absent."""
        value = self.get(field_id)
        return value.items if isinstance(value, List) and value.element_type == STRUCT else None

    def set(self, field_id: int, compact_type: int, value: Any) -> None:
        """Put a field, in the place of one that is there."""
        self.fields[field_id] = (compact_type, value)

    def remove(self, field_id: int) -> None:
        """Take a field away; it may be absent."""
        self.fields.pop(field_id, None)


@dataclass
class List:
    """A list or set: the compact type of its elements, and the elements."""

    element_type: int
    items: list[Any]


@dataclass
class Map:
    """A map: the compact types of keys and values, and the pairs in the order of the bytes."""

    key_type: int
    value_type: int
    items: list[tuple[Any, Any]]


class ListHead(NamedTuple):
    """What stands before the elements of a list: their compact type, and how many there are."""

    element_type: int
    length: int


class Reader:
    """Reads values of the compact protocol one by one.

    Args:
        data: The bytes.
        position: Where in them to begin.

    Every method raises `CorruptFileError` if the bytes end too early.
    """

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position

    def varint(self) -> int:
        """A number that is not negative."""
        result = shift = 0
        while True:
            if self.position >= len(self.data):
                raise CorruptFileError("the bytes end within a number")
            byte = self.data[self.position]
            self.position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7
            if shift > 63:
                raise CorruptFileError("a number is longer than 64 bits")

    def zigzag(self) -> int:
        """A signed number."""
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def take(self, length: int) -> bytes:
        """The next bytes."""
        stop = self.position + length
        if stop > len(self.data):
            raise CorruptFileError(
                f"{length} bytes were announced, {len(self.data) - self.position} are left"
            )
        piece = self.data[self.position : stop]
        self.position = stop
        return piece

    def list_head(self) -> ListHead:
        """The start of a list or set; no longer than the bytes that are left."""
        head = self.take(1)[0]
        count = self.varint() if head >> 4 == 15 else head >> 4
        return ListHead(head & 0x0F, self.count(count))

    def count(self, count: int) -> int:
        """A number of elements, which must not be more than the bytes that are left."""
        if count > len(self.data) - self.position:
            raise CorruptFileError(
                f"{count} elements were announced, {len(self.data) - self.position} bytes are left"
            )
        return count

    def value(self, kind: int, depth: int) -> Any:
        """A value of a compact type, ``depth`` structs deep."""
        if depth > MAX_DEPTH:
            raise CorruptFileError(f"structs are nested deeper than {MAX_DEPTH}")
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind == BINARY:
            return self.take(self.varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            element, length = self.list_head()
            return List(element, [self.value(element, depth + 1) for _ in range(length)])
        if kind in (BOOL_TRUE, BOOL_FALSE):  # as an element; as a field the type itself is the value
            return self.take(1)[0] == BOOL_TRUE
        if kind == BYTE:
            return self.take(1)[0]
        if kind == DOUBLE:
            return self.take(8)
        if kind == UUID:
            return self.take(16)
        if kind == MAP:
            count = self.varint()
            if not count:
                return Map(0, 0, [])
            kinds = self.take(1)[0]
            key, value = kinds >> 4, kinds & 0x0F
            pairs = [
                (self.value(key, depth + 1), self.value(value, depth + 1)) for _ in range(self.count(count))
            ]
            return Map(key, value, pairs)
        raise CorruptFileError(f"there is no Thrift type {kind}")

    def struct(self, depth: int = 0) -> Struct:
        """A struct with all its fields."""
        out = Struct()
        field_id = 0
        while True:
            head = self.take(1)[0]
            kind = head & 0x0F
            if kind == 0:
                return out
            delta = head >> 4
            field_id = field_id + delta if delta else self.zigzag()
            if kind in (BOOL_TRUE, BOOL_FALSE):
                out.fields[field_id] = (BOOL_TRUE, kind == BOOL_TRUE)
            else:
                out.fields[field_id] = (kind, self.value(kind, depth))


def parse_tree(data: bytes, offset: int = 0) -> tuple[Struct, int]:
    """Parse one struct of any kind, keeping every field.

    Returns:
        The tree, and the offset just after it.

    Raises:
        CorruptFileError: If the bytes are no struct of the compact protocol.
    """
    reader = Reader(data, offset)
    try:
        return reader.struct(), reader.position
    except CorruptFileError as error:
        error.offset = reader.position
        raise


def serialize_tree(tree: Struct) -> bytes:
    """The bytes of a tree; `parse_tree` of them gives the tree again.

    Example:
        >>> tree = Struct({1: (I32, -7), 900: (BINARY, b"unknown to this version")})
        >>> parse_tree(serialize_tree(tree))[0] == tree
        True
    """
    out = bytearray()
    _write_struct(out, tree)
    return bytes(out)


def write_varint(out: bytearray, number: int) -> None:
    """Append a number that is not negative, seven bits a byte, the lowest first."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _write_zigzag(out: bytearray, number: int) -> None:
    write_varint(out, (number << 1) ^ (number >> 63))


def _write_struct(out: bytearray, tree: Struct) -> None:
    last = 0
    for field_id, (kind, value) in sorted(tree.fields.items()):
        tag = (BOOL_TRUE if value else BOOL_FALSE) if kind == BOOL_TRUE else kind
        if 0 < field_id - last <= 15:
            out.append((field_id - last) << 4 | tag)
        else:
            out.append(tag)
            _write_zigzag(out, field_id)
        last = field_id
        if kind != BOOL_TRUE:
            _write_value(out, kind, value)
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


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    _WRITERS[kind](out, value)
