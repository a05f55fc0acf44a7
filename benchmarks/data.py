"""The files for the benchmarks: created once and reused by later runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import intarsia as ia

ROWS_PER_GROUP = 1_000_000
ROWS_PER_PAGE = 20_000

#: Increment when the data changes, so that files of earlier versions are not reused.
VERSION = 1

COUNTRIES = 200
USERS = 1_000_000
QUANTITIES = 100
TAGS = 500


#: Options of pyarrow for a file that is optimized for point lookups.
_TUNED = {"write_page_index": True, "max_rows_per_page": ROWS_PER_PAGE, "use_dictionary": ["country"]}


@dataclass(frozen=True)
class File:
    """A file, or a folder of files.

    Attributes:
        name: The name in the tables.
        path: The path of the file or folder.
        about: How it was written.
    """

    name: str
    path: str
    about: str

    @property
    def size_bytes(self) -> int:
        path = Path(self.path)
        return sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir()))


def make_files(folder: Path, rows: int) -> list[File]:
    """Create the same rows three times: tuned, with pyarrow's defaults, and with an attached page index."""
    tuned = make_tuned_file(folder, rows)
    plain, attached = (folder / f"{name}-{rows}-v{VERSION}.parquet" for name in ("default", "attached"))
    if not plain.exists():
        _write(plain, _tables(rows))
    if not attached.exists():
        _attach_to_copy(plain, attached, ia.PageIndex())
    return [
        tuned,
        File("default", str(plain), "pyarrow's defaults, no page index"),
        File("attached", str(attached), "the same after ia.attach(path, [ia.PageIndex()])"),
    ]


def make_tuned_file(folder: Path, rows: int) -> File:
    """Create a file that is optimized for point lookups."""
    path = folder / f"tuned-{rows}-v{VERSION}.parquet"
    if not path.exists():
        _write(path, _tables(rows), **_TUNED)
    return File(
        "tuned", str(path), f"{rows:,} rows, page index, pages of 20,000 rows, row groups of 1,000,000"
    )


def make_nested_file(folder: Path, rows: int) -> File:
    """Create a file with lists of up to five texts and numbers."""
    path = folder / f"nested-{rows}-v{VERSION}.parquet"
    if not path.exists():
        options = {**_TUNED, "use_dictionary": ["tags.list.element"]}
        _write(path, map(_with_lists, _tables(rows)), **options)
    return File("nested", str(path), f"{rows:,} rows with lists of 0 to 5 texts and numbers, else as `tuned`")


def make_checked_file(folder: Path, rows: int) -> File:
    """Create the tuned file with a checksum in the header of each page, which readers compare."""
    path = folder / f"checked-{rows}-v{VERSION}.parquet"
    if not path.exists():
        _write(path, _tables(rows), **_TUNED, write_page_checksum=True)
    return File("checksums", str(path), "the same with write_page_checksum=True")


def make_zoned_file(folder: Path, rows: int) -> File:
    """Create the tuned file with an attached zone map."""
    path = folder / f"zoned-{rows}-v{VERSION}.parquet"
    if not path.exists():
        _attach_to_copy(Path(make_tuned_file(folder, rows).path), path, ia.ZoneMap("amount"))
    return File("zoned", str(path), "the same after ia.attach(path, [ia.ZoneMap('amount')])")


def make_bare_file(folder: Path, rows: int) -> File:
    """Create the same rows with pyarrow's defaults, but without statistics."""
    path = folder / f"bare-{rows}-v{VERSION}.parquet"
    if not path.exists():
        _write(path, _tables(rows), write_statistics=False)
    return File("bare", str(path), "pyarrow's defaults, no statistics")


def _attach_to_copy(source: Path, path: Path, index: object) -> None:
    part = path.with_suffix(".part")
    shutil.copyfile(source, part)
    ia.attach(part, [index])
    part.rename(path)


def _write(path: Path, tables: Iterator[pa.Table], **options: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    first = next(tables)
    with pq.ParquetWriter(part, first.schema, **options) as writer:
        for table in chain([first], tables):
            writer.write_table(table, row_group_size=ROWS_PER_GROUP)
    part.rename(path)


def _with_lists(table: pa.Table) -> pa.Table:
    """Return the ids and quantities of a table with lists of texts and of numbers."""
    random = np.random.default_rng(table["id"][0].as_py())
    edges = np.append(0, random.integers(0, 6, table.num_rows).cumsum()).astype(np.int32)
    tags = pa.array([f"tag {number:03}" for number in range(TAGS)])
    values = {
        "tags": tags.take(pa.array(random.integers(0, TAGS, edges[-1]))),
        "points": pa.array(random.integers(0, 1_000_000, edges[-1]) / 100),
    }
    table = table.select(["id", "quantity"])
    for name, of_lists in values.items():
        table = table.append_column(name, pa.ListArray.from_arrays(pa.array(edges), of_lists))
    return table


def _tables(rows: int) -> Iterator[pa.Table]:
    """Yield the rows of each row group; ``id`` and ``ts`` ascend, the other columns are not sorted."""
    countries = pa.array([f"country {number:03}" for number in range(COUNTRIES)])
    for start in range(0, rows, ROWS_PER_GROUP):
        random = np.random.default_rng(start)
        ids = np.arange(start, min(start + ROWS_PER_GROUP, rows))
        count = len(ids)
        yield pa.table(
            {
                "id": ids,
                "ts": pa.array(1_700_000_000_000_000 + ids * 250_000, pa.timestamp("us")),
                "user": random.integers(0, USERS, count),
                "country": countries.take(pa.array(random.integers(0, COUNTRIES, count))),
                "amount": random.integers(0, 1_000_000, count) / 100,
                "quantity": random.integers(0, QUANTITIES, count).astype("int32"),
                "note": pa.array([f"note {number % 1_000_003}" for number in ids.tolist()]),
            }
        )
