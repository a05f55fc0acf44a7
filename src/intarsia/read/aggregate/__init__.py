"""COUNT, SUM, MIN, MAX and AVG of the rows that match, from indexes as far as they tell."""

from intarsia.read.aggregate.result import Aggregate
from intarsia.read.aggregate.totals import Totals

__all__ = ["Aggregate", "Totals"]
