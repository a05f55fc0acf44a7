"""Check a file's metadata and indexes against its data, reading all of it once.

All rules for a row group are checked in one pass. Only one column is in memory at a time, except for sorting
columns and columns with embedded indexes, which are in memory together. Damage is a finding; only a footer
that cannot be read is an error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import accumulate
from random import Random

from intarsia.check.inspection import open_source
from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.embedded import EntryCheck, blob_of, check_alone, columns_of, find_entries
from intarsia.check.verification.findings import RULES, Finding, Findings, VerifyReport
from intarsia.check.verification.page_index import check_chunk_quickly, check_column_index, check_offset_index
from intarsia.check.verification.pages import (
    check_bloom_filter,
    check_checksums,
    check_chunk_size,
    check_counts,
    check_encodings,
    check_row_group_size,
    check_size_statistics,
    check_sorting,
    sorting_columns,
)
from intarsia.check.verification.statistics import (
    check_geospatial_statistics,
    check_page_statistics,
    check_statistics,
)
from intarsia.embed.leaf_values import LeafReader, leaf_readers
from intarsia.embed.report import Progress, no_progress
from intarsia.errors import FormatError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.storage import BufferedSource, ByteSource, StorageOptions

__all__ = ["RULES", "Finding", "Progress", "VerifyReport", "verify"]

#: The checks of a column chunk against its pages and values. Each does nothing without its structure.
CHECKS: tuple[Callable[[CheckedChunk], None], ...] = (
    check_checksums,
    check_counts,
    check_encodings,
    check_chunk_size,
    check_size_statistics,
    check_geospatial_statistics,
    check_page_statistics,
    check_statistics,
    check_offset_index,
    check_column_index,
    check_bloom_filter,
)

#: Indexes up to this total size are checked in the pass over the data; others after it, one by one.
FOLLOWING_BYTES = 1 << 28

#: At most this many, because each of them takes two threads.
FOLLOWING_INDEXES = 256


def verify(
    path: str | os.PathLike[str],
    *,
    quick: bool = False,
    sample: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    storage_options: StorageOptions | None = None,
) -> VerifyReport:
    """Check a file's statistics, page index, Bloom filters and embedded indexes against its data.

    Args:
        path: A file; local, or a URL.
        quick: Read no data pages. Only the metadata is checked: the shape of page indexes, bounds against
            statistics, the headers of Bloom filters, the directory, and the checksums of embedded indexes.
        sample: Read this many column chunks, drawn at random, and run all checks on them. Embedded
            indexes are queried for the rows of these chunks, but not rebuilt. Sort orders are not checked.
        seed: Seed for ``sample``; the same seed draws the same chunks of files of the same name.
        progress: Called as ``progress(done_units, total_units, label)``; a unit is a column chunk or an
            embedded index.
        storage_options: Options of the store of a URL, as for `intarsia.open`.

    Returns:
        Every contradiction with its location; `VerifyReport.ok` is False if one of them is an error.

    Raises:
        ValueError: If ``sample`` is less than 1, or combined with ``quick``.
        CorruptFileError: If the file is not a Parquet file, or its footer is damaged.
        UnsupportedFeatureError: If its footer is encrypted.
        FileNotFoundError: If the path does not exist.
        IsADirectoryError: If the path is a folder.
        ReplacedWhileReadError: If the file is replaced or truncated while it is read.
        ObjectStoreError: If the store of a URL cannot be reached, refuses the request, or is unknown.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"city": ["Bern", "Basel"], "visitors": [3, 5]}), path)
        >>> report = ia.verify(path)
        >>> report.ok, report.findings, report.checked["pages"]
        (True, (), 2)
    """
    return verify_source(
        open_source(path, storage_options), quick=quick, sample=sample, seed=seed, progress=progress
    )


def verify_source(
    source: ByteSource,
    *,
    quick: bool = False,
    sample: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    following_bytes: int = FOLLOWING_BYTES,
    following_indexes: int = FOLLOWING_INDEXES,
) -> VerifyReport:
    """Check an open file, and close it; see `verify`.

    Args:
        following_bytes: The total size of the indexes that are checked in the pass over the data.
        following_indexes: Their maximum number.
    """
    if sample is not None and quick:
        raise ValueError("quick and sample cannot be combined; pass one of them")
    if sample is not None and sample < 1:
        raise ValueError(f"sample is {sample!r}; it must be 1 or more")
    started = time.perf_counter()
    buffered = source if isinstance(source, BufferedSource) else BufferedSource(source)
    with ParquetInput(buffered, page_checksums=False) as file, file.named_errors():
        findings = Findings(file.path)
        num_leaves = len(file.footer.leaves)
        total = len(file.footer.metadata.row_groups) * num_leaves
        chosen: set[ChunkKey] | None = set() if quick else None
        if sample is not None:  # the draw depends on the seed and the name of the file
            random = Random(f"{seed} {file.path.rpartition('/')[2]}")
            drawn = random.sample(range(total), min(sample, total))
            chosen = {ChunkKey(*divmod(ordinal, num_leaves)) for ordinal in drawn}
        _verify(file, buffered, chosen, findings, progress or no_progress, following_bytes, following_indexes)
    return VerifyReport(
        file.path,
        tuple(findings.found),
        dict(sorted(findings.checked.items())),
        time.perf_counter() - started,
        "quick" if quick else "full" if sample is None else "sample",
        total if chosen is None else len(chosen),
        total,
        None if sample is None else seed,
    )


def _verify(
    file: ParquetInput,
    buffered: BufferedSource,
    chosen: set[ChunkKey] | None,
    findings: Findings,
    progress: Progress,
    following_bytes: int,
    following_indexes: int,
) -> None:
    """Check the chosen chunks, all if None, or only the metadata of all chunks if none is chosen."""
    footer, readers = file.footer, leaf_readers(file.footer)
    num_groups = len(footer.metadata.row_groups)
    is_full = chosen is None
    entries = find_entries(file, findings)
    done, total = 0, len(chosen or readers * num_groups) + len(entries)
    totals = accumulate(entry.length for entry in entries)  # indexes are in memory during the pass
    following = [
        entry for entry, size in zip(entries, totals, strict=True) if is_full and size <= following_bytes
    ][:following_indexes]
    indexed = columns_of(file, following)
    checks: dict[str, EntryCheck] = {}
    with ExitStack() as stack:
        buffer_index = stack.enter_context(buffered.buffering())
        for entry in following:
            if (location := blob_of(file, entry)) is not None:  # opening and querying it read the same bytes
                buffer_index(location.start, file.source.read(*location))
            checks[entry.name] = EntryCheck(file, entry)
            stack.callback(checks[entry.name].abort)
        for row_group in range(num_groups):
            findings.count_checked("row_groups")
            check_row_group_size(footer, row_group, findings.at(row_group, None))
            shared = indexed | sorting_columns(file, row_group) if is_full else set()
            with buffered.buffering() as buffer:
                for reader in readers:
                    if chosen and ChunkKey(row_group, reader.leaf.ordinal) not in chosen:
                        continue
                    chunk_findings = findings.at(row_group, reader.leaf.name)
                    keep = buffer if reader.leaf.ordinal in shared else lambda *_: None
                    _check_chunk(file, row_group, reader, chunk_findings, keep, quick=chosen == set())
                    chunk_findings.add_left_out()
                    done += 1
                    progress(done, total, reader.leaf.name)
                if is_full:
                    check_sorting(file, row_group, readers, findings)
                for check in checks.values():
                    check.follow(row_group)
        for entry in entries:
            if chosen is not None:
                check_alone(file, entry, chosen, findings)
            else:
                check = checks.pop(entry.name) if entry.name in checks else EntryCheck(file, entry)
                check.finish(findings)
            done += 1
            progress(done, total, entry.name)


def _check_chunk(
    file: ParquetInput,
    row_group: int,
    reader: LeafReader,
    findings: Findings,
    buffer: Callable[[int, bytes], None],
    *,
    quick: bool,
) -> None:
    try:
        meta = file.footer.chunk_metadata(row_group, reader.leaf)
    except FormatError as error:  # encrypted, or in another file
        findings.add("unchecked", error.message)
        return
    if quick:
        check_chunk_quickly(file, row_group, reader, meta, findings)
        return
    chunk = CheckedChunk(file, row_group, reader, meta, findings)
    buffer(chunk.start, chunk.data)
    findings.count_checked("column_chunks")
    findings.count_checked("pages", len(chunk.pages))
    findings.count_checked("values", meta.num_values)
    for check in CHECKS:
        check(chunk)
