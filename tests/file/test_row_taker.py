"""Rows that are taken from columns are those at the same positions, with and without gaps between pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from intarsia.file.decode import RowTaker
from intarsia.rows.selection import RowSelection


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.95])
@pytest.mark.parametrize("gap", [0, 1, 20])
def test_rows_of_columns_with_gaps(share, gap):
    """Rows on both sides of a gap have adjacent positions in the columns."""
    random = np.random.default_rng(int(share * 100) + gap)
    covered = RowSelection.from_ranges((start, start + 50 - gap) for start in range(0, 2000, 50))
    rows = covered.rows()
    wanted = rows[random.random(len(rows)) < share]
    taken = RowTaker(covered, RowSelection.from_rows(wanted))
    numbers = [None if row % 7 == 0 else int(row) for row in rows]
    for data_type in (pa.int64(), pa.string()):
        values = pa.array(numbers, pa.int64()).cast(data_type)
        half = len(values) // 2
        column = pa.chunked_array([values[:half], values[half:]])
        expected = values.filter(pa.array(np.isin(rows, wanted)))
        assert taken.of(column).combine_chunks().equals(expected)
