"""The protocol by which everything that can exclude rows presents itself to `intarsia.read.prune`.

A proof says, without any I/O, of which row groups it could deny a condition and what asking it would cost.
What that could save follows from the rows that are still candidates, so that the cheapest proof can be asked
next, and none that costs more than reading.  Row groups are the unit of these judgements; the answers
themselves are exact rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from intarsia.predicate.bound import Condition
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection

#: For each condition that a proof is asked about, the row groups where the answer matters.
Wanted: TypeAlias = Mapping[Condition, Bools]


class Cost(NamedTuple):
    """What it takes to ask a proof.

    Attributes:
        num_bytes: Bytes to read; 0 for what the footer holds.
        requests: Requests for them, apart from what storage may join.
        pages: Pages to decode.
        part_bytes: Bytes of the smallest part that it can be asked for by itself; None: all of them.
    """

    num_bytes: int
    requests: int
    pages: int = 0
    part_bytes: int | None = None

    @property
    def least_bytes(self) -> int:
        """Bytes that have to be read for any answer at all."""
        return self.num_bytes if self.part_bytes is None else self.part_bytes


class Told(NamedTuple):
    """What a proof says of a condition.

    Attributes:
        condition: The condition.
        possible: A superset of the rows that meet it; None: cannot tell.
        certain: Rows that all meet it; None: cannot tell.
    """

    condition: Condition
    possible: RowSelection | None
    certain: RowSelection | None


class Stakes(Protocol):
    """What there is to save, for proofs that choose among their parts."""

    def bytes_of(self, row_group: int) -> int:
        """About how many bytes a scan of the candidates in a row group would read."""
        ...

    def rows_of(self, row_group: int) -> int:
        """How many candidates there are in a row group."""
        ...

    def excluded_if(self, denied: Wanted) -> Bools:
        """The row groups that need not be read, if each condition is met nowhere in the row groups given."""
        ...


class Proof(Protocol):
    """A source of proof that rows do not meet a condition, and perhaps that others do.

    Attributes:
        name: What reports call it.
        is_lookup: Whether it only denies, so that asking it is in vain where denying changes nothing.
        counts_pages: Whether it takes rows from the page index, which may miscount the rows of a page.
    """

    name: str
    is_lookup: bool
    counts_pages: bool

    def reach(self, condition: Condition) -> Bools | None:
        """For each row group, whether it could deny the condition there; None: nowhere. No I/O."""
        ...

    def cost(self, wanted: Wanted) -> Cost:
        """What `ask` would take, about. No I/O."""
        ...

    def ask(self, wanted: Wanted, stakes: Stakes) -> Iterator[Told]:
        """Judge conditions, as far as that is worth what is at stake.

        Yields:
            What is known of each condition; nothing of one that cannot be told.

        Raises:
            IndexPayloadError: If it turns out to be damaged; nothing that it told before is wrong.
        """
        ...
