"""The planner as a process, for sessions without a Python driver; ``Extensions.java`` starts it."""

from __future__ import annotations

from intarsia.spark.serving import serve_standard_streams
from intarsia.spark.skipping import SkippingPlanner

if __name__ == "__main__":
    serve_standard_streams(SkippingPlanner().answer, at_once=True)
