"""Call an index safely. Its class may come from any package, and its payload may be damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

import pyarrow as pa

from intarsia.errors import FormatError, IndexPayloadError, IntarsiaError
from intarsia.file import ParquetInput
from intarsia.indexes.base import OpenIndex
from intarsia.indexes.proof import Verdict
from intarsia.predicate.bound import Condition
from intarsia.rows.selection import RowSelection

_Result = TypeVar("_Result")


def call_index(call: Callable[[], _Result]) -> _Result:
    """Call a method of an index, and turn its failures into `IndexPayloadError`.

    Args:
        call: The call.

    Raises:
        IndexPayloadError: If the call fails with any error other than those below.
        FormatError: If the file is not valid. It is raised unchanged, as is OSError.
    """
    try:
        return call()
    except (IndexPayloadError, FormatError, OSError):
        raise
    except (IntarsiaError, pa.ArrowException) as error:  # for example values of types that do not compare
        raise IndexPayloadError(str(error), reason="index-failed") from error
    except Exception as error:
        raise IndexPayloadError(
            f"it failed with {type(error).__name__}: {error}", reason="index-failed"
        ) from error


def call_or_ignore(file: ParquetInput, name: str, call: Callable[[], _Result]) -> _Result | None:
    """Call a method of an index, or ignore the index with a note and return None (contract C2).

    Args:
        file: The file, which records the note.
        name: The name of the index.
        call: The call.
    """
    try:
        return call_index(call)
    except IndexPayloadError as error:
        file.distrust_by(name, error)
        return None


def evaluate_conditions(
    file: ParquetInput, name: str, index: OpenIndex, conditions: Iterable[Condition]
) -> Iterator[Verdict]:
    """Evaluate conditions with an index, up to the first failure.

    Args:
        file: The file, which records a failure.
        name: The name of the index.
        index: The index.
        conditions: The conditions.
    """
    for condition in conditions:
        verdict = call_or_ignore(file, name, partial(_verdict, index, condition))
        if verdict is None:
            return
        yield verdict


def _verdict(index: OpenIndex, condition: Condition) -> Verdict:
    possible = index.candidate_rows(condition)
    # `isinstance` with the protocol `ProvingIndex` is as slow as many evaluations
    find_certain: Callable[[Condition], RowSelection | None] | None = getattr(index, "certain_rows", None)
    return Verdict(condition, possible, None if find_certain is None else find_certain(condition))
