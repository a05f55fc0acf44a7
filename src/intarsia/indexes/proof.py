"""The protocol of everything that can exclude rows, for `intarsia.read.pruner`.

A proof reports, without I/O, in which row groups it could exclude a condition, and the cost of evaluating
it. The possible savings follow from the remaining candidate rows. So pruning can evaluate the cheapest proof
next, and skip every proof that costs more than reading. Costs are per row group; results are exact rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import FormatError, IndexPayloadError, IntarsiaError
from intarsia.file import ParquetInput
from intarsia.format.footer import Leaf
from intarsia.predicate.bound import Condition
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection

#: The conditions to evaluate, each with the row groups in which its result matters.
Wanted: TypeAlias = Mapping[Condition, Bools]


class ProofCost(NamedTuple):
    """The cost of evaluating a proof.

    Attributes:
        num_bytes: The number of bytes to read, 0 for metadata in the footer.
        requests: The number of requests, before storage coalesces them.
        pages: The number of pages to decode.
        opened: The number of files with embedded indexes to open; 0 for a single file.
        part_bytes: The size of the smallest part that can be evaluated separately. None if there is only
            the whole.
    """

    num_bytes: int
    requests: int
    pages: int = 0
    opened: int = 0
    part_bytes: int | None = None


class Verdict(NamedTuple):
    """The result of a proof for a condition.

    Attributes:
        possible: A superset of the matching rows. None if unknown.
        certain: A subset of the matching rows. None if unknown.
    """

    condition: Condition
    possible: RowSelection | None
    certain: RowSelection | None


class Savings(Protocol):
    """The possible savings, for proofs that choose among their parts."""

    def num_bytes(self) -> npt.NDArray[np.int64]:
        """Estimate the number of bytes that a scan of the candidate rows would read, for each row group."""
        ...

    def column_bytes(self, leaf: Leaf) -> npt.NDArray[np.int64]:
        """Estimate the number of bytes of a leaf that a scan of the candidate rows reads, by row group."""
        ...

    def num_rows(self) -> npt.NDArray[np.int64]:
        """Return the number of candidate rows in each row group."""
        ...

    def excluded_if(self, excluded: Wanted) -> Bools:
        """Return the row groups that need not be read if no row in the given row groups matches."""
        ...


class Proof(Protocol):
    """A source of proof that rows do not match a condition, and perhaps that others do.

    Attributes:
        name: The name in reports.
        is_lookup: Whether it only excludes rows. It need not be evaluated where excluding changes nothing.
        counts_pages: Whether its rows come from the page index, which may have wrong row counts.
    """

    name: str
    is_lookup: bool
    counts_pages: bool

    def reach(self, condition: Condition) -> Bools | None:
        """Return for each row group whether it could exclude the condition, None for nowhere. No I/O."""
        ...

    def cost(self, wanted: Wanted) -> ProofCost:
        """Estimate the cost of `evaluate`. No I/O."""
        ...

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Evaluate conditions, as far as the savings are worth the cost.

        Yields:
            The result for each condition that can be decided.

        Raises:
            IndexPayloadError: If the index is damaged. Earlier results are still correct.
        """
        ...


def groups_by_leaf(file: ParquetInput, wanted: Wanted) -> dict[int, Bools]:
    """Return the row groups in which the result of any condition on a leaf matters, by its ordinal."""
    found: dict[int, Bools] = {}
    for condition, row_groups in wanted.items():
        leaf = file.schema.leaves_of_values[condition.path].ordinal
        found[leaf] = row_groups | found.get(leaf, False)
    return found


# --- evaluating an index safely: its class may come from any package, and its payload may be damaged ----

_Result = TypeVar("_Result")


def call_index(call: Callable[[], _Result]) -> _Result:
    """Call a method of an index, and turn its failures into `IndexPayloadError`.

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
    """
    try:
        return call_index(call)
    except IndexPayloadError as error:
        file.distrust_by(name, error)
        return None


def evaluate_conditions(
    file: ParquetInput, name: str, judge: Callable[[Condition], Verdict], conditions: Iterable[Condition]
) -> Iterator[Verdict]:
    """Evaluate conditions with an index, up to the first failure, which the file records."""
    try:
        for condition in conditions:
            yield call_index(partial(judge, condition))
    except IndexPayloadError as error:
        file.distrust_by(name, error)


def judge_groups(
    file: ParquetInput,
    verdicts: Mapping[Condition, Mapping[int, tuple[bool, bool]]],
    conditions: Iterable[Condition],
) -> Iterator[Verdict]:
    """Yield the results of conditions that were evaluated for whole row groups.

    Args:
        verdicts: For each condition and each row group that is decided, whether rows might match, and
            whether all do.
    """
    edges = file.footer.row_group_starts
    for condition in conditions:
        if condition in verdicts:
            possible, certain = np.ones(len(edges) - 1, dtype=bool), np.zeros(len(edges) - 1, dtype=bool)
            for row_group, verdict in verdicts[condition].items():
                possible[row_group], certain[row_group] = verdict
            rows = [RowSelection.union_of(edges[:-1][hit], edges[1:][hit]) for hit in (possible, certain)]
            yield Verdict(condition, *rows)


# --- batches of reads -----------------------------------------------------------------------------------

_Item = TypeVar("_Item")

#: The maximum number of bytes of indexes in one batch of reads.
MAX_BATCH_BYTES = 1 << 26


def split_batches(
    items: Iterable[_Item], num_bytes: Callable[[_Item], float], max_bytes: float = MAX_BATCH_BYTES
) -> Iterator[list[_Item]]:
    """Split items, in order, into lists of at most ``max_bytes`` where possible.

    Args:
        num_bytes: Returns the number of bytes of an item.
        max_bytes: The maximum number of bytes of a list with several items.

    Example:
        >>> list(split_batches(["ab", "c", "def"], len, max_bytes=3))
        [['ab', 'c'], ['def']]
    """
    batch: list[_Item] = []
    batch_bytes = 0.0
    for item in items:
        size = num_bytes(item)
        if batch and batch_bytes + size > max_bytes:
            yield batch
            batch, batch_bytes = [], 0.0
        batch.append(item)
        batch_bytes += size
    if batch:
        yield batch
