"""The values of one leaf, as plain as pyarrow gives them, out of the bytes of one column chunk.

The schema that it is decoded by is the path to this one leaf, with every name and annotation taken off that
does not change how the leaf is ordered.  So bounds are computed from what is stored, not from what an Arrow
schema or an extension type makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from intarsia.errors import CorruptFileError
from intarsia.file.claims import check_value_count
from intarsia.file.synthetic import LeafPages, SyntheticSchema, decode_pages
from intarsia.format.footer import Leaf, schema_leaves
from intarsia.format.structs import ColumnMetaData, IntType, LogicalType, SchemaElement, Type
from intarsia.rows.ordering import Ordering, ordering_for

#: Annotated bytes whose stored form is their value; the others (DECIMAL, FLOAT16) are decoded.
_PLAIN_BYTES = frozenset(("STRING", "ENUM", "JSON", "BSON", "UUID"))

INT96_BYTES = 12


@dataclass(frozen=True)
class LeafReader:
    """Decodes chunks of one leaf.

    Attributes:
        leaf: The leaf.
        elements: The schema reduced to the path of the leaf, the root first.
    """

    leaf: Leaf
    elements: tuple[SchemaElement, ...]

    @classmethod
    def of(cls, path: Sequence[SchemaElement], leaf: Leaf) -> LeafReader:
        """The reader of a leaf, given its path as `leaf_paths` has it."""
        root = SchemaElement("root", num_children=1)
        groups = [
            SchemaElement(f"c{depth}", repetition_type=element.repetition_type, num_children=1)
            for depth, element in enumerate(path[:-1])
        ]
        return cls(leaf, (root, *groups, _plain(path[-1], leaf, f"c{len(groups)}")))

    @property
    def stored(self) -> LeafReader:
        """A reader of the leaf in a type whose PLAIN encoding is what the file stores."""
        plain = self.elements[-1]._replace(logicalType=None, converted_type=None)
        if self.leaf.type == Type.INT96:  # pyarrow has no type for its bytes, but these are laid out alike
            plain = plain._replace(type=Type.FIXED_LEN_BYTE_ARRAY, type_length=INT96_BYTES)
        return LeafReader(self.leaf, (*self.elements[:-1], plain))

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """Arrow's type of the leaf's values.

        Raises:
            CorruptFileError: If pyarrow makes nothing of the schema.
        """
        data_type = self._schema.arrow.field(0).type
        while pa.types.is_nested(data_type):
            data_type = data_type.field(0).type
        return data_type

    @cached_property
    def ordering(self) -> Ordering | None:
        """How the leaf's values compare; None where Parquet defines no order."""
        return ordering_for(self.leaf, self.arrow_type)

    def read(
        self, chunk: bytes, meta: ColumnMetaData, num_rows: int, *, as_dictionary: bool
    ) -> pa.ChunkedArray:
        """Decode a chunk.

        Args:
            chunk: Its bytes.
            meta: What the footer says of it.
            num_rows: Rows in the row group.
            as_dictionary: Give dictionary arrays, which saves spreading out strings.

        Returns:
            For a flat leaf one value a row; for one in a list or map all values of the innermost lists, with
            nothing for an empty or null list.

        Raises:
            CorruptFileError: If it has no value for each row, or pyarrow cannot decode it, or not all of it.
        """
        check_value_count(self.leaf, num_rows, meta.num_values)
        pages = LeafPages(0, meta, (chunk,), meta.num_values)
        table = decode_pages(self._schema, [pages], num_rows, "the pages", as_dictionary=as_dictionary)
        column = table.column(0)
        if len(column) != num_rows:  # it stops at a page without values, and says nothing
            raise CorruptFileError(f"pyarrow decodes {len(column)} of {num_rows} rows", struct="ColumnChunk")
        while pa.types.is_nested(column.type):
            column = _innermost(column)
        return column

    @cached_property
    def _schema(self) -> SyntheticSchema:
        return SyntheticSchema(self.elements, schema_leaves(self.elements))


def may_be_dictionary(leaf: Leaf) -> bool:
    """Whether pyarrow can give a leaf's values as dictionary arrays, which saves spreading out texts."""
    is_text = leaf.type == Type.BYTE_ARRAY and leaf.logical_name != "DECIMAL"
    return is_text and len(leaf.path) == 1 and leaf.is_flat


def leaf_paths(schema: Sequence[SchemaElement]) -> list[list[SchemaElement]]:
    """For each leaf, the schema elements from the root's child down to it.

    Args:
        schema: The flattened schema, already checked to be one tree.
    """
    paths: list[list[SchemaElement]] = []
    groups: list[SchemaElement] = []
    open_children: list[int] = [schema[0].num_children or 0]
    for element in schema[1:]:
        while open_children[-1] == 0:  # the innermost group is complete
            open_children.pop()
            groups.pop()
        open_children[-1] -= 1
        if element.num_children:
            groups.append(element)
            open_children.append(element.num_children)
        elif element.type is not None:
            paths.append([*groups, element])
    return paths


def _plain(element: SchemaElement, leaf: Leaf, name: str) -> SchemaElement:
    """The leaf's element with only what decides how its values are decoded and ordered."""
    logical, converted = element.logicalType, element.converted_type
    if leaf.type in (Type.BYTE_ARRAY, Type.FIXED_LEN_BYTE_ARRAY):
        if leaf.logical_name is None or leaf.logical_name in _PLAIN_BYTES:
            logical = converted = None
    elif leaf.logical is not None and (integer := leaf.logical.INTEGER) is not None:
        # Arrow would cut a number to the declared width; what is stored and compared has all its bits
        width = 32 if leaf.type == Type.INT32 else 64
        logical, converted = LogicalType(INTEGER=IntType(width, integer.isSigned)), None
    return element._replace(name=name, field_id=None, logicalType=logical, converted_type=converted)


def _innermost(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """One level down: the values of lists, or the one field of structs (null where the struct is)."""
    chunks = []
    for chunk in column.chunks:
        flat = chunk.flatten()
        chunks.append(flat[0] if isinstance(flat, list) else flat)
    data_type = column.type.field(0).type
    return pa.chunked_array(chunks, type=data_type)
