"""What writing did."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from intarsia.embed.report import Note


@dataclass(frozen=True)
class WriteReport:
    """What `write_table` or a `Writer` wrote.

    Attributes:
        path: The file.
        num_rows: Its rows.
        num_row_groups: Its row groups.
        num_bytes: Its length, indexes included.
        bytes_indexes: What of it are embedded indexes and the footer that lists them.
        dictionary: The leaves that got a dictionary, dotted.
        built: Names of the indexes that were built.
        notes: What has no index, and why.
        seconds: How long it took, from the first row to the file's being in place.
    """

    path: str
    num_rows: int
    num_row_groups: int
    num_bytes: int
    bytes_indexes: int
    dictionary: tuple[str, ...]
    built: tuple[str, ...]
    notes: tuple[Note, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return asdict(self)
