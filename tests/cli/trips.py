"""Small files of known rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

CITIES = ["Aachen", "Berlin", "Bonn", "Cologne"]


def trips(first=0, count=2000):
    """Rows sorted by ``id``; ``city`` is not sorted, and ``Bremen`` is rare."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": ["Bremen" if row % 1000 == 777 else CITIES[row % 4] for row in ids],
            "km": pa.array([None if row % 50 == 0 else row / 4 for row in ids], pa.float64()),
        }
    )


def write(table, path, **options):
    """Pages of 100 rows in row groups of 1,000, without a page index."""
    pq.write_table(
        table,
        path,
        **{"row_group_size": 1000, "data_page_size": 1, "write_batch_size": 100, "use_dictionary": False}
        | options,
    )
