"""`verify`: check the metadata and indexes of each file of a lake against its data, in a Spark job."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from intarsia.check.verification import Finding, VerifyReport
from intarsia.check.verification import verify as verify_file
from intarsia.embed.report import Progress
from intarsia.lake.each_file import FileFailure
from intarsia.read.amounts import count
from intarsia.spark.each_file import act_on_files
from intarsia.spark.lake_files import Source, list_lake
from intarsia.spark.progress_line import reporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 10


@dataclass(frozen=True)
class LakeVerifyReport:
    """The report of `intarsia.spark.verify`; ``str(report)`` returns a summary.

    Attributes:
        per_file: The report of each file that could be read, ordered by path.
        failed: The files that could not be read: ``path``, ``error``, ``reason``.
        seconds: Total time taken.
        files_other: Number of files in the folders that are not Parquet and were ignored.
    """

    per_file: tuple[VerifyReport, ...] = field(repr=False)
    failed: tuple[FileFailure, ...]
    seconds: float
    files_other: int = 0

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

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object, like that of ``intarsia verify --json``."""
        return {
            "files": len(self.per_file) + len(self.failed),
            "other_files": self.files_other,
            "ok": self.ok,
            "failed": [failure.to_dict() for failure in self.failed],
            "reports": [report.to_dict() for report in self.per_file],
        }

    def __str__(self) -> str:
        bad = sum(not report.ok for report in self.per_file)
        head = f"{count(len(self.per_file), 'file')} checked in {self.seconds:.1f} s, "
        head += f"{bad:,} with errors" if bad else "no errors"
        head += f"; {len(self.failed):,} failed" if self.failed else ""
        lines = [f"failed: {failure.path}: {failure.reason}" for failure in self.failed]
        lines += map(str, self.findings)
        more = [f"… and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
        return "\n".join([head, *lines[:_SHOWN], *more])


def verify(
    spark: SparkSession,
    path: Source,
    *,
    quick: bool = False,
    sample: int | None = None,
    seed: int = 0,
    progress: Progress | bool = True,
) -> LakeVerifyReport:
    """Check statistics, page indexes, Bloom filters and embedded indexes of each file against its data.

    Args:
        spark: The session; classic or Connect.
        path: As for `index`.
        quick: Read no data pages; see `intarsia.verify`.
        sample: Read this many column chunks of each file, drawn at random.
        seed: Seed for ``sample``.
        progress: As for `index`.

    Returns:
        The reports of all files; ``report.ok`` is False if one has an error or could not be read.

    Raises:
        FileNotFoundError: If the path does not exist.
        ValueError: If ``sample`` is less than 1, or combined with ``quick``.

    Example:
        >>> from intarsia import spark as ias
        >>> ias.verify(spark, "lake/", sample=10).ok  # doctest: +SKIP
        True
    """
    if sample is not None and (quick or sample < 1):
        raise ValueError(f"sample is {sample!r}; it must be 1 or more, and cannot be combined with quick")
    started = time.perf_counter()
    lake = list_lake(spark, path)

    def act(path: str) -> dict[str, Any]:
        return asdict(verify_file(path, quick=quick, sample=sample, seed=seed))

    done, failed = act_on_files(spark, lake.sizes, act, reporter(progress, "files"), "verifying")
    reports = [
        VerifyReport(**{**values, "findings": tuple(Finding(**found) for found in values["findings"])})
        for values in done.values()
    ]
    return LakeVerifyReport(tuple(reports), tuple(failed), time.perf_counter() - started, lake.others)
