"""The bytes that a page in PLAIN encoding contains if it has a value that matches a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from intarsia.errors import FormatError
from intarsia.file.decompress import decompress
from intarsia.format.enums import Encoding, Type
from intarsia.format.footer import Leaf
from intarsia.format.pages import Page
from intarsia.indexes.value_hash import lookup_values, num_lookup_values
from intarsia.predicate import ignores_case, required_texts
from intarsia.predicate.bound import Condition
from intarsia.rows.ordering import ordering_for

#: The number of lookups whose values are cached, shared by all files.
_REMEMBERED = 64

#: The bytes of a value of the physical types that NumPy has.
_WIDTHS = {Type.INT32: 4, Type.FLOAT: 4, Type.INT64: 8, Type.DOUBLE: 8}

#: More values than this are compared with decoded pages instead: each value takes a pass over the bytes.
_MAX_SEARCHED = 8

#: Shorter texts are likely to be in a page, and are not searched.
_MIN_TEXT_BYTES = 3

_MAX_RFIND_BYTES = 64

#: A page with a match contains all byte strings of at least one of these alternatives.
SoughtBytes: TypeAlias = "tuple[tuple[bytes, ...], ...]"


@lru_cache(maxsize=_REMEMBERED)
def stored_values(leaf: Leaf, arrow_type: pa.DataType, condition: Condition) -> tuple[bytes, ...] | None:
    """Return the values of a lookup in PLAIN encoding, byte arrays without their length.

    Args:
        leaf: The column.
        arrow_type: The Arrow type of its values.
        condition: The condition.

    Returns:
        The values; None if the condition is not a lookup, or equal values may have several encodings.
    """
    values, ordering = lookup_values(condition), ordering_for(leaf, arrow_type)
    if values is None or ordering is None:
        return None
    keys = ordering.keys(values).tolist()
    if ordering.is_float:  # 0.0 equals -0.0, but their bytes differ
        keys += [-0.0 for key in keys if key == 0]
    with np.errstate(over="ignore"):  # a literal may exceed the range of float32
        return tuple(ordering.encode(key) for key in keys)


@lru_cache(maxsize=_REMEMBERED)
def sought_bytes(leaf: Leaf, arrow_type: pa.DataType, condition: Condition) -> SoughtBytes | None:
    """Return what a page with a match contains; None if that is unknown, or takes too many searches.

    Args:
        leaf: The column.
        arrow_type: The Arrow type of its values.
        condition: The condition.
    """
    if num_lookup_values(condition) > _MAX_SEARCHED:
        return None
    values = stored_values(leaf, arrow_type, condition)
    if values is not None:
        if leaf.type == Type.BYTE_ARRAY:
            values = tuple(len(value).to_bytes(4, "little") + value for value in values)
        return tuple((value,) for value in values)
    if leaf.type != Type.BYTE_ARRAY or ignores_case(condition):
        return None
    texts = sorted((text.encode() for text in required_texts(condition)), key=len, reverse=True)
    return (tuple(texts[:_MAX_SEARCHED]),) if texts and len(texts[0]) >= _MIN_TEXT_BYTES else None


def searches_whole_values(leaf: Leaf) -> bool:
    """Return whether `lacks_bytes` compares whole values; else the bytes may be part of other values."""
    return leaf.type in _WIDTHS


def lacks_bytes(
    page: Page, data: bytes, leaf: Leaf, codec: int, sought: Sequence[SoughtBytes | None]
) -> list[bool]:
    """Return for each of several conditions whether a dictionary page is proven to have no matching value.

    Searching the bytes of a page takes a fraction of the time of decoding it.

    Args:
        page: The header of the page, whose number of decompressed bytes has been checked.
        data: The bytes that contain it.
        leaf: The column.
        codec: The compression of the page.
        sought: For each condition, the result of `sought_bytes`.
    """
    unknown = [False] * len(sought)
    if page.encoding not in (Encoding.PLAIN, Encoding.PLAIN_DICTIONARY) or sought.count(None) == len(sought):
        return unknown
    try:
        body = decompress(
            memoryview(data)[page.body_start : page.stop], codec, page.header.uncompressed_page_size
        )
    except FormatError:  # decoding raises it
        return unknown
    contains = _search(body, _WIDTHS.get(leaf.type))
    return [
        alternatives is not None and not any(all(map(contains, one)) for one in alternatives)
        for alternatives in sought
    ]


def _search(body: memoryview, width: int | None) -> Callable[[bytes], bool]:
    """Return a function that searches the values of a page, numbers of a width or other bytes."""
    if width is not None:
        numbers = np.frombuffer(body, f"<u{width}", count=len(body) // width)
        return lambda value: bool((numbers == np.frombuffer(value, numbers.dtype)).any())
    values = bytes(body)
    # rfind is 2 to 3 times as fast as `in` here, but quadratic
    return lambda value: values.rfind(value) >= 0 if len(value) <= _MAX_RFIND_BYTES else value in values
