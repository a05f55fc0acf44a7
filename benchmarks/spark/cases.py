"""The lakes and files that Spark queries, each without and with indexes, and the queries."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import intarsia as ia
from benchmarks import lineitem
from benchmarks.data import VERSION, make_tuned_file
from benchmarks.lake import FIRST_SECOND, NEEDLE, RARE, ROWS_PER_FILE, make_lakes

#: The performance targets of the project: time relative to plain Spark on bare files.
NEEDLE_AIM, PART_AIM, NOTHING_AIM = 0.1, 0.15, 1.05

TUNED_ROWS = 10_000_000
RANGE_ROWS = 10_000

#: The result of each query of the lake.
COLUMNS = ("count(*)", "sum(amount)", "max(url)")

_NEEDLES = ("user = x", "user absent", "rare country", "one hour", "LIKE '%needle%'")


@dataclass(frozen=True)
class Query:
    """A kind of query.

    Attributes:
        name: The name in the tables.
        where: Returns a condition with new values; an empty one selects all rows.
        aim: The maximum time of an enabled session, relative to plain Spark on bare files; None if there is
            no target.
        skips: Whether any row can be skipped. If not, indexed files should take plain Spark no longer than
            `NOTHING_AIM`, too.
    """

    name: str
    where: Callable[[np.random.Generator], str]
    aim: float | None = None
    skips: bool = True


@dataclass(frozen=True)
class Data:
    """A table without and with indexes.

    Attributes:
        name: The name in the tables.
        about: How it was written and indexed.
        bare, indexed: The paths.
        columns: The result of each query: a few aggregates.
        queries: The queries.
        format: The format of Spark.
        one_row: The path of a table with one row; empty for a local file.
    """

    name: str
    about: str
    bare: str
    indexed: str
    columns: tuple[str, ...]
    queries: tuple[Query, ...]
    format: str = "parquet"
    one_row: str = ""


def make_lake(folder: Path, files: int) -> list[Data]:
    """Create many small files; a lake index of the indexed ones is in the cache."""
    bare, _, indexed = make_lakes(folder, files)
    about = f"{files:,} files of {ROWS_PER_FILE:,} rows, pyarrow's defaults; five indexes and a lake index"
    return [Data("lake", about, bare.path, indexed.path, COLUMNS, lake_queries(files, NEEDLE_AIM))]


def lake_queries(files: int, needle_aim: float) -> tuple[Query, ...]:
    """Return the queries of the lake.

    Args:
        files: The files of the lake, with the rows of one hour each.
        needle_aim: The maximum time of an enabled session for those that find few rows, relative to plain
            Spark.
    """

    def conditions(random: np.random.Generator) -> dict[str, str]:
        user = int(random.integers(0, files * ROWS_PER_FILE)) * 2
        hour = dt.datetime.fromtimestamp(
            FIRST_SECOND + 3600 * int(random.integers(0, files)), dt.timezone.utc
        )
        start, stop = (at.strftime("%Y-%m-%d %H:%M:%S") for at in (hour, hour + dt.timedelta(hours=1)))
        return {
            "user = x": f"user = {user}",
            "user absent": f"user = {user + 1}",
            "rare country": f"country = '{RARE}'",
            "one hour": f"ts >= TIMESTAMP_NTZ '{start}' AND ts < TIMESTAMP_NTZ '{stop}'",
            "LIKE '%needle%'": f"url LIKE '%{NEEDLE}%'",
            "nothing to skip": "amount >= 100.5",
            "no condition": "",
        }

    def query(name: str) -> Query:
        is_needle = name in _NEEDLES
        aim = needle_aim if is_needle else NOTHING_AIM
        return Query(name, lambda random: conditions(random)[name], aim, is_needle)

    return tuple(query(name) for name in conditions(np.random.default_rng(0)))


def make_lineitem(folder: Path, scale: float = 1.0) -> list[Data]:
    """Create TPC-H's lineitem, as tpchgen writes it and with small pages, without and with a `RowMap`.

    Raises:
        MissingProgramError: If tpchgen-cli is not installed.
    """
    plain, attached, rewritten = (Path(file.path) for file in lineitem.make_files(folder, scale))
    small_pages = folder / f"lineitem-small-pages-{scale}-v{VERSION}.parquet"
    if not small_pages.exists():
        part = small_pages.with_suffix(".part")
        ia.write_table(pq.read_table(plain), part, rows_per_page=lineitem.ROWS_PER_PAGE)
        part.rename(small_pages)

    def part_key(random: np.random.Generator) -> str:
        return f"l_partkey = {int(random.integers(1, int(lineitem.PARTS * scale) + 1))}"

    def queries(aim: float | None) -> tuple[Query, ...]:
        all_rows = Query("nothing to skip", lambda _: "l_quantity >= 1", NOTHING_AIM, skips=False)
        return Query("l_partkey = k", part_key, aim), all_rows

    columns = ("count(*)", "sum(l_extendedprice)", "max(l_orderkey)")
    tpch = f"TPC-H at scale factor {scale:g}"
    small = f"{tpch}, by ia.write_table with {lineitem.ROWS_PER_PAGE:,} rows per page; a RowMap"
    written = f"{tpch}, as written by tpchgen; a RowMap"
    return [
        Data("lineitem", written, str(plain), str(attached), columns, queries(None)),
        Data("lineitem, small pages", small, str(small_pages), str(rewritten), columns, queries(PART_AIM)),
    ]


def make_tuned(folder: Path, rows: int = TUNED_ROWS) -> list[Data]:
    """Create a file that is optimized for lookups without Intarsia: sorted, with a page index."""
    tuned = Path(make_tuned_file(folder, rows).path)
    indexed = folder / f"tuned-indexed-{rows}-v{VERSION}.parquet"
    if not indexed.exists():
        part = indexed.with_suffix(".part")
        shutil.copyfile(tuned, part)
        ia.attach(part, [ia.RowMap("user")])
        part.rename(indexed)

    def lookup(random: np.random.Generator) -> str:
        return f"id = {int(random.integers(0, rows))}"

    def range_of(random: np.random.Generator) -> str:
        start = int(random.integers(0, max(1, rows - RANGE_ROWS)))
        return f"id >= {start} AND id < {start + RANGE_ROWS}"

    queries = (
        Query("id = k", lookup),
        Query(f"{RANGE_ROWS:,} ids", range_of),
        Query("user = k", lambda random: f"user = {int(random.integers(0, 1_000_000))}"),
        Query("nothing to skip", lambda _: "quantity >= 0", NOTHING_AIM, skips=False),
    )
    about = f"{rows:,} rows sorted by id, with a page index; a RowMap of users"
    return [Data("tuned", about, str(tuned), str(indexed), ("count(*)", "sum(amount)", "max(note)"), queries)]
