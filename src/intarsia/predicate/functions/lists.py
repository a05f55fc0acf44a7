"""``array_contains(list, value)``: whether an element of a list equals a value.

The result is null for a null list only. A list without the value, but with null, does not contain it, as in
DuckDB and Polars; in Spark, the result is null then, so that only its negation differs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_type, true_positions
from intarsia.arrow.nested import is_list
from intarsia.predicate.bound import (
    ANY_VALUE,
    ELEMENT,
    BoundCompare,
    BoundConstant,
    Condition,
    Function,
    Inverse,
    OnResult,
)
from intarsia.predicate.columns import Column
from intarsia.predicate.conditions import bind_condition, bind_null
from intarsia.predicate.evaluate import condition_mask
from intarsia.predicate.functions import refuse_argument, refuse_type
from intarsia.predicate.nodes import Call, Comparison
from intarsia.records import dataclass


def contains(call: Call, operand: Column) -> Function:
    """Bind the function to the type of the list.

    Raises:
        PredicateError: If the operand is not a list of values that compare with the constant.
    """
    if len(call.arguments) != 1:
        refuse_argument(call.function, call.arguments, "write a column and one value")
    if not is_list(operand.type) or pa.types.is_nested(comparison_type(operand.type.value_type)):
        refuse_type(call.function, operand, "a list of values that are not nested")
    element = equal_element(operand, operand.type.value_type, call.arguments[0])
    return Contains(call.function, call.arguments, pa.bool_(), element)


def equal_element(operand: Column, declared: pa.DataType, value: object) -> BoundCompare | BoundConstant:
    """Return the condition that elements of a list or map equal a value; FALSE if none of the type can."""
    element = Column(operand.path, declared, comparison_type(declared))
    found = bind_condition(Comparison("", "=", value), element, negate=False)
    assert isinstance(found, (BoundCompare, BoundConstant))
    return found


@dataclass(frozen=True, slots=True)
class Contains(Function):
    """Whether a list has an element for which a condition is true.

    Attributes:
        element: The condition: ``=``, or FALSE if no value of the type equals the constant.
    """

    element: BoundCompare | BoundConstant

    def apply(self, values: pa.Array) -> pa.Array:
        """Return whether each list has such an element; null for null."""
        found = np.zeros(len(values), dtype=bool)
        if not isinstance(self.element, BoundConstant):
            mask = condition_mask(self.element, pc.list_flatten(values))
            found[pc.list_parent_indices(values).to_numpy()[true_positions(mask)]] = True
        return pa.array(found, mask=pc.is_null(values).to_numpy(zero_copy_only=False))

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """See `Function.invert`."""
        if not isinstance(self.element, BoundConstant):
            return ANY_VALUE
        accepts_false = condition_mask(condition, pa.array([False]))[0].as_py()
        return Inverse(bind_null(operand, negated=True) if accepts_false else BoundConstant(False), True)

    def on_elements(self, condition: OnResult) -> Condition | None:
        """See `Function.on_elements`."""
        accepts_false = condition_mask(condition, pa.array([False]))[0].as_py()
        if accepts_false or isinstance(self.element, BoundConstant):
            return None
        return replace(self.element, path=(ELEMENT,))
