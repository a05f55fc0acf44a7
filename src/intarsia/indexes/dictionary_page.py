"""Dictionary pages: whether they have all values of a chunk, and how their values are decoded."""

from __future__ import annotations

import pyarrow as pa

from intarsia.arrow.nested import field_values
from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.file.chunks import DictionaryUse, recorded_pages
from intarsia.file.claims import plain_bytes
from intarsia.file.synthetic import Segments, decode
from intarsia.format import thrift
from intarsia.format.enums import Encoding, PageType
from intarsia.format.footer import Leaf
from intarsia.format.pages import Page, dictionary_page
from intarsia.format.structs import ColumnChunk, ColumnMetaData, DataPageHeaderV2, PageHeader

#: The encodings of a chunk that has only dictionary-encoded values.
_DICTIONARY_AND_LEVELS = {Encoding.PLAIN_DICTIONARY, Encoding.RLE, Encoding.BIT_PACKED}


def has_readable_dictionary(chunk: ColumnChunk) -> bool:
    """Return whether a chunk is in this file and unencrypted, and its dictionary has all of its values."""
    if chunk.meta_data is None or chunk.file_path or chunk.crypto_metadata is not None:
        return False
    return is_all_dictionary(chunk.meta_data)


def is_all_dictionary(meta: ColumnMetaData) -> bool:
    """Return whether all data pages of a chunk are proven to be dictionary-encoded.

    ``encoding_stats`` prove it. Without them, as in parquet-java, ``PLAIN_DICTIONARY`` proves it if the only
    other encodings are those of levels. ``RLE_DICTIONARY`` proves nothing, because its dictionary page is
    ``PLAIN``.

    Args:
        meta: The metadata of the chunk.
    """
    if meta.encoding_stats:
        return recorded_pages(meta.encoding_stats, ()).dictionary_use is DictionaryUse.ALWAYS
    encodings = set(meta.encodings)
    return Encoding.PLAIN_DICTIONARY in encodings and encodings <= _DICTIONARY_AND_LEVELS


def value_bytes(leaf: Leaf) -> int:
    """Return the minimum size of a value in a dictionary page."""
    return max(1, plain_bytes(leaf))


def parse_dictionary_page(data: bytes, leaf: Leaf, max_bytes: int) -> Page:
    """Parse and check the header of a dictionary page.

    Args:
        data: The bytes that begin with the page.
        leaf: The leaf.
        max_bytes: The maximum size of the decompressed page.

    Raises:
        FormatError: If the page is not a dictionary page, or is larger.
    """
    page = dictionary_page(data)
    count, num_bytes = page.num_values, page.header.uncompressed_page_size
    if not count * value_bytes(leaf) <= num_bytes <= max_bytes:
        raise CorruptFileError(
            f"it claims {count} values in {num_bytes} bytes",
            reason="dictionary-value-count",
            column=leaf.name,
        )
    return page


def dictionary_values(
    file: ParquetInput, page: Page, data: bytes, leaf: Leaf, meta: ColumnMetaData
) -> pa.ChunkedArray | pa.Array:
    """Decode the values of a dictionary page as a scan does.

    Args:
        file: The file.
        page: The header of the page.
        data: The bytes that begin with the page, which has values.
        leaf: The leaf.
        meta: The metadata of the chunk.

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
        page: The dictionary page.
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
