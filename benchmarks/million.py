"""Plan needles in a lake of up to 1,000,000 files: its lake index is real, its files are holes.

The files are hard links to sparse files. Their facts are those of one real file with other bounds, so no
footer is read to build the lake index, and no data exists. ``python -m benchmarks.million --files 100000``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile, FileList, ShowDone
from intarsia.lake.index.build import Outcome
from intarsia.lake.index.facts import FileFacts, FileStamp, read_facts
from intarsia.lake.table_files import TableFiles
from intarsia.spark.skipping import SkippingPlanner
from intarsia.storage import LocalFile

FILES_PER_FOLDER = 1_000
ROWS_PER_FILE = 1_000
FILE_BYTES = 64 << 20

#: Files of a folder are compared with the list for each plan, those of a snapshot of a table format are not.
KINDS = ("folder", "snapshot")

_Result = TypeVar("_Result")


def make_holes(lake: Path, files: int) -> None:
    """Create files without data, in folders of 1,000: hard links to a sparse file in each folder."""
    for folder in range(-(-files // FILES_PER_FOLDER)):
        inner = lake / f"day={folder}"
        inner.mkdir(parents=True)
        first = inner / "part-000.parquet"
        with first.open("wb") as hole:
            hole.truncate(FILE_BYTES)
        os.utime(first, (1_700_000_000, 1_700_000_000))
        for ordinal in range(1, min(FILES_PER_FOLDER, files - folder * FILES_PER_FOLDER)):
            os.link(first, inner / f"part-{ordinal:03}.parquet")


def listed(lake: Path, files: int) -> FileList:
    """Return the files as a listing does."""
    ordinals = range(files)
    paths = [
        f"{lake}/day={one // FILES_PER_FOLDER}/part-{one % FILES_PER_FOLDER:03}.parquet" for one in ordinals
    ]
    statuses = [os.stat(path) for path in paths]
    times = np.array([(status.st_mtime_ns, status.st_ctime_ns) for status in statuses])
    return FileList(
        pa.array([path.encode() for path in paths], pa.large_binary()),
        np.array([status.st_size for status in statuses]),
        [(("day", str(folder)),) for folder in range(-(-files // FILES_PER_FOLDER))],
        np.arange(files) // FILES_PER_FOLDER,
        times,
    )


def facts_of_holes(folder: Path) -> Callable[[Sequence[DataFile], ShowDone], Iterator[Outcome]]:
    """Return a reader of facts: those of one real file, with the bounds that each file would have."""
    path = folder / "one.parquet"
    table = pa.table(
        {
            "id": np.arange(ROWS_PER_FILE),
            "ts": pa.array(1_700_000_000 + np.arange(ROWS_PER_FILE), pa.timestamp("s")),
            "country": ["country 1"] * ROWS_PER_FILE,
            "amount": np.arange(ROWS_PER_FILE) / 7,
        }
    )
    pq.write_table(table, path)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    one = read_facts(ParquetInput(LocalFile(str(path))))
    assert one is not None

    def of(ordinal: int, file: DataFile) -> FileFacts:
        first = ordinal * ROWS_PER_FILE
        country = b"country %d" % (ordinal % 200)
        columns = {
            0: one.columns[0]._replace(low=first, high=first + ROWS_PER_FILE - 1),
            1: one.columns[1]._replace(low=first, high=first + ROWS_PER_FILE - 1),
            2: one.columns[2]._replace(low=country, high=country),
            3: one.columns[3],
        }
        assert file.times_ns is not None
        return replace(one, stamp=FileStamp(file.size_bytes, *file.times_ns), columns=columns)

    def read(files: Sequence[DataFile], show: ShowDone) -> Iterator[Outcome]:
        for file in files:
            folder_name, _, name = file.path.rpartition("/")
            ordinal = int(folder_name.rpartition("=")[2]) * FILES_PER_FOLDER + int(name[5:-8])
            yield of(ordinal, file)
            show(ordinal)

    return read


def request_of(files: FileList, number: int, value: int, *, is_sealed: bool) -> dict[str, Any]:
    """Return the request of the JVM for ``id = value`` with a list of files, which has a number."""
    assert files.times_ns is not None
    times = (files.times_ns[:, 0] // 1_000_000).tolist()
    return {
        **request_of_known(number, value),
        "partition_columns": ["day"],
        "partitions": [[partition[0][1]] for partition in files.partitions],
        "paths": [f"file:{path.decode()}" for path in files.paths.to_pylist()],
        "sizes": files.size_bytes.tolist(),
        "times_ms": [None] * len(files) if is_sealed else times,
        "partition_of": files.partition_of.tolist(),
    }


def request_of_known(number: int, value: int) -> dict[str, Any]:
    """Return the request of the JVM for ``id = value`` with the number of a list that it has sent before."""
    column = {"op": "Column", "type": "bigint", "name": ["id"]}
    literal = {"op": "Literal", "type": "bigint", "value": value}
    settings = {"case_sensitive": False, "int96_conversion": False, "field_ids": False, "timeout_ms": 0}
    condition = {"op": "EqualTo", "type": "boolean", "args": [column, literal]}
    return {"condition": condition, "settings": settings, "list": number}


def peak_mb() -> float:
    """Return the peak memory of this process in megabytes."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def timed(figures: dict[str, Any], name: str, act: Callable[[], _Result]) -> _Result:
    """Call a function, and add its CPU time, its time and the peak memory after it to the figures."""
    gc.collect()
    started, began = time.process_time(), time.perf_counter()
    found = act()
    cpu, seconds = time.process_time() - started, time.perf_counter() - began
    figures[name] = {"cpu_s": round(cpu, 3), "s": round(seconds, 3), "peak_mb": peak_mb()}
    print(f"{figures['files']:>10,} {name:<24} {figures[name]}", file=sys.stderr, flush=True)
    return found


