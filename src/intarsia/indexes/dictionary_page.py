"""Dictionary pages: how their values are decoded, and searched without decoding them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from intarsia import native
from intarsia.arrow.nested import field_values
from intarsia.errors import CorruptFileError, FormatError
from intarsia.file import ParquetInput
from intarsia.file.claims import decompress, plain_bytes
from intarsia.file.synthetic import Segments, decode
from intarsia.format import thrift
from intarsia.format.enums import Encoding, PageType, Type
from intarsia.format.footer import Leaf
from intarsia.format.pages import Page, dictionary_page
from intarsia.format.structs import ColumnMetaData, DataPageHeaderV2, PageHeader
from intarsia.indexes.lookups import REMEMBERED_LOOKUPS, stored_values
from intarsia.predicate import ignores_case, required_texts
from intarsia.predicate.bound import Condition, num_lookup_values

#: The bytes of a value of the physical types that NumPy has.
_WIDTHS = {Type.INT32: 4, Type.FLOAT: 4, Type.INT64: 8, Type.DOUBLE: 8}

#: More values than this are compared with decoded pages instead: each value takes a pass over the bytes.
_MAX_SEARCHED = 8

#: Shorter texts are likely to be in a page, and are not searched.
_MIN_TEXT_BYTES = 3

_MAX_RFIND_BYTES = 64

#: A page with a match contains all byte strings of at least one of these alternatives.
SoughtBytes: TypeAlias = "tuple[tuple[bytes, ...], ...]"


def parse_dictionary_page(data: bytes, leaf: Leaf, max_bytes: int) -> Page:
    """Parse and check the header of a dictionary page.

    Args:
        data: The bytes that begin with the page.
        max_bytes: The maximum size of the decompressed page.

    Raises:
        FormatError: If the page is not a dictionary page, or is larger.
    """
    page = dictionary_page(data)
    count, num_bytes = page.num_values, page.header.uncompressed_page_size
    if not count * max(1, plain_bytes(leaf)) <= num_bytes <= max_bytes:
        is_large = num_bytes > max_bytes  # such as one of documents, which a scan reads
        raise CorruptFileError(
            f"it has {num_bytes:,} bytes, and the limit of this index is {max_bytes:,}"
            if is_large
            else f"it claims {count} values in {num_bytes} bytes",
            reason="dictionary-value-count",
            column=leaf.name,
        )
    return page


def dictionary_values(
    file: ParquetInput, page: Page, data: bytes, leaf: Leaf, meta: ColumnMetaData
) -> pa.ChunkedArray | pa.Array:
    """Decode the values of a dictionary page as a scan does.

    Args:
        data: The bytes that begin with the page, which has values.

    Raises:
        FormatError: If pyarrow cannot decode it, or decodes another number of values.
    """
    count = page.num_values
    as_data = _as_data_page(page, data, leaf.max_definition_level)
    schema = file.schema.part((leaf.root_ordinal,))
    of_chunk = meta._replace(num_values=count)
    segments = Segments.of_chunk(schema.positions[leaf.ordinal], of_chunk, 0, len(as_data))
    with file.named_errors():
        table = decode(
            schema,
            [segments],
            [count],
            [as_data],
            f"the dictionary page of {leaf.name!r}",
            checksums=file.page_checksums,
        )
        if table.num_rows != count:
            raise CorruptFileError(
                f"the dictionary page of {leaf.name!r} has {table.num_rows} values, not {count}",
                reason="dictionary-value-count",
                column=leaf.name,
                struct="DictionaryPageHeader",
            )
    return field_values(table.column(0), leaf.path[1:])


def _as_data_page(page: Page, data: bytes, max_definition_level: int) -> bytes:
    """Rebuild a dictionary page, whose values are plain, as a data page without nulls.

    Args:
        data: The bytes that contain it.
        max_definition_level: The maximum definition level of the leaf.
    """
    levels = bytearray()
    if max_definition_level:
        thrift.write_varint(levels, page.num_values << 1)  # one run of equal levels
        levels.append(max_definition_level)
    # version 2, because its levels are not compressed
    of_values = DataPageHeaderV2(page.num_values, 0, page.num_values, Encoding.PLAIN, len(levels), 0)
    header = PageHeader(
        PageType.DATA_PAGE_V2,
        len(levels) + page.header.uncompressed_page_size,
        len(levels) + page.header.compressed_page_size,
        data_page_header_v2=of_values,
    )
    return thrift.serialize(header) + levels + data[page.body_start : page.stop]


# --- searching the bytes of a page -----------------------------------------------------------------------


@lru_cache(maxsize=REMEMBERED_LOOKUPS)
def sought_bytes(leaf: Leaf, arrow_type: pa.DataType, condition: Condition) -> SoughtBytes | None:
    """Return what a page with a match contains; None if that is unknown, or takes too many searches.

    Args:
        arrow_type: The Arrow type of its values.
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
        sought: For each condition, the result of `sought_bytes`.
    """
    unknown = [False] * len(sought)
    if page.encoding not in (Encoding.PLAIN, Encoding.PLAIN_DICTIONARY) or sought.count(None) == len(sought):
        return unknown
    place, width = (page.body_start, page.stop), _WIDTHS.get(leaf.type)
    raw_bytes = page.header.uncompressed_page_size
    found = native.attempt(lambda extension: extension.lacking(data, place, codec, raw_bytes, width, sought))
    if found is not None:
        return found
    try:
        body = decompress(memoryview(data)[slice(*place)], codec, raw_bytes)
    except FormatError:  # decoding raises it
        return unknown
    contains = _search(body, width)
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
