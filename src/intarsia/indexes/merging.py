"""Payloads of the parts of a file, which are merged into the payload of the whole file.

A large file is indexed by several tasks, each of which builds payloads for some of its row groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from intarsia.indexes.granules import parse_granules, serialize_granules
from intarsia.indexes.layout import Granularity, Layout
from intarsia.rows.selection import Rows


class PayloadPart(NamedTuple):
    """The payload of some consecutive row groups, built as if they were a file.

    Attributes:
        payload: The result of `Index.build`.
        layout: The row ranges of these row groups, which begin at 0. It has no page edges.
    """

    payload: bytes
    layout: Layout


@runtime_checkable
class MergesParts(Protocol):
    """An index whose payload can be merged from those of parts of a file, which are built in parallel."""

    def can_merge(self) -> bool:
        """Return whether parts can be merged for these parameters.

        Returns:
            False if a granule can span row groups. Then one task builds the index of a file.
        """
        ...

    def merge(self, parts: Sequence[PayloadPart]) -> bytes | None:
        """Merge the payloads of consecutive parts.

        Args:
            parts: The parts in the order of the file, which together have all of its row groups.

        Returns:
            The bytes that `Index.build` returns for the whole file. None to build them from the values.

        Raises:
            IndexBuildError: As `Index.build`.
            IndexPayloadError: If a payload is damaged.
        """
        ...


def merged_edges(edges_of_parts: Sequence[Rows]) -> Rows:
    """Return the edges of the granules of a file, given those of its parts.

    Example:
        >>> merged_edges([np.array([0, 2, 5]), np.array([0, 1])])
        array([0, 2, 5, 6])
    """
    first_rows = np.cumsum([0, *(int(edges[-1]) for edges in edges_of_parts)])
    pieces = [edges[:-1] + first for edges, first in zip(edges_of_parts, first_rows[:-1], strict=True)]
    return np.concatenate([*pieces, first_rows[-1:]]).astype(np.int64)


def merge_rows_of_granules(parts: Sequence[PayloadPart], granularity: Granularity, name: str) -> bytes:
    """Merge payloads that have one row per granule, and no metadata apart from edges.

    Args:
        parts: The parts.
        granularity: The index's granularity, which is not ``"file"``.
        name: The name of the index, for messages.
    """
    opened = [
        parse_granules(payload, layout, granularity, name, has_row_each=True) for payload, layout in parts
    ]
    table = pa.Table.from_batches([part.batch.replace_schema_metadata(None) for part in opened])
    batches = table.combine_chunks().to_batches()
    batch = batches[0] if batches else opened[0].batch
    return serialize_granules(batch, merged_edges([part.edges for part in opened]), granularity)
