"""Call an index safely. Its class may come from any package, and its payload may be damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

import pyarrow as pa

from intarsia.errors import FormatError, IndexPayloadError, IntarsiaError
from intarsia.file import ParquetInput
from intarsia.indexes.base import OpenIndex
from intarsia.indexes.proof import Told
from intarsia.predicate.bound import Condition
from intarsia.rows.selection import RowSelection

_Answer = TypeVar("_Answer")


def ask_index(ask: Callable[[], _Answer]) -> _Answer:
    """Call a method of an index, and turn its failures into `IndexPayloadError`.

    Args:
        ask: The call.

    Raises:
        IndexPayloadError: The call failed for any other reason than those below.
        FormatError: The file is not valid. It is raised unchanged, as is OSError.
    """
    try:
        return ask()
    except (IndexPayloadError, FormatError, OSError):
        raise
    except (IntarsiaError, pa.ArrowException) as error:  # for example values of types that do not compare
        raise IndexPayloadError(str(error), reason="index-failed") from error
    except Exception as error:
        raise IndexPayloadError(
            f"it failed with {type(error).__name__}: {error}", reason="index-failed"
        ) from error


def answer_of(file: ParquetInput, name: str, ask: Callable[[], _Answer]) -> _Answer | None:
    """Call a method of an index, or ignore the index with a note and return None (contract C2).

    Args:
        file: The file, which records the note.
        name: The name of the index.
        ask: The call.
    """
    try:
        return ask_index(ask)
    except IndexPayloadError as error:
        file.distrust(name, str(error))
        return None


def judge(file: ParquetInput, name: str, index: OpenIndex, conditions: Iterable[Condition]) -> Iterator[Told]:
    """Evaluate conditions with an index, up to the first failure.

    Args:
        file: The file, which records a failure.
        name: The name of the index.
        index: The index.
        conditions: The conditions.
    """
    for condition in conditions:
        told = answer_of(file, name, partial(_tell, index, condition))
        if told is None:
            return
        yield told


def _tell(index: OpenIndex, condition: Condition) -> Told:
    possible = index.candidate_rows(condition)
    # `isinstance` with the protocol `SureIndex` is as slow as many evaluations
    ask_certain: Callable[[Condition], RowSelection | None] | None = getattr(index, "certain_rows", None)
    return Told(condition, possible, None if ask_certain is None else ask_certain(condition))
