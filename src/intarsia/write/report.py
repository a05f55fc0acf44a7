"""The report of a written file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from intarsia.embed.report import Note
from intarsia.read.amounts import count


@dataclass(frozen=True)
class WriteReport:
    """The report of `write_table` or a `Writer`; ``str(report)`` returns a summary.

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

    Example:
        >>> print(WriteReport("a.parquet", 1000, 1, 4096, 900, (), ("distinct(city):page",), (), 0.1))
        a.parquet: wrote 1,000 rows in 1 row group, 4,096 bytes; built distinct(city):page (900 bytes)
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

    def __str__(self) -> str:
        rows, groups = count(self.num_rows, "row"), count(self.num_row_groups, "row group")
        built = f"; built {', '.join(self.built)} ({self.bytes_indexes:,} bytes)" if self.built else ""
        text = f"{self.path}: wrote {rows} in {groups}, {self.num_bytes:,} bytes{built}"
        return "\n  ".join([text, *map(str, self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Return the report in JSON form."""
        return asdict(self)
