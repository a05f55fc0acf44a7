"""Lazy scans for Polars: `scan` returns a ``polars.LazyFrame`` whose predicates skip pages.

Needs Polars: ``pip install 'intarsia[polars]'``.

Example:
    >>> import intarsia as ia, polars as pl, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
    >>> from intarsia.polars import scan
    >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
    >>> pq.write_table(pa.table({"x": range(1000)}), path)
    >>> scan(path).filter(pl.col("x") == 42).collect().rows()
    [(42,)]
"""

from __future__ import annotations

from intarsia.polars.scanning import scan

__all__ = ["scan"]
