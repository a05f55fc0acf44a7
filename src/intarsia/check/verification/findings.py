"""The findings of `intarsia.verify`, and the effect of each on readers of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal

from intarsia.amounts import count, first_lines
from intarsia.lake.data_file import FileFailure
from intarsia.records import dataclass
from intarsia.rows.values import JsonObject

Severity = Literal["error", "warning", "note"]

#: The scope of a verification: all data, the data of some column chunks, or no data pages.
Scope = Literal["full", "sample", "quick"]

_LOSES_ROWS = "readers that trust this lose rows"
_WRONG_PAGES = "readers that skip pages fail, or return wrong rows"
_ALL_IGNORED = "readers ignore all embedded indexes; results are correct, but more is read"
_IGNORED = "readers ignore it; results are correct, but more is read"

#: The severity of each rule, and its effect on readers.
RULES: Mapping[str, tuple[Severity, str]] = {
    # pages
    "unreadable-pages": ("error", "readers cannot read these values"),
    "unchecked": ("note", "the indexes here could not be compared with the data"),
    "value-count": ("error", "readers fail, or return too few rows"),
    "row-count": ("error", "readers fail, or return too few or too many rows"),
    "page-header-count": ("error", "readers that count rows or nulls by page headers return wrong counts"),
    "page-starts-within-row": ("error", "readers that skip pages return rows with values missing or shifted"),
    "empty-page": ("warning", "readers that require ascending first rows reject the OffsetIndex"),
    "page-checksum": ("error", "the page's bytes are damaged, or readers that check them fail"),
    # metadata of chunks and row groups in the footer
    "encodings-incomplete": ("error", "readers that prune by the dictionary page lose rows, or fail"),
    "encoding-stats-hide-pages": ("error", "readers that prune by the dictionary page lose rows"),
    "encoding-stats": ("warning", "readers read the dictionary page unnecessarily, or do not prune by it"),
    "chunk-size": ("warning", "readers that plan reads or memory by it use too little or too much"),
    "row-group-size": ("warning", "readers that split files or plan memory by it use too little or too much"),
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
    "page-size-without-header": ("error", "readers that skip pages read truncated pages"),
    "first-row-index": ("error", "readers that skip pages return wrong rows"),
    # ColumnIndex, and what Statistics share with it
    "column-index-unreadable": ("error", "readers ignore it, or fail"),
    "column-index-page-count": (
        "error",
        "readers reject the page index, or prune pages by the bounds of other pages and lose rows",
    ),
    "column-index-without-offset-index": ("warning", "readers cannot use it"),
    "no-column-order": ("warning", "the bounds have no defined order; readers that trust them may lose rows"),
    "bounds-without-order": ("note", "readers must ignore bounds of this type"),
    "writer-not-trusted": ("note", "scans ignore it, even if it is correct in this file"),
    "null-page-with-values": ("error", _LOSES_ROWS),
    "null-page-not-marked": ("warning", "readers read the page unnecessarily, or prune by undefined bounds"),
    "null-count": ("error", "IS NULL may lose rows, and counts from it are wrong"),
    "null-count-invalid": ("error", "readers reject the index, or lose rows"),
    "nan-count": ("error", "readers that trust this lose rows with NaN, or return wrong counts"),
    "nan-count-missing": ("warning", "readers must expect NaN everywhere, and skip less"),
    "bound-unreadable": ("error", "readers fail, or prune by a wrong value"),
    "bound-is-nan": ("warning", "readers that compare with it lose rows; they must ignore it"),
    "bounds-out-of-order": ("error", _LOSES_ROWS),
    "bounds-exclude-values": ("error", _LOSES_ROWS),
    "bounds-contradict-statistics": ("error", "readers that trust the wrong one of the two lose rows"),
    "bound-not-exact": ("error", "readers that compute MIN or MAX from it return wrong values"),
    "bound-not-marked": ("warning", "readers that take it for a value compute a wrong MIN or MAX"),
    "boundary-order": ("error", "readers that use binary search lose rows"),
    "distinct-count": ("warning", "query plans from it are poor, and COUNT(DISTINCT) from it is wrong"),
    "level-histogram": ("warning", "estimates from it are wrong"),
    "unencoded-bytes": ("warning", "readers that plan memory by it use too little or too much"),
    # GeospatialStatistics
    "bounding-box-excludes-values": ("error", _LOSES_ROWS),
    "bounding-box-incomplete": ("warning", "readers ignore it, or fail"),
    "geospatial-types-incomplete": ("error", _LOSES_ROWS),
    "geospatial-types-not-exact": ("warning", "readers that prune by the types skip less"),
    # Bloom filters
    "bloom-filter-unreadable": ("error", "readers ignore it, or fail"),
    "bloom-filter-length": ("warning", "readers that trust the length read too little or too much"),
    "bloom-filter-excludes-values": ("error", _LOSES_ROWS),
    # embedded indexes
    "directory-damaged": ("warning", _ALL_IGNORED),
    "directory-newer": ("note", _ALL_IGNORED),
    "directory-stale": ("warning", _ALL_IGNORED),
    "directory-foreign": ("warning", _ALL_IGNORED),
    "datafusion-index-missing": ("warning", "readers of DataFusion's form fail, or ignore it"),
    "index-kind-unknown": ("note", _IGNORED),
    "index-newer": ("note", _IGNORED),
    "index-damaged": ("error", _IGNORED),
    "index-column": ("warning", _IGNORED),
    "index-loses-rows": ("error", "scans lose rows"),
    "index-claims-rows": ("error", "scans return rows that do not match"),
    "index-differs": ("warning", "scans skip less than they could"),
    "index-not-reproduced": (
        "warning",
        "sums, samples or estimates from it are wrong, unless another version wrote it",
    ),
    "index-estimate": ("warning", "estimates from it are wrong; results are correct"),
}

#: Maximum number of pages of one chunk listed with the same fault; further ones are counted.
_LISTED_PAGES = 10


@dataclass(frozen=True)
class Finding:
    """One contradiction between the metadata and the data of a file.

    Attributes:
        severity: ``"error"`` (some readers return wrong rows or fail), ``"warning"`` or ``"note"``.
        rule: One of `RULES`.
        file: The file.
        row_group: Ordinal of the row group, or None.
        column: The dotted path of the column, or None.
        page: Ordinal of the data page in its chunk, or None.
        index: The structure: ``"ColumnIndex"``, ``"OffsetIndex"``, ``"Statistics"``,
            ``"SizeStatistics"``, ``"GeospatialStatistics"``, ``"PageHeader"``, ``"BloomFilter"``,
            ``"encodings"``, ``"encoding_stats"``, ``"sorting_columns"``, ``"directory"``,
            ``"distinct_index_offset"``, or the name of an embedded index. None for the data itself, and
            for counts and sizes of chunks and row groups.
        message: The fault.
        consequence: Its effect on readers.
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
        at = {"row group ": self.row_group, "column ": self.column, "page ": self.page, "": self.index}
        words = [f"{what}{value}" for what, value in at.items() if value is not None]
        place = f"{', '.join(words)}: " if words else ""
        return f"{self.severity}: {self.file}: {place}{self.message} ({self.consequence})"


