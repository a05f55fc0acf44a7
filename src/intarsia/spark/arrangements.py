"""Measure an order of rows and a page size on a sample, on an executor or on the driver."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.advice.advising import advise_on
from intarsia.advice.queries import Query
from intarsia.advice.rewrites import Arrangement, write_arrangement
from intarsia.advice.sampled_file import ALL_BYTES
from intarsia.embed import PageIndex
from intarsia.spark.curves import bits_per_column, curve_keys, hilbert, quantile_bounds
from intarsia.spark.shipping import indexes_to_text


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
        write_sample(sample, arrangement, path)
        advice = advise_on(path, requested, sample_bytes=ALL_BYTES, rewrites=False)
    indexes = [index for index in advice.indexes if not isinstance(index, PageIndex)]  # written anyway
    queries = [
        {name: round(getattr(query, name).bytes) for name in ("now", "advised", "total")}
        for query in advice.queries
    ]
    return json.dumps({"indexes": indexes_to_text(indexes), "queries": queries})


def write_sample(sample: pa.Table, arrangement: Arrangement, path: str) -> None:
    """Write a sample in an arrangement to a file of one row group."""
    if arrangement.hilbert_by:
        columns = [sample.column(name) for name in arrangement.hilbert_by]
        bits = bits_per_column(len(columns))
        whole = [column.combine_chunks() for column in columns]
        keys = curve_keys(whole, [quantile_bounds(column, bits) for column in columns], hilbert)
        sample = sample.take(pc.array_sort_indices(pa.array(keys)))
    write_arrangement(sample, arrangement, path, max(sample.num_rows, 1))