def measure_million(folder: Path, files: int) -> dict[str, Any]:
    """Measure a lake of some number of files.

    Args:
        folder: The folder for the lake and its lake index, which are reused.
        files: The number of files.

    Returns:
        The number of files, the bytes of the lake index, and for each step its time and memory.
    """
    cache = folder / f"cache-{files}"
    os.environ["INTARSIA_CACHE_DIR"] = str(cache)
    figures: dict[str, Any] = {"files": files}
    # in another process, so that the memory of this one is that of the planner
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        figures |= other.submit(prepare, folder, files).result()
    figures["index_bytes"] = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    for kind in KINDS:
        planner = SkippingPlanner()
        text = (folder / f"{kind}-{files}.json").read_text()
        figures[f"{kind}: request_bytes"] = len(text)
        _plan(figures, f"{kind}: first plan", planner, text)
        del text
        for turn, name in enumerate(("second plan", "third plan")):
            again = json.dumps(request_of_known(1, files * ROWS_PER_FILE // (5 + turn)))
            _plan(figures, f"{kind}: {name}", planner, again)
    return figures


def prepare(folder: Path, files: int) -> dict[str, Any]:
    """Create the files, their lake index and the requests, unless they exist; return figures."""
    cache, lake = folder / f"cache-{files}", folder / f"lake-{files}"
    figures: dict[str, Any] = {"files": files}
    if not lake.exists():
        part = folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        make_holes(part, files)
        part.rename(lake)
    found = timed(figures, "list", lambda: listed(lake, files))
    if not cache.exists():
        index = TableFiles(found, root=str(lake)).lake_index
        read = facts_of_holes(folder)
        timed(figures, "serialize", lambda: index.build("cache", lambda _: None, wait=False, read=read))
    for kind in KINDS:
        request = request_of(found, 1, files * ROWS_PER_FILE // 3, is_sealed=kind == "snapshot")
        (folder / f"{kind}-{files}.json").write_text(json.dumps(request))
    return figures


def _plan(figures: dict[str, Any], name: str, planner: SkippingPlanner, text: str) -> None:
    answer = json.loads(timed(figures, name, lambda: planner.answer(text)))
    # the footer of the file that might have the value is that of the real file, which lacks it
    if answer.get("kept") != [] or answer["report"]["files"]["opened"] != 1:
        raise AssertionError(f"{name}: {answer}")


def main() -> None:
    """Measure, and print the figures as JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--files", type=int, nargs="*", default=[10_000, 100_000])
    arguments.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "intarsia-million")
    chosen = arguments.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for files in chosen.files:
        print(json.dumps(measure_million(chosen.folder, files)), flush=True)


if __name__ == "__main__":
    main()
