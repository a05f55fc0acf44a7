"""TPC-H's lineitem: ask which indexes help, attach them, and compare what the queries read.

    python -m examples.lineitem [SCALE]

Needs tpchgen-cli, which generates the table; 0.1 has 600,000 rows.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import intarsia as ia
from benchmarks.lineitem import generate

#: What a user of this table asks, and why an index helps or does not.
QUERIES = {
    "l_orderkey = 32": "sorted: the bounds of pages suffice",
    "l_partkey = 42": "unsorted: a row map names the rows",
    "l_comment LIKE '%final requests%'": "text: n-grams name the pages, if few have it",
    "l_shipmode = 'AIR'": "on every page: nothing helps",
}
COLUMNS = ["l_orderkey", "l_extendedprice"]


def main(scale: float = 0.1) -> None:
    """Generate, advise, attach, and query before and after."""
    with tempfile.TemporaryDirectory(prefix="lineitem-") as folder:
        path = generate(Path(folder), scale)
        before = {where: ia.open(path).scan(where, columns=COLUMNS) for where in QUERIES}
        rows = {where: scan.to_arrow() for where, scan in before.items()}
        print(ia.advise(path, list(QUERIES)[:2]))
        # four thousand rows a page, as a user of lookups writes a table
        paged = Path(folder) / "paged.parquet"
        indexes = [ia.PageIndex(), ia.RowMap("l_partkey"), ia.Ngram("l_comment", granularity="page")]
        ia.write_table(ia.open(path).scan(), paged, indexes=indexes, rows_per_page=4_000)
        table = ia.open(paged)
        for where, why in QUERIES.items():
            scan = table.scan(where, columns=COLUMNS)
            assert scan.to_arrow() == rows[where]
            was, now = before[where].report.bytes_read, scan.report.bytes_read
            print(f"{where:36} {rows[where].num_rows:>7,} rows  {was:>12,} -> {now:>11,} bytes  {why}")
        total = table.aggregate("sum(l_quantity)", "l_orderkey < 100000")
        print(total, total.report.bytes_read)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
