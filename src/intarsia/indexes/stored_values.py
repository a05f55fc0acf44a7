"""The values of a lookup as a file stores them: in PLAIN encoding."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from intarsia.errors import FormatError
from intarsia.file.decompress import decompress
from intarsia.format.enums import Encoding, Type
from intarsia.format.footer import Leaf
from intarsia.format.page_header import Page
from intarsia.indexes.value_hash import lookup_values, num_lookup_values
from intarsia.predicate.bound import Condition
from intarsia.rows.ordering import ordering_for

#: The number of lookups whose values are cached, shared by all files.
_REMEMBERED = 64

#: The bytes of a value of the physical types that NumPy has.
_WIDTHS = {Type.INT32: 4, Type.FLOAT: 4, Type.INT64: 8, Type.DOUBLE: 8}

#: More values than this are compared with decoded pages instead: each value takes a pass over the bytes.
_MAX_SEARCHED = 8


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


def page_lacks(
    page: Page, data: bytes, leaf: Leaf, codec: int, arrow_type: pa.DataType, condition: Condition
) -> bool:
    """Return whether a dictionary page is proven to contain none of the values of a lookup.

    A page without the bytes of a value does not contain the value. Searching the bytes takes a fraction of
    the time of decoding the page.

    Args:
        page: The header of the page, whose number of decompressed bytes has been checked.
        data: The bytes that contain it.
        leaf: The column.
        codec: The compression of the page.
        arrow_type: The Arrow type of its values.
        condition: The condition.
    """
    if num_lookup_values(condition) > _MAX_SEARCHED:
        return False
    wanted = stored_values(leaf, arrow_type, condition)
    if wanted is None or page.encoding not in (Encoding.PLAIN, Encoding.PLAIN_DICTIONARY):
        return False
    try:
        body = decompress(data[page.body_start : page.stop], codec, page.header.uncompressed_page_size)
    except FormatError:  # decoding raises it
        return False
    width = _WIDTHS.get(leaf.type)
    if width is not None:
        numbers = np.frombuffer(body, f"<u{width}", count=len(body) // width)
        return not any((numbers == np.frombuffer(value, f"<u{width}")).any() for value in wanted)
    if leaf.type == Type.BYTE_ARRAY:
        wanted = tuple(len(value).to_bytes(4, "little") + value for value in wanted)
    values = bytes(body)
    return not any(value in values for value in wanted)
