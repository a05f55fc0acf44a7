"""``intarsia optimize``: rewrite a lake with Spark, sorted and indexed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from intarsia.cli.advise_command import parse_size
from intarsia.cli.arguments import AsJson, split_names
from intarsia.cli.failures import UsageError
from intarsia.cli.index_options import BloomColumns, DistinctColumns, IndexCalls, parse_indexes
from intarsia.cli.spark_jobs import run_job
from intarsia.cli.terminal import print_json, printable

EXAMPLES = """
intarsia optimize lake/ sorted/ --sort-by tailnum --distinct dest
intarsia optimize lake/ sorted/ --sort-by month,dep_delay:descending --rows-per-page 2000
intarsia optimize lake/ clustered/ --hilbert-by origin,dest --target-file-size 256MB
intarsia optimize lake/ flat/ --zorder-by origin,dest --no-partitions --compression snappy
intarsia optimize lake/ parts/ --partition-by carrier --add 'zone_map(dep_delay)' --json
intarsia optimize sales.flights sorted/ --sort-by tailnum --spark yarn
"""

_DIRECTIONS = ("ascending", "descending")


def optimize(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE", help="Files, folders or globs, or the name of a table.", show_default=False
        ),
    ],
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DESTINATION",
            help="A new folder on this machine, or on storage that all machines share.",
            show_default=False,
        ),
    ],
    sort_by: Annotated[
        list[str] | None,
        typer.Option("--sort-by", metavar="A,B", help="Sort by columns; A:descending reverses one."),
    ] = None,
    zorder_by: Annotated[
        list[str] | None,
        typer.Option("--zorder-by", metavar="A,B", help="Cluster by columns along a Z-order curve."),
    ] = None,
    hilbert_by: Annotated[
        list[str] | None,
        typer.Option("--hilbert-by", metavar="A,B", help="Cluster by columns along a Hilbert curve."),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-by", metavar="A,B", help="Columns that become folders; by default as in the source."
        ),
    ] = None,
    no_partitions: Annotated[
        bool, typer.Option("--no-partitions", help="Write no folders for partition columns.")
    ] = False,
    target_file_size: Annotated[
        str, typer.Option("--target-file-size", metavar="SIZE", help="The approximate size of each file.")
    ] = "128MiB",
    rows_per_page: Annotated[
        int, typer.Option("--rows-per-page", metavar="N", min=1, help="Maximum number of rows per page.")
    ] = 4096,
    compression: Annotated[
        str, typer.Option("--compression", metavar="CODEC", help="zstd, snappy, gzip, lz4, brotli or none.")
    ] = "zstd",
    add: IndexCalls = None,
    distinct: DistinctColumns = None,
    bloom: BloomColumns = None,
    spark: Annotated[
        str,
        typer.Option(
            "--spark",
            metavar="[MASTER]",
            help="A master such as local[4], yarn or sc://host; by default the master of "
            "spark-submit, or all cores of this machine.",
            show_default=False,
        ),
    ] = "",
    json: AsJson = False,
) -> None:
    """Rewrite a lake with Spark into a new folder, sorted, with small pages and with indexes.

    The new rows are compared with the source before the folder appears. The source is not changed.
    """
    if no_partitions and partition_by:
        raise UsageError(
            "--no-partitions and --partition-by cannot be combined; use one of them",
            reason="conflicting-options",
        )
    options: dict[str, Any] = {
        "sort_by": parse_sort_keys(sort_by),
        "zorder_by": split_names(zorder_by, "--zorder-by"),
        "hilbert_by": split_names(hilbert_by, "--hilbert-by"),
        "partition_by": () if no_partitions else split_names(partition_by, "--partition-by"),
        "target_file_size": parse_size(target_file_size, "--target-file-size"),
        "rows_per_page": rows_per_page,
        "compression": compression,
        "indexes": parse_indexes(bloom, distinct, add),
    }
    report = run_job(
        spark,
        lambda session: _optimize(session, source[0] if len(source) == 1 else source, destination, options),
    )
    if json:
        print_json(report.to_dict())
    else:
        print("\n".join(map(printable, str(report).splitlines())))


def _optimize(session: Any, source: Any, destination: str, options: dict[str, Any]) -> Any:
    from intarsia.spark.optimize import optimize as optimize_with_spark

    return optimize_with_spark(session, source, destination, **options)


def parse_sort_keys(given: Sequence[str] | None) -> list[tuple[str, str]] | None:
    """Parse columns to sort by, each with an optional direction.

    Example:
        >>> parse_sort_keys(["day,at:descending", "a:b"])
        [('day', 'ascending'), ('at', 'descending'), ('a:b', 'ascending')]

    Raises:
        UsageError: If a name is empty.
    """
    names = split_names(given, "--sort-by")
    if names is None:
        return None
    keys = []
    for name in names:
        column, colon, direction = name.rpartition(":")
        keys.append((column, direction) if colon and direction in _DIRECTIONS else (name, "ascending"))
    return keys
