"""The modes of `ias.read`, and the one that was chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args
from weakref import WeakKeyDictionary

from intarsia.read.amounts import part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A way to read; see `intarsia.spark.read`.
Mode: TypeAlias = Literal["auto", "native", "pages", "files"]

#: All modes.
MODES: Final = get_args(Mode)

#: The last choice of each session.
_LAST: WeakKeyDictionary[Any, ReadChoice] = WeakKeyDictionary()


@dataclass(frozen=True)
class ReadChoice:
    """The mode in which a DataFrame of `ias.read` is read, and the reason.

    Attributes:
        mode: ``"native"``, ``"pages"`` or ``"files"``.
        reason: Why this mode was chosen, or why nothing is skipped; None if the requested mode skips.
        report: The report of the plan, with the keys of `intarsia.ScanReport.to_dict`; empty without one.

    Example:
        >>> print(ReadChoice("files", "there is no condition"))
        files: there is no condition
    """

    mode: str
    reason: str | None
    report: dict[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        if not self.report:
            return f"{self.mode}: {self.reason}" if self.reason else self.mode
        files, groups, rows = (self.report[key] for key in ("files", "row_groups", "rows"))
        kept = (
            f"{self.mode}: {part(files['read'], files['total'], 'file')}, "
            f"{part(groups['read'], groups['total'], 'row group')}, "
            f"{part(rows['candidates'], rows['total'], 'row')}"
        )
        return f"{kept}; {self.reason}" if self.reason else kept


def remember(spark: SparkSession, choice: ReadChoice) -> None:
    """Record the last choice of a session."""
    _LAST[spark] = choice


def last_read(spark: SparkSession) -> ReadChoice | None:
    """Return the mode of the last `read` in this session, and the reason; None before the first `read`.

    Args:
        spark: The session; classic or Connect.

    Example:
        >>> frame = ias.read(spark, "lake/", where="dest = 'LEX'")  # doctest: +SKIP
        >>> print(ias.last_read(spark))  # doctest: +SKIP
        native: 1 of 12 files, 1 of 12 row groups, 7268 of 336776 rows
    """
    return _LAST.get(spark)
