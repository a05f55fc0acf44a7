"""The report of `optimize`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

from intarsia.embed.report import Note, distinct_names
from intarsia.read.amounts import count, size
from intarsia.write import WriteReport

_SHOWN = 10


@dataclass(frozen=True)
class OptimizeReport:
    """The report of `intarsia.spark.optimize`; ``str(report)`` returns a summary.

    Attributes:
        destination: The folder of the new files.
        per_file: The report of each new file, ordered by path.
        num_rows: The number of rows, which equals that of the source.
        verified: The columns whose checksums equal those of the source.
        files_before: The number of files of the source.
        bytes_before: Their total length.
        seconds: Total time taken.

    Example:
        >>> written = WriteReport("out/a.parquet", 1000, 1, 900_000, 900, ("city",), ("page_index",), (), 0.1)
        >>> print(OptimizeReport("out", (written,), 1000, ("city",), 30, 1_000_000, 2.5))
        out: wrote 1,000 rows from 30 files to 1 file in 2.5 s
        1.0 MB became 900 kB, with page_index
        1 column verified against the source
    """

    destination: str
    per_file: tuple[WriteReport, ...] = field(repr=False)
    num_rows: int
    verified: tuple[str, ...]
    files_before: int
    bytes_before: int
    seconds: float

    @property
    def files_after(self) -> int:
        """The number of new files."""
        return len(self.per_file)

    @property
    def bytes_after(self) -> int:
        """Total length of the new files, including indexes."""
        return sum(file.num_bytes for file in self.per_file)

    @property
    def built(self) -> tuple[str, ...]:
        """Names of the indexes that were built in at least one file."""
        return distinct_names(file.built for file in self.per_file)

    @property
    def notes(self) -> list[dict[str, Any]]:
        """``path``, ``column``, ``index``, ``reason`` and ``code`` of each note."""
        return [{"path": file.path, **asdict(note)} for file in self.per_file for note in file.notes]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "destination": self.destination,
            "rows": self.num_rows,
            "verified": list(self.verified),
            "files": {"before": self.files_before, "after": self.files_after},
            "bytes": {"before": self.bytes_before, "after": self.bytes_after},
            "built": list(self.built),
            "seconds": self.seconds,
            "notes": self.notes,
            "per_file": [file.to_dict() for file in self.per_file],
        }

    def __str__(self) -> str:
        built = f", with {', '.join(self.built)}" if self.built else ""
        before, after = count(self.files_before, "file"), count(self.files_after, "file")
        rows = count(self.num_rows, "row")
        lines = [
            f"{self.destination}: wrote {rows} from {before} to {after} in {self.seconds:.1f} s",
            f"{size(self.bytes_before)} became {size(self.bytes_after)}{built}",
            f"{count(len(self.verified), 'column')} verified against the source",
        ]
        files_of: dict[Note, int] = defaultdict(int)
        for file in self.per_file:
            for whole in {Note(note.column, None, note.index, note.reason, note.code) for note in file.notes}:
                files_of[whole] += 1
        notes = [f"note: {note} ({count(files, 'file')})" for note, files in files_of.items()]
        more = [f"… and {count(len(notes) - _SHOWN, 'more note')}"] if len(notes) > _SHOWN else []
        return "\n".join([*lines, *notes[:_SHOWN], *more])
