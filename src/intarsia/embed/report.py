"""The reports of `attach` and `detach`, on one file and on many."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from intarsia.amounts import count, first_lines, others_ignored, size
from intarsia.errors import IntarsiaError
from intarsia.lake.data_file import FileFailure
from intarsia.records import dataclass
from intarsia.rows.values import JsonObject

if TYPE_CHECKING:
    from intarsia.lake.index.build import LakeIndexReport


class Reason(NamedTuple):
    """The reason why a structure is missing or incomplete: a stable code and a text."""

    code: str
    text: str

    @classmethod
    def of(cls, error: IntarsiaError) -> Reason:
        """Return an error as a reason."""
        return cls(error.reason or "not-built", str(error))


@dataclass(frozen=True)
class Note(JsonObject):
    """A remark of `attach`: no index on a column, an index of little use or large size, a dropped extension.

    Attributes:
        column: The column; None if the note concerns the footer.
        row_group: The row group; None if the note concerns the whole column or the footer.
        index: The name of the index, or ``"footer_extension"``.
        reason: Why, in words.
        code: Why, as a stable code such as ``"contains-nan"``; see `IntarsiaError.reason`.
        share: Size of the index divided by that of the original file, such as 0.18; None if the note is not
            about its size.
    """

    column: str | None
    row_group: int | None
    index: str
    reason: str
    code: str
    share: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the note as a JSON object, without unknown values."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def __str__(self) -> str:
        is_named = self.column is None or f"({self.column})" in self.index
        column = "" if is_named else f" of {self.column}"
        row_group = "" if self.row_group is None else f", row group {self.row_group}"
        share = "" if self.share is None else f" ({self.share:.0%} of the file)"
        return f"{self.index}{column}{row_group}{share}: {self.reason}"


@dataclass(frozen=True)
class AttachReport(JsonObject):
    """The report of `attach` on one file.

    Attributes:
        path: The file.
        bytes_original: Length of the original file.
        bytes_before: Length of the file before this run.
        bytes_after: Length of the file now.
        built: Names of the indexes that this run built, and of the standard structures that it added to
            at least one chunk.
        kept: Names of the indexes that the file already had.
        notes: Columns without an index, or with one that is unlikely to exclude rows, and why; indexes that
            are larger than a tenth of the file.
        stale: Why the existing directory was ignored, if it belonged to another file; otherwise None.
        seconds: Time taken.
        weights: Size in bytes of each index that this run built, by name.
    """

    JSON_KEYS = (
        "path bytes_original bytes_before bytes_after built kept notes stale seconds weights bytes_added"
    )

    path: str
    bytes_original: int
    bytes_before: int
    bytes_after: int
    built: tuple[str, ...]
    kept: tuple[str, ...]
    notes: tuple[Note, ...]
    stale: str | None
    seconds: float
    weights: Mapping[str, int] = field(default_factory=dict)

    @property
    def bytes_added(self) -> int:
        """Growth of the file in this run; negative if an index was replaced by a smaller one."""
        return self.bytes_after - self.bytes_before

    @property
    def changed(self) -> bool:
        """Whether the file was replaced."""
        return bool(self.built) or self.bytes_added != 0

    def __str__(self) -> str:
        built = f"built {', '.join(self.built)}" if self.built else "built nothing"
        kept = f"; kept {', '.join(self.kept)}" if self.kept else ""
        text = f"{self.path}: {built}{kept}; {self.bytes_added:+,} bytes"
        return "\n  ".join([text, *map(str, self.notes)])


@dataclass(frozen=True)
class DetachReport(JsonObject):
    """The report of `detach` on one file.

    Attributes:
        path: The file.
        detached: Whether indexes were attached.
        bytes_before: Length of the file before.
        bytes_after: Length of the file now.
        removed: Names of the indexes and standard structures that were removed.
        seconds: Time taken.
    """

    path: str
    detached: bool
    bytes_before: int
    bytes_after: int
    removed: tuple[str, ...]
    seconds: float

    @property
    def message(self) -> str:
        """A summary in one line."""
        if not self.detached:
            return f"{self.path}: no indexes were attached"
        return f"{self.path}: {self.bytes_before - self.bytes_after:,} bytes removed"

    def __str__(self) -> str:
        return self.message


def summarize(notes: Iterable[Note], row_group_rows: Sequence[int]) -> tuple[Note, ...]:
    """Merge notes that are the same for all row groups with rows of a column."""
    groups: dict[Note, list[Note]] = defaultdict(list)
    for note in notes:
        groups[replace(note, row_group=None)] += [] if note.row_group is None else [note]
    filled = {ordinal for ordinal, num_rows in enumerate(row_group_rows) if num_rows}
    out: list[Note] = []
    for whole, of_row_groups in groups.items():
        is_whole = not of_row_groups or {note.row_group for note in of_row_groups} >= filled
        out += [whole] if is_whole else of_row_groups
    return tuple(out)


#: Called with the units done, the total number of units, and a label of the current one.
Progress: TypeAlias = Callable[[int, int, str], None]


def no_progress(done_units: int, total_units: int, label: str) -> None:
    """Ignore the progress."""


# --- many files ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IndexedFile:
    """The outcome for one file.

    Attributes:
        path: The file.
        bytes_before: Its length before; 0 if it could not be read.
        bytes_after: Its length now.
        built: Names of the indexes that were built.
        kept: Names of the indexes that the file already had.
        notes: Columns without an index, or with one that is unlikely to exclude rows: ``index``, ``reason``,
            ``code`` and, where they apply, ``column`` and ``row_group``.
        error: Why the file was not changed; None after success.
        code: A stable code for the error, such as ``"wrong-magic"``; None after success.
        seconds: Time taken.
    """

    path: str
    bytes_before: int = 0
    bytes_after: int = 0
    built: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    notes: tuple[dict[str, Any], ...] = ()
    error: str | None = None
    code: str | None = None
    seconds: float = 0.0

    @classmethod
    def of(cls, report: AttachReport) -> IndexedFile:
        """Convert the report of one file."""
        return cls(
            report.path,
            report.bytes_before,
            report.bytes_after,
            report.built,
            report.kept,
            tuple(report.to_dict()["notes"]),
            seconds=report.seconds,
        )

    @property
    def changed(self) -> bool:
        """Whether the file was replaced."""
        return bool(self.built) or self.bytes_before != self.bytes_after

    @property
    def is_known(self) -> bool:
        """Whether the file was indexed before, and did not change."""
        return bool(self.kept) and not self.changed

    def to_json(self) -> str:
        """Serialize to JSON, to send it from an executor to the driver."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> IndexedFile:
        """Restore the result of `to_json`."""
        values = json.loads(text)
        for name in ("built", "kept", "notes"):
            values[name] = tuple(values[name])
        return cls(**values)


