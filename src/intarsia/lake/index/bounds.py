"""Bounds of one column in many files, as an Arrow record batch.

::

    low, high    int64, uint64, float64 or binary   keys, see `intarsia.rows.ordering`; null if unknown.
                                                    Decimals of more than 18 digits are big-endian integers
                                                    of two's complement
    null_count   int64                              null if unknown
    nan_count    int64                              null if unknown
    all_null     bool                               whether all values are proven to be null
    exact        bool                               whether both bounds are values of the column
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.indexes.statistics import bounds_of_keys
from intarsia.indexes.streams import batch_from_bytes, batch_to_bytes
from intarsia.lake.index.facts import ColumnFacts
from intarsia.rows.bounds import UNKNOWN, Bools, Bounds
from intarsia.rows.ordering import Keys, Ordering

_NAMES = ("low", "high", "null_count", "nan_count", "all_null", "exact")


class FileBounds(NamedTuple):
    """The bounds of one column in many files.

    Attributes:
        bounds: A granule for each file.
        exact: Whether both bounds are values of the column.
    """

    bounds: Bounds
    exact: Bools


def serialize_bounds(facts: Sequence[ColumnFacts], ordering: Ordering | None) -> bytes:
    """Serialize the bounds of one column.

    Args:
        facts: The facts of the column in each file.
        ordering: The order of its values; None if they have none.
    """
    key_type = _key_type(ordering)
    is_decimal = ordering is not None and ordering.dtype == object and not ordering.is_bytes

    def encoded(key: Any) -> Any:
        return (
            key.to_bytes(key.bit_length() // 8 + 1, "big", signed=True)
            if is_decimal and key is not None
            else key
        )

    columns = [
        pa.array([encoded(fact.low) for fact in facts], key_type),
        pa.array([encoded(fact.high) for fact in facts], key_type),
        pa.array([None if fact.null_count == UNKNOWN else fact.null_count for fact in facts], pa.int64()),
        pa.array([None if fact.nan_count == UNKNOWN else fact.nan_count for fact in facts], pa.int64()),
        pa.array([fact.is_all_null for fact in facts], pa.bool_()),
        pa.array([fact.is_exact for fact in facts], pa.bool_()),
    ]
    return batch_to_bytes(pa.record_batch(columns, names=list(_NAMES)))


def parse_bounds(data: bytes, ordering: Ordering | None, num_rows: np.ndarray) -> FileBounds:
    """Parse the result of `serialize_bounds`.

    Args:
        data: The bytes.
        ordering: As for `serialize_bounds`.
        num_rows: The number of rows of each file.

    Raises:
        ValueError: If the bytes do not describe such files.
    """
    batch = batch_from_bytes(data)
    key_type = _key_type(ordering)
    types = [key_type, key_type, pa.int64(), pa.int64(), pa.bool_(), pa.bool_()]
    if tuple(batch.schema.names) != _NAMES or batch.schema.types != types or batch.num_rows != len(num_rows):
        raise ValueError(f"it has {batch.num_rows} rows of {batch.schema.to_string()}")
    low, high, nulls, nans, all_null, exact = batch.columns
    for counts in (_counts(nulls), _counts(nans)):
        if ((counts < UNKNOWN) | (counts > num_rows)).any():
            raise ValueError("more nulls or NaNs than rows")
    known = np.asarray(pc.and_(low.is_valid(), high.is_valid()).to_numpy(zero_copy_only=False), dtype=bool)
    positions = np.flatnonzero(known)
    keep = pa.array(known)
    edges = np.concatenate([[0], np.cumsum(num_rows)])
    bounds = bounds_of_keys(
        ordering,
        edges[:-1],
        edges[1:],
        positions,
        _keys(low.filter(keep), ordering),
        _keys(high.filter(keep), ordering),
        _counts(nulls),
        _counts(nans),
        _flags(all_null),
    )
    return FileBounds(bounds, _flags(exact) & bounds.known)


def _key_type(ordering: Ordering | None) -> pa.DataType:
    if ordering is None or ordering.dtype == object:
        return pa.binary()
    return pa.from_numpy_dtype(ordering.dtype)


def _keys(array: pa.Array, ordering: Ordering | None) -> Keys:
    if ordering is None or ordering.dtype != object:
        return np.asarray(array.to_numpy(zero_copy_only=False))
    keys = np.empty(len(array), dtype=object)
    values = array.to_pylist()
    keys[:] = values if ordering.is_bytes else [int.from_bytes(value, "big", signed=True) for value in values]
    return keys


def _counts(array: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(array, UNKNOWN).to_numpy(), dtype=np.int64)


def _flags(array: pa.Array) -> Bools:
    return np.asarray(pc.fill_null(array, False).to_numpy(zero_copy_only=False), dtype=bool)
