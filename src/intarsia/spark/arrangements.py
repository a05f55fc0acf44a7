"""Measure an order of rows and a page size on a sample, on an executor or on the driver."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.advice.advising import advise_on
from intarsia.advice.queries import Query
from intarsia.embed import PageIndex
from intarsia.spark.curves import bits_per_column, curve_keys, hilbert, quantile_bounds
from intarsia.spark.shipping import indexes_to_text
from intarsia.write import write_table

#: More bytes than any sample has, so that the whole sample is measured.
_ALL_BYTES = 1 << 40


@dataclass(frozen=True)
class Arrangement:
    """An order of rows and a page size; without columns, the order of the source.

    Attributes:
        sort_by: Columns to sort by.
        hilbert_by: Columns to cluster by, along a Hilbert curve.
        rows_per_page: Maximum number of rows per page.
    """

    sort_by: tuple[str, ...] = ()
    hilbert_by: tuple[str, ...] = ()
    rows_per_page: int = 4096

    @property
    def is_source(self) -> bool:
        """Whether it has the order of the source."""
        return not self.sort_by and not self.hilbert_by

    def __str__(self) -> str:
        order = "rows as they are"
        if self.sort_by:
            order = f"sorted by {', '.join(self.sort_by)}"
        if self.hilbert_by:
            order = f"clustered by {', '.join(self.hilbert_by)}"
        return f"{order}, {self.rows_per_page:,} rows per page"


def measure_arrangement(sample: pa.Table, arrangement: Arrangement, requested: Sequence[Query]) -> str:
    """Write a sample in an arrangement, and choose indexes for it.

    Args:
        sample: The rows, in the order of the source.
        arrangement: The arrangement.
        requested: The queries.

    Returns:
        In JSON: ``indexes``, as `indexes_to_text` returns them; and ``queries``, the number of bytes that
        each query reads with these indexes (``advised``), without them (``now``), and of all rows
        (``total``).
    """
    with tempfile.TemporaryDirectory(prefix="intarsia-advise-") as folder:
        path = os.path.join(folder, "sample.parquet")
        write_arrangement(sample, arrangement, path)
        advice = advise_on(path, requested, sample_bytes=_ALL_BYTES)
    indexes = [index for index in advice.indexes if not isinstance(index, PageIndex)]  # written anyway
    queries = [
        {name: round(getattr(query, name).bytes) for name in ("now", "advised", "total")}
        for query in advice.queries
    ]
    return json.dumps({"indexes": indexes_to_text(indexes), "queries": queries})


def write_arrangement(sample: pa.Table, arrangement: Arrangement, path: str) -> None:
    """Write a sample in an arrangement to a file of one row group."""
    if arrangement.hilbert_by:
        columns = [sample.column(name) for name in arrangement.hilbert_by]
        bits = bits_per_column(len(columns))
        whole = [column.combine_chunks() for column in columns]
        keys = curve_keys(whole, [quantile_bounds(column, bits) for column in columns], hilbert)
        sample = sample.take(pc.array_sort_indices(pa.array(keys)))
    write_table(
        sample,
        path,
        rows_per_page=arrangement.rows_per_page,
        row_group_size=max(sample.num_rows, 1),
        sort_by=list(arrangement.sort_by) or None,
    )
