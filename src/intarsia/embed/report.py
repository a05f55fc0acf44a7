"""The reports of `attach` and `detach`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from intarsia.errors import IntarsiaError


class Reason(NamedTuple):
    """The reason why a structure is missing or incomplete: a stable code and a text."""

    code: str
    text: str

    @classmethod
    def of(cls, error: IntarsiaError) -> Reason:
        """Return an error as a reason."""
        return cls(error.reason or "not-built", str(error))


@dataclass(frozen=True)
class Note:
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

    def __str__(self) -> str:
        is_named = self.column is None or f"({self.column})" in self.index
        column = "" if is_named else f" of {self.column}"
        row_group = "" if self.row_group is None else f", row group {self.row_group}"
        share = "" if self.share is None else f" ({self.share:.0%} of the file)"
        return f"{self.index}{column}{row_group}{share}: {self.reason}"


@dataclass(frozen=True)
class AttachReport:
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
        for note in self.notes:
            text += f"\n  {note}"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        out = asdict(self)
        out["bytes_added"] = self.bytes_added
        out["built"], out["kept"] = list(self.built), list(self.kept)
        out["notes"] = [
            {name: value for name, value in asdict(note).items() if value is not None} for note in self.notes
        ]
        return out


@dataclass(frozen=True)
class DetachReport:
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

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {**asdict(self), "removed": list(self.removed)}


def summarize(notes: Iterable[Note], row_group_rows: Sequence[int]) -> tuple[Note, ...]:
    """Merge notes that are the same for all row groups with rows of a column."""
    groups: dict[Note, list[int]] = defaultdict(list)
    for note in notes:
        whole = replace(note, row_group=None)
        row_groups = groups[whole]
        if note.row_group is not None:
            row_groups.append(note.row_group)
    filled = [ordinal for ordinal, num_rows in enumerate(row_group_rows) if num_rows]
    out = []
    for whole, row_groups in groups.items():
        if not row_groups or set(row_groups) >= set(filled):
            out.append(whole)
        else:
            out.extend(replace(whole, row_group=row_group) for row_group in row_groups)
    return tuple(out)


#: Called with the units done, the total number of units, and a label of the current one.
Progress: TypeAlias = Callable[[int, int, str], None]


def no_progress(done_units: int, total_units: int, label: str) -> None:
    """Ignore the progress."""
