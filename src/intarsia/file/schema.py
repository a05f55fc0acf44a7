"""A file's schema as Parquet leaves and Arrow types, shared by all files with the same schema.

Most files of a lake have the same schema, and building it takes longer than pruning a small file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import starmap

import pyarrow as pa

from intarsia import native
from intarsia.arrow.nested import field_type, is_list
from intarsia.errors import UnsupportedFeatureError
from intarsia.file.synthetic import SyntheticSchema
from intarsia.format import directory
from intarsia.format.blob import DATAFUSION_KEY
from intarsia.format.enums import ConvertedType, Type
from intarsia.format.footer import Footer, Leaf, schema_paths, shared_leaves
from intarsia.format.structs import KeyValue, LogicalType, SchemaElement
from intarsia.once import cached_property
from intarsia.predicate.bound import ELEMENT, KEY, VALUE
from intarsia.rows.int96 import int96_ordering
from intarsia.rows.ordering import Ordering, ordering_for

#: Keys of the key/value metadata with offsets of indexes in one file, which are wrong in a copy.
INDEX_KEYS = (directory.KEY, DATAFUSION_KEY)

#: Number of cached schemas, and of cached parts of each.
_REMEMBERED = 64


class FileSchema:
    """The schema of a file, independent of its row groups.

    Args:
        whole: The schema with the footer's key/value metadata without index keys; it may contain the Arrow
            schema.

    Attributes:
        part: Returns the schema to decode pages of top-level fields; see `SyntheticSchema.part`.
    """

    def __init__(self, whole: SyntheticSchema) -> None:
        self._whole = whole
        self._orderings: dict[int, Ordering | None] = {}
        self.leaves = whole.leaves
        self.part = lru_cache(maxsize=_REMEMBERED)(whole.part)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema that ``pyarrow.parquet.read_table`` returns, without `INDEX_KEYS`.

        Raises:
            CorruptFileError: If pyarrow cannot read it.
        """
        return self._whole.arrow

    @cached_property
    def decoded(self) -> FileSchema:
        """The schema to decode pages whose rows are selected: with text and bytes in place of their views.

        From views, pyarrow cannot select rows, and a copy of some rows keeps all values of their pages.
        """
        whole = self._whole.decoded()
        return self if whole is self._whole else FileSchema(whole)

    @cached_property
    def handle(self) -> native.NativeSchema | None:
        """The schema in the extension; None without it, or if it refuses the schema.

        Files of old parquet-cpp are left to pyarrow, which works around its errors.
        """
        created_by = self._whole.created_by or b""
        if native.load() is None or created_by.startswith(b"parquet-cpp "):
            return None
        footer = self._whole.file([], 0)
        return native.attempt(lambda extension: extension.Schema(footer, self.arrow))

    @cached_property
    def compiled(self) -> Mapping[int, int]:
        """Ordinals of the top-level fields that the extension decodes, with the numbers of their leaves."""
        supported = self.handle.supported if self.handle is not None else ()
        num_leaves = Counter(leaf.root_ordinal for leaf in self.leaves)
        return {root: num_leaves[root] for root, is_supported in enumerate(supported) if is_supported}

    @cached_property
    def leaves_by_path(self) -> Mapping[tuple[str, ...], Leaf]:
        """Leaves by path; of equal paths the first."""
        out: dict[tuple[str, ...], Leaf] = {}
        for leaf in self.leaves:
            out.setdefault(leaf.path, leaf)
        return out

    @cached_property
    def roots_by_folded_name(self) -> Mapping[str, Sequence[pa.Field]]:
        """Top-level fields by their names in lower case, as Spark finds them by default."""
        out: dict[str, list[pa.Field]] = {}
        for field in self.arrow:
            out.setdefault(field.name.lower(), []).append(field)
        return out

    @cached_property
    def leaf_types(self) -> Mapping[int, pa.DataType]:
        """Arrow type of each leaf outside lists and maps, by ordinal."""
        out: dict[int, pa.DataType] = {}
        for leaf in self.leaves:
            if not leaf.is_flat:
                continue
            data_type = field_type(self.arrow.field(leaf.root_ordinal).type, leaf.path[1:])
            if data_type is not None:
                out[leaf.ordinal] = data_type
        return out

    @cached_property
    def leaves_of_values(self) -> Mapping[tuple[str, ...], Leaf]:
        """Leaves with the values that proofs evaluate, by path: those outside lists and maps, and elements.

        The elements are those of lists and maps at the top level; see `intarsia.predicate.bound.ELEMENT`.
        """
        out = {path: leaf for path, leaf in self.leaves_by_path.items() if leaf.is_flat}
        for path, leaf, _ in self._elements:
            out.setdefault(path, leaf)
        return out

    @cached_property
    def value_types(self) -> Mapping[int, pa.DataType]:
        """Arrow type of the values of each leaf of `leaves_of_values`, by ordinal."""
        return {**self.leaf_types, **{leaf.ordinal: data_type for _, leaf, data_type in self._elements}}

    @cached_property
    def _elements(self) -> Sequence[tuple[tuple[str, ...], Leaf, pa.DataType]]:
        """Paths, leaves and types of the elements of lists and maps at the top level."""
        leaves_of: dict[int, list[Leaf]] = {}
        for leaf in self.leaves:
            if not leaf.is_flat and len(leaf.path) > 1:
                leaves_of.setdefault(leaf.root_ordinal, []).append(leaf)
        found = []
        for root, leaves in leaves_of.items():
            for leaf, (part, data_type) in zip(leaves, _parts(self.arrow.field(root).type), strict=False):
                if pa.types.is_nested(data_type):  # its leaves are more than one
                    break
                found.append(((leaf.path[0], part), leaf, data_type))
        return found

    @cached_property
    def variants(self) -> frozenset[tuple[str, ...]]:
        """The paths of VARIANT groups. Arrow shows them as structs of their encoded parts."""
        found = _logical_types(self._whole.elements)
        return frozenset(path for path, logical in found if logical.VARIANT is not None)

    def refuse_unknown_types(self, path: str, columns: Collection[str] | None = None) -> None:
        """Refuse columns with logical types of later versions of Parquet, which new files would lack.

        Args:
            path: The path of the file, for the error.
            columns: The names of the top-level columns to be written; None for all.

        Raises:
            UnsupportedFeatureError: If there is such a column.
        """
        for names, logical in _logical_types(self._whole.elements):
            if logical.name is None and (columns is None or names[0] in columns):
                column = ".".join(names)
                raise UnsupportedFeatureError(
                    f"column {column!r} has the {logical.shown}, which a new file would lack; leave the "
                    "column out, or rewrite the file with a library that supports the type",
                    reason="unknown-logical-type",
                    path=path,
                    column=column,
                )

    def ordering(self, leaf: Leaf) -> Ordering | None:
        """Return the order of a leaf's values; None if it has none, or is not of `leaves_of_values`.

        For an INT96 leaf, it is the order of bounds under ``INT96_TIMESTAMP_ORDER``; `Trust` decides whether
        the footer declares it.
        """
        if leaf.ordinal not in self._orderings:
            data_type = self.value_types.get(leaf.ordinal)
            find = int96_ordering if leaf.type == Type.INT96 else ordering_for
            self._orderings[leaf.ordinal] = None if data_type is None else find(leaf, data_type)
        return self._orderings[leaf.ordinal]


