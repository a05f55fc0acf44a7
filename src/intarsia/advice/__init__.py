"""Advice: which indexes to add to files, measured on a sample in memory.

It is not called `advise`, because a package of that name would hide the function `intarsia.advise`.
"""

from intarsia.advice.advising import advise
from intarsia.advice.report import (
    Advice,
    ColumnShape,
    MeasuredIndex,
    NotBuilt,
    Obstacle,
    Option,
    QueryAdvice,
    QueryCost,
    SampleSize,
)

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
