"""True values and their positions, in slices that begin and end within a byte."""

import numpy as np
import pyarrow as pa
import pytest

from intarsia.arrow.comparison import flags_of, true_positions


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 1])
@pytest.mark.parametrize("start", [0, 1, 7, 8, 13])
def test_slices(start, share):
    flags = np.random.default_rng(start).random(1_200) < share
    mask = pa.array(flags)
    for length in (0, 1, 7, 8, 9, 63, 1_000):
        assert flags_of(mask.slice(start, length)).tolist() == flags[start : start + length].tolist()
        found = true_positions(mask.slice(start, length))
        assert found.tolist() == np.flatnonzero(flags[start : start + length]).tolist()
        assert found.dtype == np.int64
