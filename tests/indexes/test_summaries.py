"""A single run of numbers is summarized without grouping, with the same result as merged runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from intarsia.indexes.summaries import merge_summaries, summarize

ONE_RUN = np.zeros(1, dtype=np.int64)


def in_two_runs(values: pa.Array) -> pa.Table:
    return merge_summaries(summarize(values, np.array([0, len(values) // 2])), ONE_RUN)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()], ids=str
)
@pytest.mark.parametrize("nulls", [0, 1, 4])
def test_whole_numbers_at_the_ends_of_their_type(kind, nulls):
    ends = np.iinfo(kind.to_pandas_dtype())
    values = pa.array([ends.max, ends.min, ends.max, ends.max][nulls:] + [None] * nulls, kind)
    assert summarize(values, ONE_RUN).equals(in_two_runs(values))
    assert summarize(values, ONE_RUN)["sum"][0].as_py() == sum(v or 0 for v in values.to_pylist())


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize(
    "numbers",
    [[1.5, -2.0, 0.25], [None, 1.5], [float("nan"), 1.0, None, -1.0], [float("nan")] * 2, [None, None]],
    ids=str,
)
def test_floats_with_nulls_and_nan(kind, numbers):
    values = pa.array([None if n is None else kind.to_pandas_dtype()(n) for n in numbers], kind)
    # as text, since NaN equals nothing
    assert str(summarize(values, ONE_RUN).to_pylist()) == str(in_two_runs(values).to_pylist())
