"""Checks of the row and value counts that a footer claims, before memory is allocated for them."""

from __future__ import annotations

from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.file.pages import walk_pages
from intarsia.format.footer import Footer, Leaf, chunk_range

#: The values in the pages are counted if a chunk claims more than this many, plus this many per byte.
_PLAUSIBLE_VALUES = 1 << 22
_PLAUSIBLE_VALUES_PER_BYTE = 1 << 10


def check_claims(file: ParquetInput, row_group: int, leaf: Leaf) -> None:
    """Refuse a chunk whose rows and values disagree, or that claims far more values than its pages hold.

    Only implausible counts are compared with the pages: a small chunk may well hold many equal values.  The
    other checks need only the footer.

    Args:
        file: The file.
        row_group: Ordinal of the row group.
        leaf: The column.

    Raises:
        CorruptFileError: If the footer contradicts itself, or the pages.
        UnsupportedFeatureError: If the chunk is encrypted, or lies in another file.
    """
    check_row_count(file.footer, row_group, leaf)
    meta = file.footer.chunk_metadata(row_group, leaf)
    if meta.num_values > _PLAUSIBLE_VALUES + _PLAUSIBLE_VALUES_PER_BYTE * meta.total_compressed_size:
        walk_pages(file.source.read(*chunk_range(meta)), meta.num_values)


def check_row_count(footer: Footer, row_group: int, leaf: Leaf) -> None:
    """Refuse a row group whose row count disagrees with the values of a column; reads nothing.

    Args:
        footer: The footer.
        row_group: Ordinal of the row group.
        leaf: The column.

    Raises:
        CorruptFileError: If rows and values contradict each other.
        UnsupportedFeatureError: If the chunk is encrypted, or lies in another file.
    """
    num_rows = footer.metadata.row_groups[row_group].num_rows
    check_value_count(leaf, num_rows, footer.chunk_metadata(row_group, leaf).num_values)


def check_value_count(leaf: Leaf, num_rows: int, num_values: int) -> None:
    """Refuse a row count that disagrees with the values of a column.

    A flat column has a value or a null for each row.  A column in a list or map has at least one entry for
    each row, since empty and null lists have one as well.

    Args:
        leaf: The column.
        num_rows: Rows that a row group claims.
        num_values: Values that the column's chunk claims, nulls included.

    Raises:
        CorruptFileError: If rows and values contradict each other.
    """
    if num_values < num_rows or (leaf.is_flat and num_values > num_rows):
        raise CorruptFileError(
            f"the row group claims {num_rows} rows, but its column {leaf.name!r} has {num_values} values",
            struct="RowGroup",
        )
