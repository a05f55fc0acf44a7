"""A single run of numbers is summarized without grouping, with the same result as merged runs."""

from __future__ import annotations

from decimal import Context, Decimal

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


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal128(38, 0),
        pa.decimal128(38, 3),
        pa.decimal128(38, 38),
        pa.decimal256(60, 30),
        pa.decimal64(18, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "numbers",
    [
        [7, -7, 0, 5],
        [-1, -1, -3],
        [2**63 - 1, -(2**63), 2**63 - 1, 2**63 - 1],
        [2**63, 1, 0],  # as 64 bits, it would be negative
        [-(2**63) - 1, 1],
        [10**38 - 1, 1 - 10**38, 10**38 - 1],
        [None, 12, None, -40],
        [None, None],
        [9],
    ],
    ids=lambda numbers: str(numbers)[:30],
)
def test_decimals(kind, numbers):
    """Those with at most 64 bits are summarized as integers."""
    if kind.bit_width == 64:
        numbers = [None if number is None else number % 10**17 for number in numbers]
    exact = Context(prec=76)
    decimals = [None if n is None else exact.scaleb(Decimal(n), -kind.scale) for n in numbers]
    padded = pa.array([decimals[0], None, *decimals, decimals[-1]], kind)
    values = padded[2:-1]
    found = summarize(values, ONE_RUN)
    assert len(values) == 1 or found.equals(in_two_runs(values))
    known = [decimal for decimal in decimals if decimal is not None]
    total = sum((int(n) for n in numbers if n is not None), 0)
    assert found.to_pylist() == [
        {
            "min": min(known, default=None),
            "max": max(known, default=None),
            "sum": exact.scaleb(Decimal(total), -kind.scale),
            "num_rows": len(numbers),
            "null_count": len(numbers) - len(known),
            "nan_count": 0,
        }
    ]
