"""The parts that the commands of all benchmarks share: options and progress."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile


def add_common_options(parser: argparse.ArgumentParser, repetitions: int, page: str) -> None:
    """Add the options ``--repetitions``, ``--dir``, ``--json`` and ``--page``.

    Args:
        parser: The parser.
        repetitions: The default number of timed runs.
        page: The path of the page that the documents contain, for the help.
    """
    folder = os.path.join(tempfile.gettempdir(), "intarsia-benchmarks")
    parser.add_argument(
        "--repetitions", type=int, default=repetitions, help="timed runs of each query (default: %(default)s)"
    )
    parser.add_argument(
        "--dir", default=folder, help="folder for the files, which are reused (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", metavar="FILE.md", help=f"also write a page ({page} is one)")


def show_progress(text: str) -> None:
    """Show a text in the last line of a terminal, replacing the previous one."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()
