"""Lists for which pyarrow's ``is_in`` finds other rows than comparisons by ``=`` do.

pyarrow converts the list to the type of the column, even if this rounds. It compares the bits of floats, so
that zeros differ by sign, and NaNs by payload.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Agreement: TypeAlias = Literal["same", "wider", "other"]
"""``=`` finds the same rows as ``is_in``; these and maybe others; or other rows."""


def list_agreement(values: pa.Array, column: pa.DataType | None) -> Agreement:
    """Return which rows ``=`` finds for the values of a list, compared with ``is_in``.

    Args:
        values: The list.
        column: The type of the column; None if it is unknown.

    Example:
        >>> list_agreement(pa.array([0.5, 1.5]), pa.float64()), list_agreement(pa.array([0, 1]), pa.int8())
        ('same', 'same')
        >>> list_agreement(pa.array([0, 1]), pa.float64()), list_agreement(pa.array([0.1]), pa.float32())
        ('wider', 'other')
    """
    of = pa.types
    if of.is_dictionary(values.type):
        values = values.dictionary_decode()
    values = values.drop_null()
    is_number = of.is_integer(values.type) or of.is_floating(values.type) or of.is_decimal(values.type)
    if column is None:
        column = pa.float64() if is_number else values.type  # numbers of functions fit into doubles
    column = column.value_type if of.is_dictionary(column) else column
    has_special = False
    if of.is_floating(values.type):
        is_nan = pc.is_nan(values)
        has_special = bool(pc.any(is_nan).as_py())
        values = values.filter(pc.invert(is_nan))
    if is_number and (of.is_floating(column) or of.is_floating(values.type)):
        has_special |= bool(pc.any(pc.equal(values, pa.scalar(0, values.type))).as_py())
    return "other" if _is_rounded(values, column) else "wider" if has_special else "same"


def _is_rounded(values: pa.Array, data_type: pa.DataType) -> bool:
    if isinstance(values, pa.ExtensionArray) or values.type == data_type:
        return False
    try:
        return not values.cast(data_type, safe=False).cast(values.type, safe=False).equals(values)
    except pa.ArrowException:  # pyarrow refuses the comparison
        return False
