"""Decode the values of one leaf from the bytes of one column chunk.

The decoding schema contains only the path to this leaf, without names and annotations that do not affect its
order. So bounds are computed from the stored values, not from those of an Arrow schema or extension type.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from intarsia.errors import CorruptFileError
from intarsia.file.claims import check_value_count, check_values
from intarsia.file.synthetic import Segments, SyntheticSchema, decode
from intarsia.format.enums import Type
from intarsia.format.footer import Footer, Leaf, schema_leaves, schema_paths
from intarsia.format.structs import ColumnMetaData, IntType, LogicalType, SchemaElement
from intarsia.records import dataclass
from intarsia.rows.int96 import INT96_BYTES
from intarsia.rows.ordering import Ordering, ordering_for

#: Logical types of bytes whose stored form is their value; the others (DECIMAL, FLOAT16) are decoded.
_PLAIN_BYTES = frozenset(("STRING", "ENUM", "JSON", "BSON", "UUID"))


@dataclass(frozen=True)
class LeafReader:
    """Decodes chunks of one leaf.

    Attributes:
        elements: The schema reduced to the path of the leaf, starting with the root.
    """

    leaf: Leaf
    elements: tuple[SchemaElement, ...]
    created_by: bytes | None

    @property
    def stored(self) -> LeafReader:
        """A reader of the leaf in a type whose PLAIN encoding is what the file stores."""
        plain = self.elements[-1]._replace(logicalType=None, converted_type=None)
        if self.leaf.type == Type.INT96:  # pyarrow has no such type; fixed-length bytes have the same layout
            plain = plain._replace(type=Type.FIXED_LEN_BYTE_ARRAY, type_length=INT96_BYTES)
        return replace(self, elements=(*self.elements[:-1], plain))

    @cached_property
    def ordering(self) -> Ordering | None:
        """How the leaf's values compare; None where Parquet defines no order.

        Raises:
            CorruptFileError: If pyarrow cannot read the schema.
        """
        data_type = self._schema.arrow.field(0).type
        while pa.types.is_nested(data_type):
            data_type = data_type.field(0).type
        return ordering_for(self.leaf, data_type)

    def read(
        self, chunk: bytes, meta: ColumnMetaData, num_rows: int, *, as_dictionary: bool
    ) -> pa.ChunkedArray:
        """Decode a chunk, whose checksums the caller compares.

        Args:
            meta: The chunk's metadata in the footer.
            num_rows: Number of rows in the row group.
            as_dictionary: Return dictionary arrays, so that strings are not copied for every row.

        Returns:
            One value per row for a flat leaf. For a leaf in a list or map all values of the innermost lists;
            empty and null lists have none.

        Raises:
            CorruptFileError: If the number of values does not match the rows, or if pyarrow cannot decode all
                of the chunk.
        """
        check_value_count(self.leaf, num_rows, meta.num_values)
        check_values(chunk, meta.num_values, meta.codec, self.leaf, self.created_by)
        table = decode(
            self._schema,
            [Segments.of_chunk(0, meta, 0, len(chunk))],
            [num_rows],
            [chunk],
            "the pages",
            as_dictionary=[self._schema.leaves[0].name] if as_dictionary else (),
            checksums=False,
        )
        column = table.column(0)
        if len(column) != num_rows:  # pyarrow stops at a page without values, without an error
            raise CorruptFileError(
                f"pyarrow decodes {len(column)} of {num_rows} rows",
                reason="row-count-mismatch",
                column=self.leaf.name,
                struct="ColumnChunk",
            )
        while pa.types.is_nested(column.type):
            column = _innermost(column)
        return column

    @cached_property
    def _schema(self) -> SyntheticSchema:
        return SyntheticSchema(self.elements, schema_leaves(self.elements), self.created_by)


def may_be_dictionary(leaf: Leaf) -> bool:
    """Return whether pyarrow can decode a leaf's values as dictionary arrays."""
    is_text = leaf.type == Type.BYTE_ARRAY and leaf.logical_name != "DECIMAL"
    return is_text and len(leaf.path) == 1 and leaf.is_flat


def leaf_readers(footer: Footer) -> list[LeafReader]:
    """Return a reader for each leaf of a file."""
    metadata = footer.metadata
    root = SchemaElement("root", num_children=1)
    readers = []
    ends = ((path, path[-1]) for path in schema_paths(metadata.schema))
    paths = [path for path, end in ends if end.type is not None and not end.num_children]
    for path, leaf in zip(paths, footer.leaves, strict=True):
        groups = [
            SchemaElement(f"c{depth}", repetition_type=element.repetition_type, num_children=1)
            for depth, element in enumerate(path[:-1])
        ]
        elements = (root, *groups, _plain(path[-1], leaf, f"c{len(groups)}"))
        readers.append(LeafReader(leaf, elements, metadata.created_by))
    return readers


def _plain(element: SchemaElement, leaf: Leaf, name: str) -> SchemaElement:
    """Return the leaf's element with only the annotations that affect decoding and order."""
    logical, converted = element.logicalType, element.converted_type
    if leaf.type in (Type.BYTE_ARRAY, Type.FIXED_LEN_BYTE_ARRAY):
        if leaf.logical_name is None or leaf.logical_name in _PLAIN_BYTES:
            logical = converted = None
    elif leaf.logical is not None and (integer := leaf.logical.INTEGER) is not None:
        # Arrow would cut a number to the declared width, but the file stores and compares all its bits
        width = 32 if leaf.type == Type.INT32 else 64
        logical, converted = LogicalType(INTEGER=IntType(width, integer.isSigned)), None
    return element._replace(name=name, field_id=None, logicalType=logical, converted_type=converted)


def _innermost(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of lists, or the only field of structs (null where the struct is null)."""
    chunks = []
    for chunk in column.chunks:
        flat = chunk.flatten()
        chunks.append(flat[0] if isinstance(flat, list) else flat)
    data_type = column.type.field(0).type
    return pa.chunked_array(chunks, type=data_type)