def _parts(data_type: pa.DataType) -> Sequence[tuple[str, pa.DataType]]:
    """Return the parts of a map or of a list of any length, with their types."""
    if pa.types.is_map(data_type):
        return (KEY, data_type.key_type), (VALUE, data_type.item_type)
    if is_list(data_type) and not pa.types.is_fixed_size_list(data_type):
        return ((ELEMENT, data_type.value_type),)
    return ()


def _logical_types(elements: Sequence[SchemaElement]) -> Iterator[tuple[tuple[str, ...], LogicalType]]:
    """Yield the paths and logical types of elements in a flattened schema that is checked to be one tree."""
    for path in schema_paths(elements):
        if (logical := path[-1].logicalType) is not None:
            yield tuple(element.name for element in path), logical


def file_schema(footer: Footer) -> FileSchema:
    """Return the schema of a footer, shared with footers that have the same schema and writer."""
    key_values = tuple(
        [one for one in starmap(KeyValue, footer.key_values.items()) if one.key not in INDEX_KEYS]
    )
    return _file_schema(tuple(footer.metadata.schema), key_values, footer.metadata.created_by)


@lru_cache(maxsize=_REMEMBERED)
def _file_schema(
    elements: tuple[SchemaElement, ...], key_values: tuple[KeyValue, ...], created_by: bytes | None
) -> FileSchema:
    # parquet-mr adds UNKNOWN to INTERVAL, of which pyarrow would read nulls
    readable = tuple(
        [
            one._replace(logicalType=None) if one.converted_type == ConvertedType.INTERVAL else one
            for one in elements
        ]
    )
    return FileSchema(SyntheticSchema(readable, shared_leaves(elements), created_by, key_values))