@dataclass(frozen=True)
class VerifyReport(JsonObject):
    """The report of `intarsia.verify`; ``str(report)`` returns a summary.

    Attributes:
        path: The file.
        findings: The findings, in file order.
        checked: The number of structures checked, by kind.
        seconds: Time taken.
        scope: ``"full"``, ``"sample"`` (some column chunks) or ``"quick"`` (no data pages).
        chunks_read: Number of column chunks whose pages were read.
        chunks_total: Number of column chunks in the file.
        seed: The seed of a sample; None without a sample.

    Example:
        >>> print(VerifyReport("a.parquet", (), {"pages": 2}, 0.1, chunks_read=2, chunks_total=2))
        a.parquet: no findings; read 2 of 2 column chunks
    """

    JSON_KEYS = "ok path findings checked seconds scope chunks_read chunks_total seed"

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
        """Whether no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)

    def __str__(self) -> str:
        severities = Counter(finding.severity for finding in self.findings)
        found = [count(severities[one], one) for one in ("error", "warning", "note") if severities[one]]
        read = f"read {self.chunks_read:,} of {count(self.chunks_total, 'column chunk')}"
        seed = "" if self.seed is None else f", seed {self.seed}"
        lines = [f"{self.path}: {', '.join(found) or 'no findings'}; {read}{seed}"]
        return "\n  ".join([*lines, *first_lines([*map(str, self.findings)], "finding")])


@dataclass(frozen=True)
class LakeVerifyReport(JsonObject):
    """The report on many files, as of `intarsia.spark.verify`; ``str(report)`` returns a summary.

    Attributes:
        per_file: The report of each file that could be read, ordered by path.
        failed: The files that could not be read: ``path``, ``error``, ``reason``.
        seconds: Total time taken.
        files_other: Number of files in the folders that are not Parquet and were ignored.
    """

    JSON_KEYS = "files=files_total other_files=files_other ok failed reports=per_file"

    per_file: tuple[VerifyReport, ...] = field(repr=False)
    failed: tuple[FileFailure, ...]
    seconds: float
    files_other: int = 0

    @property
    def files_total(self) -> int:
        """The number of files."""
        return len(self.per_file) + len(self.failed)

    @property
    def ok(self) -> bool:
        """Whether all files could be read, and no finding is an error."""
        return not self.failed and all(report.ok for report in self.per_file)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all files."""
        return tuple(finding for report in self.per_file for finding in report.findings)

    @property
    def checked(self) -> Mapping[str, int]:
        """The number of structures checked, by kind."""
        return dict(sorted(sum((Counter(report.checked) for report in self.per_file), Counter()).items()))

    def __str__(self) -> str:
        bad = sum(not report.ok for report in self.per_file)
        head = f"{count(len(self.per_file), 'file')} checked in {self.seconds:.1f} s, "
        head += f"{bad:,} with errors" if bad else "no errors"
        head += f"; {len(self.failed):,} failed" if self.failed else ""
        lines = [f"failed: {failure.path}: {failure.reason}" for failure in self.failed]
        lines += map(str, self.findings)
        return "\n".join([head, *first_lines(lines)])


