"""TPC-H's lineitem by `tpchgen-cli`: as written, with a `RowMap` of an unsorted column, and rewritten."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import intarsia as ia
from benchmarks.data import VERSION, File
from benchmarks.measure import Case
from benchmarks.queries import Query, fewer

#: At scale factor 1.
ROWS = 6_001_215
PARTS = 200_000

#: The pages of the rewritten file, which has dictionaries only where values repeat.
ROWS_PER_PAGE = 4_000

_PROGRAM = "tpchgen-cli"
NEEDS = f"needs {_PROGRAM}: pip install {_PROGRAM}"


class MissingProgramError(Exception):
    """The program that generates the data is not installed."""


def lineitem_cases(folder: Path, rows: int, repetitions: int) -> list[Case]:
    """Query about 30 of 6 million rows by their part, with and without an index, and scattered rows."""
    scale = round(rows / ROWS, 3)
    parts = np.random.default_rng(11).integers(1, int(PARTS * scale) + 1, repetitions).tolist()
    columns = ("l_orderkey", "l_extendedprice")
    queries = [Query("l_partkey", part, part + 1, columns) for part in parts]
    files = make_files(folder, scale)
    scattered = {
        "l_shipmode = 'AIR'": Query("l_shipmode", columns=columns, equals="AIR"),  # 14% of the rows
        "l_linenumber = 7, all columns": Query("l_linenumber", 7, 8),  # 4%
    }
    repeated = fewer(repetitions, 2)
    return [
        *(Case("l_partkey = k", file, queries) for file in files),
        *(Case(name, files[0], [query] * repeated) for name, query in scattered.items()),
    ]


def make_files(folder: Path, scale: float) -> list[File]:
    plain, attached, rewritten = (
        folder / f"{name}-{scale}-v{VERSION}.parquet"
        for name in ("lineitem", "lineitem-attached", "lineitem-rewritten")
    )
    if not plain.exists():
        generate(folder / "tpch", scale).rename(plain)
    if not attached.exists():
        part = attached.with_suffix(".part")
        shutil.copyfile(plain, part)
        ia.attach(part, [ia.RowMap("l_partkey")])
        part.rename(attached)
    if not rewritten.exists():
        part, index = rewritten.with_suffix(".part"), ia.RowMap("l_partkey")
        ia.write_table(pq.read_table(plain), part, indexes=[index], rows_per_page=ROWS_PER_PAGE)
        part.rename(rewritten)
    return [
        File("lineitem", str(plain), f"TPC-H at scale factor {scale:g}, as written by tpchgen"),
        File("attached", str(attached), "the same after ia.attach(path, [ia.RowMap('l_partkey')])"),
        File("rewritten", str(rewritten), f"the same by ia.write_table, {ROWS_PER_PAGE:,} rows per page"),
    ]


def generate(folder: Path, scale: float) -> Path:
    """Write the table into a folder; return its path.

    Raises:
        MissingProgramError: If the program that generates it is not installed.
    """
    program = find_program()
    if program is None:
        raise MissingProgramError(f"lineitem {NEEDS}")
    command = [program, "parquet", "-s", str(scale), "--tables=lineitem", f"--output-dir={folder}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "lineitem.parquet"


def find_program() -> str | None:
    """Find the program that generates the data, in this environment or in PATH."""
    return shutil.which(_PROGRAM, path=str(Path(sys.executable).parent)) or shutil.which(_PROGRAM)
