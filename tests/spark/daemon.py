"""Spark's daemon for Python workers, with the modules that each of them would import for a second.

Sessions of tests use it, but not one as a newcomer starts it.
"""

import pyarrow.dataset
import pyarrow.parquet  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import intarsia.spark  # noqa: F401

if __name__ == "__main__":
    manager()
