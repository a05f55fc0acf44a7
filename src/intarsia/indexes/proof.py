"""The protocol of everything that can exclude rows, for `intarsia.read.prune`.

A proof reports, without I/O, in which row groups it could exclude a condition, and the cost of evaluating
it. The possible savings follow from the remaining candidate rows. So pruning can evaluate the cheapest proof
next, and skip every proof that costs more than reading. Costs are per row group; results are exact rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from intarsia.format.footer import Leaf
from intarsia.predicate.bound import Condition
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection

#: The cost of a request to a local file, in bytes that could be read in that time.
LOCAL_REQUEST_BYTES = 1 << 12

#: The conditions to evaluate, each with the row groups in which its result matters.
Wanted: TypeAlias = Mapping[Condition, Bools]


class ProofCost(NamedTuple):
    """The cost of evaluating a proof.

    Attributes:
        num_bytes: The number of bytes to read, 0 for metadata in the footer.
        requests: The number of requests, before storage coalesces them.
        pages: The number of pages to decode.
        part_bytes: The size of the smallest part that can be evaluated separately. None if there is only
            the whole.
    """

    num_bytes: int
    requests: int
    pages: int = 0
    part_bytes: int | None = None

    @property
    def min_bytes(self) -> int:
        """The minimum number of bytes to read for any result."""
        return self.num_bytes if self.part_bytes is None else self.part_bytes


class Verdict(NamedTuple):
    """The result of a proof for a condition.

    Attributes:
        condition: The condition.
        possible: A superset of the matching rows. None if unknown.
        certain: A subset of the matching rows. None if unknown.
    """

    condition: Condition
    possible: RowSelection | None
    certain: RowSelection | None


class Savings(Protocol):
    """The possible savings, for proofs that choose among their parts."""

    def bytes_of(self, row_group: int) -> int:
        """Estimate the number of bytes that a scan of the candidate rows in a row group would read."""
        ...

    def column_bytes(self, leaf: Leaf) -> npt.NDArray[np.int64]:
        """Estimate the number of bytes of a leaf that a scan of the candidate rows reads, by row group."""
        ...

    def rows_of(self, row_group: int) -> int:
        """Return the number of candidate rows in a row group."""
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
