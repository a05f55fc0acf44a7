"""What small results hold: the bytes of their buffers, beside the bytes of their rows."""

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
from benchmarks.questions import Question

ROWS = 16_000
_ROWS_PER_GROUP = 2_000
_TEXT_BYTES = 35_000
_RESULT_ROWS = 200


@dataclass
class Held:
    """One small result.

    Attributes:
        name: What was asked.
        file: The file.
        needed: The bytes of its rows.
        held: By reader, the bytes of all buffers that its result as Arrow keeps alive.
    """

    name: str
    file: File
    needed: int = 0
    held: dict[str, int] = field(default_factory=dict)


def measure_memory(
    folder: Path, rows: int, engines: Sequence[str], tell: Callable[[str], None]
) -> list[Held]:
    """Ask every reader for 200 wide rows: side by side, and each from another place."""
    file = _make_file(folder, rows)
    start = rows // 3
    results = []
    for name, question in (
        ("200 rows side by side", Question("id", start, start + _RESULT_ROWS)),
        ("200 rows, scattered", Question("pick", 3, 4)),
    ):
        result = Held(name, file)
        for engine in engines:
            tell(f"{name}, {engine}")
            opened = ENGINES[engine](file.path)
            answer = opened.to_arrow(opened.ask(question))
            result.held[engine] = answer.get_total_buffer_size()
            if engine == "intarsia":
                result.needed = answer.nbytes
        results.append(result)
    return results


def memory_document(results: Sequence[Held]) -> list[dict[str, Any]]:
    """The figures for JSON."""
    return [{"question": result.name, "needed": result.needed, "held": result.held} for result in results]


def print_memory(results: Sequence[Held]) -> None:
    """The figures as a table."""
    file = results[0].file
    print(f"\n{file.name}: {file.size_bytes / 1e6:.0f} MB, {file.about}")
    print(
        "MB that the result as Arrow keeps in memory (get_total_buffer_size); in brackets: times its rows'."
    )
    print(f"{'':<30}{'rows':>10}" + "".join(f"{engine:>17}" for engine in results[0].held))
    for result in results:
        cells = [f"{held / 1e6:.1f} ({held / result.needed:.1f}x)" for held in result.held.values()]
        print(f"  {result.name:<28}{result.needed / 1e6:>10.1f}" + "".join(f"{cell:>17}" for cell in cells))


def _make_file(folder: Path, rows: int) -> File:
    """Texts of 35 kB that repeat within themselves, so that the file is small."""
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
