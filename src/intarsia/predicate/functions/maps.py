"""``element_at(map, key)``, or ``map[key]``: the value of a key.

It is null for a null map, for a map without the key, and for a key whose value is null. If a map has the key
several times, the first value is taken, as in Spark.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_array, comparison_type, true_positions
from intarsia.predicate.bound import (
    KEY,
    VALUE,
    Bound,
    BoundCompare,
    BoundConstant,
    BoundFunction,
    BoundNull,
    Condition,
    Function,
    Inverse,
    OnResult,
    disjoin,
)
from intarsia.predicate.columns import Column
from intarsia.predicate.evaluate import condition_mask
from intarsia.predicate.functions import refuse_argument, refuse_type
from intarsia.predicate.functions.lists import equal_element
from intarsia.predicate.nodes import Call
from intarsia.records import dataclass


def element_at(call: Call, operand: Column) -> Function:
    """Bind the function to the type of the map.

    Raises:
        PredicateError: If the operand is not a map of values that are not nested, or if its keys do not
            compare with the constant.
    """
    if len(call.arguments) != 1:
        refuse_argument(call.function, call.arguments, "write a column and one key")
    if not pa.types.is_map(operand.type):
        refuse_type(call.function, operand, "a map")
    value_type = comparison_type(operand.type.item_type)
    if pa.types.is_nested(value_type):
        refuse_type(call.function, operand, "a map of values that are not nested")
    key = equal_element(operand, operand.type.key_type, call.arguments[0])
    return Lookup(call.function, call.arguments, value_type, key)


@dataclass(frozen=True, slots=True)
class Lookup(Function):
    """The value of a key in each map.

    Attributes:
        key: The condition on the key: ``=``, or FALSE if no key equals the constant.
    """

    key: BoundCompare | BoundConstant

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the first value of the key in each map."""
        first = np.full(len(values), -1)
        if not isinstance(self.key, BoundConstant):
            offsets = values.offsets.to_numpy()
            start, stop = int(offsets[0]), int(offsets[-1])
            found = start + true_positions(condition_mask(self.key, values.keys[start:stop]))
            maps, places = np.unique(offsets.searchsorted(found, side="right") - 1, return_index=True)
            first[maps] = found[places]
        has_none = (first < 0) | values.is_null().to_numpy(zero_copy_only=False)
        return comparison_array(values.items.take(pa.array(first, mask=has_none)), self.type)

    def is_null(self, operand: Column, *, negated: bool) -> Bound:
        """See `Function.is_null`."""
        if isinstance(self.key, BoundConstant):
            return BoundConstant(not negated)
        has_value = HasValue("has_value", self.arguments, pa.bool_(), self)
        test = BoundCompare(operand.path, pa.bool_(), "=", pa.scalar(negated))
        found = BoundFunction(operand.path, operand.type, (has_value,), test)
        return found if negated else disjoin((BoundNull(operand.path, operand.type), found))

    def invert(self, condition: OnResult, operand: Column) -> Inverse:  # noqa: ARG002
        """See `Function.invert`."""
        return Inverse(self.is_null(operand, negated=True), isinstance(self.key, BoundConstant))

    def on_elements(self, condition: OnResult) -> Condition | None:
        """See `Function.on_elements`."""
        return replace(condition, path=(VALUE,))


@dataclass(frozen=True, slots=True)
class HasValue(Function):
    """Whether each map has a value for a key that is not null; null for a null map.

    Attributes:
        lookup: The value of the key, which some value can equal.
    """

    lookup: Lookup

    def apply(self, values: pa.Array) -> pa.Array:
        """Return whether each map has a value."""
        found = self.lookup.apply(values).is_valid()
        return pc.if_else(values.is_valid(), found, None)

    def on_elements(self, condition: OnResult) -> Condition | None:
        """See `Function.on_elements`."""
        key = self.lookup.key
        accepts_false = condition_mask(condition, pa.array([False]))[0].as_py()
        return None if accepts_false or isinstance(key, BoundConstant) else replace(key, path=(KEY,))
