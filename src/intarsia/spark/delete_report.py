"""The report of `delete`."""

from __future__ import annotations

from dataclasses import field

from intarsia.amounts import count, first_lines, part, size
from intarsia.lake.data_file import FileFailure
from intarsia.lake.index.build import LakeIndexReport
from intarsia.records import dataclass
from intarsia.rows.values import JsonObject


@dataclass(frozen=True)
class ErasedFile:
    """A file that had rows that match.

    Attributes:
        path: The file.
        is_removed: Whether it was removed, because it had no other rows.
        rows_before: The number of its rows before.
        rows_deleted: The number of rows that were deleted.
        bytes_before: Its length before.
        bytes_after: Its length now; 0 if it was removed.
        built: Names of the indexes that were built again.
        seconds: Time taken.
    """

    path: str
    is_removed: bool
    rows_before: int
    rows_deleted: int
    bytes_before: int
    bytes_after: int
    built: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def rows_left(self) -> int:
        """The number of rows that it has now."""
        return self.rows_before - self.rows_deleted


@dataclass(frozen=True)
class DeleteReport(JsonObject):
    """The report of `intarsia.spark.delete`; ``str(report)`` returns a summary.

    Attributes:
        format: The format of the table: ``"parquet"``, ``"delta"`` or ``"iceberg"``.
        rows_deleted: The number of rows that were deleted; for a dry run, those that match.
        files_total: The number of files of the lake before; 0 for a table of Delta or Iceberg, whose own
            command chose the files.
        per_file: The files that were rewritten or removed, ordered by path.
        rows_checked: The number of rows of these files that were read again, without indexes. None of them
            matches.
        lake_indexes: The lake indexes that were brought up to date.
        failed: The files that could not be rewritten.
        seconds: Total time taken.
        is_dry_run: Whether nothing was changed.

    Example:
        >>> erased = ErasedFile("lake/a.parquet", False, 1000, 3, 90_000, 89_000)
        >>> print(DeleteReport("parquet", 3, 30, (erased,), 997, seconds=1.5))
        3 rows deleted in 1.5 s: 1 of 30 files rewritten, 0 removed
        90.0 kB became 89.0 kB; 997 rows read again, and none of them matches
    """

    JSON_KEYS = (
        "format dry_run=is_dry_run rows_deleted rows_checked files.total files.rewritten files.removed "
        "failed lake_indexes seconds per_file"
    )

    format: str
    rows_deleted: int
    files_total: int = 0
    per_file: tuple[ErasedFile, ...] = field(default=(), repr=False)
    rows_checked: int = 0
    lake_indexes: tuple[LakeIndexReport, ...] = ()
    failed: tuple[FileFailure, ...] = ()
    seconds: float = 0.0
    is_dry_run: bool = False

    @property
    def files_removed(self) -> int:
        """The number of files that were removed."""
        return sum(file.is_removed for file in self.per_file)

    @property
    def files_rewritten(self) -> int:
        """The number of files that were rewritten."""
        return len(self.per_file) - self.files_removed

    def __str__(self) -> str:
        rows = count(self.rows_deleted, "row")
        if self.format != "parquet":
            verb = "would be deleted" if self.is_dry_run else f"deleted in {self.seconds:.1f} s"
            return f"{rows} {verb} by the command of {self.format.title()}"
        lines = self._matching(rows) if self.is_dry_run else self._changed(rows)
        return "\n".join(first_lines(lines))

    def _matching(self, rows: str) -> list[str]:
        files = part(len(self.per_file), self.files_total, "file")
        lines = [f"{rows} in {files} would be deleted"]
        return [*lines, *(f"{file.path}: {count(file.rows_deleted, 'row')}" for file in self.per_file)]

    def _changed(self, rows: str) -> list[str]:
        files = part(self.files_rewritten, self.files_total, "file")
        lines = [f"{rows} deleted in {self.seconds:.1f} s: {files} rewritten, {self.files_removed:,} removed"]
        if self.per_file:
            before = sum(file.bytes_before for file in self.per_file)
            after = sum(file.bytes_after for file in self.per_file)
            checked = f"{count(self.rows_checked, 'row')} read again, and none of them matches"
            lines.append(f"{size(before)} became {size(after)}; {checked}")
        return [*lines, *(one.summary() for one in self.lake_indexes)]
