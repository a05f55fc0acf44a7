"""The distinct values of each granule, as an index lists them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.rows.bounds import Bools


@dataclass(frozen=True)
class GranuleValues:
    """The distinct values of granules, as pairs of a value and a granule.

    Attributes:
        values: The distinct values of all granules, including null if any row is null.
        ordinals: For each pair, the ordinal of its value in ``values``.
        granules: For each pair, the ordinal of its granule.
        is_listed: For each granule, whether all of its values are among its pairs.
        num_rows: For each granule, its number of rows; int64.

    Example:
        >>> pairs = np.array([0, 0, 1]), np.array([0, 1, 1])
        >>> found = GranuleValues(pa.array(["a", "b"]), *pairs, np.array([True, True]), np.array([10, 10]))
        >>> found.values.take(pa.array(found.ordinals[found.granules == 1])).to_pylist()
        ['a', 'b']
    """

    values: pa.Array
    ordinals: npt.NDArray[np.int64]
    granules: npt.NDArray[np.int64]
    is_listed: Bools
    num_rows: npt.NDArray[np.int64]
