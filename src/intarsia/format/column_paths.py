"""Footers whose chunks omit the paths of their columns, completed for pyarrow, which requires them.

``path_in_schema`` repeats in every chunk what the schema states, so some writers omit it.
"""

from __future__ import annotations

from collections.abc import Sequence

from intarsia.format.footer import Leaf
from intarsia.format.thrift import BINARY, LIST, List, parse_tree, serialize_tree

# FileMetaData, RowGroup, ColumnChunk, ColumnMetaData
_ROW_GROUPS, _COLUMNS, _META_DATA, _PATH_IN_SCHEMA = 4, 1, 3, 3


def with_column_paths(raw: bytes, leaves: Sequence[Leaf]) -> bytes | None:
    """Add the path of its column to every chunk of a footer.

    Args:
        raw: The footer's bytes, without length and magic.
        leaves: The leaves of its schema.

    Returns:
        The completed footer; None if no path is missing.

    Raises:
        CorruptFileError: If the bytes are not a footer.
    """
    tree, _ = parse_tree(raw)
    is_changed = False
    for group in tree.structs(_ROW_GROUPS) or []:
        for leaf, chunk in zip(leaves, group.structs(_COLUMNS) or [], strict=False):
            meta = chunk.struct(_META_DATA)
            if meta is not None and meta.get(_PATH_IN_SCHEMA) is None:
                meta.set(_PATH_IN_SCHEMA, LIST, List(BINARY, [name.encode() for name in leaf.path]))
                is_changed = True
    return serialize_tree(tree) if is_changed else None
