"""Errors of the libraries that read the metadata of table formats, as errors of Intarsia."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from intarsia.errors import CorruptFileError, IntarsiaError, ObjectStoreError, UnsupportedFeatureError


@contextmanager
def translated_errors(library: str, part: str, path: str, reason: str) -> Iterator[None]:
    """Translate every error within the block that is not one of Intarsia.

    The libraries raise exceptions of their own, of pydantic, of pyarrow and of Python.

    Args:
        library: The library.
        part: What it reads, in words.
        path: The table or the file.
        reason: The code for bytes that it cannot read.

    Raises:
        UnsupportedFeatureError: If the library does not implement a feature.
        ObjectStoreError: If a file cannot be reached.
        CorruptFileError: Otherwise, and if a file is missing.
    """
    try:
        yield
    except (IntarsiaError, MemoryError):
        raise
    except (NotImplementedError, ImportError) as error:
        raise UnsupportedFeatureError(
            f"{library} does not support {part}: {_cause(error)}; read it with the engine that wrote it",
            reason="unsupported-by-library",
            path=path,
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise ObjectStoreError(f"{path}: {_cause(error)}", reason="store-failed", path=path) from error
        raise CorruptFileError(
            f"{library} cannot read {part}: {_cause(error)}; if another engine can, update {library}",
            reason=reason,
            path=path,
        ) from error


def _cause(error: Any) -> str:
    """Return the message of an error in one line."""
    if type(error).__module__.startswith("pydantic"):
        first = error.errors()[0]
        return ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])
    # deltalake adds colors and a backtrace
    text = re.sub(r"\x1b\[\d*m", "", str(error).partition("\n")[0]).replace(" ↳ ", ": ")
    return text or type(error).__name__
