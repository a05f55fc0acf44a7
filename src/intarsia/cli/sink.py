"""Open the output: stdout, or a file that is created atomically."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
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
    name = str(target.parent / f".{target.name}.{secrets.token_hex(8)}.part")
    try:  # before the file exists: Ctrl-C may come as soon as it does
        with open(name, "xb", opener=_open_private) as sink:
            yield sink
        os.chmod(name, _usual_mode())
        os.replace(name, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(error, FileNotFoundError) and error.filename == name:
            raise FileNotFoundError(2, "no such folder", str(target.parent)) from None
        raise


def _open_private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
