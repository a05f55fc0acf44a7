"""The protocol of kinds whose payloads in many files become one structure of a lake index.

A lake index answers a condition for all files with one read. A kind takes part in two steps. `Gathers.digest`
reduces the payload of one file to what decides whether the file can be skipped. `Gathers.gather` turns the
digests of many files into one structure, of named parts that can be read separately. A kind without these
methods is evaluated file by file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from intarsia.indexes.layout import Layout
from intarsia.predicate.bound import Condition
from intarsia.rows.bounds import Bools


class GatheredPart(NamedTuple):
    """A named part of a gathered structure.

    Attributes:
        name: The name, unique in the structure.
        data: The bytes.
        piece_bytes: Length of the pieces that can be read separately, a divisor of the length of the data;
            None if the part is always read whole.
    """

    name: str
    data: bytes
    piece_bytes: int | None = None


class GatheredParts(Protocol):
    """The parts of a gathered structure, not read yet. Reading a piece verifies its checksum."""

    def names(self) -> list[str]:
        """Return the names of the parts.

        Returns:
            The `GatheredPart.name` of each part.
        """
        ...

    def num_bytes(self, name: str) -> int:
        """Return the length of a part.

        Args:
            name: The name of the part.

        Returns:
            The length in bytes.

        Raises:
            CorruptFileError: If the part is missing. The structure is then ignored.
        """
        ...

    def read(self, name: str) -> bytes:
        """Read a part.

        Args:
            name: The name of the part.

        Returns:
            All of its bytes.

        Raises:
            CorruptFileError: If it is missing or damaged. The structure is then ignored.
        """
        ...

    def read_pieces(self, name: str, ordinals: Sequence[int]) -> list[bytes]:
        """Read pieces of a part in one request.

        Args:
            name: The name of the part, which has `GatheredPart.piece_bytes`.
            ordinals: The positions of the pieces in the part, from 0.

        Returns:
            The bytes of each piece, in the order of ``ordinals``.

        Raises:
            CorruptFileError: If one is missing or damaged. The structure is then ignored.
        """
        ...


@runtime_checkable
class GatheredIndex(Protocol):
    """An open structure of many files."""

    def candidate_files(self, condition: Condition) -> Bools | None:
        """Return the files that might contain a matching row.

        Args:
            condition: A condition on one of the index's columns.

        Returns:
            One boolean per digest, in the order of `Gathers.gather`; False only if no row of the file
            matches. None if the structure cannot decide.
        """
        ...

    def cost_bytes(self, condition: Condition) -> int:
        """Estimate what an evaluation costs.

        Args:
            condition: A condition on one of the index's columns.

        Returns:
            The number of bytes that `candidate_files` reads.
        """
        ...


@runtime_checkable
class CertainFiles(Protocol):
    """A `GatheredIndex` that also proves that all rows of a file match."""

    def certain_files(self, condition: Condition) -> Bools | None:
        """Return the files in which all rows match.

        Args:
            condition: A condition on one of the index's columns.

        Returns:
            One boolean per digest, in the order of `Gathers.gather`; True only if all rows of the file match.
            None if the structure cannot decide.
        """
        ...


@runtime_checkable
class SummarizedFiles(Protocol):
    """A `GatheredIndex` with a summary of each file, which answers COUNT, SUM, MIN, MAX and AVG."""

    def file_summaries(self, column: str) -> tuple[pa.Table, Bools] | None:
        """Return the summaries of a column.

        Args:
            column: One of the index's columns.

        Returns:
            A table with the columns of `intarsia.indexes.summary_schema` and a row for each digest, in the
            order of `Gathers.gather`; and a boolean for each row, whether its bounds are values of the
            column. None if the structure has no summaries of the column.
        """
        ...


@runtime_checkable
class Gathers(Protocol):
    """An index whose payloads in many files become one structure of a lake index."""

    def digest(self, payload: bytes, layout: Layout) -> bytes | None:
        """Reduce the payload of one file to what `gather` needs.

        Args:
            payload: The result of ``build``. Its checksum has been verified.
            layout: The row ranges of the file, without pages.

        Returns:
            The digest, or None if the payload cannot exclude the file.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """
        ...

    def gather(self, digests: Sequence[bytes]) -> Sequence[GatheredPart] | None:
        """Build one structure for many files.

        Args:
            digests: The digest of each file, by indexes with the same parameters.

        Returns:
            The parts, or None if the structure would be too large to be useful.
        """
        ...

    def open_gathered(self, parts: GatheredParts, num_files: int) -> GatheredIndex:
        """Open the structure; reads as little as possible.

        Args:
            parts: The parts.
            num_files: The number of digests.

        Returns:
            The open structure.

        Raises:
            CorruptFileError: If the structure is damaged.
        """
        ...
