"""Checks of the row and value counts in a footer, before memory is allocated for them."""

from __future__ import annotations

from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.file.page_values import check_values, is_plausible
from intarsia.format.footer import Footer, Leaf, chunk_range


def check_claims(file: ParquetInput, row_group: int, leaf: Leaf) -> None:
    """Refuse a chunk whose row and value counts disagree, or that claims more values than its pages can have.

    Only implausible counts are compared with the pages, because a small chunk can contain many equal values.
    All other checks need only the footer.

    Args:
        file: The file.
        row_group: Ordinal of the row group.
        leaf: The column.

    Raises:
        CorruptFileError: If the footer contradicts itself, or the pages.
        UnsupportedFeatureError: If the chunk is encrypted or in another file.
    """
    check_row_count(file.footer, row_group, leaf)
    meta = file.footer.chunk_metadata(row_group, leaf)
    if not is_plausible(meta.num_values, meta.total_compressed_size):
        data = file.source.read(*chunk_range(meta))
        check_values(data, meta.num_values, meta.codec, leaf, file.footer.metadata.created_by)


def check_row_count(footer: Footer, row_group: int, leaf: Leaf) -> None:
    """Refuse a row group whose row count disagrees with the value count of a column; reads nothing.

    Args:
        footer: The footer.
        row_group: Ordinal of the row group.
        leaf: The column.

    Raises:
        CorruptFileError: If rows and values contradict each other.
        UnsupportedFeatureError: If the chunk is encrypted or in another file.
    """
    num_rows = footer.metadata.row_groups[row_group].num_rows
    check_value_count(leaf, num_rows, footer.chunk_metadata(row_group, leaf).num_values)


def check_value_count(leaf: Leaf, num_rows: int, num_values: int) -> None:
    """Refuse a row count that disagrees with the value count of a column.

    A flat column has one value or null per row. A column in a list or map has at least one entry per row,
    because empty and null lists have an entry, too.

    Args:
        leaf: The column.
        num_rows: Number of rows in the row group, according to the footer.
        num_values: Number of values in the chunk, including nulls, according to the footer.

    Raises:
        CorruptFileError: If the counts contradict each other.
    """
    if num_values < num_rows or (leaf.is_flat and num_values > num_rows):
        raise CorruptFileError(
            f"the row group claims {num_rows} rows, but its column {leaf.name!r} has {num_values} values",
            reason="value-count-mismatch",
            column=leaf.name,
            struct="RowGroup",
        )
