"""What attaching and detaching did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Note:
    """A part of a file that an index or the new footer leaves out, or an index of little use, and why.

    Attributes:
        column: The column; None if it is about the footer.
        row_group: The row group; None if it is about the whole column or the footer.
        index: The name of the index, or ``"footer_extension"``.
        reason: Why.
    """

    column: str | None
    row_group: int | None
    index: str
    reason: str

    def __str__(self) -> str:
        column = "" if self.column is None else f" of {self.column}"
        row_group = "" if self.row_group is None else f", row group {self.row_group}"
        return f"{self.index}{column}{row_group}: {self.reason}"


@dataclass(frozen=True)
class AttachReport:
    """What `attach` did to one file.

    Attributes:
        path: The file.
        bytes_original: Its length before anything was ever attached.
        bytes_before: Its length before this run.
        bytes_after: Its length now.
        built: Names of the indexes that this run built; a standard structure if any chunk got it.
        kept: Names of those that were there already.
        notes: What has no index, or one of hardly any use, and why.
        stale: Why a directory that was there was not about this file; None if there was none, or it was.
        seconds: How long it took.
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

    @property
    def bytes_added(self) -> int:
        """How much longer the file became in this run; negative if an index gave way to a smaller one."""
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
        """The report as JSON has it."""
        out = asdict(self)
        out["bytes_added"] = self.bytes_added
        out["built"], out["kept"] = list(self.built), list(self.kept)
        out["notes"] = [
            {name: value for name, value in asdict(note).items() if value is not None} for note in self.notes
        ]
        return out


@dataclass(frozen=True)
class DetachReport:
    """What `detach` did to one file.

    Attributes:
        path: The file.
        detached: Whether anything was attached.
        bytes_before: Its length before.
        bytes_after: Its length now.
        removed: Names of the indexes and standard structures that went.
        seconds: How long it took.
    """

    path: str
    detached: bool
    bytes_before: int
    bytes_after: int
    removed: tuple[str, ...]
    seconds: float

    @property
    def message(self) -> str:
        """One line for people."""
        if not self.detached:
            return f"{self.path}: nothing is attached"
        return f"{self.path}: {self.bytes_before - self.bytes_after} bytes taken off"

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {**asdict(self), "removed": list(self.removed)}


def summarize(notes: Iterable[Note], row_group_rows: Sequence[int]) -> tuple[Note, ...]:
    """One note for a column where all its row groups with rows have the same."""
    groups: dict[Note, list[int]] = defaultdict(list)
    for note in notes:
        whole = replace(note, row_group=None)
        places = groups[whole]
        if note.row_group is not None:
            places.append(note.row_group)
    filled = [ordinal for ordinal, num_rows in enumerate(row_group_rows) if num_rows]
    out = []
    for whole, places in groups.items():
        if not places or set(places) >= set(filled):
            out.append(whole)
        else:
            out.extend(replace(whole, row_group=place) for place in places)
    return tuple(out)