@dataclass
class Findings:
    """A collector of findings; `at` and `of` return collectors for parts of the file, and share the list."""

    file: str
    row_group: int | None = None
    column: str | None = None
    index: str | None = None
    page: int | None = None
    found: list[Finding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    _left_out: Counter[tuple[int | None, str | None, str | None, str]] = field(default_factory=Counter)

    def at(self, row_group: int | None, column: str | None) -> Findings:
        """Return the collector for one column chunk."""
        return replace(self, row_group=row_group, column=column)

    def of(self, index: str | None, page: int | None = None) -> Findings:
        """Return the collector for one structure of the same chunk, and a page."""
        return replace(self, index=index, page=page)

    def add(self, rule: str, message: str, *, index: str | None = None, page: int | None = None) -> None:
        """Add a finding; of many pages of a chunk with the same fault, only the first ones."""
        index = self.index if index is None else index
        page = self.page if page is None else page
        if page is not None:
            key = (self.row_group, self.column, index, rule)
            self._left_out[key] += 1
            if self._left_out[key] > _LISTED_PAGES:
                return
        severity, consequence = RULES[rule]
        self.found.append(
            Finding(severity, rule, self.file, self.row_group, self.column, page, index, message, consequence)
        )

    def note_writer(self, index: str, reason: str | None) -> None:
        """Note why scans ignore a structure because of its writer, if they do."""
        if reason is not None:
            self.add("writer-not-trusted", reason, index=index)

    def count_checked(self, kind: str, number: int = 1) -> None:
        """Count structures of a kind that were checked."""
        self.checked[kind] += number

    def add_all(self, others: Findings) -> None:
        """Add the findings and counts of another collector."""
        self.found.extend(others.found)
        self.checked.update(others.checked)

    def add_left_out(self) -> None:
        """Add the number of pages of this chunk whose faults were not listed."""
        for (row_group, column, index, rule), pages in list(self._left_out.items()):
            if (row_group, column) == (self.row_group, self.column):
                del self._left_out[row_group, column, index, rule]
                if pages > _LISTED_PAGES:
                    self.add(rule, f"{pages - _LISTED_PAGES} more pages have this fault", index=index)
