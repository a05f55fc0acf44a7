"""COUNT, SUM, MIN, MAX and AVG of the matching rows, answered from indexes as far as possible."""

from intarsia.read.aggregate.result import Aggregate
from intarsia.read.aggregate.totals import Totals

__all__ = ["Aggregate", "Totals"]
