"""One column chunk whose structures are completed: read, walked and decoded at most once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from intarsia.embed.chunk_pages import LocatedPages, locate_pages
from intarsia.embed.leaf_values import LeafReader, may_be_dictionary
from intarsia.embed.report import Reason
from intarsia.errors import CorruptFileError, IndexBuildError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.pages import walk_pages
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf, chunk_range
from intarsia.format.page_header import Page
from intarsia.format.structs import ColumnMetaData
from intarsia.storage import ByteRange

#: Why columns of some types have no bounds.
NO_ORDER = Reason("no-order", "its type has no defined order")

_WRONG_ORDER = Reason("wrong-column-order", "the declared column order does not apply to its type")
_UNKNOWN_ORDER = Reason("unknown-column-order", "its column order is unknown to this version")


class PagesNeededError(Exception):
    """Something would have to be read besides the footer; see `Chunk.footer_only`."""


#: Logical types whose decoded form differs from the stored one.
_CONVERTED_TYPES = frozenset(("DECIMAL", "UNKNOWN"))


@dataclass(frozen=True, eq=False)
class Chunk:
    """A column chunk of the original file.

    Costly properties are computed on first use and then cached. They raise `FormatError` if the chunk is
    damaged.

    Attributes:
        file: The original file.
        key: Row group and leaf of the chunk.
        meta: The chunk's metadata in the footer.
        reader: Decodes the leaf's values.
        footer_only: Whether reading anything but the footer raises `PagesNeededError`.
    """

    file: ParquetInput
    key: ChunkKey
    meta: ColumnMetaData
    reader: LeafReader
    footer_only: bool = False

    @property
    def leaf(self) -> Leaf:
        """The column."""
        return self.reader.leaf

    @property
    def num_rows(self) -> int:
        """Number of rows in the row group."""
        return self.file.footer.metadata.row_groups[self.key.row_group].num_rows

    @property
    def start(self) -> int:
        """Byte offset of the chunk in the file."""
        return chunk_range(self.meta)[0]

    # --- its bytes, pages and values -------------------------------------------------------------------

    @cached_property
    def data(self) -> bytes:
        """The bytes of the chunk."""
        return self._read(*chunk_range(self.meta))

    def _read(self, start: int, stop: int) -> bytes:
        if self.footer_only:
            raise PagesNeededError
        return self.file.source.read(start, stop)

    @cached_property
    def walked(self) -> Sequence[Page]:
        """The pages in file order, including the dictionary page; their checksums are right."""
        pages = walk_pages(self.data, self.meta.num_values)
        for page in pages:
            try:
                page.check_checksum(self.data)
            except CorruptFileError as error:  # noqa: PERF203  (a page is much larger than this)
                error.offset = self.start + page.start
                error.column = self.leaf.name
                raise
        return pages

    @cached_property
    def pages(self) -> LocatedPages:
        """The pages and their rows.

        Raises:
            IndexBuildError: If the pages cannot have an OffsetIndex; the message says why.
        """
        return locate_pages(self.data, self.walked, self.meta, self.num_rows, self.leaf)

    @cached_property
    def column(self) -> pa.ChunkedArray:
        """The values as `LeafReader` returns them; a dictionary array if every page uses the dictionary."""
        as_dictionary = may_be_dictionary(self.leaf) and all(
            page.uses_dictionary for page in self.walked if page.is_data
        )
        return self._decode(self.reader, as_dictionary=as_dictionary)

    @cached_property
    def values(self) -> pa.ChunkedArray:
        """`column` without nulls."""
        return self.column.drop_null() if self.column.null_count else self.column

    @property
    def stored_values(self) -> pa.ChunkedArray:
        """`values` in a type whose PLAIN encoding is what the file stores."""
        if self.leaf.type != Type.INT96 and self.leaf.logical_name not in _CONVERTED_TYPES:
            return self.values
        return self._decode(self.reader.stored, as_dictionary=False).drop_null()

    def _decode(self, reader: LeafReader, *, as_dictionary: bool) -> pa.ChunkedArray:
        if not any(page.is_data for page in self.walked):
            raise IndexBuildError("the column chunk has no data pages", reason="no-data-pages")
        return reader.read(self.data, self.meta, self.num_rows, as_dictionary=as_dictionary)

    def bytes_of(self, location: ByteRange | bytes) -> bytes:
        """Return the bytes of one of the chunk's structures.

        Raises:
            CorruptFileError: If its location is outside the file's body.
        """
        if isinstance(location, bytes):
            return location
        if not self.file.footer.contains_range(location.start, location.stop):
            raise CorruptFileError(
                f"bytes {location.start} to {location.stop} are outside the file's body",
                reason="out-of-bounds",
            )
        return self._read(location.start, location.stop)

    # --- how its values are ordered --------------------------------------------------------------------

    @property
    def order(self) -> str | None:
        """The name of the leaf's column order; None if the footer declares none for any leaf."""
        orders = self.file.footer.metadata.column_orders
        if orders is None:
            return None
        order = orders[self.leaf.ordinal]
        return next((name for name, value in zip(order._fields, order, strict=True) if value is not None), "")

    @property
    def total_order(self) -> bool:
        """Whether floats are ordered by IEEE 754's total order instead of the type's own order."""
        return self.order == "IEEE_754_TOTAL_ORDER"

    @property
    def order_refusal(self) -> Reason | None:
        """Why the declared column order forbids bounds; None if it does not."""
        order = self.order
        if order in (None, "TYPE_ORDER"):
            return None
        if order == "IEEE_754_TOTAL_ORDER":
            return None if self.leaf.is_float else _WRONG_ORDER
        return NO_ORDER if order == "INT96_TIMESTAMP_ORDER" else _UNKNOWN_ORDER

    @property
    def has_order(self) -> bool:
        """Whether bounds of this chunk can be computed and are defined."""
        if self.order_refusal is not None:
            return False
        try:
            return self.reader.ordering is not None
        except CorruptFileError:
            return False
