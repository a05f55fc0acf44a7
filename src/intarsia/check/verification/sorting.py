"""Check the declared order of a row group (``sorting_columns``) against its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.check.verification.findings import Findings
from intarsia.embed.leaf_values import LeafReader
from intarsia.errors import FormatError
from intarsia.file import ParquetInput
from intarsia.format.footer import chunk_range
from intarsia.format.pages import walk_pages

_SORTING_COLUMNS = "sorting_columns"

Steps = npt.NDArray[np.int8]


def sorting_columns(file: ParquetInput, row_group: int) -> set[int]:
    """Return the ordinals of the leaves by which a row group is declared to be sorted."""
    claims = file.footer.metadata.row_groups[row_group].sorting_columns or ()
    return {claim.column_idx for claim in claims}


def check_sorting(
    file: ParquetInput, row_group: int, readers: Sequence[LeafReader], findings: Findings
) -> None:
    """Compare each row of a row group with the next, one sorting column at a time."""
    group = file.footer.metadata.row_groups[row_group]
    if not group.sorting_columns or group.num_rows < 2:
        return
    findings.count_checked("sorting_orders")
    tied: npt.NDArray[np.bool_] | None = None  # rows equal to the next one in the columns so far
    for claim in group.sorting_columns:
        if not 0 <= claim.column_idx < len(readers):
            message = f"sorting column {claim.column_idx} does not exist; there are {len(readers)} columns"
            findings.at(row_group, None).add("sorting-column", message, index=_SORTING_COLUMNS)
            return
        reader = readers[claim.column_idx]
        chunk_findings = findings.at(row_group, reader.leaf.name)
        values = _values(file, row_group, reader, chunk_findings)
        if values is None:
            return
        try:
            found = steps(values, descending=claim.descending, nulls_first=claim.nulls_first)
        except pa.ArrowException as error:  # invalid UTF-8
            chunk_findings.add("unchecked", f"its values cannot be compared: {error}", index=_SORTING_COLUMNS)
            return
        tied = np.ones(len(found), dtype=bool) if tied is None else tied
        breaks = np.flatnonzero(tied & (found < 0))
        if len(breaks):
            order = f"{'descending' if claim.descending else 'ascending'}, "
            order += f"nulls {'first' if claim.nulls_first else 'last'}"
            message = f"the rows are declared sorted ({order}), but row {breaks[0] + 1} of the row group "
            message += f"precedes row {breaks[0]} in this order"
            message += f", and {len(breaks) - 1} more are out of order" if len(breaks) > 1 else ""
            chunk_findings.add("rows-not-sorted", message, index=_SORTING_COLUMNS)
            return
        tied &= found == 0


def steps(values: pa.Array, *, descending: bool, nulls_first: bool) -> Steps:
    """Compare each row with the next: 1 if they are in order, 0 if they are equal, -1 if not in order.

    NaN and zeros of different signs are in order with everything, because writers place them differently.

    Example:
        >>> steps(pa.array([None, 1, 1, 3, 2]), descending=False, nulls_first=True).tolist()
        [1, 0, 1, -1]
    """
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    here, following = values[:-1], values[1:]
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    is_here, is_next = valid[:-1], valid[1:]
    found = np.ones(len(here), dtype=np.int8)
    found[_mask(pc.less(here, following) if descending else pc.greater(here, following))] = -1
    same = _mask(pc.equal(here, following))
    if pa.types.is_floating(values.type):
        signs = np.signbit(values.fill_null(0).to_numpy(zero_copy_only=False))
        same &= signs[:-1] == signs[1:]
    found[same | ~(is_here | is_next)] = 0
    found[(is_here & ~is_next) if nulls_first else (~is_here & is_next)] = -1
    return found


def _mask(found: pa.Array) -> npt.NDArray[np.bool_]:
    return np.array(found.fill_null(False).to_numpy(zero_copy_only=False), dtype=bool)


def _values(file: ParquetInput, row_group: int, reader: LeafReader, findings: Findings) -> pa.Array | None:
    """Return the values of a sorting column, one per row; None, with a finding, if they have no order."""
    try:
        meta = file.footer.chunk_metadata(row_group, reader.leaf)
        if not reader.leaf.is_flat or reader.ordering is None:
            message = "rows cannot be sorted by a column of this type"
            findings.add("unchecked", message, index=_SORTING_COLUMNS)
            return None
        data = file.source.read(*chunk_range(meta))
        num_rows = file.footer.metadata.row_groups[row_group].num_rows
        if not any(page.is_data for page in walk_pages(data, meta.num_values)):
            return None
        column = reader.read(data, meta, num_rows, as_dictionary=False)
    except FormatError:  # reported with the chunk
        return None
    if len(column) != num_rows:
        return None
    return column.combine_chunks()
