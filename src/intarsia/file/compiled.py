"""Pages to selected rows by the optional extension, for the top-level columns whose types it supports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from intarsia import native
from intarsia.file.chunks import LeafPlan
from intarsia.file.fetch import FetchedBytes
from intarsia.file.schema import FileSchema
from intarsia.rows.selection import RowSelection
from intarsia.tuning import COMPILED_LIST_ROWS, COMPILED_LISTS_PART

#: Where bytes are: a buffer, and the start and stop in it.
_Span: TypeAlias = "tuple[bytes, int, int]"


class _Chunk(NamedTuple):
    """Some data pages of a chunk, or all of it.

    Attributes:
        codec: The chunk's `CompressionCodec`.
        span: The bytes of the pages.
        dictionary: The dictionary page, if it is apart from them.
        page_starts: The offset of each data page from the first one; empty for a whole chunk.
        page_rows: The number of rows of each data page; of a whole chunk, of all together.
        num_values: The number of values of a whole chunk.
    """

    codec: int
    span: _Span
    dictionary: _Span | None
    page_starts: list[int]
    page_rows: list[int]
    num_values: int


def decode_compiled(
    schema: FileSchema,
    plans: Sequence[LeafPlan],
    fetched: FetchedBytes,
    num_rows: Sequence[int],
    positions: RowSelection,
    texts: Collection[int],
    *,
    checksums: bool,
) -> dict[int, pa.ChunkedArray]:
    """Decode the columns that the extension supports; pyarrow decodes the others, and what it refuses.

    Args:
        plans: What was read of some leaves, whose pages have the same rows.
        num_rows: The number of rows in the pages of each row group.
        positions: The rows to select, counted in the pages of each leaf.
        texts: Ordinals of the top-level fields to decode to dictionary arrays.
        checksums: Whether pages that have a checksum are compared with it.

    Returns:
        The columns by ordinal of the top-level field.
    """
    handle = schema.handle
    if handle is None or positions.is_empty:
        return {}
    total = sum(num_rows)
    reads_lists = total <= COMPILED_LIST_ROWS or positions.num_rows * COMPILED_LISTS_PART <= total
    by_root: dict[int, list[LeafPlan]] = {}
    for plan in plans:
        by_root.setdefault(plan.leaf.root_ordinal, []).append(plan)
    fields = [
        (root, root in texts, [_chunks(plan, fetched, num_rows) for plan in leaves])
        for root, leaves in by_root.items()
        if len(leaves) == schema.compiled.get(root)  # a struct is decoded as a whole
        and (reads_lists or not any(plan.leaf.max_repetition_level for plan in leaves))
    ]
    if not fields:
        return {}
    starts, stops = positions.starts.tobytes(), positions.stops.tobytes()
    found = native.attempt(lambda extension: extension.decode(handle, fields, starts, stops, checksums))
    if found is None:
        return {}
    columns = pa.record_batch(found).columns
    return {root: pa.chunked_array([column]) for (root, *_), column in zip(fields, columns, strict=True)}


def _chunks(plan: LeafPlan, fetched: FetchedBytes, num_rows: Sequence[int]) -> list[_Chunk]:
    """Return the pages of a leaf as the extension takes them."""
    outlines, chunks = plan.outlines, list[_Chunk]()
    for at, group in enumerate(plan.groups.tolist()):
        codec, num_values = int(outlines.codec[group]), int(outlines.num_values[group])
        chunk = plan.chunks[at] if plan.chunks else None
        if chunk is None:
            first, stop = int(outlines.starts[group]), int(outlines.stops[group])
            num_bytes = stop - first
        else:
            first, num_bytes = chunk.pages[0].start, chunk.num_bytes
        start = fetched.position(first)
        data, place = fetched.between(start, start + num_bytes)
        span = data, place, place + num_bytes
        if chunk is None or chunk.whole:
            rows = [num_rows[at] if chunk is None else chunk.covered.num_rows]
            chunks.append(_Chunk(codec, span, None, [], rows, num_values))
            continue
        dictionary = None
        if at in plan.dictionaries:
            length = plan.dictionaries[at].length
            data, place = fetched.part(start - length)
            dictionary = data, place, place + length
        chunks.append(_Chunk(codec, span, dictionary, chunk.page_starts, chunk.page_rows, num_values))
    return chunks
