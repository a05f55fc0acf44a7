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


def test_a_few_rows_of_chunks_that_have_more_than_2_gib_of_text():
    """The chunks are not joined, which one array could not hold; the text is memory that is not touched."""
    size, rows = 1 << 30, 1024
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * (size // rows))
    chunk = pa.StringArray.from_buffers(rows, offsets, pa.py_buffer(np.zeros(size, dtype=np.uint8)))
    column = pa.chunked_array([chunk, chunk, chunk])
    wanted = RowSelection.from_rows(np.arange(0, 3 * rows, 100))
    taken = RowTaker(RowSelection.all(3 * rows), wanted).of(column)
    assert (len(taken), taken.nbytes < size) == (wanted.num_rows, True)
