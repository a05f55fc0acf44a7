"""Lakes for the tests of the lake index."""

from __future__ import annotations

import itertools
import os
import shutil
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

import intarsia as ia
from intarsia.predicate import bind, evaluate, parse_sql

#: Modification times in the past, because files written in the last two seconds are not indexed. All differ.
_SECONDS = itertools.count(1_600_000_000, 10)


def age(path):
    """Set the modification time of a file to one in the past that no other file has."""
    seconds = next(_SECONDS)
    os.utime(path, (seconds, seconds))


def write(path, table, indexes=(), **options):
    """Write a file with indexes, as if some time ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    if indexes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ia.IntarsiaWarning)
            ia.attach(path, indexes)
    age(path)


#: Indexes that take part in a lake index.
INDEXES = (
    ia.Bloom("user"),
    ia.Distinct("country"),
    ia.ZoneMap("amount"),
    ia.Ngram("url"),
    ia.RowMap("id"),
)


def rows_of_day(day, num_rows=100):
    """The rows of one file of `make_lake`."""
    first = day * num_rows
    return pa.table(
        {
            "id": pa.array([row * 7919 % 100_003 for row in range(first, first + num_rows)], pa.int64()),
            "user": pa.array([row * 31 for row in range(first, first + num_rows)], pa.int32()),
            "day": pa.array([day] * num_rows, pa.int16()),
            "country": [f"country {day * 3 + row % 3}" for row in range(num_rows)],
            "amount": [None if row % 10 == 0 else row / 4 + day for row in range(num_rows)],
            "url": [f"https://example.org/{day:03}/{row}" for row in range(num_rows)],
        }
    )


def make_lake(folder, num_files=8, indexes=INDEXES):
    """Write a lake of ``num_files`` files of 100 rows in 2 row groups."""
    for day in range(num_files):
        write(folder / f"day-{day:03}.parquet", rows_of_day(day), indexes, row_group_size=50)
    return folder


def copy_of(lake, folder):
    """Copy a lake without its lake index; the files keep their times."""
    shutil.copytree(lake, folder, ignore=shutil.ignore_patterns("_intarsia"))
    return folder


def rows(table, where, columns=None):
    """Return the rows of a scan as Python objects."""
    return table.scan(where, columns).to_arrow().to_pylist()


#: The matching rows of single files, by content.
_MATCHING = {}


def expected_rows(folder, where):
    """Return the rows that match, by full reads of all files with pyarrow."""
    found = []
    for path in sorted(folder.rglob("*.parquet")):
        if "_intarsia" not in path.parts:
            key = (xxhash.xxh3_128_digest(path.read_bytes()), where)
            if key not in _MATCHING:
                _MATCHING[key] = _matching(pq.ParquetFile(path).read(), where)
            found += _MATCHING[key]
    return found


def _matching(table, where):
    if where is not None:
        bound = bind(parse_sql(where), table.schema)
        columns = {path: table.column(".".join(path)) for path in bound.paths()}
        table = table.filter(evaluate(bound, columns, len(table)))
    return table.to_pylist()


def expected_totals(folder, where=None):
    """Return the totals of ``amount`` in the matching rows, without a lake index."""
    amounts = [row["amount"] for row in expected_rows(folder, where)]
    present = [amount for amount in amounts if amount is not None]
    return {
        "amount": {"sum": sum(present), "min": min(present), "max": max(present), "count": len(present)},
        "*": {"count": len(amounts)},
    }


def opened_files(table, where):
    """Return the number of files that a scan opens."""
    scan = table.scan(where)
    scan.to_arrow()
    return scan.report.files_opened
