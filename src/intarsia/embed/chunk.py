"""One column chunk whose structures are to be completed: read, walked and decoded at most once each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from intarsia.embed.chunk_pages import LocatedPages, locate_pages
from intarsia.embed.leaf_values import LeafReader, may_be_dictionary
from intarsia.errors import CorruptFileError, IndexBuildError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.pages import walk_pages
from intarsia.format.footer import Leaf, chunk_range
from intarsia.format.page_header import Page
from intarsia.format.structs import ColumnMetaData, Type
from intarsia.storage import ByteRange

#: Why a column has no bounds, when it is its type.
NO_ORDER = "its type has no defined order"

#: The decoded form of these is not the stored one.
_CONVERTED_KINDS = frozenset(("DECIMAL", "UNKNOWN"))


@dataclass(frozen=True, eq=False)
class Chunk:
    """A column chunk of the original file.

    Everything that is costly waits until it is asked for, and is then kept for who asks next.  It raises
    `FormatError` where the chunk is damaged.

    Attributes:
        file: The original file.
        key: Which chunk it is.
        meta: What the footer says of it.
        reader: Decodes the leaf's values.
    """

    file: ParquetInput
    key: ChunkKey
    meta: ColumnMetaData
    reader: LeafReader

    @property
    def leaf(self) -> Leaf:
        """The column."""
        return self.reader.leaf

    @property
    def num_rows(self) -> int:
        """Rows of the row group."""
        return self.file.footer.metadata.row_groups[self.key.row_group].num_rows

    @property
    def start(self) -> int:
        """Byte offset of the chunk in the file."""
        return chunk_range(self.meta)[0]

    # --- its bytes, pages and values -------------------------------------------------------------------

    @cached_property
    def data(self) -> bytes:
        """Its bytes."""
        return self.file.source.read(*chunk_range(self.meta))

    @cached_property
    def walked(self) -> Sequence[Page]:
        """Its pages, the dictionary page included, in the order of the file."""
        return walk_pages(self.data, self.meta.num_values)

    @cached_property
    def pages(self) -> LocatedPages:
        """Its pages and their rows.

        Raises:
            IndexBuildError: If the pages may not have an OffsetIndex; the message is the reason.
        """
        return locate_pages(self.data, self.walked, self.meta, self.num_rows, self.leaf)

    @cached_property
    def column(self) -> pa.ChunkedArray:
        """Its values as `LeafReader` gives them; texts that all lie in a dictionary as dictionary arrays."""
        # strings that all pages take from the dictionary need not be spread out
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
        if self.leaf.type != Type.INT96 and self.leaf.logical_name not in _CONVERTED_KINDS:
            return self.values
        return self._decode(self.reader.stored, as_dictionary=False).drop_null()

    def _decode(self, reader: LeafReader, *, as_dictionary: bool) -> pa.ChunkedArray:
        if not any(page.is_data for page in self.walked):
            raise IndexBuildError("it has no data pages")
        return reader.read(self.data, self.meta, self.num_rows, as_dictionary=as_dictionary)

    def bytes_of(self, place: ByteRange | bytes) -> bytes:
        """The bytes of one of its structures.

        Raises:
            CorruptFileError: If it is said to lie outside the file's body.
        """
        if isinstance(place, bytes):
            return place
        if not self.file.footer.holds(place.start, place.stop):
            raise CorruptFileError(f"bytes {place.start} to {place.stop} lie outside the file's body")
        return self.file.source.read(place.start, place.stop)

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
        """Whether floats follow IEEE 754's total order, instead of the type's own."""
        return self.order == "IEEE_754_TOTAL_ORDER"

    @property
    def order_refusal(self) -> str | None:
        """Why there may be no bounds, when it is the order that the footer declares."""
        order = self.order
        if order in (None, "TYPE_ORDER"):
            return None
        if order == "IEEE_754_TOTAL_ORDER":
            return None if self.leaf.is_float else "its column order is not one of its type"
        return (
            NO_ORDER if order == "INT96_TIMESTAMP_ORDER" else "its column order is not known to this version"
        )

    @property
    def has_order(self) -> bool:
        """Whether bounds of this chunk can be computed, and would have a meaning."""
        if self.order_refusal is not None:
            return False
        try:
            return self.reader.ordering is not None
        except CorruptFileError:
            return False
