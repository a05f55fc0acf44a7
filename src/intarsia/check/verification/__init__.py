"""What a file's indexes say against what the file holds, by reading all of it once.

All rules about a row group are held against it in one pass.  One of its columns is in memory at a time; those
by which it is sorted, and those that have embedded indexes, are there together.  What is damaged is a
finding; only a footer that cannot be read is an error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack

from intarsia.check.inspection import find_datafusion_index, open_source
from intarsia.check.verification.bloom_filters import check_bloom_filter
from intarsia.check.verification.chunk import read_chunk
from intarsia.check.verification.embedded import EntryCheck, blob_of, columns_of, find_entries
from intarsia.check.verification.findings import RULES, Finding, Findings, VerifyReport
from intarsia.check.verification.geospatial import check_geospatial_statistics
from intarsia.check.verification.page_index import check_column_index, check_offset_index, read_page_index
from intarsia.check.verification.pages import check_checksums, check_counts, check_encodings
from intarsia.check.verification.sizes import (
    check_chunk_size,
    check_row_group_size,
    check_size_statistics,
    check_value_bytes,
)
from intarsia.check.verification.sorting import check_sorting, sorting_columns
from intarsia.check.verification.statistics import check_page_statistics, check_statistics
from intarsia.embed.leaf_values import LeafReader, leaf_paths
from intarsia.embed.progress import Progress, no_progress
from intarsia.errors import FormatError
from intarsia.file import ParquetInput
from intarsia.file.trust import Claim, Trust
from intarsia.format.datafusion import KEY as DATAFUSION_KEY
from intarsia.format.directory import Entry
from intarsia.format.footer import Footer, Leaf, chunk_range
from intarsia.format.structs import ColumnMetaData, Statistics
from intarsia.storage import HeldBytes

__all__ = ["RULES", "Finding", "Progress", "VerifyReport", "verify"]

#: Indexes of so many bytes in all are compared in the pass over the data; others after it, one by one.
_FOLLOWING_BYTES = 1 << 28


def verify(path: str | os.PathLike[str], *, progress: Progress | None = None) -> VerifyReport:
    """Check a file's statistics, page index, Bloom filters and embedded indexes against its data.

    Args:
        path: A file; local, or a URL.
        progress: Called as ``progress(done_units, total_units, label)``; a unit is a column chunk or an
            embedded index.

    Returns:
        Every contradiction with its place; `VerifyReport.ok` says whether none of them is an error.

    Raises:
        CorruptFileError: If it is no Parquet file, or its footer is damaged.
        UnsupportedFeatureError: If its footer is encrypted.
        FileNotFoundError: If nothing is there.
        IsADirectoryError: If it is a folder.
        ReplacedWhileReadError: If it is replaced or cut short meanwhile.
        ObjectStoreError: If a store behind a URL cannot be reached, refuses, or is not known.

    Example:
        >>> report = verify("flights.parquet")           # doctest: +SKIP
        >>> report.ok, [str(f) for f in report.findings]  # doctest: +SKIP
        (True, [])
    """
    started = time.perf_counter()
    held = HeldBytes(open_source(path))
    with ParquetInput(held) as file, file.named_errors():
        findings = Findings(file.path)
        _verify(file, held, findings, progress or no_progress)
    checked = dict(sorted(findings.checked.items()))
    return VerifyReport(file.path, tuple(findings.found), checked, time.perf_counter() - started)


def _verify(file: ParquetInput, held: HeldBytes, findings: Findings, progress: Progress) -> None:
    footer = file.footer
    num_groups, num_leaves = len(footer.metadata.row_groups), len(footer.leaves)
    entries = find_entries(file, findings)
    datafusion = find_datafusion_index(file)
    if datafusion is not None and datafusion.reason is not None:
        key = DATAFUSION_KEY.decode()
        findings.add("datafusion-index-missing", datafusion.reason, index=key)
    done, total = 0, num_groups * num_leaves + len(entries)
    readers = [
        LeafReader.of(elements, leaf)
        for elements, leaf in zip(leaf_paths(footer.metadata.schema), footer.leaves, strict=True)
    ]
    following = _following(entries)
    indexed = columns_of(file, following)
    checks: dict[str, EntryCheck] = {}
    with ExitStack() as stack:
        hold_index = stack.enter_context(held.holding())
        for entry in following:
            if (place := blob_of(file, entry)) is not None:  # it is opened, and then asked as a scan asks it
                hold_index(place.start, file.source.read(*place))
            checks[entry.name] = EntryCheck(file, entry)
            stack.callback(checks[entry.name].leave)
        for row_group in range(num_groups):
            findings.checked["row_groups"] += 1
            check_row_group_size(footer, row_group, findings.at(row_group, None))
            shared = indexed | sorting_columns(file, row_group)
            with held.holding() as hold:
                for reader in readers:
                    place_of = findings.at(row_group, reader.leaf.name)
                    is_shared = reader.leaf.ordinal in shared
                    _verify_chunk(file, row_group, reader, place_of, hold if is_shared else _let_go)
                    place_of.add_left_out()
                    done += 1
                    progress(done, total, reader.leaf.name)
                check_sorting(file, row_group, readers, findings)
                for check in checks.values():
                    check.follow(row_group)
        for entry in entries:
            check = checks.pop(entry.name) if entry.name in checks else EntryCheck(file, entry)
            check.finish(findings)
            done += 1
            progress(done, total, entry.name)


def _following(entries: Iterable[Entry]) -> list[Entry]:
    """The indexes that are compared in the pass over the data, and are in memory as long."""
    chosen = []
    num_bytes = 0
    for entry in entries:
        num_bytes += entry.length
        if num_bytes > _FOLLOWING_BYTES:
            break
        chosen.append(entry)
    return chosen


def _let_go(_start: int, _data: bytes) -> None:
    """Nobody needs these bytes any more."""


def _verify_chunk(
    file: ParquetInput,
    row_group: int,
    reader: LeafReader,
    findings: Findings,
    hold: Callable[[int, bytes], None],
) -> None:
    leaf, footer = reader.leaf, file.footer
    try:
        meta = footer.chunk_metadata(row_group, leaf)
    except FormatError as error:  # encrypted, or in another file
        findings.add("unchecked", error.message)
        return
    place = footer.chunk(row_group, leaf)
    offset_index, column_index = read_page_index(file, place, findings)
    if offset_index is not None or column_index is not None:
        _note_writer("page index", Trust(footer, leaf).doubt(Claim.PAGE_INDEX), findings)
    sizes = meta.size_statistics
    histograms = column_index is not None and bool(
        column_index.repetition_level_histograms or column_index.definition_level_histograms
    )
    histograms |= sizes is not None and bool(
        sizes.repetition_level_histogram or sizes.definition_level_histogram
    )
    num_rows = footer.metadata.row_groups[row_group].num_rows
    start, stop = chunk_range(meta)
    data = file.source.read(start, stop)
    hold(start, data)
    chunk = read_chunk(
        data, meta, num_rows, reader, findings, levels=histograms, total_order=_has_total_order(file, leaf)
    )
    findings.checked["column_chunks"] += 1
    findings.checked["pages"] += len(chunk.pages)
    findings.checked["values"] += meta.num_values
    check_checksums(data, chunk, findings)
    check_counts(chunk, findings)
    check_encodings(chunk, findings)
    check_chunk_size(chunk, findings)
    check_size_statistics(chunk, findings)
    check_geospatial_statistics(chunk, findings)
    check_page_statistics(file, chunk, findings)
    if meta.statistics is not None:
        _note_writer("Statistics", _doubt_of_bounds(footer, leaf, meta), findings)
        check_statistics(file, chunk, meta.statistics, findings)
    if offset_index is not None:
        check_offset_index(chunk, offset_index, findings)
        check_value_bytes(chunk, offset_index, findings)
    if column_index is not None:
        check_column_index(file, chunk, column_index, findings, has_offset_index=offset_index is not None)
    if meta.bloom_filter_offset:
        check_bloom_filter(file, chunk, findings)


def _doubt_of_bounds(footer: Footer, leaf: Leaf, meta: ColumnMetaData) -> str | None:
    """Why scans do not use a chunk's bounds, if that is because of who wrote them."""
    statistics = meta.statistics or Statistics()
    trust = Trust(footer, leaf)
    if statistics.min_value is not None or statistics.max_value is not None:
        return trust.doubt_of_writer(Claim.BOUNDS, meta)
    if statistics.min is not None or statistics.max is not None:
        return trust.doubt_of_writer(Claim.DEPRECATED_BOUNDS, meta)
    return None


def _note_writer(index: str, reason: str | None, findings: Findings) -> None:
    if reason is not None:
        findings.add("writer-not-believed", reason, index=index)


def _has_total_order(file: ParquetInput, leaf: Leaf) -> bool:
    return file.footer.column_order(leaf) == "IEEE_754_TOTAL_ORDER"
