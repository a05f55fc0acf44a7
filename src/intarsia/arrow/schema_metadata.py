"""Key/value metadata of a schema in order. pyarrow returns a dictionary, which drops repeated keys."""

from __future__ import annotations

import ctypes
import struct

import pyarrow as pa


class _ArrowSchema(ctypes.Structure):
    """The first members of `struct ArrowSchema` of the Arrow C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


_INT32 = struct.Struct("=i")

_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def metadata_pairs(schema: pa.Schema) -> list[tuple[bytes, bytes]]:
    """Return the keys and values of a schema's metadata in order, including repeated keys.

    Example:
        >>> metadata_pairs(pa.schema([], metadata={"b": "1", "a": "2"}))
        [(b'b', b'1'), (b'a', b'2')]
    """
    capsule = schema.__arrow_c_schema__()
    position = _ArrowSchema.from_address(_capsule_pointer(capsule, b"arrow_schema")).metadata
    if not position:
        return []

    def take(num_bytes: int) -> bytes:
        nonlocal position
        taken = ctypes.string_at(position, num_bytes)
        position += num_bytes
        return taken

    def take_length() -> int:
        return int(_INT32.unpack(take(_INT32.size))[0])

    # the number of pairs, then each key and each value after its length; the capsule owns these bytes
    return [(take(take_length()), take(take_length())) for _ in range(take_length())]
