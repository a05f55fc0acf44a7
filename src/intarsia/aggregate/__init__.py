"""COUNT, SUM, MIN, MAX and AVG of the rows that match, from indexes as far as they tell."""

from intarsia.aggregate.result import Aggregate
from intarsia.aggregate.totals import Totals

__all__ = ["Aggregate", "Totals"]
