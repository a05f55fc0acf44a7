"""``python -m intarsia``: the command. ``spark-submit`` runs this file by its path."""

import os
import sys

if __name__ == "__main__" and not __package__:
    # run by its path: without this, the modules of this folder would hide other packages of the same names
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != folder]

from intarsia.cli import main

if __name__ == "__main__":
    sys.exit(main())
