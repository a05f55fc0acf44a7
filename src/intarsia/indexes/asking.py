"""Asking an index, whose class may be anybody's and whose payload may be anything."""

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
    """What an index answers.

    Args:
        ask: Asks it.

    Raises:
        IndexPayloadError: If it fails: its class may be anybody's, and its payload anything.
        FormatError: As it is, of the file, and so is OSError.
    """
    try:
        return ask()
    except (IndexPayloadError, FormatError, OSError):
        raise
    except (IntarsiaError, pa.ArrowException) as error:  # such as values that do not compare
        raise IndexPayloadError(str(error)) from error
    except Exception as error:
        raise IndexPayloadError(f"it fails when it is asked: {type(error).__name__}: {error}") from error


def answer_of(file: ParquetInput, name: str, ask: Callable[[], _Answer]) -> _Answer | None:
    """What an index answers; None if it fails, which is noted: it is not trusted then (contract C2).

    Args:
        file: The file.
        name: The name of the index.
        ask: Asks it.
    """
    try:
        return ask_index(ask)
    except IndexPayloadError as error:
        file.distrust(name, str(error))
        return None


def judge(file: ParquetInput, name: str, index: OpenIndex, conditions: Iterable[Condition]) -> Iterator[Told]:
    """What an index says of some conditions, up to the first one at which it fails.

    Args:
        file: The file.
        name: The name of the index.
        index: The index.
        conditions: What it is asked.
    """
    for condition in conditions:
        told = answer_of(file, name, partial(_tell, index, condition))
        if told is None:
            return
        yield told


def _tell(index: OpenIndex, condition: Condition) -> Told:
    possible = index.candidate_rows(condition)
    # to see whether it is a `SureIndex` by `isinstance` takes as long as many an answer
    ask_certain: Callable[[Condition], RowSelection | None] | None = getattr(index, "certain_rows", None)
    return Told(condition, possible, None if ask_certain is None else ask_certain(condition))
