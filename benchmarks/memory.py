"""The memory that small results retain: the size of their buffers, compared with the size of their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import VERSION, File
from benchmarks.engines import ENGINES
from benchmarks.queries import Query

ROWS = 16_000
_ROWS_PER_GROUP = 2_000
_TEXT_BYTES = 35_000
_RESULT_ROWS = 200


@dataclass
class Retained:
    """One small result.

    Attributes:
        name: The query.
        file: The file.
        rows_bytes: Size of the rows.
        retained_bytes: For each reader, the size of all buffers of the result as Arrow.
    """

    name: str
    file: File
    rows_bytes: int = 0
    retained_bytes: dict[str, int] = field(default_factory=dict)


def measure_memory(
    folder: Path, rows: int, engines: Sequence[str], progress: Callable[[str], None]
) -> list[Retained]:
    """Read 200 wide rows with every reader: adjacent rows, and rows from all parts of the file."""
    file = _make_file(folder, rows)
    start = rows // 3
    results = []
    for name, query in (
        ("200 rows, adjacent", Query("id", start, start + _RESULT_ROWS)),
        ("200 rows, scattered", Query("pick", 3, 4)),
    ):
        result = Retained(name, file)
        for engine in engines:
            progress(f"{name}, {engine}")
            opened = ENGINES[engine](file.path)
            answer = opened.to_arrow(opened.run(query))
            result.retained_bytes[engine] = answer.get_total_buffer_size()
            if engine == "intarsia":
                result.rows_bytes = answer.nbytes
        results.append(result)
    return results


def memory_document(results: Sequence[Retained]) -> list[dict[str, Any]]:
    """Return the figures for JSON."""
    return [
        {"query": result.name, "rows_bytes": result.rows_bytes, "retained_bytes": result.retained_bytes}
        for result in results
    ]


def print_memory(results: Sequence[Retained]) -> None:
    """Print the figures as a table."""
    file = results[0].file
    print(f"\n{file.name}: {file.size_bytes / 1e6:.0f} MB, {file.about}")
    print("MB of memory that the result retains as Arrow (get_total_buffer_size).")
    print("In parentheses: relative to the size of the rows.")
    print(f"{'':<30}{'rows':>10}" + "".join(f"{engine:>17}" for engine in results[0].retained_bytes))
    for result in results:
        cells = [
            f"{size / 1e6:.1f} ({size / result.rows_bytes:.1f}x)" for size in result.retained_bytes.values()
        ]
        print(
            f"  {result.name:<28}{result.rows_bytes / 1e6:>10.1f}" + "".join(f"{cell:>17}" for cell in cells)
        )


def _make_file(folder: Path, rows: int) -> File:
    """Create a file of texts of 35 kB, which are repetitive so that the file is small."""
    path = folder / f"wide-{rows}-v{VERSION}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([("id", pa.int64()), ("pick", pa.int64()), ("text", pa.string())])
        every = max(1, rows // _RESULT_ROWS)
        random = np.random.default_rng(13)
        part = path.with_suffix(".part")
        with pq.ParquetWriter(part, schema, use_dictionary=False, compression="zstd") as writer:
            for start in range(0, rows, _ROWS_PER_GROUP):
                ids = np.arange(start, min(start + _ROWS_PER_GROUP, rows))
                texts = [random.bytes(175).hex() * (_TEXT_BYTES // 350) for _ in ids]
                writer.write_table(pa.table([ids, ids % every, texts], schema=schema))
        part.rename(path)
    return File("wide", str(path), f"{rows:,} texts of {_TEXT_BYTES:,} bytes, no page index")