_File = TypeVar("_File", IndexedFile, DetachReport)


class FileTotals(Generic[_File]):
    """Totals of ``per_file``. Failed files are not in it, or count with equal lengths before and after."""

    per_file: tuple[_File, ...]

    @property
    def bytes_before(self) -> int:
        """Total length of the files before."""
        return sum(file.bytes_before for file in self.per_file)

    @property
    def bytes_after(self) -> int:
        """Total length of the files now."""
        return sum(file.bytes_after for file in self.per_file)


def distinct_names(names_of_files: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return each name of an index once, in order of first occurrence.

    Example:
        >>> distinct_names([["b", "a"], ["a", "c"]])
        ('b', 'a', 'c')
    """
    return tuple(dict.fromkeys(name for names in names_of_files for name in names))


@dataclass(frozen=True)
class IndexReport(FileTotals[IndexedFile], JsonObject):
    """The report of `attach` over many files, or of `intarsia.spark.index`; ``str()`` returns a summary.

    Attributes:
        per_file: Every file that was processed, ordered by path; all files, unless the run was stopped.
        seconds: Total time taken.
        files_other: Number of files in the folders that are not Parquet and were ignored.
        lake_index: The files that were added to the lake index; None if there is none.
        files_found: Number of files to index; None if all of them were processed.
        files_skipped: Number of other Parquet files, which the job was told to leave out.
        files_registered: Number of files whose new lengths were committed to the log of a Delta table.

    Example:
        >>> print(IndexReport((IndexedFile("a.parquet", 900_000, 1_000_000, ("page_index",)),), 0.5))
        indexed 1 of 1 file in 0.5 s
        100 kB added to 900 kB (11.1%)
    """

    JSON_KEYS = (
        "files.total files.indexed files.unchanged files.failed files.skipped files.other bytes.before "
        "bytes.after bytes.added seconds notes failed lake_index per_file"
    )

    per_file: tuple[IndexedFile, ...] = field(repr=False)
    seconds: float
    files_other: int = 0
    lake_index: LakeIndexReport | None = None
    files_found: int | None = None
    files_skipped: int = 0
    files_registered: int = 0

    @property
    def files_total(self) -> int:
        """Number of files to index."""
        return len(self.per_file) if self.files_found is None else self.files_found

    @property
    def files_indexed(self) -> int:
        """Number of files that got an index."""
        return sum(file.error is None and file.changed for file in self.per_file)

    @property
    def files_unchanged(self) -> int:
        """Number of files that already had all indexes, or cannot have any of them."""
        return sum(file.error is None and not file.changed for file in self.per_file)

    @property
    def files_failed(self) -> int:
        """Number of files that could not be indexed; they are unchanged."""
        return sum(file.error is not None for file in self.per_file)

    @property
    def changed(self) -> bool:
        """Whether any file was replaced."""
        return self.files_indexed > 0

    @property
    def built(self) -> tuple[str, ...]:
        """Names of the indexes that were built in at least one file."""
        return distinct_names(file.built for file in self.per_file)

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the indexes that at least one file had already."""
        return distinct_names(file.kept for file in self.per_file)

    @property
    def failed(self) -> list[dict[str, str]]:
        """``path``, ``error`` and ``code`` of each file that failed."""
        failed = [file for file in self.per_file if file.error is not None]
        return [{"path": file.path, "error": file.error or "", "code": file.code or ""} for file in failed]

    @property
    def notes(self) -> list[dict[str, Any]]:
        """``path``, ``column``, ``index``, ``reason`` and ``code`` of each note."""
        return [{"path": file.path, **note} for file in self.per_file for note in file.notes]

    @property
    def bytes_added(self) -> int:
        """Growth of the files; negative if indexes were replaced by smaller ones."""
        return self.bytes_after - self.bytes_before

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        document = super().to_dict()
        if self.files_registered:
            document["files"]["registered"] = self.files_registered
        return document

    def __str__(self) -> str:
        failures = [f"failed: {file['path']}: {file['error']}" for file in self.failed]
        return self._shown([*self._notes(), *failures])

    def summary(self) -> str:
        """Return the text of ``str()`` with the number of failed files instead of their errors."""
        return self._shown(self._notes())

    def _notes(self) -> list[str]:
        """Return the distinct notes, each with its number of files.

        Notes on files that an earlier run indexed are only counted, because that run has shown them.
        """
        files_of: dict[Note, set[str]] = defaultdict(set)
        shares: dict[Note, list[float]] = defaultdict(list)
        for file in self.per_file:
            for note in () if file.is_known else file.notes:
                whole = Note(note.get("column"), None, note["index"], note["reason"], note["code"])
                files_of[whole].add(file.path)
                shares[whole] += [note["share"]] if "share" in note else []
        lines = [
            f"note: {replace(note, share=max(shares[note], default=None))} ({count(len(files), 'file')})"
            for note, files in files_of.items()
        ]
        known = [len(file.notes) for file in self.per_file if file.is_known and file.notes]
        if known:
            lines.append(f"{count(sum(known), 'note')} on {count(len(known), 'file')} indexed before")
        return lines

    def _shown(self, notes: list[str]) -> str:
        rest = [
            f"{number:,} {word}"
            for number, word in ((self.files_unchanged, "unchanged"), (self.files_failed, "failed"))
            if number
        ]
        lines = [
            f"indexed {self.files_indexed:,} of {count(self.files_total, 'file')} in {self.seconds:.1f} s"
            + (f" ({', '.join(rest)})" if rest else "")
            + (f"; {count(self.files_skipped, 'file')} left out" if self.files_skipped else "")
            + others_ignored(self.files_other)
        ]
        if self.bytes_added:
            share = f" ({self.bytes_added / self.bytes_before:.1%})" if self.bytes_before else ""
            lines.append(f"{size(self.bytes_added)} added to {size(self.bytes_before)}{share}")
        if self.files_registered:
            lines.append(f"{count(self.files_registered, 'new length')} in the log of the table")
        if self.lake_index is not None:
            lines += self.lake_index.summary().splitlines()
        return "\n".join([*lines, *first_lines(notes, "note")])


@dataclass(frozen=True)
class RestoreReport(FileTotals[DetachReport], JsonObject):
    """The report of `detach` over many files; ``str(report)`` is a summary in one line.

    Attributes:
        per_file: The report of each file that was processed and did not fail.
        failed: The files that could not be restored and are unchanged: ``path``, ``error``, ``reason``.
        seconds: Total time taken.
        files_other: Number of files in the folders that are not Parquet and were ignored.
        files_found: Number of files found; None if all of them were processed.
    """

    JSON_KEYS = (
        "files=files_total other_files=files_other detached=files_detached bytes_removed failed "
        "reports=per_file"
    )

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
        untouched = len(self.per_file) - self.files_detached
        return (
            f"{self.files_detached:,} of {count(self.files_total, 'file')} restored, "
            f"{size(self.bytes_removed)} removed"
            + (f"; {untouched:,} had no attached indexes" if untouched else "")
            + (f"; {len(self.failed):,} failed" if self.failed else "")
            + others_ignored(self.files_other)
        )
