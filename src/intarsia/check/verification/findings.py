"""What `intarsia.verify` finds, and what each kind of finding means for those who read the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from intarsia.check.inspection.report import to_json

Severity = Literal["error", "warning", "note"]

#: What a verification reads: all data, the data of some column chunks, or no data pages.
Scope = Literal["full", "sample", "quick"]

_LOSES_ROWS = "readers that trust this lose rows"
_WRONG_PAGES = "readers that skip pages fail, or return wrong rows"
_ALL_IGNORED = "readers ignore all embedded indexes: answers stay right, nothing is skipped by them"
_IGNORED = "it is ignored: answers stay right, nothing is skipped by it"

#: Each rule: how bad it is, and what it does to readers.
RULES: Mapping[str, tuple[Severity, str]] = {
    # pages
    "unreadable-pages": ("error", "the column cannot be read here"),
    "unchecked": ("note", "whether the indexes agree with the data is not known here"),
    "value-count": ("error", "readers fail, or return too few rows"),
    "row-count": ("error", "readers fail, or return too few or too many rows"),
    "page-header-count": ("error", "readers that count rows or nulls by page headers are wrong"),
    "page-starts-within-row": ("error", "readers that skip pages return rows with values missing or shifted"),
    "empty-page": ("warning", "readers that expect first rows to ascend reject the OffsetIndex"),
    "page-checksum": ("error", "the page's bytes are damaged, or readers that check them fail"),
    # what the footer says of chunks and row groups
    "encodings-incomplete": ("error", "readers that prune by the dictionary page lose rows, or fail"),
    "encoding-stats-hide-pages": ("error", "readers that prune by the dictionary page lose rows"),
    "encoding-stats": ("warning", "readers prune by the dictionary page in vain, or not at all"),
    "chunk-size": ("warning", "readers that plan reads or memory by it take too little or too much"),
    "row-group-size": ("warning", "readers that split files or plan memory by it do so badly"),
    "rows-not-sorted": (
        "error",
        "readers that rely on the order lose rows, or return them in the wrong order",
    ),
    "sorting-column": ("error", "readers fail, or ignore the order"),
    # OffsetIndex
    "offset-index-unreadable": ("error", "readers ignore it, or fail"),
    "page-count": ("error", _WRONG_PAGES),
    "page-offset": ("error", _WRONG_PAGES),
    "page-outside-chunk": ("error", "readers that skip pages fail, or read bytes of another column"),
    "pages-overlap": ("error", _WRONG_PAGES),
    "page-size": ("error", _WRONG_PAGES),
    "page-size-without-header": ("error", "readers that skip pages read pages that are cut short"),
    "first-row-index": ("error", "readers that skip pages return wrong rows"),
    # ColumnIndex, and what Statistics share with it
    "column-index-unreadable": ("error", "readers ignore it, or fail"),
    "column-index-page-count": (
        "error",
        "readers reject the page index, or judge pages by the bounds of others and lose rows",
    ),
    "column-index-without-offset-index": ("warning", "readers cannot use it"),
    "no-column-order": (
        "warning",
        "the bounds have no defined meaning; readers that trust them may lose rows",
    ),
    "bounds-without-order": ("note", "readers have to ignore bounds of this type"),
    "writer-not-believed": ("note", "scans do not use it, whether or not it is right in this file"),
    "null-page-with-values": ("error", _LOSES_ROWS),
    "null-page-not-marked": (
        "warning",
        "readers read the page in vain, or judge by bounds that mean nothing",
    ),
    "null-count": ("error", "IS NULL may lose rows, and counts answered from it are wrong"),
    "null-count-invalid": ("error", "readers reject the index, or lose rows"),
    "nan-count": ("error", "readers that trust this lose rows with NaN, or count wrongly"),
    "nan-count-missing": ("warning", "readers have to expect NaN everywhere, and skip less"),
    "bound-unreadable": ("error", "readers fail, or judge by a wrong value"),
    "bound-is-nan": ("warning", "readers that compare with it lose rows; they have to ignore it"),
    "bounds-out-of-order": ("error", _LOSES_ROWS),
    "bounds-exclude-values": ("error", _LOSES_ROWS),
    "bounds-contradict-statistics": ("error", "one of the two excludes rows that match"),
    "bound-not-exact": ("error", "readers that answer MIN or MAX from it are wrong"),
    "boundary-order": ("error", "readers that search by bisection lose rows"),
    "distinct-count": (
        "warning",
        "plans made by it are worse, and COUNT(DISTINCT) answered from it is wrong",
    ),
    "level-histogram": ("warning", "estimates from it are wrong"),
    "unencoded-bytes": ("warning", "readers that plan memory by it take too little or too much"),
    # GeospatialStatistics
    "bounding-box-excludes-values": ("error", _LOSES_ROWS),
    "bounding-box-incomplete": ("warning", "readers ignore it, or fail"),
    "geospatial-types-incomplete": ("error", _LOSES_ROWS),
    "geospatial-types-not-exact": ("warning", "readers that prune by the types skip less"),
    # Bloom filters
    "bloom-filter-unreadable": ("error", "readers ignore it, or fail"),
    "bloom-filter-length": ("warning", "readers that trust the length read too little or too much"),
    "bloom-filter-denies-values": ("error", _LOSES_ROWS),
    # embedded indexes
    "directory-damaged": ("warning", _ALL_IGNORED),
    "directory-newer": ("note", _ALL_IGNORED),
    "directory-stale": ("warning", _ALL_IGNORED),
    "directory-foreign": ("warning", _ALL_IGNORED),
    "datafusion-index-missing": ("warning", "readers of that form fail, or ignore it"),
    "index-kind-unknown": ("note", _IGNORED),
    "index-newer": ("note", _IGNORED),
    "index-damaged": ("error", _IGNORED),
    "index-column": ("warning", _IGNORED),
    "index-loses-rows": ("error", "scans lose rows"),
    "index-claims-rows": ("error", "scans return rows that do not match"),
    "index-differs": ("warning", "less is skipped than could be"),
    "index-not-reproduced": (
        "warning",
        "another version wrote it, or its sums, samples and estimates are not those of the file",
    ),
    "index-estimate": ("warning", "plans made by it are worse; answers stay right"),
}

#: So many pages of one chunk are listed with the same fault; the others are counted.
_LISTED_PAGES = 10


@dataclass(frozen=True)
class Finding:
    """One contradiction between what a file says and what it holds.

    Attributes:
        severity: ``"error"`` (somebody gets wrong rows, or none), ``"warning"`` or ``"note"``.
        rule: What kind of finding it is, one of `RULES`.
        file: The file.
        row_group: Ordinal of the row group, or None.
        column: The column, dotted, or None.
        page: Ordinal of the data page in its chunk, or None.
        index: Which structure is meant: ``"ColumnIndex"``, ``"OffsetIndex"``, ``"Statistics"``,
            ``"SizeStatistics"``, ``"GeospatialStatistics"``, ``"PageHeader"``, ``"BloomFilter"``,
            ``"encodings"``, ``"encoding_stats"``,
            ``"sorting_columns"``, ``"directory"``, ``"distinct_index_offset"``, the name of an embedded
            index; None for the data itself, and for counts and sizes of chunks and row groups.
        message: What is wrong.
        consequence: What it does to readers.
    """

    severity: Severity
    rule: str
    file: str
    row_group: int | None
    column: str | None
    page: int | None
    index: str | None
    message: str
    consequence: str

    def __str__(self) -> str:
        place = [self.file]
        if self.row_group is not None:
            place.append(f"row group {self.row_group}")
        if self.column is not None:
            place.append(f"column {self.column}")
        if self.page is not None:
            place.append(f"page {self.page}")
        if self.index is not None:
            place.append(self.index)
        return f"{self.severity}: {', '.join(place)}: {self.message} ({self.consequence})"


@dataclass(frozen=True)
class VerifyReport:
    """What was checked, and what was found.

    Attributes:
        path: The file.
        findings: What was found, in the order of the file.
        checked: How many of each thing were checked.
        seconds: How long it took.
        scope: ``"full"``, ``"sample"`` (some column chunks) or ``"quick"`` (no data pages).
        chunks_read: The number of column chunks whose pages were read.
        chunks_total: The number of column chunks in the file.
        seed: The seed of a sample; None without a sample.
    """

    path: str
    findings: tuple[Finding, ...]
    checked: Mapping[str, int]
    seconds: float
    scope: Scope = "full"
    chunks_read: int = 0
    chunks_total: int = 0
    seed: int | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing that was found is an error."""
        return all(finding.severity != "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON can hold it."""
        document: dict[str, Any] = to_json(self)
        return {"ok": self.ok, **document}


@dataclass
class Findings:
    """Gathers findings; `at` gives one that knows its place."""

    file: str
    row_group: int | None = None
    column: str | None = None
    found: list[Finding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    _left_out: Counter[tuple[int | None, str | None, str | None, str]] = field(default_factory=Counter)

    def at(self, row_group: int | None, column: str | None) -> Findings:
        """The same, for findings of one column chunk."""
        return replace(self, row_group=row_group, column=column)

    def add(self, rule: str, message: str, *, index: str | None = None, page: int | None = None) -> None:
        """Note a finding; of many pages of a chunk with the same fault, the first few."""
        if page is not None:
            place = (self.row_group, self.column, index, rule)
            self._left_out[place] += 1
            if self._left_out[place] > _LISTED_PAGES:
                return
        severity, consequence = RULES[rule]
        self.found.append(
            Finding(severity, rule, self.file, self.row_group, self.column, page, index, message, consequence)
        )

    def add_all(self, others: Findings) -> None:
        """Note what others have noted and checked."""
        self.found.extend(others.found)
        self.checked.update(others.checked)

    def add_left_out(self) -> None:
        """Say how many pages of this chunk have a fault and were not listed."""
        for (row_group, column, index, rule), count in list(self._left_out.items()):
            if (row_group, column) == (self.row_group, self.column):
                del self._left_out[row_group, column, index, rule]
                if count > _LISTED_PAGES:
                    self.add(rule, f"{count - _LISTED_PAGES} more pages have this fault", index=index)
