"""Rewriting the files: other orders and page sizes, measured on rows of the sample."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from intarsia.advice.candidates import literal, name_of, options_of, python_of
from intarsia.advice.measurement import ESTIMATED_PART, Measurement
from intarsia.advice.queries import Query
from intarsia.advice.report import Advice, QueryAdvice
from intarsia.embed import PageIndex
from intarsia.embed.structures import Attachable
from intarsia.errors import IntarsiaError
from intarsia.lake.table import Table
from intarsia.predicate import Constant, Predicate
from intarsia.predicate.nodes import dotted, innermost, leaves
from intarsia.records import dataclass
from intarsia.write import write_table
from intarsia.write.rows import sort_keys


@dataclass(frozen=True)
class Arrangement:
    """An order of rows and a page size; without columns, the order of the source.

    Attributes:
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


def write_arrangement(
    rows: pa.Table, arrangement: Arrangement, path: str, row_group_size: int | None = None
) -> None:
    """Write rows in the order of an arrangement, unless it is along a curve, to a file.

    Raises:
        WriteError: If the rows cannot be sorted.
    """
    write_table(
        rows,
        path,
        rows_per_page=arrangement.rows_per_page,
        row_group_size=row_group_size,
        sort_by=list(arrangement.sort_by) or None,
    )


def sortable_columns(schema: pa.Schema, requested: Sequence[Query]) -> list[str]:
    """Return the top-level columns of conditions by which rows can be sorted, the most queried first."""
    uses: Counter[str] = Counter()
    for query in requested:
        for name in dict.fromkeys(_condition_columns(query.predicate)):
            uses[name] += query.count
    names = []
    for name, _ in uses.most_common():
        with suppress(IntarsiaError):  # a nested column, or one that cannot be sorted
            sort_keys([name], schema)
            names.append(name)
    return names


def _condition_columns(predicate: Predicate | None) -> Iterator[str]:
    for leaf in () if predicate is None else leaves(predicate):
        if not isinstance(leaf, Constant):
            yield dotted(innermost(leaf.column))


def optimize_command(
    paths: Sequence[str], destination: str, arrangement: Arrangement, indexes: Iterable[Attachable]
) -> str:
    """Return the command that writes files in another arrangement with Spark."""
    order = ["--sort-by", joined_names(arrangement.sort_by)] if arrangement.sort_by else []
    order += ["--hilbert-by", joined_names(arrangement.hilbert_by)] if arrangement.hilbert_by else []
    pages = ["--rows-per-page", str(arrangement.rows_per_page)]
    options = [option for index in indexes for option in options_of(index)]
    return shlex.join(["intarsia", "optimize", *paths, destination, *order, *pages, *options])


def joined_names(names: Sequence[str]) -> str:
    r"""Return names as one value of an option; those with commas or quotes are quoted.

    Example:
        >>> joined_names(["a", "b c", "d,e"])
        'a,b c,"d,e"'
    """
    return ",".join('"' + name.replace('"', '""') + '"' if set(name) & set(',"') else name for name in names)


#: Maximum number of columns whose orders are measured, the most queried first.
MAX_COLUMNS = 3

#: The number of rows per page, which is small, because a lookup reads a page of each column.
ROWS_PER_PAGE = 2_000

#: The compressed size of the row groups whose rows are written in other arrangements, in bytes.
REWRITTEN_BYTES = 32 << 20

