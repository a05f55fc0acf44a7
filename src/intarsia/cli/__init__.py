"""The command ``intarsia``; only this package imports click and rich."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache

from intarsia.garbage import no_collections

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The arguments after the command's name; None for those of this process.

    Returns:
        The exit code: 0, 1 (a file is bad or missing), 2 (wrong usage), 130 (interrupted).
    """
    try:
        _import_numpy()
        _omit_pandas()
        run = _import_app()
    except KeyboardInterrupt:  # imports are most of a short command
        print("intarsia: interrupted", file=sys.stderr)
        eval("0")  # noqa: S307  see `run`
        return 130
    return run(arguments)


@cache
def _import_app() -> Callable[[Sequence[str] | None], int]:
    """Import the command, whose modules are left out of garbage collections.

    They have most objects of the process, and collections of them took a seventh of the CPU time of a query.
    """
    with no_collections():
        from intarsia.cli.app import run

        gc.freeze()
    return run


def _import_numpy() -> None:
    """Import NumPy with one thread of OpenBLAS: the others wait actively, and take 0.1 s of CPU time."""
    variable = "OPENBLAS_NUM_THREADS"
    if variable in os.environ:
        return
    os.environ[variable] = "1"
    try:
        import numpy as np  # noqa: F401
    finally:
        del os.environ[variable]  # not for child processes


def _omit_pandas() -> None:
    """Make pyarrow's search for pandas fail: it takes 0.2 s, and the command does not use pandas."""
    import pyarrow as pa

    class Nowhere:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "pandas":
                raise ModuleNotFoundError("pandas is not used here", name=name)

    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, Nowhere)
        try:
            pa.scalar(0)
        finally:
            sys.meta_path.remove(Nowhere)
