"""Advice: which indexes to add to files, measured on a sample in memory.

It is not called `advise`, because a package of that name would hide the function `intarsia.advise`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import cast

import pyarrow.compute as pc

from intarsia.advice.candidates import command_of
from intarsia.advice.measurement import RUNS_TO_PAY, Measurement, Show
from intarsia.advice.measuring import BoundQuery, sample_table
from intarsia.advice.queries import Query, merged, read_queries
from intarsia.advice.report import Advice, Option
from intarsia.advice.rewrites import Rewrite, measure_rewrites
from intarsia.advice.sampled_file import ALL_BYTES, SAMPLE_BYTES
from intarsia.lake.discovery import is_table_url
from intarsia.lake.opening import Source, open
from intarsia.lake.table import Table
from intarsia.predicate import Predicate, Where, parse_predicate
from intarsia.storage import StorageOptions


def advise(
    source: Source | Table,
    where: Where | Sequence[Where] = None,
    *,
    queries: str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    sample_bytes: int = SAMPLE_BYTES,
    show: Show = lambda _, __: None,
    storage_options: StorageOptions | None = None,
) -> Advice:
    """Advise which indexes to add to files, by measuring them on a sample. No file is changed.

    Row groups of up to 32 files are read, spread evenly over those that the queries read. Every index that
    can evaluate a condition is built on them in memory. Then the queries are planned with it, and the pages
    are fetched, as a scan does. The advice is the smallest set of indexes with nearly all of the savings, if
    it saves a fifth of what a query reads. Rows are also written to temporary files with smaller pages, and
    sorted by the queried columns; ``options`` compares these with the indexes. Sizes, times and savings are
    extrapolated from the sample to all files, so they are estimates unless ``sample.is_whole``.

    Without queries the advice is general: a page index, and `Distinct` for columns with few values if the
    index is small. ``columns`` of the result then describes each column.

    Args:
        source: As for `intarsia.open`, or a table.
        where: A predicate, in any form that `Table.scan` takes, or a list of them.
        queries: A text file of predicates, or SELECT statements of one table, one per line or separated by
            semicolons.
        columns: The columns that the queries of ``where`` read; None for all.
        sample_bytes: The maximum size of the sampled row groups in bytes. One row group is always read.
        show: Called with the number of steps done and their total number.
        storage_options: Options of the stores of URLs, as for `intarsia.open`; a table has its own.

    Returns:
        The advice. ``advice.indexes`` can be passed to `attach`, and ``advice.command`` is the equivalent
        command.

    Raises:
        PredicateError: If a query cannot be parsed, or compares values of incompatible types.
        ColumnNotFoundError: If the table has no such column; the message suggests similar names.
        FormatError: If a file of the sample is damaged.
        ValueError: If ``sample_bytes`` is not positive.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> rows = pa.table({"user": [n * 7919 % 200_003 for n in range(200_000)], "x": range(200_000)})
        >>> pq.write_table(rows, path, row_group_size=50_000, max_rows_per_page=2_000)
        >>> advice = ia.advise(path, ["user = 42", "user = 4711"])
        >>> advice.indexes
        (PageIndex(int96=None), BloomGranule(column='user', fpp=0.01, granularity='page'))
        >>> query = advice.queries[0]
        >>> query.now.row_groups, query.advised.pages < query.now.pages / 10
        (1.0, True)
    """
    if sample_bytes < 1:
        raise ValueError(f"sample_bytes is {sample_bytes}; it must be 1 or more")
    requested = requested_queries(where, queries, columns)
    return advise_on(
        source,
        requested,
        sample_bytes=sample_bytes,
        rewrites=True,
        show=show,
        storage_options=storage_options,
    )


def requested_queries(
    where: Where | Sequence[Where], queries: str | os.PathLike[str] | None, columns: Sequence[str] | None
) -> list[Query]:
    """Return the distinct queries of the arguments of `advise`.

    Raises:
        PredicateError: If a query cannot be parsed.
    """
    names = None if columns is None else tuple(columns)
    requested = [Query(parse_predicate(one), names) for one in _predicates(where)]
    return merged(requested + ([] if queries is None else read_queries(queries)))


def advise_on(
    source: Source | Table,
    requested: Sequence[Query],
    *,
    sample_bytes: int = ALL_BYTES,
    rewrites: bool = False,
    show: Show = lambda _, __: None,
    storage_options: StorageOptions | None = None,
) -> Advice:
    """Advise on parsed queries, and, with ``rewrites``, on orders of rows and page sizes; see `advise`."""
    started = time.perf_counter()
    table = source if isinstance(source, Table) else open(source, storage_options=storage_options)
    bound = [BoundQuery.of(table, query) for query in requested]
    with contextlib.ExitStack() as resources:
        work = Measurement(table, bound, sample_table(table, bound, sample_bytes, resources))
        work.build(show)
        chosen = work.choose()
        paths = _paths(source, table)
        found: list[Rewrite] = []
        # the rows can be written to one file if the files are plain ones, without partitions
        is_plain = isinstance(source, (str, os.PathLike, list, tuple)) and not is_table_url(source)
        if rewrites and bound and is_plain and not table.partition_types:
            found = measure_rewrites(work, table, requested, partial(advise_on, requested=requested))
        is_whole, total = work.size.is_whole, work.size.bytes_total
        options = [
            _option(
                work,
                " + ".join(names),
                command_of(paths, [work.indexes[name] for name in names], lake_index=False),
                work.query_bytes(names),
                work.added_bytes(names),
                rewrites=False,
                is_estimate=not is_whole,
            )
            for names in work.sets(chosen)
        ]
        for one in found:
            if work.pays(one.query_bytes, one.num_bytes):
                command, added = one.command(paths), one.num_bytes - total
                how = {"rewrites": True, "is_estimate": one.is_estimate or not is_whole}
                options.append(_option(work, one.name, command, one.query_bytes, added, **how))
        return Advice(
            command=command_of(paths, [work.indexes[name] for name in chosen], lake_index=work.lake_index),
            indexes=tuple(work.indexes[name] for name in chosen),
            lake_index=work.lake_index,
            measured=work.measured(chosen),
            options=tuple(_ranked(options, total)),
            queries=tuple(
                work.query_advice(number, chosen, [rewrite.lowest(number) for rewrite in found])
                for number in range(len(bound))
            ),
            columns=() if bound else tuple(work.shapes),
            not_built=work.not_built,
            sample=work.size,
            seconds=time.perf_counter() - started,
        )


def _predicates(where: Where | Sequence[Where]) -> list[Where]:
    """Return a list of predicates; a list of tuples is one predicate in pyarrow's form."""
    if where is None:
        return []
    is_many = isinstance(where, (list, tuple)) and all(
        isinstance(one, (str, pc.Expression, Predicate)) for one in where
    )
    return list(cast("Sequence[Where]", where)) if is_many else [cast("Where", where)]


def _paths(source: Source | Table, table: Table) -> list[str]:
    """Return the paths of the files for the command."""
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(source)]
    if isinstance(source, (list, tuple)):
        return [os.fspath(path) for path in source]
    return [file.path for file in table.files] if len(table.files) <= 3 else [table.name]


def _option(
    work: Measurement, name: str, command: str | None, query_bytes: Sequence[float], added: float, **how: bool
) -> Option:
    """Return an option; ``how`` are its attributes ``rewrites`` and ``is_estimate``."""
    assert command is not None
    now, read = work.mean_bytes(work.query_bytes(())), work.mean_bytes(query_bytes)
    saved = now - read
    return Option(name, command, round(read), round(saved), saved / max(1.0, now), round(added), **how)


def _ranked(options: Iterable[Option], total_bytes: int) -> list[Option]:
    """Return options, first those that save most in some runs, less the bytes that have to be written."""

    def price(option: Option) -> int:
        written = option.added_bytes + (total_bytes if option.rewrites else 0)
        return written - RUNS_TO_PAY * option.saved_bytes

    return sorted(options, key=lambda option: (price(option), option.name))
