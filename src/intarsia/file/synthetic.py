"""What pyarrow raises while it decodes, told as errors of the file, and of nothing but the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from intarsia.errors import CorruptFileError, IntarsiaError, UnsupportedFeatureError


@contextmanager
def decode_errors(what: str, struct: str) -> Iterator[None]:
    """Within the block, what pyarrow cannot decode is an error of the file.

    Errors of the storage pass through as they are, and so do those that Intarsia raises itself: pyarrow hands
    on what a Python file raises.

    Args:
        what: What is decoded, for the message.
        struct: Parquet's name of it.

    Raises:
        UnsupportedFeatureError: If pyarrow does not know how.
        CorruptFileError: If it finds the bytes damaged.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, IntarsiaError) or _is_of_storage(error):
            raise
        message = f"pyarrow cannot decode {what}: {error}"
        if isinstance(error, pa.ArrowNotImplementedError) or "Not yet implemented" in str(error):
            raise UnsupportedFeatureError(message, struct=struct) from error
        raise CorruptFileError(message, struct=struct) from error


def _is_of_storage(error: Exception) -> bool:
    """Whether an error is of the system or a store; pyarrow's own, of damaged bytes, is a plain OSError."""
    return isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None)