#: `write_table` sorts in memory; larger tables are rewritten with Spark.
MAX_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class Rewrite:
    """An arrangement of the rows, with the indexes that suit it.

    Attributes:
        indexes: The indexes, in addition to the page index that every written file has.
        query_bytes: Bytes that each query reads.
        num_bytes: Size of the new file in bytes.
        is_estimate: Whether only a part of the rows was written.
    """

    arrangement: Arrangement
    indexes: tuple[Attachable, ...]
    query_bytes: tuple[float, ...]
    num_bytes: float
    is_estimate: bool

    def lowest(self, number: int) -> float:
        """Return a lower bound of the bytes that a query reads."""
        return self.query_bytes[number] * (ESTIMATED_PART if self.is_estimate else 1)

    @property
    def name(self) -> str:
        """The name of the option."""
        return " + ".join([str(self.arrangement), *map(name_of, self.indexes)])

    def command(self, paths: Sequence[str]) -> str:
        """Return the command that writes the rows to a new file, or to a folder if they are many."""
        target = f"{os.path.splitext(paths[0].rstrip('/'))[0]}-rewritten"
        if self.num_bytes > MAX_BYTES:
            return optimize_command(paths, target, self.arrangement, self.indexes)
        options = [f"rows_per_page={self.arrangement.rows_per_page}"]
        if self.arrangement.sort_by:
            options.append(f"sort_by={literal(list(self.arrangement.sort_by))}")
        calls = list(map(python_of, self.indexes))
        if calls:
            options.append(f"indexes=[{', '.join(call for _, call in calls)}]")
        source = literal(paths[0] if len(paths) == 1 else list(paths))
        rows = f"ia.open({source}).scan()"
        imports = dict.fromkeys(["import intarsia as ia", *(line for line, _ in calls if line)])
        code = f"ia.write_table({rows}, {literal(target + '.parquet')}, {', '.join(options)})"
        return shlex.join(["python3", "-c", "; ".join([*imports, code])])


def measure_rewrites(
    work: Measurement, table: Table, requested: Sequence[Query], advise_file: Callable[[str], Advice]
) -> list[Rewrite]:
    """Write rows of the sample in other arrangements to temporary files, and measure these.

    Args:
        work: The measurement of the files as they are.
        advise_file: A function that returns the advice for a file, without rewriting it.
    """
    if not work.helps([0.0] * len(requested)):  # they read too little
        return []
    rows, is_whole = work.rows(REWRITTEN_BYTES)
    if not rows.num_rows:
        return []

    def measured(arrangement: Arrangement) -> Rewrite:
        with tempfile.TemporaryDirectory(prefix="intarsia-advise-") as folder:
            path = os.path.join(folder, "rows.parquet")
            write_arrangement(rows, arrangement, path)
            advice = advise_file(path)
            num_bytes = os.path.getsize(path) + sum(one.bytes for one in advice.measured if one.is_advised)
        query_bytes = [query.advised.bytes for query in advice.queries]
        if not is_whole:
            scale = work.num_rows / rows.num_rows
            num_bytes *= scale
            query_bytes = [
                _extrapolated(query, arrangement, scale, work.rows_matched(number))
                for number, query in enumerate(advice.queries)
            ]
        indexes = tuple(index for index in advice.indexes if not isinstance(index, PageIndex))
        return Rewrite(arrangement, indexes, tuple(query_bytes), num_bytes, is_estimate=not is_whole)

    found = []
    for sort_by in ((), *((name,) for name in sortable_columns(table.schema, requested)[:MAX_COLUMNS])):
        with contextlib.suppress(IntarsiaError):  # a type that cannot be sorted or written
            found.append(measured(Arrangement(sort_by, rows_per_page=ROWS_PER_PAGE)))
    return found


def _extrapolated(query: QueryAdvice, arrangement: Arrangement, scale: float, rows_matched: float) -> float:
    """Estimate the bytes that a query reads of all rows in an arrangement.

    Args:
        query: The query of some of the rows in this arrangement.
        scale: The number of all rows divided by that of these rows.
        rows_matched: The number of all rows that match.
    """
    cost, is_sorted = query.advised, bool(arrangement.sort_by)
    # if they are sorted, the matching rows are on adjacent pages of one row group
    more = arrangement.rows_per_page if is_sorted else 0
    growth = (max(1, rows_matched) + more) / (max(1, query.rows_matched) + more)
    page_bytes = cost.bytes - cost.footer_bytes - cost.index_bytes
    return cost.footer_bytes * scale + cost.index_bytes * (1 if is_sorted else scale) + page_bytes * growth
