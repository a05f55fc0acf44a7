"""The progress of a job, in one line on the terminal."""

from __future__ import annotations

import sys

from intarsia.embed.report import Progress, no_progress


def reporter(progress: Progress | bool, unit: str) -> Progress:
    """Return the function that a job calls with its progress.

    Args:
        progress: The caller's function; True to print a line on stderr if it is a terminal.
        unit: The plural noun of the units that are counted.
    """
    if callable(progress):
        return progress
    if not progress or not sys.stderr.isatty():
        return no_progress

    def print_line(done: int, total: int, label: str) -> None:
        """Overwrite one line, and end it when all is done."""
        sys.stderr.write(f"\r{label}: {done} of {total} {unit}" + ("\n" if done == total > 0 else ""))
        sys.stderr.flush()

    return print_line
