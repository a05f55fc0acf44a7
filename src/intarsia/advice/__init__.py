"""Advice: which indexes to add to files, measured on a sample in memory.

It is not called `advise`, because a package of that name would hide the function `intarsia.advise`.
"""

from intarsia.advice.advising import advise
from intarsia.advice.columns import ColumnShape
from intarsia.advice.cost import QueryCost
from intarsia.advice.obstacles import Obstacle
from intarsia.advice.report import Advice, MeasuredIndex, NotBuilt, Option, QueryAdvice, SampleSize

__all__ = [
    "Advice",
    "ColumnShape",
    "MeasuredIndex",
    "NotBuilt",
    "Obstacle",
    "Option",
    "QueryAdvice",
    "QueryCost",
    "SampleSize",
    "advise",
]
