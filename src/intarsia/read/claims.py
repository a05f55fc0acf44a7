"""Whether a chunk can hold as many values as its footer claims, before room is made for them."""

from __future__ import annotations

from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.format.footer import Leaf, chunk_range
from intarsia.format.page_header import walk_pages

#: A chunk that claims more values than this, and than the next for each of its bytes, has its pages counted.
_PLAUSIBLE_ROWS = 1 << 22
_PLAUSIBLE_PER_BYTE = 1 << 10


def check_claims(file: ParquetInput, group: int, leaf: Leaf) -> None:
    """Refuse a chunk that claims far more values than its pages hold.

    Only implausible claims are checked, and those take reading the chunk: a chunk of few bytes may hold many
    equal values.

    Raises:
        CorruptFileError: If the chunk does not hold what it claims.
    """
    meta = file.footer.chunk_metadata(group, leaf)
    num_rows = file.footer.metadata.row_groups[group].num_rows
    plausible = _PLAUSIBLE_ROWS + _PLAUSIBLE_PER_BYTE * meta.total_compressed_size
    if max(num_rows, meta.num_values) <= plausible:
        return
    start, stop = chunk_range(meta)
    walk_pages(file.source.read(start, stop), meta.num_values)
    if num_rows > meta.num_values:
        raise CorruptFileError(
            f"row group {group} claims {num_rows} rows, column {leaf.name!r} {meta.num_values} values",
            struct="RowGroup",
        )


def check_row_counts(file: ParquetInput) -> None:
    """Refuse a footer whose row groups claim another number of rows than their chunks have values.

    A leaf that is in no list or map has one value, perhaps null, in every row. This takes the footer alone.

    Raises:
        CorruptFileError: If a row group contradicts itself.
    """
    leaf = next((leaf for leaf in file.footer.leaves if leaf.is_flat), None)
    if leaf is None:
        return
    for ordinal, group in enumerate(file.footer.metadata.row_groups):
        meta = group.columns[leaf.ordinal].meta_data
        if meta is not None and meta.num_values != group.num_rows:
            raise CorruptFileError(
                f"row group {ordinal} claims {group.num_rows} rows, and column {leaf.name!r} has "
                f"{meta.num_values} values",
                path=file.path,
                struct="RowGroup",
            )
