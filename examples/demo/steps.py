"""Show the demo's steps on stderr, if it is a terminal: a bar for the current one, ticks for the others."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from intarsia.cli.terminal import ShowDone, console, dim, duration


class Steps:
    """Shows one step after another.

    Args:
        total: Total number of steps.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    @contextmanager
    def step(self, label: str, units: int | None = None) -> Iterator[ShowDone]:
        """Show a step while the block runs.

        Args:
            label: Name of the step.
            units: Number of units of the step, if it has units.

        Yields:
            A function to call with the number of units done so far.
        """
        self._done += 1
        if not sys.stderr.isatty():
            yield lambda _: None
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        title = f"{self._done}/{self._total} {label}"
        started = time.perf_counter()
        # a separate stream, because stderr is a file while Spark starts
        with os.fdopen(os.dup(2), "w") as terminal:
            columns = (TextColumn("{task.description:<44}"), BarColumn(), TimeElapsedColumn())
            with Progress(*columns, console=console(terminal), transient=True) as bar:
                task = bar.add_task(title, total=units)
                yield lambda done: bar.update(task, completed=done)
            done = f"{title:<44} {duration(time.perf_counter() - started)}"
            print(dim(done, terminal), file=terminal)
