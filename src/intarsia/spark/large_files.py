"""Index large files by row groups: tasks build parts, and one task of each file attaches them.

Spark moves the parts from the tasks that build them to the task that attaches them, so they do not pass
through the driver. A task that runs twice builds the same part, and finds the indexes attached.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from intarsia.embed.parts import Part, PartWork, build_part, divide_work
from intarsia.embed.structures import Attachable
from intarsia.errors import IntarsiaError
from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile
from intarsia.spark.job import TaskProgress, collect_rows
from intarsia.spark.sessions import map_in_arrow
from intarsia.spark.shipping import Shipped, unpack_index
from intarsia.spark.tasks import MIN_TASKS, TASK_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Smaller files are indexed by one task.
LARGE_BYTES = 4 * TASK_BYTES

#: The schema of the rows in which parts are sent, and the size of a row.
_PIECES, _PIECE_BYTES = "file int, part int, number int, bytes binary", 1 << 20

#: Larger parts are dropped, and built again: Spark took 9 s of CPU time to move a RowMap of 146 MB, which
#: took 2 s to build.
_MAX_BYTES = 64 << 20

#: Attaches the parts of a file on an executor, and returns the outcome.
AttachParts = Callable[[str, Sequence[Part]], str]


def divide_large_files(
    files: Mapping[str, DataFile], sizes: Mapping[str, int], indexes: Sequence[Attachable]
) -> dict[str, list[PartWork]]:
    """Divide the files that would keep one core busy while the other cores are idle.

    Args:
        files: The files by path.
        sizes: The size in bytes of each file to index.
        indexes: The indexes to attach.

    Returns:
        The parts of each such file, at most `MIN_TASKS`. The footers of these files are read.
    """
    least = max(LARGE_BYTES, sum(sizes.values()) // MIN_TASKS)
    found = {}
    for path, size in sizes.items():
        if size >= least:
            try:
                with ParquetInput(files[path].open()) as file:
                    works = divide_work(file, indexes, max(LARGE_BYTES // 2, size // MIN_TASKS))
            except (IntarsiaError, OSError):  # the task of the file reports it
                continue
            if len(works) > 1:
                found[path] = works
    return found


def run_by_row_groups(
    spark: SparkSession,
    divided: Mapping[str, Sequence[PartWork]],
    shipped: Sequence[Shipped],
    attach: AttachParts,
    progress: TaskProgress,
) -> list[str]:
    """Index large files in one job.

    Args:
        spark: The session.
        divided: The parts of each file.
        shipped: The indexes to attach.
        attach: Attaches the parts of a file on an executor.
        progress: As for `collect_rows`.

    Returns:
        The results of ``attach`` in undefined order.
    """
    paths = tuple(divided)
    works = tuple((ordinal, work) for ordinal, path in enumerate(paths) for work in divided[path])

    # closures, because Spark serializes them; the functions that they call are imported on the executors
    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        indexes = [unpack_index(item) for item in shipped]
        for batch in batches:
            for work_ordinal in batch.column(0).to_pylist():
                ordinal, work = works[work_ordinal]
                try:
                    part = pickle.dumps(build_part(paths[ordinal], indexes, work))
                    part = part if len(part) <= _MAX_BYTES else b""
                except Exception:  # noqa: BLE001  the task that attaches raises the same error, and reports it
                    part = b""
                yield from _pieces(ordinal, work_ordinal, part)

    def attach_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for ordinal, parts in _joined(batches).items():
            outcome = attach(paths[ordinal], parts)
            yield pa.record_batch([pa.array([outcome], pa.string())], names=["outcome"])

    # as many rows as partitions, so that range puts exactly one into each
    built = map_in_arrow(spark.range(0, len(works), 1, len(works)), build, _PIECES)
    attached = map_in_arrow(built.repartitionById(len(paths), "file"), attach_all, "outcome string")
    total = len(works) + len(paths)
    return [
        row[0] for row in collect_rows(spark, attached, lambda done, _: progress(min(done, total), total))
    ]


def _pieces(file: int, ordinal: int, part: bytes) -> Iterator[pa.RecordBatch]:
    """Divide a part into rows, because Spark copies each of them several times in its heap."""
    for start in range(0, max(len(part), 1), _PIECE_BYTES):
        piece = part[start : start + _PIECE_BYTES]
        arrays = [pa.array([number], pa.int32()) for number in (file, ordinal, start // _PIECE_BYTES)]
        yield pa.record_batch(
            [*arrays, pa.array([piece], pa.binary())], names=["file", "part", "number", "bytes"]
        )


def _joined(batches: Iterator[pa.RecordBatch]) -> dict[int, list[Part]]:
    """Return the parts of each file."""
    pieces: dict[int, dict[int, dict[int, bytes]]] = {}
    for batch in batches:
        for file, ordinal, piece_ordinal, piece in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            pieces.setdefault(file, {}).setdefault(ordinal, {})[piece_ordinal] = piece
    joined = {
        file: [b"".join(numbered[number] for number in sorted(numbered)) for numbered in parts.values()]
        for file, parts in pieces.items()
    }
    return {file: [pickle.loads(part) for part in parts if part] for file, parts in joined.items()}  # noqa: S301
