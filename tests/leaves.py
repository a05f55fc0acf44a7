"""Leaves and orderings of Arrow types, as files have them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.file import ParquetInput
from intarsia.read.file_query import FileQuery
from intarsia.rows.ordering import ordering_for
from intarsia.storage import MemorySource


def open_table(table: pa.Table, **options) -> ParquetInput:
    """A table as an open file in memory."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return ParquetInput(MemorySource(sink.getvalue().to_pybytes()))


def leaf_of(type_: pa.DataType, **options):
    """The leaf of a column of this type, and the type that reading it gives."""
    file = open_table(pa.table({"x": pa.array([], type_)}), **options)
    return file.footer.leaves[0], file.leaf_types[0]


def ordering_of(type_: pa.DataType, **options):
    """The ordering of a column of this type, or None."""
    return ordering_for(*leaf_of(type_, **options))


class CostlyQuery(FileQuery):
    """A query that would read so many bytes that every index pays."""

    def estimated_bytes_by_group(self, rows):
        edges = self.file.footer.row_group_starts
        return np.where(rows.overlaps(edges[:-1], edges[1:]), 1 << 40, 0)
