"""The values of one leaf: decoded from the bytes of one column chunk, and the bounds of its pages.

The decoding schema contains only the path to this leaf, without names and annotations that do not affect its
order. So bounds are computed from the stored values, not from those of an Arrow schema or extension type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import CorruptFileError
from intarsia.file.claims import check_value_count, check_values
from intarsia.file.synthetic import Segments, SyntheticSchema, decode
from intarsia.format.enums import Type
from intarsia.format.footer import Footer, Leaf, schema_leaves, schema_paths
from intarsia.format.structs import ColumnMetaData, IntType, LogicalType, SchemaElement
from intarsia.once import cached_property
from intarsia.records import dataclass
from intarsia.rows.bounds import Counts
from intarsia.rows.int96 import INT96_BYTES
from intarsia.rows.ordering import MAX_BOUND_BYTES, Ordering, ordering_for, truncate_max, truncate_min

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
    return pa.chunked_array(chunks, type=column.type.field(0).type)


# --- the bounds of pages, without Python code per row ------------------------------------------------------
# Source: ``ColumnIndex`` and ``ColumnOrder`` in ``parquet.thrift``.

#: The values of a dictionary are counted in each page that has at least this many times as many values.
_COUNTED_VALUES = 4


class PageBounds(NamedTuple):
    """Bounds and counts of the pages that have a value that is not null.

    Attributes:
        minima, maxima: Untruncated bounds in their stored form.
        nan_counts: Number of NaNs in each page; None for types without NaN.
        value_bytes: Size of the values of each page in bytes, for BYTE_ARRAY; else None.
    """

    minima: list[bytes]
    maxima: list[bytes]
    nan_counts: Counts | None = None
    value_bytes: Counts | None = None


def page_bounds(
    values: pa.ChunkedArray, starts: Counts, ordering: Ordering, *, total_order: bool
) -> PageBounds:
    """Return the bounds of pages.

    Args:
        values: The values of all pages, without nulls.
        starts: Ascending ordinals in ``values`` at which the pages with values start; at least one.
        total_order: Whether floats are ordered by IEEE 754's total order instead of the type's own order.
    """
    if ordering.is_float:
        return _float_bounds(_numbers(values), starts, ordering, total_order=total_order)
    if ordering.wire is not None:
        numbers = _numbers(values)
        return PageBounds(
            _split(np.minimum.reduceat(numbers, starts), ordering),
            _split(np.maximum.reduceat(numbers, starts), ordering),
        )
    if pa.types.is_dictionary(values.type):
        lows, highs, value_bytes = _by_rank(values, starts)
        return PageBounds(lows.to_pylist(), highs.to_pylist(), value_bytes=value_bytes)
    lows, highs = _each_page(values, starts)
    if ordering.decimal:
        minima, maxima = (list(map(ordering.encode, ordering.keys(bounds))) for bounds in (lows, highs))
        return PageBounds(minima, maxima)
    sizes = None
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        sizes = np.add.reduceat(pc.binary_length(values).to_numpy(), starts, dtype=np.int64)
    return PageBounds(lows.to_pylist(), highs.to_pylist(), value_bytes=sizes)


def cut_bounds(
    minima: list[bytes], maxima: list[bytes], ordering: Ordering
) -> tuple[list[bytes], list[bytes]]:
    """Return lower and upper bounds that are short enough for an index."""
    if not may_be_cut(ordering):
        return minima, maxima
    text = ordering.is_text
    return (
        [truncate_min(bound, MAX_BOUND_BYTES, text=text) for bound in minima],
        [truncate_max(bound, MAX_BOUND_BYTES, text=text) for bound in maxima],
    )


def may_be_cut(ordering: Ordering) -> bool:
    """Return whether bounds may be truncated."""
    # a truncated value is not a value of a fixed-length type, and is another number for a decimal
    return ordering.is_bytes and ordering.leaf.type == Type.BYTE_ARRAY


def _numbers(values: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the values as NumPy numbers that sort in the type's order."""
    array = values.combine_chunks()
    data_type = array.type
    if pa.types.is_boolean(data_type):
        array = array.cast(pa.uint8())
    elif pa.types.is_temporal(data_type):
        array = array.view(pa.int32() if data_type.bit_width == 32 else pa.int64())
    elif pa.types.is_decimal(data_type):  # stored as INT32 or INT64, so the low word is the whole number
        words = np.frombuffer(array.buffers()[1], dtype="<i8").reshape(-1, data_type.byte_width // 8)
        return np.asarray(words[array.offset : array.offset + len(array), 0])
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _split(bounds: npt.NDArray[Any], ordering: Ordering) -> list[bytes]:
    """Return each number as its bytes in the file."""
    wire = ordering.wire
    assert wire is not None
    raw = bounds.astype(wire).tobytes()
    return [raw[start : start + wire.itemsize] for start in range(0, len(raw), wire.itemsize)]


def _float_bounds(
    numbers: npt.NDArray[Any], starts: Counts, ordering: Ordering, *, total_order: bool
) -> PageBounds:
    nan = np.isnan(numbers)
    nan_counts = np.asarray(np.add.reduceat(nan, starts, dtype=np.int64))
    if total_order:
        minima, maxima = _total_order_bounds(numbers, nan, nan_counts, starts)
        return PageBounds(_split(minima, ordering), _split(maxima, ordering), nan_counts)
    if numbers.dtype == np.float16:
        numbers = numbers.astype(np.float32)  # NumPy has no fast half floats
    low, high = (np.fmin, np.fmax) if nan_counts.any() else (np.minimum, np.maximum)  # minimum is faster
    minima, maxima = low.reduceat(numbers, starts), high.reduceat(numbers, starts)
    # the type's order does not distinguish the zeros, so a bound of zero must cover both
    minima[minima == 0] = -0.0
    maxima[maxima == 0] = 0.0
    return PageBounds(_split(minima, ordering), _split(maxima, ordering), nan_counts)


def _total_order_bounds(
    numbers: npt.NDArray[Any], nan: npt.NDArray[np.bool_], nan_counts: Counts, starts: Counts
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return bounds by IEEE 754's total order; NaNs count only in pages that have nothing else."""
    integer = np.dtype(f"i{numbers.dtype.itemsize}")
    limits = np.iinfo(integer)
    bits = numbers.view(integer)
    keys = np.where(bits < 0, bits ^ limits.max, bits)  # negative floats descend as integers
    sizes = np.diff(np.append(starts, len(numbers)))
    hide = nan & np.repeat(nan_counts < sizes, sizes)
    minima = np.minimum.reduceat(np.where(hide, limits.max, keys), starts)
    maxima = np.maximum.reduceat(np.where(hide, limits.min, keys), starts)
    low, high = (np.where(found < 0, found ^ limits.max, found) for found in (minima, maxima))
    return low.view(numbers.dtype), high.view(numbers.dtype)


def _each_page(values: pa.ChunkedArray, starts: Counts) -> tuple[pa.Array, pa.Array]:
    """Return the extremes of each page, computed by pyarrow, which compares bytes as unsigned."""
    stops = np.append(starts[1:], len(values)).tolist()
    spans = zip(starts.tolist(), stops, strict=True)
    found = [pc.min_max(values.slice(start, stop - start)) for start, stop in spans]
    lows, highs = (pa.array([pair[end] for pair in found], type=values.type) for end in ("min", "max"))
    return lows, highs


def _by_rank(values: pa.ChunkedArray, starts: Counts) -> tuple[pa.Array, pa.Array, Counts]:
    """Return the extremes of each page of dictionary arrays by comparing only the dictionary's values."""
    array = values.unify_dictionaries().combine_chunks()
    dictionary = array.dictionary
    order = pc.sort_indices(dictionary).to_numpy()
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    lengths = pc.binary_length(dictionary).to_numpy().astype(np.int64)
    lows, highs, value_bytes = [], [], []
    # one page at a time fits into the CPU cache, which is three times as fast
    for positions in np.split(array.indices.to_numpy(), starts[1:]):
        if len(rank) * _COUNTED_VALUES <= len(positions):  # one pass over the page
            counts = np.bincount(positions, minlength=len(rank))
            ranks = rank[counts > 0]
            num_bytes = counts @ lengths
        else:
            ranks = rank[positions]
            num_bytes = lengths[positions].sum(dtype=np.int64)
        lows.append(ranks.min())
        highs.append(ranks.max())
        value_bytes.append(num_bytes)
    return (
        dictionary.take(pa.array(order[lows])),
        dictionary.take(pa.array(order[highs])),
        np.array(value_bytes, dtype=np.int64),
    )
