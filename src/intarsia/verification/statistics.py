"""Statistics of a chunk against its values."""

from __future__ import annotations

from typing import Any

from intarsia.file import ParquetInput
from intarsia.format.structs import Statistics
from intarsia.format.writers import distrusts_deprecated_statistics
from intarsia.indexes.statistics import column_order_is_known
from intarsia.inspection import human_value
from intarsia.inspection.values import shown
from intarsia.verification.bounds import bound_key, check_bounds, has_bounds_order, shown_key
from intarsia.verification.chunk import Chunk
from intarsia.verification.findings import Findings

_STATISTICS = "Statistics"


def check_statistics(file: ParquetInput, chunk: Chunk, statistics: Statistics, findings: Findings) -> None:
    """Compare the statistics in the footer with the values."""
    findings.checked["statistics"] += 1
    _check_count("null-count", "nulls", statistics.null_count, chunk.null_counts, findings)
    if chunk.nan_counts is not None:
        _check_count("nan-count", "NaNs", statistics.nan_count, chunk.nan_counts, findings)
    pairs = [(statistics.min_value, statistics.max_value, True)]
    # the deprecated bounds compare as signed numbers: of other types nobody may use them
    if not distrusts_deprecated_statistics(file.footer.created_by, chunk.leaf):
        pairs.append((statistics.min, statistics.max, False))
    for low, high, is_current in pairs:
        if low is None and high is None:
            continue
        if is_current:
            is_declared = column_order_is_known(file.footer, chunk.leaf)
            if not has_bounds_order(chunk.leaf, chunk, findings, index=_STATISTICS, is_declared=is_declared):
                continue
        if chunk.ordering is not None:
            _check_pair(chunk, low, high, findings)
            if is_current:
                _check_exactness(chunk, statistics, findings)
        if (statistics.min, statistics.max) == (low, high):
            break  # both pairs are the same: once is enough


def _check_count(rule: str, what: str, claimed: int | None, by_page: Any, findings: Findings) -> None:
    if claimed is None:
        return
    if claimed < 0:
        findings.add("null-count-invalid", f"they count {claimed} {what}", index=_STATISTICS)
    elif by_page is not None and claimed != by_page.sum():
        message = f"they count {claimed} {what}, there are {by_page.sum()}"
        findings.add(rule, message, index=_STATISTICS)


def _check_pair(chunk: Chunk, low: bytes | None, high: bytes | None, findings: Findings) -> None:
    if chunk.present is not None and not chunk.present.any():
        return  # bounds of nothing
    keys = [
        None if raw is None else bound_key(chunk, raw, which, findings, index=_STATISTICS)
        for raw, which in ((low, "lower"), (high, "upper"))
    ]
    check_bounds(chunk, (low or b"", keys[0]), (high or b"", keys[1]), findings, index=_STATISTICS, page=None)


def _check_exactness(chunk: Chunk, statistics: Statistics, findings: Findings) -> None:
    """A bound that is said to be a value has to be one."""
    extremes = chunk.extremes
    if extremes is None or not extremes.holds.any():
        return
    assert chunk.ordering is not None
    claims = (
        (statistics.is_min_value_exact, statistics.min_value, extremes.lows[extremes.holds].min(), "lower"),
        (statistics.is_max_value_exact, statistics.max_value, extremes.highs[extremes.holds].max(), "upper"),
    )
    for is_exact, raw, actual, which in claims:
        if not is_exact or raw is None:
            continue
        encoded = chunk.ordering.encode(actual)
        bound = human_value(chunk.leaf, raw)
        # compared as values: zeros of both signs are one, and so are decimals with leading zero bytes
        if raw != encoded and bound != human_value(chunk.leaf, encoded):
            message = f"the {which} bound {shown(bound)} is said to be exact, "
            message += f"but {shown_key(chunk, actual)} is"
            findings.add("bound-not-exact", message, index=_STATISTICS)
