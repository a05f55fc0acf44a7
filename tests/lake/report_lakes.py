"""Lakes of many forms and queries of all kinds, whose reports are compared with the reads that they made."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hypothesis import strategies as st

import intarsia as ia

ROWS = 400
SETTLED = 1_700_000_000  # files of the last seconds are not cached


class ByName:
    """A function of the name of a lake, with a short `repr` for the messages of Hypothesis."""

    def __init__(self, found):
        self._found = dict(found)

    def __call__(self, name):
        return self._found[name]


@contextlib.contextmanager
def recorded_preads():
    """Record the inode and the range of each ``pread`` within the block, below all code of the package."""
    found, lock, real = [], threading.Lock(), os.pread

    def pread(fd, length, offset):
        data = real(fd, length, offset)
        with lock:
            found.append((os.fstat(fd).st_ino, offset, offset + len(data)))
        return data

    os.pread = pread
    try:
        yield found
    finally:
        os.pread = real


WHERES = (
    None,
    "key < 30",
    "key = 333",
    "key >= 100 AND word = 'w3'",
    "word IN ('w1', 'w6')",
    "word = 'absent'",
    "number > 0.99 AND key < 700",
    "user = 4242",
    "user = 17 OR key = 5",
    "user < 900 AND NOT word = 'w2'",
    "extra = 3",
    "word LIKE 'w1%'",
    "key IS NOT NULL",
)

COLUMNS = (None, ["key"], ["number"], ["word", "user"], ["user", "number", "extra"], [])


@dataclass(frozen=True)
class Form:
    """How the files of a lake are written."""

    files: int = 3
    options: dict = field(default_factory=dict)
    indexes: tuple = ()
    has_lake_index: bool = False
    is_partitioned: bool = False
    lacks_columns: bool = False

    def write(self, folder):
        """Write the files, and return the lake's folder."""
        for ordinal in range(self.files):
            path = folder / (f"part={ordinal % 2}" if self.is_partitioned else "") / f"{ordinal:03}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            table = rows_of(ordinal)
            pq.write_table(
                table.drop(["extra"]) if self.lacks_columns and ordinal % 2 else table, path, **self.options
            )
            if self.indexes:
                ia.attach(path, list(self.indexes))
            os.utime(path, (SETTLED, SETTLED))
        if self.has_lake_index:
            ia.open(folder).build_lake_index("beside")
        return folder


def rows_of(ordinal):
    """The rows of a file."""
    random = np.random.default_rng(ordinal)
    first = ordinal * ROWS // 2
    return pa.table(
        {
            "key": np.arange(first, first + ROWS),
            "word": [f"w{one}" for one in random.integers(0, 8, ROWS)],
            "number": pa.array(random.random(ROWS), mask=random.random(ROWS) < 0.1),
            "user": random.integers(0, 5000, ROWS),
            "extra": random.integers(0, 100, ROWS),
        }
    )


_PAGES = {"write_page_index": True, "data_page_size": 200, "write_batch_size": 20, "row_group_size": 250}
_SMALL = {"row_group_size": 50}
_MANY_INDEXES = (
    ia.PageIndex(),
    ia.Bloom("user"),
    ia.RowMap("user"),
    ia.Distinct("word"),
    ia.ZoneMap("number", granularity=50),
    ia.Hll("user"),
    ia.Sample(30),
)

FORMS = {
    "pages": Form(options=_PAGES),
    "one file of pages": Form(1, _PAGES),
    "no page index": Form(options={"data_page_size": 200, "write_batch_size": 20}),
    "small row groups": Form(options=_SMALL),
    "indexes": Form(2, {**_PAGES, "use_dictionary": False}, _MANY_INDEXES),
    "many small files": Form(40),
    "many files of pages": Form(12, _PAGES, lacks_columns=True),
    "lake index": Form(12, _PAGES, (ia.Bloom("user"), ia.Distinct("word")), has_lake_index=True),
    "lake index of small files": Form(40, has_lake_index=True),
    "partitions": Form(6, _PAGES, is_partitioned=True, lacks_columns=True),
}


def forms(*names):
    """Lakes of some forms, or of all."""
    return st.sampled_from(names or tuple(FORMS))


@dataclass(frozen=True)
class Query:
    """A query of a table.

    Attributes:
        kind: The method that is called.
        where: The rows.
        columns: The columns.
        limit: The number of rows, for kinds that have it.
        order_by: The order of the rows, for `first`.
    """

    kind: str
    where: str | None
    columns: list | None
    limit: int
    order_by: str

    def run(self, table):
        """Run the query, and return its report."""
        where, columns, limit = self.where, self.columns, self.limit
        match self.kind:
            case "explain":
                return table.explain(where, columns)
            case "analyze":
                return table.explain(where, columns, analyze=True)
            case "aggregate":
                functions = {"number": ["min", "max", "count"], "key": ["sum", "max"], "*": "count"}
                return table.aggregate(functions, where=where).report
            case "approx_distinct":
                return table.approx_distinct("user", where=where).report
            case "dataset":
                dataset = table.dataset()
                dataset.to_table(columns=["key"], filter=pc.field("key") < limit * 30)
                return dataset.last_report
        options = {
            "limit": {"limit": limit},
            "first": {"limit": limit, "order_by": self.order_by},
            "skip": {"on_error": "skip"},
        }
        scan = table.scan(None if self.kind == "sample" else where, columns, **options.get(self.kind, {}))
        match self.kind:
            case "stop early":
                with contextlib.closing(iter(scan)) as batches:
                    next(batches, None)
            case "iterate":
                assert all(batch.num_rows for batch in scan)
            case "count":
                scan.count()
            case "value_counts":
                scan.value_counts("word")
            case "count_distinct":
                scan.count_distinct("user")
            case "locate":
                scan.locate()
            case "plan":
                scan.plan()
            case "sample":
                scan.sample(limit, seed=1)
            case _:
                scan.to_arrow()
        return scan.report


#: Kinds of queries that `Query.run` knows.
KINDS = (
    *("scan", "explain", "analyze", "limit", "first", "stop early", "iterate", "count", "aggregate"),
    *("value_counts", "count_distinct", "approx_distinct", "locate", "plan", "sample", "dataset", "skip"),
)

queries = st.builds(
    Query,
    kind=st.sampled_from(KINDS),
    where=st.sampled_from(WHERES),
    columns=st.sampled_from(COLUMNS),
    limit=st.sampled_from([0, 1, 3, 25, 300]),
    order_by=st.sampled_from(["key", "number DESC", "user", "word DESC"]),
)
