"""Thrift's compact protocol: a codec for declared structs, and a reader of single values.

`parse` and `serialize` use Apache Thrift's C codec with the classes of `intarsia.format.structs`. They drop
fields that a class does not declare; `intarsia.format.thrift_tree` keeps them.

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

BOOL_TRUE, BOOL_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)

S = TypeVar("S")

_MAX_NUMBER = (1 << 64) - 1

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


def write_varint(out: bytearray, number: int) -> None:
    """Append an unsigned number, seven bits per byte, lowest bits first."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
