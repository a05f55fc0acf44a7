"""Other arrangements of rows: an order and a page size, for which the files have to be rewritten."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from intarsia.advice.candidates import options_of
from intarsia.advice.queries import Query
from intarsia.embed.attach import Attachable
from intarsia.errors import IntarsiaError
from intarsia.predicate import Constant, Predicate
from intarsia.predicate.nodes import dotted, leaves
from intarsia.write import write_table
from intarsia.write.sorting import sort_keys


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


def write_arrangement(
    rows: pa.Table, arrangement: Arrangement, path: str, row_group_size: int | None = None
) -> None:
    """Write rows in the order of an arrangement, unless it is along a curve, to a file.

    Args:
        rows: The rows.
        arrangement: The arrangement.
        path: The file.
        row_group_size: The number of rows per row group; None for the default of `write_table`.

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
            yield dotted(leaf.column)


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
