"""Intarsia with the native extension, in a process of its own: a process has it or has it not."""

from __future__ import annotations

import gc
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any

import pyarrow as pa

from benchmarks.queries import Query
from intarsia.native import SWITCH

#: The name of this reader.
NATIVE = "intarsia-native"

#: What the other process has opened: one file, as the measurement uses one at a time.
_opened: dict[str, Any] = {}


def is_installed() -> bool:
    """Return whether the extension can be imported."""
    return find_spec("intarsia_native") is not None


class Remote:
    """A file or folder that the other process has opened.

    Attributes:
        seconds: The time of the last query there; of the first, with the time to open the file.
        requests: The number of its requests.
    """

    def __init__(self, path: str) -> None:
        # a benchmark sets variables after the process has started, such as the folder of lake indexes
        self._opening = _process().submit(_open, path, dict(os.environ)).result()

    def run(self, query: Query) -> Any:
        taken, self.requests, answer = _process().submit(_run, query).result()
        self.seconds, self._opening = self._opening + taken, 0.0
        return answer

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


@cache
def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), initializer=_require)


def _require() -> None:
    os.environ[SWITCH] = "require"


def _open(path: str, environment: dict[str, str]) -> float:
    from benchmarks.engines import Intarsia

    os.environ.update({**environment, SWITCH: "require"})
    _opened.clear()
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # as in the process of the other readers
    started = time.perf_counter()
    _opened["last"] = Intarsia(path)
    return time.perf_counter() - started


def _run(query: Query) -> tuple[float, int, Any]:
    gc.collect()
    opened, started = _opened["last"], time.perf_counter()
    answer = opened.run(query)
    return time.perf_counter() - started, opened.report.requests, answer
