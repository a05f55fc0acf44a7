"""The report of a written file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from intarsia.embed.report import Note


@dataclass(frozen=True)
class WriteReport:
    """The report of `write_table` or a `Writer`.

    Attributes:
        path: The file.
        num_rows: The number of rows.
        num_row_groups: The number of row groups.
        num_bytes: The length of the file, including indexes.
        bytes_indexes: The length of the embedded indexes and the footer that lists them.
        dictionary: The dotted paths of the leaves with a dictionary.
        built: The names of the indexes that were built.
        notes: The columns without an index, and the reasons.
        seconds: The elapsed time until the file had its final path.
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
        """Return the report in JSON form."""
        return asdict(self)
