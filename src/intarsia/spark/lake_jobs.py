"""Jobs on each file of a lake: `describe`, `detach` and `verify`; and `report_frame`."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from intarsia.check.inspection import inspect
from intarsia.check.verification import verify as verify_file
from intarsia.check.verification.findings import LakeVerifyReport
from intarsia.embed.original import detach_file
from intarsia.embed.report import IndexReport, Progress, RestoreReport
from intarsia.spark.job import act_on_files, reporter
from intarsia.spark.listing import Source, list_lake
from intarsia.spark.spark_stores import with_stores_of_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TEXTS = pa.list_(pa.string())

#: The columns of `describe`.
_DESCRIPTION = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("created_by", pa.string()),
        ("rows", pa.int64()),
        ("row_groups", pa.int32()),
        ("columns", pa.int32()),
        ("chunks", pa.int64()),
        ("chunks_with_page_index", pa.int64()),
        ("chunks_with_bloom_filter", pa.int64()),
        ("indexes", _TEXTS),
        ("index_bytes", pa.int64()),
        ("ignored", _TEXTS),
        ("error", pa.string()),
    ]
)

#: The columns of `report_frame`.
_OUTCOME = pa.schema(
    [
        ("path", pa.string()),
        ("bytes_before", pa.int64()),
        ("bytes_after", pa.int64()),
        ("built", _TEXTS),
        ("kept", _TEXTS),
        ("notes", _TEXTS),
        ("error", pa.string()),
        ("code", pa.string()),
        ("seconds", pa.float64()),
    ]
)


@with_stores_of_spark
def describe(spark: SparkSession, path: Source, *, progress: Progress | bool = True) -> DataFrame:
    """Return a row for each file of a lake: its size, rows and indexes. The job runs immediately.

    Args:
        spark: The session; classic or Connect.
        path: As for `index`.
        progress: As for `index`.

    Returns:
        A DataFrame with the columns ``path``, ``size_bytes``, ``created_by``, ``rows``, ``row_groups``,
        ``columns`` (leaves), ``chunks``, ``chunks_with_page_index``, ``chunks_with_bloom_filter``,
        ``indexes`` (names of embedded indexes), ``index_bytes`` (of embedded indexes, page indexes and Bloom
        filters), ``ignored`` (indexes, with the reason) and ``error`` (of files that cannot be read).

    Raises:
        FileNotFoundError: If the path does not exist.

    Example:
        >>> from intarsia import spark as ias
        >>> files = ias.describe(spark, "lake/")  # doctest: +SKIP
        >>> files.where("size(indexes) = 0").select("path").show()  # doctest: +SKIP
    """
    lake = list_lake(spark, path, with_snapshots=True)
    # footers are read, so the length of a file has little influence
    sizes = dict.fromkeys(lake.sizes, 1)
    done, failed = act_on_files(spark, sizes, _description, reporter(progress, "files"), "describing")
    rows = [{"path": file, **values} for file, values in done.items()]
    rows += [{"path": failure.path, "error": failure.reason} for failure in failed]
    rows.sort(key=lambda row: row["path"])
    return spark.createDataFrame(pa.Table.from_pylist(rows, _DESCRIPTION))


def _description(path: str) -> dict[str, Any]:
    inspection = inspect(path)
    chunks = [chunk for group in inspection.row_groups for chunk in group.columns]
    sizes = inspection.sizes
    directory = inspection.directory
    return {
        "size_bytes": inspection.size_bytes,
        "created_by": inspection.created_by,
        "rows": inspection.num_rows,
        "row_groups": len(inspection.row_groups),
        "columns": len(inspection.schema),
        "chunks": len(chunks),
        "chunks_with_page_index": sum(chunk.has_offset_index for chunk in chunks),
        "chunks_with_bloom_filter": sum(chunk.bloom_filter is not None for chunk in chunks),
        "indexes": [entry.name for entry in directory.entries] if directory and directory.is_trusted else [],
        "index_bytes": sizes.column_indexes
        + sizes.offset_indexes
        + sizes.bloom_filters
        + sizes.embedded_indexes,
        "ignored": [f"{note.index}: {note.reason}" for note in inspection.ignored],
    }


def report_frame(spark: SparkSession, report: IndexReport) -> DataFrame:
    """Return the outcomes of `index` as a DataFrame, with a row for each file.

    Args:
        spark: The session.
        report: The report.

    Returns:
        A DataFrame with the columns ``path``, ``bytes_before``, ``bytes_after``, ``built``, ``kept``,
        ``notes`` (as texts), ``error``, ``code`` and ``seconds``.

    Example:
        >>> report = ias.index(spark, "lake/", ia.PageIndex())  # doctest: +SKIP
        >>> ias.report_frame(spark, report).where("error IS NOT NULL").show()  # doctest: +SKIP
    """
    rows = [
        {name: getattr(file, name) for name in _OUTCOME.names}
        | {
            "notes": [
                f"{note['index']}{' of ' + note['column'] if note.get('column') else ''}: {note['reason']}"
                for note in file.notes
            ]
        }
        for file in report.per_file
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, _OUTCOME))


@with_stores_of_spark
def detach(spark: SparkSession, path: Source, *, progress: Progress | bool = True) -> RestoreReport:
    """Restore the original of each Parquet file of a lake, if indexes are attached to it.

    Bad files are reported; the rest are still restored. The job can be stopped and run again at any time.

    Args:
        spark: The session; classic or Connect.
        path: As for `index`.
        progress: As for `index`.

    Returns:
        The same report as that of `intarsia.detach` over many files.

    Raises:
        FileNotFoundError: If the path does not exist.

    Example:
        >>> from intarsia import spark as ias
        >>> print(ias.detach(spark, "lake/"))  # doctest: +SKIP
        12 of 12 files restored, 1.4 MB removed
    """
    started = time.perf_counter()
    lake = list_lake(spark, path, with_snapshots=True)
    done, failed = act_on_files(spark, lake.sizes, detach_file, reporter(progress, "files"), "detaching")
    return RestoreReport(tuple(done.values()), tuple(failed), time.perf_counter() - started, lake.others)


@with_stores_of_spark
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
    lake = list_lake(spark, path, with_snapshots=True)
    act = partial(verify_file, quick=quick, sample=sample, seed=seed)
    done, failed = act_on_files(spark, lake.sizes, act, reporter(progress, "files"), "verifying")
    return LakeVerifyReport(tuple(done.values()), tuple(failed), time.perf_counter() - started, lake.others)
