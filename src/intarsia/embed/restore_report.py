"""The report of `detach` over many files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from intarsia.embed.file_totals import FileTotals, distinct_names
from intarsia.embed.report import DetachReport
from intarsia.lake.each_file import FileFailure
from intarsia.read.amounts import count, size


@dataclass(frozen=True)
class RestoreReport(FileTotals[DetachReport]):
    """The report of `detach` over many files; ``str(report)`` is a summary in one line.

    Attributes:
        per_file: The report of each file that was processed and did not fail.
        failed: The files that could not be restored and are unchanged: ``path``, ``error``, ``reason``.
        seconds: Total time taken.
        files_other: Number of files in the folders that are not Parquet and were ignored.
        files_found: Number of files found; None if all of them were processed.
    """

    per_file: tuple[DetachReport, ...]
    failed: tuple[FileFailure, ...]
    seconds: float
    files_other: int = 0
    files_found: int | None = None

    @property
    def files_total(self) -> int:
        """The number of files found."""
        return len(self.per_file) + len(self.failed) if self.files_found is None else self.files_found

    @property
    def files_detached(self) -> int:
        """The number of files from which indexes were removed."""
        return sum(report.detached for report in self.per_file)

    @property
    def detached(self) -> bool:
        """Whether indexes were removed from any file."""
        return self.files_detached > 0

    @property
    def removed(self) -> tuple[str, ...]:
        """Names of the indexes that were removed from at least one file."""
        return distinct_names(report.removed for report in self.per_file)

    @property
    def bytes_removed(self) -> int:
        """Total number of bytes removed from the files."""
        return self.bytes_before - self.bytes_after

    def __str__(self) -> str:
        failed = f"; {len(self.failed):,} failed" if self.failed else ""
        return (
            f"{self.files_detached:,} of {count(self.files_total, 'file')} restored, "
            f"{size(self.bytes_removed)} removed{failed}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "files": self.files_total,
            "other_files": self.files_other,
            "detached": self.files_detached,
            "bytes_removed": self.bytes_removed,
            "failed": [failure.to_dict() for failure in self.failed],
            "reports": [report.to_dict() for report in self.per_file],
        }
