"""Open the output: stdout, or a file that is created atomically."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def open_sink(output: str | None) -> Iterator[IO[bytes]]:
    """Open stdout, or a file that gets its name only when it is complete."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        plain = stat.S_ISREG(os.stat(output).st_mode)
    except FileNotFoundError:
        plain = True
    if not plain:  # a device or a pipe
        with open(output, "wb") as sink:
            yield sink
        return
    target = Path(os.path.realpath(output))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except FileNotFoundError:
        raise FileNotFoundError(2, "no such folder", str(target.parent)) from None
    try:
        with os.fdopen(handle, "wb") as sink:
            yield sink
        os.chmod(name, _usual_mode())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
