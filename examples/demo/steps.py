"""The demo's steps on stderr, if that is a terminal: a bar for the one at work, a tick for those done."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from intarsia.cli.terminal import ShowDone, console, dim, duration


class Steps:
    """Tells of one step after another.

    Args:
        total: How many there will be.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    @contextmanager
    def step(self, label: str, units: int | None = None) -> Iterator[ShowDone]:
        """A step, while the block runs.

        Args:
            label: What is done.
            units: Parts of it, if it has parts that can be counted.

        Yields:
            A function to which the block says how many parts are done so far.
        """
        self._done += 1
        if not sys.stderr.isatty():
            yield lambda _: None
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        title = f"{self._done}/{self._total} {label}"
        started = time.perf_counter()
        # a stream of its own, since stderr is a file while Spark starts
        with os.fdopen(os.dup(2), "w") as terminal:
            columns = (TextColumn("{task.description:<44}"), BarColumn(), TimeElapsedColumn())
            with Progress(*columns, console=console(terminal), transient=True) as bar:
                task = bar.add_task(title, total=units)
                yield lambda done: bar.update(task, completed=done)
            done = f"{title:<44} {duration(time.perf_counter() - started)}"
            print(dim(done, terminal), file=terminal)
